"""The shares of an import. A share is some units of a source; its records are stored in batches, and every batch is recorded in a journal.

    imports/<tag>/00003.json            what share 3 has stored, replaced after each batch
    imports/<tag>/00003.00001.jsonl     rows of its batch 1 that were rejected
    imports/<tag>/00003.00001.places.json     files, and lines of tasks, of its records
    attempts/00000042-00003.00001-<tag>.parquet      its attempts; 42 is the number of the import

A part's name is that of its share and batch, so the order of the parts is that of the source, whichever worker wrote them when. A share that was
stopped reads its units again from their start, skips the rows that the journal counts, and resumes with the next batch.
"""

import json
import sys
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from itertools import groupby, islice
from pathlib import Path
from typing import Any, TypeVar

from upsolve.archive.database import write_records
from upsolve.archive.places import fresh
from upsolve.archive.schema import TABLES
from upsolve.archive.store import Archive
from upsolve.files import write_text
from upsolve.importers.rows import NOWHERE, BadRow, LeftOut, Odd, Row, counted, languages_from, place_of_row
from upsolve.importers.source import Source, Unit
from upsolve.plugins import find
from upsolve.records import are_plain, checked
from upsolve.types import Attempt, OnProgress, Task, Verdict, no_progress

__all__ = [
    "REMEDY",
    "Job",
    "Journal",
    "Place",
    "Tally",
    "all_places",
    "content_in",
    "import_share",
    "other_content",
    "places_of_part",
    "repeats",
]

BATCH, BATCH_CHARACTERS = 20_000, 1 << 26
"""Most records, and characters of tests and programs, that are held in memory and then written together."""
RECENT = 2 * BATCH
"""Number of recent attempts whose tasks are remembered for their verdicts."""
R = TypeVar("R", Task, Attempt, Verdict)


@dataclass(frozen=True, slots=True)
class Job:
    """An import with all data that a worker needs."""

    archive: Path
    """Folder of the archive."""
    source: str | Source
    """Source, or its name."""
    options: Mapping[str, Any]
    """Options of the source."""
    tag: str
    """Hexadecimal digits in the names of the parts."""
    number: int = 0
    """Number of the import, with which the names of its parts begin."""
    stored: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """``task_id`` -> content (``content_in``) of the tasks that other imports have stored."""
    seen: Sequence[str] = ()
    """Names of the parts from which ``stored`` was read."""

    @property
    def folder(self) -> Path:
        """Folder of the journals."""
        return self.archive / "imports" / self.tag

    def stem(self, share: int, batch: int) -> str:
        """Return the name of the parts of a batch, without its ending."""
        return f"{self.number:08d}-{share:05d}.{batch:05d}-{self.tag}"


@dataclass
class Tally:
    """Counts of records read, and of records that were rejected or changed."""

    read: int = 0
    """Records read, including rejected ones."""
    bad: int = 0
    """Unusable records, which were rejected."""
    left_out: int = 0
    """Tests that were left out of their tasks because they cannot fail; in a journal also the invalid optional fields."""
    odd: int = 0
    """Invalid optional fields, which are stored in ``extra``."""
    rows: int = 0
    """Rows of the files, each of which may hold several records; 0 if the source reads no rows."""
    examples: list[str] = field(default_factory=list[str])
    """The first three such tests or fields, each with file, line and reason."""


@dataclass
class Journal(Tally):
    """Records that a share has stored."""

    batches: int = 0
    """Batches stored."""
    checksum: int = 0
    """CRC-32 of the rows read. If the source yields other rows when it is read again, the share starts over."""
    tasks: int = 0
    """New tasks stored."""
    verdicts: int = 0
    """Verdicts stored."""
    repeated: int = 0
    """Tasks that were stored before."""
    done: bool = False
    """True if all units have been read."""


