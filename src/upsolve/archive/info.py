"""Statistics of an archive."""

from collections import Counter
from dataclasses import dataclass

from upsolve.archive.schema import TABLES
from upsolve.archive.store import Archive
from upsolve.types import Group, Status

__all__ = ["ArchiveInfo", "archive_info", "missing_signal"]


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
    contradicting: int
    """Programs with opposite outcomes, of one judge or of two; the view ``contradictions`` names them."""
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
    contradictions: dict[str, int]
    """Programs whose labels contradict each other (``archive.contradictions``), by kind."""
    bytes: int
    """Size of the parts on disk, bytes."""


DISTINCT = f"(select distinct {', '.join(name for name in TABLES['attempts'].names if name != 'count')} from attempts)"  # noqa: S608  names of ours
COUNTS = f"""
select (select count(distinct task_id) from tasks) as tasks,
    (select count(*) from {DISTINCT}) as attempts,
    (select count(distinct attempt_id) from attempts) as programs,
    (select coalesce(sum("count"), 0)::bigint from attempts) as seen,
    (select count(distinct (attempt_id, judge)) from verdicts) as verdicts
"""  # noqa: S608  names of ours
FREQUENCIES = {
    "judges": "select judge, count(distinct attempt_id) as n from verdicts group by judge order by n desc, judge",
    "sources": "select source, count(distinct task_id) as n from tasks group by source order by n desc, source",
    "contradictions": "select kind, count(*) as n from contradictions group by kind order by n desc, kind",
    "authors": f"select author, count(*) as n from {DISTINCT} group by author order by n desc, author limit 10",  # noqa: S608
}


def archive_info(archive: Archive) -> ArchiveInfo:
    """Count tasks, attempts and verdicts; memory does not grow with the number of attempts."""
    statuses, mixed = Counter[str](), 0
    for group in archive.groups():
        statuses.update(verdict.status.value for verdict in group.verdicts if verdict is not None)
        mixed += is_mixed(group)
    counts: dict[str, int] = archive.query(COUNTS).to_pylist()[0]
    frequencies: dict[str, dict[str, int]] = {
        name: dict(zip(*archive.query(sql).to_pydict().values(), strict=True)) for name, sql in FREQUENCIES.items()
    }
    return ArchiveInfo(
        **counts,
        unjudged=counts["attempts"] - statuses.total(),
        contradicting=sum(frequencies["contradictions"].values()),
        mixed_tasks=mixed,
        statuses=dict(statuses.most_common()),
        judges=frequencies["judges"],
        sources=frequencies["sources"],
        authors=frequencies["authors"],
        contradictions=frequencies["contradictions"],
        bytes=sum(part.stat().st_size for name in TABLES for part in archive.parts(name)),
    )


def is_mixed(group: Group) -> bool:
    """Return whether a group holds an attempt that passed and one that did not."""
    scored = [v.status for v in group.verdicts if v is not None and v.status is not Status.UNSCORED]
    return not missing_signal(len(group.attempts), len(scored), scored.count(Status.PASSED))


def missing_signal(attempts: int, scored: int, passed: int) -> str:
    """Return why a group has no attempt that passed beside a scored one that did not; "" if it has both."""
    if not scored:
        return "no scored attempt" if attempts else "no attempt"
    if scored == 1:
        return "one attempt"
    return "" if 0 < passed < scored else "all passed" if passed else "all failed"
