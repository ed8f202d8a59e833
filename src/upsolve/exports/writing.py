"""Rows -> files: Parquet, or JSON lines. A file is complete or absent."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from upsolve.errors import ArchiveError
from upsolve.exports.record import Column, Export, LeftOut, Place
from upsolve.files import commit_file

__all__ = ["rows_of", "write_rows"]

BATCH = 1000
"""Rows in memory at once."""
Row = Mapping[str, Any]


def rows_of(
    record: Export, items: Iterable[Any], first: Place, *, options: Mapping[str, Any], left_out: Counter[str]
) -> Iterator[Row]:
    """Yield the rows of items, from a first place on; what a format cannot hold is added to ``left_out``."""
    index = first.index
    for item in items:
        for row in record.rows(item, replace(first, index=index), **options):
            if isinstance(row, LeftOut):
                left_out[row.reason] += row.count
            else:
                index += 1
                yield row


def write_rows(path: Path, rows: Iterator[Row], columns: Sequence[Column] | None) -> int:
    """Write a file, atomically, and return its number of rows.

    Args:
        path: the file; one that exists is replaced.
        rows: values by column.
        columns: of a Parquet file; None: JSON lines.

    Raises:
        ArchiveError: the file cannot be written.
        ValueError: a row has other columns.
    """
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        count = write_lines(temporary, rows) if columns is None else write_parquet(temporary, rows, columns)
        commit_file(temporary, path)
    except OSError as error:
        raise ArchiveError(f"{path}: cannot be written: {error}") from error
    finally:
        temporary.unlink(missing_ok=True)
    return count


def write_lines(path: Path, rows: Iterator[Row]) -> int:
    """Write JSON lines."""
    count = 0
    with path.open("w", encoding="utf-8") as out:
        for row in rows:
            out.write(json.dumps(row) + "\n")
            count += 1
    return count


def write_parquet(path: Path, rows: Iterator[Row], columns: Sequence[Column]) -> int:
    """Write a Parquet file batch by batch."""
    schema = pa.schema([(column.name, column.type) for column in columns])
    count = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as out:
        while batch := list(islice(rows, BATCH)):
            for row in batch:
                if {*row} != {*schema.names}:
                    raise ValueError(f"{path.name}: a row has the columns {sorted(row)}, the format {sorted(schema.names)}")
            out.write_table(pa.Table.from_pylist(batch, schema=schema))
            count += len(batch)
    return count
