"""The index of an archive for the viewer: a row for each attempt without its code. For a large archive it is built in the background."""

import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from upsolve.archive.database import connect
from upsolve.archive.preference import IS_SCORE, OWN, RANK, by_judge, choice
from upsolve.archive.schema import TABLES
from upsolve.archive.store import Archive
from upsolve.errors import ArchiveError
from upsolve.files import cache_folder, replaced
from upsolve.types import content_id
from upsolve.verify.analysis import FILE_END

__all__ = ["PREVIEW_ROWS", "Index", "Scan", "archive_state", "index_folder", "parts_of"]

SMALL_BYTES = 1 << 23
"""Largest total size of the parts of an archive whose index is built before the first page is shown."""
PREVIEW_ROWS = 200
"""Number of attempts that are shown while the index is built."""
REMEMBERED = 256
"""Largest number of cached counts."""
CODELESS = [name for name in TABLES["attempts"].names if name not in ("count", "code", "answer", "token_ids", "token_logps")]
HASHED = ("answer", "token_ids", "token_logps")
"""Columns that distinguish attempts; grouped by hash, because they are large."""
BY_CHOSEN_JUDGE = "by_chosen_judge"
"""Placeholder for the SQL condition that a verdict is by the chosen judge."""
OUTCOME = "{status: status, passed: passed, total: total, error_type: error_type, rules: rules, analysed: analysed}"
HEAT = "(extra ->> '$.temperature')::double"
SAMPLED = f"extra ->> '$.task_set' || ', ' || if({HEAT} = 0, 'greedy', printf('T %g', {HEAT}))"
LISTED = (
    f"f.kind not in ('complexity', 'score', 'points') and f.rule not in ({', '.join(repr(rule) for rule in sorted(FILE_END))})"
)
"""SQL condition for findings that are listed: no measurements, which nearly every program has, and no findings that rewards ignore."""
KEYS = ", ".join([f'"{name}"' for name in CODELESS] + [f"hash({name})" for name in HASHED])
BUILD = f"""
create table entries as
with judged as (
    select attempt_id, judge, place, status, passed, total, error_type, len(coalesce(analyses, [])) > 0 as analysed,
        list_distinct(list_transform(list_filter(coalesce(findings, []), lambda f: {LISTED}), lambda f: f.kind || ':' || f.rule)) as rules
    from verdicts
), by_judge as (
    select attempt_id, judge, min(place) as first, max({RANK}) as rank, max_by({OUTCOME}, {RANK}) as outcome
    from judged group by attempt_id, judge
), by_program as (
    select attempt_id, list((rank % (1::hugeint << 62))::bigint order by first) as verdicts, max_by(outcome, first) filter ({BY_CHOSEN_JUDGE} and not {IS_SCORE}) as latest,
        max_by(outcome, first) filter (outcome.status <> 'unscored' and {OWN} and {BY_CHOSEN_JUDGE}) as own,
        max_by(outcome, first) filter (outcome.status <> 'unscored' and not {OWN} and {BY_CHOSEN_JUDGE}) as imported,
        max_by(outcome.rules, first) filter (outcome.analysed and {BY_CHOSEN_JUDGE}) as analysed_rules
    from by_judge group by attempt_id
), merged as (
    select attempt_id, task_id, language, author, created, parent_id, tokens, truncated, min(place) as place, sum("count")::bigint as count,
        case when contains(extra, '"task_set"') and json_valid(extra) then coalesce({SAMPLED}, '') else '' end as sampled
    from attempts group by {KEYS}
), chosen as (
    select merged.*, coalesce(task.difficulty, '') as difficulty, verdicts, analysed_rules,
        {choice()} as outcome
    from merged left join by_program using (attempt_id) left join task_heads as task using (task_id)
)
select place, attempt_id, task_id, language, author, created, parent_id, tokens, truncated, count, sampled, difficulty,
    coalesce(outcome.status, 'unjudged') as status, outcome.passed as passed, outcome.total as total,
    coalesce(outcome.error_type, '') as error_type, coalesce(verdicts, []) as verdicts,
    case when outcome.analysed or analysed_rules is null then coalesce(outcome.rules, [])
         else list_distinct(outcome.rules || list_filter(analysed_rules, lambda r: split_part(r, ':', 1) not in ('traceback', 'compile', 'flaky')))
         end as rules
from chosen order by place
"""  # noqa: S608  names of ours
"""One row for each attempt, with the outcome of the verdict that ``archive.preference.preferred`` chooses. Attempts equal in every field are merged.
``sampled``: task set and temperature of a sample of an evaluation. ``place``: where the attempt is stored. ``verdicts``: where the last scored
verdict of each judge is stored."""
HEADS = """
create {kind} task_heads as select task_id, min(place) as place, any_value(difficulty) as difficulty, any_value(official) as official,
    any_value(language) as language, any_value(source) as source from tasks group by task_id
"""
TASKS = """
create table task_rows as
with counts as (
    select task_id, count(*) as attempts, count(*) filter (status = 'passed') as passed,
        count(*) filter (status not in ('unscored', 'unjudged')) as scored from entries group by task_id
), sampled as (
    select task_id, author || ', ' || sampled as name, coalesce(sum(count) filter (status = 'passed'), 0)::bigint as passed,
        coalesce(sum(count) filter (status not in ('unscored', 'unjudged')), 0)::bigint as scored
    from entries where sampled <> '' group by task_id, author, sampled
), by_evaluation as (
    select task_id, list({'name': name, 'passed': passed, 'scored': scored} order by name) as evaluations from sampled group by task_id
)
select task_heads.place, task_id, difficulty, language, source, coalesce(attempts, 0) as attempts, coalesce(passed, 0) as passed,
    coalesce(scored, 0) as scored, coalesce(evaluations, []) as evaluations
from task_heads left join counts using (task_id) left join by_evaluation using (task_id) order by task_heads.place
"""
"""Query for one row per task. ``evaluations`` counts its samples by model, task set and temperature; [] if its attempts are not samples of evaluations."""
FACETS = """
create table facets as
select 'status' as facet, status as value, count(*) as attempts from entries group by status
union all select 'difficulty', difficulty, count(*) from entries where difficulty <> '' group by difficulty
union all select 'sampled', sampled, count(*) from entries where sampled <> '' group by sampled
union all select 'language', language, count(*) from entries group by language
union all (select 'author', author, count(*) from entries where author <> '' group by author order by count(*) desc, author limit 200)
union all (select 'finding', rule, count(*) from (select unnest(rules) as rule from entries) group by rule
           order by count(*) desc, rule limit 200)
"""


