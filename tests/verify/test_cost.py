"""Cost of programs that passed: rounds of at least 50 ms, the least of them, a share of the repetitions."""

import math
from dataclasses import replace

import pytest

from upsolve.config import RewardConfig
from upsolve.reward.formula import reward
from upsolve.types import Attempt, Group, Status, Task, TestCase, TestKind, Verdict
from upsolve.verify.judge.plans import judge, with_cost
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.sandbox.process import Job
from upsolve.verify.sandbox.runner import Exit

TASK = Task("t", "", (TestCase(TestKind.CALL, "f(3)", "9"),), "f")
SETTINGS, ONCE = JudgeSettings(cost=3), JudgeSettings(cost=1)
CODE = "def f(n):\n    return n * n\n"
PASSED = Verdict("a", Status.PASSED, 1, 1, cpu_seconds=0.7)


def measured(*seconds, language="python", verdict=PASSED, settings=SETTINGS, done=True, kind="tests"):
    """The verdict with its cost, and the repetitions of each run, if the runs take these times one after the other."""
    attempt, asked = Attempt("t", CODE, language), []

    def run(task, attempt, _settings):
        end = yield Job({"kind": kind, "code": attempt.code, "tests": task.tests})
        return Verdict("a", Status.PASSED, 1, 1, cpu_seconds=end.cpu_seconds, wall_seconds=end.wall_seconds)

    plan = with_cost(TASK, attempt, settings, verdict=verdict, run=run)
    try:
        job = next(plan)
        for each in seconds:
            asked.append(job.attempt.get("again", 0) + len(job.attempt["tests"]))
            job = plan.send(Exit(0, cpu_seconds=each, wall_seconds=each, results=b'{"done":true}\n' if done else b""))
    except StopIteration as ended:
        return ended.value.cpu_seconds, asked
    raise AssertionError(f"asks for {job.attempt}")


def test_the_cost_is_the_least_round_by_its_repetitions():
    # 10 ms once: 5 repetitions are enough, 8 the next power of 2; they take 64 ms, then 60 and 72: 60 / 8
    assert measured(0.010, 0.064, 0.060, 0.072) == (pytest.approx(0.0075), [1, 8, 8, 8])


def test_a_long_program_is_not_repeated():
    assert measured(0.3, 0.2, 0.4) == (0.2, [1, 1, 1])


def test_repetitions_grow_until_a_round_is_long_enough():
    # 1 ms: 50 would be enough, but at most 16 at once; 4 ms for 16: 200 would be, so 256
    assert measured(0.001, 0.004, 0.064, 0.064, 0.064) == (pytest.approx(0.064 / 256), [1, 16, 256, 256, 256])


def test_a_cost_that_cannot_be_measured_is_none():
    assert measured(*[0.001] * 4) == (None, [1, 16, 256, 4096])
    assert measured(0.1, done=False) == (None, [1])  # a repetition raised
    assert measured(0.06, 11.0)[0] is None  # elapsed time of an attempt


def test_other_programs_run_in_as_many_processes():
    assert measured(0.02, *[0.02] * 4 * 3, kind="program") == (pytest.approx(0.02), [1] * 13)  # 4 times 20 ms a round
    assert measured(0.02, 0.08, 0.06, 0.1, language="c++") == (pytest.approx(0.015), [1, 4, 4, 4])


def test_only_passed_attempts_are_measured_and_only_if_asked():
    failed = replace(PASSED, status=Status.FAILED)
    assert measured(verdict=failed) == (0.7, []) and measured(settings=JudgeSettings()) == (0.7, [])


COUNTED = "import builtins\n\n\ndef f(n):\n    builtins.runs = getattr(builtins, 'runs', 0) + 1\n    if builtins.runs > {}:\n        raise ValueError\n    return n * n\n"
SORTING = Task("s", "", (TestCase(TestKind.CALL, "f([3, 1, 2])", "0"),), "f")
IN_PLACE = "def f(a):\n    assert a == [3, 1, 2]\n    a.sort()\n    return 0\n"


@pytest.mark.slow
def test_tests_are_repeated_in_the_process_of_the_attempt():
    assert judge(TASK, Attempt("t", CODE), ONCE).cpu_seconds < 0.001  # a process alone takes longer
    assert judge(TASK, Attempt("t", COUNTED.format(3)), ONCE).cpu_seconds is None
    assert judge(TASK, Attempt("t", COUNTED.format(3)), JudgeSettings()).status is Status.PASSED
    verdict = judge(SORTING, Attempt("s", IN_PLACE), ONCE)
    assert verdict.status is Status.PASSED and verdict.cpu_seconds is not None  # each repetition has arguments of its own


def rewards(*verdicts, **config):
    attempts = tuple(Attempt("t", f"x = {n}") for n in range(len(verdicts)))
    scored = reward(Group(TASK, attempts, verdicts), RewardConfig(weights={"outcome": 0, "efficiency": 1}, **config))
    return scored.rewards_G.tolist(), scored.left_out.total()


def test_efficiency_compares_costs_below_the_resolution_of_a_clock():
    costs = [replace(PASSED, cpu_seconds=seconds, isolation="user,cost") for seconds in (2e-5, 4e-5, 6e-5)]
    assert rewards(*costs) == (pytest.approx([1, 0, math.log2(4 / 6)]), 0)
    runs = [replace(one, isolation="user") for one in costs]
    assert rewards(*runs) == ([0, 0, 0], 0)  # all rounded to 1 ms
    assert rewards(*costs, runs[0]) == (pytest.approx([1, 0, math.log2(4 / 6)]), 1)  # that includes the start of a process


def test_a_cache_of_results_gains_nothing():
    cached = "from functools import cache\n\n\n@cache\ndef f(n):\n    for _ in range(10**5):\n        pass\n    return n * n\n"
    assert judge(TASK, Attempt("t", cached), ONCE).cpu_seconds > 3e-4, (
        "each repetition counts to 100,000, in 3 ns a step or more"
    )


def test_a_program_that_waits_has_no_cost():
    waits = Attempt("t", "import time\n\n\ndef f(n):\n    time.sleep(0.2)\n    return n * n\n")
    verdict = judge(TASK, waits, replace(ONCE, limits=Limits(wall_seconds=0.4)))
    assert verdict.status is Status.PASSED and verdict.cpu_seconds is None
