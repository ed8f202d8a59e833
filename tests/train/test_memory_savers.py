"""Activation checkpointing and frozen weights in bfloat16: less memory, the same numbers."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, MambaConfig, MambaForCausalLM

from upsolve.archive.split import split_archive
from upsolve.archive.store import open_archive
from upsolve.config import ModelConfig, ObjectiveConfig, OptimConfig, Recipe
from upsolve.errors import ModelError
from upsolve.policy.model import (
    adapters_off,
    checkpoint_layers,
    frozen_copy,
    linear_parameters,
    load_model,
    load_policy,
    start_copy,
    trainable,
    with_adapters,
)
from upsolve.train.data.encode import EncodedAttempt, EncodedGroup
from upsolve.train.data.pack import pack
from upsolve.train.loop import train
from upsolve.train.update.learner import Learner
from upsolve.train.update.logprobs import token_scores
from upsolve.train.update.reference_scorer import choose_scorer, padded_scores, sample_of


def batch_of(sizes=(5, 9, 7)):
    attempts = tuple(EncodedAttempt(tuple(range(3, 3 + size)), np.ones(size, np.float32)) for size in sizes)
    return pack([[EncodedGroup(tuple(range(20, 31)), attempts), EncodedGroup((40, 41), attempts[:1])]])


def gradients(model, batch, *, bf16, scorer=token_scores):
    model.train()
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        loss = scorer(model, batch).logp_T.square().mean()
    loss.backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}


def without_zeros(model):
    """Give the adapters' second matrices values: they start at 0, and so would the gradients of the first ones."""
    torch.manual_seed(1)
    for parameter in trainable(model):
        torch.nn.init.normal_(parameter, std=0.05)
    return model


@pytest.mark.parametrize("bf16", [True, False])
@pytest.mark.parametrize("rank", [0, 4])
def test_checkpointing_changes_no_gradient(tiny_model, bf16, rank):
    found = []
    for checkpointing in (False, True):
        config = ModelConfig(name=tiny_model, lora_rank=rank, bf16=bf16, gradient_checkpointing=checkpointing)
        model = load_policy(config, seed=0)
        calls = count_forwards(model)
        found.append(gradients(without_zeros(model) if rank else model, batch_of(), bf16=bf16))
        assert calls() == (2 if checkpointing else 1)
    assert found[0].keys() == found[1].keys() and len(found[0]) >= 20
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])
    assert all(gradient.any() for gradient in found[0].values())


def count_forwards(model):
    """Return a function that says how often the MLP of the first layer has run."""
    calls = []
    layer = next(module for name, module in model.named_modules() if name.endswith("layers.0.mlp.act_fn"))
    layer.register_forward_hook(lambda *_: calls.append(1))
    return lambda: len(calls)


def test_a_model_that_cannot_recompute_its_layers_says_so(monkeypatch):
    model = MambaForCausalLM(MambaConfig(vocab_size=32, hidden_size=8, num_hidden_layers=1))
    monkeypatch.setattr(MambaForCausalLM, "supports_gradient_checkpointing", False)
    with pytest.raises(ModelError, match=r"mamba.*Set model.gradient_checkpointing: false"):
        checkpoint_layers(model, "mamba")


def test_frozen_matrices_are_stored_in_half_and_give_the_same_numbers(tiny_model):
    """Autocast would round them in every pass."""
    config = ModelConfig(name=tiny_model, lora_rank=4, bf16=True)
    halved, whole = load_policy(config, seed=0), with_adapters(load_model(tiny_model), config, seed=0)
    dtypes = {name.split(".")[-2]: parameter.dtype for name, parameter in halved.named_parameters()}
    assert dtypes["base_layer"] == dtypes["lm_head"] == torch.bfloat16
    assert dtypes["embed_tokens"] == dtypes["default"] == dtypes["norm"] == torch.float32
    some, others = (gradients(without_zeros(model), batch_of(), bf16=True) for model in (halved, whole))
    assert some.keys() == others.keys() and all(torch.equal(some[name], others[name]) for name in some)
    assert load_policy(config.model_copy(update={"bf16": False}), seed=0).dtype == torch.float32


def test_the_reference_is_the_policy_without_adapters(tiny_model, tmp_path):
    """The start has adapters of no effect; once they have one, they are switched off, and no second model is held."""
    learner = learner_of(ModelConfig(name=tiny_model, lora_rank=4, bf16=True), tmp_path)
    start = learner.read([batch_of()])[0]
    without_zeros(learner.model)
    now, reference = learner.read([batch_of()])[0], learner.read([batch_of()], frozen=True)[0]
    assert learner.frozen is None
    assert all(np.array_equal(start[key], reference[key]) for key in start)
    assert not any(np.allclose(start[key], now[key], atol=1e-3) for key in start)
    assert len(trainable(learner.model)) == len([n for n, _ in learner.model.named_parameters() if "lora_" in n])


def test_the_reference_of_a_policy_that_is_trained_whole(tiny_model, tmp_path):
    learner = learner_of(ModelConfig(name=tiny_model, bf16=True), tmp_path)
    start = learner.read([batch_of()])[0]
    assert learner.frozen.lm_head.weight.dtype == torch.bfloat16
    assert learner.frozen.model.embed_tokens.weight.dtype == torch.float32
    with torch.no_grad():
        for parameter in learner.model.parameters():
            parameter.mul_(0.9)
    reference = learner.read([batch_of()], frozen=True)[0]
    assert all(np.array_equal(start[key], reference[key]) for key in start)
    exact = start_copy(load_model(tiny_model), bf16=False)
    assert {parameter.dtype for parameter in exact.parameters()} == {torch.float32}


