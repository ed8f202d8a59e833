"""Fields of a verdict besides its status: reason, position, executed lines, flakiness."""

import json
import time
from dataclasses import replace

import pytest

from upsolve.records import from_row, to_row
from upsolve.types import Attempt, Status, Task, TestCase, TestKind, Verdict, with_points
from upsolve.verify.judge.compare import close, tolerance_of
from upsolve.verify.judge.outputs import first_difference, floats_match, output_matches
from upsolve.verify.judge.plans import judge
from upsolve.verify.limits import JudgeSettings, Limits

SETTINGS = JudgeSettings(Limits(wall_seconds=6, cpu_seconds=5))


def calls(*tests, **more):
    return Task("t", "", tuple(TestCase(TestKind.CALL, *test) for test in tests), "f", **more)


def stdio(*tests, **more):
    return Task("p", "", tuple(TestCase(TestKind.STDIO, *test) for test in tests), **more)


def run(task, code, settings=SETTINGS):
    return judge(task, Attempt(task.task_id, code), settings)


def test_the_error_of_a_wrong_value_names_the_call():
    verdict = run(calls(("f(1)", "1"), ("f([2])", "{'a': 2}")), "def f(x):\n    return 1 if x == 1 else [x, None]\n")
    assert verdict.error_message == "test 2: f([2]) gave [[2], None], expected {'a': 2}"
    hidden = replace(calls(("f(1)", "12345")), tests=(TestCase(TestKind.CALL, "f(1)", "12345", hidden=True),))
    assert run(hidden, "def f(x):\n    return 1\n").error_message == "hidden test 1: wrong value"


def test_results_that_are_too_long_exceed_the_output_limit():
    assert run(calls(("f(1)", "1")), "def f(n):\n    return 'x' * 30_000_000\n").status is Status.OUTPUT_LIMIT


@pytest.mark.parametrize(
    "value", ["10 ** 5000", "[10 ** 5000]", "{1: -(10 ** 5000)}", "'x' * 10 ** 6", "float('inf')", "lambda: 1"]
)
def test_no_value_is_too_odd_to_be_wrong(value):
    verdict = run(calls(("f(1)", "1")), f"def f(x):\n    return {value}\n")
    assert verdict.status is Status.FAILED and len(verdict.error_message) < 300


def test_full_memory_is_memory_limit():
    code = "def f(x):\n    kept = []\n    while True:\n        kept.append((int(n), int(n)) for n in (1, 2))\n"
    small = JudgeSettings(Limits(wall_seconds=8, cpu_seconds=6, memory_bytes=128 << 20))
    assert run(calls(("f(1)", "1")), code, small).status is Status.MEMORY_LIMIT


@pytest.mark.parametrize("item", ["(1, len(kept))", "[len(kept)]"])
def test_memory_that_globals_fill_is_memory_limit(item):
    """The program's objects stay when its exception is reported."""
    small = JudgeSettings(Limits(wall_seconds=20, cpu_seconds=8, memory_bytes=128 << 20))
    fill = f"    while n:\n        kept.append({item})\n"
    assert run(stdio(("", "")), f"kept = []\nfor n in [1]:\n{fill}", small).status is Status.MEMORY_LIMIT
    called = f"kept = []\ndef f(n):\n{fill}    return 1\n"
    asserted = Task("t", "", tuple(TestCase(TestKind.CODE, f"assert f({n}) == 1") for n in (1, 0)))
    for task in (calls(("f(1)", "1"), ("f(0)", "1")), asserted):
        assert run(task, called, small).outcomes == (Status.MEMORY_LIMIT, Status.PASSED)


def test_the_error_of_a_wrong_output_shows_its_first_line():
    verdict = run(stdio(("", "a\nb\nc\n")), "print('a')\nprint('x')\n")
    assert verdict.error_message == "test 1: line 2: 'x', expected 'b'"
    assert first_difference("a", "a\nb") == "line 2: nothing, expected 'b'"
    assert first_difference("a \nb", "a\nb") == "only white space differs"


