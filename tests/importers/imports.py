"""Files of rows, and archives with an import."""

import json
from itertools import count

import pyarrow as pa
import pyarrow.parquet as pq

from upsolve.archive.store import Archive
from upsolve.importers.ingest import ingest


def write_lines(file, rows):
    """Write a file of JSON lines and return it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def write_parquet(file, rows):
    """Write a Parquet file and return it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), file)
    return file


def imported(folder, source, path, /, **options):
    """Import a path into a new archive in a folder; return the archive and the report."""
    names = (folder / f"archive{number or ''}" for number in count())
    archive = Archive.create(next(name for name in names if not name.exists()))
    return archive, ingest(archive, source, path, max_rejected=1, **options)


def imported_rows(folder, rows, /, **options):
    """Import rows as a table ``log.jsonl``; return the archive and the report."""
    return imported(folder, "table", write_lines(folder / "log.jsonl", rows), **options)


def rejected_rows(report):
    """Return the rejected rows of an import, each with file, line and reason."""
    return [json.loads(line) for line in report.rejected.read_text().splitlines()] if report.rejected else []
