"""Cache of verdicts by content. A cache that fails is disabled with one warning."""

import json
import logging
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from platform import python_version

from upsolve.checkers import is_program, program_of
from upsolve.languages import ENGINES, PYTHON, languages, packages_folder
from upsolve.records import from_row, to_row
from upsolve.types import Attempt, Status, Task, Verdict, content_id
from upsolve.verify.analysis.analyst import tools
from upsolve.verify.changes import changes_since
from upsolve.verify.judge.outcomes import ELAPSED, JUDGE, shares_of
from upsolve.verify.limits import DECISIVE, JudgeSettings, limits_for

__all__ = ["VerdictCache", "key_of", "open_cache", "runtime"]

log = logging.getLogger(__name__)
KEYED = frozenset({"limits", "task_limits", "lines", "repeats", "analyses"})
"""Settings that are part of every cache key; limits are keyed as ``limits_for`` a task."""
DEFAULT = {name: getattr(JudgeSettings(), name) for name in DECISIVE}


@lru_cache(maxsize=64)
def task_key(task: Task, settings: JudgeSettings) -> str:
    """Return the content id of everything that decides a verdict besides attempt and runtime: tests, setup, limits, isolation and judge."""
    tests = [part for test in task.tests for part in (test.kind, test.input, test.expected, str(test.hidden))]
    limits = json.dumps(limits_for(task, settings).named(), sort_keys=True)
    others = {name: value for name in DECISIVE if name not in KEYED and (value := getattr(settings, name)) != DEFAULT[name]}
    checked_by = ""
    with suppress(ValueError):  # a program that cannot be read leaves attempts unscored
        checked_by = runtime(program.language) if (program := program_of(task.checker)) else ""
    return content_id(
        *(JUDGE, settings.isolation, limits, str((settings.lines, settings.repeats, tools(settings.analyses)))),
        *(task.setup, task.entry_point, task.reference, task.compare, task.checker, *task.requires),
        *([json.dumps([others, runtime(settings.python)])] if others else []),
        *(["by kind"] if len(shares_of(task)) > 1 else []),  # earlier verdicts on several kinds of tests are wrong
        *(["own files"] if task.checker else []),  # as are earlier ones of checkers in other languages than Python
        *([checked_by] if is_program(task.checker) else []),
        *tests,
    )


@cache
def runtime(name: str) -> str:
    """Return the identity of a language's runtime: its YAML file, and its interpreters, compilers or engine."""
    if name in PYTHON:
        return python_version()
    record = languages().get(name)
    if record and record.engine:
        versions = [file.name for name in ENGINES[record.engine] for file in packages_folder().glob(f"{name}-*.dist-info")]
        return repr((record, python_version(), sqlite3.sqlite_version, sorted(versions)))
    return record.identity if record else ""


def key_of(task: Task, attempt: Attempt, settings: JudgeSettings) -> str:
    """Return the content id of a verdict."""
    return content_id(task_key(task, settings), attempt.language, runtime(attempt.language), attempt.code)


def lasting(verdict: Verdict) -> bool:
    """Return whether a verdict is reproducible: it is scored, and has no timeout that a busy machine may have caused."""
    return verdict.status is not Status.UNSCORED and ELAPSED not in verdict.isolation.split(",")


class VerdictCache:
    """An SQLite file of verdicts, shared between processes."""

    def __init__(self, file: Path) -> None:
        self.file, self.base = file, None
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self.base = sqlite3.connect(file, timeout=60, isolation_level=None, check_same_thread=False)
            self.base.execute("PRAGMA journal_mode=WAL")
            self.base.execute("PRAGMA synchronous=NORMAL")
            self.base.execute("CREATE TABLE IF NOT EXISTS verdicts (key TEXT PRIMARY KEY, verdict TEXT) WITHOUT ROWID")
        except (OSError, sqlite3.Error) as error:
            self.give_up(error)

    def give_up(self, error: Exception) -> None:
        """Disable the cache and warn."""
        self.close()
        remedy = "set $UPSOLVE_CACHE to another folder, or verify.cache: false"
        log.warning("%s: verdicts are no longer cached there (%s); %s", self.file, error, remedy)

    def close(self) -> None:
        """Close the file."""
        base, self.base = self.base, None
        if base:
            base.close()

    def find(self, task: Task, attempt: Attempt, settings: JudgeSettings) -> Verdict | None:
        """Return the cached verdict for this content, with this attempt's id.

        Returns None if the cache has no verdict, cannot be read, or holds one that a later fix of the judge concerns.
        """
        if self.base is None:
            return None
        try:
            row = self.base.execute("SELECT verdict FROM verdicts WHERE key = ?", (key_of(task, attempt, settings),)).fetchone()
            found = replace(from_row(Verdict, json.loads(row[0])), attempt_id=attempt.attempt_id) if row else None
            return None if found and changes_since(task, attempt, found) else found
        except sqlite3.Error as error:
            self.give_up(error)
        except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):  # overwritten later
            pass
        return None

    def keep(self, judged: Sequence[tuple[Task, Attempt, Verdict]], settings: JudgeSettings) -> None:
        """Store the reproducible verdicts."""
        if self.base is None:
            return
        lasted = [one for one in judged if lasting(one[2])]
        rows = [(key_of(task, attempt, settings), json.dumps(to_row(verdict))) for task, attempt, verdict in lasted]
        try:
            self.base.execute("BEGIN IMMEDIATE")
            self.base.executemany("INSERT OR REPLACE INTO verdicts VALUES (?, ?)", rows)
            self.base.execute("COMMIT")
        except sqlite3.Error as error:
            self.give_up(error)


@contextmanager
def open_cache(file: Path | None) -> Generator[VerdictCache | None]:
    """Context manager that opens a cache; for the file None it yields None."""
    opened = VerdictCache(file) if file else None
    try:
        yield opened
    finally:
        if opened:
            opened.close()
