"""The layout of packed rows: which tokens are prompts and attempts of which group, and how CPU attention batches them.

Legend: B rows, L row length; of one group: F tokens of its prefix, P of its prompt, G attempts, R tokens
of the longest; of a bundle: N groups, M tokens of the longest, E keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Bundle", "GroupSpan", "Layout", "SharedPrefix", "bundles", "group_spans", "layout"]

PADDED = 1.4
"""Tokens of a bundle with padding, at most, as a multiple of those without."""
STEP = 16
"""Bundles are padded to a multiple of this number of tokens, so that few shapes occur: oneDNN keeps a program for each."""
OVERHEAD = 50_000
"""Attention scores (query-key pairs) whose computation takes as long as the fixed cost of computing one more group by itself. Measured with
``benchmarks/attention_ways.py`` on CPUs with AMX: 5 to 7 ms a group and 13 ns a score of nine heads, in both ways."""


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
    """Number of tokens of that prefix, F; 0 where there is none."""

    @property
    def tokens(self) -> int:
        """Number of tokens of the group."""
        return self.prompt + sum(self.attempts)

    @property
    def keys(self) -> int:
        """Number of tokens that the group's tokens see: its own and its prefix."""
        return self.prefix + self.tokens

    @property
    def scores(self) -> int:
        """Number of scores where the prompt is computed once: P (F + P) + G R (F + P + R)."""
        longest, before = max(self.attempts, default=0), self.prefix + self.prompt
        return self.prompt * before + len(self.attempts) * longest * (before + longest)


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """A prefix that groups of a bundle share."""

    groups: Tensor
    """int64: the groups, in [0, N)."""
    start: int
    """Index of its first token, in [0, B L)."""
    tokens: int
    """Number of tokens, F; they are the first keys of these groups."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """Groups of packed rows, padded to one length. The keys of a group are those of the prefix that it continues, then its own."""

    token_NM: Tensor
    """int64 [N, M]: token index of every query, in [0, B L); the padding repeats the last token of its group."""
    own: Tensor
    """int64: the queries in [0, N M) that are not padding."""
    key_NE: Tensor
    """int64 [N, E]: token index of every key, in [0, B L)."""
    own_keys: Tensor
    """int64: the keys in [0, N E) that are tokens of their group, in the order of ``own``."""
    bias_NME: Tensor
    """[N, M, E], in the dtype of the attention: 0 where the query sees the key, else -inf."""
    shared: tuple[SharedPrefix, ...]
    """The prefixes."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The groups of packed rows."""

    rows: list[list[GroupSpan]]
    """Groups of each row, in order."""
    bundles: list[Bundle]
    """The same groups in bundles, where that is the faster way; else empty."""


def group_spans(
    group_BL: NDArray[np.int64], attempt_BL: NDArray[np.int64], prefix_BL: NDArray[np.int64]
) -> list[list[GroupSpan]]:
    """Return the groups of each row, in order.

    Args:
        group_BL: group of each token within its row, -1 in the padding (``PackedBatch.group_BL``).
        attempt_BL: attempt of each token within its group, 1..G; 0 in prompts and padding (``PackedBatch.attempt_BL``).
        prefix_BL: group of the prefix that the prompt continues, -2 where there is none (``PackedBatch.prefix_BL``).
    """
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


def layout(rows: list[list[GroupSpan]], length: int, device: torch.device, dtype: torch.dtype = torch.float32) -> Layout:
    """Return the layout of rows of ``length`` tokens, with bundles where they take less time than one group after the other.

    Bundles compute every pair of a query and a key of a group, N M E scores, in few operations; groups by themselves compute fewer scores in more.
    """
    parts = by_length(rows)
    bundled = sum(len(part) * largest(part, "tokens") * largest(part, "keys") for part in parts)
    separate = sum(span.scores + OVERHEAD for row in rows for span in row)
    return Layout(rows, [bundle(part, length, device, dtype) for part in parts] if bundled < separate else [])