@pytest.mark.parametrize(
    ("compare", "got", "expected", "same"),
    [
        ("lines", "a \nb\n\n", "a\nb", True),
        ("lines", "a b", "a  b", False),
        ("exact", "a\n", "a", False),
        ("exact", "a\n", "a\n", True),
        ("tokens", "a\nb", "a  b", True),
        ("tokens", "a b c", "a b", False),
        ("floats", "x 1.0000001 2", "x 1 2.0", True),
        ("floats", "1.1", "1", False),
        ("floats:0.2", "1.1", "1", True),
        ("floats", "nan", "1", False),
        ("floats", "1 2", "1", False),
        ("floats", "yes", "no", False),
    ],
)
def test_outputs_are_compared_as_the_task_asks(compare, got, expected, same):
    assert output_matches(got, expected, compare) is same


def test_tolerance_reaches_into_values():
    task = calls(("f(3)", "[0.3, (1, 'a')]"), compare="floats:1e-9")
    assert run(task, "def f(x):\n    return [0.1 * x, (1.0, 'a')]\n").status is Status.PASSED
    assert run(replace(task, compare="lines"), "def f(x):\n    return [0.1 * x, (1.0, 'a')]\n").status is Status.FAILED
    wide, narrow = tolerance_of("floats:1"), tolerance_of("floats:1e-9")
    assert not close(float("nan"), 1.0, wide) and not close((1.0,), [1.0], wide) and floats_match("1e3", "1000", narrow)


CHECKER = (
    "def check(given, expected, output):\n    a, b = map(int, output.split())\n    return a + b == int(given) and 0 < a < b\n"
)


def test_a_checker_decides_where_many_answers_are_right():
    task = stdio(("10", ""), ("7", ""), compare="checker", checker=CHECKER)
    assert run(task, "n = int(input())\nprint(2, n - 2)\n").status is Status.PASSED
    wrong = run(task, "n = int(input())\nprint(n - 2, 2)\n")
    assert (wrong.status, wrong.error_message) == (Status.FAILED, "test 1: the checker rejects the output")


RAISES = "print('no numbers')\n"
HANGS = CHECKER.replace(
    "def check(given, expected, output):", "def check(given, expected, output):\n    while output == 'hang\\n': pass"
)


@pytest.mark.parametrize(
    ("checker", "expected", "reference", "code", "status"),
    [
        (CHECKER, "2 8", "", RAISES, "failed"),  # it takes the expected output, so it works
        (CHECKER, "", "n = int(input())\nprint(1, n - 1)\n", RAISES, "failed"),  # the reference's
        (CHECKER, "", "", RAISES, "failed"),  # nothing right is known, and it is no fault of its own
        (HANGS, "2 8", "", "print('hang')\n", "failed"),
        (CHECKER, "ten", "", RAISES, "unscored"),  # it fails on the expected output, too
        (CHECKER.replace("map", "mop"), "2 8", "", RAISES, "unscored"),
        (CHECKER.replace("map", "mop"), "", "", RAISES, "unscored"),
        ("1 / 0\n" + CHECKER, "", "", RAISES, "unscored"),
        ("def check(a, b, c): return 2\n", "2 8", "", RAISES, "unscored"),
    ],
)
def test_a_checker_that_fails_on_an_output_refuses_it_unless_it_is_at_fault(checker, expected, reference, code, status):
    task = stdio(("10", expected), compare="checker", checker=checker, reference=reference)
    verdict = run(task, code, JudgeSettings(Limits(wall_seconds=3, cpu_seconds=0.4)))
    assert verdict.status.value == status, verdict
    assert status == "failed" or "check() must return True, False or points from 0 to 1" in verdict.error_message


