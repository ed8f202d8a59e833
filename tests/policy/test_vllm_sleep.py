"""How vLLM's classes are called beside a trainer on a GPU: which share of the memory, when it sleeps and wakes up. vLLM is a stub here."""

import sys
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import pytest
import torch

from upsolve.config import ModelConfig, OptimConfig, SampleConfig
from upsolve.errors import ConfigError
from upsolve.policy.model import load_codec, load_model
from upsolve.policy.vllm import VllmFollower
from upsolve.train.run.memory import GIB, GroupShape, MemoryPlan, MemoryRow, ModelShape, beside_trainer, plan_memory
from upsolve.types import Task

TASKS = [Task("add", "Add two numbers."), Task("turn", "Turn a text.")]


class StubLLM:
    """Writes down what it is asked."""

    calls: ClassVar = []

    def __init__(self, **settings):
        self.calls.append(("load", settings))

    def generate(self, prompts, _settings, **_options):
        self.calls.append(("generate", len(prompts)))
        token = SimpleNamespace(logprob=-1.0)
        done = SimpleNamespace(token_ids=[5], logprobs=[{5: token}], finish_reason="stop")
        return [SimpleNamespace(outputs=[done]) for _ in prompts]

    def __getattr__(self, name):
        return lambda *given, **more: self.calls.append((name, *given, *more.values()))


@pytest.fixture
def calls(monkeypatch):
    vllm, platforms = ModuleType("vllm"), ModuleType("vllm.platforms")
    vllm.LLM, vllm.SamplingParams = StubLLM, dict
    platforms.current_platform = SimpleNamespace(is_cpu=lambda: False)
    monkeypatch.setitem(sys.modules, "vllm", vllm)
    monkeypatch.setitem(sys.modules, "vllm.platforms", platforms)
    monkeypatch.setattr(StubLLM, "calls", [])
    return StubLLM.calls


def gpu(monkeypatch, total=80 * GIB):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("upsolve.policy.machine.multiplies_bfloat16", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (total, total))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: StubLLM.calls.append(("empty_cache",)))


def sampled(tiny_model, folder, config, rounds=2):
    model, codec, follow = load_model(tiny_model), load_codec(tiny_model), VllmFollower(ModelConfig(), folder)
    for _ in range(rounds):
        assert len([*follow(model, codec, TASKS, config=config)]) == 4
    return follow, model, codec


def test_it_sleeps_while_the_trainer_steps(tiny_model, tmp_path, calls, monkeypatch):
    gpu(monkeypatch)
    config = SampleConfig(engine="vllm", samples=2, vllm={"memory": 0.4})
    follow, model, codec = sampled(tiny_model, tmp_path / "policy", config)
    load = calls[1][1]
    assert load["enable_sleep_mode"] is True and load["gpu_memory_utilization"] == 0.4
    assert [call[0] for call in calls[:4]] == ["empty_cache", "load", "generate", "sleep"]
    assert calls[4:] == [
        *(("empty_cache",), ("wake_up", ["weights"]), ("collective_rpc", "reload_weights"), ("wake_up", ["kv_cache"])),
        *(("reset_prefix_cache",), ("generate", 4), ("sleep", 2)),
    ]
    attempts = follow(model, codec, TASKS, config=config)  # one that is not sampled to its end
    next(attempts)
    attempts.close()
    assert calls[-1] == ("sleep", 2)


@pytest.mark.parametrize("on_gpu", [True, False])
def test_the_engine_stays_awake_if_configured_or_unable_to_sleep(tiny_model, tmp_path, calls, monkeypatch, on_gpu):
    if on_gpu:
        gpu(monkeypatch)
    sampled(tiny_model, tmp_path / "policy", SampleConfig(engine="vllm", samples=2, vllm={"sleep": not on_gpu}))
    names = [call[0] for call in calls if call[0] != "empty_cache"]
    assert names == ["load", "generate", "collective_rpc", "reset_prefix_cache", "generate"]
    load = next(call[1] for call in calls if call[0] == "load")
    assert "enable_sleep_mode" not in load and load["gpu_memory_utilization"] == 0.9


def plan_of(always, step):
    return MemoryPlan((MemoryRow("weights", always * GIB, "always", ""), MemoryRow("activations", step * GIB, "step", "")))


def test_its_share_is_what_the_trainer_leaves(monkeypatch):
    """80 GiB, 20 held always, 28 in a step: 1 - 0.06 - 20 / 80 = 0.69, and 0.34 where both are there at once."""
    gpu(monkeypatch)
    rollout = SampleConfig(engine="vllm")
    assert beside_trainer(rollout, plan_of(20, 28)).vllm.memory == 0.69
    awake = SampleConfig(engine="vllm", vllm={"sleep": False})
    assert beside_trainer(awake, plan_of(20, 28)).vllm.memory == 0.34
    told = SampleConfig(engine="vllm", vllm={"memory": 0.2})
    assert beside_trainer(told, plan_of(20, 28)) == told
    with pytest.raises(ConfigError, match=r"beside a trainer that holds 75.00.*model.lora_rank"):
        beside_trainer(rollout, plan_of(75, 1))
    others = SampleConfig()
    assert beside_trainer(others, plan_of(75, 1)) == others


def test_a_run_that_does_not_fit_names_the_remedy():
    shape = ModelShape(7 * 10**9, 28, 3584, 28, 3584, 512, 18944, 152064, linear=6 * 10**9)
    plan = plan_memory(shape, model=ModelConfig(), optim=OptimConfig(), group=GroupShape(500, 4, 300))
    said = plan.warning(80 * GIB)
    assert "80.00 are available" in said and "optimiser 52.15: model.lora_rank: 16" in said
    assert "activations" in said and "model.gradient_checkpointing: true" in said
    assert plan.warning(plan.peak_bytes) == ""
    assert plan.text().startswith(
        f"memory, GiB on one device: {plan.peak_bytes / GIB:.2f} at the peak (weights 26.08, optimiser"
    )


@pytest.mark.usefixtures("calls")
@pytest.mark.parametrize(("temperature", "top_p", "known"), [(1.0, 1.0, (-1.0,)), (0.7, 1.0, None), (1.0, 0.9, None)])
def test_log_probabilities_of_tokens_are_stored_where_they_are_those_of_the_samples(
    tiny_model, tmp_path, temperature, top_p, known
):
    config = SampleConfig(engine="vllm", samples=1, temperature=temperature, top_p=top_p)
    follow = VllmFollower(ModelConfig(), tmp_path / "policy")
    for attempt in follow(load_model(tiny_model), load_codec(tiny_model), TASKS, config=config):
        assert (attempt.token_logps, attempt.behavior_logp) == (known, -1.0)
