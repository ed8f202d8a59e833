"""Attempts that are judged together in one sandbox have the verdicts that they have alone, in any order and mixture of tasks and languages."""

import random

import pytest

from upsolve.checkers import CheckerProgram
from upsolve.types import Attempt, Task, TestCase, TestKind
from upsolve.verify.judge.plans import judge, judge_all
from upsolve.verify.limits import JudgeSettings, Limits

SETTINGS = JudgeSettings(Limits(wall_seconds=5, cpu_seconds=0.5))
FUNCTION = "def check(input, expected, output):\n    return output.split() == expected.split()\n"
PROGRAM = CheckerProgram("bash", 'read a < "$2"; read b < "$3"; [ "$a" = "$b" ]').text
SUMS = tuple(TestCase(TestKind.STDIO, f"{a} {b}\n", f"{a + b}\n") for a, b in ((1, 2), (10, 20), (5, 5)))
TASKS = (
    *(Task(name, "", SUMS, language="", compare=compare, checker=checker) for name, compare, checker in (
        ("lines", "lines", ""), ("function", "checker", FUNCTION), ("program", "checker", PROGRAM),
    )),
    Task("limits", "", SUMS, language="", compare="checker", checker=FUNCTION, limit_seconds=1.0, limit_bytes=256 << 20),
)  # fmt: skip
PROGRAMS = (
    *(("", code) for code in ("print(sum(map(int, input().split())))", "print(3)", "1 / 0", "import os\nos._exit(0)", "print('3' * 2**21)")),
    *(("bash", code) for code in ("read a b; echo $((a + b))", "echo 3", "exit 4", "if then", "read a b; echo $((a + b)) > f; cat f")),
)  # fmt: skip
TESTS = {
    "calls": (TestCase(TestKind.CALL, "f(2)", "4"), TestCase(TestKind.CALL, "f(3)", "6")),
    "code": (TestCase(TestKind.CODE, "assert f(2) == 4"), TestCase(TestKind.CODE, "assert f(3) == 6")),
    "mixed": (
        TestCase(TestKind.CALL, "f(2)", "4"),
        TestCase(TestKind.STDIO, "", ""),
        TestCase(TestKind.CODE, "assert f(3) == 6"),
    ),
}
FUNCTIONS = tuple(
    f"def f(x):\n    {body}\n" for body in ("return 2 * x", "return 4", "raise KeyError(x)", "return f(x)", "return (")
)
QUERIES = ("SELECT a FROM t", "SELECT 1", "SELEC")
TABLE = Task(
    "rows",
    "",
    (TestCase(TestKind.STDIO, "CREATE TABLE t (a); INSERT INTO t VALUES (1), (2);", "[1]\n[2]"),),
    language="sqlite",
    compare="rows",
)


def pairs():
    """Every program at every task, every function at every kind of test, and queries."""
    found = [(task, Attempt(task.task_id, code, language=language)) for task in TASKS for language, code in PROGRAMS]
    found += [(Task(name, "", tests, "f"), Attempt(name, code)) for name, tests in TESTS.items() for code in FUNCTIONS]
    return found + [(TABLE, Attempt("rows", query, language="sqlite")) for query in QUERIES]


def said(verdict):
    return verdict.status, verdict.outcomes, verdict.error_type


@pytest.fixture(scope="module")
def alone():
    return [said(judge(task, attempt, SETTINGS)) for task, attempt in pairs()]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 20))])
def test_attempts_judged_together_have_the_verdicts_that_they_have_alone(seed, alone):
    order = [*range(len(alone))]
    random.Random(seed).shuffle(order)
    given = pairs()
    together = judge_all([given[index] for index in order], SETTINGS)
    assert [said(verdict) for verdict in together] == [alone[index] for index in order]
