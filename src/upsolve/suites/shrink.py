"""The fewest tests of each task that keep every stored verdict, passed or failed; and the new archives of commands that change tests."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from upsolve.archive.places import local_place, refuse_shipped
from upsolve.archive.store import Archive, create_archive
from upsolve.errors import ArchiveError
from upsolve.files import RowFile
from upsolve.suites.grade import cover, failed_tests, judged_groups
from upsolve.types import (
    Attempt,
    Group,
    OnProgress,
    Status,
    Task,
    Verdict,
    content_id,
    is_scored,
    no_progress,
    with_points,
    with_tests,
)
from upsolve.verify.judge.outcomes import ENDED, TEST_NUMBER

__all__ = ["REPORT", "NewArchive", "Portion", "kept_tests", "shrink", "shrunk_verdict"]

REPORT = "suites.jsonl"
"""File of the new archive with a line of JSON for each task, after a line that identifies the command."""


@dataclass
class Portion:
    """Records of some tasks."""

    tasks: list[Task] = field(default_factory=list[Task])
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    verdicts: list[Verdict] = field(default_factory=list[Verdict])
    rows: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Lines of the report, one a task, each with ``task_id``."""


class NewArchive:
    """A new archive and its report; portions that an earlier, interrupted command has written are skipped."""

    def __init__(self, folder: str | Path, command: str, archive: Archive, **settings: Any) -> None:
        """Open the folder, or that of an interrupted command with the same settings and archive; ArchiveError if it holds something else, which stays."""
        facts = {"command": command, "archive": str(archive.path.resolve()), "parts": archive_parts(archive), **settings}
        refuse_shipped(folder)
        place = local_place(folder)
        file, key = place / REPORT, content_id(json.dumps(facts, sort_keys=True))
        if place.exists() and any(place.iterdir()) and not file.is_file():
            raise ArchiveError(f"{folder}: the folder is not empty; write the archive into a new folder")
        try:
            self.report = RowFile(file, key)
        except ValueError as error:
            message = f"{folder}: holds the result of other settings or of another archive; name a new folder"
            raise ArchiveError(message) from error
        self.rows = self.report.rows
        self.archive = create_archive(place)
        self.done = {row["task_id"] for row in self.rows}
        self.archive.drop(self.tag)  # of a portion that was interrupted

    @property
    def tag(self) -> str:
        """Tag of the parts of the next portion."""
        return f"{len(self.rows):08x}"

    def pending(self, archive: Archive, size: int) -> Iterator[list[tuple[Group, list[Group]]]]:
        """Yield the tasks without a row, at most ``size`` at a time, each with the groups of all judges (``judged_groups``)."""
        left = ((one, others or [one]) for one, others in judged_groups(archive) if one.task.task_id not in self.done)
        while portion := [*islice(left, size)]:
            yield portion

    def write(self, portion: Portion) -> None:
        """Append a portion; the portion counts as complete once its lines are in the report."""
        self.archive.write(portion.tasks, portion.attempts, portion.verdicts, tag=self.tag)
        self.rows += portion.rows
        self.done |= {row["task_id"] for row in portion.rows}
        self.report.write()


PORTION = 64
"""Tasks that are written together."""


def shrink(archive: Archive, out: str | Path, *, progress: OnProgress = no_progress) -> list[dict[str, Any]]:
    """Write an archive with the fewest tests that keep all stored verdicts; return a row for each task.

    Chosen tests keep their order and their mark hidden; a task with visible tests keeps at least one visible test. The same call
    resumes an interrupted one.

    Args:
        archive: the archive, which is only read.
        out: folder of the new archive.
        progress: called with the tasks done and all tasks.

    Raises:
        ArchiveError: the folder holds something else.
    """
    tasks = len({*archive.column("tasks", "task_id")})
    new = NewArchive(out, "shrink", archive)
    for groups in new.pending(archive, PORTION):
        portion = Portion()
        for group, judges in groups:
            shrink_task(group, judges, portion)
        new.write(portion)
        progress("shrink", len(new.rows), tasks)
    return new.rows


