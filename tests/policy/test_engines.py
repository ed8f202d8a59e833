"""Engines as records: built in and custom."""

import subprocess
import sys

import pytest

from upsolve.config import ModelConfig, Recipe, SampleConfig, load_recipe, recipe_yaml
from upsolve.errors import ConfigError
from upsolve.policy.engines import ENGINES, Engine, policy_sampler, sampler
from upsolve.types import Attempt, Task

TASKS = [Task("a", "short"), Task("b", "longer")]

OWN = """
from upsolve.policy.engines import Engine
from upsolve.types import Attempt

def make(config, model):
    def sample(tasks, *, config, author="", on_done=None):
        for task in tasks:
            for number in range(config.samples):
                yield Attempt(task.task_id, f"{config.settings['word']} {number}", author=author or model.name)
    return sample

def follow(config, model, folder):
    def sample(policy, codec, tasks, *, config, author="", on_done=None):
        yield from make(config, model)(tasks, config=config, author=f"{folder.name}: {policy}")
    return sample

parrot = Engine(make, follow, options={"word": "pass"})
deaf = Engine(make)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "my_engine.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("my_engine", None)


@pytest.mark.usefixtures("own")
def test_an_engine_of_a_single_file_samples():
    recipe = load_recipe(None, ["sample.engine=my_engine:parrot", "sample.samples=2", "sample.options.word=y = 1;"])
    found = list(sampler(recipe.sample, recipe.model.at("bird"))(TASKS, config=recipe.sample))
    assert [(one.task_id, one.code, one.author) for one in found] == [
        ("a", "y = 1; 0", "bird"), ("a", "y = 1; 1", "bird"), ("b", "y = 1; 0", "bird"), ("b", "y = 1; 1", "bird"),
    ]  # fmt: skip
    assert "engine: my_engine:parrot" in recipe_yaml(recipe)


@pytest.mark.usefixtures("own")
def test_an_engine_of_ones_own_follows_the_policy(tmp_path):
    recipe = load_recipe(None, ["source.rounds=1", "source.rollout.engine=my_engine:parrot"])
    rollout = recipe.source.rollout.model_copy(update={"samples": 1})
    found = list(policy_sampler(rollout, recipe.model, tmp_path / "policy")("weights", None, TASKS, config=rollout))
    assert [(one.code, one.author) for one in found] == [("pass 0", "policy: weights")] * 2


@pytest.mark.usefixtures("own")
def test_an_engine_without_the_weights_is_refused_online_before_anything_is_loaded():
    engine = "my_engine:deaf"
    settings = ["source.rounds=1", f"source.rollout.engine={engine}"]
    with pytest.raises(
        ConfigError, match=rf"{engine} does not get the trained weights; use one of: server, transformers, vllm"
    ):
        load_recipe(None, settings)
    assert load_recipe(None, settings[1:]).source.rollout.engine == engine  # offline nothing follows


@pytest.mark.usefixtures("own")
def test_what_is_no_engine_or_no_option_is_named():
    with pytest.raises(ConfigError, match="did you mean transformers"):
        load_recipe(None, ["sample.engine=transformer"])
    with pytest.raises(ConfigError, match="not a record of the class upsolve.policy.engines:Engine"):
        load_recipe(None, ["sample.engine=my_engine:make"])
    with pytest.raises(ConfigError, match="no option 'wrod'; did you mean word"):
        load_recipe(None, ["sample.engine=my_engine:parrot", "sample.options.wrod=x"])
    with pytest.raises(ConfigError, match="engine transformers has no option 'word'"):
        load_recipe(None, ["sample.options.word=x"])


def test_a_record_is_passed_in_python():
    def make(_config, model):
        return lambda tasks, **_: iter([Attempt(tasks[0].task_id, model.name)])

    config = SampleConfig(engine=Engine(make))
    assert [one.code for one in sampler(config, ModelConfig(name="me"))(TASKS, config=config)] == ["me"]


def test_built_in_engines():
    assert {name: (one.follow is not None, one.every_rank) for name, one in ENGINES.items()} == {
        "server": (True, False),
        "transformers": (True, True),
        "vllm": (True, False),
    }
    assert Recipe().sample.engine == "transformers"


def test_the_table_loads_neither_torch_nor_transformers():
    code = "import sys, upsolve.policy.engines; print({'torch', 'transformers', 'peft', 'vllm'} & {*sys.modules})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
