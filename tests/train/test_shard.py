"""Weights sharded over two processes, by FSDP2 or DeepSpeed: the losses of one process, and exchangeable checkpoints."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
import yaml
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

from upsolve.archive.split import split_archive
from upsolve.archive.store import open_archive
from upsolve.config import ModelConfig, Recipe
from upsolve.errors import TrainingError
from upsolve.policy.model import load_codec
from upsolve.reward.formula import reward
from upsolve.train.data.encode import Encoding, encode_groups, tokenize_groups
from upsolve.train.data.groups import draw_groups
from upsolve.train.data.pack import plan_steps
from upsolve.train.loop import train
from upsolve.train.run.monitor import read_steps
from upsolve.train.run.processes import Processes
from upsolve.train.update.learner import Learner

OPTIM = {"tokens_per_step": 3000, "tokens_per_batch": 1000, "row_tokens": 1000, "lr": 1e-3, "schedule": "constant"}
STORED = {
    "data": {"train": 0.05, "dev": 0.05},
    "optim": {**OPTIM, "epochs": 4, "max_steps": 4},
    "monitor": {"save_every": 1, "eval_every": 2, "heldout": 4},
}
PPO = {
    "data": {"train": 0.1, "dev": 0.05},
    "source": {"rounds": 2, "groups": 4, "rollout": {"max_tokens": 24, "temperature": 1.0, "top_p": 1.0}},
    "reward": {"weights": {"length": 1.0}, "length": [0, 40]},
    "advantage": {"kind": "gae"},
    "objective": {"kind": "ppo_clip", "reduce": "token_mean", "kl": {"coefficient": 0.05, "place": "reward"}},
    "optim": {**OPTIM, "epochs": 2, "max_steps": 4},
    "verify": {"cache": False, "workers": 1},
    "monitor": {"eval_every": 2, "heldout": 4, "keep": "last"},
}
STOP = 2


class StoppedError(Exception):
    """A run is stopped here."""


def groups_of(recipe):
    return split_archive(open_archive("embedded"), recipe.data, untried=recipe.source.rounds > 0).groups


def own_part(tensor):
    """Return what this process holds of a tensor that may be FSDP2's or DeepSpeed's."""
    return getattr(tensor, "ds_tensor", getattr(tensor, "_local_tensor", tensor))


def train_to(recipe, folder, stop):
    """Train until the checkpoint of a step is written (0: to the end), then write down how much this process holds."""
    save = Learner.save_checkpoint

    def save_and_stop(learner, place, progress):
        save(learner, place, progress)
        if progress.step == stop:
            held = learner.placement
            optimizer = getattr(held.optimizer, "optimizer", held.optimizer)  # DeepSpeed's has torch's inside
            parts = [held.parameters(), [state["exp_avg"] for state in optimizer.state.values()]]
            sizes = [sum(own_part(tensor).numel() for tensor in some) for some in parts]
            (place / f"held{learner.processes.index}.json").write_text(json.dumps(sizes))
            learner.processes.wait()
            raise StoppedError

    groups = groups_of(recipe)
    with patch.object(Learner, "save_checkpoint", save_and_stop), suppress(StoppedError):
        train(recipe, groups["train"], groups["dev"], folder)


def rows(folder):
    return read_steps(folder / "metrics.jsonl")


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """As many as each of the two processes has."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def tied_model(tiny_model, tmp_path_factory):
    """Like the tiny model, with one matrix for embedding and head."""
    folder = tmp_path_factory.mktemp("tied")
    shutil.copytree(tiny_model, folder, dirs_exist_ok=True)
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig.from_pretrained(tiny_model, tie_word_embeddings=True)).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def recipes(tiny_model, tied_model):
    model = {"name": tiny_model, "bf16": False}
    settings = {
        "stored": {**STORED, "model": model},
        "ppo": {**PPO, "model": {**model, "name": tied_model}},
        "topr": {**STORED, "model": model, "objective": {"kind": "topr"}},
        "lora": {**STORED, "model": {**model, "lora_rank": 4}},
        "ppo_lora": {**PPO, "model": {**model, "lora_rank": 4, "gradient_checkpointing": True}},
        "half": {**STORED, "model": {**model, "bf16": True, "gradient_checkpointing": True}},
        "half_lora": {**STORED, "model": {**model, "bf16": True, "lora_rank": 4}},
    }
    return {name: Recipe.model_validate(each) for name, each in settings.items()}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("shard")


