"""The imports of judges of contests, for programs that rely on them."""

from dataclasses import replace

from upsolve.config import load_recipe
from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.judge.plans import judge, judge_all
from upsolve.verify.limits import Imports, JudgeSettings, Limits, imports_without, judge_settings, prepared, with_imports
from upsolve.verify.pool.cache import key_of

CONTEST = JudgeSettings(Limits(wall_seconds=8, cpu_seconds=5), imports=Imports.CONTEST)
LEETCODE = "class Solution:\n    def total(self, numbers: List[int]) -> int:\n        return reduce(operator.add, numbers, 0)\n"
SOLUTION = Task("s", "", (TestCase(TestKind.CALL, "Solution().total([1, 2])", "3"),), "Solution")
LINES = Task("l", "", (TestCase(TestKind.STDIO, "3\n", "6\n"),))


def code(*sources, **fields):
    return Task("c", "", tuple(TestCase(TestKind.CODE, source) for source in sources), **fields)


def test_programs_find_the_imports_only_if_configured():
    program = "print(factorial(int(input())))\n"
    pairs = [(SOLUTION, Attempt("s", LEETCODE)), (LINES, Attempt("l", program))]
    assert [v.status for v in judge_all(pairs, CONTEST)] == [Status.PASSED] * 2
    plain = judge_all(pairs, replace(CONTEST, imports=Imports.NONE))
    assert [v.error_message for v in plain] == ["name 'List' is not defined", "name 'factorial' is not defined"]


def test_lines_are_those_of_the_attempt():
    task = Task("f", "", (TestCase(TestKind.CALL, "f()", "1"),), "f")
    verdict = judge(
        task, Attempt("f", "def f():\n    queue = deque()\n\n    return queue.pop()\n"), replace(CONTEST, lines=True)
    )
    assert (verdict.error_line, verdict.executed_lines, verdict.findings[0].line) == (4, (1, 2, 4), 4)


def test_the_tests_call_the_attempt_and_not_an_import():
    """Named alike: a wrong gcd of the attempt must fail, and a missing one, whether the entry point is known or not."""
    wrong, right, none = "def gcd(a, b):\n    return 1\n", "def gcd(a, b):\n    return math.gcd(a, b)\n", "x = 1\n"
    for task in (code("assert gcd(4, 6) == 2"), replace(SOLUTION, tests=(TestCase(TestKind.CALL, "gcd(4, 6)", "2"),))):
        statuses = [judge(task, Attempt(task.task_id, program), CONTEST).status for program in (wrong, right, none)]
        assert statuses == [Status.FAILED, Status.PASSED, Status.RUNTIME_ERROR]


def test_the_setup_of_a_task_comes_after_and_a_future_import_first():
    assert with_imports(replace(LINES, setup="inf = 7\n")).setup.endswith("\ninf = 7\n")
    assert with_imports(replace(LINES, setup="from __future__ import annotations\n")).setup.startswith("from __future__")
    assert "gcd" not in imports_without(("gcd", "math")) and "isqrt" in imports_without(("gcd", "math"))
    broken = code("assert (")
    assert with_imports(broken) is broken


def test_only_python_gets_them():
    rows = [LINES, replace(LINES, language="cpp"), replace(LINES, language=""), Attempt("l", "")]
    assert [*prepared(rows, Imports.CONTEST)] == [with_imports(LINES), *rows[1:]]
    assert [*prepared(rows, Imports.NONE)] == rows


def test_a_recipe_and_the_key_of_a_verdict_know_them():
    settings = judge_settings(load_recipe("demo", ["verify.imports=contest"]).verify)
    assert settings.imports is Imports.CONTEST
    assert len({key_of(LINES, Attempt("l", ""), replace(settings, imports=which)) for which in Imports}) == 2
