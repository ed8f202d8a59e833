import subprocess
import sys

import pytest

from upsolve.config import Recipe, dump_recipe, load_recipe
from upsolve.errors import ConfigError
from upsolve.types import Status


def test_a_recipe_is_read_as_written(tmp_path):
    recipe = Recipe.model_validate(
        {"name": "x", "optim": {"lr": 3e-5}, "reward": {"outcomes": {"passed": 2.0, "failed": -1.0}}}
    )
    dump_recipe(recipe, tmp_path / "r.yaml")
    assert load_recipe(tmp_path / "r.yaml") == recipe
    assert recipe.reward.outcomes == {**Recipe().reward.outcomes, Status.PASSED: 2.0, Status.FAILED: -1.0}


def test_the_published_outcome_table_is_the_default():
    table = Recipe().reward.outcomes
    assert [table[Status(s)] for s in ("passed", "failed", "timeout", "runtime_error", "compile_error")] == [
        1.0,
        -0.1,
        -0.5,
        -0.6,
        -1.0,
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("optim: {learning_rate: 1}", r"optim\.learning_rate"),
        ("optim: {lr: -1}", r"optim\.lr: .*greater than 0"),
        ("advantage: {kind: magic}", r"advantage\.kind"),
        ("- a list", "mapping of stages"),
        ("a: [", "cannot be read as YAML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, message):
    file = tmp_path / "r.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        load_recipe(file)
    assert "r.yaml" in str(caught.value)


def test_overrides():
    recipe = load_recipe(None, ["optim.lr=1e-4", "data.authors=[a, b]", "name=z"])
    assert (recipe.optim.lr, recipe.data.authors, recipe.name) == (1e-4, ("a", "b"), "z")
    with pytest.raises(ConfigError, match="stage.key=value"):
        load_recipe(None, ["optim.lr"])
    with pytest.raises(ConfigError, match="no such recipe"):
        load_recipe("nowhere.yaml")


def test_nothing_heavy_is_imported_before_it_is_needed():
    probe = "import sys, upsolve.cli.main, upsolve.config; print([m for m in ('torch', 'transformers', 'pyarrow', 'duckdb') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