def bundles(
    rows: Sequence[Sequence[GroupSpan]], length: int, device: torch.device, dtype: torch.dtype = torch.float32
) -> list[Bundle]:
    """Return all groups of rows of ``length`` tokens in bundles."""
    return [bundle(part, length, device, dtype) for part in by_length(rows)]


def largest(part: Sequence[tuple[int, GroupSpan]], field: str) -> int:
    """Return the largest number of tokens or keys of groups."""
    return max(getattr(span, field) for _, span in part)


def by_length(rows: Sequence[Sequence[GroupSpan]]) -> list[list[tuple[int, GroupSpan]]]:
    """Return groups of similar length together, each with the number of its row: those with a prefix first, then the longest first."""
    parts: list[list[tuple[int, GroupSpan]]] = []
    used = 0
    groups = [(number, span) for number, row in enumerate(rows) for span in row]
    for number, span in sorted(groups, key=lambda pair: (pair[1].prefix == 0, -pair[1].tokens)):
        begins = not parts or (parts[-1][0][1].prefix == 0) != (span.prefix == 0)
        if begins or parts[-1][0][1].tokens * (len(parts[-1]) + 1) > PADDED * (used + span.tokens):
            parts.append([])
            used = 0
        parts[-1].append((number, span))
        used += span.tokens
    return parts


def bundle(groups: Sequence[tuple[int, GroupSpan]], length: int, device: torch.device, dtype: torch.dtype) -> Bundle:
    """Return groups, each with the number of its row, as a bundle."""
    count = len(groups)
    sizes_N, first_N, prefix_N, before_N = (
        np.array(column)[:, None]
        for column in zip(
            *((p.tokens, row * length + p.start, p.prefix, row * length + p.prefix_start) for row, p in groups), strict=True
        )
    )
    steps_M, steps_E = (np.arange(-(-largest(groups, field) // STEP) * STEP) for field in ("tokens", "keys"))
    query_NM = np.minimum(steps_M, sizes_N - 1)
    key_position_NE = np.minimum(steps_E - prefix_N, sizes_N - 1)  # of own keys; negative in the prefix
    key_NE = np.where(key_position_NE < 0, before_N + steps_E, first_N + key_position_NE)
    attempts = [attempts_of(span) for _, span in groups]
    attempt_NM, attempt_NE = (
        np.stack([attempt[np.maximum(at, 0)] for attempt, at in zip(attempts, index, strict=True)])
        for index in (query_NM, key_position_NE)
    )
    real_NE = steps_E < prefix_N + sizes_N
    causal_NME = (key_position_NE[:, None] <= query_NM[..., None]) & real_NE[:, None]
    same_NME = (attempt_NE[:, None] == 0) | (attempt_NE[:, None] == attempt_NM[..., None])
    bias_NME = np.where(causal_NME & (same_NME | (key_position_NE < 0)[:, None]), np.float32(0), np.float32(-np.inf))
    real, own_keys = np.flatnonzero(steps_M < sizes_N), np.flatnonzero(real_NE & (key_position_NE >= 0))
    arrays = (query_NM + first_N, real, key_NE, own_keys, bias_NME)
    starts = {int(before_N[n, 0]): int(prefix_N[n, 0]) for n in range(count) if prefix_N[n, 0]}
    shared = (
        SharedPrefix(
            torch.from_numpy(np.flatnonzero((before_N[:, 0] == start) & (prefix_N[:, 0] > 0))).to(device), start, tokens
        )
        for start, tokens in starts.items()
    )
    tokens, queries, keys, own, bias = (torch.from_numpy(array).to(device) for array in arrays)
    return Bundle(tokens, queries, keys, own, bias.to(dtype), tuple(shared))


def attempts_of(span: GroupSpan) -> NDArray[np.int64]:
    """Return the attempt of every token of a group, 1..G, 0 in the prompt."""
    return np.repeat(np.arange(len(span.attempts) + 1), (span.prompt, *span.attempts))
