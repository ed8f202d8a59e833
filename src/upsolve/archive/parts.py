"""Files of an archive: each is written under another name, flushed and renamed, so that a reader sees it complete or not at all."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from upsolve.archive.schema import TABLES, to_table
from upsolve.errors import ArchiveError
from upsolve.files import commit_file
from upsolve.types import Attempt, Task, Verdict

__all__ = ["read_part", "write_part", "write_records"]


def write_records(part: Path, records: Sequence[Task | Attempt | Verdict]) -> None:
    """Write records of one kind as a part; its folder names the table (``write_part``)."""
    write_part(part, to_table(part.parent.name, records))


def write_part(part: Path, table: Any) -> None:
    """Write an Arrow table as a part; ArchiveError, and no incomplete file, if it cannot be written."""
    temporary = part.with_name(f"{part.stem}.{os.getpid()}.tmp")
    try:
        pq.write_table(table, temporary, compression="zstd", dictionary_pagesize_limit=1 << 24)  # tasks share long inputs
        commit_file(temporary, part)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ArchiveError(f"{part}: cannot be written: {error}") from error


def read_part(part: Path, columns: Sequence[str] | None = None) -> Any:
    """Return all columns of a part as an Arrow table, or some; those that parts of an earlier schema lack are null.

    Raises:
        ArchiveError: the part is damaged: names it and the fix.
    """
    fields = TABLES[part.parent.name]
    schema = fields if columns is None else pa.schema([fields.field(column) for column in columns])
    try:
        return pq.read_table(part, schema=schema)
    except (OSError, pa.ArrowException) as error:
        raise ArchiveError(f"{part}: damaged ({error}); move it out of the archive to read the rest") from error
