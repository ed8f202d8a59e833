"""Search for an answer in rounds. A record says how the parents are chosen: the candidates that the next ones correct.

A search is a tree: its root is the task, the first samples are children of the root, and a correction is a child of what it corrects.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from upsolve.plugins import find, reraise
from upsolve.policy.prompt import FAILURES
from upsolve.policy.request import Request
from upsolve.solve.choose import Candidates, tests
from upsolve.types import Turn

__all__ = ["PARENTS", "Parents", "Tree", "corrections", "uct_value"]

EXPLORATION = 1.0
"""c of ``uct_value``, as in 2310.04406."""


@dataclass(frozen=True)
class Tree:
    """The candidates of a task so far, N of them, as a tree."""

    candidates: Candidates
    """The candidates, with verdicts on visible tests alone, and ``parents``."""
    best: int
    """Index of the candidate that the kinds of evidence choose."""

    @property
    def parents(self) -> tuple[int | None, ...]:
        """Index of the candidate that each corrects [N]; None for a sample of the task."""
        return self.candidates.parents

    @cached_property
    def scores(self) -> list[float]:
        """Share of visible tests that each candidate passes [N], in [0, 1]."""
        return tests(self.candidates)

    @cached_property
    def failed(self) -> list[int]:
        """Indices of the distinct programs that fail a visible test, in order of sampling."""
        first: dict[str, int] = {}
        for index, (attempt, verdict) in enumerate(zip(self.candidates.attempts, self.candidates.verdicts, strict=True)):
            if verdict and verdict.status in FAILURES:
                first.setdefault(attempt.attempt_id, index)
        return [*first.values()]

    def children(self, parent: int | None) -> list[int]:
        """Return the indices of a candidate's corrections; for None, of the task's samples."""
        return [index for index, other in enumerate(self.parents) if other == parent]


@dataclass(frozen=True, slots=True)
class Parents:
    """A way to choose the candidates that the next ones correct."""

    choose: Callable[[Tree, int], Sequence[int | None]]
    """``choose(tree, count) -> parents``: for each of the next ``count`` candidates the index of its parent; None: a new sample of the task."""
    help: str
    """Description in one line."""


def no_parents(_tree: Tree, count: int) -> list[int | None]:
    """Return new samples of the task alone: best of n."""
    return [None] * count


def refine(tree: Tree, count: int) -> list[int | None]:
    """Return the best candidate so far, ``count`` times; None, a new sample, if this candidate has no verdict."""
    return [tree.best if tree.candidates.verdicts[tree.best] else None] * count


def scatter(tree: Tree, count: int) -> list[int | None]:
    """Return every distinct failed candidate in turn, those with the fewest corrections first; new samples if none has failed."""
    turn = sorted(tree.failed, key=lambda index: len(tree.children(index)))
    return [turn[number % len(turn)] if turn else None for number in range(count)]


def uct_value(mean: float, visits: int, parent_visits: int, exploration: float = EXPLORATION) -> float:
    """Return mean + c sqrt(ln N / n): UCB1 at the nodes of a tree (Kocsis and Szepesvari, 2006; for programs 2310.04406).

    The bound assumes independent scores in [0, 1]; corrections of one program are alike.

    Args:
        mean: mean score of the candidates in the node's subtree, the node included, in [0, 1].
        visits: n, candidates in the subtree, > 0; those that are about to be sampled count (1810.11755).
        parent_visits: N, candidates below the node's parent.
        exploration: c, >= 0.
    """
    return mean + exploration * math.sqrt(math.log(parent_visits) / visits)


def uct(tree: Tree, count: int) -> list[int | None]:
    """Return the leaf that is reached from the root by the largest ``uct_value``, for each new candidate in turn; the first of equals.

    A candidate chosen in this round counts in the visits n and N, but not in the mean, so that later choices spread. Without verdicts: new samples.
    """
    if not any(tree.candidates.verdicts):
        return no_parents(tree, count)
    below: dict[int | None, list[int]] = {index: tree.children(index) for index in (None, *range(len(tree.parents)))}
    scores: dict[int | None, list[float]] = {index: [score] for index, score in enumerate(tree.scores)}
    for index, score in enumerate(tree.scores):
        for ancestor in path_of(tree, index)[1:]:
            scores[ancestor].append(score)
    visits = {index: len(found) for index, found in scores.items()} | {None: len(tree.parents)}
    chosen: list[int | None] = []
    for _ in range(count):
        node: int | None = None
        while below[node]:
            node = max(
                below[node],
                key=lambda child, total=visits[node]: uct_value(
                    math.fsum(scores[child]) / len(scores[child]), visits[child], total
                ),
            )
        chosen.append(node)
        for ancestor in (*path_of(tree, node), None):
            visits[ancestor] += 1
    return chosen


def path_of(tree: Tree, index: int | None) -> list[int]:
    """Return the path from a candidate, over the candidates that each one corrects, to a sample of the task."""
    path: list[int] = []
    while index is not None:
        path.append(index)
        index = tree.parents[index]
    return path


PARENTS: Mapping[str, Parents] = {
    "none": Parents(no_parents, "new samples of the task: best of n"),
    "refine": Parents(refine, "the best candidate so far"),
    "scatter": Parents(scatter, "every distinct failed candidate in turn"),
    "uct": Parents(uct, "the leaf with the largest mean score + sqrt(ln N / n)"),
}
"""Built-in ways to choose parents by name."""


def corrections(tree: Tree, way: str | Parents, requests: Sequence[Request]) -> list[tuple[Request, int | None]]:
    """Return requests for the next candidates of a task with their parents; each prompt shows the parent and its verdict on visible tests.

    Args:
        tree: the candidates so far.
        way: the way to choose parents, or its name.
        requests: requests for new samples of the task, with visible tests alone.

    Raises:
        RecordError: a plug-in's way raises an exception, or does not give an index for each request.
    """
    record: Parents = find("parent", way)
    try:
        parents = [*record.choose(tree, len(requests))]
        if len(parents) != len(requests) or not {*parents} <= {None, *range(len(tree.parents))}:
            raise ValueError(f"expected {len(requests)} indices of candidates or None, got {parents}")
    except Exception as error:
        reraise("parent", way, error)
    attempts, verdicts = tree.candidates.attempts, tree.candidates.verdicts
    turns = [() if parent is None else (Turn(attempts[parent], verdicts[parent]),) for parent in parents]
    return [(replace(one, turns=turn), parent) for one, turn, parent in zip(requests, turns, parents, strict=True)]
