"""Attention over packed rows on GPUs: FlashAttention's variable-length kernel in half precision, and FlexAttention.

FlashAttention needs neither compilation nor a mask. Each prompt and each attempt is a sequence of queries. The keys of an attempt are the
keys of its prompt followed by its own. Attention is causal, with the last query aligned to the last key; a sliding window may extend from
the attempt into the prompt. FlexAttention skips fully masked blocks and materialises no mask.

Legend: B rows, L row length, H query heads, D head size; N sequences, S keys of all sequences.
"""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
from transformers.modeling_utils import AttentionInterface

from upsolve.errors import ModelError
from upsolve.policy.attention.layout import GroupSpan

try:
    from torch.nn.attention.varlen import varlen_attn
except ImportError:  # before PyTorch 2.10
    varlen_attn: Any = None

OPTIONS = frozenset(inspect.signature(varlen_attn).parameters) if varlen_attn else frozenset[str]()
"""Parameters of this PyTorch's kernel: ``scale`` and ``window_size`` came with 2.11, ``enable_gqa`` with 2.12."""

__all__ = ["FLEX", "VARLEN", "Sequences", "block_mask", "sequences"]

Ints = NDArray[np.int64]

VARLEN = "upsolve_varlen"
"""Name under which the attention is registered with transformers."""


@dataclass(frozen=True, slots=True)
class Sequences:
    """Packed rows as sequences; the padding of a row is also a sequence."""

    key_S: Tensor
    """int64 [S]: token index of every key, in [0, B L)."""
    query_ends: Tensor
    """int32 [N + 1]: cumulative numbers of queries, starting with 0; the queries are all tokens in order."""
    key_ends: Tensor
    """int32 [N + 1]: cumulative numbers of keys, starting with 0."""
    longest_query: int
    """Largest number of queries of a sequence."""
    longest_key: int
    """Largest number of keys of a sequence."""


def split_row(row: Sequence[GroupSpan], tokens: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Yield (queries, keys) of each sequence of a row, as token indices, in order."""
    end = 0
    for place in row:
        prompt = tokens[place.start : place.start + place.prompt]
        before = np.concatenate([tokens[place.prefix_start : place.prefix_start + place.prefix], prompt])
        yield prompt, before
        end = place.start + place.prompt
        for size in place.attempts:
            own, end = tokens[end : end + size], end + size
            yield own, np.concatenate([before, own])
    if end < len(tokens):
        yield tokens[end:], tokens[end:]


def sequences(rows: Sequence[Sequence[GroupSpan]], length: int, device: torch.device) -> Sequences:
    """Return packed rows, all ``length`` tokens long, as the sequences of FlashAttention's variable-length kernel."""
    parts = [part for number, row in enumerate(rows) for part in split_row(row, np.arange(length) + number * length)]
    key_S = torch.from_numpy(np.concatenate([keys for _, keys in parts])).to(device)
    queries, keys = ([len(part[i]) for part in parts] for i in range(2))
    query_ends, key_ends = (torch.tensor(np.cumsum([0, *sizes]), dtype=torch.int32, device=device) for sizes in (queries, keys))
    return Sequences(key_S, query_ends, key_ends, max(queries), max(keys))


def varlen_attention(
    _module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, _mask: Tensor, **options: Any
) -> tuple[Tensor, None]:
    """softmax(q k^T scale) v [B, L, H, D] over ``options["sequences"]``, at most ``sliding_window`` tokens back; ModelError if the kernel does not
    support the model."""
    if "window_size" not in OPTIONS or options.get("softcap"):
        raise ModelError("FlashAttention does not support capped scores (softcap), and needs PyTorch 2.11 or newer")
    laid, window = options["sequences"], options.get("sliding_window")
    query_T, key_T, value_T = (states.transpose(1, 2).flatten(0, 1).to(value.dtype) for states in (query, key, value))
    key_S, value_S = (states.index_select(0, laid.key_S) for states in (key_T, value_T))
    shared = query.shape[1] // key.shape[1]
    grouped = {"enable_gqa": shared > 1} if "enable_gqa" in OPTIONS else {}
    if shared > 1 and not grouped:
        key_S, value_S = (states.repeat_interleave(shared, dim=1) for states in (key_S, value_S))
    out = varlen_attn(
        query_T,
        key_S,
        value_S,
        laid.query_ends,
        laid.key_ends,
        laid.longest_query,
        laid.longest_key,
        scale=options["scaling"],
        window_size=(window - 1 if window else -1, 0),
        **grouped,
    )
    return out.unflatten(0, (query.shape[0], query.shape[2])), None


AttentionInterface.register(VARLEN, torch.compiler.disable(varlen_attention))  # compiled layers call it uncompiled


FLEX = "upsolve_flex"
"""Name under which the attention is registered with transformers."""


@cache
def compiled(what: Any) -> Any:
    """Return a function compiled by torch.compile, once per process, with dynamic shapes."""
    return torch.compile(what, dynamic=True)


def block_mask(
    group_BL: Tensor, attempt_BL: Tensor, positions_BL: Tensor, *, prefix_BL: Tensor, window: int | None
) -> BlockMask:
    """Return the block mask: a token sees its group's prompt with its prefix and its own attempt, causally, at most ``window`` tokens back.

    See PackedBatch for the arrays [B, L].
    """

    def sees(row: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        same_group = group_BL[row, query] == group_BL[row, key]
        own = (attempt_BL[row, query] == attempt_BL[row, key]) | (attempt_BL[row, key] == 0)
        seen = ((key <= query) & same_group & own) | (prefix_BL[row, query] == group_BL[row, key])
        return seen if window is None else seen & (positions_BL[row, query] - positions_BL[row, key] < window)

    rows, length = group_BL.shape
    make = compiled(create_block_mask) if group_BL.is_cuda else create_block_mask
    return make(sees, rows, None, length, length, device=str(group_BL.device))


def flex(
    _module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: BlockMask, **options: Any
) -> tuple[Tensor, None]:
    """softmax(cap(q k^T scale)) v over the pairs of a block mask; cap(x) = c tanh(x / c) if the model caps its scores (``softcap``).

    Under autocast, rotary embeddings return queries and keys in float32 while values are in bfloat16: all are cast to the values' dtype.
    """
    cap = options.get("softcap")

    def capped(score: Tensor, *_place: Tensor) -> Tensor:
        return cap * torch.tanh(score / cap) if cap else score

    attend = compiled(flex_attention) if query.is_cuda else flex_attention
    grouped = query.shape[1] != key.shape[1]
    out = attend(
        query.to(value.dtype),
        key.to(value.dtype),
        value,
        score_mod=capped if cap else None,
        block_mask=attention_mask,
        scale=options["scaling"],
        enable_gqa=grouped,
    )
    return out.transpose(1, 2).contiguous(), None


AttentionInterface.register(FLEX, flex)