def test_a_checker_gives_points():
    task = stdio(("1", ""), ("2", ""), ("4", ""), compare="checker", checker="def check(a, b, output): return int(a) / 4\n")
    found = run(task, "print()\n")
    assert (found.status, found.passed, found.points) == (Status.FAILED, 1, (0.25, 0.5, 1.0))
    assert found.error_message == "test 1: the checker gives 0.25 of the points"
    assert [(one.rule, one.value) for one in found.findings if one.kind == "points"] == [("1", 0.25), ("2", 0.5)]
    assert from_row(Verdict, json.loads(json.dumps(to_row(found)))) == found  # as the service sends it
    whole = run(replace(task, tests=task.tests[2:]), "print()\n")
    assert (whole.status, whole.points, whole.findings) == (Status.PASSED, (1.0,), ())
    assert with_points(whole, (1.0,)) is whole and with_points(found, (None, None, None)).findings == ()
    ended = run(task, "if input() == '2': 1 / 0\n")  # points are those of outputs alone
    assert (ended.passed, ended.points) == (1, (0.25, 0.0, 1.0))
    mixed = replace(task, tests=(TestCase(TestKind.CALL, "f(1)", "1"), *task.tests))
    assert run(mixed, "def f(n): return n\n").points == (1.0, 0.25, 0.5, 1.0)


def test_a_checker_that_is_none_leaves_the_attempt_unscored():
    task = stdio(("10", ""), compare="checker", checker="x = 1")
    assert "defines no check" in run(task, "").error_message
    assert "floats:TOLERANCE" in run(replace(task, compare="closely"), "").error_message


@pytest.mark.parametrize(
    ("kind", "source"), [(TestKind.CALL, "f(2"), (TestKind.CODE, "assert f(2 == 4"), (TestKind.CALL, "x = f(2)")]
)
def test_a_test_that_is_not_python_is_the_tasks_fault(kind, source):
    task = Task("t", "", (TestCase(TestKind.CALL, "f(1)", "2"), TestCase(kind, source, "4")), "f")
    verdict = run(task, "def f(x):\n    return x * 2\n")
    assert verdict.status is Status.UNSCORED and "test 2 is not Python: SyntaxError" in verdict.error_message


SLOW = "import time\ndef f(x):\n    while x == 2:\n        pass\n    return x\n"


def test_a_test_has_a_limit_of_its_own():
    settings = replace(SETTINGS, limits=replace(SETTINGS.limits, test_seconds=0.3))
    verdict = run(calls(("f(1)", "1"), ("f(2)", "2"), ("f(3)", "3")), SLOW, settings)
    assert verdict.outcomes == (Status.PASSED, Status.TIMEOUT, Status.PASSED)
    programs = stdio(("1", "1"), ("2", "2"), ("3", "3"))
    verdict = run(programs, "x = int(input())\nwhile x == 2: pass\nprint(x)\n", settings)
    assert verdict.outcomes == (Status.PASSED, Status.TIMEOUT, Status.PASSED)
    code = Task("c", "", tuple(TestCase(TestKind.CODE, f"assert f({k}) == {k}") for k in (1, 2, 3)), "f")
    assert run(code, SLOW, settings).outcomes == (Status.PASSED, Status.TIMEOUT, Status.UNSCORED)


LINES = "def f(x):\n    if x > 0:\n        return x\n    else:\n        return -x\n\ndef unused():\n    return 1\n"


def test_executed_lines_are_recorded_on_request():
    settings = replace(SETTINGS, lines=True)
    assert run(calls(("f(1)", "1")), LINES, settings).executed_lines == (1, 2, 3, 7)
    assert run(calls(("f(1)", "1"), ("f(-1)", "1")), LINES, settings).executed_lines == (1, 2, 3, 5, 7)
    assert run(calls(("f(1)", "1")), LINES).executed_lines is None
    code = Task("c", "", (TestCase(TestKind.CODE, "assert f(1) == 1"),), "f")
    assert run(code, LINES, settings).executed_lines == (1, 2, 3, 7)
    assert run(stdio(("", "1")), "x = 1\nif x > 2:\n    x = 3\nprint(x)\n", settings).executed_lines == (1, 2, 4)


