"""Import a source into an archive: streaming, resumable, idempotent, and with a report of rejected rows."""

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from upsolve.archive.compacting import tag_of
from upsolve.archive.database import connect, is_merged, read_part, register_parts, rows_in
from upsolve.archive.groups import is_small
from upsolve.archive.places import download, fresh, is_url, listing, remove_folder
from upsolve.archive.schema import TABLES
from upsolve.archive.store import Archive
from upsolve.errors import SourceError
from upsolve.files import replaced, write_text
from upsolve.importers.definitions import PLAN, Runs, begin, drop_rows, is_current, only_importer, runs_of, settle
from upsolve.importers.formats import Kind
from upsolve.importers.formats.files import files_of, size_of
from upsolve.importers.formats.tabular import copy_of_query, is_database
from upsolve.importers.importing import Job, Journal, Tally
from upsolve.importers.rows import BadRow, enough, keep_example
from upsolve.importers.shares import import_shares, shares_of
from upsolve.importers.source import Source, parse_options
from upsolve.plugins import find, names
from upsolve.types import OnProgress, content_id, no_progress

__all__ = ["IngestReport", "ingest"]


COUNTS = ("read", "tasks", "verdicts", "repeated", "bad", "left_out", "odd", "rows")
"""Fields of a ``Journal`` that add up over the shares of an import."""


