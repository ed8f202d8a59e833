"""Urns of attempts, from which groups of a task are drawn: in proportion to how often each attempt occurs, without replacement."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from upsolve.archive.outline import Outline
from upsolve.config import DataConfig

__all__ = ["OutlineUrn", "ReadUrn", "Urn", "draw_mixed"]

TRIES = 32
"""Draws of attempts that may have been drawn before, after which the counts are cumulated anew."""


class Urn(Protocol):
    """The attempts of a task that can still be drawn."""

    def left(self, passed: bool | None = None) -> int:
        """Return how many can still be drawn; with ``passed``, of those with this outcome."""
        ...

    def draw(self, passed: bool | None = None) -> int:
        """Draw the index of one of them, with probability proportional to how often it occurs."""
        ...


class ReadUrn:
    """Attempts that were read: each once or, with ``repeats``, as often as it occurs."""

    def __init__(self, counts: Sequence[int], passed: Sequence[bool], random: np.random.Generator, *, repeats: bool) -> None:
        self.weights, self.passed, self.repeats, self.random = [*counts], passed, repeats, random

    def indices(self, passed: bool | None) -> list[int]:
        """Return the indices that can still be drawn."""
        return [i for i, weight in enumerate(self.weights) if weight and passed in (None, self.passed[i])]

    def left(self, passed: bool | None = None) -> int:
        """Return how many can still be drawn."""
        indices = self.indices(passed)
        return sum(self.weights[i] for i in indices) if self.repeats else len(indices)

    def draw(self, passed: bool | None = None) -> int:
        """Draw an index."""
        indices = self.indices(passed)
        weights = np.array([self.weights[i] for i in indices], dtype=np.float64)
        index = int(self.random.choice(np.array(indices), p=weights / weights.sum()))
        self.weights[index] = self.weights[index] - 1 if self.repeats else 0
        return index


class OutlineUrn:
    """Scored attempts in an outline that a recipe uses, each once. Counts are cumulated once: what was drawn before is drawn anew."""

    def __init__(self, outline: Outline, data: DataConfig, random: np.random.Generator) -> None:
        usable_N, self.good_N, self.random = outline.scored_N & outline.usable(data), outline.passed_N, random
        parts = {True: usable_N & self.good_N, False: usable_N & ~self.good_N, None: usable_N}
        self.sums = {outcome: np.cumsum(outline.counts_N * some_N) for outcome, some_N in parts.items()}
        self.rest = {outcome: int(some_N.sum()) for outcome, some_N in parts.items()}
        self.used = set[int]()

    def left(self, passed: bool | None = None) -> int:
        """Return how many can still be drawn."""
        return self.rest[passed]

    def draw(self, passed: bool | None = None) -> int:
        """Draw an index."""
        sums = self.sums[passed]
        tries = (int(np.searchsorted(sums, self.random.integers(sums[-1]), side="right")) for _ in range(TRIES))
        place = next((place for place in tries if place not in self.used), -1)
        if place < 0:  # what was drawn has most of the counts
            weights = np.diff(sums, prepend=0) * ~np.isin(np.arange(len(sums)), [*self.used])
            place = int(self.random.choice(len(weights), p=weights / weights.sum()))
        self.used.add(place)
        for outcome in (None, bool(self.good_N[place])):
            self.rest[outcome] -= 1
        return place


def draw_mixed(urn: Urn, size: int, max_groups: int, random: np.random.Generator) -> list[list[int]]:
    """Draw up to ``max_groups`` index lists, each with an attempt that passed and one that did not; fewer when either runs out."""
    drawn: list[list[int]] = []
    while len(drawn) < max_groups and urn.left() >= size and urn.left(passed=True) and urn.left(passed=False):
        indices = [urn.draw(passed=True), urn.draw(passed=False)]
        indices += [urn.draw() for _ in range(size - 2)]
        drawn.append([indices[i] for i in random.permutation(size)])
    return drawn
