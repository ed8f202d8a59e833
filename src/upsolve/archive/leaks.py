"""Tasks of different splits that are too similar: the evaluation would partly measure memorisation."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from upsolve.types import Task, TestKind

__all__ = ["Leak", "features_of", "find_leaks", "report_leaks", "shingles"]

MOST_PAIRS = 1_000_000
"""Most pairs of tasks whose prompts are compared by word trigrams."""
Run = tuple[str, ...]
"""Three consecutive words (a word trigram)."""


@dataclass(frozen=True, slots=True)
class Leak:
    """Two tasks of different splits that are too similar."""

    left: str
    """Task id."""
    right: str
    """Task id."""
    reason: str
    """What the two tasks share."""


def shingles(text: str, size: int = 3) -> set[Run]:
    """Return the word trigrams of a text."""
    words = text.lower().split()
    return {tuple(words[i : i + size]) for i in range(max(1, len(words) - size + 1))}


def find_leaks(left: Sequence[Task], right: Sequence[Task], *, threshold: float = 0.8) -> list[Leak]:
    """Return the pairs across two splits with the same reference, white space aside, or with prompts whose word trigrams overlap too much.

    Overlap is Jaccard's: |A and B| / |A or B| >= threshold. Prompts of simulations are not compared, because they share
    the description of their domain. Above ``MOST_PAIRS`` pairs only equal prompts are found.
    """
    few = len(left) * len(right) <= MOST_PAIRS
    leaks: list[Leak] = []
    others = [(task, features_of(task, few=few)) for task in right]
    by_reference, by_prompt = dict[str, list[Task]](), dict[frozenset[Run], list[Task]]()
    for task, words in others:
        by_reference.setdefault(" ".join(task.reference.split()), []).append(task)
        by_prompt.setdefault(words, []).append(task)
    holders: dict[Run, list[int]] = {}
    for index, (_, words) in enumerate(others):
        for run in words:
            holders.setdefault(run, []).append(index)
    for task in left:
        runs = features_of(task, few=few)
        equal = by_reference.get(" ".join(task.reference.split()), []) if task.reference.strip() else []
        found = {other.task_id: "same reference" for other in equal}
        if not few:
            alike, reason = by_prompt.get(runs, []) if runs else [], "the same prompt"
        else:
            most_missing = int((1 - threshold) * len(runs) + 1e-9)  # similar prompts share one of the k + 1 rarest runs
            rarest = sorted(runs, key=lambda run: len(holders.get(run, ())))[: most_missing + 1]
            close = [others[index] for index in sorted({index for run in rarest for index in holders.get(run, ())})]
            alike = [other for other, words in close if len(runs & words) >= threshold * len(runs | words)]
            reason = "nearly the same prompt"
        leaks += [Leak(task.task_id, name, why) for name, why in ({other.task_id: reason for other in alike} | found).items()]
    return leaks


def features_of(task: Task, *, few: bool) -> frozenset[Run]:
    """Return the features by which a prompt is compared: its word trigrams, or all of its words if there are fewer than three."""
    if any(test.kind is TestKind.SIMULATION for test in task.tests):
        return frozenset()
    return frozenset(shingles(task.prompt) if few else {tuple(task.prompt.lower().split())})


def report_leaks(tasks: Mapping[str, Sequence[Task]]) -> None:
    """Warn if training or dev tasks are nearly identical to test tasks: the evaluation then partly measures memorisation."""
    leaks = find_leaks([*tasks["train"], *tasks["dev"]], tasks["test"])
    if leaks:
        shown = ", ".join(f"{leak.left} and {leak.right} ({leak.reason})" for leak in leaks[:3])
        warnings.warn(f"{len(leaks)} pairs of a training and a test task are too alike: {shown}", stacklevel=3)
