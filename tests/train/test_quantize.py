"""Adapters on a quantised base (QLoRA): refused where it cannot be, and beside adapters on the whole base where bitsandbytes is installed."""

from importlib.util import find_spec

import pytest
import torch
from pydantic import ValidationError

from upsolve.archive.split import split_archive
from upsolve.archive.store import open_archive
from upsolve.config import ModelConfig, Recipe, load_recipe
from upsolve.errors import MissingExtraError, ModelError
from upsolve.exports.model import export_model
from upsolve.policy.model import frozen_copy, load_model, load_policy, quantized_layers, trainable
from upsolve.train.check import check_run
from upsolve.train.loop import train
from upsolve.train.run.memory import GroupShape, config_of, plan_memory, sizes_of, stored_bytes
from upsolve.train.run.monitor import read_steps
from upsolve.train.update.learner import Learner
from upsolve.train.update.reference_scorer import padded_scores

NEEDS = pytest.mark.skipif(not find_spec("bitsandbytes"), reason="needs bitsandbytes")
NF4, INT8 = ("nf4", 0.1, 0.2), ("int8", 0.01, 0.02)
"""How far logits and gradients are from those of the whole base, relative to their norm."""
KINDS = pytest.mark.parametrize(("kind", "near", "steep"), [NF4, INT8])
ADAPTERS = {"lora_rank": 4, "bf16": False}
IDS = torch.arange(48).view(3, 16)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({}, "lora_rank: 0 trains them; set lora_rank"),
        ({"lora_rank": 4, "shard": "fsdp2"}, "does not go with shard: fsdp2"),
        ({"lora_rank": 4, "shard": "deepspeed"}, "does not go with shard: deepspeed"),
        ({"lora_rank": 4, "compile": "always"}, "use auto"),
    ],
)
def test_what_does_not_go_with_it_is_refused(settings, why):
    with pytest.raises(ValidationError, match=why):
        ModelConfig(quantize="nf4", **settings)


def test_the_missing_library_is_named_before_a_model_is_loaded(monkeypatch):
    monkeypatch.setattr("upsolve.extras.find_spec", lambda _name: None)
    with pytest.raises(MissingExtraError, match=r"upsolve\[quantize\]"):
        check_run(load_recipe("sft", ["model.quantize=nf4", "model.lora_rank=4"]), [])


def policy(model, **settings):
    """Return a policy whose adapters are not zero, and the same ones for every base."""
    loaded = load_policy(ModelConfig(name=model, **{**ADAPTERS, **settings}), seed=0)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in trainable(loaded):
            parameter.normal_(0, 0.02)
    return loaded


def gradient(model):
    found = torch.autograd.grad(model(input_ids=IDS).logits.log_softmax(-1)[:, :, 7].mean(), trainable(model))
    return torch.cat([each.flatten() for each in found])


def distance(some, other):
    return float(((some - other).norm() / other.norm()).detach())


@NEEDS
@KINDS
def test_it_computes_as_its_dequantised_copy_and_nearly_as_the_whole_base(tiny_model, kind, near, steep):
    packed, plain = policy(tiny_model, quantize=kind), policy(tiny_model)
    assert len(quantized_layers(packed)) == 14, "four of attention and three of the MLP, in two layers, and not the head"
    copied = frozen_copy(packed, torch.float32)
    wanted = plain(input_ids=IDS).logits
    for training in (True, False):
        found = packed.train(training)(input_ids=IDS).logits
        assert torch.allclose(found, copied(input_ids=IDS).logits, atol=1e-5)
        assert 0 < distance(found, wanted) < near
        assert 0 < distance(gradient(packed), gradient(plain)) < steep
    with torch.autocast("cpu", torch.bfloat16):
        assert distance(packed(input_ids=IDS).logits.float(), found) < 0.02


