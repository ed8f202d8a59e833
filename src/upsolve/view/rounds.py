"""The groups of an online run as they were trained on: the samples of one round at one task."""

from collections.abc import Sequence
from dataclasses import replace

from upsolve.archive.database import connect
from upsolve.archive.store import Archive
from upsolve.types import Group, Task
from upsolve.view.index import Index

__all__ = ["groups_of_rounds"]


def groups_of_rounds(index: Index, archive: Archive, group: Group, places: Sequence[int]) -> list[tuple[int, Group, list[int]]]:
    """Return for each round that sampled a task: its number, its group, and the places of the group's attempts in the index.

    Equal samples are several attempts of a group here, as in training; in the index they are one.

    Args:
        index: the index of the run's rollouts.
        archive: the run's rollouts, with the round as the tag of each part.
        group: all attempts at the task.
        places: their places.
    """
    place_of = {replace(attempt, count=1): place for attempt, place in zip(group.attempts, places, strict=True)}
    found: list[tuple[int, Group, list[int]]] = []
    for tag in tags_of(index, group.task):
        verdicts = archive.tagged("verdicts", tag)
        pairs = [
            (attempt, verdict)
            for attempt, verdict in zip(archive.tagged("attempts", tag), verdicts, strict=False)
            if attempt.task_id == group.task.task_id
        ]
        if pairs and all(replace(attempt, count=1) in place_of for attempt, _ in pairs):
            attempts = tuple(attempt for attempt, _ in pairs)
            own = Group(group.task, attempts, tuple(verdict for _, verdict in pairs))
            found.append((int(tag, 16), own, [place_of[replace(attempt, count=1)] for attempt in attempts]))
    return found


def tags_of(index: Index, task: Task) -> list[str]:
    """Return the tags of the parts that hold attempts at a task, in order."""
    with connect({"attempts": index.parts["attempts"]}, places=True) as connection:
        sql = "select distinct place >> 32 as number from attempts where task_id = ? order by number"
        numbers = connection.execute(sql, [task.task_id]).fetchall()
    return list(dict.fromkeys(index.parts["attempts"][number].stem.rpartition("-")[2] for (number,) in numbers))
