"""The programs of an archive that a judge has not judged yet, or whose verdicts are stale, read block by block."""

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property

import duckdb

from upsolve.archive.database import connect
from upsolve.archive.preference import OWN, register_scores
from upsolve.archive.schema import TABLES
from upsolve.archive.store import Archive
from upsolve.records import from_row
from upsolve.types import Attempt, Task, Verdict

__all__ = ["ALL", "Changes", "Programs", "Stale", "not_scored", "stale", "unjudged"]

Changes = Callable[[Task, Attempt, Verdict], Sequence[int]]
"""Numbers of those changes of the judge that are newer than a verdict and concern it; empty if the verdict is valid."""
ALL = ("true", "true")
"""Conditions of ``stale`` that every verdict fulfils."""

ROWS = 1000
"""Rows that are read at once."""
JUDGED = """
create table judged as select distinct attempt_id from verdicts
where judge = ? and status <> 'unscored' and list_has_all(coalesce(analyses, []), ?::varchar[]) and not ?
"""
FRESH = """
create view fresh as select * from attempts anti join judged using (attempt_id)
qualify row_number() over (partition by attempt_id order by place) = 1
"""
LATEST = f"""
create temp table latest as select attempt_id, place, {{among}} as may_be_stale from verdicts where {OWN} and status <> 'unscored'
qualify row_number() over (partition by attempt_id order by place desc) = 1
"""  # noqa: S608  names of ours
"""Query for the place of the last scored verdict of upsolve on each program; recorded outcomes of other judges do not count."""
VERSIONED = """
with compared as (from latest where may_be_stale), programs as (
    from attempts semi join compared using (attempt_id) qualify row_number() over (partition by attempt_id order by place) = 1
)
select task_id, code, language, attempt_id, status, passed, total, outcomes, judge, isolation, error_type, error_message,
    coalesce(judge_version, 0) as judge_version
from (from verdicts semi join compared using (place)) join programs using (attempt_id) semi join tasks using (task_id) where {code}
"""
OF_STALE = """
create view fresh as select * from attempts semi join stale using (attempt_id)
qualify row_number() over (partition by attempt_id order by place) = 1;
create view judged as select attempt_id from latest anti join stale using (attempt_id)
"""
UNSCORED = f"""
with again as (
    select attempt_id, max_by(split_part(error_message, chr(10), 1), place) as reason, max(place) as place
    from verdicts semi join stale using (attempt_id) where {OWN} and status = 'unscored' group by attempt_id
)
select coalesce(reason, ''), count(*) from again join latest using (attempt_id) where again.place > latest.place group by 1 order by 2 desc, 1
"""  # noqa: S608  names of ours
"""Query for the number of stale verdicts that were followed by an unscored one, by the reason of the last of these."""
STALE_DATA = """
select list_distinct(flatten(list(analyses))), bool_or(executed_lines is not null)
from verdicts semi join (from latest semi join stale using (attempt_id)) using (place)
"""
COLUMNS = ", ".join(f'"{name}"' for name in TABLES["attempts"].names if name != "count")
PROGRAMS = f"select {COLUMNS} from fresh semi join tasks using (task_id) order by task_id, place"  # noqa: S608  names of ours


class Programs:
    """Distinct programs without a verdict, ordered by task."""

    def __init__(self, connection: "duckdb.DuckDBPyConnection", archive: Archive) -> None:
        """Count the programs of a database with the views ``fresh`` and ``judged``."""
        self.connection, self.archive = connection, archive
        self.done = self.count("judged")
        self.orphans = self.count("fresh anti join tasks using (task_id)")
        self.length = self.count("fresh") - self.orphans

    @cached_property
    def tasks(self) -> dict[str, Task]:
        """The tasks by id, read when first used."""
        return {task.task_id: task for task in self.archive.tasks()}

    def count(self, table: str) -> int:
        """Return the number of rows of a table."""
        return int(self.connection.sql(f"select count(*) from {table}").fetchall()[0][0])  # noqa: S608  names of ours

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[tuple[Task, Attempt]]:
        for batch in self.connection.sql(PROGRAMS).to_arrow_reader(ROWS):
            for row in batch.to_pylist():
                yield self.tasks[row["task_id"]], from_row(Attempt, row)