def parts_of(archive: Archive) -> dict[str, list[Path]]:
    """Return the files of every table of an archive, oldest first: a place counts them in this order."""
    return {name: archive.parts(name) for name in TABLES}


def archive_state(parts: Mapping[str, Sequence[Path]], judge: str = "") -> str:
    """Return a content id of the files of an archive, and of the judge whose verdicts count; it changes whenever the archive does."""
    files = [file for name in TABLES for file in parts[name]]
    return content_id(
        *(BUILD, HEADS, TASKS, FACETS, judge), *(f"{file}|{file.stat().st_size}|{file.stat().st_mtime_ns}" for file in files)
    )


def index_folder(archive: Archive) -> Path:
    """Return the folder of the indexes of an archive, in the cache folder."""
    return cache_folder() / "view" / content_id(str(archive.path.resolve()))


@dataclass
class Scan:
    """A search for a text in the code of all attempts, part by part; concurrent requests read no part twice."""

    text: str
    """The text."""
    parts: int = 0
    """Parts that were searched so far."""
    places: list[int] = field(default_factory=list[int])
    """Places of the attempts whose code contains the text, in order."""
    lock: threading.Lock = field(default_factory=threading.Lock)


class Index:
    """The index of one state of an archive."""

    def __init__(self, archive: Archive, *, judge: str = "", on_error: Callable[[str], None] = print) -> None:
        """Open the index, or start to build it; the index of a small archive is complete when this returns."""
        self.parts, self.judge, self.on_error = parts_of(archive), judge, on_error
        self.state = archive_state(self.parts, judge)
        self.file = index_folder(archive) / f"{self.state}.duckdb"
        self.opened: duckdb.DuckDBPyConnection | None = None
        self.error = ""
        self.remembered: dict[Hashable, Any] = {}
        self.scan = Scan("")
        self.preview: list[dict[str, Any]] = []
        size = sum(file.stat().st_size for files in self.parts.values() for file in files)
        if self.file.exists() or size <= SMALL_BYTES:
            self.build()
        else:
            self.preview = self.read_preview()
            threading.Thread(target=self.build_aside, daemon=True).start()

    @property
    def ready(self) -> bool:
        """Whether the index can be queried."""
        return self.opened is not None

    def remember(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """Return a value for this state of the archive; computed at the first call and cached (at most ``REMEMBERED`` values)."""
        cached = self.remembered
        if key in cached:
            return cached[key]
        if len(self.remembered) >= REMEMBERED:
            self.remembered = {}
        value = self.remembered[key] = compute()
        return value

    def close(self) -> None:
        """Close the database; the index cannot be queried any more."""
        opened, self.opened = self.opened, None
        if opened is not None:
            opened.close()

    def wait(self) -> None:
        """Wait until the index is built; ArchiveError if it cannot be built."""
        while not self.ready:
            if self.error:
                raise ArchiveError(self.error)
            time.sleep(0.05)

    def build_aside(self) -> None:
        """Build the index in the background; an error is stored in ``error`` and reported."""
        try:
            self.build()
        except (ArchiveError, duckdb.Error, OSError) as error:
            self.error = f"the index cannot be built: {error}"
            self.on_error(self.error)

    def build(self) -> None:
        """Build the index if it is not in the cache, and open it; indexes of earlier states are removed."""
        if not self.file.exists():
            with replaced(self.file) as temporary, connect(self.parts, places=True) as connection:
                connection.execute(f"attach '{str(temporary).replace(chr(39), chr(39) * 2)}' as cached")
                fill(connection, "cached", judge=self.judge)
            for old in self.file.parent.iterdir():
                if not old.name.startswith(self.state):
                    with suppress(OSError):
                        old.unlink()
        self.opened = duckdb.connect(str(self.file), read_only=True)

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """Return the rows of a query of the index, which must be ready; several threads may query at once."""
        if self.opened is None:
            raise RuntimeError("the index of the archive is not built yet; wait, and ask again")
        with self.opened.cursor() as cursor:
            return fetch(cursor, sql, values)

    def read_preview(self) -> list[dict[str, Any]]:
        """Return the first attempts, with the verdicts of the first part; other attempts have an empty status."""
        first = {name: self.parts[name] if name == "tasks" else self.parts[name][:1] for name in TABLES}
        with connect(first, places=True) as connection:
            some = connection.sql(f"select * from attempts order by place limit {PREVIEW_ROWS}").to_arrow_table()  # noqa: S608  ours
            connection.execute("drop view attempts")
            connection.register("attempts", some)
            fill(connection, judge=self.judge)
            sql = "select * replace (if(status = 'unjudged', '', status) as status) from entries order by place"
            return fetch(connection, sql, ())


def fill(connection: "duckdb.DuckDBPyConnection", database: str = "", *, judge: str = "") -> None:
    """Create the tables of the index from the views of an archive, in the connection's own database or in an attached one."""
    target = f"{database}." if database else ""
    connection.execute(HEADS.format(kind="temp table"))
    for sql in (BUILD.replace(BY_CHOSEN_JUDGE, by_judge(judge)), TASKS, FACETS):
        connection.execute(
            sql.replace("create table ", f"create table {target}").replace("from entries", f"from {target}entries")
        )


def fetch(connection: Any, sql: str, values: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the rows of a query as dictionaries."""
    answer = connection.execute(sql, list(values))
    names = [column[0] for column in answer.description]
    return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]
