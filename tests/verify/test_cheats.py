# pyright: basic
"""Attempts that define the names with which tests decide, or return objects that agree, do not pass where only a right program may."""

from dataclasses import replace
from pathlib import Path

import pytest
from honest.programs import read

from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.judge.plans import judge_all
from upsolve.verify.judge.tested import called_names, rebinds, required_names
from upsolve.verify.limits import JudgeSettings, Limits

CHEATS = read("names", Path(__file__).with_name("cheats.txt"))
FAST = JudgeSettings(Limits(wall_seconds=5, cpu_seconds=2))


def test_no_cheat_passes_without_a_label():
    verdicts = judge_all([cheat.pair for cheat in CHEATS], FAST)
    works = [
        (cheat.name, verdict.status.value)
        for cheat, verdict in zip(CHEATS, verdicts, strict=True)
        if verdict.status is Status.UNSCORED
        or (verdict.status is Status.PASSED and "in_process" not in verdict.isolation.split(","))
    ]
    assert works == []
    assert len(CHEATS) >= 40


@pytest.mark.parametrize(
    ("setup", "entry", "tests", "names"),
    [
        ("", "", "assert f(2) == len([1])", ["f"]),
        ("from math import gcd", "gcd", "for a in [4]: assert gcd(a, 2) == 2", ["gcd"]),
        ("from math import gcd", "", "assert gcd(4, 6) == 2", ["gcd"]),
        ("from math import gcd", "", "assert gcd(4, 6) == f(2)", ["f"]),
        ("def add(a, b): pass", "", "assert g(add(1, 2), add(3, 4))", ["add", "g"]),
        ("def add(a, b): return a - b", "", "assert add(1, 2) == 3 and g(3)", ["add", "g"]),
        ("def add(a, b): return a - b", "", "assert add(g(1), 2) == 3", ["g"]),
        ("x = []\ndef seen(): return x", "", "assert seen() == [1] and g()", ["g"]),
        ("def check(n): return f(n) == n", "", "assert check(2)", ["f"]),
        ("def same(a, b): return int(a) == b", "", "assert same(f(2), 4) and int('2') == 2", ["f"]),
        ("", "", "def t(f, x=g(1)): return f(x)\nassert t(h, 2)", ["g", "h"]),
        ("", "", "assert [y for y in f(y)]", ["f", "y"]),
        ("", "", "assert sum(x for x in [1]) == 1", None),
        ("", "", "assert Node(1)", None),
        ("", "", "assert f.cache", None),
        ("", "", "assert eval('f(2)') == 4", None),
        ("def check(): return eval('f(2)')", "", "assert check() == 4", None),
        ("", "", "from attempt import f\nassert f(2)", None),
        ("", "", "import math\nassert math.gcd(4, 6) == 2", []),
        ("", "", "g = f\nassert g(2) == 4", ["f"]),
        ("", "", "g = f\nh = g\nassert h(2) == 4", ["f"]),
        ("", "", "for h in (f, g): assert h(2) == 4", ["f", "g"]),
        ("", "", "assert all(h(2) == 4 for h in [f, g])", ["f", "g"]),
        ("", "", "g = f\nassert g.cache", None),
        ("", "", "g = f\nh = g\nassert h.cache", None),
        ("", "", "try: g = f\nexcept NameError: g = h\nassert g(2) == 4", None),
        ("", "", "g = f if x else h\nassert g(2) == 4", None),
        ("", "", "def test(): assert Find_Min([3, 1]) == 1", ["Find_Min"]),
        ("", "", "assert Find_Min([3, 1]) == 1 and Find_Min(x) == 1", None),
        ("", "", "assert Money(2) == 2", None),
        ("", "", "assert Solution().f(2) == 4", ["Solution"]),
        ("", "", "s = Solution()\nassert s.f(2) == g(4)", ["Solution", "g"]),
        ("", "", "assert isinstance(Solution(), Solution)", None),
        ("", "", "assert Solution.f(2) == 4", None),
        ("", "", "s = Solution\nassert s().f(2) == 4", None),
    ],
)
def test_which_names_are_the_attempts(setup, entry, tests, names):
    task = Task("t", "", (TestCase(TestKind.CODE, tests),), entry, setup=setup)
    assert called_names(task) == (None if names is None else tuple(names))


def test_a_capitalised_name_is_a_function_if_the_reference_says_so():
    task = Task("t", "", (TestCase(TestKind.CODE, "assert set(Find_Min([3, 1])) == {1}"),))
    assert called_names(task) is None
    for code, names in (
        ("def Find_Min(x): return [min(x)]", ("Find_Min",)),
        ("class Find_Min: pass", None),
        ("Find_Min = 1", None),
    ):
        assert called_names(replace(task, reference=f"import math\n{code}")) == names
    known = replace(task, reference="def Find_Min(x): return [min(x)]")
    verdicts = judge_all([(known, Attempt("t", f"def Find_Min(x): return [{name}(x)]")) for name in ("min", "max")], FAST)
    assert [(one.status, one.isolation.split(",")[-1]) for one in verdicts] == [
        (Status.PASSED, "across"),
        (Status.FAILED, "across"),
    ]


@pytest.mark.parametrize(
    ("entry", "calls", "names"),
    [("", ["sum([1])"], ("sum",)), ("", ["sum([1])", "f(2)"], ()), ("sum", ["sum([1])", "f(2)"], ("sum",)), ("", ["f(2)"], ())],
)
def test_which_builtins_the_attempt_has_to_define(entry, calls, names):
    assert required_names(Task("t", "", tuple(TestCase(TestKind.CALL, call, "1") for call in calls), entry)) == names


@pytest.mark.parametrize(
    ("setup", "test", "again"),
    [
        ("", "assert f(2) == 4", False),
        ("import math", "assert f(2) == 4", False),
        ("", "def check(f): assert f == 4\ncheck(f(2))", True),
        ("from math import gcd", "assert gcd(4, 6) == 2", True),
        ("class Solution:\n    def f(self): pass", "assert Solution().f() == 2", True),
        ("", "assert sum([1, 2]) == 3", True),
    ],
)
def test_which_tasks_have_names_that_are_bound_again(setup, test, again):
    assert rebinds(Task("t", "", (TestCase(TestKind.CODE, test),), setup=setup)) is again
