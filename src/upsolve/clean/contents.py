"""Contents of an archive for checks: views of DuckDB over its parts, from which earlier checks have removed records."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from upsolve.archive.database import connect, register_parts
from upsolve.archive.preference import OUTCOMES
from upsolve.archive.schema import TABLES
from upsolve.archive.store import Archive
from upsolve.types import Task

__all__ = ["Contents", "open_contents"]

BATCH = 2048
"""Rows that are read together."""
LABELS = f"""
create table labels as select attempt_id, status = 'passed' as passed from ({OUTCOMES}) where status <> 'unscored'
"""  # noqa: S608  a query of ours


class Contents:
    """The records of an archive that no earlier check has removed.

    The views ``tasks``, ``attempts`` and ``verdicts`` have the columns of the archive and ``place``, which numbers the rows in the order in
    which they were written. ``labels`` has ``attempt_id`` and ``passed`` of every attempt whose preferred verdict is scored.
    """

    def __init__(self, archive: Archive, connection: "duckdb.DuckDBPyConnection") -> None:
        self.archive, self.connection = archive, connection
        for name in TABLES:
            add_views(connection, name, archive.parts(name))
        connection.execute(LABELS)

    def rows(self, sql: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query. The rows of one query must be read before the next query starts."""
        for batch in self.connection.sql(sql).to_arrow_reader(BATCH):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def count(self, table: str) -> int:
        """Return the number of rows of a view."""
        return int(next(self.rows(f"select count(*) from {table}"))[0])  # noqa: S608  names of ours

    @cached_property
    def stored_tasks(self) -> dict[str, Task]:
        """All tasks of the archive by id, those that an earlier check has removed included."""
        return {task.task_id: task for task in self.archive.tasks()}

    def tasks(self) -> Iterator[tuple[int, Task]]:
        """Yield the place and the record of each task; of rows with one task id, the first."""
        places = self.rows("select min(place), task_id from tasks group by task_id order by 1")
        return ((place, self.stored_tasks[task_id]) for place, task_id in [*places])

    def remove(self, table: str, places: Iterable[int]) -> None:
        """Hide rows from later checks; a task with its attempts."""
        self.connection.register("hidden", pa.table({"place": pa.array([*places], pa.int64())}))
        self.connection.execute(f"insert into removed_{table} select place from hidden")  # noqa: S608  names of ours


def add_views(connection: "duckdb.DuckDBPyConnection", name: str, parts: Sequence[Path]) -> None:
    """Create ``all_NAME``, a view of a table with the places of its rows, and NAME, without the removed rows."""
    register_parts(connection, f"all_{name}", parts, table=name, places=True)
    connection.execute(f"create table removed_{name} (place bigint)")
    kept = f"select * from all_{name} where place not in (select place from removed_{name})"  # noqa: S608
    if name != "verdicts":
        kept += " and task_id not in (select task_id from all_tasks join removed_tasks using (place))"
    connection.execute(f"create view {name} as {kept}")


@contextmanager
def open_contents(archive: Archive) -> Generator[Contents]:
    """Open the contents of an archive.

    Raises:
        ArchiveError: a part is damaged, or a check's query is invalid.
    """
    with connect({}) as connection:
        yield Contents(archive, connection)