def import_share(
    job: Job,
    share: int,
    units: Sequence[Unit],
    *,
    on_rows: Callable[[int], None] | None = None,
    on_progress: OnProgress = no_progress,
) -> Journal:
    """Store the records of a share (its units, by its number in the import), from where it was stopped.

    ``on_rows`` is called after each batch with the number of rows that the share has read; ``on_progress`` is passed on to sources that report.
    """
    file = job.folder / f"{share:05d}.json"
    journal = Journal(**json.loads(file.read_text(encoding="utf-8"))) if file.exists() else Journal()
    if journal.done:
        return journal
    writer = Writer(job, share, journal, units[0].path)
    counted[0] = 0
    with languages_from(lambda task_id: writer.language_of(task_id)):
        rows = rows_of(job, units, on_progress)
        if not writer.skip(rows):
            writer, rows = Writer(job, share, Journal(), units[0].path), rows_of(job, units, on_progress)
            counted[0] = 0
        writer.drop_unrecorded()
        while batch := writer.take(rows):
            writer.store(batch)
            write_text(file, json.dumps(asdict(writer.journal)))
            if on_rows:
                on_rows(writer.journal.read)
    writer.journal.done, writer.journal.rows = True, counted[0]
    write_text(file, json.dumps(asdict(writer.journal)))
    return writer.journal


def rows_of(job: Job, units: Sequence[Unit], on_progress: OnProgress) -> Iterator[Row]:
    """Yield the records of units."""
    source: Source = find("source", job.source)
    reports = {"on_progress": on_progress} if source.reports else {}
    for unit in units:
        yield from source.read(unit.path, **{**job.options, **unit.options, **reports})


def checksum_of(checksum: int, row: Row) -> int:
    """Return the CRC-32 of rows, given the CRC-32 of the rows before."""
    if isinstance(row, Task):
        content = f"{row.task_id}\n{row.prompt}"
    elif isinstance(row, Attempt):
        content = f"{row.task_id}\n{row.code}"
    else:
        content = f"{row.attempt_id}\n{row.status}" if isinstance(row, Verdict) else f"{row.line}\n{row.reason}"
    return zlib.crc32(content.encode("utf-8", "surrogatepass"), checksum)


def characters_of(row: Row) -> int:
    """Return the number of characters of a task's tests or of an attempt's program; 0 for other records and for fields of a wrong type."""
    try:
        if isinstance(row, Task):
            return sum(len(test.input) + len(test.expected) for test in row.tests)
        return len(row.code) if isinstance(row, Attempt) else 0
    except (TypeError, AttributeError):
        return 0