@dataclass
class IngestReport(Tally):
    """Counts of an import; records read = stored + repeated + rejected."""

    added: Counter[str] = field(default_factory=Counter[str])
    """Stored records: new ``tasks``, new distinct ``attempts`` and ``verdicts``; and ``repeated`` records, which were stored before."""
    reasons: list[BadRow] = field(default_factory=list[BadRow])
    """Three rejected rows, of different reasons if there are."""
    rejected: Path | None = None
    """File with all rejected rows, each with its reason."""
    written: Counter[str] = field(default_factory=Counter[str])
    """Records that this import wrote, including those stored before."""
    orphans: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number of ``attempts without a task`` and ``verdicts without an attempt`` among the stored ones."""
    missing: str = ""
    """Id of a missing task that an attempt names; empty if no task is missing."""
    mistaken: str = ""
    """Warning that attempts of earlier imports are in another language than their tasks, which this import stored; empty if there are none."""
    bad_rows: int = 0
    """Rows with a rejected record."""
    unread: str = ""
    """Number and names of the files of the path that are not read; empty if all are read."""
    known: bool = False
    """True if the same import was done before; nothing was changed then."""
    too_many: bool = False
    """True if more rows were rejected than allowed; the next import of the same path, by any source and options, replaces this import."""
    orphaned: bool = False
    """True if too many attempts lack a task or verdicts lack an attempt: a larger share than may be rejected."""

    def facts(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "read": self.read,
            **{name: self.added[name] for name in ("tasks", "attempts", "verdicts", "repeated")},
            "set_aside": self.bad,
            **{name: getattr(self, name) for name in ("known", "too_many", "orphaned")},
            "rejected": str(self.rejected) if self.rejected else None,
            "reasons": [{"file": row.file, "line": row.line or None, "reason": row.reason} for row in self.reasons],
            "rows": self.rows or None,
            "rows_set_aside": self.bad_rows,
            "tests_left_out": self.left_out,
            "odd_fields": self.odd,
            "left_out": self.examples,
            "unread": self.unread or None,
            **self.orphans,
            "mistaken": self.mistaken or None,
        }

    def text(self) -> str:
        """Return the report as text, a few lines."""
        if self.known:
            return (
                "already imported; nothing was added (to import it in another way, such as by another map, name a new archive)"
            )
        stored = sum(self.added[name] for name in ("tasks", "attempts", "verdicts"))
        kinds = ", ".join(f"{self.added[name]} {name}" for name in ("tasks", "attempts", "verdicts"))
        repeated = self.added["repeated"]
        rows = f"{self.rows} rows, {self.bad_rows} rejected: " if self.rows else ""
        lines = [f"{rows}{self.read} records read = {stored} stored ({kinds}) + {repeated} repeated + {self.bad} rejected"]
        reasons = [f"  {row.file}{f', line {row.line}' if row.line else ''}: {row.reason}" for row in self.reasons]
        orphans = [f"{count} {what}" for what, count in self.orphans.items() if count]
        if self.missing:
            orphans[0] += f", such as {self.missing}: they belong to tasks that are imported under these ids"
        where = [f"all rejected rows, with reasons: {self.rejected}"] if self.rejected else []
        least = enough(self.bad_rows, self.rows) if self.rows else enough(self.bad, self.read)
        fix = f"too many were rejected: fix file or options and import it again (it replaces this import), or allow it: --max-rejected {least}"
        if not self.added.total():
            fix = "nothing was stored: fix the file and import it again, or name another source (`upsolve ingest --sources`)"
        orphans += [self.mistaken] * bool(self.mistaken)
        left = [f"{self.left_out} tests that cannot fail are left out"] * bool(self.left_out)
        left += [f"{self.odd} invalid optional values are stored in extra"] * bool(self.odd)
        reasons += [f"{', and '.join(left)}, such as", *(f"  {one}" for one in self.examples)] if left else []
        reasons += [self.unread] * bool(self.unread)
        last = ["; ".join([fix, *where, *orphans])] if self.too_many else [*where, *orphans]
        return "\n".join([*lines, *reasons, *last])


def import_id(source: str, path: str | Path, options: Mapping[str, Any]) -> str:
    """Return an id of a source, its options and its files: for a file its content; in a folder or at a URL names, sizes, and times or versions."""
    digest = sha256(json.dumps([source, sorted(options.items())]).encode())
    if isinstance(path, str):
        for file, size, version in listing(path):
            digest.update(f"{file}|{size}|{version}".encode())
    elif path.is_file():
        with path.open("rb") as data:
            while block := data.read(1 << 20):
                digest.update(block)
    elif path.is_dir():
        for name, stat in files_of(str(path), ""):
            digest.update(f"{name}|{stat.st_size}|{stat.st_mtime_ns}".encode("utf-8", "surrogateescape"))
    else:
        size_of(path)  # raises
    return f"{source}:{digest.hexdigest()[:20]}"


def ingest(
    archive: Archive,
    source: str | Source,
    path: str | Path,
    *,
    workers: int = 1,
    executor: str = "local",
    on_progress: OnProgress = no_progress,
    max_rejected: float | None = None,
    **options: Any,
) -> IngestReport:
    """Import a path. A finished import is not repeated; a stopped import resumes after the last stored batch.

    Args:
        archive: the archive to add to.
        source: a name in ``SOURCES`` (``upsolve.importers.registry``), ``package.module:attribute``, or the record.
        path: file or folder; or a URL of fsspec, a data set of the Hub, or a database with the option ``query``, copied for the import.
        workers: processes that read a source of several files (``Source.split``). The archive is the same with any number.
        executor: ``local``, or ``ray``: the units are read on the free cores of a Ray cluster, whose nodes all reach archive and path.
        on_progress: called after each batch with ``rows: <number of records read>``, the shares of the source that are done, and all.
        max_rejected: share of rows, [0, 1], above which the import is not done; None: that of the source, 0 if nothing is stored.
        options: the source's options, such as ``language`` and ``most_correct`` of CodeNet's.

    Raises:
        SourceError: unknown source or option, or the path has another format than the source reads.
    """
    label, record, values = find_source(source, options)
    place = located(record, path, values)
    name = import_id(label, place, values)
    where, path_id = ids_of(label, path, place, values)
    job = Job(archive.path, label if isinstance(source, str) else source, values, content_id(name))
    with only_importer(archive, job):
        if name in archive.ingested():
            remove_folder(job.folder)
            remove_copy(path, place)
            return IngestReport(known=True)
        shares = shares_of(record, file := download(place) if isinstance(place, str) else place, values)
        while True:
            job = begin(archive, job, where, path_id)
            done = import_shares(job, shares, workers=workers, executor=executor, on_progress=on_progress)
            report = replace(finish(archive, job, done, file, where), unread=shares[0][0].unread)
            allowed = max_rejected if max_rejected is not None else record.max_rejected * bool(report.added.total())
            with archive.lock():
                if is_current(archive, job):
                    conclude(archive, job, report, name, where, path_id, allowed)
                    break
            (job.folder / PLAN).unlink()
        if not report.too_many:
            remove_copy(path, file)
    return report


def ids_of(label: str, path: str | Path, place: str | Path, values: Mapping[str, Any]) -> tuple[str, str]:
    """Return an id of source, path and options, and an id of the path alone."""
    read = str(place if isinstance(place, str) else place.resolve())
    return content_id(label, read, json.dumps(sorted(values.items()))), content_id(str(path) if is_database(path) else read)


def located(record: Source, path: str | Path, values: dict[str, Any]) -> str | Path:
    """Return the local path or URL to read. For a database, a copy of its query's rows; ``query`` is then removed from the options."""
    if is_database(path):
        return copy_of_query(str(path), values.pop("query", ""))
    path = hub_name(path)
    return str(path) if is_url(path) else record.locate(Path(path))


def remove_copy(path: str | Path, file: str | Path) -> None:
    """Remove the copy of a URL, or of a query's rows, from the cache folder."""
    if isinstance(file, Path) and (is_database(path) or is_url(hub_name(path))):
        remove_folder(file.parents[1])


