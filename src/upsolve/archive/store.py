"""An archive: a folder of Parquet parts, append-only.

    archive.json          {"schema": 1, "ingested": [...]}
    tasks/00000001-<content>.parquet     attempts/...     verdicts/...

A part is written to a temporary file, flushed, and renamed, so a reader never sees an incomplete one. Reading merges the parts: an attempt
stored k times is one attempt with count k. Of several verdicts by one judge on one attempt, the last scored one is used.
"""

import json
import re
import shutil
import warnings
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from upsolve.archive.database import connect, is_merged, name_damaged, none_of, read_part, rows_of, write_records
from upsolve.archive.groups import open_groups
from upsolve.archive.labels import register_labels
from upsolve.archive.places import SHIPPED, fresh, is_url, locked, place_of, refuse_shipped, remove_folder
from upsolve.archive.preference import register_contradictions, register_scores
from upsolve.archive.schema import OLDEST, SCHEMA, TABLES
from upsolve.errors import ArchiveError, SchemaError, SourceError, counted, one_line
from upsolve.files import is_remote, write_text
from upsolve.plugins import find
from upsolve.records import from_row
from upsolve.types import Attempt, Group, Status, Task, Verdict, content_id, full_repr, html_facts

__all__ = [
    "Appended",
    "Archive",
    "archive_for_import",
    "copy_archive",
    "create_archive",
    "open_archive",
    "open_filled",
    "read_tasks",
]

META = "archive.json"
KINDS = {"tasks": Task, "attempts": Attempt, "verdicts": Verdict}


@dataclass(frozen=True, slots=True)
class Appended:
    """Counts of the records that one append has written."""

    tasks: int
    """New tasks."""
    attempts: int
    """New distinct attempts."""
    repeated: int
    """Attempts that were stored before, or occur twice in this append: their counts increase."""
    verdicts: int
    """Verdicts written."""


