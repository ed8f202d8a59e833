"""The parts of an archive as files, as views of DuckDB and as a stream of records, in memory that does not grow with the archive.

A part is written under a temporary name, flushed and renamed, so that readers see complete parts only.
"""

import atexit
import os
import tempfile
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import chain, count
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from upsolve.archive.schema import TABLES, to_table
from upsolve.errors import ArchiveError, one_line
from upsolve.files import is_remote, replaced
from upsolve.records import from_row
from upsolve.types import Attempt, Task, Verdict

__all__ = [
    "FORMAT",
    "MEMORY_LIMIT",
    "ROWS",
    "batches_of",
    "check_part",
    "connect",
    "is_merged",
    "name_damaged",
    "none_of",
    "read_from",
    "read_part",
    "register_parts",
    "rewrite_part",
    "rows_in",
    "rows_of",
    "stored_records",
    "write_part",
    "write_records",
]

FORMAT: Mapping[str, Any] = {"compression": "zstd", "dictionary_pagesize_limit": 1 << 24, "write_page_checksum": True}
"""How Parquet files are written; tasks share long inputs."""
ROWS = 1000
"""Rows that are made Python objects at once."""


def write_records(part: Path, records: Sequence[Task | Attempt | Verdict]) -> None:
    """Write records of one kind as a part; its folder names the table (``write_part``)."""
    write_part(part, to_table(part.parent.name, records))


def write_part(part: Path, table: Any) -> None:
    """Write an Arrow table as a part; ArchiveError, and no incomplete file, if it cannot be written."""
    try:
        with replaced(part) as temporary:
            pq.write_table(table, temporary, **FORMAT)
    except OSError as error:
        raise ArchiveError(f"{part}: cannot be written: {error}") from error


def rewrite_part(part: Path, table: Any) -> None:
    """Replace the rows of a part by those of a table (``write_part``); without rows, remove the part."""
    if table.num_rows:
        write_part(part, table)
    else:
        part.unlink()


def read_part(part: Path, columns: Sequence[str] | None = None) -> Any:
    """Return all or some columns of a part as an Arrow table; columns that an earlier schema lacks are null.

    Raises:
        ArchiveError: the part is damaged: names it and the fix.
    """
    fields = TABLES[part.parent.name]
    schema = fields if columns is None else pa.schema([fields.field(column) for column in columns])
    try:
        with opened(part) as file:
            return fitted(file.read([name for name in schema.names if name in file.schema_arrow.names]), schema)
    except (OSError, pa.ArrowException) as error:
        raise damaged(part, error) from error


def batches_of(part: Path, rows: int = ROWS) -> Iterator[Any]:
    """Yield the rows of a part in record batches of at most this size, without holding the part in memory; raises as ``read_part``."""
    try:
        with opened(part) as file:
            for batch in file.iter_batches(rows, use_threads=False):
                yield fitted(batch, TABLES[part.parent.name])
    except (OSError, pa.ArrowException) as error:
        raise damaged(part, error) from error


