"""AdamW with moments of few bits: refused where it cannot be, and beside AdamW with moments in float32 (in 8 bits where torchao is installed)."""

import io
import math

import pytest
import torch
from torch import nn

from upsolve.config import OptimConfig, check_recipe, load_recipe
from upsolve.errors import ConfigError, MissingExtraError
from upsolve.train.check import check_run
from upsolve.train.run.memory import GroupShape, ModelShape, plan_memory
from upsolve.train.run.processes import Processes
from upsolve.train.update.optimizer import (
    BFloat16AdamW,
    adamw,
    gradient_norm,
    random_bits,
    rounded_at_random,
    set_learning_rate,
)
from upsolve.train.update.placement import Replicated

INT8 = ["optim.moments=int8"]


@pytest.mark.parametrize("moments", ["int8", "bfloat16"])
def test_sharded_moments_are_in_float32(moments):
    with pytest.raises(ConfigError, match=rf"optim.moments: {moments} .* model.shard: fsdp2"):
        check_recipe(load_recipe("sft", [f"optim.moments={moments}", "model.shard=fsdp2"]))


def test_the_missing_library_is_named_before_a_model_is_loaded(monkeypatch):
    monkeypatch.setattr("upsolve.extras.find_spec", lambda _name: None)
    with pytest.raises(MissingExtraError, match="int8"):
        check_run(load_recipe("sft", INT8), [])


def test_the_plan_counts_the_bytes_of_moments():
    shape = ModelShape(parameters=1000, layers=2, hidden=8, heads=2, queries=8, keys=4, mlp=16, vocabulary=32, linear=600)

    def optimiser(moments):
        recipe = load_recipe("sft", [f"optim.moments={moments}"])
        plan = plan_memory(shape, model=recipe.model, optim=recipe.optim, group=GroupShape(8, 2, 8))
        return next(row.bytes for row in plan.rows if row.name == "optimiser")

    assert (optimiser("float32"), optimiser("bfloat16"), optimiser("int8")) == (8000, 4000, 2000)


def trained(module, optimizer, steps):
    for step in steps:
        torch.manual_seed(step)
        module(torch.randn(32, 64)).square().mean().backward()
        set_learning_rate(optimizer, 1e-2)
        optimizer.step()
        optimizer.zero_grad()
    return module.weight.detach().clone()


def layer():
    torch.manual_seed(0)
    return nn.Linear(64, 128)


def test_a_moment_that_grows_slowly_does_not_stand_still():
    small = torch.full((1 << 16,), 1.0)
    for step in range(100):  # each time by a tenth of the distance to the next number in bfloat16
        small = rounded_at_random(small * (1 + 2**-7 / 10), random_bits(step, len(small), small.device)).float()
    assert float(small.mean()) == pytest.approx((1 + 2**-7 / 10) ** 100, rel=2e-3)
    assert float((torch.ones(1) * (1 + 2**-7 / 10)).bfloat16()) == 1.0


def test_a_parameter_of_several_chunks_is_computed_as_one(monkeypatch):
    whole, parts = layer(), layer()
    for module, size in ((whole, 1 << 18), (parts, 1000)):
        monkeypatch.setattr("upsolve.train.update.optimizer.CHUNK", size)
        trained(module, BFloat16AdamW([{"params": [*module.parameters()], "factor": 1.0}], lr=1e-2, weight_decay=0.1), range(3))
    assert torch.allclose(whole.weight, parts.weight, atol=1e-4) and not torch.equal(whole.weight, layer().weight)


@pytest.mark.parametrize(("moments", "lockstep"), [("float32", False), ("bfloat16", False), ("float32", True)])
def test_gradients_are_clipped_by_every_optimizer(moments, lockstep, monkeypatch):
    """A gradient of norm 5 is clipped to 1, one of norm 0.5 stays: AdamW's first moment is a tenth of it."""
    monkeypatch.setattr(Replicated, "lockstep", lockstep)
    for size, expected in ((5.0, 1.0), (0.5, 0.5)):
        module = nn.Linear(2, 1, bias=False)
        optim = OptimConfig(lr=1e-2, moments=moments, clip_norm=1.0)
        placed = Replicated(module, None, None, processes=Processes(), optim=optim, value_lr=1e-2)
        module.weight.grad = torch.tensor([[0.6, 0.8]]) * size
        assert placed.step(1e-2) == pytest.approx(size)
        moment = placed.optimizer.state[module.weight]["exp_avg"].float()
        assert moment.norm() == pytest.approx(0.1 * expected, rel=0.01)


@pytest.mark.parametrize("moments", ["bfloat16", pytest.param("int8", marks=pytest.mark.slow)])  # int8: torch.compile
def test_few_bits_train_as_float32_does_and_resume_bit_by_bit(moments):
    if moments == "int8":
        pytest.importorskip("torchao", reason="torchao is not installed")

    def placed(moments):
        optim = OptimConfig(lr=1e-2, moments=moments)
        return Replicated(layer(), None, None, processes=Processes(), optim=optim, value_lr=1e-2)

    exact, rounded = placed("float32"), placed(moments)
    ends = [trained(p.model, p.optimizer, range(20)) for p in (exact, rounded)]
    moved = (ends[0] - layer().weight).abs().mean()
    assert 0 < (ends[0] - ends[1]).abs().mean() < 0.02 * moved  # rounded, and close
    stored = rounded.optimizer.state[rounded.model.weight]["exp_avg"]
    assert stored.dtype == torch.bfloat16 if moments == "bfloat16" else stored.codes.dtype == torch.uint8
    file, again = io.BytesIO(), placed(moments)
    torch.save(rounded.state(keep=True), file)
    file.seek(0)
    again.load(*torch.load(file, weights_only=True), example=None)
    assert again.optimizer.state[again.model.weight]["exp_avg"].dtype == stored.dtype
    assert torch.equal(
        trained(again.model, again.optimizer, range(20, 25)), trained(rounded.model, rounded.optimizer, range(20, 25))
    )


def test_every_part_has_its_own_rate():
    policy, value = layer(), nn.Linear(4, 1)
    optimizer = adamw(
        {"policy": [*policy.parameters()], "value": [*value.parameters()]}, OptimConfig(lr=1e-2), value_lr=1e-3, fused=True
    )
    set_learning_rate(optimizer, 5e-3)
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([5e-3, 5e-4])


def test_the_norm_of_the_gradients_is_close_to_that_in_float64():
    generator = torch.Generator().manual_seed(0)
    gradients = [torch.randn(shape, generator=generator) * 1e-3 for shape in [(1000, 4000), (300, 7), (5,)]]
    gradients[1] = gradients[1].T  # not contiguous
    exact = math.sqrt(sum(float(each.double().square().sum()) for each in gradients))
    # as CHANGELOG says; 3e-5 with one thread on an EPYC
    assert float(gradient_norm(gradients)) == pytest.approx(exact, rel=1e-4)


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_the_norm_of_bad_gradients_is_not_finite(bad):
    assert not math.isfinite(gradient_norm([torch.ones(3), torch.tensor([1.0, bad])]))


def test_the_norm_of_gradients_in_bfloat16_is_pytorchs():
    gradients = [torch.ones(10, dtype=torch.bfloat16), torch.ones(6)]
    assert float(gradient_norm(gradients)) == float(torch.nn.utils.get_total_norm(gradients)) == pytest.approx(4, rel=0.01)
