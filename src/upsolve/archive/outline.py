"""Outlines of large tasks (outcome, count, author and language of each attempt), and the longest texts of groups.

Groups are drawn from outlines before any program is read. The outline of an archive is a file in the cache folder, beside its table of
groups: 13 bytes an attempt, mapped into memory. The memory of a run is planned by the longest texts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import nlargest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from upsolve import __version__
from upsolve.archive.groups import BLOCK_ROWS, Groups, MappedBlocks, stored_at
from upsolve.archive.preference import preferred
from upsolve.config import DataConfig
from upsolve.files import replaced
from upsolve.languages.names import same_language
from upsolve.types import Attempt, Group, Status, Task, Turn, Verdict, content_id

__all__ = ["LARGE", "Outline", "longest_attempts", "longest_prompts", "outline_of"]

LARGE = 256
"""Attempts above which a task has an outline."""
IN_PROCESS = "in_process"
"""Label of a verdict that the attempt's own process could have forged: such an attempt counts as unscored."""
FACTS = ("status", "judge", "total", "isolation")


@dataclass(frozen=True, slots=True)
class Outline:
    """The N attempts at a task, without their texts."""

    groups: Groups
    """The archive's groups."""
    index: int
    """Index of the task among the groups."""
    passed_N: NDArray[np.bool_]
    """Whether the preferred verdict is ``passed``."""
    scored_N: NDArray[np.bool_]
    """Whether the preferred verdict is scored."""
    counts_N: NDArray[np.int32]
    """Occurrences of each attempt."""
    authors: Any
    """Authors, a dictionary array of Arrow [N]."""
    languages: Any
    """Languages, a dictionary array of Arrow [N]."""

    def usable(self, data: DataConfig) -> NDArray[np.bool_]:
        """Return whether each attempt is by an author in ``data.authors`` (empty: any) and in the task's language."""
        task_language = self.groups.tasks[self.index].language
        usable_N = chosen_in(self.languages, lambda name: same_language(name, task_language))
        return usable_N & chosen_in(self.authors, data.authors.__contains__) if data.authors else usable_N

    def read(self, attempts: Sequence[int]) -> Group:
        """Read some of the attempts."""
        return self.groups.some(self.index, attempts)


def chosen_in(names: Any, fits: Callable[[str], bool]) -> NDArray[np.bool_]:
    """Return for each name of a dictionary array whether it is among the chosen names."""
    return np.array([fits(name) for name in names.dictionary.to_pylist()], bool)[names.indices.to_numpy()]


def outline_of(groups: Sequence[Group], index: int) -> Outline | None:
    """Return the outline of a task of an archive; None if the task has few attempts or the archive is held in memory."""
    found = stored_at(groups, index)
    if found is None:
        return None
    stored, number = found
    start, stop = stored.starts[number], stored.starts[number + 1]
    if stop - start <= LARGE or stored.labels is not None or stored.turns or not isinstance(stored.blocks, MappedBlocks):
        return None
    table = opened(stored, stored.blocks.path).slice(start, stop - start)
    outcome_N = table.column("outcome").to_numpy()
    counts_N, authors, languages = (table.column(name) for name in ("count", "author", "language"))
    return Outline(stored, number, outcome_N == 2, outcome_N > 0, counts_N.to_numpy(), authors, languages)


def opened(groups: Groups, path: Path) -> Any:
    """Return the outlines of all tasks; computed once for each state of the archive, judge, and version of the rules of preference."""
    if groups.outlines is None:
        file = path.with_name(f"{path.stem}.{content_id(groups.judge, str(LARGE), __version__, 'language')[:8]}.outline")
        if not file.exists():
            write(groups, file)
        groups.outlines = pa.ipc.open_file(pa.memory_map(str(file))).get_batch(0)
    return groups.outlines


def write(groups: Groups, file: Path) -> None:
    """Write the outlines of all tasks. Small tasks get no outcomes, because their outlines are not read."""
    sizes = np.diff(groups.starts)
    tasks = np.repeat(np.arange(len(sizes)), sizes)
    outcomes = np.zeros(len(tasks), np.uint8)
    counts: list[Any] = []
    names: dict[str, list[Any]] = {"author": [], "language": []}
    for number in range(len(groups.blocks)):
        block, first = groups.blocks[number], number * BLOCK_ROWS
        counts.append(block.column("count").cast(pa.int32()))
        for column, parts in names.items():
            parts.append(block.column(column).dictionary_encode())
        of_rows = tasks[first : first + block.num_rows]
        if (sizes[of_rows] > LARGE).any():
            chosen = [groups.tasks[task] for task in of_rows]
            outcomes[first : first + block.num_rows] = outcomes_of(block, chosen, groups.judge)
    columns = {"outcome": pa.array(outcomes), "count": pa.chunked_array(counts).combine_chunks()}
    columns |= {column: pa.chunked_array(parts).unify_dictionaries().combine_chunks() for column, parts in names.items()}
    (batch,) = pa.table(columns).to_batches()
    with replaced(file) as temporary, pa.ipc.new_file(temporary, batch.schema) as out:
        out.write(batch)


def outcomes_of(block: Any, tasks: Sequence[Task], judge: str) -> list[int]:
    """Return the outcome of each attempt of a block by its preferred verdict: 0 unscored, 1 failed, 2 passed."""
    lists = block.column("verdicts")
    facts = zip(*(lists.values.field(name).to_pylist() for name in FACTS), strict=True)
    verdicts = [
        Verdict("", Status(status), total=total or 0, judge=name, isolation=isolation or "") if status else None
        for status, name, total, isolation in facts
    ]
    ends = lists.offsets.to_pylist()
    found: list[int] = []
    for task, start, stop in zip(tasks, ends, ends[1:], strict=False):
        verdict = preferred([verdict for verdict in verdicts[start:stop] if verdict], task, judge)
        usable = verdict and verdict.status is not Status.UNSCORED and IN_PROCESS not in verdict.isolation.split(",")
        found.append(1 + (verdict.status is Status.PASSED) if verdict and usable else 0)
    return found


def longest_prompts(groups: Sequence[Group], count: int) -> list[tuple[Task, Sequence[Turn]]]:
    """Return at most ``count`` tasks with the longest prompts, each with the earlier turns in its prompt."""
    chats: list[tuple[Task, Sequence[Turn]]] = []
    for index in range(len(groups)):
        found = stored_at(groups, index)
        if found and not found[0].turns:
            chats.append((found[0].tasks[found[1]], ()))
        else:
            group = groups[index]
            chats += [(group.task, turns) for turns in dict.fromkeys((*group.turns, ()))]
    return nlargest(count, chats, key=lambda chat: len(chat[0].prompt) + sum(len(turn.attempt.code) for turn in chat[1]))


def longest_attempts(groups: Sequence[Group], count: int) -> list[Attempt]:
    """Return at most ``count`` attempts with the longest programs, in characters."""
    places = [stored_at(groups, index) for index in range(len(groups))]
    held = [groups[index] for index, place in enumerate(places) if place is None]
    numbers = [place[1] for place in places if place]
    stored = next((place[0] for place in places if place), None)  # groups are of one archive
    attempts = [attempt for group in held for attempt in group.attempts]
    attempts += longest_stored(stored, numbers, count) if stored else []
    return nlargest(count, attempts, key=lambda attempt: len(attempt.code))


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
