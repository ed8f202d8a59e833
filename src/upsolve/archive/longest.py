"""The longest texts of groups, by which the memory of a run is planned; of a large archive, other programs are not read as records."""

from collections.abc import Sequence
from heapq import nlargest

import numpy as np
import pyarrow.compute as pc

from upsolve.archive.groups import Groups, stored_at
from upsolve.archive.sorting import BLOCK_ROWS
from upsolve.types import Attempt, Group, Task, Turn

__all__ = ["longest_attempts", "longest_prompts"]


def longest_prompts(groups: Sequence[Group], count: int) -> list[tuple[Task, Sequence[Turn]]]:
    """Return the tasks with the longest prompts, each with the earlier turns that are part of its prompt; at most ``count``."""
    chats = (chat for index in range(len(groups)) for chat in chats_of(groups, index))
    return nlargest(count, chats, key=lambda chat: len(chat[0].prompt) + sum(len(turn.attempt.code) for turn in chat[1]))


def chats_of(groups: Sequence[Group], index: int) -> list[tuple[Task, Sequence[Turn]]]:
    """Return the task of a group with each of the turns that come before its attempts, and without turns."""
    found = stored_at(groups, index)
    if found and not found[0].turns:
        return [(found[0].tasks[found[1]], ())]
    return [(groups[index].task, turns) for turns in dict.fromkeys((*groups[index].turns, ()))]


def longest_attempts(groups: Sequence[Group], count: int) -> list[Attempt]:
    """Return the attempts with the longest programs, in characters, at most ``count``."""
    places = [stored_at(groups, index) for index in range(len(groups))]
    held = [groups[index] for index, place in enumerate(places) if place is None]
    numbers = [place[1] for place in places if place]
    stored = next((place[0] for place in places if place), None)  # groups are of one archive
    attempts = [attempt for group in held for attempt in group.attempts]
    return nlargest(
        count, attempts + (longest_stored(stored, numbers, count) if stored else []), key=lambda attempt: len(attempt.code)
    )


def longest_stored(groups: Groups, numbers: Sequence[int], count: int) -> list[Attempt]:
    """Return the attempts with the longest programs of some groups."""
    starts, lengths_N = np.array(groups.starts), np.full(groups.starts[-1], -1)
    for number in range(len(groups.blocks)):
        found = pc.call_function("utf8_length", [groups.blocks[number].column("code")]).to_numpy()
        lengths_N[number * BLOCK_ROWS :][: len(found)] = found
    chosen = np.zeros(len(groups), bool)
    chosen[numbers] = True
    lengths_N[~np.repeat(chosen, np.diff(starts))] = -1
    rows = [int(row) for row in np.argsort(lengths_N)[-count:] if lengths_N[row] >= 0]
    tasks = np.searchsorted(starts, rows, side="right") - 1
    return [groups.some(task, [row - int(starts[task])]).attempts[0] for row, task in zip(rows, tasks.tolist(), strict=True)]
