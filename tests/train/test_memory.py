"""The computed memory against what PyTorch itself counts, on tensors without storage and in a process of its own."""

import json
import subprocess
import sys
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
from transformers import AutoModelForCausalLM, LlamaConfig

from upsolve.config import ModelConfig, OptimConfig, Recipe, SampleConfig
from upsolve.policy.attention import bundled
from upsolve.policy.attention.bundled import TREE
from upsolve.policy.model import checkpoint_layers, linear_parameters, rounded, trainable, with_adapters, with_weights
from upsolve.train.data.encode import EncodedAttempt, EncodedGroup
from upsolve.train.data.pack import pack
from upsolve.train.run import memory
from upsolve.train.run.memory import (
    GroupShape,
    ModelShape,
    activation_bytes,
    config_of,
    plan_memory,
    recomputed_bytes,
    sizes_of,
)
from upsolve.train.update import logprobs
from upsolve.train.update.head_scores import block_elements
from upsolve.train.update.logprobs import token_scores
from upsolve.types import Attempt, Group, Task

SIZES = {"vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536, "num_attention_heads": 9, "num_key_value_heads": 3}
SMALL = ModelShape(parameters=1000, layers=2, hidden=8, heads=2, queries=8, keys=4, mlp=16, vocabulary=32, linear=600)


def batch_of(prompt, attempts, length, groups):
    one = tuple(EncodedAttempt(tuple(range(i, i + length)), np.zeros(length, dtype=np.float32)) for i in range(attempts))
    return pack([[EncodedGroup(tuple(range(prompt)), one)] * groups])


def planned(model, batch, group, **settings):
    trained, base = (sum(p.numel() for p in model.parameters() if p.requires_grad is flag) for flag in (True, False))
    linear = sum(p.numel() for p in linear_parameters(model) if p.requires_grad is not bool(base))
    sizes = {"parameters": base or trained, "adapters": trained if base else 0, "linear": linear}
    shape = ModelShape(
        **sizes, layers=model.config.num_hidden_layers, hidden=576, heads=9, queries=576, keys=192, mlp=1536, vocabulary=49152
    )
    optim = OptimConfig(tokens_per_batch=batch.ids_BL.size)
    return plan_memory(shape, model=ModelConfig(**settings), optim=optim, group=group).peak_bytes


class Tracker(MemTracker):
    """Counts models with frozen parameters, too, of which no gradient can be hooked; gradients count as activations then."""

    def _track_module_params_and_buffers(self, module, install_grad_hooks=True):  # noqa: ARG002
        return super()._track_module_params_and_buffers(module, install_grad_hooks=False)


def fake_policy(layers, config):
    """Return a policy as ``load_policy`` makes it, of tensors that have sizes and no storage."""
    model = AutoModelForCausalLM.from_config(LlamaConfig(**SIZES, num_hidden_layers=layers, tie_word_embeddings=True))
    model = rounded(with_adapters(model, config, seed=0), config)
    if config.gradient_checkpointing:
        checkpoint_layers(model, "llama")
    with FakeTensorMode(allow_non_fake_inputs=True):
        fakes = [torch.empty(parameter.shape, dtype=parameter.dtype) for parameter in model.parameters()]
    model = with_weights(model, fakes).train()
    model.set_attn_implementation(TREE)
    return model, fakes[0].fake_mode


WAYS = [pytest.param(*way, marks=pytest.mark.slow) for way in product((True, False), (0, 16), (True, False))]


FORWARD, BACKWARD = bundled.attend._init_fn, bundled.attend_backward._init_fn


class Attention(torch.autograd.Function):
    """The attention of packed rows as its own code computes it: as an operation, tensors without values pass over what it allocates meanwhile."""

    @staticmethod
    def forward(ctx, *inputs):
        bundled.keep_inputs(ctx, inputs)
        return FORWARD(*inputs)

    @staticmethod
    def backward(ctx, d_output):
        return *BACKWARD(d_output, *ctx.saved_tensors, ctx.scaling, ctx.cap), None, None, None


@pytest.mark.parametrize(("bf16", "rank", "checkpointing"), WAYS)
def test_the_plan_is_what_pytorch_counts(bf16, rank, checkpointing, monkeypatch):
    """Two micro-batches and a step of AdamW."""
    layouts = []
    monkeypatch.setattr(bundled, "carried", lambda _: layouts[-1])
    monkeypatch.setattr(bundled, "attend", Attention.apply)
    monkeypatch.setattr(logprobs, "carrier_of", lambda laid: layouts.append(laid) or torch.empty(0))
    settings = {"bf16": bf16, "lora_rank": rank, "gradient_checkpointing": checkpointing}
    batch = batch_of(700, 8, 200, 1)
    model, mode = fake_policy(2, ModelConfig(**settings))
    with mode:
        optimizer, tracker = torch.optim.AdamW(trainable(model)), Tracker()
        tracker.track_external(model, optimizer)
        with tracker:
            for _ in range(2):
                for _ in range(2):
                    with torch.autocast("cpu", torch.bfloat16, enabled=bf16, cache_enabled=not checkpointing):
                        scores = token_scores(model, batch)
                    scores.logp_T.mean().backward()
                    tracker.reset_mod_stats()
                optimizer.step()
                optimizer.zero_grad()
        (counted,) = tracker.get_tracker_snapshot("peak").values()
    assert planned(model, batch, GroupShape(700, 8, 200), **settings) == pytest.approx(counted["Total"], rel=0.15)


MEASURE = """
import json, resource, sys
import torch
from transformers import AutoModelForCausalLM, LlamaConfig
from tests.train.test_memory import SIZES, batch_of
from upsolve.policy.attention.bundled import TREE
from upsolve.train.update.logprobs import token_scores

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

batch, before = batch_of(200, 4, 150, 4), resident()
model = AutoModelForCausalLM.from_config(LlamaConfig(**SIZES, num_hidden_layers=6, tie_word_embeddings=True))
model.set_attn_implementation(TREE)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    for _ in range(2):
        with torch.autocast("cpu", torch.bfloat16):
            scores = token_scores(model, batch)
        scores.logp_T.mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before))
"""


@pytest.mark.slow
def test_the_plan_is_what_a_process_takes():
    """Resident memory, with an allocator that gives back what is freed; with glibc's defaults a run takes up to half as much again."""
    given = {"MALLOC_MMAP_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1", "PYTHONPATH": ":".join(["", *sys.path])}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", MEASURE], capture_output=True, text=True, env=given, check=True
    )
    batch = batch_of(200, 4, 150, 4)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(LlamaConfig(**SIZES, num_hidden_layers=6, tie_word_embeddings=True))
    assert planned(model, batch, GroupShape(200, 4, 150)) == pytest.approx(json.loads(done.stdout), rel=0.15)


