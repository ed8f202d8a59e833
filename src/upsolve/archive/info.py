"""Statistics of an archive, and the agreement of its judges."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upsolve.archive.database import connect
from upsolve.archive.labels import JudgeLabels, labels_of
from upsolve.archive.preference import IS_SCORE, OUTCOMES, SCORES, select_contradictions
from upsolve.archive.schema import TABLES
from upsolve.archive.store import Archive
from upsolve.archive.unjudged import ALL, Changes, Stale

__all__ = ["Agreement", "ArchiveInfo", "Overview", "agreements", "archive_info", "missing_signal", "overview"]


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
    """Verdicts, one per judge and program: the last one; without scores."""
    scores: int
    """Scores, one per name and program: the last one."""
    unjudged: int
    """Attempts without a verdict."""
    contradicting: int
    """Programs with opposite outcomes, of one judge or of two; the view ``contradictions`` names them."""
    mixed_tasks: int
    """Tasks with at least one passed attempt and at least one scored attempt that did not pass."""
    statuses: dict[str, int]
    """Attempts by status, as in ``groups()``: attempts whose task is missing are not counted."""
    judges: dict[str, int]
    """Verdicts by judge."""
    sources: dict[str, int]
    """Tasks by source."""
    authors: dict[str, int]
    """Attempts by author, the ten most frequent."""
    contradictions: dict[str, int]
    """Programs whose labels contradict each other (``archive.preference``), by kind."""
    bytes: int
    """Size of the parts on disk, bytes."""


ENTRIES = f"""
create temp table entries as
select attempt_id, task_id, author, sum("count")::bigint as seen from attempts
group by attempt_id, task_id, author, hash({", ".join(name for name in TABLES["attempts"].names if name != "count")})
"""  # noqa: S608  names of ours
"""A row for each distinct attempt."""
JUDGED = f"""
create temp table tasks_by_status as
select task_id, status, count(*) as n from entries join ({OUTCOMES}) using (attempt_id, task_id)
where task_id in (select task_id from tasks) group by task_id, status
"""  # noqa: S608
COUNTS = f"""
select (select count(distinct task_id) from tasks) as tasks, (select count(*) from entries) as attempts,
    (select count(distinct attempt_id) from entries) as programs, (select coalesce(sum(seen), 0)::bigint from entries) as seen,
    (select count(*) from verdicts where not {IS_SCORE}) as verdicts,
    (select count(*) from scores) as scores,
    (select count(*) from entries anti join (from verdicts where not {IS_SCORE}) using (attempt_id)) as unjudged,
    (select count(*) from (select task_id from tasks_by_status where status <> 'unscored' group by task_id
        having bool_or(status = 'passed') and not bool_and(status = 'passed'))) as mixed_tasks
"""  # noqa: S608  names of ours
JUDGES = (
    f"select judge, count(distinct attempt_id) as n from verdicts where not {IS_SCORE} group by judge order by n desc, judge"  # noqa: S608
)
FREQUENCIES = {
    "statuses": "select status, sum(n)::bigint as n from tasks_by_status group by status order by n desc, status",
    "judges": JUDGES,
    "sources": "select source, count(distinct task_id) as n from tasks group by source order by n desc, source",
    "contradictions": "select kind, count(*) as n from contradictions group by kind order by n desc, kind",
    "authors": "select author, count(*) as n from entries group by author order by n desc, author limit 10",
}


def archive_info(archive: Archive) -> ArchiveInfo:
    """Count tasks, attempts and verdicts by queries of DuckDB, without reading the programs as Python objects."""
    parts = {name: archive.parts(name) for name in TABLES}
    with connect(parts, places=True) as connection:
        return info_of(connection, parts)


def info_of(connection: Any, parts: Mapping[str, Sequence[Path]]) -> ArchiveInfo:
    """Return the statistics over a connection with the views of an archive and the column ``place``; the files are given by table."""
    connection.execute(f"create view contradictions as {select_contradictions()}")
    connection.execute(SCORES.format(verdicts="verdicts"))
    connection.execute(ENTRIES)
    connection.execute(JUDGED)
    counts: dict[str, int] = connection.sql(COUNTS).to_arrow_table().to_pylist()[0]
    found: dict[str, Any] = {name: dict(connection.sql(sql).fetchall()) for name, sql in FREQUENCIES.items()}
    size = sum(part.stat().st_size for files in parts.values() for part in files)
    return ArchiveInfo(**counts, **found, contradicting=sum(found["contradictions"].values()), bytes=size)


def missing_signal(attempts: int, scored: int, passed: int) -> str:
    """Return why a group has no attempt that passed beside a scored one that did not; "" if it has both."""
    if not scored:
        return "no scored attempt" if attempts else "no attempt"
    if scored == 1:
        return "one attempt"
    return "" if 0 < passed < scored else "all passed" if passed else "all failed"


PAIRS = """
with labels as (
    select attempt_id, judge, max_by(status = 'passed', place) as passed
    from verdicts where status <> 'unscored' group by attempt_id, judge
)
select a.judge, b.judge, count_if(a.passed and b.passed), count_if(a.passed and not b.passed),
    count_if(not a.passed and b.passed), count_if(not a.passed and not b.passed)
