"""An archive: a folder of Parquet parts that only ever grows.

    archive.json          {"schema": 1, "ingested": [...]}
    tasks/00000001-<content>.parquet     attempts/...     verdicts/...

A part is written beside its place, flushed, and renamed: it is there whole or not at all. Reading puts the parts together:
an attempt seen k times is one attempt with count k, of verdicts by one judge on one attempt the last counts.
"""

import fcntl
import json
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from upsolve.archive.schema import OLDEST, SCHEMA, TABLES, to_table
from upsolve.errors import ArchiveError, SchemaError
from upsolve.files import commit_file, write_text
from upsolve.records import from_row
from upsolve.types import Attempt, Group, Task, Verdict, content_id

__all__ = ["EMBEDDED", "Appended", "Archive", "create_archive", "open_archive"]

META = "archive.json"
KINDS = {"tasks": Task, "attempts": Attempt, "verdicts": Verdict}

EMBEDDED = Path(__file__).parent / "embedded"
"""The archive that comes with the package."""


@dataclass(frozen=True, slots=True)
class Appended:
    """What one append added."""

    tasks: int
    """New tasks."""
    attempts: int
    """New distinct attempts."""
    repeated: int
    """Attempts that were there before, or twice in this append: their counts grew."""
    verdicts: int
    """Verdicts written."""


