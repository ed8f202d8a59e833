"""Groups that are sampled from stored attempts."""

import pytest

from upsolve.config import AdvantageConfig, DataConfig, RewardConfig
from upsolve.reward.formula import reward
from upsolve.train.groups import draw_groups
from upsolve.types import Attempt, Group, Status, Task, Verdict

DATA = DataConfig(group_size=4, groups_per_task=2)


def drawn_from(*attempts, data=DATA):
    """Draw groups of a task from attempts, given as (passed, count)."""
    made = [Attempt("t", f"program {n}", count=count) for n, (_, count) in enumerate(attempts)]
    verdicts = [
        Verdict(a.attempt_id, Status.PASSED if good else Status.FAILED) for a, (good, _) in zip(made, attempts, strict=True)
    ]
    group = Group(Task("t", "prompt", ()), tuple(made), tuple(verdicts))
    return draw_groups([reward(group, RewardConfig())], data, AdvantageConfig(), epoch=0)


def test_what_was_sampled_several_times_fills_a_group_as_often():
    """Three of four samples are the same program: r - mean of the others is 1 for the right one, -1/3 for each of the wrong ones."""
    (group,) = drawn_from((True, 1), (False, 3)).groups
    assert sorted(attempt.code for attempt in group.group.attempts) == ["program 0", *["program 1"] * 3]
    assert sorted(group.advantages_G) == pytest.approx([-1.1 / 3] * 3 + [1.1])


def test_several_groups_take_each_occurrence_once():
    groups = drawn_from((True, 4), (False, 4)).groups
    taken = [attempt.code for group in groups for attempt in group.group.attempts]
    assert len(groups) == 2 and taken.count("program 0") == taken.count("program 1") == 4
    assert all(len({attempt.code for attempt in group.group.attempts}) == 2 for group in groups)


def test_distinct_attempts_are_not_repeated_where_they_fill_a_group():
    groups = drawn_from((True, 9), (True, 1), (False, 9), (False, 1)).groups
    assert [len({attempt.code for attempt in group.group.attempts}) for group in groups] == [4]


def test_a_task_with_too_few_occurrences_is_left_out_and_counted():
    found = drawn_from((True, 1), (False, 2))
    assert not found.groups and found.left_out == {"tasks: fewer than 4 attempts": 1}