def learner_of(config, folder):
    learner = Learner(config, ObjectiveConfig(), OptimConfig(), seed=0)
    learner.choose_scorer(batch_of())
    learner.start_training(folder, keep_start=True)
    return learner


def test_a_copy_to_sample_from_keeps_rotary_frequencies(tiny_model):
    """In bfloat16 they would be off by up to 0.4 %, which adds up over positions."""
    model = load_model(tiny_model)
    copied = frozen_copy(model, torch.bfloat16)
    assert torch.equal(copied.model.rotary_emb.inv_freq, model.model.rotary_emb.inv_freq)
    assert {parameter.dtype for parameter in copied.parameters()} == {torch.bfloat16}
    assert not any(parameter.requires_grad for parameter in copied.parameters()) and not copied.training
    same = frozen_copy(model, torch.float32)
    assert not {p.data_ptr() for p in same.parameters()} & {p.data_ptr() for p in model.parameters()}


def test_a_copy_to_sample_from_has_the_adapters_merged(tiny_model):
    model = without_zeros(load_policy(ModelConfig(name=tiny_model, lora_rank=4, bf16=False), seed=0))
    ids = torch.arange(20)[None]
    with torch.no_grad():
        assert torch.allclose(frozen_copy(model, torch.float32)(ids).logits, model(ids).logits, atol=1e-5)
        with adapters_off(model):
            assert torch.equal(model(ids).logits, load_model(tiny_model)(ids).logits)


def test_tied_heads_are_not_rounded():
    """The embedding reads the same matrix in float32."""
    model = LlamaForCausalLM(LlamaConfig(vocab_size=97, hidden_size=32, num_hidden_layers=1, tie_word_embeddings=True))
    assert id(model.lm_head.weight) not in map(id, linear_parameters(model))
    assert sum(p.numel() for p in linear_parameters(model)) == sum(p.numel() for p in model.parameters()) - 97 * 32 - 3 * 32
    copied = start_copy(model, bf16=True)
    assert copied.lm_head.weight is copied.model.embed_tokens.weight


@pytest.mark.parametrize("tied", [True, False])
def test_the_check_of_the_scorers_is_exact_though_frozen_weights_are_rounded(tied, tmp_path):
    """Packed rows agree with padded texts to 0.001 in float32; a wrong mask is found."""
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 97}
    spread = {"initializer_range": 0.3}  # with small weights attention looks at no position in particular
    LlamaForCausalLM(LlamaConfig(**shape, **spread, num_hidden_layers=2, tie_word_embeddings=tied)).save_pretrained(tmp_path)
    model = load_policy(ModelConfig(name=str(tmp_path), lora_rank=4), seed=0)

    def autocast():
        return torch.autocast("cpu", torch.bfloat16)

    assert choose_scorer(model, batch_of(), autocast) is token_scores
    assert all("forward" not in vars(module) for module in model.modules())
    model = load_policy(ModelConfig(name=str(tmp_path), lora_rank=4), seed=0)
    with pytest.MonkeyPatch.context() as patch, pytest.warns(UserWarning, match="packed rows do not work with this model"):
        patch.setattr(
            "upsolve.train.update.reference_scorer.packed_scorers", lambda _: [(model.config._attn_implementation, shifted)]
        )
        assert choose_scorer(model, batch_of(), autocast) is padded_scores


def shifted(model, batch):
    """Score with positions that go on where they should start again."""
    return token_scores(model, replace(batch, positions_BL=np.arange(batch.ids_BL.size).reshape(batch.ids_BL.shape)))


def test_the_check_of_the_scorers_is_bounded_whatever_the_attempts():
    """At most six attempts of 48 tokens after 24 of their prompt, and logits of attempt tokens alone in the padded way."""
    attempts = tuple(EncodedAttempt(tuple(range(n, n + 90)), np.ones(90, np.float32)) for n in range(9))
    sample = sample_of(pack([[EncodedGroup(tuple(range(900)), attempts)]]))
    assert sample.ids_BL.shape == (1, 24 + 6 * 47) and len(sample.target_T) == 6 * 48
    assert sample.ids_BL[0, :24].tolist() == [*range(876, 900)]
    model = LlamaForCausalLM(LlamaConfig(vocab_size=1000, hidden_size=32, num_hidden_layers=1))
    seen = []
    model.lm_head.register_forward_hook(lambda _module, _given, out: seen.append(out.shape))
    padded_scores(model, sample)
    assert seen == [(6, 49, 1000)]  # 48, and the state that predicts the first


@pytest.mark.slow
def test_a_run_says_what_it_will_hold_and_what_to_change(tiny_model, tmp_path, caplog, monkeypatch):
    recipe = Recipe.model_validate(
        {"model": {"name": tiny_model, "bf16": True}, "optim": {"max_steps": 1}, "monitor": {"heldout": 0}}
    )
    groups = split_archive(open_archive("embedded"), recipe.data).groups["train"][:12]
    monkeypatch.setattr("upsolve.train.run.memory.available_bytes", lambda: 1000)
    with caplog.at_level("INFO", logger="upsolve.train"), pytest.warns(UserWarning, match=r"needs .* GiB, 0.00 are available"):
        train(recipe, groups, [], tmp_path)
    said = [record.message for record in caplog.records]
    first = next(number for number, line in enumerate(said) if line.startswith("memory, GiB on one device"))
    assert said[first + 1] == "scoring: packed rows in bfloat16, attention upsolve_tree"
