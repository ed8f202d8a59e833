"""Kinds of models: packed rows and batched decoding agree with the model's own forward pass, or that is used, with a warning."""

import warnings
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
import transformers
from torch._subclasses import FakeTensorMode

from upsolve.config import SampleConfig
from upsolve.errors import ModelError
from upsolve.policy.attention import gpu as varlen
from upsolve.policy.attention.bundled import TREE
from upsolve.policy.attention.gpu import FLEX
from upsolve.policy.attention.layout import group_spans
from upsolve.policy.decoding.batched_decode import ATTENTION, check_batched_decode, decode_step, prefill
from upsolve.policy.decoding.kv_cache import BatchedCache
from upsolve.policy.decoding.sample import sample
from upsolve.policy.head import head_of
from upsolve.policy.model import load_codec, load_model
from upsolve.train.data.encode import EncodedAttempt, EncodedGroup
from upsolve.train.data.pack import pack
from upsolve.train.update.logprobs import token_scores
from upsolve.train.update.reference_scorer import (
    TOLERANCE,
    choose_scorer,
    difference,
    padded_scores,
    prompts_of,
    sample_of,
    scores_and_gradient,
)
from upsolve.types import Task

SMALL = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
WINDOW = ["sliding_attention", "full_attention"] * 2
FEW = {"Llama", "Gemma2", "Granite"}
"""Kinds of models that differ most; the others are tried by make test-all where a test takes long."""


def quick(kinds):
    """Return kinds of models as parameters, of which those beside ``FEW`` are slow."""
    return [pytest.param(kind, marks=[] if kind in FEW else [pytest.mark.slow]) for kind in sorted(kinds)]


KINDS = {
    "Llama": {},
    "Qwen2": {},
    "Qwen2 with a window": {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 2},
    "Qwen3": {},
    "SmolLM3": {"no_rope_layers": [1, 1, 1, 0]},
    "Gemma": {},
    "Gemma2": {
        "sliding_window": 6,
        "layer_types": WINDOW,
        "query_pre_attn_scalar": 8,
        "attn_logit_softcapping": 0.5,
        "final_logit_softcapping": 0.4,
    },
    "Gemma3": {"sliding_window": 6, "layer_types": WINDOW, "query_pre_attn_scalar": 8},
    "Mistral": {"sliding_window": 6},
    "Phi3": {"sliding_window": 6},
    "Starcoder2": {"sliding_window": 6},
    "Olmo2": {},
    "Granite": {"logits_scaling": 3.0, "attention_multiplier": 0.3},
    "Cohere": {"logit_scale": 0.25},
    "GPT2": {"n_embd": 32, "n_layer": 2, "n_head": 4},
}
ODD = {
    "GptOss": {"num_local_experts": 1, "num_experts_per_tok": 1},  # sinks
    "Mamba": {"state_size": 4},
    "Qwen3Next": {"mlp_only_layers": [0, 1, 2, 3]},
    "Bloom": {},
}
"""Kinds that batched decoding does not support."""


def model_of(kind, **more):
    name = kind.split()[0]
    config_name = {"Gemma3": "Gemma3TextConfig"}.get(name, f"{name}Config")
    model_name = {"GPT2": "GPT2LMHeadModel"}.get(name, f"{name}ForCausalLM")
    torch.manual_seed(0)
    model = getattr(transformers, model_name)(
        getattr(transformers, config_name)(**{**SMALL, **{**KINDS, **ODD}.get(kind, {}), **more})
    )
    for parameter in model.parameters():  # far from zero, so that a cap, a window or a factor that is missed shows
        torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


def batch_of(seed=0):
    """Two groups in the first row, one in the second; prompts and attempts longer than any window."""
    random = np.random.default_rng(seed)

    def ids(size):
        return tuple(random.integers(3, 97, size).tolist())

    def group(prompt, *sizes):
        return EncodedGroup(ids(prompt), tuple(EncodedAttempt(ids(size), np.zeros(size, np.float32)) for size in sizes))

    return pack([[group(11, 9, 14, 1), group(8, 7, 12)], [group(20, 16)]])


@pytest.mark.parametrize("kind", KINDS)
def test_packed_rows_give_what_padded_texts_give(kind):
    model = model_of(kind)
    before = model.config._attn_implementation
    assert choose_scorer(model, batch_of()) is token_scores

    def plain(policy, batch):
        policy.set_attn_implementation(before)
        return padded_scores(policy, batch)

    assert (
        difference(scores_and_gradient(model, batch_of(), token_scores), scores_and_gradient(model, batch_of(), plain))
        < TOLERANCE
    )


