"""Attempts with their verdicts, sorted by task: the rows of the table that groups are read from (``archive.groups``)."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from upsolve.archive.database import connect
from upsolve.archive.parts import check_part, read_part
from upsolve.archive.preference import RANK
from upsolve.archive.schema import TABLES
from upsolve.files import is_remote

__all__ = ["BLOCK_ROWS", "SORTED", "sorted_blocks"]

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


def sorted_blocks(parts: Mapping[str, Sequence[Path]]) -> Iterator[Any]:
    """Yield the record batches of the attempts with the list of their verdicts, at least one; all but the last have ``BLOCK_ROWS`` rows."""
    for part in chain(parts["attempts"], parts["verdicts"]):
        if not is_remote(part):
            check_part(part)
    with connect({name: parts[name] for name in ("attempts", "verdicts")}, places=True) as connection:
        connection.execute("set preserve_insertion_order = false")  # needs less memory
        rest: Any = None
        for batch in chain.from_iterable(sorted_rows(connection, chosen) for chosen in shares_of(connection, parts["tasks"])):
            table = pa.Table.from_batches([batch] if rest is None else [rest, batch])
            *full, rest = table.combine_chunks().to_batches(BLOCK_ROWS) or [batch]
            yield from full
        yield rest


def shares_of(connection: "duckdb.DuckDBPyConnection", parts: Sequence[Path]) -> list[Any]:
    """Return the order of the tasks of some parts in tables of consecutive tasks that are sorted together."""
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
    """Return the first row of each attempt; the rows of an attempt follow one another."""
    places = rows.column("place").to_numpy()
    return [0, *(np.flatnonzero(places[1:] != places[:-1]) + 1).tolist()] if len(places) else []


def with_lists(table: Any, starts: Sequence[int]) -> Any:
    """Return a record batch with a row for each attempt and the list of its verdicts; that of an attempt without has a null."""
    offsets = pa.array([*starts, table.num_rows], pa.int32())
    structs = table.column("verdict").combine_chunks()
    lists = pa.ListArray.from_arrays(offsets, structs.chunk(0) if isinstance(structs, pa.ChunkedArray) else structs)
    attempts = table.drop_columns(["place", "verdict"]).take(pa.array(starts, pa.int64())).append_column("verdicts", lists)
    return attempts.combine_chunks().to_batches()[0] if starts else pa.RecordBatch.from_pylist([], schema=attempts.schema)
