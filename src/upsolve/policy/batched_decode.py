"""Continuous batching with a key-value cache that is updated in place.

Each slot of the batch decodes one attempt. When the attempt ends, its slot starts the next attempt at the following step, so no slot waits
for the longest attempt. A prompt is prefilled once for all its attempts. The model's code is not patched: the attention is registered
with transformers.

Legend: B slots, H key-value heads, R query heads per key-value head, P prompt tokens, L cache length, D head size, V vocabulary,
N positions compared.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import AttentionInterface

from upsolve.policy.attention import odd_layers, tree_attention
from upsolve.policy.head import head_of

__all__ = ["ATTENTION", "BatchedCache", "PromptKV", "check_batched_decode", "decode_step", "prefill"]

ATTENTION = "upsolve_batched_decode"
"""Name under which the attention is registered with transformers."""
GROWTH = 64
"""The cache grows by a multiple of this many tokens."""
PROBE = 32
"""Number of prompt tokens on which batched decoding is compared with the model's own forward pass."""
MAX_TOTAL_VARIATION = 1e-3
"""Largest mean total variation between the next-token distributions of batched decoding and of the model, in float32."""
ROUNDING = 3.0
"""In half precision, the limit as a multiple of the total variation between the model's own one-pass and stepwise decoding."""

PromptKV = dict[int, tuple[Tensor, Tensor]]
"""Keys and values [1, H, P, D] of a prompt by layer."""


