"""What an archive lacks for a recipe is said before a model is loaded."""

import pytest

from upsolve.config import Recipe
from upsolve.errors import ConfigError
from upsolve.train.check import check_run
from upsolve.types import Attempt, Group, Status, Task, Verdict


def group(statuses, author="ann", lines=None):
    task = Task("t", "say")
    attempts = tuple(Attempt("t", f"x = {i}", author=author) for i in range(len(statuses)))
    verdicts = tuple(Verdict(a.attempt_id, status, executed_lines=lines) for a, status in zip(attempts, statuses, strict=True))
    return Group(task, attempts, verdicts)


MIXED = [Status.PASSED, Status.FAILED, Status.FAILED, Status.TIMEOUT]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"data": {"group_size": 5}}, "data.group_size: 5 attempts wanted, but no task of embedded has more than 4"),
        ({"data": {"authors": ["anne"]}}, "data.authors: no attempt of anne in embedded; did you mean ann?"),
        (
            {"reward": {"mask_unexecuted": True}},
            "no verdict of embedded has executed lines; record them by `upsolve verify --lines`",
        ),
        ({"reward": {"weights": {"lint": 1.0}}}, "no passed attempt of the archive has a reward.*lint"),
        ({"objective": {"kl": {"place": "reward"}}}, "objective.kl.place: reward needs"),
    ],
)
def test_what_is_missing_is_said(settings, message):
    with pytest.raises(ConfigError, match=message):
        check_run(Recipe.model_validate(settings), [group(MIXED)])


def test_what_is_there_is_enough():
    check_run(Recipe(), [group(MIXED)])
    check_run(Recipe.model_validate({"reward": {"mask_unexecuted": True}}), [group(MIXED, lines=(1,))])
    check_run(Recipe.model_validate({"objective": {"kind": "dpo"}, "data": {"group_size": 8}}), [group(MIXED)])
    online = {"source": {"rounds": 2}, "data": {"group_size": 8}, "reward": {"mask_unexecuted": True}}
    check_run(Recipe.model_validate(online), [group([])])
