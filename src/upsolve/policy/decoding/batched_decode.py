"""Continuous batching with a key-value cache that is updated in place.

Each slot of the batch decodes one attempt. When the attempt ends, its slot starts the next attempt at the following step, so no slot waits
for the longest attempt. A prompt is prefilled, stored and read once for all its attempts. The model's code is not patched: the attention is
registered with transformers.

Legend: B slots, Q new tokens of a slot, H key-value heads, R query heads per key-value head, P prompt tokens, L sampled tokens, D head size, V vocabulary,
N positions compared.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional
from transformers.modeling_utils import AttentionInterface

from upsolve.policy.attention.bundled import odd_layers, tree_attention
from upsolve.policy.decoding.kv_cache import BatchedCache, PromptKV, Step
from upsolve.policy.head import head_of

__all__ = ["ATTENTION", "DecodeGraphs", "check_batched_decode", "decode_step", "decoder_of", "forward", "prefill"]

ATTENTION = "upsolve_batched_decode"
"""Name under which the attention is registered with transformers."""
PROBE = 16
"""Number of prompt tokens on which batched decoding is compared with the model's own forward pass."""
MAX_TOTAL_VARIATION = 1e-3
"""Largest mean total variation between the next-token distributions of batched decoding and of the model, in float32."""
ROUNDING = 3.0
"""In half precision, the limit as a multiple of the largest total variation between the model's own ways of computing (``own_rounding``)."""