class Archive:
    """A store of tasks, attempts and verdicts."""

    def __init__(self, path: str | Path) -> None:
        self.path = place_of(path)
        self.meta()

    def __repr__(self) -> str:
        return f"Archive({str(self.path)!r})"

    def _repr_html_(self) -> str:
        """Return the folder and the numbers of stored records, for a notebook."""
        rows = {name: sum(pq.read_metadata(fresh(part)).num_rows for part in self.parts(name)) for name in TABLES}
        return html_facts(
            "Archive", {"folder": str(self.path), **{name: counted(count, "row") for name, count in rows.items()}}
        )

    @classmethod
    def create(cls, path: str | Path) -> "Archive":
        """Open an archive; create it if it does not exist."""
        folder = place_of(path)
        for name in () if is_remote(folder) else TABLES:
            (folder / name).mkdir(parents=True, exist_ok=True)
        if not (folder / META).exists():
            write_text(folder / META, json.dumps({"schema": SCHEMA, "ingested": []}))
        return cls(folder)

    def meta(self) -> dict[str, Any]:
        """Return the content of archive.json.

        Raises:
            ArchiveError: the folder is not an archive, or the file is damaged.
            SchemaError: the archive was written by an incompatible version.
        """
        file = self.path / META
        try:
            data: dict[str, Any] = json.loads(fresh(file).read_text(encoding="utf-8"))
            version = data["schema"]
        except NotADirectoryError as error:
            raise ArchiveError(
                f"{self.path}: a file, not an archive; import it with `upsolve ingest SOURCE {self.path} ARCHIVE`"
            ) from error
        except FileNotFoundError as error:
            fix = nearest(self.path) or "create one with `upsolve ingest`"
            raise ArchiveError(f"{self.path}: not an archive ({META} is missing); {fix}") from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ArchiveError(f"{file}: damaged: {error}") from error
        except Exception as error:  # every remote file system has its own
            raise ArchiveError(f"{file}: cannot be read: {type(error).__name__}: {error}") from error
        if version not in range(OLDEST, SCHEMA + 1):
            raise SchemaError(f"{file}: schema version {version}, this upsolve reads {OLDEST} to {SCHEMA}; upgrade it")
        return data

    @contextmanager
    def lock(self) -> Generator[None, None, None]:
        """Lock the archive for writing; ArchiveError for an archive of the package."""
        for name, folder in SHIPPED.items():
            if self.path == folder:
                refuse_shipped(name)
        with locked(self.path / "lock"):
            yield

    def append(
        self, *, tasks: Iterable[Task] = (), attempts: Iterable[Attempt] = (), verdicts: Iterable[Verdict] = (), tag: str = ""
    ) -> Appended:
        """Append records, one part per kind, in the order tasks, attempts, verdicts, and count the new ones.

        Args:
            tasks: new tasks are written, stored ones are skipped.
            attempts: all are written; equal ones are merged when read.
            verdicts: all are written.
            tag: hexadecimal digits that become part of the file names, so that ``drop`` finds the parts.

        Raises:
            ArchiveError: a task with the same id and different content is stored.
        """
        new_tasks, new_attempts, new_verdicts = list(tasks), list(attempts), list(verdicts)
        with self.lock():  # what is compared is what is there when the records are written
            fresh, other = self.new_tasks(new_tasks)
            if other:
                raise ArchiveError(
                    f"{self.path}: already has a task {other[0].task_id} with different content; give one of the two a new id"
                )
            known = set(self.column("attempts", "attempt_id")) if new_attempts else set[str]()
            self.write_locked(fresh, new_attempts, new_verdicts, tag)
        distinct = {attempt.attempt_id for attempt in new_attempts} - known
        return Appended(len(fresh), len(distinct), len(new_attempts) - len(distinct), len(new_verdicts))

    def write(self, tasks: Sequence[Task], attempts: Sequence[Attempt], verdicts: Sequence[Verdict], *, tag: str = "") -> None:
        """Write records without comparing them with the stored ones, so that many writes take linear time."""
        with self.lock():
            self.write_locked(tasks, attempts, verdicts, tag)

    def write_locked(self, tasks: Sequence[Task], attempts: Sequence[Attempt], verdicts: Sequence[Verdict], tag: str) -> None:
        """Write records, while the archive is locked."""
        self.write_meta()
        for name, records in (("tasks", tasks), ("attempts", attempts), ("verdicts", verdicts)):
            if records:
                content = content_id(str(len(records)), str(records[0]))[:8]
                file = f"{self.next_number(name):08d}-{content}{tag and '-' + tag}.parquet"
                write_records(self.path / name / file, records)

    def new_tasks(self, tasks: Sequence[Task]) -> tuple[list[Task], list[Task]]:
        """Return the new tasks, and the tasks whose id is stored with different content."""
        known = {task.task_id: self.content_of(task) for task in self.tasks()} if tasks else {}
        fresh: list[Task] = []
        other: list[Task] = []
        for task in tasks:
            if task.task_id not in known:
                known[task.task_id] = self.content_of(task)
                fresh.append(task)
            elif known[task.task_id] != self.content_of(task):
                other.append(task)
        return fresh, other

    def next_number(self, *names: str) -> int:
        """Return a number for a new part, larger than that of any part of these tables."""
        files = (part for name in names for part in (fresh(self.path) / name).glob("*.parquet"))
        return 1 + max((int(part.name[:8]) for part in files), default=0)

    def drop(self, tag: str) -> None:
        """Remove the parts that were appended under a tag, such as the parts of an interrupted import."""
        with self.lock():
            for name in reversed(list(TABLES)):
                for part in (self.path / name).glob(f"*-{tag}.parquet"):
                    part.unlink()

    def parts(self, name: str) -> list[Path]:
        """Return the finished parts of a table, oldest first, without parts that a compaction has replaced."""
        merged: dict[str, Any] = self.meta().get("merged", {})  # before the files: what it names exists
        replaced = {old for entry in merged.values() for old in entry["replaced"]}
        files = {f"{name}/{part.name}": part for part in (fresh(self.path) / name).glob("*.parquet")}
        return sorted(part for key, part in files.items() if key not in replaced and (key in merged or not is_merged(part)))

    def table(self, name: str, columns: Sequence[str] | None = None) -> Any:
        """Return a table as an Arrow table, as written: all columns, or some.

        Raises:
            ArchiveError: a part is damaged: names it and the fix.
        """
        tables = [read_part(part, columns) for part in self.parts(name)]
        return pa.concat_tables(tables) if tables else none_of(TABLES[name]).select(columns or TABLES[name].names)

    def column(self, name: str, column: str) -> list[Any]:
        """Return one column of a table, without reading the others."""
        return self.table(name, [column]).column(column).to_pylist()

    def tagged(self, name: str, tag: str) -> list[Any]:
        """Return the records of one kind that were appended under a tag, duplicates included."""
        parts = [part for part in self.parts(name) if part.stem.endswith(f"-{tag}")]
        return [from_row(KINDS[name], row) for row in rows_of(parts)]

    def tasks(self) -> list[Task]:
        """Return all tasks, in the order of import."""
        return list({str(row["task_id"]): from_row(Task, row) for row in rows_of(self.parts("tasks"))}.values())

    def attempts(self) -> list[Attempt]:
        """Return the attempts in the order of import; attempts equal in every field are merged, and their counts added.

        Equal code with another author, time, parent or tokens is another attempt with the same ``attempt_id``, and shares its verdicts.
        """
        counts: Counter[Attempt] = Counter()
        for row in rows_of(self.parts("attempts")):
            counts[from_row(Attempt, {**row, "count": 1})] += row["count"]
        return [replace(attempt, count=count) if count != 1 else attempt for attempt, count in counts.items()]

    def verdicts(self) -> list[Verdict]:
        """Return one verdict per judge and attempt: the last scored one, or the last if none is scored."""
        last: dict[tuple[str, str], Verdict] = {}
        for row in rows_of(self.parts("verdicts")):
            verdict = from_row(Verdict, row)
            key = (verdict.attempt_id, verdict.judge)
            if verdict.status is not Status.UNSCORED or key not in last or last[key].status is Status.UNSCORED:
                last[key] = verdict
        return list(last.values())

    def groups(self, *, judge: str = "", labels: bool = False, turns: int = 0, language: str = "") -> Sequence[Group]:
        """Return every task that has attempts, with its attempts and their verdicts; a large archive's groups are read when accessed.

        Args:
            judge: whose verdicts count, such as ``recorded:codenet``, ``recorded`` or ``upsolve``; empty: the best by ``preferred``.
            labels: estimate the probability that each label is right (``archive.labels``).
            turns: most earlier attempts, found by ``parent_id``, that each attempt comes with (``Group.turns``).
            language: language that tasks of any language get; empty: these tasks stay unchanged.
        """
        parts = {name: self.parts(name) for name in TABLES}
        return open_groups(parts, self.tasks, judge=judge, labels=labels, turns=turns, language=language)

    def query(self, sql: str) -> Any:
        """Query the archive in SQL (DuckDB): views ``tasks``, ``attempts``, ``verdicts``; return an Arrow table.

        A query that mentions ``labels``, ``contradictions`` or ``scores`` finds the views of these names, too.

        Raises:
            ArchiveError: the query is invalid, or a statement before the last one returns rows; the message says where.
        """
        parts = {name: self.parts(name) for name in TABLES}
        with connect(parts) as connection:
            if re.search(r"\bcontradictions\b", sql, re.IGNORECASE):
                register_contradictions(connection, parts)
            if re.search(r"\bscores\b", sql, re.IGNORECASE):
                register_scores(connection, parts)
            if re.search(r"\blabels\b", sql, re.IGNORECASE):
                register_labels(connection)
            try:
                lost = [one for one in connection.extract_statements(sql)[:-1] if one.type is duckdb.StatementType.SELECT]
                if lost:
                    raise ArchiveError(
                        f"query: a result before the last statement cannot be shown; run it alone: {one_line(lost[0].query)[:80]}"
                    )
                answer: Any = connection.sql(sql)  # None after a statement that gives no rows
                return answer.to_arrow_table() if answer is not None else pa.table({})
            except duckdb.DatabaseError as error:  # other kinds of duckdb.Error come from a damaged part
                name_damaged(parts, error)
                raise ArchiveError(f"query: {one_line(error)}") from error

    def ingested(self) -> list[str]:
        """Return the ids of the finished imports."""
        return list(self.meta().get("ingested", []))

    def incomplete(self, where: str) -> str:
        """Return the tag of an import that was stopped, by its source, path and options, or of a failed one, by its path; or an empty text."""
        return str(self.meta().get("incomplete", {}).get(where, ""))

    def begin_locked(self, where: str, tag: str, instead: str) -> None:
        """Record an import, by its tag, as incomplete at ``where`` and no longer at ``instead``, while the archive is locked."""
        before = {k: other for k, other in self.meta().get("incomplete", {}).items() if k != instead}
        self.write_meta(incomplete={**before, where: tag})

    def remember_locked(self, import_id: str, where: str) -> None:
        """Record an import of a source and path as finished, while the archive is locked."""
        before, done = self.meta().get("incomplete", {}), self.meta().get("imports", {})
        left, tags = {k: tag for k, tag in before.items() if k != where}, [*done.get(where, []), content_id(import_id)]
        self.write_meta(import_id, incomplete=left, imports={**done, where: tags})

    def write_meta(self, *imported: str, **changed: dict[str, Any]) -> None:
        """Record imports, the current schema version, and other fields; nothing is written if nothing changes."""
        data = self.meta()
        new = {**data, "schema": SCHEMA, "ingested": [*data.get("ingested", []), *imported], **changed}
        new = {key: value for key, value in new.items() if value or key == "ingested"}
        if new != data:
            write_text(self.path / META, json.dumps(new))

    @staticmethod
    def content_of(task: Task) -> str:
        """Return a content id of a task: of all fields but ``source``, ``official`` and ``extra``."""
        return content_id(full_repr(replace(task, source="", official=False, extra="")))


