"""The layout of packed rows: for each token, whether it belongs to a prompt or an attempt, and of which group; and how attention on CPUs uses it.

Legend: B rows, L row length, T = B L tokens, H query heads, K key-value heads, S = H / K query heads per key-value head;
of a bundle: N chains, M tokens of the longest, E keys.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Bundle", "Chain", "GroupSpan", "Layout", "Rows", "bundled", "chains", "group_spans", "layout"]

STEP = 16
"""Bundles are padded to a multiple of this number of tokens, so that few shapes occur: oneDNN keeps a program for each."""
OVERHEAD = 8_000
"""Attention scores (query-key pairs) whose computation takes as long as the fixed cost of one more bundle."""
SCORES = 2**16
"""Most scores of a bundle of several chains: with nine heads in bfloat16 1.2 MB, which stay in the cache until all work on them is done."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class GroupSpan:
    """Position of a group in its row: the prompt, then its attempts."""

    start: int
    """Index of the first prompt token in the row."""
    prompt: int
    """Number of prompt tokens, P."""
    attempts: tuple[int, ...]
    """Number of tokens of each attempt, [G]."""
    prefix_start: int = 0
    """Index of the first token of the prefix, earlier in the row, that the prompt continues."""
    prefix: int = 0
    """Number of tokens of that prefix; 0 where there is none."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Consecutive tokens, each of which sees the tokens before it: a prompt with its first attempt, or a further attempt."""

    start: int
    """Index of the first token, in [0, T)."""
    tokens: int
    """Number of tokens."""
    before: tuple[tuple[int, int], ...] = ()
    """First token and number of tokens of each stretch before the chain that all its tokens see: the prefix and, for further attempts, the prompt."""

    @property
    def seen(self) -> int:
        """Number of tokens before the chain that it sees."""
        return sum(tokens for _, tokens in self.before)

    @property
    def keys(self) -> int:
        """Number of tokens that the last token sees, itself included."""
        return self.seen + self.tokens