@pytest.mark.parametrize("kind", ["Gemma2", "Cohere", "Granite"])
def test_caps_and_factors_of_the_head_count_in_entropy_and_variance(kind):
    model = model_of(kind)
    plain = padded_scores(model, batch_of())
    model.set_attn_implementation(TREE)
    packed = token_scores(model, batch_of())
    assert torch.allclose(packed.entropy_T, plain.entropy_T, atol=1e-4)
    assert torch.allclose(packed.logit_variance_T, plain.logit_variance_T, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_batched_decoding_gives_what_the_model_gives(kind):
    """Slots of different length, longer than any window: two share a prompt, one is free, and one goes on alone, after a prompt in its place.

    Several tokens of a slot at once, of which some are taken back; slots that are copied to others.
    """
    model, ids = model_of(kind), tuple(np.random.default_rng(0).integers(3, 97, 24).tolist())
    own = model(torch.tensor([ids])).logits[0].log_softmax(-1)
    before = model.config._attn_implementation
    assert not check_batched_decode(model, ids) and model.config._attn_implementation == before
    model.set_attn_implementation(ATTENTION)
    cache, positions, busy = BatchedCache(4, model.device), torch.tensor([11, 3, 0, 11]), [0, 1, 3]
    for slot in busy[:2]:
        cache.begin(slot, cache.add(*prefill(model, cache, [ids[: positions[slot] + 1]])))
    cache.begin(3, 0)

    def assert_next_tokens(slots, new=1):
        places = positions[:, None] + torch.arange(new)
        logp = head_of(model).logits(decode_step(model, cache, torch.tensor(ids)[places])).log_softmax(-1)
        assert (logp - own[places])[slots].abs().max() < TOLERANCE
        positions[slots] += new

    for new in (1, 3, 1):
        assert_next_tokens(busy, new)
    cache.end(0)
    cache.end(3)
    for _ in range(5):
        assert_next_tokens([1])
    assert cache.add(*prefill(model, cache, [ids[:8]])) == 0  # no slot uses the first prompt any more
    cache.begin(0, 0)
    positions[0] = 7
    for _ in range(3):
        assert_next_tokens([0, 1])
    cache.fork([(1, 3)])
    positions[3] = positions[1]
    assert_next_tokens([0, 1, 3])
    assert cache.keep([3, 1], cache.prompt_of[0]) == 0 and cache.prompt_of == [1, 1]
    cache.fork([(0, 2)])
    positions = positions[[3, 1, 3]]
    assert_next_tokens([0, 1, 2], new=2)
    assert cache.keep([2], 1) == 0 and cache.prompt_of == [0]
    positions = positions[2:]
    assert_next_tokens([0], new=4)
    cache.drop(0, 3)
    positions -= 3
    assert_next_tokens([0], new=2)


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow) if kind == "Qwen3Next" else kind for kind in ODD]
)  # it loads slowly
def test_models_that_cannot_be_decoded_in_a_batch_are_sampled_by_their_own_generate(kind, tiny_model):
    codec, task = load_codec(tiny_model), Task("t", "Add.")
    model = model_of(kind, vocab_size=264)
    with pytest.warns(UserWarning, match="batched decoding does not work with this model"):
        attempts = list(sample(model, codec, [task], config=SampleConfig(samples=5, max_tokens=12, batch=3)))
    assert len(attempts) == 5 and len({attempt.token_ids for attempt in attempts}) > 1
    prompt = codec.prompt(task).ids_P
    for attempt in attempts:
        ids = attempt.token_ids
        assert attempt.tokens == len(ids) <= 12 and (attempt.truncated or ids[-1] in (0, 257))
        with torch.inference_mode():
            logp = model(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1].float().log_softmax(-1)
        assert attempt.behavior_logp == pytest.approx(float(logp[range(len(ids)), ids].sum()), abs=1e-2)


def test_a_model_is_checked_once_in_each_precision(tiny_model, monkeypatch):
    checks = []
    monkeypatch.setattr(
        "upsolve.policy.decoding.sample.check_batched_decode", lambda model, _ids: checks.append(model.dtype) or ""
    )
    model, codec, config = load_model(tiny_model), load_codec(tiny_model), SampleConfig(samples=1, max_tokens=2)
    for dtype in (torch.float32, torch.float32, torch.bfloat16, torch.bfloat16):
        assert len([*sample(model.to(dtype), codec, [Task("t", "Add.")], config=config)]) == 1
    assert len([*sample(load_model(tiny_model), codec, [Task("t", "Add.")], config=config)]) == 1
    assert checks == [torch.float32, torch.bfloat16, torch.float32]


