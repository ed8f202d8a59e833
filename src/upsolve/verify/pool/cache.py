"""Verdicts by content: what has been judged is not judged again."""

import json
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path

from upsolve.errors import JudgeError
from upsolve.records import from_row, to_row
from upsolve.types import Attempt, Status, Task, Verdict, content_id
from upsolve.verify.analysis.analyst import tools
from upsolve.verify.judge.outcomes import JUDGE
from upsolve.verify.limits import Judging

__all__ = ["VerdictCache", "open_cache"]


@lru_cache(maxsize=4096)
def task_key(task: Task, how: Judging) -> str:
    """Return a content id of all that decides besides the attempt: tests, setup, limits, isolation, judge."""
    tests = [part for test in task.tests for part in (test.kind, test.input, test.expected)]
    limits = json.dumps(asdict(how.limits), sort_keys=True)
    return content_id(
        JUDGE,
        how.isolation,
        limits,
        str((how.lines, how.repeats, tools(how.analyses))),
        task.setup,
        task.entry_point,
        task.reference,
        task.compare,
        task.checker,
        *tests,
    )


def key_of(task: Task, attempt: Attempt, how: Judging) -> str:
    """Return the content id of a verdict."""
    return content_id(task_key(task, how), attempt.language, attempt.code)


def lasting(verdict: Verdict, how: Judging) -> bool:
    """Return whether a verdict would be the same again: not the judge's own fault, nor a deadline met on a busy machine."""
    if verdict.status is Status.TIMEOUT:
        return (verdict.cpu_seconds or 0.0) >= 0.9 * how.limits.cpu_seconds
    return verdict.status is not Status.UNSCORED


class VerdictCache:
    """A file of verdicts; several processes may use it at once. JudgeError when it cannot be opened."""

    def __init__(self, file: Path) -> None:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self.base = sqlite3.connect(file, timeout=60, isolation_level=None, check_same_thread=False)
            self.base.execute("PRAGMA journal_mode=WAL")
            self.base.execute("PRAGMA synchronous=NORMAL")
            self.base.execute("CREATE TABLE IF NOT EXISTS verdicts (key TEXT PRIMARY KEY, verdict TEXT) WITHOUT ROWID")
        except (OSError, sqlite3.Error) as error:
            way = "set $UPSOLVE_CACHE to another folder, or verify.cache: false"
            raise JudgeError(f"{file}: cannot keep verdicts there ({error}); {way}") from error

    def find(self, task: Task, attempt: Attempt, how: Judging) -> Verdict | None:
        """Return the verdict on this content, for this attempt, or None."""
        row = self.base.execute("SELECT verdict FROM verdicts WHERE key = ?", (key_of(task, attempt, how),)).fetchone()
        return replace(from_row(Verdict, json.loads(row[0])), attempt_id=attempt.attempt_id) if row else None

    def keep(self, judged: Sequence[tuple[Task, Attempt, Verdict]], how: Judging) -> None:
        """Write verdicts down, those that last."""
        rows = [
            (key_of(task, attempt, how), json.dumps(to_row(verdict)))
            for task, attempt, verdict in judged
            if lasting(verdict, how)
        ]
        self.base.execute("BEGIN IMMEDIATE")
        self.base.executemany("INSERT OR REPLACE INTO verdicts VALUES (?, ?)", rows)
        self.base.execute("COMMIT")


@contextmanager
def open_cache(file: Path | None) -> Generator[VerdictCache | None]:
    """Open a cache for a while; None gives None."""
    cache = VerdictCache(file) if file else None
    try:
        yield cache
    finally:
        if cache:
            cache.base.close()
