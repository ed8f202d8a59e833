"""Rounds of own judged samples: real training, sampling and judging of a tiny model that learns one program."""

from types import SimpleNamespace

import pytest

from upsolve.archive.store import Archive
from upsolve.config import Recipe, load_recipe
from upsolve.errors import ConfigError
from upsolve.evaluate.own import Rounds
from upsolve.evaluate.runs import CONTROL, FAILURES_FIRST, Stage, load_stages
from upsolve.evaluate.scores import TaskScore
from upsolve.experiment import run_recipe
from upsolve.report.run import read_run
from upsolve.train.data.drawn import recorded_rows
from upsolve.train.run.folder import load_trained
from upsolve.types import Attempt, Status, Task, TestCase, TestKind, Verdict

SPLITS = [*["train"] * 6, "dev", "dev", "test", "test"]


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Ten tasks with one answer; two training tasks have failed attempts alone."""
    made = Archive.create(tmp_path_factory.mktemp("own") / "archive")
    tests, records = (TestCase(TestKind.STDIO, "", "1\n"),), {"tasks": [], "attempts": [], "verdicts": []}
    for index, split in enumerate(SPLITS):
        task = Task(f"own/{index}", f"Print one, case {index}.", tests, extra=f'{{"split": "{split}"}}')
        programs = {"print(2)": Status.FAILED} if index in (0, 1) else {"print(1)": Status.PASSED, "print(2)": Status.FAILED}
        attempts = [Attempt(task.task_id, code, author="someone") for code in programs]
        records["tasks"].append(task)
        records["attempts"] += attempts
        records["verdicts"] += [
            Verdict(a.attempt_id, status, judge="recorded:x") for a, status in zip(attempts, programs.values(), strict=True)
        ]
    made.append(**records)
    return made


def recipe_for(model, archive, **own):
    stages = {
        "model": {"name": model, "bf16": False},
        "data": {"archive": str(archive.path), "split_by": "split", "group_size": 2},
        "select": {"attempts": "passed"},
        "advantage": {"kind": "passed"},
        "optim": {"lr": 1e-2, "max_steps": 1, "epochs": 200, "tokens_per_step": 400, "schedule": "constant"},
        "monitor": {"heldout": 0, "stop_on_collapse": False},
        "sample": {"samples": 1, "max_tokens": 12},
        "evaluate": {"temperatures": [0, 0.01], "dev_samples": 1, "likelihood_tasks": 0, "ks": [1]},
    }
    return Recipe.model_validate({**stages, "own": {"tasks": 3, "samples": 2, "steps": 32, **own}})


def test_rounds_go_on_while_dev_tasks_gain(tiny_model, archive, tmp_path):
    recipe, folder = recipe_for(tiny_model, archive, rounds=3, repeats=2, failures=True), tmp_path / "run"
    _, after, trained = run_recipe(recipe, folder)
    stages = load_stages(folder)
    assert [(stage.name, stage.kept) for stage in stages] == [
        ("archive", True),
        ("archive, repeat 1", False),
        ("round 1", True),
        ("round 2", False),
        (CONTROL, False),
    ]
    assert [stage.dev for stage in stages[:3]] == [0, 0, 1]
    assert [stage.samples for stage in stages] == [0, 0, 6, 6, 0] and stages[3].passed == 6, "drawn by the model of round 1"
    assert (folder / "training").resolve() == (folder / "own" / "round-1-training").resolve()
    assert (
        trained.steps == 32 and after.name == after.best.name == "trained" and after.best.scores == stages[2].sweep.best.scores
    )
    first = Archive(folder / "own" / "archive-1")
    assert {"own/0", "own/1"} < {task.task_id for task in first.tasks()}, "tasks that nobody passed are sampled first"
    page = (folder / "report.html").read_text()
    assert "round 2, not kept" in page and CONTROL in page
    assert [stage.name for stage in read_run(folder).stages] == [stage.name for stage in stages]
    again = run_recipe(recipe, folder)
    assert again[1] == after and load_stages(folder) == stages


def test_failures_come_first_where_hardly_a_task_is_solved(tiny_model, tmp_path):
    """15 steps on what nobody passed and 15 on what somebody did teach the program; 15 steps alone do not."""
    made = Archive.create(tmp_path / "archive")
    tests, records = (TestCase(TestKind.STDIO, "", "1\n"),), {"tasks": [], "attempts": [], "verdicts": []}
    for index, split in enumerate([*["train"] * 11, "dev", "dev", "test"]):
        task = Task(f"own/{index}", f"Print one, case {index}.", tests, extra=f'{{"split": "{split}"}}')
        attempt = Attempt(task.task_id, "print(1)", author="someone")
        status = Status.FAILED if 0 < index < 11 else Status.PASSED
        records["tasks"].append(task)
        records["attempts"].append(attempt)
        records["verdicts"].append(Verdict(attempt.attempt_id, status, judge="recorded:x"))
    made.append(**records)
    recipe = recipe_for(tiny_model, made, rounds=1, tasks=2, steps=1, failures=True, control=False)
    data = recipe.data.model_copy(update={"group_size": 1})
    recipe = recipe.model_copy(update={"data": data, "optim": recipe.optim.model_copy(update={"max_steps": 15})})
    run_recipe(recipe, tmp_path / "run")
    stages = load_stages(tmp_path / "run")
    assert [(stage.name, stage.dev) for stage in stages[:2]] == [("archive", 0), (FAILURES_FIRST, 1)] and stages[1].kept
    trained = load_trained(tmp_path / "run" / "own" / "failures-training")
    assert trained and trained.steps == 15
    drawn = recorded_rows(tmp_path / "run" / "own" / "failures-training" / "groups")
    assert {name for name, _ in drawn} == {f"own/{index}" for index in range(1, 11)}, "the ten tasks that nobody solved"


@pytest.mark.parametrize(
    ("before", "after", "gains"),
    [
        ((0.4, 0.5), (0.6, 0.1), True),
        ((0.4, 0.5), (0.5, 0.3), False),
        ((0.4, 0.5), (0.45, 0.5), True),
        ((0.4, 0.5), (0.5, 0.4), False),
        ((), (0.5,), False),
    ],
)
def test_a_stage_gains_by_the_best_temperature_then_by_all(before, after, gains):
    def stage(rates):
        dev = [SimpleNamespace(scores=[TaskScore("t", "easy", 20, round(20 * rate), {})]) for rate in rates]
        return Stage("x", None, SimpleNamespace(dev=dev), kept=False)

    assert stage(after).gains_over(stage(before)) == gains


def test_further_training_takes_other_groups_for_as_many_epochs_as_its_steps_need(tmp_path):
    rounds = Rounds(load_recipe("sft"), tmp_path, SimpleNamespace(groups={"train": ()}), measured=None, progress=None)
    rounds.stages = [SimpleNamespace(trained=SimpleNamespace(steps=10), kept=True)]
    recipe = rounds.longer(SimpleNamespace(folder=tmp_path), 25)
    assert (recipe.optim.max_steps, recipe.optim.epochs) == (25, 3), "one epoch was 10 steps"
    assert recipe.data.seed == load_recipe("sft").data.seed + 1, "the same seed draws the same groups first"


def test_rounds_need_what_they_read():
    with pytest.raises(ConfigError, match=r"own\.rounds.*source\.rounds"):
        load_recipe(None, ["own.rounds=1", "source.rounds=1", "advantage.kind=passed"])
    with pytest.raises(ConfigError, match=r"own\.rounds.*evaluate\.temperatures"):
        load_recipe(None, ["own.rounds=1", "evaluate.temperatures=[0]"])
    with pytest.raises(ConfigError, match=r"own\.tasks has no effect without own\.rounds"):
        load_recipe(None, ["own.tasks=3"])
