"""Attention over packed rows by FlashAttention, on GPUs in half precision: sequences of any length, nothing compiled, no mask.

A prompt is a sequence, and so is each attempt: its queries are its own tokens, its keys the prompt's and then its own. Attention is
causal with the last query at the last key, and a window counts back over both.

Legend: B rows, L row length, H query heads, D head size; N sequences, S keys of all sequences.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import AttentionInterface

from upsolve.errors import ModelError
from upsolve.policy.attention import Place

try:
    from torch.nn.attention.varlen import varlen_attn
except ImportError:  # before PyTorch 2.10
    varlen_attn: Any = None

__all__ = ["VARLEN", "Sequences", "sequences"]

Ints = NDArray[np.int64]

VARLEN = "upsolve_varlen"
"""Name under which the attention is registered with transformers."""


@dataclass(frozen=True, slots=True)
class Sequences:
    """How packed rows fall into sequences; what pads a row is one of its own."""

    key_S: Tensor
    """Token, 0..B*L-1, of every key."""
    query_ends: Tensor
    """int32 [N + 1]: where the queries of each sequence begin, and where the last ones end; queries are the tokens in order."""
    key_ends: Tensor
    """int32 [N + 1]: the same of the keys."""
    longest_query: int
    """Most queries of a sequence."""
    longest_key: int
    """Most keys of a sequence."""


def cut(row: Sequence[Place], tokens: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Return the sequences of a row of tokens, in order: its queries, and its keys."""
    end = 0
    for place in row:
        prompt = tokens[place.start : place.start + place.prompt]
        yield prompt, prompt
        end = place.start + place.prompt
        for size in place.attempts:
            own, end = tokens[end : end + size], end + size
            yield own, np.concatenate([prompt, own])
    if end < len(tokens):
        yield tokens[end:], tokens[end:]


def sequences(rows: Sequence[Sequence[Place]], length: int, device: torch.device) -> Sequences:
    """Return the sequences of packed rows of a length."""
    parts = [part for number, row in enumerate(rows) for part in cut(row, np.arange(length) + number * length)]
    key_S = torch.from_numpy(np.concatenate([keys for _, keys in parts])).to(device)
    queries, keys = ([len(part[i]) for part in parts] for i in range(2))
    query_ends, key_ends = (torch.tensor(np.cumsum([0, *sizes]), dtype=torch.int32, device=device) for sizes in (queries, keys))
    return Sequences(key_S, query_ends, key_ends, max(queries), max(keys))


def ragged(
    _module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, _mask: Tensor, **options: Any
) -> tuple[Tensor, None]:
    """softmax(q k^T scale) v [B, L, H, D] over the sequences among the options, at most ``sliding_window`` tokens back.

    Raises:
        ModelError: scores have a cap, or PyTorch has no such attention.
    """
    if varlen_attn is None or options.get("softcap"):
        raise ModelError("FlashAttention: no capped scores, and not before PyTorch 2.10")
    laid, window = options["sequences"], options.get("sliding_window")
    query_T, key_T, value_T = (one.transpose(1, 2).flatten(0, 1).to(value.dtype) for one in (query, key, value))
    out = varlen_attn(
        query_T,
        key_T.index_select(0, laid.key_S),
        value_T.index_select(0, laid.key_S),
        laid.query_ends,
        laid.key_ends,
        laid.longest_query,
        laid.longest_key,
        scale=options["scaling"],
        window_size=(window - 1 if window else -1, 0),
        enable_gqa=query.shape[1] != key.shape[1],
    )
    return out.unflatten(0, (query.shape[0], query.shape[2])), None


AttentionInterface.register(VARLEN, ragged)