def create_archive(path: str | Path) -> Archive:
    """Open the archive in a folder, or create an empty one; ArchiveError for a name in ``SHIPPED``."""
    refuse_shipped(path)
    return Archive.create(path)


def open_archive(name: str | Path) -> Archive:
    """Open an archive of the package by its name in ``SHIPPED``, or the archive in a folder or at a URL."""
    return Archive(SHIPPED.get(str(name), name))


def nearest(path: Path) -> str:
    """Return a question with the archives of a folder and of the package whose names resemble a path without an archive."""
    with suppress(OSError):  # the folder may not exist, or not be readable
        beside = [] if is_remote(path) else [each for each in path.parent.iterdir() if (each / META).is_file()]
        names = {each.name: str(each) for each in beside} | {name: name for name in SHIPPED}
        if close := get_close_matches(path.name, names, n=3):
            return f"did you mean {' or '.join(names[name] for name in close)}?"
    return ""


def open_filled(name: str | Path) -> Archive:
    """Open an archive as ``open_archive`` does; ArchiveError for one without tasks."""
    archive = open_archive(name)
    if not archive.parts("tasks"):
        raise ArchiveError(f"{name}: the archive holds no tasks; import some with `upsolve ingest`")
    return archive


def copy_archive(archive: Archive, folder: str | Path) -> Archive:
    """Copy an archive into a new folder or to a URL; ArchiveError if the target is not empty or cannot be written."""
    target = place_of(folder)
    if target.exists() and any(target.iterdir()):
        raise ArchiveError(f"{target}: the folder is not empty; copy the archive into a new folder")
    try:
        files = [file for file in archive.path.rglob("*") if file.is_file() and file.suffix not in (".tmp", ".lock")]
        files.sort(key=lambda file: file.name == META)  # archive.json last: an interrupted copy is not an archive
        for file in (file for file in files if file.name != "lock"):
            copy = target.joinpath(*file.relative_to(archive.path).parts)
            if not is_remote(copy):
                copy.parent.mkdir(parents=True, exist_ok=True)
            with file.open("rb") as read, copy.open("wb") as written:
                shutil.copyfileobj(read, written, 1 << 20)
    except OSError as error:
        raise ArchiveError(f"{target}: cannot be written: {error}") from error
    return Archive.create(target)


