"""Parts of an archive. A part is written under a temporary name, flushed and renamed, so that readers see complete parts only."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from upsolve.archive.schema import TABLES, to_table
from upsolve.errors import ArchiveError
from upsolve.files import commit_file, is_remote
from upsolve.types import Attempt, Task, Verdict

__all__ = [
    "FORMAT",
    "ROWS",
    "batches_of",
    "check_part",
    "is_merged",
    "none_of",
    "read_part",
    "rewrite_part",
    "rows_in",
    "rows_of",
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
    temporary = part.with_name(f"{part.stem}.{os.getpid()}.tmp")
    try:
        if is_remote(part):
            with BytesIO() as content:
                pq.write_table(table, content, **FORMAT)
                part.write_bytes(content.getbuffer())
            return
        pq.write_table(table, temporary, **FORMAT)
        commit_file(temporary, part)
    except OSError as error:
        if not is_remote(part):
            temporary.unlink(missing_ok=True)
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
    """Open a part; its checksums are compared, which DuckDB does not do. ``pyarrow.dataset`` would import pandas, for 0.4 s."""
    remote: Any = part
    file, system = (remote.path, remote.fs) if is_remote(part) else (str(part), None)
    return pq.ParquetFile(file, filesystem=system, page_checksum_verification=True)


def none_of(schema: Any) -> Any:
    """Return a table without rows; ``schema.empty_table()`` would import pandas."""
    return pa.Table.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def fitted(rows: Any, schema: Any) -> Any:
    """Return a table or record batch with the columns of a schema; those that it lacks are null."""
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
