"""Whether tests can fail and can be passed: the tests of each task run with an empty program, a constant one, and one that should pass.

Results are stored in ``sanity.jsonl`` of the archive, a line a task, so that no task is checked twice.
"""

import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from os import SEEK_END
from typing import Any

import pyarrow as pa

from upsolve.archive.database import connect
from upsolve.archive.places import fresh
from upsolve.archive.preference import OUTCOMES
from upsolve.archive.schema import TABLES
from upsolve.archive.store import Archive
from upsolve.errors import ArchiveError
from upsolve.files import is_remote, json_lines, read_rows, write_text
from upsolve.languages import PYTHON, languages
from upsolve.records import from_row
from upsolve.types import Attempt, OnProgress, Status, Task, TestKind, Verdict, content_id, full_repr, no_progress
from upsolve.verify.changes import JUDGE_VERSION
from upsolve.verify.judge.tested import called_names
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.pool.pool import judged

__all__ = ["FOUND", "Sanity", "check_sanity"]

FILE = "sanity.jsonl"
EVERY = 1000
"""Number of tasks whose results are stored together."""
ROWS = 200
"""Number of tasks that are read at once."""
PLAIN: Mapping[str, Any] = {"analyses": (), "repeats": 1, "lines": False, "cost": 0}
"""Judge settings that do not change outcomes, at their cheapest values."""
FOUND: Mapping[str, tuple[str, bool]] = {
    "empty": ("passed by an empty program", True),
    "constant": ("passed by a constant program", True),
    "reference": ("failed by their own reference", False),
    "recorded": ("failed by an attempt that is recorded as passed", False),
}
"""Program -> text of the finding, and whether passing is the fault. ``empty`` does nothing: no code, or a function without a body. ``constant``
returns True, or prints 1. ``recorded`` stands for a passed attempt if a task has no reference."""

CHOSEN = """
create table chosen as select task_id, min(place) as first, max(place) as place, row_number() over (order by hash(task_id)) as number
from tasks where len(tests) > 0 and task_id not in (select task_id from stored where not ?) group by task_id order by number limit ?
"""
PASSED = f"""
create table passing as select task_id, code, language from attempts
    semi join (select attempt_id from ({OUTCOMES}) where status = 'passed') using (attempt_id) semi join chosen using (task_id)
qualify row_number() over (partition by task_id order by place) = 1
"""  # noqa: S608  names of ours
COLUMNS = ", ".join(f'tasks."{name}"' for name in TABLES["tasks"].names)
TO_CHECK = f"""
select {COLUMNS}, passing.code as passing_code, passing.language as passing_language
from tasks join chosen using (place) left join passing on passing.task_id = tasks.task_id order by number
"""  # noqa: S608  names of ours


@dataclass(frozen=True, slots=True)
class Sanity:
    """Results of the tasks of an archive that have tests."""

    tasks: int
    """Tasks with tests."""
    rows: Mapping[str, Mapping[str, Any]]
    """Task id -> program in ``FOUND`` -> status, for all tasks that were checked, now or before."""
    reasons: Mapping[str, str]
    """Task id -> reason why it could not be judged."""

    def found(self, program: str) -> list[str]:
        """Return the tasks whose tests are wrong about a program in ``FOUND``, sorted."""
        _, passes = FOUND[program]
        known = ((task_id, row[program]) for task_id, row in self.rows.items() if program in row)
        return sorted(task_id for task_id, status in known if (status == Status.PASSED) == passes)

    @property
    def left(self) -> int:
        """Number of tasks that have not been checked."""
        return max(0, self.tasks - len(self.rows) - len(self.reasons))

    def facts(self) -> dict[str, Any]:
        """Return the results as plain data."""
        counts = {"tasks": self.tasks, "checked": len(self.rows), "unscored": dict(Counter(self.reasons.values()))}
        return counts | {program: self.found(program) for program in FOUND}

    def lines(self, archive: str) -> list[str]:
        """Return the faults as lines of text, each with its first three tasks; [] if there are no faults and all tasks are checked."""
        found = {about: self.found(program) for program, (about, _) in FOUND.items()}
        lines = [f"{len(ids):,} tasks are {about}: {', '.join(ids[:3])}" for about, ids in found.items() if ids]
        for reason, number in Counter(self.reasons.values()).most_common(3):
            lines.append(f"{number:,} tasks could not be checked: {reason}")
        if self.left:
            rest = f"`upsolve archive doctor {archive}` checks the rest"
            lines.append(f"checked {self.tasks - self.left:,} of {self.tasks:,} tasks; {rest}")
        return lines