def rows_of(parts: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """Yield the rows of parts, ``ROWS`` at once as Python objects; raises as ``read_part``."""
    for part in parts:
        for batch in batches_of(part):
            yield from batch.to_pylist()


def check_part(part: Path) -> None:
    """Read a part to its end, which compares its checksums; raises as ``read_part``."""
    for _ in batches_of(part):
        pass


def rows_in(part: Path) -> int:
    """Return the number of rows of a part, from its metadata; raises as ``read_part``."""
    try:
        with opened(part) as file:
            return int(file.metadata.num_rows)
    except (OSError, pa.ArrowException) as error:
        raise damaged(part, error) from error


def opened(part: Path) -> Any:
    """Open a part with its checksums compared, which DuckDB does not do. ``pyarrow.dataset`` would import pandas (0.4 s)."""
    remote: Any = part
    file, system = (remote.path, remote.fs) if is_remote(part) else (str(part), None)
    return pq.ParquetFile(file, filesystem=system, page_checksum_verification=True)


def none_of(schema: Any) -> Any:
    """Return a table without rows. ``schema.empty_table()`` would do the same, but imports pandas (0.4 s)."""
    return pa.Table.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def fitted(rows: Any, schema: Any) -> Any:
    """Return a table or record batch with the columns of a schema; missing columns are null."""
    if rows.schema.equals(schema):
        return rows
    columns = [
        rows.column(field.name).cast(field.type) if field.name in rows.schema.names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return type(rows).from_arrays(columns, schema=schema)


def damaged(part: Path, error: Exception) -> ArchiveError:
    """Return the error of a part that cannot be read."""
    return ArchiveError(f"{part}: damaged ({error}); move it out of the archive to read the rest")


def is_merged(part: Path) -> bool:
    """Return whether a part was written by a compaction (``upsolve.archive.compacting``)."""
    return "m" in part.stem.partition("-")[2].partition("-")[0]


MEMORY_LIMIT = "600MB"
"""Memory of the queries of a connection; DuckDB writes what exceeds it to temporary files."""
PLACE = "(file_index::bigint << 32) + file_row_number as place"


OPENING, NAMES = Lock(), count()
"""Lock of the shared databases, and the counter that numbers their catalogs."""


def open_database() -> "duckdb.DuckDBPyConnection":
    """Open a database in memory. DuckDB makes its temporary folder when it needs it, and removes it."""
    folder = Path(tempfile.gettempdir()) / f"upsolve-duckdb-{token_hex(8)}"
    config: dict[str, Any] = {
        "autoinstall_known_extensions": "false",
        "memory_limit": MEMORY_LIMIT,
        "temp_directory": str(folder),
    }
    return duckdb.connect(":memory:", config=config)


@cache
def shared_database(process: int) -> "duckdb.DuckDBPyConnection":
    """Return the database that a process shares. The key is the id of the process, because DuckDB's threads do not survive a fork."""
    del process
    return open_database()


atexit.register(shared_database.cache_clear)  # DuckDB reports databases that are open when the interpreter ends


@contextmanager
def open_catalog() -> "Generator[duckdb.DuckDBPyConnection]":
    """Yield a connection to an empty catalog of the database that this process shares, since opening a new database takes 30 ms."""
    with OPENING:
        database, name = shared_database(os.getpid()), f"catalog_{next(NAMES)}"
        connection = database.cursor()
    try:
        connection.execute(f"attach ':memory:' as {name}; use {name}")
        yield connection
    except duckdb.Error:
        shared_database.cache_clear()  # an error may have made the database unusable
        raise
    finally:
        connection.close()
        with OPENING, suppress(duckdb.Error):
            database.execute(f"detach {name}")


@contextmanager
def connect(
    parts: Mapping[str, Iterable[Path]], *, places: bool = False, shared: bool = False
) -> "Generator[duckdb.DuckDBPyConnection]":
    """Yield a connection with a view of every table, such as ``attempts``. Columns that parts of an earlier schema lack are null.

    Args:
        parts: name of a table in ``schema.TABLES`` -> its files, oldest first.
        places: whether the views have a column ``place``, which increases in the order in which the rows were written.
        shared: use the database that this process shares, if all files are local. For short queries that change no setting.

    Raises:
        ArchiveError: a file is damaged, or a query fails otherwise.
    """
    shared = shared and not any(map(is_remote, chain.from_iterable(parts.values())))  # their file systems are a database's own
    try:
        with open_catalog() if shared else open_database() as connection:
            connection.execute("set enable_progress_bar = false")  # it would stand among what a command prints
            for name, files in parts.items():
                register_parts(connection, name, files, table=name, places=places)
            yield connection
    except duckdb.Error as error:
        name_damaged(parts, error)
        raise ArchiveError(f"{one_line(error)}; move a damaged part out of the archive to read the rest") from error


def name_damaged(parts: Mapping[str, Iterable[Path]], error: Exception) -> None:
    """Raise ArchiveError with the name of a damaged part if DuckDB's error ("Out of buffer") can come from a part but names no file."""
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
    """Yield parts, after registering the file systems of remote parts with the connection."""
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
"""Query that merges equal attempts. Only numbers are aggregated: DuckDB keeps aggregated values in memory, but can write sorted rows to disk."""


def stored_records(parts: Mapping[str, Iterable[Path]]) -> Iterator[Task | Attempt | Verdict]:
    """Yield the records of ``Archive.tasks`` and ``attempts``, then all verdicts as written: earlier ones show contradicting labels.

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
