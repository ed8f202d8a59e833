"""Compaction: many small parts become few large ones, with the same rows in the same order.

A merged part has an ``m`` in its name. ``merged`` in archive.json says which merged parts count, and which parts they replace; this one file decides
what readers see (``Archive.parts``). A process that has listed the old parts can still read them: a later compaction removes them.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from upsolve.archive.database import FORMAT, batches_of, is_merged, rows_in
from upsolve.archive.places import fresh, locked
from upsolve.archive.schema import TABLES
from upsolve.archive.store import Archive
from upsolve.errors import ArchiveError
from upsolve.files import replaced
from upsolve.types import content_id

__all__ = ["Compacted", "compact"]

ROWS, BYTES = 20_000, 1 << 26
"""Most rows, and bytes in memory, of a row group of a merged part."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """Counts of a compaction."""

    before: int
    """Parts before."""
    after: int
    """Parts after."""
    removed: int
    """Files of replaced parts that were removed."""
    waiting: int
    """Files of replaced parts that a later compaction will remove."""


def compact(archive: Archive, *, target_bytes: int = 1 << 28, keep_hours: float = 24) -> Compacted:
    """Merge consecutive parts of each table; a repeated call resumes an interrupted compaction.

    Args:
        archive: the archive. Others may read it and append to it meanwhile; parts of unfinished imports stay as they are.
        target_bytes: largest size of a merged part, bytes on disk.
        keep_hours: hours before replaced parts are removed, so that processes can finish reading them.

    Raises:
        ArchiveError: another process compacts this archive, or a merged part has other rows than the parts that it replaces.
    """
    try:
        with locked(archive.path / "compact.lock", wait=False):
            before = sum(len(archive.parts(name)) for name in TABLES)
            plans = [(name, run) for name in TABLES for run in runs(archive, name, target_bytes)]
            known, wanted = archive.meta().get("merged", {}), {merged_part(run) for _, run in plans}
            for part in (part for name in TABLES for part in (fresh(archive.path) / name).glob("*.parquet")):
                if is_merged(part) and f"{part.parent.name}/{part.name}" not in known and part not in wanted:
                    part.unlink()  # interrupted compactions left it
            for name, run in plans:
                write_merged(run)
                replace_parts(archive, name, run)
            removed = remove_replaced(archive, time.time() - keep_hours * 3600)
    except BlockingIOError as error:
        raise ArchiveError(f"{archive.path}: another process is compacting the archive; wait until it ends") from error
    after = sum(len(archive.parts(name)) for name in TABLES)
    waiting = sum(len(entry["replaced"]) for entry in archive.meta().get("merged", {}).values())
    return Compacted(before, after, removed, waiting)


def runs(archive: Archive, name: str, target_bytes: int) -> Iterator[list[Path]]:
    """Yield consecutive parts of a table that can be merged, at least two."""
    finished = {content_id(import_id) for import_id in archive.ingested()}
    unfinished = set(archive.meta().get("incomplete", {}).values())
    run, size, owner = list[Path](), 0, ""
    for part in archive.parts(name):
        tag = tag_of(part)
        new_owner, new_size = "" if tag in finished else tag, part.stat().st_size
        if run and (new_owner != owner or size + new_size > target_bytes):
            if len(run) > 1:
                yield run
            run, size = [], 0
        if tag not in unfinished:
            run.append(part)
        size, owner = size + new_size, new_owner
    if len(run) > 1:
        yield run


def tag_of(part: Path) -> str:
    """Return the tag in the name of a part, or an empty text."""
    return "-".join(part.stem.split("-")[2:])


def merged_part(run: Sequence[Path]) -> Path:
    """Return the name of the part that replaces a run of parts: the first part's number, and the tag if all parts share a tag."""
    number, middle, *_ = run[0].stem.split("-")
    (tag,) = {tag_of(part) for part in run} if len({tag_of(part) for part in run}) == 1 else {""}
    digest = content_id(*(part.name for part in run))[:8]
    return run[0].with_name(f"{number}-{middle.partition('m')[0]}m{digest}{tag and '-' + tag}.parquet")


def write_merged(run: Sequence[Path]) -> None:
    """Write the part that replaces a run of parts, unless it exists; ArchiveError if the existing part has another number of rows."""
    part = merged_part(run)
    try:
        rows = sum(rows_in(old) for old in run)
        if part.exists() and rows_in(part) == rows:
            return
        with replaced(part) as written:
            stream(run, written)
            if (now := rows_in(written)) != rows:
                raise ArchiveError(f"{part}: has {now} rows, the parts that it replaces have {rows}; nothing was replaced")
    except (OSError, pa.ArrowException) as error:
        raise ArchiveError(f"{part}: cannot be written: {error}") from error


def stream(run: Sequence[Path], file: Path) -> None:
    """Write the rows of parts into one file, row group by row group."""
    with pq.ParquetWriter(file, TABLES[run[0].parent.name], **FORMAT) as writer:
        held, rows, size = list[Any](), 0, 0
        for batch in chain.from_iterable(batches_of(part, ROWS // 8) for part in run):
            held.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= ROWS or size >= BYTES:
                writer.write_table(pa.Table.from_batches(held))
                held, rows, size = [], 0, 0
        if held:
            writer.write_table(pa.Table.from_batches(held))


def replace_parts(archive: Archive, name: str, run: Sequence[Path]) -> None:
    """Record in archive.json that the merged part replaces a run of parts."""
    with archive.lock():
        entry = {"replaced": [f"{name}/{part.name}" for part in run], "when": time.time()}
        archive.write_meta(merged={**archive.meta().get("merged", {}), f"{name}/{merged_part(run).name}": entry})


def remove_replaced(archive: Archive, before: float) -> int:
    """Remove the files of parts that were replaced before a time, seconds since 1970; return their number."""
    with archive.lock():
        merged: dict[str, Any] = archive.meta().get("merged", {})
        old = {file for entry in merged.values() if entry["when"] <= before for file in entry["replaced"]}
        for file in old:
            (archive.path / file).unlink(missing_ok=True)
        left = {key: {**entry, "replaced": [f for f in entry["replaced"] if f not in old]} for key, entry in merged.items()}
        archive.write_meta(merged={key: entry for key, entry in left.items() if key not in old})
    return len(old)