@contextmanager
def unjudged(archive: Archive, judge: str, analyses: Sequence[str] = (), *, everything: bool = False) -> Generator[Programs]:
    """Yield the programs to which a judge has given no scored verdict.

    ``done`` counts the programs that the judge has judged, ``orphans`` the programs without a task.

    Args:
        archive: the archive.
        judge: name and version of the judge.
        analyses: analyses, with tool and version, that a verdict must have.
        everything: yield the programs that were judged before, too.
    """
    with connect({name: archive.parts(name) for name in TABLES}, places=True) as connection:
        connection.execute(JUDGED, [judge, list(analyses), everything])
        connection.execute(FRESH)
        yield Programs(connection, archive)


@contextmanager
def not_scored(archive: Archive, name: str, *, everything: bool = False) -> Generator[Programs]:
    """Yield the programs without a score of a name, or all programs. ``done`` counts the programs with a score, ``orphans`` those without a task."""
    parts = {table: archive.parts(table) for table in TABLES}
    with connect(parts, places=True) as connection:
        register_scores(connection, parts)
        connection.execute("create table judged as select attempt_id from scores where name = ? and not ?", [name, everything])
        connection.execute(FRESH)
        yield Programs(connection, archive)


class Stale(Programs):
    """Programs whose verdicts a change of the judge concerns."""

    def __init__(
        self, connection: "duckdb.DuckDBPyConnection", archive: Archive, changes: Changes, among: tuple[str, str] = ALL
    ) -> None:
        """Find the stale programs in a database with the views of the archive and ``place``; for the arguments see ``stale``."""
        self.connection, self.archive = connection, archive
        connection.execute(LATEST.format(among=among[0]))
        self.analyses: tuple[str, ...]
        self.reasons, found = Counter[int](), list[str]()
        for batch in connection.sql(VERSIONED.format(code=among[1])).to_arrow_reader(ROWS):
            for row in batch.to_pylist():
                attempt = Attempt(row.pop("task_id"), row.pop("code"), row.pop("language") or "python")
                verdict = from_row(Verdict, row)
                numbers = changes(self.tasks[attempt.task_id], attempt, verdict)
                self.reasons.update(numbers)
                found += [verdict.attempt_id] if numbers else []
        connection.execute("create table stale as select unnest($1::varchar[]) as attempt_id", [found])
        connection.execute(OF_STALE)
        self.analyses, self.lines, self.unscored = (), False, Counter[str]()
        if not found:
            self.done, self.orphans, self.length = self.count("latest"), 0, 0
            return
        analyses, lines = connection.sql(STALE_DATA).fetchall()[0]
        self.analyses = tuple(sorted({name.partition(":")[0] for name in analyses or ()}))
        self.lines = bool(lines)
        self.unscored = Counter[str](dict(connection.sql(UNSCORED).fetchall()))
        super().__init__(connection, archive)


@contextmanager
def stale(archive: Archive, changes: Changes, among: tuple[str, str] = ALL) -> Generator[Stale]:
    """Yield the programs whose last scored verdict of upsolve is stale; ``among``: SQL conditions that every stale verdict fulfils, the first on the
    columns of verdicts, the second also on the attempt's code.

    ``done`` counts the programs whose verdict is valid, ``reasons`` the stale verdicts by change. ``unscored`` counts, by reason, the stale verdicts
    that could not be judged again. ``analyses`` and ``lines`` say what the stale verdicts hold besides outcomes.
    """
    with connect({name: archive.parts(name) for name in TABLES}, places=True) as connection:
        yield Stale(connection, archive, changes, among)
