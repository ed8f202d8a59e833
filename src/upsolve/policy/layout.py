"""The layout of packed rows: which tokens are prompts and attempts of which group, and how CPU attention batches them.

Legend: B rows, L row length; of one group: P prompt tokens, G attempts, R longest attempt; of a bundle: N groups, M tokens of the longest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Bundle", "Layout", "Place", "bundles", "layout", "places"]

PADDED = 1.2
"""Tokens of a bundle with padding, at most, as a multiple of those without."""
STEP = 16
"""Bundles are padded to a multiple of this number of tokens, so that few shapes occur: oneDNN keeps a program for each."""
OVERHEAD = 50_000
"""Attention scores (query-key pairs) whose computation takes as long as the fixed cost of computing one more group by itself. Measured with
``benchmarks/attention_ways.py`` on CPUs with AMX: 5 to 7 ms a group and 13 ns a score of nine heads, in both ways."""


@dataclass(frozen=True, slots=True)
class Place:
    """Position of a group in its row: the prompt, then its attempts."""

    start: int
    """Index of the first prompt token in the row."""
    prompt: int
    """Number of prompt tokens, P."""
    attempts: tuple[int, ...]
    """Number of tokens of each attempt, [G]."""

    @property
    def tokens(self) -> int:
        """Number of tokens of the group."""
        return self.prompt + sum(self.attempts)

    @property
    def scores(self) -> int:
        """Number of scores where the prompt is computed once: P^2 + G R (P + R)."""
        longest = max(self.attempts, default=0)
        return self.prompt**2 + len(self.attempts) * longest * (self.prompt + longest)


@dataclass(frozen=True, slots=True)
class Bundle:
    """Groups of packed rows, padded to one length."""

    token_NM: Tensor
    """int64 [N, M]: token index of every position, in [0, B L); the padding repeats the last token of its group."""
    own: Tensor
    """int64: the positions in [0, N M) that are not padding."""
    bias_NMM: Tensor
    """float32 [N, M, M]: 0 where the query (second axis) sees the key (third axis), else -inf."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The groups of packed rows."""

    rows: list[list[Place]]
    """Groups of each row, in order."""
    bundles: list[Bundle]
    """The same groups in bundles, where that is the faster way; else empty."""


def places(group_BL: NDArray[np.int64], attempt_BL: NDArray[np.int64]) -> list[list[Place]]:
    """Return the groups of each row, in order.

    Args:
        group_BL: group of each token within its row, -1 in the padding (``PackedBatch.group_BL``).
        attempt_BL: attempt of each token within its group, 1..G; 0 in prompts and padding (``PackedBatch.attempt_BL``).
    """
    found: list[list[Place]] = []
    for groups, attempts in zip(group_BL, attempt_BL, strict=True):
        starts = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(groups)]
        row: list[Place] = []
        for start, end in pairwise(starts):
            if groups[start] >= 0:
                sizes = np.bincount(attempts[start:end]).tolist()
                row.append(Place(start, sizes[0], tuple(size for size in sizes[1:] if size)))
        found.append(row)
    return found


def layout(rows: list[list[Place]], length: int, device: torch.device) -> Layout:
    """Return the layout of rows of ``length`` tokens, with bundles where they take less time than one group after the other.

    Bundles compute every pair of tokens of a group, N M^2 scores, in few operations; groups by themselves compute fewer scores in more.
    """
    parts = similar(rows, length)
    together = sum(len(part) * part[0][0].tokens ** 2 for part in parts)
    apart = sum(place.scores + OVERHEAD for row in rows for place in row)
    return Layout(rows, [bundle(part, device) for part in parts] if together < apart else [])


def bundles(rows: Sequence[Sequence[Place]], length: int, device: torch.device) -> list[Bundle]:
    """Return all groups of rows of ``length`` tokens in bundles."""
    return [bundle(part, device) for part in similar(rows, length)]


def similar(rows: Sequence[Sequence[Place]], length: int) -> list[list[tuple[Place, int]]]:
    """Return groups of similar length together, the longest first, each with the index of its first token in [0, B L)."""
    groups = [(place, number * length + place.start) for number, row in enumerate(rows) for place in row]
    parts: list[list[tuple[Place, int]]] = []
    used = 0
    for group in sorted(groups, key=lambda one: -one[0].tokens):
        if not parts or parts[-1][0][0].tokens * (len(parts[-1]) + 1) > PADDED * (used + group[0].tokens):
            parts.append([])
            used = 0
        parts[-1].append(group)
        used += group[0].tokens
    return parts


def bundle(groups: Sequence[tuple[Place, int]], device: torch.device) -> Bundle:
    """Return groups, each with the index of its first token, as a bundle."""
    sizes_N, first_N = np.array([place.tokens for place, _ in groups]), np.array([first for _, first in groups])
    steps_M = np.arange(-(-sizes_N.max() // STEP) * STEP)
    index_NM = np.minimum(steps_M, sizes_N[:, None] - 1)
    attempt_NM = np.stack([attempts_of(place)[at] for (place, _), at in zip(groups, index_NM, strict=True)])
    causal_NMM = steps_M <= index_NM[..., None]
    sees_NMM = causal_NMM & ((attempt_NM[:, None] == 0) | (attempt_NM[:, None] == attempt_NM[..., None]))
    bias_NMM = np.where(sees_NMM, np.float32(0), np.float32(-np.inf))
    own = np.flatnonzero(steps_M < sizes_N[:, None])
    return Bundle(*(torch.from_numpy(array).to(device) for array in (index_NM + first_N[:, None], own, bias_NMM)))


def attempts_of(place: Place) -> NDArray[np.int64]:
    """Return the attempt of every token of a group, 1..G, 0 in the prompt."""
    return np.repeat(np.arange(len(place.attempts) + 1), (place.prompt, *place.attempts))
