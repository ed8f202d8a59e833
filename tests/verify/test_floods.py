"""Attempts that write floods of results: memory of the judge, and attempts judged beside them."""

# pyright: basic
import dataclasses

import pytest

from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.judge.outcomes import function_outcomes
from upsolve.verify.judge.plans import judge, judge_all
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.sandbox import runner
from upsolve.verify.sandbox.cgroup import ControlGroup

TASK = Task("t", "", (TestCase(TestKind.CALL, "f(1)", "1"), TestCase(TestKind.CALL, "f(2)", "[2]")), "f")
END = runner.Exit(0, 0, False, False, 0.0, 0.0, 0, b"", b"", b"", False, ())


def results(*lines):
    return dataclasses.replace(END, results=b"\n".join(lines))


def nested(index, item, count):
    return b'{"test":%d,"value":["list",%s0]}' % (index, item * count)


def test_a_flood_is_not_parsed_and_other_tests_keep_their_results():
    flood = results(b'{"lines":[1]}', nested(0, b"[],", 10**6), b'{"test":1,"value":["list",2]}', b'{"done":true}')
    outcomes, errors = function_outcomes(TASK, flood, "")
    assert outcomes == [Status.FAILED, Status.PASSED] and len(errors) == 1
    assert all(len(str(report)) < 100 for report in flood.reports)
    assert [report for report in flood.reports if "test" not in report] == [{"lines": [1]}, {"done": True}]


@pytest.mark.parametrize(
    "other", [b'{"lines":[%s1]}' % (b"1," * 10**6), b"[" * 10**6, b"x" * 10**6, b'{"test":7,"value":1}' * 10**5]
)
def test_long_lines_of_other_kinds(other):
    outcomes, _ = function_outcomes(TASK, results(other, b'{"test":0,"value":1}', b'{"test":1,"value":["list",2]}'), "")
    assert outcomes == [Status.PASSED] * 2


def test_a_long_value_is_compared_where_a_long_one_is_expected():
    values = [*range(45_000)]
    task = dataclasses.replace(TASK, tests=(TestCase(TestKind.CALL, "f(1)", str(values)), TestCase(TestKind.CALL, "f(2)", "2")))
    code = "def f(x):\n    return list(range(45_000)) if x == 1 else {}\n"
    assert judge(task, Attempt("t", code.format("x"))).passed == 2
    assert judge(task, Attempt("t", code.format("list(range(60_000))"))).outcomes == (Status.PASSED, Status.FAILED)


def test_more_tests_than_other_result_lines_are_read(monkeypatch):
    monkeypatch.setattr(runner, "MOST_RECORDS", 4)
    task = dataclasses.replace(TASK, tests=tuple(TestCase(TestKind.CALL, f"f({n})", str(n)) for n in range(50)))
    assert judge(task, Attempt("t", "def f(x):\n    return x\n")).passed == 50


@pytest.mark.skipif(not ControlGroup().active, reason="no control groups here")
def test_what_an_attempt_wrote_is_no_memory_of_its_neighbours():
    """Output files count as memory of the control group until they are emptied."""
    flood = "import os\nfor fd in (1, 2, 3):\n    for _ in range(15):\n        os.write(fd, bytes(1 << 20))\ndef f(x):\n    return x\n"
    honest = "def f(x):\n    return len(bytes([1]) * (200 << 20)) and x\n"
    settings = JudgeSettings(Limits(memory_bytes=256 << 20))
    task = dataclasses.replace(TASK, tests=TASK.tests[:1])
    verdicts = judge_all([(task, Attempt("t", code)) for code in [*[flood] * 4, honest]], settings)
    assert [verdict.status for verdict in verdicts] == [Status.OUTPUT_LIMIT] * 4 + [Status.PASSED]
