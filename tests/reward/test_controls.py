"""Verdicts of control runs, by hand."""

from collections import Counter
from dataclasses import replace

import pytest

from upsolve.config import RewardConfig
from upsolve.reward.formula import controlled, reward
from upsolve.types import Attempt, Finding, Group, Status, Task, Verdict, with_points

TASK = Task("t", "", entry_point="f")
CODES = (
    "def f(): return 1",
    "def f(): return 2",
    "def f(): return",
    "def g(): return 1",
    "def f(): return 3",
    "def f(): return 4",
)
STATUSES = (Status.PASSED, Status.FAILED, Status.RUNTIME_ERROR, Status.FAILED, Status.UNSCORED, None)


def group(task_id="t"):
    attempts = tuple(Attempt(task_id, code) for code in CODES)
    verdicts = tuple(
        None
        if status is None
        else Verdict(
            attempt.attempt_id,
            status,
            passed=2 if status is Status.PASSED else i % 2,
            total=2,
            judge="upsolve-1",
            error_type="KeyError" if status is Status.RUNTIME_ERROR else "",
            findings=(Finding("traceback", "KeyError", "", 1), Finding("lint", "F401", "", 1)),
            executed_lines=(1,),
            cpu_seconds=float(i),
        )
        for i, (attempt, status) in enumerate(zip(attempts, STATUSES, strict=True))
    )
    return Group(replace(TASK, task_id=task_id), attempts, verdicts)


def of(kind, **more):
    return controlled(group(), RewardConfig(verdicts=kind, **more)).verdicts


def test_as_judged_changes_nothing():
    one = group()
    assert controlled(one, RewardConfig()) is one


@pytest.mark.parametrize(
    ("kind", "passes"),
    [("ignored", [1, 1, 1, 1]), ("inverted", [0, 1, 1, 1]), ("format", [1, 1, 1, 0])],
)
def test_outcomes_by_hand(kind, passes):
    verdicts = of(kind)
    assert [verdict.status is Status.PASSED for verdict in verdicts[:4]] == [bool(one) for one in passes]
    assert [verdict.passed for verdict in verdicts[:4]] == [2 * one for one in passes], "of two tests"
    assert verdicts[4:] == group().verdicts[4:], "what is unscored or not judged stays so"
    assert verdicts[0].judge == f"{kind}:upsolve-1" and verdicts[2].error_type == ""


def test_a_shuffle_permutes_outcomes_and_leaves_no_trace_of_the_true_ones():
    seeds = [of("shuffled", verdicts_seed=seed) for seed in range(40)]
    true = Counter((v.status, v.passed, v.error_type) for v in group().verdicts[:4])
    for verdicts in seeds:
        assert Counter((v.status, v.passed, v.error_type) for v in verdicts[:4]) == true
        assert [v.attempt_id for v in verdicts[:4]] == [a.attempt_id for a in group().attempts[:4]]
        assert [v.cpu_seconds for v in verdicts[:4]] == [0, 1, 2, 3]
        assert {f.kind for v in verdicts[:4] for f in v.findings} == {"lint"} and verdicts[0].executed_lines is None
        assert verdicts[4:] == group().verdicts[4:]
    passing = Counter(next(i for i, v in enumerate(verdicts[:4]) if v.status is Status.PASSED) for verdicts in seeds)
    assert set(passing) == {0, 1, 2, 3} and max(passing.values()) < 20
    assert of("shuffled") == of("shuffled")
    other = [controlled(group(f"t{i}"), RewardConfig(verdicts="shuffled")).verdicts[0].status for i in range(20)]
    assert len(set(other)) > 1, "each task has its own permutation"


@pytest.mark.parametrize(("kind", "points"), [("shuffled", [0.5, 1.0]), ("inverted", [0.0, 1.0]), ("ignored", [1.0, 1.0])])
def test_points_follow_the_outcome(kind, points):
    failed = with_points(Verdict("b", Status.FAILED, 0, 1, (Status.FAILED,)), [0.5])
    pair = Group(TASK, group().attempts[:2], (Verdict("a", Status.PASSED, 1, 1, (Status.PASSED,)), failed))
    found = controlled(pair, RewardConfig(verdicts=kind)).verdicts
    assert sorted(share for one in found for share in one.points) == points


def test_rewards_follow_and_the_run_says_so():
    done = reward(group(), RewardConfig(verdicts="inverted"))
    assert done.rewards_G.tolist() == [-0.1, 1.0, 1.0, 1.0]
    assert done.flagged["control run, verdicts inverted"] == 4 and done.group.verdicts[0].status is Status.FAILED
    assert not any("control" in name for name in reward(group(), RewardConfig()).flagged)


def test_a_seed_without_a_shuffle_is_refused():
    with pytest.raises(ValueError, match="verdicts_seed has no effect"):
        RewardConfig(verdicts="inverted", verdicts_seed=1)
