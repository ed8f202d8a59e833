"""Groups of large tasks are drawn from outcomes and counts, before any program is read."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from upsolve.archive import groups as module
from upsolve.archive import outline
from upsolve.archive.groups import pick
from upsolve.archive.outline import outline_of
from upsolve.archive.store import Archive
from upsolve.config import DataConfig, SelectConfig
from upsolve.config.recipe import load_recipe
from upsolve.reward.formula import reward
from upsolve.reward.judged import group_of
from upsolve.train.data.groups import decided_by_outcome, draw_groups, drawn_first, sample_outline, select
from upsolve.train.data.sources import StoredSource
from upsolve.types import Attempt, Status, Task, Verdict

PASSED, FAILED, UNSCORED = Status.PASSED, Status.FAILED, Status.UNSCORED


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """A task of 300 attempts with verdicts of two judges, one of 90, and one of 300 that nobody passed; read from the cache folder."""
    monkeypatch.setattr(module, "SMALL_BYTES", -1)
    monkeypatch.setattr(outline, "LARGE", 100)
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))
    archive = Archive.create(tmp_path / "archive")
    archive.append(tasks=[Task(name, "do") for name in ("large", "small", "failed")])
    for name, size in (("large", 300), ("small", 90), ("failed", 300)):
        made = [Attempt(name, f"x = {n}", author="ab"[n % 2], count=1 + 8 * (n % 3 == 0)) for n in range(size)]
        archive.append(attempts=made)
        statuses = [PASSED if n % 5 == 0 and name != "failed" else UNSCORED if n % 7 == 0 else FAILED for n in range(size)]
        judged = [
            Verdict(a.attempt_id, s, judge="recorded:a") for a, s in zip(made, statuses, strict=True) if a.code != "x = 11"
        ]
        archive.append(verdicts=[*judged, *(Verdict(a.attempt_id, FAILED, judge="upsolve-1") for a in made[:20])])
        forged = Verdict(made[21].attempt_id, FAILED, judge="recorded:a", isolation="rlimits,in_process")
        archive.append(verdicts=[forged])
    return archive.groups()


def test_an_outline_says_what_the_attempts_say(groups):
    found, group = outline_of(groups, 0), groups[0]
    scored = [v is not None and v.status is not UNSCORED and "in_process" not in v.isolation for v in group.verdicts]
    assert found.scored_N.tolist() == scored and scored.count(False) > 30
    assert found.passed_N.tolist() == [v is not None and v.status is PASSED for v in group.verdicts]
    assert found.counts_N.tolist() == [attempt.count for attempt in group.attempts]
    of_b = found.usable(DataConfig(authors=("b",))).tolist()
    assert of_b == [attempt.author == "b" for attempt in group.attempts] and found.usable(DataConfig()).all()
    assert found.read([299, 3, 256]) == group_of(group, [299, 3, 256])
    assert outline_of(groups, 1) is None and outline_of([*groups], 0) is None
    assert outline_of(pick(groups, [1, 0]), 1).read([7]) == group_of(group, [7])


def test_groups_are_drawn_as_from_all_attempts_and_others_are_read_whole(groups):
    data = DataConfig(group_size=4, groups_per_task=3, authors=("a",))
    taken = drawn_first(groups, data, epoch=0)
    large, others = (
        [group for group in taken if len(group.attempts) == 4],
        [group for group in taken if len(group.attempts) > 4],
    )
    assert [group.task.task_id for group in large] == ["large"] * 3 and others == [select(groups[n], data) for n in (1, 2)]
    assert len({attempt for group in large for attempt in group.attempts}) == 12
    for group in large:
        assert {attempt.author for attempt in group.attempts} == {"a"}
        assert {verdict.status for verdict in group.verdicts} == {PASSED, FAILED}
    assert [*taken] == [*drawn_first(groups, data, epoch=0)] != [*drawn_first(groups, data, epoch=1)]


def test_attempts_are_drawn_in_proportion_to_their_counts(groups):
    """Of the attempts beyond the first two of a group, as often as all scored ones: those that occur nine times, nine times as often."""
    found, data = outline_of(groups, 0), DataConfig(group_size=2, groups_per_task=1)
    random, seen = np.random.default_rng(0), Counter()
    for _ in range(4000):
        ((first, second),) = sample_outline(found, data, random)
        seen.update(n for n in (first, second) if not found.passed_N[n])
    often = found.scored_N & ~found.passed_N & (found.counts_N == 9)
    rare = found.scored_N & ~found.passed_N & (found.counts_N == 1)
    rates = [sum(seen[int(n)] for n in np.flatnonzero(some)) / some.sum() for some in (often, rare)]
    assert rates[0] / rates[1] == pytest.approx(9, rel=0.15)


def test_every_attempt_is_drawn_once_when_the_groups_take_them_all(groups):
    """Though one of them has nearly all of the counts."""
    data, found = DataConfig(group_size=2, groups_per_task=500), outline_of(groups, 0)
    found = replace(found, counts_N=found.counts_N + 10**6 * (np.arange(300) == 5))
    drawn = sample_outline(found, data, np.random.default_rng(0))
    places = [place for group in drawn for place in group]
    assert (
        len(places) == len({*places}) == 2 * min(found.passed_N[found.scored_N].sum(), (found.scored_N & ~found.passed_N).sum())
    )


def test_an_epoch_trains_on_what_was_drawn(groups):
    recipe = load_recipe("rloo", ["data.group_size=4", "data.groups_per_task=2"])
    assert decided_by_outcome(recipe.reward, recipe.select, recipe.data)
    source = StoredSource(groups, recipe.data, epochs=2, drawn=True).groups(0)
    formed = draw_groups([reward(group, recipe.reward) for group in source.stored], recipe.data, needs="contrast", epoch=0)
    assert Counter(group.group.task.task_id for group in formed.groups) == {"large": 2, "small": 2}
    assert formed.left_out["tasks: none passed"] == 1
    drawn = {attempt for group in source.stored if group.task.task_id == "large" for attempt in group.attempts}
    assert drawn == {a for group in formed.groups if group.group.task.task_id == "large" for a in group.group.attempts}


@pytest.mark.parametrize(
    "settings",
    [
        ["reward.weights.lint=1"],
        ["reward.hacked=drop"],
        ["reward.truncated=drop"],
        ["reward.hacked=-1"],
        ["reward.truncated=-0.5"],
        ["reward.outcomes.timeout=null"],
        ["reward.verdicts=shuffled"],
        ["reward.in_process=keep"],
    ],
)
def test_where_more_than_the_outcome_decides_all_attempts_are_read(settings):
    recipe, changed = load_recipe("rloo"), load_recipe("rloo", settings)
    assert not decided_by_outcome(changed.reward, changed.select, changed.data)
    assert not decided_by_outcome(recipe.reward, SelectConfig(groups="passes > 1"), recipe.data)
