"""Statistics of an archive."""

from dataclasses import dataclass

from upsolve.archive.contradictions import register_contradictions
from upsolve.archive.database import connect
from upsolve.archive.preference import OUTCOMES
from upsolve.archive.schema import TABLES
from upsolve.archive.store import Archive

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
    """Attempts by status (as in ``groups()``, so without those whose task is missing)."""
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


ENTRIES = f"""
create temp table entries as
select attempt_id, task_id, author, sum("count")::bigint as seen from attempts
group by attempt_id, task_id, author, hash({", ".join(name for name in TABLES["attempts"].names if name != "count")})
"""  # noqa: S608  names of ours
"""A row for each distinct attempt."""
JUDGED = f"""
create temp table judged as
select task_id, status, count(*) as n from entries join ({OUTCOMES}) using (attempt_id, task_id)
where task_id in (select task_id from tasks) group by task_id, status
"""  # noqa: S608
COUNTS = """
select (select count(distinct task_id) from tasks) as tasks, (select count(*) from entries) as attempts,
    (select count(distinct attempt_id) from entries) as programs, (select coalesce(sum(seen), 0)::bigint from entries) as seen,
    (select count(distinct (attempt_id, judge)) from verdicts) as verdicts,
    (select count(*) from entries anti join verdicts using (attempt_id)) as unjudged,
    (select count(*) from (select task_id from judged where status <> 'unscored' group by task_id
        having bool_or(status = 'passed') and not bool_and(status = 'passed'))) as mixed_tasks
"""
FREQUENCIES = {
    "statuses": "select status, sum(n)::bigint as n from judged group by status order by n desc, status",
    "judges": "select judge, count(distinct attempt_id) as n from verdicts group by judge order by n desc, judge",
    "sources": "select source, count(distinct task_id) as n from tasks group by source order by n desc, source",
    "contradictions": "select kind, count(*) as n from contradictions group by kind order by n desc, kind",
    "authors": "select author, count(*) as n from entries group by author order by n desc, author limit 10",
}


def archive_info(archive: Archive) -> ArchiveInfo:
    """Count tasks, attempts and verdicts by queries of DuckDB, without reading the programs as Python objects."""
    parts = {name: archive.parts(name) for name in TABLES}
    with connect(parts, places=True) as connection:
        register_contradictions(connection, parts)
        connection.execute(ENTRIES)
        connection.execute(JUDGED)
        counts: dict[str, int] = connection.sql(COUNTS).to_arrow_table().to_pylist()[0]
        frequencies: dict[str, dict[str, int]] = {
            name: dict(connection.sql(sql).fetchall()) for name, sql in FREQUENCIES.items()
        }
    size = sum(part.stat().st_size for files in parts.values() for part in files)
    return ArchiveInfo(
        **counts,
        statuses=frequencies["statuses"],
        judges=frequencies["judges"],
        sources=frequencies["sources"],
        authors=frequencies["authors"],
        contradictions=frequencies["contradictions"],
        contradicting=sum(frequencies["contradictions"].values()),
        bytes=size,
    )


def missing_signal(attempts: int, scored: int, passed: int) -> str:
    """Return why a group has no attempt that passed beside a scored one that did not; "" if it has both."""
    if not scored:
        return "no scored attempt" if attempts else "no attempt"
    if scored == 1:
        return "one attempt"
    return "" if 0 < passed < scored else "all passed" if passed else "all failed"