class Writer:
    """Stores the records of a share."""

    def __init__(self, job: Job, share: int, journal: Journal, path: Path) -> None:
        """Set the import, the share's number and stored records, and the path for messages."""
        self.job, self.share, self.journal, self.path = job, share, journal, path
        self.tasks = dict[str, tuple[str, str]]()
        self.bad: list[BadRow] = []
        self.places = dict[int, Place]()
        """``id`` of each record of the batch -> file and line."""
        self.found = Places()
        """Files and lines of the records of the batch, for the journal."""
        self.languages, self.assumed = dict[str, str](), set[str]()
        """Languages, but for Python, of the tasks of the share; tasks at which attempts without a language were taken for Python."""
        self.tests, self.attempted = dict[str, int](), OrderedDict[str, str]()
        """Numbers of tests of the tasks of the share that have tests; tasks of its last ``RECENT`` attempts."""

    def skip(self, rows: Iterator[Row]) -> bool:
        """Skip the rows that are stored; return whether they are the same rows as when they were stored."""
        checksum, read = 0, 0
        for row in islice(rows, self.journal.read):
            checksum, read = checksum_of(checksum, row), read + 1
            self.note(row)
            if isinstance(row, Task) and self.is_usable(row):
                self.tasks.setdefault(row.task_id, content_in(row))
        return (checksum, read) == (self.journal.checksum, self.journal.read)

    def drop_unrecorded(self) -> None:
        """Remove what was written after the last entry of the journal."""
        start = f"{self.job.number:08d}-{self.share:05d}."
        for name in TABLES:
            for part in (self.job.archive / name).glob(f"{start}*-{self.job.tag}.*"):
                if part.suffix == ".tmp" or int(part.name[len(start) :][:5]) >= self.journal.batches:
                    part.unlink()
        for file in self.job.folder.glob(f"{self.share:05d}.*.*"):
            if file.suffix == ".tmp" or int(file.name[6:11]) >= self.journal.batches:
                file.unlink()

    def take(self, rows: Iterator[Row]) -> list[Row]:
        """Read the rows of the next batch."""
        batch, size = list[Row](), 0
        self.places.clear()
        for row in rows:
            batch.append(row)
            self.places[id(row)] = place_of_row()
            self.note(row)
            size += characters_of(row)
            if len(batch) >= BATCH or size >= BATCH_CHARACTERS:
                break
        return batch

    def store(self, batch: Sequence[Row]) -> None:
        """Write a batch, without tasks that are stored already, and count it in the journal."""
        self.bad, self.found = [row for row in batch if isinstance(row, BadRow)], Places()
        tasks = self.usable([row for row in batch if isinstance(row, Task)])
        attempts = self.usable([row for row in batch if isinstance(row, Attempt)])
        verdicts = [*filter(self.fits, self.usable([row for row in batch if isinstance(row, Verdict)]))]
        old = self.journal
        fresh = [row for row in tasks if self.is_new(row)]
        stem = self.job.stem(self.share, old.batches)
        for name, records in (("tasks", fresh), ("attempts", attempts), ("verdicts", verdicts)):
            if records:
                write_records(self.job.archive / name / f"{stem}.parquet", records)
        self.bad.sort(key=lambda row: (row.file, row.line))
        self.found.attempts, self.found.verdicts = self.files_of(attempts), self.files_of(verdicts)
        self.found.assumed = sorted(self.assumed)
        write_text(self.job.folder / f"{self.share:05d}.{old.batches:05d}.places.json", json.dumps(asdict(self.found)))
        if self.bad:
            lines = (json.dumps(asdict(row)) + "\n" for row in self.bad)
            write_text(self.job.folder / f"{self.share:05d}.{old.batches:05d}.jsonl", "".join(lines))
        dropped = [row for row in batch if isinstance(row, LeftOut)]
        self.journal = replace(
            old,
            left_out=old.left_out + len(dropped),
            odd=old.odd + sum(isinstance(row, Odd) for row in dropped),
            rows=counted[0],
            examples=[*old.examples, *map(self.example_of, dropped[:3])][:3],
            read=old.read + len(batch),
            batches=old.batches + 1,
            checksum=reduce(checksum_of, batch, old.checksum),
            tasks=old.tasks + len(fresh),
            verdicts=old.verdicts + len(verdicts),
            bad=old.bad + len(self.bad),
        )

    def usable(self, records: list[R]) -> list[R]:
        """Return the records whose fields have the right types; rejects the others."""
        return records if not records or are_plain(records) else [record for record in records if self.is_usable(record)]

    def is_usable(self, record: Row) -> bool:
        """Return whether the fields of a record have the right types; if not, reject it."""
        try:
            checked(record)  # type: ignore[type-var]
        except ValueError as error:
            self.bad.append(BadRow(*self.place_of(record), str(error), str(record)[:500]))
            return False
        return True

    def is_new(self, task: Task) -> bool:
        """Return whether a task must be stored; rejects a task whose id is stored with different content.

        A task that this share has stored in another language is stored again: ``settle`` merges both into one task of any language.
        """
        content = content_in(task)
        stored = self.job.stored.get(task.task_id) or self.tasks.get(task.task_id)
        self.tasks.setdefault(task.task_id, content)
        found = self.found.others if stored and stored[0] != content[0] else self.found.tasks
        found.setdefault(task.task_id, []).append(self.places[id(task)])
        if stored is None or (stored[0] == content[0] and not repeats(content, stored) and task.task_id not in self.job.stored):
            return True
        if repeats(content, stored):
            self.journal.repeated += 1
        else:
            self.bad.append(other_content(*self.place_of(task), task, stored))
        return False

    def example_of(self, test: LeftOut) -> str:
        """Return a test that is left out as text, with its place."""
        file, line = (test.file, test.line) if test.file else self.place_of(test)
        return f"{file}{f', line {line}' if line else ''}: {test.text.strip()[:80]!r} {test.reason}"

    def place_of(self, record: Row) -> tuple[str, int]:
        """Return file and line of a record of the batch; the path and 0 if the reader gives no place."""
        file, line = self.places.get(id(record), NOWHERE)
        return file or str(self.path), line

    def note(self, row: Row) -> None:
        """Remember the language of a task (unless Python), its number of tests, and the task of an attempt."""
        try:
            if isinstance(row, Task):
                if row.language not in ("", "python"):
                    self.languages.setdefault(row.task_id, row.language)
                if row.tests:
                    self.tests.setdefault(row.task_id, len(row.tests))
            elif isinstance(row, Attempt):
                self.attempted[row.attempt_id] = row.task_id
                self.attempted.move_to_end(row.attempt_id)
                if len(self.attempted) > RECENT:
                    self.attempted.popitem(last=False)
        except (TypeError, AttributeError):
            pass  # fields of a wrong type, which are rejected later

    def fits(self, verdict: Verdict) -> bool:
        """Return whether a verdict has as many outcomes as its task has tests, if both are known; otherwise reject it.

        A judge may stop at the first failure, so ``total`` counts if it is larger than the number of outcomes.
        """
        if not verdict.outcomes:
            return True
        tests, found = self.tests.get(self.attempted.get(verdict.attempt_id, ""), 0), max(verdict.total, len(verdict.outcomes))
        if not tests or found == tests:
            return True
        reason = f"outcomes of {found} tests, and the task has {tests}: which test each belongs to is not known"
        self.bad.append(BadRow(*self.place_of(verdict), reason, str(verdict)[:500]))
        return False

    def language_of(self, task_id: str) -> str:
        """Return the language of a task in the share or another import; empty for any language, Python, or an unknown task."""
        stored = self.job.stored.get(task_id)
        if stored is None and task_id not in self.languages:
            self.assumed.add(task_id)
        return stored[1] if stored else self.languages.get(task_id, "")

    def files_of(self, records: Sequence[Row]) -> list[tuple[str, int]]:
        """Return the files of records in their order, each with the number of its records."""
        return [(file, sum(1 for _ in same)) for file, same in groupby(self.places[id(record)][0] for record in records)]


