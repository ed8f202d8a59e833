"""Attention over packed rows by plain matrix products, block by block: on CPUs faster than the fused SDPA kernel with a mask.

Legend: B rows, L row length, H query heads, K key-value heads, S = H / K query heads per key-value head, D head size;
of one group: P prompt tokens, G attempts, R longest attempt.
"""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface

from upsolve.policy.bundled import bundle_attention
from upsolve.policy.layout import GroupSpan, Layout

__all__ = ["TREE", "odd_layers", "tree_attention"]

TREE = "upsolve_tree"
"""Name under which the attention is registered with transformers."""

CHECKPOINT: dict[str, Any] = {"use_reentrant": False, "preserve_rng_state": False}
"""Arguments of activation checkpointing; the attention uses no random numbers, so no RNG state is kept."""


def attend(
    query: Tensor, own: tuple[Tensor, Tensor], before: tuple[Tensor, Tensor] | None, scaling: float, cap: float | None
) -> Tensor:
    """Return the attention output of queries [K, G, S, R, D].

    Attention is causal over the keys and values ``own`` [K, G, R, D], and full over those of ``before`` [K, P, D], the prompt's.
    """
    heads, groups, shared, length, size = query.shape
    stacked = query.reshape(heads, groups, shared * length, size) * scaling
    scores = torch.matmul(stacked, own[0].transpose(-1, -2))
    if before is not None:
        to_prompt = torch.matmul(stacked.reshape(heads, -1, size), before[0].transpose(-1, -2))
        scores = torch.cat([to_prompt.reshape(heads, groups, shared * length, -1), scores], -1)
    if cap:
        scores = cap * torch.tanh(scores / cap)
    later = torch.ones(length, length, dtype=torch.bool, device=query.device).triu(1).repeat(shared, 1)
    scores[..., -length:].masked_fill_(later, -torch.inf)
    weights = scores.softmax(-1)
    out = torch.matmul(weights[..., -length:], own[1])
    if before is not None:
        out = out + torch.matmul(weights[..., :-length].reshape(heads, groups * shared * length, -1), before[1]).reshape(
            out.shape
        )
    return out.reshape(query.shape)


def group_attention(query: Tensor, key: Tensor, value: Tensor, span: GroupSpan, scaling: float, cap: float | None) -> Tensor:
    """Return the attention output [K, S, n, D] of a group's n tokens, from queries [K, S, n, D].

    Keys and values [K, F + n, D] begin with those of the F tokens of the prefix that the group continues.
    """
    prompt, sizes, prefix = span.prompt, span.attempts, span.prefix
    prompt_query = query[:, :, :prompt].unsqueeze(1)
    before_key, before_value = key[:, : prefix + prompt], value[:, : prefix + prompt]
    own = (before_key[:, prefix:].unsqueeze(1), before_value[:, prefix:].unsqueeze(1))
    shared = (before_key[:, :prefix], before_value[:, :prefix]) if prefix else None
    out = attend(prompt_query, own, shared, scaling, cap).squeeze(1)
    if not sizes:
        return out
    index, kept = padded_index(sizes)
    rows = torch.from_numpy(prompt + index).to(query.device)
    shape = (len(sizes), max(sizes))
    own_query = query.index_select(2, rows).unflatten(2, shape).transpose(1, 2)
    own = (key.index_select(1, prefix + rows).unflatten(1, shape), value.index_select(1, prefix + rows).unflatten(1, shape))
    padded = attend(own_query, own, (before_key, before_value), scaling, cap)
    flat = padded.transpose(1, 2).flatten(2, 3).index_select(2, torch.from_numpy(kept).to(query.device))
    return torch.cat([out, flat], 2)


def padded_index(sizes: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return, for concatenated attempts, the token index of each position of the padded [G, R], and the positions that are not padding.

    Padding follows its attempt, so that causal attention hides it.
    """
    longest, ends = max(sizes), np.cumsum(sizes)
    steps = np.arange(longest)
    index = np.minimum((ends - sizes)[:, None] + steps, ends[:, None] - 1)
    return index.ravel(), np.flatnonzero((steps < np.array(sizes)[:, None]).ravel())


def block_attention(query: Tensor, key: Tensor, value: Tensor, rows: Sequence[Sequence[GroupSpan]], **options: Any) -> Tensor:
    """Return the attention output [B, H, L, D] of packed rows, group by group; attention weights are recomputed in the backward pass."""
    heads, shared = key.shape[1], query.shape[1] // key.shape[1]
    outputs: list[Tensor] = []
    for b, row in enumerate(rows):
        parts: list[Tensor] = []
        end = 0
        for span in row:
            end = span.start + span.prompt + sum(span.attempts)
            own, prefix = slice(span.start, end), slice(span.prefix_start, span.prefix_start + span.prefix)
            keys_values = [
                tokens[b, :, own] if not span.prefix else torch.cat([tokens[b, :, prefix], tokens[b, :, own]], 1)
                for tokens in (key, value)
            ]
            inputs = (query[b, :, own].unflatten(0, (heads, shared)), *keys_values)
            parts.append(checkpoint(group_attention, *inputs, span, options["scaling"], options["cap"], **CHECKPOINT))
        parts.append(query.new_zeros(heads, shared, query.shape[2] - end, query.shape[3]))
        outputs.append(torch.cat(parts, 2).flatten(0, 1))
    return torch.stack(outputs)


def tree_attention(
    _module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor, **options: Any
) -> tuple[Tensor, None]:
    """softmax(cap(q k^T scale) + mask) v; cap(x) = c tanh(x / c) if the model caps its scores (``softcap``), else x.

    With the option ``layout`` the attention is computed in bundles of groups or group by group. Without it, it is computed over whole rows with
    the bool mask [B, 1, L, L], True where a query sees a key; the query heads of a key-value head share its keys without a copy.
    """
    cap, packed = options.get("softcap"), cast("Layout | None", options.get("layout"))
    if packed is not None and packed.bundles and not cap:
        return bundle_attention(query, key, value, parts=packed.bundles, scaling=options["scaling"]), None
    if packed is not None:
        out = block_attention(query, key, value, packed.rows, scaling=options["scaling"], cap=cap)
        return out.transpose(1, 2).contiguous(), None
    count, heads, length, size = query.shape
    shared = heads // key.shape[1]
    stacked = (query * options["scaling"]).reshape(count, key.shape[1], shared * length, size)
    bias = torch.zeros(attention_mask.shape, dtype=query.dtype, device=query.device).masked_fill(~attention_mask, -torch.inf)
    scores = torch.matmul(stacked, key.transpose(-1, -2))
    if cap:
        scores = cap * torch.tanh(scores / cap)
    out = torch.matmul((scores + bias.repeat(1, 1, shared, 1)).softmax(-1), value).reshape(count, heads, length, size)
    return out.transpose(1, 2).contiguous(), None


AttentionInterface.register(TREE, torch.compiler.disable(tree_attention))  # compiled layers call it uncompiled


def odd_layers(config: Any) -> list[str]:
    """Return the layer types of a model that are neither full nor sliding-window attention (recurrent, chunked)."""
    return sorted({*(getattr(config, "layer_types", None) or ())} - {"full_attention", "sliding_attention"})
