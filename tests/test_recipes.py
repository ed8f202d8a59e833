"""Every recipe that comes with the project, two steps on a tiny model."""

from pathlib import Path

import pytest

from upsolve.archive.split import split_archive
from upsolve.archive.store import Archive, open_archive
from upsolve.config.recipe import RECIPES, load_recipe
from upsolve.importers.ingest import ingest
from upsolve.train.loop import train
from upsolve.verify.pool.pool import verify

FILES = sorted(RECIPES.glob("*.yaml"))
SMALL = [
    "model.bf16=false",
    "data.train=0.05",
    "data.dev=0.05",
    "optim.max_steps=2",
    "source.rollout.max_tokens=24",
    "data.group_size=4",
    "verify.workers=1",
    "optim.tokens_per_step=2000",
    "monitor.heldout=4",
]
QUICK = {"demo"}
"""Recipes that ``make test`` runs; the others are run by make test-all."""


def test_the_documented_recipes_are_there():
    wanted = {
        "demo",
        "demo_python",
        "sft",
        "rloo",
        "group_norm",
        "exp_advantage",
        "topr",
        "asymre",
        "auto",
        "oapl",
        "awr",
        "dft",
    }
    wanted |= {"grpo", "dr_grpo", "gspo", "cispo", "rloo_online", "ppo", "ppo_dense", "hybrid", "replay", "robot", "robot_sft"}
    wanted |= {"rlvr_tests", "rlvr_lint", "rlvr_both", "dpo", "dpo_focal", "kto", "rank"}
    wanted |= {"sql_sft", "sql_rloo", "maxrl", "rft", "nft", "pkpo", "passk", "rspo", "unlikeliness", "gfpo", "strangers"}
    wanted |= {"ssd", "placebo", "inverted", "format_only", "conditioned", "divergence", "unlikelihood", "unsolved"}
    assert {path.stem for path in FILES} == wanted
    text = (Path(__file__).parents[1] / "docs" / "recipes.md").read_text()
    assert all(f"`{name}`" in text for name in wanted)


@pytest.mark.parametrize(
    "file",
    [file if file.stem in QUICK else pytest.param(file, marks=pytest.mark.slow) for file in FILES],
    ids=lambda path: path.stem,
)
def test_two_steps(file, tiny_model, tmp_path, monkeypatch):
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))
    fewer = ["advantage.options.k=2"] if file.stem in ("pkpo", "passk", "rspo") else []
    recipe = load_recipe(file, [*SMALL, *fewer, f"model.name={tiny_model}"])
    assert recipe.name == file.stem
    if recipe.source.rounds:  # what the tiny model babbles fails in one and the same way: let the shorter be the better
        short = ["source.groups=4", "reward.weights.length=1", "reward.length=[0, 40]"]
        if file.stem == "nft":  # and let those of at most 20 characters pass
            short = ["source.groups=4", "reward.weights={length: 1, outcome: -1}", "reward.length=[20, 40]"]
        recipe = load_recipe(file, [*SMALL, f"model.name={tiny_model}", *short])
    if file.stem == "robot":
        folder = tmp_path / "robot"
        ingest(Archive.create(folder), "simulator", "robot")
        recipe = recipe.model_copy(update={"data": recipe.data.model_copy(update={"archive": str(folder), "train": 0.6})})
    if file.stem == "robot_sft":
        archive = Archive.create(tmp_path / "composed")
        ingest(archive, "composed", "robot", tasks=8, seed=1)
        tasks = {task.task_id: task for task in archive.tasks()}
        archive.append(verdicts=verify([(tasks[attempt.task_id], attempt) for attempt in archive.attempts()]))
        recipe = recipe.model_copy(update={"data": recipe.data.model_copy(update={"archive": str(archive.path)})})
    if file.stem == "unsolved":
        archive, groups = Archive.create(tmp_path / "unsolved"), [*open_archive("embedded").groups()][:40]
        failed = [
            (a, v) for group in groups for a, v in zip(group.attempts, group.verdicts, strict=True) if v.status.name == "FAILED"
        ]
        archive.append(tasks=[g.task for g in groups], attempts=[a for a, _ in failed], verdicts=[v for _, v in failed])
        data = recipe.data.model_copy(update={"archive": str(archive.path), "train": 0.8})
        recipe = recipe.model_copy(update={"data": data})
    split = split_archive(open_archive(recipe.data.archive), recipe.data, untried=recipe.source.rounds > 0)
    trained = train(recipe, split.groups["train"], split.groups["dev"], tmp_path / "run")
    assert trained.steps == 2 and not trained.collapsed
    assert trained.metrics[0]["grad_norm"] > 0
