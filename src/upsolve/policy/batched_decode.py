"""Lanes: continuous batched decoding with a key-value cache that is written in place.

Every lane decodes one attempt. A lane that ends takes the next attempt at once, so nobody waits for the longest; a prompt
is read once for all its attempts. Works through transformers' attention interface, no model file is patched.

Legend: B lanes, H key-value heads, R query heads a key-value head, P prompt tokens, L cache length, D head size, V vocabulary,
N tokens tried.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import AttentionInterface

from upsolve.policy.attention import odd_layers, tree_attention
from upsolve.policy.head import head_of

__all__ = ["ATTENTION", "LaneCache", "Read", "decode_step", "prefill", "problem_of"]

ATTENTION = "upsolve_lanes"
"""Name under which the attention is registered with transformers."""
GROWTH = 64
"""Tokens by which the cache grows."""
PROBE = 32
"""Tokens on which lanes are tried."""
APART = 1e-3
"""How far next-token distributions in lanes may be from the model's own (mean total variation) in float32."""
ROUNDING = 3.0
"""In half precision, how many times as far as the model's own are when it reads all at once and token by token."""

Read = dict[int, tuple[Tensor, Tensor]]
"""Keys and values [1, H, P, D] of a prompt by layer."""


class LaneCache:
    """Keys and values of B lanes by layer, each lane with its own length."""

    def __init__(self, lanes: int, device: torch.device) -> None:
        self.layers: Read = {}
        self.tokens = 0
        self.length_B = torch.zeros(lanes, dtype=torch.long, device=device)
        self.prompt: Read = {}
        self.reading_prompt = False

    def reserve(self, tokens: int) -> None:
        """Make room for so many tokens a lane. The store is kept as short as it can be: attention reads all of it."""
        missing = tokens - self.tokens
        if missing > 0:
            more = -(-missing // GROWTH) * GROWTH
            self.tokens += more
            for layer, (keys, values) in self.layers.items():
                self.layers[layer] = (functional.pad(keys, (0, 0, 0, more)), functional.pad(values, (0, 0, 0, more)))

    def update(self, key: Tensor, value: Tensor, layer: int, *_: object) -> tuple[Tensor, Tensor]:
        """Store one layer's keys and values; called by the model's attention."""
        if self.reading_prompt:
            self.prompt[layer] = (key, value)
            return key, value
        lanes = torch.arange(key.shape[0], device=key.device)
        keys, values = self.layers[layer]
        keys[lanes, :, self.length_B] = key[:, :, 0]
        values[lanes, :, self.length_B] = value[:, :, 0]
        return keys, values

    def fill(self, lane: int, prompt: Read) -> None:
        """Start a lane with a prompt that was read before."""
        tokens = next(iter(prompt.values()))[0].shape[2]
        self.reserve(tokens + 1)
        for layer, read in prompt.items():
            if layer not in self.layers:
                key, value = (one.new_zeros(len(self.length_B), one.shape[1], self.tokens, one.shape[3]) for one in read)
                self.layers[layer] = (key, value)
            for kept, one in zip(self.layers[layer], read, strict=True):
                kept[lane, :, :tokens] = one[0]
        self.length_B[lane] = tokens

    def keep(self, lanes: list[int]) -> None:
        """Drop every lane but these."""
        index = torch.tensor(lanes, device=self.length_B.device)
        self.layers = {layer: (keys[index], values[index]) for layer, (keys, values) in self.layers.items()}
        self.length_B = self.length_B[index]


def lane_attention(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, _mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """softmax(cap(q k^T scale)) v over a lane's own length when decoding, causally when reading a prompt.

    cap(x) = c tanh(x / c) where the model asks for one (``softcap``), else x; at most ``sliding_window`` tokens back.
    """
    mask, cap, window = options.get("lane_mask"), options.get("softcap"), options.get("sliding_window")
    if mask is None:
        return prompt_attention(module, query, key, value, **options)
    if window is not None and window < key.shape[2]:
        reach = torch.arange(key.shape[2], device=key.device)
        gone = reach[None] <= options["lane_length_B"][:, None] - window
        mask = mask.masked_fill(gone[:, None, None], -torch.inf)
    lanes, heads, _, size = query.shape
    grouped = query.reshape(lanes, key.shape[1], heads // key.shape[1], size)
    scores = torch.matmul(grouped, key.transpose(-1, -2)) * options["scaling"]  # three times faster than SDPA's CPU kernel here
    if cap:
        scores = cap * torch.tanh(scores / cap)
    out = torch.matmul((scores + mask).softmax(-1), value)
    return out.reshape(lanes, 1, heads, value.shape[3]), None


def prompt_attention(module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, **options: Any) -> tuple[Tensor, None]:
    """Attend causally over a prompt; fused, unless there is a cap, or a window shorter than the prompt."""
    length, window = query.shape[2], options.get("sliding_window")
    if options.get("softcap") or (window is not None and window < length):
        seen = torch.ones(length, length, dtype=torch.bool, device=query.device).tril()
        if window is not None:
            seen = seen.triu(1 - window)
        return tree_attention(module, query, key, value, seen[None, None], **options)
    out = functional.scaled_dot_product_attention(query, key, value, is_causal=True, scale=options["scaling"], enable_gqa=True)
    return out.transpose(1, 2).contiguous(), None


AttentionInterface.register(ATTENTION, lane_attention)


def prefill(model: Any, cache: LaneCache, ids: tuple[int, ...]) -> Read:
    """Read all but the last prompt token (the last one is the lane's first input) and return its keys and values."""
    cache.prompt, cache.reading_prompt = {}, True
    tokens = torch.tensor([ids[:-1]], device=model.device)
    positions = torch.arange(tokens.shape[1], device=model.device)[None]
    model.get_decoder()(input_ids=tokens, position_ids=positions, past_key_values=cache, use_cache=False)
    cache.reading_prompt = False
    return cache.prompt


def decode_step(model: Any, cache: LaneCache, tokens_B: Tensor) -> Tensor:
    """Feed one token a lane and return the next-token logits [B, V] in float32."""
    cache.reserve(int(cache.length_B.max()) + 1)
    reach = torch.arange(cache.tokens, device=model.device)
    hidden_part = (reach[None] > cache.length_B[:, None])[:, None, None]
    mask = torch.zeros(hidden_part.shape, dtype=model.dtype, device=model.device).masked_fill(hidden_part, -torch.inf)
    hidden = model.get_decoder()(
        input_ids=tokens_B[:, None],
        position_ids=cache.length_B[:, None],
        past_key_values=cache,
        use_cache=False,
        lane_mask=mask,
        lane_length_B=cache.length_B,
    ).last_hidden_state
    cache.length_B += 1
    return head_of(model).logits(hidden[:, 0])


@torch.inference_mode()
def problem_of(model: Any, ids: tuple[int, ...]) -> str:
    """Try lanes on the first tokens of a prompt; return why this kind of model cannot be decoded so, or "" where it can.

    Half of the tokens are read at once, the others one by one. The model is left with the attention that it has.
    """
    if odd := odd_layers(model.config.get_text_config()):
        return f"layers of the kind {', '.join(odd)}"
    probe, before = torch.tensor([ids[:PROBE]], device=model.device), model.config._attn_implementation
    half, most = probe.shape[1] // 2, APART
    own_NV = model(probe, use_cache=False).logits[0, half:].float()
    try:
        if model.dtype != torch.float32:
            most = max(most, ROUNDING * apart(own_steps(model, probe, half), own_NV))
        model.set_attn_implementation(ATTENTION)
        cache = LaneCache(1, model.device)
        cache.fill(0, prefill(model, cache, ids[: half + 1]))
        distance = apart(torch.cat([decode_step(model, cache, token) for token in probe[0, half:].split(1)]), own_NV)
    except (AttributeError, IndexError, KeyError, RuntimeError, StopIteration, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        model.set_attn_implementation(before)
    return "" if distance <= most else f"its next-token distributions differ by {distance:.2g}"


def own_steps(model: Any, probe_1P: Tensor, half: int) -> Tensor:
    """Return the logits [P - half, V] that the model itself gives with its own cache, one token after the other from ``half`` on."""
    out: Any = model(probe_1P[:, : half + 1], use_cache=True)
    found = [out.logits[0, -1:]]
    for token in probe_1P[:, half + 1 :].split(1, dim=1):
        out = model(token, past_key_values=out.past_key_values, use_cache=True)
        found.append(out.logits[0])
    return torch.cat(found).float()


def apart(logits_NV: Tensor, others_NV: Tensor) -> float:
    """Return the total variation between two next-token distributions, mean of N."""
    return float((logits_NV.softmax(-1) - others_NV.softmax(-1)).abs().sum(-1).mean()) / 2
