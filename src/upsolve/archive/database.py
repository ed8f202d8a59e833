"""The parts of an archive as views of DuckDB and as a stream of records, in memory that does not grow with the archive."""

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

from upsolve.archive.parts import ROWS, check_part, none_of, rows_of
from upsolve.archive.schema import TABLES
from upsolve.errors import ArchiveError, one_line
from upsolve.files import is_remote
from upsolve.records import from_row
from upsolve.types import Attempt, Task, Verdict

__all__ = ["MEMORY_LIMIT", "connect", "name_damaged", "read_from", "register_parts", "stored_records"]

MEMORY_LIMIT = "600MB"
"""Memory of the queries of a connection; DuckDB writes what exceeds it to temporary files."""
PLACE = "(file_index::bigint << 32) + file_row_number as place"


@contextmanager
def connect(parts: Mapping[str, Iterable[Path]], *, places: bool = False) -> "Generator[duckdb.DuckDBPyConnection]":
    """Yield a connection with a view of every table, such as ``attempts``. Columns that parts of an earlier schema lack are null.

    Args:
        parts: name of a table in ``schema.TABLES`` -> its files, oldest first.
        places: whether the views have a column ``place``, which increases in the order in which the rows were written.

    Raises:
        ArchiveError: a file is damaged, or a query fails otherwise.
    """
    with TemporaryDirectory(prefix="upsolve-duckdb-") as folder:
        config: dict[str, Any] = {
            "autoinstall_known_extensions": "false",
            "memory_limit": MEMORY_LIMIT,
            "temp_directory": folder,
        }
        try:
            with duckdb.connect(":memory:", config=config) as connection:
                connection.execute("set enable_progress_bar = false")  # it would stand among what a command prints
                for name, files in parts.items():
                    register_parts(connection, name, files, table=name, places=places)
                yield connection
        except duckdb.Error as error:
            name_damaged(parts, error)
            raise ArchiveError(f"{one_line(error)}; move a damaged part out of the archive to read the rest") from error


def name_damaged(parts: Mapping[str, Iterable[Path]], error: Exception) -> None:
    """Raise ArchiveError with the name of the damaged part if DuckDB's error may be of one ("Out of buffer") and names no file."""
    for part in chain.from_iterable(parts.values()) if type(error) in (duckdb.Error, duckdb.IOException) else ():
        check_part(part)


def register_parts(
    connection: "duckdb.DuckDBPyConnection", view: str, parts: Iterable[Path], *, table: str, places: bool = False
) -> None:
    """Create a view of some parts of a table (``connect``)."""
    connection.register(f"no_{view}", none_of(TABLES[table]))
    place = ", 0::bigint as place" if places else ""
    sql = f"select *{place} from no_{view}"  # noqa: S608  names of ours
    if files := [str(part) for part in read_from(connection, parts)]:
        stored = connection.read_parquet(files, union_by_name=True, file_row_number=places)
        stored.project(f"* exclude (file_row_number), {PLACE}" if places else "*").create_view(f"stored_{view}")
        sql += f" union all by name select * from stored_{view}"  # noqa: S608
    connection.execute(f"create view {view} as {sql}")


def read_from(connection: "duckdb.DuckDBPyConnection", parts: Iterable[Path]) -> Iterable[Path]:
    """Yield parts after the connection has been given the file systems of remote ones."""
    for part in parts:
        remote: Any = part
        if is_remote(part) and not connection.filesystem_is_registered(remote.protocol):
            connection.register_filesystem(remote.fs)
        yield part


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