REMEDY = "give one of the two a new id (of a table: import its file alone, with --name PREFIX of its ids, into a new archive)"
Place = tuple[str, int]
"""File and line; ("", 0) if a reader does not report them."""


@dataclass(slots=True)
class Places:
    """Places (file and line) of the records of a batch."""

    tasks: dict[str, list[Place]] = field(default_factory=dict[str, list[Place]])
    """Tasks that are stored now, or equal a stored one."""
    others: dict[str, list[Place]] = field(default_factory=dict[str, list[Place]])
    """Tasks that were rejected because another task has their id."""
    attempts: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """(file, number of consecutive attempts from it), in the order of the attempts."""
    verdicts: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """(file, number of consecutive verdicts from it), in the order of the verdicts."""
    assumed: list[str] = field(default_factory=list[str])
    """Tasks whose attempts without a language were taken for Python."""


def places_of_part(folder: Path, part: Path) -> Places:
    """Return the places of the records in a part, given the folder of its import."""
    file = folder / f"{part.stem.split('-')[1]}.places.json"
    return Places(**json.loads(file.read_text(encoding="utf-8"))) if file.exists() else Places()


def all_places(folder: Path) -> Iterator[tuple[str, Places]]:
    """Yield each batch of an import: its share, and the places of its records."""
    for file in sorted(fresh(folder).glob("*.places.json")):
        yield file.name.partition(".")[0], Places(**json.loads(file.read_text(encoding="utf-8")))


def content_in(task: Task) -> tuple[str, str]:
    """Return (content id without the language, language): tasks that differ only in language become one task in any language."""
    return Archive.content_of(replace(task, language="")), sys.intern(task.language)


def repeats(content: tuple[str, str], stored: tuple[str, str]) -> bool:
    """Return whether a task (``content_in``) equals a stored one, which may be of any language."""
    return stored in (content, (content[0], ""))


def other_content(file: str, line: int, task: Task, stored: tuple[str, str]) -> BadRow:
    """Return the rejection of a task that is stored with different content (``content_in``)."""
    content, language = stored
    reason = f"task {task.task_id} is stored with different content; give one of the two a new id"
    if content == content_in(task)[0]:
        reason = (
            f"task {task.task_id} is stored in {language}, and here in {task.language or 'any language'}; import both at once (as a folder; "
            "CodeNet: --language all) into a new archive, so that it accepts any language, or give one of the two a new id"
        )
    return BadRow(file, line, reason, str(task)[:500])
