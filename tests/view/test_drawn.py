"""The groups of a run as they were trained on: recorded by training, read by the viewer."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from upsolve.archive.split import split_archive
from upsolve.archive.store import open_archive
from upsolve.config import OptimConfig, Recipe
from upsolve.report.run import trained_on
from upsolve.reward.formula import reward
from upsolve.train.data import drawn
from upsolve.train.data.drawn import DrawnGroups, attempt_key
from upsolve.train.data.encode import EncodedAttempt, EncodedGroup
from upsolve.train.data.groups import TrainGroup, with_advantages
from upsolve.train.data.pack import pack_round
from upsolve.train.data.sources import StoredSource
from upsolve.train.loop import form_groups, train
from upsolve.train.run.folder import Trained
from upsolve.train.run.steps import Round
from upsolve.train.update.step import FrozenScores
from upsolve.types import Attempt, Group, Status, Task, Verdict
from upsolve.view.opening import open_path
from upsolve.view.scores import Drawn, Recorded


def group_of(name, codes):
    attempts = tuple(Attempt(name, code, author="x") for code in codes)
    verdicts = tuple(Verdict(one.attempt_id, Status.PASSED, 1, 1) for one in attempts)
    values = np.arange(len(codes), dtype=np.float64)
    return TrainGroup(Group(Task(name, ""), attempts, verdicts), values, values >= 0, values - 0.5)


def test_what_is_recorded_is_read_back_by_task(tmp_path):
    one, two, three = group_of("a", ["1", "2"]), group_of("b", ["3"]), group_of("a", ["1", "4"])
    for number, groups in enumerate(([one, two], [], [three])):
        DrawnGroups(tmp_path / "groups", by_token=False).record(number, groups)
    recorded = Recorded(tmp_path / "groups")
    keys = [attempt_key(one.group.attempts[0]), attempt_key(one.group.attempts[1])]
    other = attempt_key(three.group.attempts[1])
    assert recorded.of_task("a") == [
        Drawn(0, 0, tuple(keys), (0.0, 1.0), (-0.5, 0.5)),
        Drawn(2, 0, (keys[0], other), (0.0, 1.0), (-0.5, 0.5)),
    ]
    assert [group.number for group in recorded.of_task("b")] == [1] and recorded.of_task("c") == []
    DrawnGroups(tmp_path / "groups", by_token=True).record(3, [one])
    assert recorded.of_task("a")[-1].advantages == (None, None), "new files are read"
    DrawnGroups(tmp_path / "groups", by_token=False).record(0, [two])
    assert recorded.of_task("a") == [], "round 0 begins the run"
    assert Recorded(tmp_path / "nothing").of_task("a") is None


def test_of_a_round_with_too_many_attempts_whole_groups_are_recorded(tmp_path, monkeypatch):
    monkeypatch.setattr(drawn, "MOST_ROWS", 4)
    DrawnGroups(tmp_path, by_token=False).record(0, [group_of("a", ["1", "2"]), group_of("a", ["3", "4", "5"])])
    recorded = Recorded(tmp_path)
    assert len(recorded.of_task("a")) == 1 and recorded.dropped == 1


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        (None, "training on 4 attempts at 2 tasks (5 with repeats), "),
        (3, "trained on 4 attempts at 2 tasks (5 with repeats), "),
        (1, "trained on 1 of 3 groups (4 attempts at 2 tasks in all), "),
    ],
)
def test_an_overview_counts_the_groups_of_the_steps_done(tmp_path, groups, said):
    one, two = group_of("a", ["1", "2"]), group_of("b", ["3"])
    for number, some in enumerate(([one, two], [group_of("a", ["1", "4"])])):
        DrawnGroups(tmp_path, by_token=False).record(number, some)
    trained = None if groups is None else Trained(tmp_path, 1, 1, "", groups, {}, {}, [])
    assert trained_on(tmp_path, trained, zero=True) == said
    unrecorded = trained_on(tmp_path / "none", trained, zero=True)
    assert unrecorded == (f"trained on {groups} group{'s' * (groups > 1)}, " if groups else "")


def test_a_round_counts_the_groups_of_the_steps_done():
    """Two passes over three groups of which two fit into a step; the numbers have their nouns in the singular and the plural."""
    groups = [EncodedGroup((number,) * 4, (EncodedAttempt((9,) * 26, np.ones(26, np.float32)),)) for number in range(3)]
    steps = pack_round(groups, OptimConfig(tokens_per_step=64, tokens_per_batch=64, epochs=2), orders=(0, 0), processes=1)
    now = Round(0, steps, FrozenScores(), 3, Counter(), Counter(), {})
    assert [now.groups_in(done) for done in range(len(steps) + 1)] == [0, 2, 3, 3, 3]
    assert Trained(Path(), 1, 1, "", 1, {}, {}, []).text().startswith("1 step on 1 group, weights of step 1;")
    assert Trained(Path(), 1200, 3, "", 0, {}, {}, []).text().startswith("1,200 steps on 0 groups")


def test_a_large_round_is_written_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(drawn, "PART", 2)
    group = group_of("a", ["1", "2", "3", "4", "5"])
    DrawnGroups(tmp_path, by_token=False).record(0, [group])
    assert pq.read_metadata(tmp_path / "00000000.parquet").num_row_groups == 3
    (found,) = Recorded(tmp_path).of_task("a")
    assert found.rewards == (0, 1, 2, 3, 4) and found.keys == tuple(map(attempt_key, group.group.attempts))


def test_samples_of_one_program_have_names_of_their_own():
    one = Attempt("t", "x = 1", author="policy", behavior_logp=-1.5)
    others = [replace(one, behavior_logp=-1.25), replace(one, author="other"), replace(one, created="2020-01-01")]
    assert len({attempt_key(each) for each in (one, *others)}) == 4 and attempt_key(replace(one, count=7)) == attempt_key(one)


@pytest.mark.parametrize(("max_tokens", "whole"), [pytest.param(1024, True, marks=pytest.mark.slow), (700, False)])
def test_the_viewer_shows_the_groups_that_a_run_was_trained_on(tiny_model, tmp_path, monkeypatch, max_tokens, whole):
    """After ``select``, in both epochs, with its weights; 700 tokens leave attempts out, which changes the advantages of the others."""
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))
    select = {"attempts": "lines < 60", "weight": "1.0 / passes"}
    data = {"train": 0.01, "dev": 0.01, "max_tokens": max_tokens, "group_size": 4, "groups_per_task": 1}
    optim = {"epochs": 2, "tokens_per_step": 50_000, "tokens_per_batch": 4000}
    model, optim = {"name": tiny_model, "bf16": False}, {"lr": 1e-3, "max_steps": 6, "schedule": "constant", **optim}
    stages = {"model": model, "data": data, "select": select, "optim": optim, "monitor": {"heldout": 1}}
    recipe = Recipe.model_validate(stages)
    split = split_archive(open_archive("embedded"), recipe.data)
    train(recipe, split.groups["train"], split.groups["dev"], tmp_path / "run")
    answers = open_path(str(tmp_path / "run"))
    groups = split_archive(open_archive("embedded"), recipe.data, untried=False).groups["train"]
    sizes = []
    for number, item in [(epoch, item) for epoch in range(2) for item in formed(recipe, groups, epoch)]:
        drawn = answers.group({"id": item.group.task.task_id})["drawn"]
        (group,) = [each for each in drawn if each["round"] == number]
        sizes.append(len(group["attempts"]))
        assert group["missing"] == 0
        if sizes[-1] == len(item.rewards_G):
            codes = [answers.routes["attempt"]({"place": row["place"]})["attempt"]["code"] for row in group["attempts"]]
            assert codes == [attempt.code for attempt in item.group.attempts]
            assert [row["advantage"] for row in group["attempts"]] == pytest.approx(item.advantages_G.tolist())
    assert len(sizes) > 2 and max(sizes) == 4 and (min(sizes) == 4) == whole


def formed(recipe, groups, number):
    """The groups of an epoch, before those that are too long are left out."""
    source = StoredSource(groups, recipe.data, epochs=2).groups(number)
    stored = [reward(group, recipe.reward) for group in source.stored]
    stages = {"data": recipe.data, "advantage": recipe.advantage, "objective": recipe.objective, "select": recipe.select}
    found = form_groups([], stored, source, **stages).groups
    return [with_advantages(item, recipe.advantage, seed=recipe.data.seed) for item in found]