def hub_name(path: str | Path) -> str | Path:
    """Return ``hf://OWNER/NAME`` for the name of a data set of the Hub, unless a file of this name or a folder OWNER exists; other paths unchanged."""
    folder = Path(path)
    is_name = re.fullmatch(r"[\w.-]+/[\w.-]+(:\w+)?", str(path)) and folder.suffix[1:] not in {*Kind}
    return f"hf://{path}" if is_name and not folder.parent.exists() else path


def conclude(archive: Archive, job: Job, report: IngestReport, name: str, where: str, path_id: str, allowed: float) -> None:
    """Record an import as finished, or as failed at its path if more rows were rejected than allowed; the archive is locked."""
    if report.bad:
        report.rejected, report.reasons, report.bad_rows = join_rejected(job, f"{name.replace(':', '-')}.jsonl")
    bad, rows = (report.bad_rows, report.rows) if report.rows else (report.bad, report.read)
    report.too_many, report.orphaned = bad > allowed * rows, has_lost(report, allowed)
    if report.too_many:
        archive.begin_locked(path_id, job.tag, where)
    else:
        archive.remember_locked(name, where)
    remove_folder(job.folder)


def has_lost(report: IngestReport, allowed: float) -> bool:
    """Return whether more than the ``allowed`` share of attempts lack their task, or of verdicts their attempt.

    If all tasks are missing, the import holds only attempts and comes before the import of its tasks: then nothing counts as lost.
    """
    halves = zip(report.orphans.values(), ("attempts", "verdicts"), ("tasks", "attempts"), strict=True)
    lost = [(count, name, other) for count, name, other in halves if count > allowed * report.written[name]]
    return any(report.bad or report.written[other] or count < report.written[name] for count, name, other in lost)


def find_source(source: str | Source, options: Mapping[str, Any]) -> tuple[str, Source, dict[str, Any]]:
    """Return the name of a source, the source, and options with values of its types; SourceError if there is no such source or option."""
    label = source.replace(".py:", ":") if isinstance(source, str) else f"{source.read.__module__}.{source.read.__qualname__}"
    if label not in names("source") and label in {*Kind}:
        raise SourceError(f"no source {label!r}; the source `table` reads .{label} files: upsolve ingest table FILE ARCHIVE")
    try:
        record: Source = find("source", label if isinstance(source, str) else source)
        return label, record, parse_options(f"source {label}", record.options, options)
    except ValueError as error:
        raise SourceError(str(error)) from error


def finish(archive: Archive, job: Job, journals: Sequence[Journal], file: Path, where: str) -> IngestReport:
    """Settle the tasks of an import whose shares are done, remove records that earlier imports of its path stored, and return its counts."""
    settled, stored = settle(job, file), drop_stored(archive, job, where)
    counts: dict[str, Any] = {name: sum(getattr(journal, name) for journal in journals) for name in COUNTS}
    total = Journal(**counts)
    report = IngestReport(read=total.read - total.left_out, odd=total.odd, rows=total.rows, left_out=total.left_out - total.odd)
    new, written = count_records(archive, job.tag, report)
    report.written = Counter(tasks=total.tasks + total.repeated, attempts=written, verdicts=total.verdicts - settled.verdicts)
    report.added = Counter(
        tasks=total.tasks - settled.repeated - settled.bad,
        attempts=new,
        verdicts=total.verdicts - settled.verdicts - stored["verdicts"],
        repeated=total.repeated + settled.repeated + sum(stored.values()) + written - new,
    )
    report.bad = total.bad + settled.bad + settled.attempts + settled.verdicts
    report.examples = [one for journal in journals for one in journal.examples][:3]
    return report


def join_rejected(job: Job, name: str) -> tuple[Path, list[BadRow], int]:
    """Write the rejected records, which each batch has in its own file, into one file; return it, three of different reasons if there are, and of how many rows they are at least.

    Several records of a row count once. Records that are rejected after all shares are stored have no line, and may belong to a counted row.
    """
    joined = job.archive / "rejected" / name
    first, places, without = list[BadRow](), set[tuple[str, int]](), 0
    with replaced(joined) as temporary, temporary.open("wb") as out:
        for file in sorted(fresh(job.folder).glob("*.jsonl")):
            with file.open("rb") as lines:
                for line in lines:
                    out.write(line)
                    row = BadRow(**json.loads(line))
                    keep_example(first, row)
                    if row.line:
                        places.add((row.file, row.line))
                    else:
                        without += not file.name.startswith("settled.verdicts")
    return joined, first, max(len(places), without)