def test_activations_by_hand():
    """A token and layer: 20 * 8 + 6 * (8 + 4) + 8 * 16 = 360 bytes; 5 tokens, 2 layers, and 2 bytes for each of 1,000 parameters."""
    assert activation_bytes(SMALL, 5, ModelConfig(bf16=True)) == 5 * 2 * 360 + 2000
    assert activation_bytes(SMALL, 5, ModelConfig(bf16=False)) == 5 * 2 * (24 * 8 + 8 * 12 + 16 * 16)
    recomputed = ModelConfig(
        bf16=True, gradient_checkpointing=True
    )  # both layers' inputs, copies of what is in no linear layer
    assert activation_bytes(SMALL, 5, recomputed) == 5 * 2 * 4 * 8 + 2 * 400
    assert recomputed_bytes(SMALL, 5, recomputed) == 5 * 360 + 2 * 600 // 2 and recomputed_bytes(SMALL, 5, ModelConfig()) == 0


def test_frozen_weights_take_half():
    """With adapters: 600 of 1,000 parameters in bfloat16, no reference beside them."""
    shape, group, optim = replace(SMALL, adapters=10), GroupShape(10, 4, 20), OptimConfig(tokens_per_batch=64)
    for bf16, weights in ((True, 2 * 600 + 4 * 400), (False, 4000)):
        plan = plan_memory(shape, model=ModelConfig(lora_rank=2, bf16=bf16), optim=optim, group=group, reference=True)
        rows = {row.name: row.bytes for row in plan.rows}
        assert (rows["weights"], rows["adapters"], rows["gradients"], rows["optimiser"]) == (weights, 40, 40, 80)
        assert "reference" not in rows


def test_what_a_recipe_adds():
    """Moments are sharded, the reference is whole, sampling takes a copy in half precision, and the larger phase counts."""
    group, optim = GroupShape(10, 4, 20), OptimConfig(tokens_per_batch=64)
    alone = plan_memory(SMALL, model=ModelConfig(bf16=True), optim=optim, group=group)
    rows = {row.name: row.bytes for row in alone.rows}
    assert (rows["weights"], rows["optimiser"], rows["gradients"]) == (4000, 8000, 4000)
    assert alone.peak_bytes == alone.held("always") + alone.held("step")
    model = ModelConfig(shard="fsdp2", bf16=True)
    more = plan_memory(
        SMALL, model=model, optim=optim, group=group, reference=True, rollout=SampleConfig(batch=1000), processes=4
    )
    rows = {row.name: row.bytes for row in more.rows}
    assert (rows["weights"], rows["optimiser"], rows["reference"], rows["sampling copy"]) == (
        1000,
        2000,
        (4000 - 2 * 600) // 4,
        2000,
    )
    assert rows["key-value cache"] == 1000 * (10 + 200) * 2 * 2 * 4 * 2  # sequences, tokens, layers, both, K, bytes
    assert more.peak_bytes == more.held("always") + more.held("sampling")
    # what is always there takes 1000 + 2000 + 2800 bytes, the copy 2000; half of the rest holds three sequences of 210 tokens of 32 bytes
    for available, held in ((7800 + 2 * 3 * 210 * 32, 3), (7800, 1), (10**9, 1000)):
        fitted = plan_memory(
            SMALL,
            model=model,
            optim=optim,
            group=group,
            reference=True,
            rollout=SampleConfig(batch=1000),
            processes=4,
            available=available,
        )
        rows = {row.name: (row.bytes, row.note) for row in fitted.rows}
        fewer = "" if held == 1000 else ", 1000 do not fit"
        assert rows["key-value cache"] == (held * 210 * 32, f"{held} sequences of 210 tokens{fewer}")


