"""Checks of an archive as records (``docs/extending.md``), and the views of the archive that a check reads."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

import duckdb
import pyarrow as pa

from upsolve.archive.database import connect, register_parts
from upsolve.archive.preference import OUTCOMES
from upsolve.archive.schema import TABLES
from upsolve.archive.store import Archive
from upsolve.files import is_remote
from upsolve.types import OnProgress, Task, no_progress

__all__ = ["Action", "Check", "Contents", "Fault", "mask", "open_contents"]

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

    def __init__(self, archive: Archive, connection: "duckdb.DuckDBPyConnection", progress: OnProgress = no_progress) -> None:
        self.archive, self.connection, self.progress = archive, connection, progress
        for name in TABLES:  # ``all_NAME`` has the places of the rows, NAME is without the removed ones
            register_parts(connection, f"all_{name}", archive.parts(name), table=name, places=True)
            connection.execute(f"create table removed_{name} (place bigint); create view {name} as from all_{name}")
        connection.execute(LABELS)
        self.counts: dict[str, int] = {}

    def rows(self, sql: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query. The rows of one query must be read before the next query starts."""
        for batch in self.connection.sql(sql).to_arrow_reader(BATCH):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def count(self, table: str) -> int:
        """Return the number of rows of a view; cached until rows are removed."""
        if table not in self.counts:
            self.counts[table] = int(next(self.rows(f"select count(*) from {table}"))[0])  # noqa: S608  names of ours
        return self.counts[table]

    @cached_property
    def stored_tasks(self) -> dict[str, Task]:
        """All tasks of the archive by id, including tasks that an earlier check has removed."""
        return {task.task_id: task for task in self.archive.tasks()}

    def tasks(self) -> Iterator[tuple[int, Task]]:
        """Yield the place and the record of each task; if several rows have one task id, the first."""
        places = self.rows("select min(place), task_id from tasks group by task_id order by 1")
        return ((place, self.stored_tasks[task_id]) for place, task_id in [*places])

    def remove(self, table: str, places: Iterable[int]) -> None:
        """Hide rows from later checks; a task is hidden with its attempts."""
        self.connection.register("hidden", pa.table({"place": pa.array([*places], pa.int64())}))
        self.connection.execute(f"insert into removed_{table} select place from hidden")  # noqa: S608  names of ours
        self.counts.clear()
        for name in TABLES:  # not before, since these conditions double the time of a query
            left = f"select * from all_{name} where place not in (select place from removed_{name})"  # noqa: S608
            if name != "verdicts":
                left += " and task_id not in (select task_id from all_tasks join removed_tasks using (place))"
            self.connection.execute(f"create or replace view {name} as {left}")


@contextmanager
def open_contents(archive: Archive, progress: OnProgress = no_progress) -> Generator[Contents]:
    """Open the contents of an archive for checks, which may report progress; ArchiveError if a part is damaged, or a check's query is invalid."""
    with connect({}, shared=not is_remote(archive.path)) as connection:
        yield Contents(archive, connection, progress)


class Action(StrEnum):
    """Effect of ``--fix`` on a record."""

    REPORT = "report"
    """The record stays unchanged."""
    REMOVE = "remove"
    """The record is removed: an attempt with its verdicts, a task with its attempts."""
    REDACT = "redact"
    """Texts in the record are replaced by placeholders."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A finding of a check in one record."""

    table: str
    """``tasks`` or ``attempts``."""
    place: int
    """``place`` of the record in that table (``Contents``)."""
    record: str
    """Task id or attempt id, for the report."""
    reason: str
    """Reason in one line, without any secret."""
    kind: str
    """Row of the report that counts the fault, such as ``e-mail address``."""
    action: Action = Action.REMOVE
    """Action of ``--fix`` on the record."""
    placeholders: Mapping[str, str] = field(default_factory=dict[str, str])
    """Secret text -> placeholder; replaced in the code or prompt, in the record's verdicts, and in ``removed/``."""
    rejudge: bool = False
    """``REDACT``: whether the verdicts are removed, because the redacted code may behave differently."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check of an archive."""

    find: Callable[[Contents, Mapping[str, Any]], Iterable[Fault]]
    """``find(contents, options)`` yields the faults."""
    help: str
    """Faults that the check finds, in one line."""
    cost: str
    """Cost of these faults for a run, in one line."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Option -> default: a number, or a tuple of texts; ``--set check.option=value`` sets it."""
    needs: str = ""
    """Option that the check needs; the check is not run without it."""
    modules: tuple[str, ...] = ()
    """Modules of optional dependencies that the check imports."""


def mask(value: Any, placeholders: Mapping[str, str]) -> Any:
    """Return a value with every secret replaced in every text of it, the longest secret first."""
    if isinstance(value, str):
        for text in sorted(placeholders, key=len, reverse=True):
            value = value.replace(text, placeholders[text])
        return value
    if isinstance(value, dict):
        return {key: mask(item, placeholders) for key, item in value.items()}
    return [mask(item, placeholders) for item in value] if isinstance(value, list) else value
