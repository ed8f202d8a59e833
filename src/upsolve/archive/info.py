"""Statistics of an archive."""

from collections import Counter
from dataclasses import dataclass

from upsolve.archive.schema import TABLES
from upsolve.archive.store import Archive
from upsolve.types import Group, Status

__all__ = ["ArchiveInfo", "archive_info"]


@dataclass(frozen=True, slots=True)
class ArchiveInfo:
    """Statistics of an archive."""

    tasks: int
    """Tasks."""
    attempts: int
    """Distinct attempts; equal code by another author, or with another parent, is a different attempt."""
    programs: int
    """Distinct pairs of task and program."""
    seen: int
    """Sum of the counts of all attempts."""
    verdicts: int
    """Verdicts, one per judge and program: the last one."""
    unjudged: int
    """Attempts without a verdict."""
    mixed_tasks: int
    """Tasks with an attempt that passed and a scored one that did not."""
    statuses: dict[str, int]
    """Attempts by status (as in ``groups()``)."""
    judges: dict[str, int]
    """Verdicts by judge."""
    sources: dict[str, int]
    """Tasks by source."""
    authors: dict[str, int]
    """Attempts by author, the ten most frequent."""
    bytes: int
    """Size of the parts on disk, bytes."""


def archive_info(archive: Archive) -> ArchiveInfo:
    """Count tasks, attempts and verdicts; reads the whole archive."""
    attempts, groups = archive.attempts(), archive.groups()
    verdicts = [verdict for group in groups for verdict in group.verdicts]
    judged = [verdict for verdict in verdicts if verdict is not None]
    return ArchiveInfo(
        tasks=len(archive.tasks()),
        attempts=len(attempts),
        programs=len({attempt.attempt_id for attempt in attempts}),
        seen=sum(attempt.count for attempt in attempts),
        verdicts=len(archive.verdicts()),
        unjudged=len(attempts) - len(judged),
        mixed_tasks=sum(is_mixed(group) for group in groups),
        statuses=dict(Counter(verdict.status.value for verdict in judged).most_common()),
        judges=dict(Counter(verdict.judge for verdict in archive.verdicts()).most_common()),
        sources=dict(Counter(task.source for task in archive.tasks()).most_common()),
        authors=dict(Counter(attempt.author for attempt in attempts).most_common(10)),
        bytes=sum(part.stat().st_size for name in TABLES for part in archive.parts(name)),
    )


def is_mixed(group: Group) -> bool:
    """Return whether a group holds an attempt that passed and one that did not."""
    scored = [v.status for v in group.verdicts if v is not None and v.status is not Status.UNSCORED]
    return Status.PASSED in scored and any(status is not Status.PASSED for status in scored)