class Archive:
    """A store of tasks, attempts and verdicts."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.meta()

    @classmethod
    def create(cls, path: str | Path) -> "Archive":
        """Open an archive, made new where none is."""
        folder = Path(path)
        for name in TABLES:
            (folder / name).mkdir(parents=True, exist_ok=True)
        if not (folder / META).exists():
            write_text(folder / META, json.dumps({"schema": SCHEMA, "ingested": []}))
        return cls(folder)

    def meta(self) -> dict[str, Any]:
        """Return what archive.json says.

        Raises:
            ArchiveError: this is no archive, or the file is damaged.
            SchemaError: another version wrote it.
        """
        file = self.path / META
        try:
            data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            version = data["schema"]
        except FileNotFoundError as error:
            raise ArchiveError(f"{self.path}: no archive here ({META} is missing); make one with `upsolve ingest`") from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ArchiveError(f"{file}: damaged: {error}") from error
        if version not in range(OLDEST, SCHEMA + 1):
            raise SchemaError(f"{file}: schema version {version}, this program knows {OLDEST} to {SCHEMA}; use a newer upsolve")
        return data

    @contextmanager
    def lock(self) -> Generator[None, None, None]:
        """Keep other writers out."""
        with (self.path / "lock").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def append(
        self, *, tasks: Iterable[Task] = (), attempts: Iterable[Attempt] = (), verdicts: Iterable[Verdict] = (), tag: str = ""
    ) -> Appended:
        """Add records; all of a kind in one part, in the order tasks, attempts, verdicts.

        Args:
            tasks: those that are not there yet are added.
            attempts: all are written; equal ones are counted together when read.
            verdicts: all are written.
            tag: hexadecimal digits in the names of the parts, by which ``drop`` finds them.

        Raises:
            ArchiveError: a task of this id is there with another content.
        """
        with self.lock():
            fresh = self.new_tasks(list(tasks))
            every = list(attempts)
            known = set(self.column("attempts", "attempt_id")) if every else set[str]()
            distinct = {attempt.attempt_id for attempt in every} - known
            judged = list(verdicts)
            self.write_meta()
            for name, records in (("tasks", fresh), ("attempts", every), ("verdicts", judged)):
                if records:
                    self.write_part(name, records, tag)
        return Appended(len(fresh), len(distinct), len(every) - len(distinct), len(judged))

    def new_tasks(self, tasks: Sequence[Task]) -> list[Task]:
        """Return the tasks that are not there yet."""
        known = {task.task_id: task for task in self.tasks()} if tasks else {}
        fresh: list[Task] = []
        for task in tasks:
            old = known.setdefault(task.task_id, task)
            if old is task:
                fresh.append(task)
            elif old != task:
                raise ArchiveError(f"{self.path}: task {task.task_id} is there with another content; give one of them a new id")
        return fresh

    def write_part(self, name: str, records: Sequence[Task | Attempt | Verdict], tag: str) -> None:
        """Write one Parquet part, atomically."""
        table = to_table(name, records)
        number = 1 + max((int(part.name[:8]) for part in self.parts(name)), default=0)
        content = content_id(str(table.num_rows), str(records[0]))[:8]
        final = self.path / name / f"{number:08d}-{content}{tag and '-' + tag}.parquet"
        temporary = final.with_suffix(".tmp")
        pq.write_table(table, temporary, compression="zstd")
        commit_file(temporary, final)

    def drop(self, tag: str) -> None:
        """Remove the parts that were appended under a tag: what an import left that did not come to its end."""
        with self.lock():
            for name in reversed(list(TABLES)):
                for part in (self.path / name).glob(f"*-{tag}.parquet"):
                    part.unlink()

    def parts(self, name: str) -> list[Path]:
        """Return the finished parts of a table, oldest first."""
        return sorted((self.path / name).glob("*.parquet"))

    def table(self, name: str) -> Any:
        """Return a whole table (Arrow) as it was written.

        Raises:
            ArchiveError: a part is damaged: names it and the way out.
        """
        tables: list[Any] = []
        for part in self.parts(name):
            try:
                tables.append(pq.read_table(part, schema=TABLES[name]))
            except (OSError, pa.ArrowException) as error:
                raise ArchiveError(f"{part}: damaged ({error}); move it out of the archive to go on with the rest") from error
        return pa.concat_tables(tables) if tables else TABLES[name].empty_table()

    def column(self, name: str, column: str) -> list[Any]:
        """Return one column of a table."""
        values: list[Any] = self.table(name).column(column).to_pylist()
        return values

    def tagged(self, name: str, tag: str) -> list[Any]:
        """Return the records of one kind that were appended under a tag, as they were given, equal ones as well."""
        found: list[Any] = []
        for part in self.parts(name):
            if part.stem.endswith(f"-{tag}"):
                found += [from_row(KINDS[name], row) for row in pq.read_table(part, schema=TABLES[name]).to_pylist()]
        return found

    def tasks(self) -> list[Task]:
        """Return all tasks, in the order they came."""
        found = [from_row(Task, row) for row in self.table("tasks").to_pylist()]
        return list({task.task_id: task for task in found}.values())

    def attempts(self) -> list[Attempt]:
        """Return the distinct attempts in the order they were first seen, with their counts."""
        first: dict[str, Attempt] = {}
        counts: Counter[str] = Counter()
        for row in self.table("attempts").to_pylist():
            name = row["attempt_id"]
            counts[name] += row["count"]
            if name not in first:
                first[name] = from_row(Attempt, row)
        return [replace(attempt, count=counts[name]) for name, attempt in first.items()]

    def verdicts(self) -> list[Verdict]:
        """Return the verdicts; of one judge on one attempt only the last."""
        found = [from_row(Verdict, row) for row in self.table("verdicts").to_pylist()]
        return list({(verdict.attempt_id, verdict.judge): verdict for verdict in found}.values())

    def groups(self, *, judge: str = "") -> list[Group]:
        """Return every task that has attempts, with all of them and their verdicts.

        Args:
            judge: whose verdicts to take; empty prefers judges of our own (the last one) to recorded outcomes.
        """
        best: dict[str, Verdict] = {}
        for verdict in self.verdicts():
            if judge and verdict.judge != judge:
                continue
            old = best.get(verdict.attempt_id)
            if old is None or recorded(old) or not recorded(verdict):
                best[verdict.attempt_id] = verdict
        by_task: dict[str, list[Attempt]] = {}
        for attempt in self.attempts():
            by_task.setdefault(attempt.task_id, []).append(attempt)
        return [
            Group(task, tuple(mine), tuple(best.get(attempt.attempt_id) for attempt in mine))
            for task in self.tasks()
            if (mine := by_task.get(task.task_id))
        ]

    def query(self, sql: str) -> Any:
        """Ask the archive in SQL (DuckDB): views ``tasks``, ``attempts``, ``verdicts``; return an Arrow table.

        Raises:
            ArchiveError: the question is wrong; says where.
        """
        with duckdb.connect(":memory:", config={"autoinstall_known_extensions": "false"}) as connection:
            for name in TABLES:
                connection.register(name, self.table(name))
            try:
                answer: Any = connection.sql(sql)  # None after a statement that gives no rows
                return answer.to_arrow_table() if answer is not None else pa.table({})
            except duckdb.Error as error:
                raise ArchiveError(f"query: {error}") from error

    def ingested(self) -> list[str]:
        """Return the ids of the imports that are in."""
        return list(self.meta().get("ingested", []))

    def remember(self, import_id: str) -> None:
        """Note that an import is in."""
        with self.lock():
            self.write_meta(import_id)

    def write_meta(self, *imported: str) -> None:
        """Note imports, and the schema version that is written from now on; nothing is written when nothing changes."""
        data = self.meta()
        new = {**data, "schema": SCHEMA, "ingested": [*data.get("ingested", []), *imported]}
        if new != data:
            write_text(self.path / META, json.dumps(new))


def create_archive(path: str | Path) -> Archive:
    """Open the archive in a folder, or make an empty one there."""
    return Archive.create(path)


def open_archive(name: str | Path) -> Archive:
    """Open ``embedded`` or the archive in a folder."""
    return Archive(EMBEDDED if name == "embedded" else name)


def recorded(verdict: Verdict) -> bool:
    """Return whether a verdict came with the data instead of from a judge of ours."""
    return verdict.judge.startswith("recorded:")
