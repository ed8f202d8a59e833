"""Groups of an archive, read one at a time from a table of its attempts with their verdicts, sorted by task.

The table is built once for every state of the archive. That of a large archive is a file in the cache folder (Arrow IPC, compressed in
blocks of rows), which is mapped into memory; that of a small one is held in memory, and so are its groups once they have been read.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

import pyarrow as pa

from upsolve.archive.labels import Labels, read_labels
from upsolve.archive.parts import rows_in
from upsolve.archive.preference import preferred
from upsolve.archive.schema import TABLES
from upsolve.archive.sorting import BLOCK_ROWS, SORTED, sorted_blocks
from upsolve.archive.turns import earlier_turns
from upsolve.files import cache_folder, commit_file, write_text
from upsolve.languages.names import asking_for
from upsolve.records import from_row
from upsolve.types import Attempt, Group, Task, Verdict, content_id

__all__ = ["Groups", "Lazy", "MappedBlocks", "open_groups", "pick", "stored_at", "task_ids"]

SMALL_BYTES, SMALL_ROWS = 1 << 24, 50_000
"""Largest size of the parts, and most attempts, of an archive that is held in memory."""
T = TypeVar("T")
S = TypeVar("S")


class Lazy(Sequence[T], Generic[S, T]):
    """A sequence whose items are computed from those of another one whenever they are read."""

    def __init__(self, items: Sequence[S], function: Callable[[S], T]) -> None:
        self.items, self.function = items, function

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return Lazy(self.items[index], self.function)
        return self.function(self.items[index])

    def __iter__(self) -> Iterator[T]:
        return map(self.function, self.items)


def task_ids(groups: Sequence[Group]) -> list[str]:
    """Return the task ids of the groups of an archive, without reading their attempts."""
    return [task.task_id for task in groups.tasks] if isinstance(groups, Groups) else [group.task.task_id for group in groups]


class Picked(Lazy["int | Group", Group]):
    """Some groups of an archive (``pick``)."""

    def __init__(self, groups: Sequence[Group], items: Sequence[int | Group]) -> None:
        super().__init__(items, lambda item: groups[item] if isinstance(item, int) else item)
        self.groups = groups


def pick(groups: Sequence[Group], items: Sequence[int | Group]) -> Sequence[Group]:
    """Return some groups of an archive: a list if ``groups`` is one, else a sequence that reads them when they are accessed.

    Args:
        groups: groups of an archive.
        items: indices into ``groups``, and further groups.
    """
    picked = Picked(groups, items)
    return [*picked] if isinstance(groups, list) else picked


def stored_at(groups: Sequence[Group], index: int) -> "tuple[Groups, int] | None":
    """Return the groups of the archive that a group is read from, and its number there; None for one that is held in memory."""
    while isinstance(groups, Picked):
        item = groups.items[index]
        if not isinstance(item, int):
            return None
        groups, index = groups.groups, item
    return (groups, index) if isinstance(groups, Groups) else None


class Groups(Sequence[Group]):
    """The groups of an archive: every task that has attempts, with its attempts and their verdicts.

    Reading a group takes time and memory in proportion to its attempts, not to the archive.
    """

    def __init__(
        self,
        blocks: Sequence[Any],
        counts: Mapping[int, int],
        tasks: Sequence[Task],
        *,
        judge: str,
        labels: Labels | None,
        turns: int,
    ) -> None:
        """Index the rows of each task.

        Args:
            blocks: record batches of ``BLOCK_ROWS`` rows of ``SORTED``.
            counts: number of a task -> number of its rows, in the order of the rows.
            tasks: tasks by number.
            judge: whose verdicts count (``Archive.groups``).
            labels: probabilities that labels are right; None: the groups have none.
            turns: most earlier attempts that each attempt comes with.
        """
        self.blocks, self.judge, self.labels, self.turns = blocks, judge, labels, turns
        self.tasks = [tasks[number] for number in counts]
        self.starts = [0, *accumulate(counts.values())]
        self.last_block: tuple[int, Any] = (-1, None)
        self.outlines: Any = None

    def __len__(self) -> int:
        return len(self.tasks)

    @overload
    def __getitem__(self, index: int) -> Group: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Group]: ...
    def __getitem__(self, index: int | slice) -> Group | Sequence[Group]:
        if isinstance(index, slice):
            return Lazy(range(len(self))[index], self.group)
        return self.group(range(len(self))[index])

    def __iter__(self) -> Iterator[Group]:
        # a whole block takes a quarter of the time of its parts
        rows = chain.from_iterable(block.to_pylist() for block in self.blocks)
        for index, task in enumerate(self.tasks):
            yield self.built(task, islice(rows, self.starts[index + 1] - self.starts[index]))

    def group(self, index: int) -> Group:
        """Read a group."""
        return self.built(self.tasks[index], self.rows(self.starts[index], self.starts[index + 1]))

    def some(self, index: int, attempts: Sequence[int]) -> Group:
        """Read some attempts of a group, by their places in it, from the blocks that hold them."""
        places = [self.starts[index] + place for place in attempts]
        rows = [self.blocks[place // BLOCK_ROWS].slice(place % BLOCK_ROWS, 1) for place in places]
        return self.built(self.tasks[index], pa.Table.from_batches(rows).to_pylist())

    def built(self, task: Task, rows: Iterable[dict[str, Any]]) -> Group:
        """Return the group of some rows."""
        attempts: list[Attempt] = []
        verdicts: list[Verdict | None] = []
        for row in rows:
            del row["number"]
            judged = [from_row(Verdict, verdict) for verdict in row.pop("verdicts") if verdict]
            attempts.append(from_row(Attempt, row))
            verdicts.append(preferred(judged, task, self.judge))
        rights = tuple(map(self.labels.label_right, verdicts)) if self.labels else ()
        turns = earlier_turns(attempts, verdicts, self.turns) if self.turns else ()
        return Group(task, tuple(attempts), tuple(verdicts), rights, turns)

    def rows(self, start: int, stop: int) -> Iterator[dict[str, Any]]:
        """Yield rows ``start`` to ``stop`` of the table."""
        for number in range(start // BLOCK_ROWS, -(-stop // BLOCK_ROWS)):
            if number != self.last_block[0]:
                self.last_block = (number, self.blocks[number])
            first = number * BLOCK_ROWS
            offset = max(start - first, 0)
            yield from self.last_block[1].slice(offset, stop - first - offset).to_pylist()


def open_groups(
    parts: Mapping[str, Sequence[Path]],
    tasks: Callable[[], Sequence[Task]],
    *,
    judge: str = "",
    labels: bool = False,
    turns: int = 0,
    language: str = "",
) -> Sequence[Group]:
    """Return the groups of an archive: a list if it is small, else ``Groups`` over a file in the cache folder.

    Args:
        parts: name of a table -> its files, oldest first.
        tasks: reads all tasks, in the order of import; called when the table is built, which then does not need memory beside them.
        judge: whose verdicts count (``Archive.groups``).
        labels: estimate the probabilities that labels are right (``Group.label_right``).
        turns: most earlier attempts that each attempt comes with (``Group.turns``).
        language: what tasks of any language ask for (``asking_for``).
    """
    known = read_labels(parts) if labels else None
    files = [file for name in TABLES for file in parts[name]]
    small = sum(file.stat().st_size for file in files) <= SMALL_BYTES and sum(map(rows_in, parts["attempts"])) <= SMALL_ROWS
    if small or not files:
        blocks = [*sorted_blocks(parts)]
        asking = [asking_for(task, language) for task in tasks()]
        return [*Groups(blocks, count_rows(blocks), asking, judge=judge, labels=known, turns=turns)]
    folder = cache_folder() / "groups" / content_id(str(files[0].parents[1].resolve()))
    state = content_id(SORTED, *(f"{file.name}|{file.stat().st_size}|{file.stat().st_mtime_ns}" for file in files))
    if not (folder / f"{state}.json").exists():
        write_blocks(folder, state, sorted_blocks(parts))
    counts = {int(number): count for number, count in json.loads((folder / f"{state}.json").read_text()).items()}
    asking = [asking_for(task, language) for task in tasks()]
    return Groups(MappedBlocks(folder / f"{state}.arrow"), counts, asking, judge=judge, labels=known, turns=turns)


class MappedBlocks(Sequence[Any]):
    """Record batches of an Arrow IPC file, decompressed when they are read."""

    def __init__(self, file: Path) -> None:
        single = pa.ipc.IpcReadOptions(use_threads=False)  # threads take longer than blocks of this size
        self.path, self.file = file, pa.ipc.open_file(pa.memory_map(str(file)), options=single)

    def __len__(self) -> int:
        return self.file.num_record_batches

    def __getitem__(self, index: Any) -> Any:
        return self.file.get_batch(index)


def count_rows(blocks: Iterable[Any]) -> Counter[int]:
    """Return the number of rows of each task, by the task's number."""
    counts = Counter[int]()
    for block in blocks:
        counts.update(block.column("number").to_pylist())
    return counts


def write_blocks(folder: Path, state: str, blocks: Iterator[Any]) -> None:
    """Write the table of a state of an archive, then the counts of its rows; the tables of earlier states are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary, counts = folder / f"{state}.{os.getpid()}.tmp", Counter[int]()
    try:
        first = next(blocks)
        with pa.ipc.new_file(temporary, first.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as file:
            for block in chain([first], blocks):
                file.write(block)
                counts += count_rows([block])
        commit_file(temporary, folder / f"{state}.arrow")
    finally:
        temporary.unlink(missing_ok=True)
    write_text(folder / f"{state}.json", json.dumps(counts))
    for old in folder.iterdir():
        if not old.name.startswith(state):
            old.unlink(missing_ok=True)