def test_models_that_cannot_share_a_prompt_go_the_padded_way():
    with pytest.warns(UserWarning, match="packed rows do not work with this model"):
        assert choose_scorer(model_of("Mamba"), batch_of()) is padded_scores


def test_a_head_with_a_bias_goes_the_padded_way():
    model = model_of("Llama")
    model.lm_head.bias = torch.nn.Parameter(torch.ones(97))
    with pytest.warns(UserWarning, match="head has a bias"):
        assert choose_scorer(model, batch_of()) is padded_scores


def test_a_model_that_looks_across_attempts_is_found_out():
    model = model_of("Llama")
    model.model.embed_tokens.register_forward_hook(lambda _module, _given, out: out + out.cumsum(1))
    with pytest.warns(UserWarning, match="log-probabilities or gradients differ by"):
        assert choose_scorer(model, batch_of()) is padded_scores
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_prompts_can_continue_the_keys_and_values_of_their_prefix(kind):
    model, ids = model_of(kind), tuple(np.random.default_rng(0).integers(3, 97, 24).tolist())
    model.set_attn_implementation(ATTENTION)
    cache = BatchedCache(1, model.device)
    longer, shorter = ids, (*ids[:17], 5, 6)
    (prefix,) = prefill(model, cache, [ids[:16]])
    assert next(iter(prefix.values()))[0].shape[2] == 15
    for prompt, continued in zip((longer, shorter), prefill(model, cache, [longer, shorter], prefix), strict=True):
        (whole,) = prefill(model, cache, [prompt])
        for layer, tensors in whole.items():
            for expected, found in zip(tensors, continued[layer], strict=True):
                assert expected.shape == found.shape and torch.allclose(expected, found, atol=1e-4)


@pytest.mark.parametrize("kind", ["Llama", "Gemma2", "GPT2"])
def test_blocks_and_whole_rows_are_the_same(kind):
    """Sizes as they come: attempts of one token, of equal and of very different length, groups of one, padding."""
    model = model_of(kind, **({"sliding_window": 512} if kind == "Gemma2" else {}))
    model.set_attn_implementation(TREE)
    for seed in range(3):
        whole_rows = scores_and_gradient(model, batch_of(seed), partial(token_scores, blocks=False))
        assert difference(scores_and_gradient(model, batch_of(seed), token_scores), whole_rows) < 1e-4


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize(
    "kind", quick({*KINDS} - {"GPT2"})
)  # its code does not know block masks: with it, the next way is gone
def test_flex_attention_sees_what_the_plain_way_sees(kind):
    """Forward alone: FlexAttention has no backward pass on CPUs; where there is a GPU, the next test has both."""
    model, batch = model_of(kind), batch_of()
    with torch.no_grad():
        plain = padded_scores(model, batch).logp_T
        model.set_attn_implementation(FLEX)
        assert torch.allclose(token_scores(model, batch).logp_T, plain, atol=TOLERANCE)


def by_sequence(query_T, key_S, value_S, query_ends, key_ends, longest_query, longest_key, *, scale, window_size, enable_gqa):
    """What FlashAttention computes, sequence by sequence: the last query is at the last key and sees so many keys before its own."""
    assert enable_gqa == (query_T.shape[1] != key_S.shape[1]) and window_size[1] == 0
    copies, parts = query_T.shape[1] // key_S.shape[1], []
    for (q0, q1), (k0, k1) in zip(pairwise(query_ends.tolist()), pairwise(key_ends.tolist()), strict=True):
        assert q1 - q0 <= longest_query and k1 - k0 <= longest_key
        key, value = (some[k0:k1].repeat_interleave(copies, 1) for some in (key_S, value_S))
        back = torch.arange(q1 - q0)[:, None] + (k1 - k0) - (q1 - q0) - torch.arange(k1 - k0)
        unseen = (back < 0) | (back > window_size[0] if window_size[0] >= 0 else False)
        scores = torch.einsum("qhd,khd->hqk", query_T[q0:q1], key) * scale
        parts.append(torch.einsum("hqk,khd->qhd", scores.masked_fill(unseen, -torch.inf).softmax(-1), value))
    assert q1 == len(query_T) and k1 == len(key_S)
    return torch.cat(parts)


