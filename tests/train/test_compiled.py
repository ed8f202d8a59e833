"""Compiled layers: the same numbers within rounding, resumed bitwise, and never an error of the run."""

import logging

import numpy as np
import pytest
import torch
from torch._dynamo.utils import counters
from transformers import LlamaConfig, LlamaForCausalLM

from upsolve.config import ModelConfig, ObjectiveConfig, OptimConfig
from upsolve.policy.attention import bundled
from upsolve.policy.attention.bundled import TREE
from upsolve.policy.model import load_model
from upsolve.train.data.encode import EncodedAttempt, EncodedGroup
from upsolve.train.data.pack import pack
from upsolve.train.update import compiled
from upsolve.train.update.compiled import CompiledScorer, compiled_or_plain, worth_compiling
from upsolve.train.update.learner import Learner
from upsolve.train.update.logprobs import token_scores
from upsolve.train.update.step import FrozenScores

# inductor and peft warn about themselves
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")]


def batch_of(sizes=(5, 9, 7)):
    attempts = tuple(EncodedAttempt(tuple(range(3, 3 + size)), np.ones(size, np.float32)) for size in sizes)
    return pack([[EncodedGroup(tuple(range(20, 31)), attempts), EncodedGroup((40, 41), attempts[:1])]])


def trained(config, folder, *, steps):
    folder.mkdir(exist_ok=True)
    learner = Learner(config, ObjectiveConfig(), OptimConfig(lr=1e-3), seed=0)
    learner.choose_scorer(batch_of())
    progress = learner.start_training(folder, keep_start=False)
    norms = [learner.step([batch_of((5, 9, 7 + at))], FrozenScores(), 1e-3)["grad_norm"] for at in range(progress.step, steps)]
    progress.step = steps
    learner.save_checkpoint(folder, progress)
    return learner, norms


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 4])
def test_compiled_layers_train_alike_and_resume_bitwise(tiny_model, tmp_path, rank):
    config = ModelConfig(name=tiny_model, lora_rank=rank, compile="always", bf16=True)
    learner, norms = trained(config, tmp_path / "whole", steps=4)
    assert isinstance(learner.scorer, CompiledScorer) and learner.scoring.endswith("compiled layers")
    plain = trained(config.model_copy(update={"compile": "never"}), tmp_path / "plain", steps=4)[1]
    assert norms == pytest.approx(plain, rel=0.02) and norms != plain
    first = trained(config, tmp_path / "parts", steps=2)[1]
    again, rest = trained(config, tmp_path / "parts", steps=4)
    assert [*first, *rest] == norms
    assert all(torch.equal(a, b) for a, b in zip(learner.model.parameters(), again.model.parameters(), strict=True))


@pytest.mark.slow
def test_layers_are_compiled_once_even_if_a_row_is_as_long_as_a_head_is_wide():
    """The first batch, whose row is padded to 64 tokens, is like the sample on which a scorer is checked."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=100,
            hidden_size=32,
            intermediate_size=48,
            head_dim=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
        )
    )
    scorer = CompiledScorer(model, token_scores)
    short, long = batch_of(), batch_of((60, 60, 60))
    assert short.ids_BL.shape[1] <= 64 < long.ids_BL.shape[1]
    scorer(model, short).logp_T.mean().backward()
    with torch._dynamo.config.patch(error_on_recompile=True):
        scorer(model, long).logp_T.mean().backward()


@pytest.mark.slow
def test_a_layer_is_one_program_whose_attention_is_not_computed_again_in_the_backward_pass(tiny_model, monkeypatch):
    calls = []
    carried = bundled.carried
    monkeypatch.setattr(bundled, "carried", lambda carrier: calls.append(carrier) or carried(carrier))
    torch.compiler.reset()
    counters.clear()
    model = load_model(tiny_model)
    model.set_attn_implementation(TREE)
    scores = CompiledScorer(model, token_scores)(model, batch_of())
    assert counters["stats"]["unique_graphs"] == 1 and not counters["graph_break"]
    scores.logp_T.mean().backward()
    assert len(calls) == 2 * len(model.model.layers)


def test_copies_of_the_model_have_plain_layers(tiny_model):
    model = load_model(tiny_model)
    scorer = CompiledScorer(model, token_scores)
    before = model.model.layers[0].forward
    with scorer.compiled():
        assert model.model.layers[0].forward != before
    assert model.model.layers[0].forward == before


@pytest.mark.parametrize("broken", ["raises", "differs"])
def test_a_run_goes_on_without_layers_that_cannot_be_compiled(tiny_model, broken, monkeypatch, caplog):
    def wrong(forward, **_):
        def run(*args, **kwargs):
            if broken == "raises":
                raise RuntimeError("C++ compile error")
            return forward(*args, **kwargs) * 1.1

        return run

    monkeypatch.setattr(torch, "compile", wrong)
    model = load_model(tiny_model)
    with caplog.at_level(logging.WARNING, logger="upsolve.train"):
        scorer = compiled_or_plain(model, token_scores, batch_of(), torch.enable_grad)
    assert scorer is token_scores
    expected = "C++ compile error" if broken == "raises" else "would differ by"
    assert expected in caplog.text


def test_layers_that_were_compared_in_another_run_are_only_compiled(tiny_model, tmp_path, monkeypatch):
    calls = []
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path))
    monkeypatch.delenv("UPSOLVE_CHECK")
    monkeypatch.setattr(torch, "compile", lambda forward, **_: forward)
    exact = compiled.exact_scores
    monkeypatch.setattr(compiled, "exact_scores", lambda *inputs: calls.append(inputs) or exact(*inputs))
    for _ in range(2):
        model = load_model(tiny_model)
        assert isinstance(compiled_or_plain(model, token_scores, batch_of(), torch.enable_grad), CompiledScorer)
    assert len(calls) == 1

    def broken(*_args, **_inputs):
        raise RuntimeError("no space left for the compiler")

    monkeypatch.setattr(torch, "compile", lambda _forward, **_: broken)
    assert compiled_or_plain(load_model(tiny_model), token_scores, batch_of(), torch.enable_grad) is token_scores


def test_only_long_runs_of_large_models_are_compiled_by_themselves(tiny_model, monkeypatch):
    model = load_model(tiny_model)
    size = sum(parameter.numel() for parameter in model.parameters())
    monkeypatch.setattr(compiled, "has_compiler", lambda: True)
    assert not worth_compiling(model, 60_000)
    assert worth_compiling(model, compiled.WORTH / size)
    monkeypatch.setattr(compiled, "has_compiler", lambda: False)
    assert not worth_compiling(model, compiled.WORTH / size)


@pytest.mark.slow
def test_compiled_layers_keep_less_for_the_backward_pass(tiny_model):
    def kept(scorer):
        sizes = {}

        def keep(tensor):
            sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), torch.autocast("cpu", torch.bfloat16):
            assert scorer(model, batch_of((60, 60, 60))).logp_T.requires_grad
        return sum(size for pointer, size in sizes.items() if pointer not in weights)

    model = load_model(tiny_model)
    model.set_attn_implementation(TREE)
    weights = {parameter.data_ptr() for parameter in model.parameters()}
    assert kept(CompiledScorer(model, token_scores)) < 0.5 * kept(token_scores)