@contextmanager
def archive_for_import(path: str | Path) -> Generator[Archive]:
    """Open the archive in a folder, or create one, for the time of an import.

    If the import raises and has stored nothing, a new archive is removed. A folder that was created for it is removed if it is empty.
    """
    folder = place_of(path)
    made = [] if is_remote(folder) else [place for place in (folder, *folder.parents) if not place.exists()]
    is_new = not (folder / META).exists()
    archive = create_archive(path)
    try:
        yield archive
    except BaseException:
        if is_new and not any(archive.parts(name) for name in TABLES):
            remove_empty(archive)
            remove_empty_folders(made)
        raise


def remove_empty(archive: Archive) -> None:
    """Remove the files of an archive without parts, unless another import has begun in it."""
    with archive.lock():
        if len(list(fresh(archive.path / "imports").glob("*/plan.json"))) > 1:
            return
        remove_folder(archive.path / "imports")
        for name in (META, "lock"):
            (archive.path / name).unlink(missing_ok=True)
    remove_empty_folders([] if is_remote(archive.path) else [archive.path / name for name in TABLES])


def remove_empty_folders(folders: Iterable[Path]) -> None:
    """Remove folders one by one, up to the first that has files."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


def read_tasks(place: str, label: str) -> list[Task]:
    """Return the tasks of an archive or of ``source:path``; warns of the number of rows that the source could not use.

    Args:
        place: folder or name of an archive, or the name of a source and its file or folder: ``humaneval:HumanEval.jsonl.gz``.
        label: option or key that named the place, for messages.

    Raises:
        SourceError: the place is neither an archive nor ``source:path``, or a file cannot be read; the message says what is expected.
    """
    if place in SHIPPED or is_url(place) or (Path(place) / "archive.json").is_file():
        return open_archive(place).tasks()
    name, colon, path = place.rpartition(":")
    if not colon:
        what = "is not an archive" if Path(place).exists() else "no such archive, file or folder"
        raise SourceError(f"{label}: {what}; name a file of tasks with its source: humaneval:{place}")
    try:
        source = find("source", name)
    except ValueError as error:
        raise SourceError(f"{label}: {error}") from error
    tasks, unusable = source.tasks(Path(path))
    if unusable:
        warnings.warn(f"{label}: {len(unusable)} rows are left out, such as {unusable[0]}", stacklevel=2)
    if not tasks:
        raise SourceError(f"{label}: {'' if label == path else f'{path} '}contains no task of the source {name}")
    return tasks