@NEEDS
@KINDS
def test_the_plan_counts_the_bytes_of_the_base(tiny_model, kind, near, steep):  # noqa: ARG001  the figures of the other tests
    for bf16 in (False, True):
        config = ModelConfig(name=tiny_model, lora_rank=4, bf16=bf16, quantize=kind)
        loaded = load_policy(config, seed=0)
        frozen = [parameter for parameter in loaded.parameters() if not parameter.requires_grad]
        held = sum(each.untyped_storage().nbytes() for each in frozen)
        for layer in quantized_layers(loaded) if kind == "nf4" else ():
            state = layer.weight.quant_state
            held += state.absmax.untyped_storage().nbytes() + state.state2.absmax.untyped_storage().nbytes()
        shape = sizes_of(config_of(tiny_model), config)
        assert stored_bytes(shape, config) == pytest.approx(held, rel=0.01)
        assert (shape.quantized, shape.largest) == (2 * (3 * 32 * 32 + 3 * 32 * 64), 32 * 64)


def recipe_for(model, kind):
    return Recipe.model_validate(
        {
            "model": {"name": model, **ADAPTERS, "quantize": kind},
            "data": {"train": 0.05, "dev": 0.05},
            "optim": {"lr": 1e-2, "epochs": 4, "max_steps": 2, "tokens_per_step": 3000, "schedule": "constant"},
            "monitor": {"save_every": 1, "heldout": 4, "eval_every": 1},
            "objective": {"kind": "reinforce"},
            "advantage": {"kind": "passed"},
        }
    )


@NEEDS
@pytest.mark.parametrize(("kind", "near", "steep"), [NF4, pytest.param(*INT8, marks=pytest.mark.slow)])
def test_two_steps_train_the_adapters_alone(tiny_model, tmp_path, monkeypatch, kind, near, steep):  # noqa: ARG001
    """The loss falls, the base stays as it was byte for byte, and the adapters are read onto the whole base, merged too."""
    learners, groups = [], split_archive(open_archive("embedded"), recipe_for(tiny_model, kind).data).groups
    monkeypatch.setattr(
        Learner,
        "__init__",
        lambda self, *given, made=Learner.__init__, **named: learners.append(self) or made(self, *given, **named),
    )
    for name in ("none", kind):
        train(recipe_for(tiny_model, name), groups["train"], groups["dev"], tmp_path / name)
    before = quantized_layers(load_policy(recipe_for(tiny_model, kind).model, seed=0))
    model = learners[-1].model
    after = quantized_layers(model)
    assert len(after) == 14 and all(torch.equal(a.weight, b.weight) for a, b in zip(before, after, strict=True))
    rows, plain = (read_steps(tmp_path / name / "metrics.jsonl") for name in (kind, "none"))
    assert rows[1]["loss"] < rows[0]["loss"] and rows[1]["heldout_passed_logp"] > rows[0]["heldout_passed_logp"]
    assert [row["loss"] for row in rows] == pytest.approx([row["loss"] for row in plain], rel=0.02)
    assert learners[-1].scorer is not padded_scores, "packed rows agree with padded texts"
    saved = load_model(str(tmp_path / kind / "model"))
    merged = load_model(str(export_model(str(tmp_path / kind / "model"), tmp_path / "merged")))
    wanted = learners[-1].sampling_copy(model)(input_ids=IDS).logits
    assert distance(saved(input_ids=IDS).logits, wanted) < near
    assert torch.allclose(saved(input_ids=IDS).logits, merged(input_ids=IDS).logits, atol=1e-5)


@NEEDS
def test_adapters_are_no_base_to_quantise(tiny_model, tmp_path):
    policy(tiny_model).save_pretrained(tmp_path / "adapters")
    with pytest.raises(ModelError, match="upsolve export .*adapters FOLDER"):
        policy(str(tmp_path / "adapters"), quantize="nf4")


def test_the_plan_advises_it_where_adapters_are_trained(tiny_model):
    """And no sharding, with which it does not go, where it is set."""

    def fix(**settings):
        config = ModelConfig(name=tiny_model, **settings)
        recipe = load_recipe("sft")
        plan = plan_memory(sizes_of(config_of(tiny_model), config), model=config, optim=recipe.optim, group=GroupShape(8, 2, 8))
        return next(row.fix for row in plan.rows if row.name == "weights")

    assert fix(lora_rank=4).startswith("model.quantize: nf4") and "quantize" not in fix()
    assert fix(lora_rank=4, quantize="int8") == "model.quantize: nf4" and fix(lora_rank=4, quantize="nf4") == ""
