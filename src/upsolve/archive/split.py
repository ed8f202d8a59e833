"""Split by task, never by attempt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from upsolve.archive.store import Archive
from upsolve.config import DataConfig
from upsolve.errors import ConfigError
from upsolve.types import Group, Task, content_id

__all__ = ["Leak", "Split", "find_leaks", "split_archive", "split_tasks"]


@dataclass(frozen=True, slots=True)
class Split:
    """An archive split by task."""

    tasks: dict[str, list[Task]]
    """Tasks of ``train``, ``dev`` and ``test``."""
    groups: dict[str, list[Group]]
    """The same tasks, each with all of its attempts; tasks without attempts are missing unless asked for."""


@dataclass(frozen=True, slots=True)
class Leak:
    """Two tasks of different splits that are too alike."""

    left: str
    """Task id."""
    right: str
    """Task id."""
    reason: str
    """What is alike."""


def split_tasks(tasks: Sequence[Task], fractions: Mapping[str, float], *, seed: int) -> dict[str, list[Task]]:
    """Split tasks within each difficulty by the order of a hash of seed and task id.

    The same tasks always give the same split; a task that is added can move others of its difficulty across a border.

    Args:
        tasks: what to split.
        fractions: share of each split; they sum to one.
        seed: another seed, another split.

    Raises:
        ValueError: the fractions do not sum to one.
    """
    if abs(sum(fractions.values()) - 1) > 1e-9:
        raise ValueError(f"fractions must sum to one: {dict(fractions)}")
    chosen: dict[str, str] = {}
    for difficulty in sorted({task.difficulty for task in tasks}):
        names = [task.task_id for task in tasks if task.difficulty == difficulty]
        names.sort(key=lambda name: content_id(str(seed), name))
        start = 0.0
        for split, fraction in fractions.items():
            low, high = round(start * len(names)), round((start + fraction) * len(names))
            chosen |= dict.fromkeys(names[low:high], split)
            start += fraction
    return {split: [task for task in tasks if chosen[task.task_id] == split] for split in fractions}


def shingles(text: str, size: int = 3) -> set[tuple[str, ...]]:
    """Return the runs of three words in a text."""
    words = text.lower().split()
    return {tuple(words[i : i + size]) for i in range(max(1, len(words) - size + 1))}


def find_leaks(left: Sequence[Task], right: Sequence[Task], *, threshold: float = 0.8) -> list[Leak]:
    """Return the pairs across two splits with one reference, or prompts whose three-word runs overlap too much.

    Overlap is Jaccard's: |A and B| / |A or B| >= threshold. Costs |left| x |right|.
    """
    leaks: list[Leak] = []
    others = [(task, shingles(task.prompt)) for task in right]
    for task in left:
        mine = shingles(task.prompt)
        for other, theirs in others:
            if task.reference and task.reference == other.reference:
                leaks.append(Leak(task.task_id, other.task_id, "same reference"))
            elif len(mine & theirs) >= threshold * len(mine | theirs):
                leaks.append(Leak(task.task_id, other.task_id, "nearly the same prompt"))
    return leaks


def split_archive(archive: Archive, data: DataConfig, *, untried: bool = False) -> Split:
    """Split an archive into training, dev and test tasks, with their groups.

    Args:
        archive: the archive to split.
        data: shares and seed of the split.
        untried: add training tasks without attempts as empty groups; online training samples them.

    Raises:
        ConfigError: ``data.train`` and ``data.dev`` leave no task for the test split.
    """
    shares = {"train": data.train, "dev": data.dev, "test": 1 - data.train - data.dev}
    if shares["test"] <= 0:
        raise ConfigError("data.train + data.dev must be below 1: the rest is the test split")
    tasks = split_tasks(archive.tasks(), shares, seed=data.split_seed)
    split_of = {task.task_id: split for split, members in tasks.items() for task in members}
    groups: dict[str, list[Group]] = {split: [] for split in shares}
    for group in archive.groups():
        groups[split_of[group.task.task_id]].append(group)
    if untried:
        tried = {group.task.task_id for group in groups["train"]}
        groups["train"] += [Group(task, (), ()) for task in tasks["train"] if task.task_id not in tried]
    return Split(tasks, groups)
