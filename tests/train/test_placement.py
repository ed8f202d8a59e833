"""The sum of gradients over ranks, with a stand-in for the collective."""

import os
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from upsolve.config import OptimConfig
from upsolve.train.run.processes import deterministic
from upsolve.train.update.checkpoint import Progress, restore_checkpoint, save_checkpoint
from upsolve.train.update.placement import GradientSum, Replicated


@pytest.fixture
def sent(monkeypatch):
    """Two ranks with equal gradients: an all-reduce doubles. Returns the sizes in the order in which they were sent."""
    sizes = []

    def all_reduce(flat, async_op):
        assert async_op
        sizes.append(flat.numel())
        flat.mul_(2)
        return SimpleNamespace(wait=lambda: sizes.append("waited"))

    monkeypatch.setattr("torch.distributed.all_reduce", all_reduce)
    monkeypatch.setattr("upsolve.train.update.placement.BUCKET", 6)
    return sizes


def layers():
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(2, 2, bias=False) for _ in range(3)))
    model.unused = nn.Parameter(torch.ones(2))
    return model, [*model.parameters()]


@pytest.mark.usefixtures("sent")
def test_buckets_are_in_order_and_a_large_parameter_stands_alone():
    parameters = [nn.Parameter(torch.zeros(n)) for n in (1, 6, 9, 2, 3)]
    found = GradientSum(parameters).buckets  # the backward pass begins with the last parameter
    assert [[p.numel() for p in bucket] for bucket in found] == [[3, 2], [9], [6], [1]]


def test_a_bucket_is_sent_while_the_backward_pass_runs(sent):
    """Three matrices of 4, in the order of the backward pass; a parameter without a gradient shares the last bucket."""
    model, parameters = layers()
    sums, x = GradientSum(parameters), torch.ones(1, 2)
    seen = []
    model[0].weight.register_hook(lambda _: seen.append(list(sent)))
    for last in (False, True):
        sums.before_backward(last=last)
        model(x).sum().backward()
    assert seen == [[], [4, 4]], "the other layers are on their way before the first one's gradient is there"
    sums.finish()
    assert sent == [4, 4, 6, "waited", "waited", "waited"]
    assert not parameters[0].grad.any() and sums.flats == []
    summed = [parameter.grad for parameter in parameters[1:]]
    model.zero_grad()
    for _ in range(4):  # two micro-batches on two ranks
        model(x).sum().backward()
    assert all(torch.allclose(a, parameter.grad) for a, parameter in zip(summed, parameters[1:], strict=True))


def placement(model, count):
    processes = SimpleNamespace(count=count, device=torch.device("cpu"))
    held = Replicated(model, None, lambda *_: None, processes=processes, optim=OptimConfig(clip_norm=1e9), value_lr=1.0)
    return held, model(torch.ones(1, 2)).sum()


@pytest.mark.usefixtures("sent")
def test_a_step_of_two_ranks_is_a_step_on_twice_the_gradient():
    ends = []
    for count in (1, 2):
        model, _ = layers()
        held, loss = placement(model, count)
        held.backward(2 * loss if count == 1 else loss, last=True)
        norm = held.step(1e-3)
        ends.append((norm, *(parameter.detach().clone() for parameter in model.parameters())))
        assert all(parameter.grad is None for parameter in model.parameters()), "the memory is free between steps"
    assert ends[0][0] == pytest.approx(ends[1][0])
    assert all(torch.equal(a, b) for a, b in zip(ends[0][1:-1], ends[1][1:-1], strict=True))


def test_a_rank_without_a_batch_sends_zeros(sent):
    model, _ = layers()
    held, _ = placement(model, 2)
    assert held.step(1e-3) == 0.0 and sent == [4, 4, 6, "waited", "waited", "waited"]


def test_deterministic_kernels_are_set_and_restored(monkeypatch):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    with deterministic(True):
        assert torch.are_deterministic_algorithms_enabled() and not torch.is_deterministic_algorithms_warn_only_enabled()
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert not torch.are_deterministic_algorithms_enabled()
    with deterministic(False):
        assert not torch.are_deterministic_algorithms_enabled()


def test_a_checkpoint_holds_the_random_numbers_of_the_devices(tmp_path, monkeypatch):
    model, _ = layers()
    held, loss = placement(model, 1)
    held.backward(loss, last=True)
    held.step(1e-3)
    states = [torch.arange(4, dtype=torch.uint8), torch.arange(4, 8, dtype=torch.uint8)]
    restored = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: states)
    monkeypatch.setattr(torch.cuda, "set_rng_state_all", restored.extend)
    save_checkpoint(tmp_path, held, Progress(step=1))
    assert restore_checkpoint(tmp_path, held, None).step == 1
    assert [state.tolist() for state in restored] == [[0, 1, 2, 3], [4, 5, 6, 7]]
