"""Groups of an archive, read one at a time from a table of its attempts with their verdicts, sorted by task.

The table is built once for every state of the archive. For a large archive it is a file in the cache folder (Arrow IPC, compressed in
blocks of rows), mapped into memory; for a small one it is held in memory, together with the groups.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, islice, pairwise
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

import duckdb
import numpy as np
import pyarrow as pa

from upsolve.archive.database import check_part, connect, read_part, rows_in
from upsolve.archive.labels import Labels, read_labels
from upsolve.archive.preference import RANK, preferred
from upsolve.archive.schema import TABLES
from upsolve.files import cache_folder, is_remote, replaced, write_text
from upsolve.languages.names import asking_for
from upsolve.records import from_row
from upsolve.types import Attempt, Group, Task, Turn, Verdict, content_id

__all__ = [
    "BLOCK_ROWS",
    "Groups",
    "Lazy",
    "MappedBlocks",
    "earlier_turns",
    "is_small",
    "open_groups",
    "pick",
    "stored_at",
    "task_ids",
]

BLOCK_ROWS = 256
"""Attempts that are compressed, and read, together."""
ORDER = pa.schema([("number", pa.int64()), ("task_id", pa.string())])
"""Columns of the order of tasks."""
ATTEMPT = ", ".join(name for name in TABLES["attempts"].names if name != "count")
VERDICT = "{" + ", ".join(f"{name}: verdicts.{name}" for name in TABLES["verdicts"].names) + "}"
SIZES = """
select task_order.number, count(*), sum(strlen(code))::bigint from attempts join task_order using (task_id) group by 1 order by 1
"""
SORTED = f"""
with some_attempts as (
    select attempts.*, task_order.number from attempts join task_order using (task_id)
), some_verdicts as (
    select * from verdicts semi join some_attempts using (attempt_id)
), firsts as (
    select min(place) as place, sum("count")::bigint as "count" from some_attempts group by attempt_id, hash({ATTEMPT})
), chosen as (
    select max_by(place, {RANK}) as place, min(place) as first
    from some_verdicts group by attempt_id, judge
), judged as (
    select verdicts.attempt_id, chosen.first, {VERDICT} as verdict from some_verdicts as verdicts join chosen using (place)
)
select "number", {ATTEMPT}, firsts."count", some_attempts.place, verdict
from some_attempts join firsts using (place) left join judged using (attempt_id)
order by "number", some_attempts.place, judged.first
"""  # noqa: S608  names of ours
"""The attempts at some tasks in the order of the tasks, one row per verdict, or a single one without. Attempts equal in every field are merged,
and their counts added; each has one verdict per judge: the last scored one, or the last if none is scored. Only numbers are aggregated, because
DuckDB keeps lists and structs in memory while it aggregates them."""
SOME_ROWS, SOME_CHARACTERS = 500_000, 1 << 28
"""Most attempts, and characters of code, that one query sorts, unless a single task has more."""


def sorted_blocks(parts: Mapping[str, Sequence[Path]], *, small: bool) -> Iterator[Any]:
    """Yield the record batches of the attempts with the list of their verdicts, at least one; all but the last have ``BLOCK_ROWS`` rows.

    ``small``: the archive can be held in memory (``is_small``).
    """
    for part in chain(parts["attempts"], parts["verdicts"]):
        if not is_remote(part):
            check_part(part)
    with connect({name: parts[name] for name in ("attempts", "verdicts")}, places=True, shared=small) as connection:
        if not small:
            connection.execute("set preserve_insertion_order = false")  # needs less memory
        rest: Any = None
        for batch in chain.from_iterable(sorted_rows(connection, chosen) for chosen in shares_of(connection, parts["tasks"])):
            table = pa.Table.from_batches([batch] if rest is None else [rest, batch])
            *full, rest = table.combine_chunks().to_batches(BLOCK_ROWS) or [batch]
            yield from full
        yield rest


def shares_of(connection: "duckdb.DuckDBPyConnection", parts: Sequence[Path]) -> list[Any]:
    """Return the order of the tasks of some parts, in tables of consecutive tasks; each of these tables is sorted at once."""
    ids = pa.chunked_array([chunk for part in parts for chunk in read_part(part, ["task_id"])["task_id"].chunks], pa.string())
    names = ids.unique()
    order = pa.table([pa.array(range(len(names))), names], schema=ORDER)
    connection.register("task_order", order)
    starts, rows, size = [0], 0, 0
    for number, attempts, characters in connection.sql(SIZES).fetchall():
        if rows and (rows + attempts > SOME_ROWS or size + characters > SOME_CHARACTERS):
            starts.append(number)
            rows, size = 0, 0
        rows, size = rows + attempts, size + characters
    return [order.slice(start, stop - start) for start, stop in pairwise([*starts, len(names)])]


def sorted_rows(connection: "duckdb.DuckDBPyConnection", order: Any) -> Iterator[Any]:
    """Yield record batches of the attempts at some tasks, each with the list of its verdicts."""
    connection.register("task_order", order)
    reader = connection.sql(SORTED).to_arrow_reader(8 * BLOCK_ROWS)
    rest = pa.RecordBatch.from_pylist([], schema=reader.schema)
    for batch in reader:
        table = pa.Table.from_batches([rest, batch]).combine_chunks()
        starts = starts_of(table)
        if len(starts) > 1:
            yield with_lists(table.slice(0, starts[-1]), starts[:-1])
        rest = table.slice(starts[-1]).to_batches()[0]
    yield with_lists(pa.Table.from_batches([rest]), starts_of(rest))


def starts_of(rows: Any) -> list[int]:
    """Return the first row of each attempt; the rows of an attempt are consecutive."""
    places = rows.column("place").to_numpy()
    return [0, *(np.flatnonzero(places[1:] != places[:-1]) + 1).tolist()] if len(places) else []


def with_lists(table: Any, starts: Sequence[int]) -> Any:
    """Return a record batch with a row for each attempt and the list of its verdicts; the list is [null] without a verdict."""
    offsets = pa.array([*starts, table.num_rows], pa.int32())
    structs = table.column("verdict").combine_chunks()
    lists = pa.ListArray.from_arrays(offsets, structs.chunk(0) if isinstance(structs, pa.ChunkedArray) else structs)
    attempts = table.drop_columns(["place", "verdict"]).take(pa.array(starts, pa.int64())).append_column("verdicts", lists)
    return attempts.combine_chunks().to_batches()[0] if starts else pa.RecordBatch.from_pylist([], schema=attempts.schema)


SMALL_BYTES, SMALL_ROWS = 1 << 24, 50_000
"""Largest size of the parts, and most attempts, of an archive that is held in memory."""
T = TypeVar("T")
S = TypeVar("S")


class Lazy(Sequence[T], Generic[S, T]):
    """A sequence whose items are computed from the items of another sequence whenever they are read."""

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
    """Return the task ids of the groups of an archive; reads no attempts."""
    return [task.task_id for task in groups.tasks] if isinstance(groups, Groups) else [group.task.task_id for group in groups]


class Picked(Lazy["int | Group", Group]):
    """Some groups of an archive (``pick``)."""

    def __init__(self, groups: Sequence[Group], items: Sequence[int | Group]) -> None:
        super().__init__(items, lambda item: groups[item] if isinstance(item, int) else item)
        self.groups = groups


def pick(groups: Sequence[Group], items: Sequence[int | Group]) -> Sequence[Group]:
    """Return some groups: a list if ``groups`` is a list, else a sequence that reads each group on access.

    Args:
        groups: groups of an archive.
        items: indices into ``groups``, and further groups.
    """
    picked = Picked(groups, items)
    return [*picked] if isinstance(groups, list) else picked


def stored_at(groups: Sequence[Group], index: int) -> "tuple[Groups, int] | None":
    """Return the stored groups that hold a group, and its index among them; None if the group is held in memory."""
    while isinstance(groups, Picked):
        item = groups.items[index]
        if not isinstance(item, int):
            return None
        groups, index = groups.groups, item
    return (groups, index) if isinstance(groups, Groups) else None


class Groups(Lazy[int, Group]):
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
        super().__init__(range(len(self.tasks)), self.group)
        self.starts = [0, *accumulate(counts.values())]
        self.last_block: tuple[int, Any] = (-1, None)
        self.outlines: Any = None

    def __iter__(self) -> Iterator[Group]:
        # a whole block takes a quarter of the time of its parts
        rows = chain.from_iterable(block.to_pylist() for block in self.blocks)
        for index, task in enumerate(self.tasks):
            yield self.built(task, islice(rows, self.starts[index + 1] - self.starts[index]))

    def group(self, index: int) -> Group:
        """Read a group."""
        return self.built(self.tasks[index], self.rows(self.starts[index], self.starts[index + 1]))

    def some(self, index: int, attempts: Sequence[int]) -> Group:
        """Read some attempts of a group by their places in it, from the blocks that hold these attempts."""
        places = [self.starts[index] + place for place in attempts]
        rows = [self.blocks[place // BLOCK_ROWS].slice(place % BLOCK_ROWS, 1) for place in places]
        return self.built(self.tasks[index], pa.Table.from_batches(rows).to_pylist())

    def built(self, task: Task, rows: Iterable[dict[str, Any]]) -> Group:
        """Return the group that some rows of the table hold."""
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
        language: language that tasks of any language get (``asking_for``).
    """
    files = [file for name in TABLES for file in parts[name]]
    small = not files or is_small(parts)
    known = read_labels(parts, small=small) if labels else None
    if small:
        blocks = [*sorted_blocks(parts, small=True)]
        counts: Mapping[int, int] = count_rows(blocks)
    else:
        folder = cache_folder() / "groups" / content_id(str(files[0].parents[1].resolve()))
        state = content_id(SORTED, *(f"{file.name}|{file.stat().st_size}|{file.stat().st_mtime_ns}" for file in files))
        if not (folder / f"{state}.json").exists():
            write_blocks(folder, state, sorted_blocks(parts, small=False))
        counts = {int(number): count for number, count in json.loads((folder / f"{state}.json").read_text()).items()}
        blocks = MappedBlocks(folder / f"{state}.arrow")
    groups = Groups(blocks, counts, [asking_for(task, language) for task in tasks()], judge=judge, labels=known, turns=turns)
    return [*groups] if small else groups