def check_sanity(
    archive: Archive,
    settings: JudgeSettings | None = None,
    *,
    most: int = 0,
    seconds: float = float("inf"),
    progress: OnProgress = no_progress,
) -> Sanity:
    """Judge an empty program, a constant one, and the reference or a passed attempt at each task, and store the results.

    Args:
        archive: the archive; results are not stored in one that cannot be written.
        settings: limits and isolation of the judge, as ``verify`` uses them.
        most: largest number of tasks that are judged, chosen at random by their ids among those without a result; 0: all, also those whose
            tests or judge have changed since.
        seconds: time after which no further task is begun.
        progress: called with the tasks done and all that are judged.

    Raises:
        IsolationError: a required layer of the sandbox is missing here.
    """
    stored = read_results(archive)
    with tasks_to_check(archive, stored, most) as (total, chosen, tasks):
        checking = Checking(stored, time.monotonic() + seconds)
        try:
            pairs = checking.pairs(tasks)
            for index, verdict in judged(pairs, replace(settings or JudgeSettings(), **PLAIN)) if chosen else ():
                checking.take(index, verdict)
                if len(checking.fresh) == EVERY:
                    append_results(archive, checking.fresh)
                progress("check tests", checking.done, chosen)
        finally:
            append_results(archive, checking.fresh)
    return Sanity(total, stored, checking.reasons)


@contextmanager
def tasks_to_check(
    archive: Archive, stored: Mapping[str, Any], most: int
) -> Generator[tuple[int, int, Iterator[tuple[Task, Attempt | None]]]]:
    """Yield the number of tasks with tests, then that of tasks to check, then these tasks, each with a passed attempt, if any."""
    with connect({name: archive.parts(name) for name in TABLES}, places=True) as connection:
        connection.register("stored", pa.table({"task_id": pa.array([*stored], pa.string())}))

        def number(sql: str) -> int:
            return int(connection.sql(sql).fetchall()[0][0])

        total = number("select count(distinct task_id) from tasks where len(tests) > 0")
        connection.execute(CHOSEN, [most == 0, most or total])

        def read() -> Iterator[tuple[Task, Attempt | None]]:
            connection.execute(PASSED)
            for batch in connection.sql(TO_CHECK).to_arrow_reader(ROWS):
                for row in batch.to_pylist():
                    code, language = row.pop("passing_code"), row.pop("passing_language")
                    yield from_row(Task, row), None if code is None else Attempt(row["task_id"], code, language or "python")

        chosen = number("select count(*) from chosen")
        yield total, chosen, read()