def slot_attention(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, _mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """softmax(cap(q k^T scale)) v: over the cached tokens of each slot when decoding, causal when prefilling a prompt.

    cap(x) = c tanh(x / c) if the model caps its scores (``softcap``), else x; at most ``sliding_window`` tokens back. When decoding, ``key``
    and ``value`` [B, H, L, D] are those of sampled tokens; the cache of the option ``slot_cache`` holds those of the prompts.
    """
    cache = cast("BatchedCache | None", options.get("slot_cache"))
    if cache is None or cache.step is None:
        return prompt_attention(module, query, key, value, **options)
    step, layer = cache.step, cast("int", module.layer_idx)
    prompt_key, prompt_value = (stored[: step.shape[0]] for stored in cache.prompts[layer])
    slots, heads, new, size = query.shape
    grouped = query.reshape(slots, key.shape[1], heads // key.shape[1] * new, size) * options["scaling"]
    to_prompt = step.by_slot(torch.matmul(step.by_prompt(grouped), prompt_key.transpose(-1, -2)))
    to_sampled = torch.matmul(key, grouped.transpose(-1, -2)).transpose(-1, -2)  # oneDNN would rearrange the keys for q k^T
    scores = torch.cat([to_prompt, to_sampled], -1)  # faster than SDPA's CPU kernel
    if cap := options.get("softcap"):
        scores = cap * torch.tanh(scores / cap)
    bias, window = step.bias_BQE, options.get("sliding_window")
    if window is not None and window < scores.shape[-1]:
        bias = bias.masked_fill(step.key_position_BE[:, None] <= step.position_BQ[:, :, None] - window, -torch.inf)
    visible = scores.unflatten(2, (-1, new)) + bias[:, None, None]
    to_prompt, to_sampled = visible.flatten(2, 3).softmax(-1).split(step.tokens, -1)
    out = step.by_slot(torch.matmul(step.by_prompt(to_prompt), prompt_value)) + torch.matmul(to_sampled, value)
    return out.reshape(slots, heads, new, value.shape[3]).transpose(1, 2), None


def prompt_attention(module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, **options: Any) -> tuple[Tensor, None]:
    """Causal attention of the last tokens of a prompt; by SDPA, unless scores are capped or the sliding window is shorter than the prompt."""
    queries, length = query.shape[2], key.shape[2]
    before, window = length - queries, options.get("sliding_window") or length
    visible = torch.ones(queries, length, dtype=torch.bool, device=query.device).tril(before).triu(before + 1 - window)
    if window < length or options.get("softcap"):
        return tree_attention(module, query, key, value, visible[None, None], **options)
    given: dict[str, Any] = {"attn_mask": visible} if before else {"is_causal": True}
    out = functional.scaled_dot_product_attention(query, key, value, **given, scale=options["scaling"], enable_gqa=True)
    return out.transpose(1, 2).contiguous(), None


AttentionInterface.register(ATTENTION, slot_attention)


def prefill(
    model: Any, cache: BatchedCache, prompts: Sequence[tuple[int, ...]], prefix: PromptKV | None = None
) -> list[PromptKV]:
    """Return the keys and values of all tokens of each prompt except the last, which is the slot's first input. One forward
    pass.

    Shorter prompts are padded on the right, so that causal attention masks the padding. ``prefix``: keys and values of the
    first tokens, which all prompts share: fewer than the shortest has without its last token.
    """
    known = next(iter(prefix.values()))[0].shape[2] if prefix else 0
    longest = max(map(len, prompts)) - 1
    padded = [[*ids[known:-1], *[0] * (longest + 1 - len(ids))] for ids in prompts]
    positions = torch.arange(known, longest, device=model.device).expand(len(prompts), -1)
    cache.prefilled = {
        layer: (key.expand(len(prompts), -1, -1, -1), value.expand(len(prompts), -1, -1, -1))
        for layer, (key, value) in (prefix or {}).items()
    }
    tokens = torch.tensor(padded, device=model.device)
    model.get_decoder()(input_ids=tokens, position_ids=positions, past_key_values=cache, use_cache=False)
    rows = cache.prefilled.items()
    return [
        {
            layer: (key[row : row + 1, :, : len(ids) - 1], value[row : row + 1, :, : len(ids) - 1])
            for layer, (key, value) in rows
        }
        for row, ids in enumerate(prompts)
    ]


def decode_step(model: Any, cache: BatchedCache, tokens_BQ: Tensor) -> Tensor:
    """Feed the next tokens of each slot and return the last hidden states [B, Q, D]."""
    with cache.decoding(tokens_BQ.shape[1]):
        return forward(model, cache, tokens_BQ)


def forward(model: Any, cache: BatchedCache, tokens_BQ: Tensor) -> Tensor:
    """Compute the decoding step of the cache: the last hidden states [B, Q, D]."""
    assert cache.step is not None
    options: dict[str, Any] = {"past_key_values": cache, "use_cache": False, "slot_cache": cache}
    return model.get_decoder()(input_ids=tokens_BQ, position_ids=cache.step.position_BQ, **options).last_hidden_state


@torch.inference_mode()
def check_batched_decode(model: Any, ids: tuple[int, ...]) -> str:
    """Return why batched decoding does not work for a model; "" if it agrees with the model's own forward pass on a prompt.

    Half of the tokens are prefilled, the other half fed one by one. The model's attention implementation is restored afterwards.
    """
    if odd := odd_layers(model.config.get_text_config()):
        return f"layers of the kind {', '.join(odd)}"
    probe, before = torch.tensor([ids[:PROBE]], device=model.device), model.config._attn_implementation
    half, limit = probe.shape[1] // 2, MAX_TOTAL_VARIATION
    own_NV = model(probe, use_cache=False).logits[0, half:].float()
    try:
        if model.dtype != torch.float32:
            limit = max(limit, ROUNDING * own_rounding(model, probe, half, own_NV))
        model.set_attn_implementation(ATTENTION)
        cache = BatchedCache(1, model.device)
        cache.begin(0, cache.add(*prefill(model, cache, [ids[: half + 1]])))
        hidden = torch.cat([decode_step(model, cache, tokens)[0] for tokens in probe[:, half:].split(1, dim=1)])
        distance = total_variation(head_of(model).logits(hidden), own_NV)
    except (AttributeError, IndexError, KeyError, RuntimeError, StopIteration, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        model.set_attn_implementation(before)
    return "" if distance <= limit else f"next-token distributions differ by {distance:.2g} in total variation"


def own_rounding(model: Any, probe_1P: Tensor, half: int, own_NV: Tensor) -> float:
    """Return the largest total variation between the logits of one pass and those of stepwise decoding, or of eager attention, which rounds its scores."""
    out: Any = model(probe_1P[:, : half + 1], use_cache=True)
    logits = [out.logits[0, -1:]]
    for token in probe_1P[:, half + 1 :].split(1, dim=1):  # by transformers' cache
        out = model(token, past_key_values=out.past_key_values, use_cache=True)
        logits.append(out.logits[0])
    stepwise = total_variation(torch.cat(logits).float(), own_NV)
    model.set_attn_implementation("eager")
    return max(stepwise, total_variation(model(probe_1P, use_cache=False).logits[0, half:].float(), own_NV))


def total_variation(logits_NV: Tensor, others_NV: Tensor) -> float:
    """Return the total variation sum_v |p_v - q_v| / 2 between next-token distributions, mean over N positions, in [0, 1]."""
    return float((logits_NV.softmax(-1) - others_NV.softmax(-1)).abs().sum(-1).mean()) / 2


LOGGER = logging.getLogger("upsolve.policy")

Run = Callable[[], Tensor]


def record(run: Run) -> tuple[Callable[[], None], Tensor]:
    """Record the kernels that a function launches; return a function that launches them again, and the output that every launch overwrites."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = run()
    return graph.replay, out


class DecodeGraphs:
    """Feeds the next tokens of each slot, like ``decode_step``, by CUDA graphs; the hidden states returned are valid until the next call.

    A step of a small model is some thousand short kernels, which take longer to launch than to run. A graph computes the next steps as long as shapes
    and places of the cache stay the same. A step with new ones runs as usual, the next one is recorded; ``BatchedCache.fixed`` makes changes rare.
    """

    def __init__(self, model: Any, cache: BatchedCache) -> None:
        """Start without a recorded step; the cache keeps its shapes and places for as many steps as it can from now on."""
        self.model, self.cache = model, cache
        cache.fixed = True
        self.form: tuple[Any, ...] = ()
        self.replay: Callable[[], None] | None = None
        self.tokens_BQ = self.hidden_BQD = torch.empty(0)
        self.step: Step | None = None
        self.possible = True
        """Whether steps can be recorded, as far as is known."""

    def __call__(self, tokens_BQ: Tensor) -> Tensor:
        """Return the last hidden states [B, Q, D]."""
        with self.cache.decoding(tokens_BQ.shape[1]) as step:
            if (form := self.cache.form(step)) != self.form:
                self.form, self.replay = form, None
                return forward(self.model, self.cache, tokens_BQ)
            if self.replay is None and not (self.possible and self.record(tokens_BQ, step)):
                return forward(self.model, self.cache, tokens_BQ)
            assert self.replay is not None
            self.tokens_BQ.copy_(tokens_BQ)
            for name in tensors_of(step):
                getattr(self.step, name).copy_(getattr(step, name))
            self.replay()
            return self.hidden_BQD

    def record(self, tokens_BQ: Tensor, step: Step) -> bool:
        """Record the step and return whether recording was possible; if not, all further steps run without graphs."""
        self.tokens_BQ = tokens_BQ.clone()
        self.step = replace(step, **{name: getattr(step, name).clone() for name in tensors_of(step)})
        self.cache.step = self.step
        try:
            self.replay, self.hidden_BQD = record(partial(forward, self.model, self.cache, self.tokens_BQ))
        except RuntimeError as error:
            self.possible = False
            LOGGER.warning("decoding without CUDA graphs, which is slower: %s", error)
        self.cache.step = step
        return self.possible


def tensors_of(step: Step) -> list[str]:
    """Return the names of the tensors of a step."""
    return [field.name for field in fields(step) if isinstance(getattr(step, field.name), Tensor)]


def decoder_of(model: Any, cache: BatchedCache) -> Callable[[Tensor], Tensor]:
    """Return the function that feeds the next tokens of each slot: with graphs on GPUs, else ``decode_step``."""
    return DecodeGraphs(model, cache) if cache.device.type == "cuda" else partial(decode_step, model, cache)