def archive_parts(archive: Archive) -> list[str]:
    """Return the names of the files of an archive, which change whenever its records do."""
    return [f"{name}/{part.name}" for name in ("tasks", "attempts", "verdicts") for part in archive.parts(name)]


def shrink_task(group: Group, judges: Sequence[Group], portion: Portion) -> None:
    """Add a task with the kept tests, its attempts, and the verdicts of all judges."""
    verdicts = {(one.attempt_id, one.judge): one for judge in judges for one in judge.verdicts if one is not None}
    kept, reason = kept_tests(group.task, verdicts.values())
    tests = group.task.tests
    task = group.task if reason else with_tests(group.task, kept)
    portion.tasks.append(task)
    portion.attempts += group.attempts
    portion.verdicts += [one if reason else shrunk_verdict(group.task, one, kept) for one in verdicts.values()]
    portion.rows.append({"task_id": task.task_id, "tests": len(tests), "kept": kept, "unchanged": reason})


def kept_tests(task: Task, verdicts: Iterable[Verdict]) -> tuple[list[int], str]:
    """Return the indices of the kept tests, and the reason if all are kept (else empty).

    Every failed attempt fails one of the kept tests, preferably without exceeding a limit, which takes longest. A limit may hold for all tests
    together: if a verdict only exceeds limits, all tests up to the first exceeded one are kept. Verdicts of judges with other tests (another
    ``total``) do not count.
    """
    every, failures, slow, before = [*range(len(task.tests))], list[frozenset[int]](), Counter[int](), 0
    scored = [one for one in verdicts if is_scored(one) and one.total == len(task.tests)]
    for verdict in scored:
        failed = failed_tests(task, verdict)
        if verdict.status is not Status.PASSED and not failed:
            return every, "a failed verdict does not name the failed test"
        ended = frozenset(index for index, one in enumerate(verdict.outcomes) if one in ENDED)
        slow.update(ended)
        failures.append((failed or frozenset()) - ended)
        if ended and not failures[-1]:
            before = max(before, min(ended) + 1)
    if not scored:
        return every, "no scored attempt"
    chosen = cover(failures, every[:before], slow)
    visible = [index for index in every if not task.tests[index].hidden]
    if visible and not any(index in visible for index in chosen):
        first = max(visible, key=lambda test: (sum(test in failed for failed in failures), -slow[test], -test))
        chosen = cover(failures, [*every[:before], first], slow)
    return chosen or [0], ""


def shrunk_verdict(task: Task, verdict: Verdict, kept: Sequence[int]) -> Verdict:
    """Return a verdict on the kept tests.

    The error stays if a kept test caused it. A verdict of a judge with other tests is unchanged.
    """
    if verdict.total != len(task.tests):
        return verdict
    if len(verdict.outcomes) != len(task.tests):
        return replace(verdict, total=len(kept), passed=min(verdict.passed, len(kept)))
    outcomes = tuple(verdict.outcomes[index] for index in kept)
    status = next((one for one in outcomes if one not in (Status.PASSED, Status.UNSCORED)), verdict.status)
    points = [verdict.points[index] for index in kept]
    new = replace(verdict, status=status, passed=outcomes.count(Status.PASSED), total=len(kept), outcomes=outcomes)
    new = with_points(new, points, verdict.overall_points)
    first = next((index for index, one in enumerate(verdict.outcomes) if one is not Status.PASSED), -1)
    if first < 0 or status is Status.COMPILE_ERROR:
        return new
    if first in kept and status is verdict.status:
        findings = tuple(replace(one, message=renumbered(one.message, kept.index(first))) for one in new.findings)
        return replace(new, error_message=renumbered(verdict.error_message, kept.index(first)), findings=findings)
    findings = tuple(one for one in new.findings if one.kind != "traceback")
    return replace(new, error_type="", error_message="", error_line=None, findings=findings)


def renumbered(message: str, index: int) -> str:
    """Return a message with another test number at its start."""
    return TEST_NUMBER.sub(rf"\g<1>{index + 1}", message)