WRITTEN = "select count(*) from new_attempts"
NEW = "select count(*) from (select distinct attempt_id from new_attempts) where attempt_id not in (select attempt_id from old_attempts)"
NO_TASK = "select count(*), any_value(task_id) from new_attempts where task_id not in (select task_id from tasks)"
OTHER_LANGUAGE = """
select count(*), any_value(old.task_id), any_value(old.language), any_value(new.language)
from old_attempts old join new_tasks new using (task_id) where new.language not in ('', old.language)
"""
NO_ATTEMPT = "select count(*) from new_verdicts where attempt_id not in (select attempt_id from attempts)"


def count_records(archive: Archive, tag: str, report: IngestReport) -> tuple[int, int]:
    """Return the number of attempts under a tag that no other part has, and the number of all; report attempts without a task in the archive."""
    parts = {name: archive.parts(name) for name in TABLES}
    by_age: dict[str, list[Path]] = {f"{age}_{name}": [] for name in TABLES for age in ("old", "new")}
    for name, files in parts.items():
        for part in files:
            by_age[f"{'new' if part.stem.endswith(f'-{tag}') else 'old'}_{name}"].append(part)
    count = counted if is_small(parts) else queried
    (without_task, missing), without_attempt, written, new, (others, task_id, stored, language) = count(by_age)
    report.orphans = {"attempts without a task": without_task, "verdicts without an attempt": without_attempt}
    report.missing = missing or ""
    if others:
        report.mistaken = (
            f"{others} attempts of earlier imports are in another language than their tasks of this one ({task_id}: {stored}, not {language})"
            ": if they have no language of their own, import the tasks first, into a new archive"
        )
    return new, written


Counts = tuple[tuple[int, str | None], int, int, int, tuple[int, str | None, str | None, str | None]]
"""Results of ``NO_TASK``, ``NO_ATTEMPT``, ``WRITTEN``, ``NEW`` and ``OTHER_LANGUAGE``."""


def queried(parts: Mapping[str, Sequence[Path]]) -> Counts:
    """Count by queries of DuckDB; ``parts``: ``old_`` or ``new_`` and the name of a table -> its files."""
    with connect({}) as connection:
        for name, files in parts.items():
            register_parts(connection, name, files, table=name.partition("_")[2])
        for name in TABLES:
            connection.execute(f"create view {name} as from old_{name} union all by name from new_{name}")
        lacking, (alone,), (written,), (new,), others = (
            connection.sql(sql).fetchall()[0] for sql in (NO_TASK, NO_ATTEMPT, WRITTEN, NEW, OTHER_LANGUAGE)
        )
        return lacking, alone, written, new, others


def counted(parts: Mapping[str, Sequence[Path]]) -> Counts:
    """Count as ``queried`` does, but in memory: opening DuckDB takes longer than the rest of a small import."""
    columns = {"tasks": ["task_id", "language"], "attempts": ["task_id", "attempt_id", "language"], "verdicts": ["attempt_id"]}
    rows = {
        name: [row for part in files for row in read_part(part, columns[name.partition("_")[2]]).to_pylist()]
        for name, files in parts.items()
    }
    tasks = {row["task_id"] for row in (*rows["old_tasks"], *rows["new_tasks"])}
    earlier, these = ({row["attempt_id"] for row in rows[f"{age}_attempts"]} for age in ("old", "new"))
    lacking = [row["task_id"] for row in rows["new_attempts"] if row["task_id"] not in tasks]
    attempts, languages = earlier | these, dict[str, list[str]]()
    for row in rows["new_tasks"]:
        if row["language"]:
            languages.setdefault(row["task_id"], []).append(row["language"])
    others = [
        (row["task_id"], row["language"], language)
        for row in rows["old_attempts"]
        for language in languages.get(row["task_id"], ())
        if row["language"] not in (None, language)
    ]
    first = others[0] if others else (None, None, None)
    return (
        (len(lacking), next(iter(lacking), None)),
        sum(row["attempt_id"] not in attempts for row in rows["new_verdicts"]),
        len(rows["new_attempts"]),
        len(these - earlier),
        (len(others), first[0], first[1], first[2]),
    )


STORED = """
with before as (select attempt_id, hash({columns}) as content, count(*) as times from old group by all),
     hashed as (select place, attempt_id, hash({columns}) as content from new),
     now as (select *, row_number() over (partition by attempt_id, content order by place) as number from hashed)
select place from now join before using (attempt_id, content) where number <= times order by place
"""


def drop_stored(archive: Archive, job: Job, where: str) -> dict[str, int]:
    """Remove attempts and verdicts that earlier imports of the same path have stored from the parts of an import; return the number of each.

    The removals are recorded before they start, so that they can be repeated after an interruption.
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
    """Return the rows of an import that earlier imports have stored: for each part its number of rows, and runs of those rows.

    Compaction merges parts of several imports, so the rows of a merged part may belong to any of them.
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