def test_flaky_attempts_are_found_by_repeating():
    flaky = "import time\ndef f(x):\n    return x + (time.monotonic_ns() // 1000) % 2\n"
    settings = replace(SETTINGS, repeats=30)
    assert [finding.kind for finding in run(calls(("f(1)", "1")), flaky, settings).findings] == ["flaky"]
    assert run(calls(("f(1)", "1")), "def f(x):\n    return x\n", settings).findings == ()


def test_figures_are_honest():
    busy = (
        "import time\ndef f(x):\n    while time.process_time() < start + {}: pass\n    return x\nstart = time.process_time()\n"
    )
    most, least = (run(calls(("f(1)", "1")), busy.format(seconds)).cpu_seconds for seconds in (0.6, 0.1))
    assert most - least == pytest.approx(0.5, abs=0.1)
    big = "def f(x):\n    block = bytearray(200 << 20)\n    block[::4096] = b'x' * len(block[::4096])\n    return x\n"
    empty = run(calls(("f(1)", "1")), "def f(x):\n    return x\n").memory_bytes
    assert run(calls(("f(1)", "1")), big).memory_bytes - empty == pytest.approx(200 << 20, rel=0.05)


def test_processor_time_past_the_limit_is_a_timeout():
    task = stdio(("", "done"))
    code = "import time\nwhile time.process_time() < 0.5: pass\nprint('done')\n"
    assert run(task, code, JudgeSettings(Limits(wall_seconds=60, cpu_seconds=0.2))).status is Status.TIMEOUT
    assert run(task, code).status is Status.PASSED


@pytest.mark.parametrize(
    "code",
    [
        "import sys\ndef f(x):\n    sys.stdout.write('x' * (20 << 20))\n    sys.stdout.flush()\n    return x\n",
        "import sys\nsys.stdout.write('x' * (20 << 20))\nsys.stdout.flush()\n",
        "import sys\ndef f(x):\n    sys.stderr.write('x' * (20 << 20))\n    return x\n",
    ],
)
def test_output_far_past_the_limit_is_no_runtime_error(code):
    assert run(calls(("f(1)", "1")), code).status is Status.OUTPUT_LIMIT
    assert run(stdio(("", "1")), code + "f(1)\n" if "def" in code else code).status is Status.OUTPUT_LIMIT


WRITE = "import os\nfor handle in (3, 4):\n    try:\n        data = {data}\n        while data: data = data[os.write(handle, data):]\n    except OSError: pass\nos._exit(0)\n"


@pytest.mark.parametrize(
    "data",
    [
        "b'\\n' * (8 << 20)",
        "b'{}\\n' * (2 << 20)",
        "b'[' * (8 << 20)",
        "(b'[[],' * (1 << 21))",
        "b'{\"load\": [\"' + b'E' * (7 << 20) + b'\", \"\", 1]}\\n'",
        "b'{\"load\": [[' + b'[],' * (2 << 20) + b'0], \"\", 1]}\\n'",
        "b''.join(b'{\"test\": %d}\\n' % (k * (2**61 - 1)) for k in range(60000))",
    ],
)
def test_a_flood_of_results_is_bounded_in_time_and_in_the_verdict(data):
    started = time.process_time()
    verdict = run(calls(("f(1)", "1")), WRITE.format(data=data))
    assert time.process_time() - started < 10  # a busy machine shares its caches
    assert verdict.status in (Status.RUNTIME_ERROR, Status.FAILED) and len(repr(verdict)) < 5000


def test_a_comparison_that_overflows_is_the_attempts_failure():
    assert run(calls(("f(1)", "1.5"), compare="floats"), "def f(x):\n    return 10 ** 400\n").status is Status.FAILED