from labels a join labels b on a.attempt_id = b.attempt_id and a.judge < b.judge
group by a.judge, b.judge order by count(*) desc, a.judge, b.judge
"""
"""Query for the agreement of every two judges, by the last scored verdict of each judge on each program."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How two judges label the programs that both have scored."""

    first: str
    """A judge."""
    second: str
    """Another judge."""
    both_passed: int
    """Programs that passed for both judges."""
    first_only: int
    """Programs that passed for the first judge only."""
    second_only: int
    """Programs that passed for the second judge only."""
    both_failed: int
    """Programs that passed for neither judge."""

    @property
    def programs(self) -> int:
        """Programs that both judges have scored, >= 1."""
        return self.both_passed + self.first_only + self.second_only + self.both_failed

    @property
    def share(self) -> float:
        """Share of programs with the same label, [0, 1]."""
        return (self.both_passed + self.both_failed) / self.programs

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa, (p - c) / (1 - c): the share p beyond the share c that is expected by chance; None if c is 1."""
        first, second = ((self.both_passed + only) / self.programs for only in (self.first_only, self.second_only))
        chance = first * second + (1 - first) * (1 - second)
        return None if chance == 1 else (self.share - chance) / (1 - chance)


def agreements(archive: Archive) -> list[Agreement]:
    """Return the agreement of every two judges that have scored a program in common."""
    with connect({"verdicts": archive.parts("verdicts")}, places=True) as connection:
        return pairs_of(connection)


def pairs_of(connection: Any) -> list[Agreement]:
    """Return the agreement of every two judges over a connection with the view ``verdicts`` and ``place``."""
    return [Agreement(*row) for row in connection.sql(PAIRS).fetchall()]


@dataclass(frozen=True, slots=True)
class Overview:
    """Content of ``upsolve archive info``."""

    info: ArchiveInfo
    """Statistics of the archive."""
    agreements: list[Agreement]
    """Agreement of each pair of judges."""
    labels: list[JudgeLabels]
    """The labels of each judge."""
    stale: int
    """Number of stale verdicts: a later fix of the judge may change the outcome."""
    stale_unscored: dict[str, int]
    """Stale verdicts that could not be judged again, by reason."""


IN_MEMORY = 1 << 26
"""Size of the verdicts on disk, bytes, below which they are read once for all queries of an overview."""
READ_ONCE = "create temp table verdicts as select * exclude (error_line, wall_seconds, cpu_seconds, memory_bytes) from memory.main.verdicts"


def overview(archive: Archive, changes: Changes, among: tuple[str, str] = ALL) -> Overview:
    """Return the overview of an archive, computed over one connection; ``changes`` and ``among``: arguments of ``unjudged.stale``."""
    parts = {name: archive.parts(name) for name in TABLES}
    with connect(parts, places=True) as connection:
        if sum(part.stat().st_size for part in parts["verdicts"]) < IN_MEMORY:
            connection.execute(f"set threads = 1; {READ_ONCE}")
        programs = Stale(connection, archive, changes, among)
        counted = (info_of(connection, parts), pairs_of(connection), labels_of(connection))
    return Overview(*counted, len(programs), dict(programs.unscored))