@pytest.mark.parametrize(
    ("engine", "here"),
    [("server", {"sampling copy"}), ("transformers", {"sampling copy", "key-value cache", "sampling logits"})],
)
def test_servers_hold_their_own_cache(engine, here):
    """The trainer holds the copy that they load, and neither cache nor logits."""
    rollout = SampleConfig(batch=8, engine=engine, server={"url": "http://127.0.0.1:1/v1"})
    settings = {"optim": OptimConfig(tokens_per_batch=64), "group": GroupShape(10, 4, 20), "rollout": rollout}
    rows = plan_memory(SMALL, model=ModelConfig(), **settings).rows
    assert {row.name for row in rows if row.phase == "sampling"} == here


@pytest.mark.parametrize(
    ("stage", "rows"),
    [
        (3, {"weights": 1000, "gradients": 1000, "gradient bucket": 4000, "a step of DeepSpeed": 4000}),
        (2, {"weights": 4000, "gradients": 1000, "gradient bucket": 4000, "a step of DeepSpeed": 3000}),
        (1, {"weights": 4000, "gradients": 4000, "gradient bucket": 4000, "a step of DeepSpeed": 3000}),
    ],
)
def test_deepspeed_holds_copies_of_its_own(stage, rows, monkeypatch):
    """1,000 parameters on four ranks; the copies of a step are 12 bytes a parameter, and ZeRO-3 keeps 4 of all of them gathered."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    model = ModelConfig(shard="deepspeed", bf16=False, deepspeed={"zero_optimization": {"stage": stage}})
    plan = plan_memory(SMALL, model=model, optim=OptimConfig(tokens_per_batch=64), group=GroupShape(10, 4, 20), processes=4)
    found = {row.name: row.bytes for row in plan.rows}
    assert {name: found[name] for name in rows} == rows
    assert (found["master copy"], found["optimiser"]) == (1000, 2000) and ("gathered" in found) is (stage == 3)


def test_the_sizes_of_a_model_are_read_without_its_weights(tiny_model):
    shape = sizes_of(config_of(tiny_model), ModelConfig())
    assert (shape.layers, shape.hidden, shape.heads, shape.keys, shape.mlp) == (2, 32, 4, 16, 64)
    assert shape.trained == shape.parameters
    assert shape.linear == shape.parameters - 258 * 32 - 5 * 32  # embedding, norms
    adapted = sizes_of(config_of(tiny_model), ModelConfig(lora_rank=2))
    linear = 2 * (2 * (32 + 32) + 2 * (32 + 16) + 2 * (32 + 64) + (64 + 32))  # rank * (in + out): q, o, k, v, gate, up, down
    assert (adapted.parameters, adapted.trained) == (shape.parameters, 2 * linear)


def test_blocks_of_the_head_are_aligned_on_gpus():
    for tokens in (1, 7, 1600, 6400, 200_000):
        width = block_elements(tokens, 151_936, gpu=True) // tokens
        assert width == 151_936 or (width % 128 == 0 and width >= 256)
        assert tokens * width <= max(2**25, 256 * tokens)


@pytest.mark.parametrize(
    ("recipe", "attempts", "reference"),
    [
        ({"objective": {"kind": "dpo"}, "data": {"group_size": 8}}, 2, False),
        ({"objective": {"kind": "dpo"}, "data": {"tasks_at_once": 2}}, 2, True),  # a second round is scored under the start
        ({"objective": {"kind": "ppo_clip"}, "data": {"tasks_at_once": 2}}, 4, True),
        ({"objective": {"kind": "reinforce"}, "data": {"tasks_at_once": 2}}, 4, False),
        ({"objective": {"kind": "topr"}, "source": {"rounds": 2}, "data": {"group_size": 8}}, 8, True),
    ],
)
def test_groups_and_reference_of_a_recipe(monkeypatch, recipe, attempts, reference):
    monkeypatch.setattr(memory, "plan_memory", lambda _shape, **settings: settings)
    monkeypatch.setattr(memory, "sizes_of", lambda _config, _model: SMALL)
    monkeypatch.setattr(memory, "config_of", lambda _name: None)
    made = [Attempt(name, "abc") for name in "xyz"]
    groups = [Group(Task(one.task_id, "p"), (one,), (None,)) for one in made]
    codec = SimpleNamespace(prompt=lambda _task, _turns: SimpleNamespace(ids_P=(1, 2)), ids_of=lambda one: tuple(one.code))
    planned = memory.memory_of(Recipe.model_validate(recipe), groups, codec=codec)
    assert (planned["group"].attempts, planned["reference"]) == (attempts, reference)
