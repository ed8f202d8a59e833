"""The records of an archive one after the other, in memory that does not grow with it."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from upsolve.archive.database import connect
from upsolve.archive.parts import ROWS, rows_of
from upsolve.archive.schema import TABLES
from upsolve.records import from_row
from upsolve.types import Attempt, Task, Verdict

__all__ = ["stored_records"]

COLUMNS = {name: ", ".join(f'"{column}"' for column in schema.names if column != "count") for name, schema in TABLES.items()}
TASKS = f"""
select {COLUMNS["tasks"]} from tasks
join (select min(place) as first, max(place) as place from tasks group by task_id) using (place) order by first
"""  # noqa: S608  names of ours
ATTEMPTS = f"""
select {COLUMNS["attempts"]}, total as "count" from attempts join (
    select min(place) as place, sum("count")::bigint as total from attempts group by attempt_id, hash({COLUMNS["attempts"]})
) using (place) order by place
"""  # noqa: S608
"""Only numbers are aggregated, since DuckDB keeps what it aggregates in memory; what it sorts it can write to disk."""


def stored_records(parts: Mapping[str, Iterable[Path]]) -> Iterator[Task | Attempt | Verdict]:
    """Yield what ``Archive.tasks`` and ``attempts`` return, then all verdicts as written: earlier ones show what labels contradict each other.

    Args:
        parts: name of a table -> its files, oldest first.

    Raises:
        ArchiveError: a part is damaged.
    """
    with connect(parts, places=True) as connection:
        for kind, sql in ((Task, TASKS), (Attempt, ATTEMPTS)):
            for batch in connection.sql(sql).to_arrow_reader(ROWS):
                yield from (from_row(kind, row) for row in batch.to_pylist())
    yield from (from_row(Verdict, row) for row in rows_of(parts["verdicts"]))
