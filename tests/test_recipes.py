"""Every recipe that comes with the project, two steps on a tiny model."""

from pathlib import Path

import pytest

from upsolve.archive.store import open_archive
from upsolve.config import load_recipe
from upsolve.experiment import split_archive
from upsolve.train.loop import train

RECIPES = sorted((Path(__file__).parents[1] / "recipes").glob("*.yaml"))
SMALL = [
    "model.bf16=false",
    "data.train=0.05",
    "data.dev=0.05",
    "optim.max_steps=2",
    "optim.tokens_per_step=2000",
    "monitor.heldout=4",
]


def test_the_documented_recipes_are_there():
    wanted = {"demo", "sft", "rloo", "group_norm", "exp_advantage", "topr", "asymre", "oapl", "awr", "dft"}
    assert {path.stem for path in RECIPES} == wanted
    text = (Path(__file__).parents[1] / "docs" / "recipes.md").read_text()
    assert all(f"`{name}`" in text for name in wanted)


@pytest.mark.parametrize("file", RECIPES, ids=lambda path: path.stem)
def test_two_steps(file, tiny_model, tmp_path, monkeypatch):
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))
    recipe = load_recipe(file, [*SMALL, f"model.name={tiny_model}"])
    assert recipe.name == file.stem
    split = split_archive(open_archive("embedded"), recipe)
    trained = train(recipe, split.groups["train"], split.groups["dev"], tmp_path / "run")
    assert trained.steps == 2 and not trained.collapsed
    assert trained.metrics[0]["grad_norm"] > 0
