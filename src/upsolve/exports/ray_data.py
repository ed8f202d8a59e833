"""Groups of an archive as a data set of Ray Data, read by the nodes of a cluster."""

from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

import pyarrow as pa

from upsolve.archive.schema import to_table
from upsolve.archive.store import Archive, open_archive
from upsolve.types import Group
from upsolve.verify.pool.rpc import ray

__all__ = ["ray_groups"]

BLOCK = 16
"""Tasks that are read together."""


def ray_groups(archive: Archive, *, judge: str = "") -> Any:
    """Return a ``ray.data.Dataset`` with a row for each task that has attempts, read lazily in blocks of 16 tasks by the nodes of a cluster.

    A row has the columns of a task, and two lists of equal length: ``attempts``, and ``verdicts`` with the preferred verdict of each
    attempt or null, both with the columns of their tables (``schema.TABLES``). Every node opens the archive by the same path or URL.
    ``judge`` is as for ``Archive.groups``. Raises JudgeError if Ray is not installed.
    """
    ray()
    data: Any = import_module("ray.data")
    tasks, place = len(archive.groups(judge=judge)), str(archive.path)
    starts = data.range(-(-tasks // BLOCK), override_num_blocks=max(1, -(-tasks // BLOCK)))
    return starts.map_batches(read_block, batch_format="pyarrow", fn_kwargs={"place": place, "judge": judge}, batch_size=1)


def read_block(starts: Any, *, place: str, judge: str) -> Any:
    """Return the rows of the tasks of a block."""
    groups = opened(place, judge)
    return rows_of([group for block in starts["id"].to_pylist() for group in groups[block * BLOCK : (block + 1) * BLOCK]])


@lru_cache(maxsize=1)
def opened(place: str, judge: str) -> Sequence[Group]:
    """Return the groups of an archive; cached in each process."""
    return open_archive(place).groups(judge=judge)


def rows_of(groups: Sequence[Group]) -> Any:
    """Return groups as a table with one row each."""
    attempts = [attempt for group in groups for attempt in group.attempts]
    verdicts = [verdict for group in groups for verdict in group.verdicts]
    judged = [verdict for verdict in verdicts if verdict is not None]
    numbers = iter(range(len(judged)))
    places = pa.array([None if verdict is None else next(numbers) for verdict in verdicts], pa.int64())
    sizes = [0]
    for group in groups:
        sizes.append(sizes[-1] + len(group.attempts))
    columns = {
        "attempts": structs(to_table("attempts", attempts)),
        "verdicts": structs(to_table("verdicts", judged)).take(places),
    }
    table = to_table("tasks", [group.task for group in groups])
    for name, values in columns.items():
        table = table.append_column(name, pa.ListArray.from_arrays(pa.array(sizes, pa.int32()), values))
    return table


def structs(table: Any) -> Any:
    """Return the rows of a table as one array of structs."""
    arrays = [column.combine_chunks() for column in table.columns]
    return pa.StructArray.from_arrays(arrays, fields=list(table.schema))