def is_small(parts: Mapping[str, Sequence[Path]]) -> bool:
    """Return whether the records of an archive can be held in memory."""
    size = sum(file.stat().st_size for name in TABLES for file in parts[name])
    return size <= SMALL_BYTES and sum(map(rows_in, parts["attempts"])) <= SMALL_ROWS


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
    first, counts = next(blocks), Counter[int]()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with replaced(folder / f"{state}.arrow") as temporary, pa.ipc.new_file(temporary, first.schema, options=options) as file:
        for block in chain([first], blocks):
            file.write(block)
            counts += count_rows([block])
    write_text(folder / f"{state}.json", json.dumps(counts))
    for old in folder.iterdir():
        if not old.name.startswith(state):
            old.unlink(missing_ok=True)


def earlier_turns(attempts: Sequence[Attempt], verdicts: Sequence[Verdict | None], most: int) -> tuple[tuple[Turn, ...], ...]:
    """Return the last ``most`` ancestors of each attempt at a task, oldest first, with their verdicts.

    Ancestors are found by ``parent_id`` among the given attempts; the chain ends at a missing parent or at a cycle. () if no attempt has a
    parent here.
    """
    turns_of = {a.attempt_id: Turn(a, v) for a, v in zip(reversed(attempts), reversed(verdicts), strict=True)}
    found = tuple(ancestors(attempt, turns_of, most) for attempt in attempts)
    return found if any(found) else ()


def ancestors(attempt: Attempt, turns_of: dict[str, Turn], most: int) -> tuple[Turn, ...]:
    """Return the last ``most`` ancestors of an attempt, oldest first."""
    turns: list[Turn] = []
    seen = {attempt.attempt_id}
    parent = attempt.parent_id
    while len(turns) < most and parent not in seen and (turn := turns_of.get(parent)):
        seen.add(parent)
        turns.append(turn)
        parent = turn.attempt.parent_id
    return tuple(reversed(turns))
