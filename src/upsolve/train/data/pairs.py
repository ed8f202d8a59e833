"""Preference pairs from judged groups, and the tokens in which a pair differs.

Legend: R completion tokens.
"""

from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from upsolve.config import DataConfig
from upsolve.reward.formula import Rewarded
from upsolve.train.data.groups import Formed, draw_tasks, failed, passed
from upsolve.types import Group

__all__ = ["draw_pairs", "focal_weights"]

Pair = tuple[int, int]


def edit_distance(text: str, other: str) -> int:
    """Return the Levenshtein distance: the smallest number of insertions, deletions and replacements of characters."""
    codes = np.array([ord(letter) for letter in other], dtype=np.int64)
    columns = np.arange(len(other) + 1)
    row = columns
    for i, letter in enumerate(text, start=1):
        row = np.concatenate([[i], np.minimum(row[1:] + 1, row[:-1] + (codes != ord(letter)))])
        row = columns + np.minimum.accumulate(row - columns)  # insertions, from the left
    return int(row[-1])


def by_outcome(group: Group) -> list[tuple[float, Pair]]:
    """Return every pair (passed, failed) with different code, all of rank 0; unscored attempts are in no pair."""
    good = [i for i, verdict in enumerate(group.verdicts) if passed(verdict)]
    bad = [i for i, verdict in enumerate(group.verdicts) if failed(verdict)]
    return [(0.0, (i, j)) for i in good for j in bad if group.attempts[i].code != group.attempts[j].code]


def by_efficiency(group: Group, *, max_ratio: float = 0.5) -> list[tuple[float, Pair]]:
    """Return every pair of passed attempts, the first at most ``max_ratio`` times the ``cpu_seconds`` of the second, all of rank 0.

    Attempts without a time are in no pair. Times are noisy, so the default is a factor of two.
    """
    times = [
        (i, v.cpu_seconds) for i, v in enumerate(group.verdicts) if v is not None and passed(v) and v.cpu_seconds is not None
    ]
    return [(0.0, (i, j)) for i, fast in times for j, slow in times if fast < slow and fast <= max_ratio * slow]


def by_edit(group: Group) -> list[tuple[float, Pair]]:
    """Return the pairs of ``by_outcome``, ranked by edit distance: a small edit isolates the mistake."""
    codes = [attempt.code for attempt in group.attempts]
    return [(float(edit_distance(codes[i], codes[j])), (i, j)) for _, (i, j) in by_outcome(group)]


PAIRS: Mapping[str, Callable[[Group], list[tuple[float, Pair]]]] = {
    "edit": by_edit,
    "efficiency": by_efficiency,
    "outcome": by_outcome,
}
"""Name in a recipe -> candidates with their ranks; the lowest rank is preferred."""


def build_pairs(group: Group, kind: str, random: np.random.Generator, *, max_pairs: int) -> list[Pair]:
    """Return up to ``max_pairs`` pairs (chosen, rejected) of attempts, as indices into the group; each attempt is in at most one.

    Candidates are taken by rank, equal ranks in random order.
    """
    ranked = PAIRS[kind](group)
    order = random.permutation(len(ranked))
    picked: list[Pair] = []
    taken: set[int] = set()
    for _, pair in sorted((ranked[i] for i in order), key=itemgetter(0)):
        if len(picked) < max_pairs and not taken.intersection(pair):
            picked.append(pair)
            taken.update(pair)
    return picked


def draw_pairs(rewarded: Sequence[Rewarded], data: DataConfig, kind: str, *, epoch: int, most: int | None = None) -> Formed:
    """Sample up to ``data.groups_per_task`` pairs per task, different ones in every epoch; ``most``: as for ``draw_groups``."""

    def draw(item: Rewarded, random: np.random.Generator) -> tuple[Sequence[Sequence[int]], str]:
        pairs = build_pairs(item.group, kind, random, max_pairs=data.groups_per_task)
        return pairs, "" if pairs else f"no pair by {kind}"

    return draw_tasks(rewarded, draw, data, epoch=epoch, most=most)


def focal_weights(
    code: str, other: str, offsets: Sequence[tuple[int, int]], *, inside: float = 1.0, outside: float = 0.0
) -> NDArray[np.float64]:
    """Return [R]: ``inside`` for tokens that overlap a line of ``code`` that differs from ``other``, else ``outside``.

    Weights 1 and 0 ignore shared lines (2503.02783); 2 and 1 emphasise differing lines (2502.11475). Lines that only ``other``
    has have no tokens here. ``offsets`` are the character spans of the completion's tokens (``Codec.offsets``).
    """
    starts = np.cumsum([0, *map(len, code.splitlines(keepends=True))])
    matcher = SequenceMatcher(None, code.splitlines(), other.splitlines(), autojunk=False)
    weights_R = np.full(len(offsets), outside)
    for tag, first, last, _, _ in matcher.get_opcodes():
        if tag != "equal":
            touched = [start < starts[last] and end > starts[first] for start, end in offsets]
            weights_R[touched] = inside
    return weights_R