SEQUENCES = {*KINDS} - {"Gemma2"}  # its scores have a cap


@pytest.mark.parametrize(
    ("kind", "newest"),
    [
        *((kind, True) for kind in sorted(SEQUENCES)),
        *(pytest.param(*one.values, False, marks=one.marks) for one in quick(SEQUENCES)),
    ],
)
def test_sequences_see_what_the_plain_way_sees(kind, newest, monkeypatch):
    """Both passes, with what FlashAttention computes written out, also as PyTorch 2.11 has it: without shared heads."""
    monkeypatch.setattr(varlen, "varlen_attn", by_sequence if newest else partial(by_sequence, enable_gqa=False))
    monkeypatch.setattr(varlen, "OPTIONS", varlen.OPTIONS if newest else varlen.OPTIONS - {"enable_gqa"})
    model, batch = model_of(kind), batch_of()
    plain = scores_and_gradient(model, batch, padded_scores)
    model.set_attn_implementation(varlen.VARLEN)
    assert difference(scores_and_gradient(model, batch, token_scores), plain) < TOLERANCE


def test_flash_attention_takes_what_it_is_given():
    """The call itself, on tensors of a GPU that have shapes and no numbers; queries as autocast leaves them."""
    batch = batch_of()
    rows, length = batch.ids_BL.shape
    real = varlen.sequences(group_spans(batch.group_BL, batch.attempt_BL, batch.prefix_BL), length, torch.device("cpu"))
    with FakeTensorMode(allow_non_fake_inputs=True):
        ends = {name: torch.empty_like(getattr(real, name), device="cuda") for name in ("key_S", "query_ends", "key_ends")}
        query = torch.empty(rows, 4, length, 16, device="cuda")
        key, value = (torch.empty(rows, 2, length, 16, dtype=torch.bfloat16, device="cuda") for _ in "kv")
        out, _ = varlen.varlen_attention(
            torch.nn.Module(), query, key, value, None, sequences=replace(real, **ends), scaling=0.25, sliding_window=6
        )
    assert out.shape == (rows, length, 4, 16) and out.dtype == torch.bfloat16


def test_a_pytorch_whose_kernel_has_no_window_is_rejected_as_too_old(monkeypatch):
    monkeypatch.setattr(varlen, "OPTIONS", frozenset({"is_causal"}))  # 2.10
    with pytest.raises(ModelError, match=r"needs PyTorch 2\.11"):
        varlen.varlen_attention(torch.nn.Module(), *[torch.empty(1)] * 3, None)


def test_capped_scores_are_not_for_flash_attention():
    with pytest.raises(ModelError, match="capped scores"):
        varlen.varlen_attention(torch.nn.Module(), *[torch.empty(1)] * 3, None, softcap=0.5)


def test_ways_are_tried_in_the_precision_of_the_run():
    """What rounding costs the plain way, a packed way may cost as well; what looks across attempts is far beyond that."""
    bf16 = partial(torch.autocast, "cpu", torch.bfloat16)
    assert choose_scorer(model_of("Llama"), batch_of(), bf16) is token_scores
    model = model_of("Llama")
    model.model.embed_tokens.register_forward_hook(lambda _module, _given, out: out + 0.1 * out.cumsum(1))
    with pytest.warns(UserWarning, match="log-probabilities or gradients differ by"):
        assert choose_scorer(model, batch_of(), bf16) is padded_scores


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("kind", ["Llama", "Qwen2 with a window", "Gemma2"])
def test_the_ways_on_gpus(kind):
    model = model_of(kind, head_dim=16).cuda()
    own = model.config._attn_implementation
    assert choose_scorer(model, batch_of()) is token_scores
    assert model.config._attn_implementation == FLEX  # float32
    model.set_attn_implementation(own)
    assert choose_scorer(model, batch_of(), partial(torch.autocast, "cuda", torch.bfloat16)) is token_scores
    assert model.config._attn_implementation == (FLEX if kind == "Gemma2" else varlen.VARLEN)


def test_the_sample_keeps_prompts_and_is_small():
    batch = batch_of()
    sample = sample_of(batch)
    assert prompts_of(sample) == prompts_of(batch)[:6]
    assert len(prompts_of(batch)) == 6 and len({*prompts_of(batch)}) == 3


def test_no_warning_when_all_is_well():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert choose_scorer(model_of("Llama"), batch_of()) is token_scores
