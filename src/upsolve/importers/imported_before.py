"""Another import of a path whose content has changed since: what earlier imports of it stored is not stored again.

Records are compared by all of their fields. Of a record that the path has n times, and had m times before, n - m are stored.
"""

import json
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from upsolve.archive.compacting import tag_of
from upsolve.archive.database import connect, register_parts
from upsolve.archive.parts import is_merged, read_part, rewrite_part, rows_in
from upsolve.archive.schema import TABLES
from upsolve.archive.store import Archive
from upsolve.files import write_text
from upsolve.importers.importing import Job

__all__ = ["drop_stored"]

Runs = list[tuple[int, int]]
"""First row, and the row after the last, of rows one after the other."""

STORED = """
with before as (select attempt_id, hash({columns}) as content, count(*) as times from old group by all),
     hashed as (select place, attempt_id, hash({columns}) as content from new),
     now as (select *, row_number() over (partition by attempt_id, content order by place) as number from hashed)
select place from now join before using (attempt_id, content) where number <= times order by place
"""


def drop_stored(archive: Archive, job: Job, where: str) -> dict[str, int]:
    """Remove attempts and verdicts that earlier imports of the same path have stored from the parts of an import; return their numbers.

    What is to be removed is recorded before anything is, so that this can be done again after an interruption.

    Args:
        archive: the archive.
        job: the import; its tasks are settled.
        where: its source, path and options, as ``Archive.remember`` knows them.
    """
    record, earlier = job.folder / "stored.json", archive.meta().get("imports", {}).get(where, [])
    counts = {"attempts": 0, "verdicts": 0}
    if not earlier:
        return counts
    if not record.exists():
        write_text(record, json.dumps({name: stored_rows(archive, name, job.tag, earlier) for name in counts}))
    for name, parts in json.loads(record.read_text(encoding="utf-8")).items():
        for part, (rows, runs) in parts.items():
            drop_rows(archive.path / name / part, rows, runs)
            counts[name] += sum(stop - start for start, stop in runs)
    return counts


def stored_rows(archive: Archive, name: str, tag: str, earlier: Collection[str]) -> dict[str, tuple[int, Runs]]:
    """Return the rows of an import that earlier ones have stored, by part: its number of rows, and runs of those rows.

    Compaction puts parts of several imports together, so that the rows of such a part may be of any of them.
    """
    parts = archive.parts(name)
    new = [part for part in parts if tag_of(part) == tag]
    old = [part for part in parts if tag_of(part) in earlier or (is_merged(part) and not tag_of(part))]
    columns = ", ".join(f'"{column}"' for column in TABLES[name].names)
    with connect({}) as connection:
        register_parts(connection, "new", new, table=name, places=True)
        register_parts(connection, "old", old, table=name)
        places = connection.sql(STORED.format(columns=columns)).fetchnumpy()["place"]
    files, rows = np.divmod(np.asarray(places, dtype=np.int64), 1 << 32)
    return {new[at].name: (rows_in(new[at]), runs_of(rows[files == at])) for at in np.unique(files).tolist()}


def runs_of(rows: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> Runs:
    """Return the runs of increasing numbers."""
    ends = np.flatnonzero(np.diff(rows) != 1) + 1
    return [(int(run[0]), int(run[-1]) + 1) for run in np.split(rows, ends)]


def drop_rows(part: Path, rows: int, runs: Sequence[tuple[int, int]]) -> None:
    """Remove runs of rows from a part, and the part if none is left; one that has not this many rows was rewritten before."""
    if not part.exists() or rows_in(part) != rows:
        return
    keep = np.ones(rows, dtype=np.bool_)
    for start, stop in runs:
        keep[start:stop] = False
    rewrite_part(part, read_part(part).filter(pa.array(keep)))