class BatchedCache:
    """Keys and values [B, H, L, D] by layer; each slot has its own length (``length_B``, tokens)."""

    def __init__(self, slots: int, device: torch.device) -> None:
        self.layers: PromptKV = {}
        self.tokens = 0
        self.length_B = torch.zeros(slots, dtype=torch.long, device=device)
        self.prompt: PromptKV = {}
        self.prefilling = False

    def reserve(self, tokens: int) -> None:
        """Grow the cache to at least ``tokens`` per slot, in steps of ``GROWTH``: attention reads the whole cache, so it is kept short."""
        missing = tokens - self.tokens
        if missing > 0:
            added = -(-missing // GROWTH) * GROWTH
            self.tokens += added
            for layer, (keys, values) in self.layers.items():
                self.layers[layer] = (functional.pad(keys, (0, 0, 0, added)), functional.pad(values, (0, 0, 0, added)))

    def update(self, key: Tensor, value: Tensor, layer: int, *_: object) -> tuple[Tensor, Tensor]:
        """Store the keys and values of one layer; the model's attention calls this as ``Cache.update``."""
        if self.prefilling:
            if before := self.prompt.get(layer):
                key, value = (torch.cat(parts, dim=2) for parts in zip(before, (key, value), strict=True))
            self.prompt[layer] = (key, value)
            return key, value
        slots = torch.arange(key.shape[0], device=key.device)
        keys, values = self.layers[layer]
        keys[slots, :, self.length_B] = key[:, :, 0]
        values[slots, :, self.length_B] = value[:, :, 0]
        return keys, values

    def fill(self, slot: int, prompt: PromptKV) -> None:
        """Copy a prefilled prompt into a slot and set the slot's length."""
        tokens = next(iter(prompt.values()))[0].shape[2]
        self.reserve(tokens + 1)
        for layer, prefilled in prompt.items():
            if layer not in self.layers:
                key, value = (
                    tensor.new_zeros(len(self.length_B), tensor.shape[1], self.tokens, tensor.shape[3]) for tensor in prefilled
                )
                self.layers[layer] = (key, value)
            for cached, prefix in zip(self.layers[layer], prefilled, strict=True):
                cached[slot, :, :tokens] = prefix[0]
        self.length_B[slot] = tokens

    def keep(self, slots: list[int]) -> None:
        """Keep the slots with these indices and drop the others."""
        index = torch.tensor(slots, device=self.length_B.device)
        self.layers = {layer: (keys[index], values[index]) for layer, (keys, values) in self.layers.items()}
        self.length_B = self.length_B[index]


def slot_attention(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, _mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """softmax(cap(q k^T scale)) v: over the cached tokens of each slot when decoding, causal when prefilling a prompt.

    cap(x) = c tanh(x / c) if the model caps its scores (``softcap``), else x; at most ``sliding_window`` tokens back.
    """
    mask, cap, window = options.get("slot_mask"), options.get("softcap"), options.get("sliding_window")
    if mask is None:
        return prompt_attention(module, query, key, value, **options)
    if window is not None and window < key.shape[2]:
        reach = torch.arange(key.shape[2], device=key.device)
        gone = reach[None] <= options["slot_length_B"][:, None] - window
        mask = mask.masked_fill(gone[:, None, None], -torch.inf)
    slots, heads, _, size = query.shape
    grouped = query.reshape(slots, key.shape[1], heads // key.shape[1], size)
    scores = torch.matmul(grouped, key.transpose(-1, -2)) * options["scaling"]  # three times faster than SDPA's CPU kernel here
    if cap:
        scores = cap * torch.tanh(scores / cap)
    out = torch.matmul((scores + mask).softmax(-1), value)
    return out.reshape(slots, 1, heads, value.shape[3]), None


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


def prefill(model: Any, cache: BatchedCache, ids: tuple[int, ...], prefix: PromptKV | None = None) -> PromptKV:
    """Return the keys and values of all tokens of a prompt except the last, which is the slot's first input.

    Args:
        model: the model, with the attention ``ATTENTION``.
        cache: the cache of the batch.
        ids: the prompt.
        prefix: keys and values of its first tokens, fewer than ``len(ids) - 1``.
    """
    cache.prompt, cache.prefilling = dict(prefix or {}), True
    known = next(iter(prefix.values()))[0].shape[2] if prefix else 0
    tokens = torch.tensor([ids[known:-1]], device=model.device)
    positions = torch.arange(known, len(ids) - 1, device=model.device)[None]
    model.get_decoder()(input_ids=tokens, position_ids=positions, past_key_values=cache, use_cache=False)
    cache.prefilling = False
    return cache.prompt


def decode_step(model: Any, cache: BatchedCache, tokens_B: Tensor) -> Tensor:
    """Feed one token per slot and return the next-token logits [B, V] in float32."""
    cache.reserve(int(cache.length_B.max()) + 1)
    reach = torch.arange(cache.tokens, device=model.device)
    hidden_part = (reach[None] > cache.length_B[:, None])[:, None, None]
    mask = torch.zeros(hidden_part.shape, dtype=model.dtype, device=model.device).masked_fill(hidden_part, -torch.inf)
    hidden = model.get_decoder()(
        input_ids=tokens_B[:, None],
        position_ids=cache.length_B[:, None],
        past_key_values=cache,
        use_cache=False,
        slot_mask=mask,
        slot_length_B=cache.length_B,
    ).last_hidden_state
    cache.length_B += 1
    return head_of(model).logits(hidden[:, 0])


@torch.inference_mode()
def check_batched_decode(model: Any, ids: tuple[int, ...]) -> str:
    """Compare batched decoding with the model's own forward pass on the first tokens of a prompt.

    Half of the tokens are prefilled, the other half fed one by one. The model's attention implementation is restored afterwards.

    Returns:
        The reason why batched decoding does not work for this model; "" if it works.
    """
    if odd := odd_layers(model.config.get_text_config()):
        return f"layers of the kind {', '.join(odd)}"
    probe, before = torch.tensor([ids[:PROBE]], device=model.device), model.config._attn_implementation
    half, limit = probe.shape[1] // 2, MAX_TOTAL_VARIATION
    own_NV = model(probe, use_cache=False).logits[0, half:].float()
    try:
        if model.dtype != torch.float32:
            limit = max(limit, ROUNDING * total_variation(stepwise_logits(model, probe, half), own_NV))
        model.set_attn_implementation(ATTENTION)
        cache = BatchedCache(1, model.device)
        cache.fill(0, prefill(model, cache, ids[: half + 1]))
        distance = total_variation(torch.cat([decode_step(model, cache, token) for token in probe[0, half:].split(1)]), own_NV)
    except (AttributeError, IndexError, KeyError, RuntimeError, StopIteration, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        model.set_attn_implementation(before)
    return "" if distance <= limit else f"next-token distributions differ by {distance:.2g} in total variation"


def stepwise_logits(model: Any, probe_1P: Tensor, half: int) -> Tensor:
    """Return the logits [P - half, V] of the model with transformers' cache, fed token by token from position ``half`` on."""
    out: Any = model(probe_1P[:, : half + 1], use_cache=True)
    logits = [out.logits[0, -1:]]
    for token in probe_1P[:, half + 1 :].split(1, dim=1):
        out = model(token, past_key_values=out.past_key_values, use_cache=True)
        logits.append(out.logits[0])
    return torch.cat(logits).float()


def total_variation(logits_NV: Tensor, others_NV: Tensor) -> float:
    """Return the total variation sum_v |p_v - q_v| / 2 between next-token distributions, mean over N positions, in [0, 1]."""
    return float((logits_NV.softmax(-1) - others_NV.softmax(-1)).abs().sum(-1).mean()) / 2