@dataclass(frozen=True, slots=True)
class Bundle:
    """Chains, padded to one length. The keys of a chain are the tokens before it, then its own."""

    query_NM: Ints
    """Token of every query, -1 in the padding."""
    key_NE: Ints
    """Token of every key, -1 in the padding."""
    bias_NME: Tensor
    """In the dtype of the attention: 0 where the query sees the key, else -inf; 0 in the padding of queries."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Indices between tokens and bundles. Queries of all bundles are rows [N, K, S, M], one bundle after the other; keys and values are rows [N, K, E]."""

    query: Tensor
    """int64: for each query its row in [T H]; an arbitrary row in the padding."""
    padding: Tensor
    """int64: the queries that are padding."""
    token: Tensor
    """int64 [T H]: the query of each token and head; tokens of no group point one past the last query."""
    key: Tensor
    """int64: for each key its row in [T K]; an arbitrary row in the padding."""
    copies: Tensor
    """int64: the keys that are not padding, in the order of their rows in [T K]."""
    first: Tensor
    """int64 [T K]: where the copies of each row begin in ``copies``."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Layout:
    """The chains of packed rows in bundles."""

    bundles: list[Bundle]
    """The bundles; every token of a group is a query of exactly one."""
    tokens: int
    """T, the number of tokens."""
    by_heads: dict[tuple[int, int], Rows] = field(default_factory=dict[tuple[int, int], Rows])
    """The indices that were computed so far, by H and K: layers with the same numbers of heads share them."""

    def rows(self, heads: int, key_heads: int) -> Rows:
        """Return the indices for attention with H query heads and K key-value heads."""
        if (heads, key_heads) not in self.by_heads:
            self.by_heads[heads, key_heads] = rows_of(self, heads, key_heads)
        return self.by_heads[heads, key_heads]


def group_spans(
    group_BL: NDArray[np.int64], attempt_BL: NDArray[np.int64], prefix_BL: NDArray[np.int64]
) -> list[list[GroupSpan]]:
    """Return the groups of each row, in order, from the arrays of a ``PackedBatch``."""
    rows: list[list[GroupSpan]] = []
    for groups, attempts, prefixes in zip(group_BL, attempt_BL, prefix_BL, strict=True):
        starts = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(groups)]
        row: list[GroupSpan] = []
        by_group: dict[int, GroupSpan] = {}
        for start, end in pairwise(starts):
            if groups[start] >= 0:
                sizes = np.bincount(attempts[start:end]).tolist()
                prefix = by_group.get(int(prefixes[start]), GroupSpan(0, 0, ()))
                span = GroupSpan(start, sizes[0], tuple(size for size in sizes[1:] if size), prefix.start, prefix.prompt)
                by_group[int(groups[start])] = span
                row.append(span)
        rows.append(row)
    return rows


def layout(
    rows: Sequence[Sequence[GroupSpan]], length: int, device: torch.device, dtype: torch.dtype = torch.float32
) -> Layout:
    """Return the layout of rows of ``length`` tokens."""
    parts = bundled(chains(rows, length))
    return Layout([bundle(part, device, dtype) for part in parts], len(rows) * length)


def chains(rows: Sequence[Sequence[GroupSpan]], length: int) -> Iterator[Chain]:
    """Yield the chains of the groups of rows of ``length`` tokens."""
    for number, row in enumerate(rows):
        for span in row:
            start = number * length + span.start
            prefix = ((number * length + span.prefix_start, span.prefix),) if span.prefix else ()
            first, *others = span.attempts or (0,)
            yield Chain(start, span.prompt + first, prefix)
            end = start + span.prompt + first
            for tokens in others:
                yield Chain(end, tokens, (*prefix, (start, span.prompt)))
                end += tokens


def bundled(parts: Iterator[Chain]) -> list[list[Chain]]:
    """Return chains in bundles, the longest first. A chain starts a new bundle if its padding would cost more than a new bundle."""
    bundles: list[list[Chain]] = []
    count = longest = keys = 0
    for chain in sorted(parts, key=lambda chain: (-rounded(chain.tokens), -chain.keys)):
        more = max(keys, rounded(chain.keys))
        joined = (count + 1) * longest * more
        alone = count * longest * keys + rounded(chain.tokens) * rounded(chain.keys) + OVERHEAD
        if not bundles or joined > min(alone, SCORES):
            bundles.append([])
            count, longest, more = 0, rounded(chain.tokens), rounded(chain.keys)
        bundles[-1].append(chain)
        count, keys = count + 1, more
    return bundles


def rounded(tokens: int) -> int:
    """Return the length to which this number of tokens is padded."""
    return -(-tokens // STEP) * STEP


def bundle(parts: Sequence[Chain], device: torch.device, dtype: torch.dtype) -> Bundle:
    """Return chains, padded to one length, as a bundle."""
    longest, keys = max(rounded(chain.tokens) for chain in parts), max(rounded(chain.keys) for chain in parts)
    query_NM, key_NE = np.full((len(parts), longest), -1), np.full((len(parts), keys), -1)
    for n, chain in enumerate(parts):
        own = np.arange(chain.start, chain.start + chain.tokens)
        query_NM[n, : chain.tokens] = own
        key_NE[n, : chain.keys] = np.concatenate([*(np.arange(start, start + tokens) for start, tokens in chain.before), own])
    seen_N11 = np.array([chain.seen for chain in parts])[:, None, None]
    visible_NME = (np.arange(keys) - seen_N11 <= np.arange(longest)[:, None]) & (key_NE >= 0)[:, None]
    bias_NME = np.where(visible_NME | (query_NM < 0)[..., None], np.float32(0), np.float32(-np.inf))
    return Bundle(query_NM, key_NE, torch.from_numpy(bias_NME).to(device, dtype))


def rows_of(layout: Layout, heads: int, key_heads: int) -> Rows:
    """Return the indices of a layout for attention with these numbers of heads."""
    shared = heads // key_heads
    head_KS1, head_K1 = np.arange(heads).reshape(key_heads, shared, 1), np.arange(key_heads)[:, None]
    queries = [row(part.query_NM[:, None, None], heads, head_KS1) for part in layout.bundles]
    keys = [row(part.key_NE[:, None], key_heads, head_K1) for part in layout.bundles]
    query, key = (np.concatenate([np.zeros(0, dtype=np.int64), *parts]) for parts in (queries, keys))
    token = np.full(layout.tokens * heads, len(query))
    token[query[query >= 0]] = np.flatnonzero(query >= 0)
    copies = np.argsort(key, kind="stable")[np.count_nonzero(key < 0) :]
    counts = np.bincount(key[copies], minlength=layout.tokens * key_heads)
    arrays = (np.maximum(query, 0), np.flatnonzero(query < 0), token, np.maximum(key, 0), copies, np.cumsum(counts) - counts)
    device = layout.bundles[0].bias_NME.device if layout.bundles else torch.device("cpu")
    return Rows(*(torch.from_numpy(array).to(device) for array in arrays))


def row(token: Ints, heads: int, head: Ints) -> Ints:
    """Return the flat row index (tokens times heads) of tokens and heads; -1 if the token is -1."""
    return np.where(token < 0, -1, token * heads + head).ravel()