class Checking:
    """The programs of a check and its results."""

    def __init__(self, stored: dict[str, dict[str, Any]], stop: float) -> None:
        """Begin without results.

        Args:
            stored: task id -> stored result; new ones are added.
            stop: time (``time.monotonic``) from which on no further task is begun.
        """
        self.stored, self.stop = stored, stop
        self.asked: dict[int, tuple[str, str]] = {}
        """Number of a program that is being judged -> its task and its name in ``FOUND``."""
        self.rows: dict[str, dict[str, Any]] = {}
        """Results of the tasks that are being checked."""
        self.fresh: list[dict[str, Any]] = []
        """New results that are not stored yet."""
        self.reasons: dict[str, str] = {}
        """Task id -> reason why it could not be judged."""
        self.done = 0
        """Tasks that are checked, or were before."""

    def pairs(self, tasks: Iterator[tuple[Task, Attempt | None]]) -> Iterator[tuple[Task, Attempt]]:
        """Yield the programs of each task that has no valid result."""
        numbers = count()
        for task, passed in tasks:
            if time.monotonic() > self.stop:
                return
            key, programs = key_of(task, passed), dict(programs_of(task, passed))
            if self.stored.get(task.task_id, {}).get("key") == key:
                self.done += 1
                continue
            self.rows[task.task_id] = {"task_id": task.task_id, "key": key} | dict.fromkeys(programs)
            for name, attempt in programs.items():
                self.asked[next(numbers)] = task.task_id, name
                yield task, attempt

    def take(self, index: int, verdict: Verdict) -> None:
        """Record the verdict on a program."""
        task_id, name = self.asked.pop(index)
        row = self.rows[task_id]
        row[name] = verdict.status.value
        if verdict.status is Status.UNSCORED:
            reason = (verdict.error_message.splitlines() or ["no reason given"])[0]
            self.reasons[task_id] = reason.removeprefix(f"task {task_id}: ").partition("; known: ")[0]
        if None in row.values():
            return
        self.done += 1
        del self.rows[task_id]
        self.stored.pop(task_id, None)
        if task_id not in self.reasons:
            self.stored[task_id] = row
            self.fresh.append(row)


def key_of(task: Task, passed: Attempt | None) -> str:
    """Return a content id of everything that determines a result: task, passed attempt and version of the judge."""
    return content_id(full_repr(replace(task, prompt="", extra="")), passed.attempt_id if passed else "", str(JUDGE_VERSION))


def programs_of(task: Task, passed: Attempt | None) -> Iterator[tuple[str, Attempt]]:
    """Yield the programs to try on a task by their names in ``FOUND``."""
    language = task.language or "python"
    for name, body in (("empty", "pass"), ("constant", "return True")):
        code = program(task, language, body)
        if code is not None:
            yield name, Attempt(task.task_id, code, language)
    if task.reference.strip():
        yield "reference", Attempt(task.task_id, task.reference, language)
    elif passed is not None:
        yield "recorded", passed


def program(task: Task, language: str, body: str) -> str | None:
    """Return the empty or the constant program; None if no constant program can be written for this task."""
    empty, kinds = body == "pass", {test.kind for test in task.tests}
    if language not in PYTHON:
        record = languages().get(language)
        constant = record.constant if record and kinds == {TestKind.STDIO} else ""
        return "" if empty else constant or None
    names = [] if kinds <= {TestKind.STDIO, TestKind.SIMULATION} else functions_of(task)
    code = "" if empty or TestKind.STDIO not in kinds else "print(1)\n"
    for name in names:
        if name == "Solution":
            code += f"class Solution:\n    def __getattr__(self, name):\n        return method\n\n\ndef method(*args, **kwargs):\n    {body}\n"
        else:
            code += f"def {name}(*args, **kwargs):\n    {body}\n"
    return code if code or empty else None


def functions_of(task: Task) -> list[str]:
    """Return the names of the attempt that the tests use: functions, or the class ``Solution``."""
    found = called_names(task)
    names = found if found is not None else (task.entry_point.partition("(")[0],)
    return [name for name in names if name.isidentifier()]


def read_results(archive: Archive) -> dict[str, dict[str, Any]]:
    """Return the stored results by task id; a damaged line is skipped."""
    with suppress(OSError):
        return {str(row["task_id"]): row for row in read_rows(fresh(archive.path) / FILE) if "task_id" in row}
    return {}


def append_results(archive: Archive, rows: list[dict[str, Any]]) -> None:
    """Append results to the file of an archive and empty the list; a read-only archive stays unchanged."""
    text = json_lines(rows)
    rows.clear()
    with suppress(OSError, ArchiveError):
        if not text:
            return
        with archive.lock():
            file = fresh(archive.path) / FILE
            if is_remote(file):  # objects cannot grow
                write_text(file, (file.read_text(encoding="utf-8") if file.exists() else "") + text)
            else:
                with file.open("ab+") as out:
                    whole = not out.tell() or (out.seek(-1, SEEK_END) and out.read() == b"\n")
                    out.write(("" if whole else "\n").encode() + text.encode())
