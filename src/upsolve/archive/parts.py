"""Parts of an archive. A part is written under a temporary name, flushed and renamed, so that readers see complete parts only."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
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
    "read_part",
    "rewrite_part",
    "rows_in",
    "rows_of",
    "write_part",
    "write_records",
]

FORMAT: Mapping[str, Any] = {"compression": "zstd", "dictionary_pagesize_limit": 1 << 24, "write_page_checksum": True}
"""How Parquet files are written; tasks share long inputs."""
CHECKED = ds.ParquetFileFormat(default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True))
"""How they are read. DuckDB does not compare checksums."""
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
        if is_remote(part):
            remote: Any = part
            return pq.read_table(remote.path, filesystem=remote.fs, schema=schema, page_checksum_verification=True)
        return pq.read_table(part, schema=schema, page_checksum_verification=True)
    except (OSError, pa.ArrowException) as error:
        raise damaged(part, error) from error


def batches_of(part: Path, rows: int = ROWS) -> Iterator[Any]:
    """Yield the rows of a part in record batches of at most this size, without holding the part in memory; raises as ``read_part``."""
    remote: Any = part
    where = {"source": remote.path, "filesystem": remote.fs} if is_remote(part) else {"source": str(part)}
    try:
        data = ds.dataset(**where, schema=TABLES[part.parent.name], format=CHECKED)
        yield from data.to_batches(batch_size=rows, batch_readahead=1, fragment_readahead=1, use_threads=False)
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
    remote: Any = part
    try:
        return int(
            (pq.read_metadata(remote.path, filesystem=remote.fs) if is_remote(part) else pq.read_metadata(part)).num_rows
        )
    except (OSError, pa.ArrowException) as error:
        raise damaged(part, error) from error


def damaged(part: Path, error: Exception) -> ArchiveError:
    """Return the error of a part that cannot be read."""
    return ArchiveError(f"{part}: damaged ({error}); move it out of the archive to read the rest")


def is_merged(part: Path) -> bool:
    """Return whether a part was written by a compaction (``upsolve.archive.compacting``)."""
    return "m" in part.stem.partition("-")[2].partition("-")[0]
