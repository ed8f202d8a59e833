"""Preference pairs from judged groups, and the tokens in which a pair differs.

Legend: R completion tokens.
"""

from collections.abc import Sequence
from difflib import SequenceMatcher
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from upsolve.config import DataConfig
from upsolve.config.select import ask_pairs, columns_read, pair_query, selection_table
from upsolve.errors import ConfigError
from upsolve.reward.formula import Rewarded
from upsolve.reward.selection import fill
from upsolve.train.data.groups import Formed, draw_tasks

__all__ = ["draw_pairs", "focal_weights"]

Pair = tuple[int, int]


def ranked_pairs(item: Rewarded, kinds: Sequence[str], *, number: int = 0, seed: int = 0) -> list[list[tuple[int, Pair]]]:
    """Return the pairs of each kind with their ranks, the best first: attempts of the group that fulfil the query (``config.select.PAIRS``)."""
    read = columns_read(map(pair_query, kinds))
    with selection_table() as table:
        fill(table, [item], read, number=number, seed=seed)
        try:
            return [[(rank, (i, j)) for i, j, rank in ask_pairs(table, kind)] for kind in kinds]
        except ValueError as error:
            raise ConfigError(f"objective.preference.pairs: {error}") from error


def build_pairs(ranked: Sequence[Sequence[tuple[int, Pair]]], random: np.random.Generator, *, max_pairs: int) -> list[Pair]:
    """Return up to ``max_pairs`` pairs (chosen, rejected) of attempts, as indices into the group; each attempt is in at most one.

    Kinds take turns. Candidates of a kind are taken by rank, equal ranks in random order.
    """
    kinds = [[candidates[i] for i in random.permutation(len(candidates))] for candidates in ranked]
    waiting = [iter([pair for _, pair in sorted(candidates, key=itemgetter(0))]) for candidates in kinds]
    picked: list[Pair] = []
    taken: set[int] = set()
    while waiting and len(picked) < max_pairs:
        candidates = waiting.pop(0)
        if pair := next((pair for pair in candidates if not taken.intersection(pair)), None):
            picked.append(pair)
            taken.update(pair)
            waiting.append(candidates)
    return picked


def draw_pairs(
    rewarded: Sequence[Rewarded], data: DataConfig, kinds: str | Sequence[str], *, epoch: int, most: int | None = None
) -> Formed:
    """Sample up to ``data.groups_per_task`` pairs per task, different ones in every epoch; ``most``: as for ``draw_groups``."""
    several = [kinds] if isinstance(kinds, str) else [*kinds]

    def draw(item: Rewarded, random: np.random.Generator) -> tuple[Sequence[Sequence[int]], str]:
        ranked = ranked_pairs(item, several, number=epoch, seed=data.seed)
        pairs = build_pairs(ranked, random, max_pairs=data.groups_per_task)
        return pairs, "" if pairs else f"no pair by {', '.join(several)}"

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