@pytest.fixture(scope="module")
def alone(recipes, place):
    """All runs of one process, which has its weights whole."""
    for name, recipe in recipes.items():
        train_to(recipe, place / name, 0)
    train_to(recipes["stored"], place / "stopped", STOP)
    return place


WAYS = {
    "fsdp2": {"shard": "fsdp2"},
    "zero3": {"shard": "deepspeed", "deepspeed": {"zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0}}},
    "zero2": {"shard": "deepspeed", "deepspeed": {"zero_optimization": {"stage": 2}}},
}
NEEDS = pytest.mark.skipif(not (find_spec("deepspeed") and shutil.which("c++")), reason="needs DeepSpeed and a C++ compiler")


@pytest.fixture(
    scope="module", params=["fsdp2", *(pytest.param(way, marks=[NEEDS, pytest.mark.slow]) for way in ("zero3", "zero2"))]
)
def runs(alone, recipes, request):
    """All runs of two processes, in one launch of these."""
    way, place = request.param, alone / request.param
    shutil.copytree(alone / "stopped", place / "goes_on")
    for name, recipe in recipes.items():
        settings = recipe.model_dump(mode="json")
        settings["model"] |= WAYS[way]
        (place / f"{name}.yaml").write_text(yaml.safe_dump(settings))
    shutil.copy(place / "stored.yaml", place / "goes_on" / "recipe.yaml")
    jobs = [
        ("stored", "stopped", STOP),
        ("stored", "goes_on", 0),
        ("stored", "resumed", STOP),
        ("stored", "resumed", 0),
        *((name, name, 0) for name in recipes if name != "stored"),
    ]
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    done = subprocess.run(
        [*launch, __file__, str(place), json.dumps(jobs)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
        timeout=600,  # processes that do not make as many passes wait for each other
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr  # the first traceback is the cause of the others
    return place


def assert_same(some, others, rel=1e-4):
    """Two runs tell of the same losses, gradients and held-out figures, but for the order of sums."""
    names = ("loss", "grad_norm", "entropy", "attempt_tokens", "clipped", "heldout_margin")
    assert len(some) == len(others) == 4
    for a, b in zip(some, others, strict=True):
        assert {n: a[n] for n in names if n in a} == pytest.approx({n: b[n] for n in names if n in b}, rel=rel, abs=rel / 100)


def moved(run, model):
    """Return how far all weights are from those of a model."""
    ends, starts = load_file(run / "model" / "model.safetensors"), load_file(Path(model) / "model.safetensors")
    return torch.cat([(ends[name] - starts[name]).flatten() for name in starts])


def assert_same_end(some, others, model):
    """Two runs went from a model to the same place, but for a thousandth of the way (Adam makes much of small gradients)."""
    alone, spread = moved(some, model), moved(others, model)
    assert float((alone - spread).norm() / alone.norm()) < 1e-3


def test_a_process_may_have_a_batch_less(recipes):
    recipe = recipes["stored"]
    codec, optim = load_codec(recipe.model.name), recipe.optim
    rewarded = [reward(group, recipe.reward) for group in groups_of(recipe)["train"]]
    drawn = draw_groups(rewarded, recipe.data, needs="contrast", epoch=0).groups
    config = Encoding(codec, recipe.data.max_tokens, recipe.reward, recipe.advantage, recipe.objective)
    steps = plan_steps(encode_groups(tokenize_groups(drawn, config), config).groups, optim, processes=2)
    assert {len(step) % 2 for step in steps[:4]} == {0, 1}, "both are tried below"


def test_the_recipe_selects_deepspeed(monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")  # as `accelerate launch --use_deepspeed` does
    with pytest.raises(TrainingError, match="model.shard: deepspeed"):
        Processes()
    with pytest.raises(ValueError, match="shard is fsdp2"):
        ModelConfig(shard="fsdp2", deepspeed={"zero_optimization": {"stage": 2}})
    with pytest.raises(ValueError, match="1, 2 or 3"):
        ModelConfig(shard="deepspeed", deepspeed={"zero_optimization": {"offload_optimizer": {"device": "cpu"}}})


@pytest.mark.slow
def test_each_process_holds_half(alone, runs):
    # embedding and head 258 x 32 each; two layers of 4 x 32 x 32 attention less two halves, 3 x 32 x 64 and two norms; a norm
    size = 2 * 258 * 32 + 2 * (3 * 32 * 32 + 3 * 32 * 64 + 2 * 32) + 32
    assert json.loads((alone / "stopped" / "held0.json").read_text()) == [size, size]
    weights = size if runs.name == "zero2" else size / 2
    for process in range(2):
        assert json.loads((runs / "stopped" / f"held{process}.json").read_text()) == [weights, size / 2]


@pytest.mark.slow
def test_a_checkpoint_of_whole_weights_goes_on_spread(alone, runs, tiny_model):
    assert_same(rows(alone / "stored"), rows(runs / "goes_on"))
    assert_same_end(alone / "stored", runs / "goes_on", tiny_model)


@pytest.mark.slow
def test_a_checkpoint_of_spread_weights_goes_on_whole(alone, runs, recipes, tiny_model):
    assert len(rows(runs / "stopped")) == STOP
    shutil.copytree(runs / "stopped", runs / "alone_again")
    shutil.copy(alone / "stored" / "recipe.yaml", runs / "alone_again" / "recipe.yaml")
    train_to(recipes["stored"], runs / "alone_again", 0)
    assert_same(rows(alone / "stored"), rows(runs / "alone_again"))
    assert_same_end(alone / "stored", runs / "alone_again", tiny_model)


@pytest.mark.slow
def test_each_process_writes_and_reads_its_part_of_a_checkpoint(alone, runs, tiny_model):
    """FSDP2 and ZeRO-3; with ZeRO-2, rank 0 writes it."""
    parts = sorted(path.stat().st_size for path in (runs / "stopped" / "checkpoint").glob("*.distcp"))
    assert (len(parts), (runs / "stopped" / "checkpoint.pt").exists()) == ((0, True) if runs.name == "zero2" else (2, False))
    assert not parts or parts[0] > 0.8 * parts[1]
    assert_same(rows(alone / "stored"), rows(runs / "resumed"))
    assert_same_end(alone / "stored", runs / "resumed", tiny_model)


@pytest.mark.slow
def test_stored_attempts_are_scored_under_the_start(alone, runs):
    """Before there is an optimizer: of a start that no rank holds whole, a layer at a time is gathered."""
    assert_same(rows(alone / "topr"), rows(runs / "topr"))


@pytest.mark.slow
def test_the_policy_is_sampled_and_its_values_learn(alone, runs, tied_model):
    assert_same(rows(alone / "ppo"), rows(runs / "ppo"))
    assert_same_end(alone / "ppo", runs / "ppo", tied_model)
    assert "lm_head.weight" not in load_file(runs / "ppo" / "model" / "model.safetensors"), "what was tied stays tied"
    assert {row["round"] for row in rows(alone / "ppo")} == {0.0, 1.0}


@pytest.mark.slow
def test_adapters_are_spread_too(alone, runs):
    assert_same(rows(alone / "lora"), rows(runs / "lora"))
    ends = [load_file(place / "lora" / "model" / "adapter_model.safetensors") for place in (alone, runs)]
    assert ends[0].keys() == ends[1].keys()
    assert all(torch.allclose(ends[0][name], ends[1][name], atol=1e-4) for name in ends[0])


@pytest.mark.slow
def test_the_reference_is_the_policy_without_adapters_there_too(alone, runs):
    """The KL term of PPO reads it; layers are recomputed between their collectives."""
    assert_same(rows(alone / "ppo_lora"), rows(runs / "ppo_lora"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["half", "half_lora"])
def test_in_bfloat16_it_is_the_same_but_for_rounding(alone, runs, name):
    """FSDP2 gathers layers in bfloat16, norms among them, which autocast leaves in float32."""
    assert_same(rows(alone / name), rows(runs / name), rel=2e-2)


if __name__ == "__main__":
    for recipe_name, run_name, step in json.loads(sys.argv[2]):
        read = Recipe.model_validate(yaml.safe_load((Path(sys.argv[1]) / f"{recipe_name}.yaml").read_text()))
        train_to(read, Path(sys.argv[1]) / run_name, step)
