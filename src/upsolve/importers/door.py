"""Recognises how to read a file or folder: as a source with known files or columns, or as a table, by the content of its columns.

If exactly one reading fits, ``upsolve ingest PATH ARCHIVE`` shows the first task and attempt, then imports. If two fit, an error shows the map of
each.
"""

import re
import shlex
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from textwrap import indent
from typing import Any

import yaml

from upsolve.errors import SourceError
from upsolve.files import cache_folder, write_text
from upsolve.importers.formats import Kind, Member, kind_of, members, rows_of
from upsolve.importers.formats.texts import lists_in
from upsolve.importers.logs.calls import call_in, log_in, log_of_objects
from upsolve.importers.rows import BadRow, LeftOut, Rows, chats_in, columns_in, counted, enough, first_rows, keep_example
from upsolve.importers.source import Source, Unit, parse_options
from upsolve.importers.tables import FIELDS, KEYS, NAMES, PROGRAMS, TASK_FIELDS
from upsolve.importers.tables.columns import (
    OUTCOMES,
    are_programs,
    exploded_in,
    explosions_in,
    fits,
    hints_for,
    is_judged,
    lists_of_programs,
    values_of,
)
from upsolve.importers.tables.grades import outcomes_in, stated_in, with_each
from upsolve.importers.tables.layouts import layouts_of
from upsolve.importers.tables.plans import Map
from upsolve.importers.tables.relations import plan_of, tables_of
from upsolve.importers.tables.table import columns_of, likely_columns, split, table_at
from upsolve.plugins import find, names
from upsolve.types import Attempt, Task, TestCase, TestKind, Verdict, content_id

__all__ = ["Preview", "Reading", "map_file", "preview", "reading_of"]

LINES, WIDTH = 12, 160
"""Number of lines of a text, and characters of a line, that are shown."""
SOLUTIONS = ("solution", "canonical_solution", "reference_solution", "gold", "reference", "ground_truth")
"""Names of columns with a program that may be an attempt or the reference of its task."""
COUNTED = {Task: "tasks", Attempt: "attempts", Verdict: "outcomes", BadRow: "rejected"}
"""Kind of a record -> the word under which it is counted."""
FILES, TABLES, RECORDS, SHOWN = 20_000, 9, 3000, 50
"""Most files of a tree, tables of a folder that may be of different columns, records, and rows of chats, that are read before an import."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A way to read a file or folder."""

    source: str
    """Name of the source."""
    why: str
    """Evidence for this reading, such as column names."""
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    """Options of the source."""
    tree: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Map of a tree of programs, if this is its source."""

    def as_map(self) -> str:
        """Return the map with the same effect, as YAML; SourceError for a source that needs no map."""
        if not self.tree and self.source != "table":
            raise SourceError(f"the source {self.source} needs no map; run: upsolve ingest {self.source} PATH ARCHIVE")
        plan = {**self.tree} or map_with(self.options, {})
        return yaml.safe_dump(plan, sort_keys=False, allow_unicode=True, width=WIDTH)


def reading_of(path: Path, given: Mapping[str, str]) -> Reading:
    """Return the only way to read a path, given options of the source; SourceError if there is none, or several, says what to add."""
    if not path.exists():
        raise SourceError(f"{path}: no such file or folder")
    found = by_files(path) if path.is_dir() else []
    if not found:
        try:
            found = data_readings(path, given)
        except SourceError:
            if not (log := log_in(path)) or not {one.name for one in find("source", log).options}.issuperset(given):
                raise
            found = [Reading(log, "a log, by the names in its objects")]
    elif [one.source for one in found] == ["git"]:
        with suppress(SourceError):  # a dataset may be a clone, too
            data = data_readings(path, given)
            found = [*found, *data] if has_test_files(path) else data
    if len(found) > 1:
        raise SourceError(several(path, found))
    return replace(found[0], options={**given, **found[0].options})


def several(path: Path, found: Sequence[Reading]) -> str:
    """Return the message for a path that may be read in several ways."""
    maps = [one.as_map() if one.tree or one.source == "table" else f"upsolve ingest {one.source} PATH ARCHIVE" for one in found]
    ways = [f"{one.why}:\n{indent(text, '    ')}" for one, text in zip(found, maps, strict=True)]
    how = f"choose one: save it as my.yaml, then upsolve ingest {shlex.quote(str(path))} ARCHIVE --map my.yaml"
    return "\n".join([f"{path}: can be read in {len(found)} ways; {how}", *ways])


def map_file(reading: Reading) -> Path:
    """Return the file in the cache folder for the map of a tree; its name depends on its content."""
    text = reading.as_map()
    file = cache_folder() / "maps" / f"{content_id(text)}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, text)
    return file


def data_readings(path: Path, given: Mapping[str, str]) -> list[Reading]:
    """Return the ways to read the trees and tables of a path; SourceError if nothing is recognised."""
    if found := tree_readings(path):
        if not (column := given.get("code_file", "") or column_of_files(path, given)):
            return found
        given = {**given, "code_file": column}
    units = split(path, rows=given.get("rows", ""))
    tables = dict[str, Rows]()
    if 1 < len(units) <= TABLES and not given:
        tables = {one.name: rows for one, rows, _ in map(rows_in, units)}
    elif len(units) == 1 and "query" not in given:
        tables = tables_of(table_at(units[0].path, units[0].options.get("names", ())))
    if related := plan_of(path, tables, given, database=len(units) == 1):
        return [Reading("map", *related)]
    _, rows, where = rows_in(units[0], given)
    named = not given.keys().isdisjoint((*PROGRAMS, "status", "passed", "outcomes"))  # as in no known table
    known = [] if named else by_columns(rows, {**where, **given}.get("rows", ""))
    if known and not lacks_attempts(path, known[0].source, rows, {**where, **given}):
        return known
    return [*known, *table_readings(path, rows, {**where, **given}, alone=len(units) == 1 and len(tables) < 2)]


def lacks_attempts(path: Path, name: str, rows: Rows, options: Mapping[str, str]) -> bool:
    """Return whether rows have programs and outcomes, but the recognised source reads only tasks, such as the data set from which they were copied."""
    chosen = {*columns_in(rows), *likely_columns(rows, columns_of(Map()))}
    if chosen.isdisjoint(("status", "passed", "outcomes")) or chosen.isdisjoint(PROGRAMS):
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return not preview(find("source", name), path, options).counts["attempts"]


def column_of_files(path: Path, given: Mapping[str, str]) -> str:
    """Return the column of the first table of a tree that names program files, beside a column of outcomes; empty if there is none."""
    try:
        _, rows, _ = rows_in(split(path, rows=given.get("rows", ""))[0], given)
    except SourceError:
        return ""
    known = likely_columns(rows, columns_of(Map()))
    if {*OUTCOMES}.isdisjoint({*known, *columns_in(rows)}):
        return ""
    parts = [PurePosixPath(member.name).parts for member in islice(members(path), FILES)]
    tails = {"/".join(one[at:]) for one in parts for at in range(len(one))}
    named = {
        name: [str(value).replace("\\", "/").removeprefix("./") for value in values_of(rows, name)] for name in columns_in(rows)
    }
    return next((name for name, files in named.items() if files and "." in files[0] and tails.issuperset(files)), "")


def has_test_files(path: Path) -> bool:
    """Return whether a folder has a file that a test runner would collect."""
    stems = (PurePosixPath(member.name).stem for member in islice(members(path), FILES))
    return any(stem.startswith("test_") or stem.endswith(("_test", ".test", ".spec", "Test")) for stem in stems)


def by_files(path: Path) -> list[Reading]:
    """Return the sources whose characteristic files a folder has."""
    found: list[Reading] = []
    for name in names("source"):
        source: Source = find("source", name)
        if mark := next((mark for mark in source.marks if next(path.glob(mark), None)), ""):
            found.append(Reading(name, f"it has {mark}"))
    return found


def rows_in(unit: Unit, given: Mapping[str, str] = {}) -> tuple[Member, list[dict[str, Any]], dict[str, str]]:
    """Return a table, its first rows, and the option that names the list that contains them."""
    member, where = table_at(unit.path, unit.options.get("names", ())), {k: v for k, v in unit.options.items() if k == "rows"}
    file = member.where
    if kind_of(member) is Kind.JSON and "rows" not in {**given, **where} and (lists := lists_in(member)):
        if len(lists) > 1:
            ways = " or ".join(f"--rows {shlex.quote(name)} ({count} rows)" for name, count in with_wholes(lists)[:5])
            raise SourceError(f"{file}: has several lists of rows; name one: {ways}")
        where = {"rows": lists[0][0]}
    options: dict[str, Any] = {
        name: value for name, value in {**where, **given}.items() if name in ("rows", "query", "encoding")
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        head = first_rows(iter(rows_of(member, **options)))
    rows = [row for _, row in head if isinstance(row, dict)]
    if not rows:
        bad = next((f"line {row.line}: {row.reason}" for _, row in head if isinstance(row, BadRow)), "")
        raise SourceError(f"{file}: has no rows{' that can be read; ' if bad else ''}{bad}")
    return member, rows, where


def with_wholes(lists: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return names and lengths of lists; lists of one object are named ``object.*.*``."""
    parents = Counter(name.rpartition(".")[0] for name, _ in lists)
    wholes = {
        parent: sum(count for name, count in lists if name.rpartition(".")[0] == parent)
        for parent, n in parents.items()
        if n > 2 and parent
    }
    left = [one for one in lists if one[0].rpartition(".")[0] not in wholes]
    return [*((f"{parent}.*.*", count) for parent, count in wholes.items()), *left]


def by_columns(rows: Rows, place: str) -> list[Reading]:
    """Return the sources whose columns the rows have, in the expected list of a JSON object. If one source needs all columns of another and more,
    only the former counts."""
    columns = {*columns_in(rows)}
    if log := log_of_objects(columns):
        return [Reading(log, "a log, by the names in its objects")]
    found: dict[str, set[str]] = {}
    for name in names("source"):
        source: Source = find("source", name)
        detect = source.detect
        if detect and source.rows in ("", place) and all(has(rows, columns, one) for one in detect):
            found[name] = {*detect}
    best = [name for name in found if not any(found[name] < other for other in found.values())]
    return [Reading(name, f"its columns are {', '.join(sorted(found[name]))}") for name in best]


def has(rows: Rows, columns: set[str], wanted: str) -> bool:
    """Return whether rows fulfil a condition: ``name``, the column exists; ``!name``, it is missing; ``name=a|b``, it holds only these values."""
    name, _, words = wanted.partition("=")
    if name.startswith("!"):
        return name[1:] not in columns
    return not columns.isdisjoint(name.split("|")) and (
        not words or {str(value) for value in values_of(rows, name)} <= {*words.split("|")}
    )


def table_readings(path: Path, rows: Rows, given: Mapping[str, str], *, alone: bool = False) -> list[Reading]:
    """Return the ways to read rows as a table; several if two columns may be the program or the outcome. ``alone``: no other table is read.

    Raises SourceError if no column looks like a statement or a name of tasks, none like programs or tests, or one may be the outcome.
    """
    columns = columns_in(rows)
    refuse_unknown(path, rows, given)
    own = {field: name for field, name in columns_of(Map()).items() if name in columns and field not in given}
    known = {**own, **{name: value for name, value in given.items() if name in FIELDS}}
    likely = likely_columns(rows, {**columns_of(Map()), **known})
    likely = {field: name for field, name in likely.items() if field in FIELDS and name not in given.values()}
    chosen = {**known, **likely}
    if not {*PROGRAMS} & chosen.keys() and (name := other_programs(rows, columns, {**chosen, "code": ""}, SOLUTIONS)):
        likely, chosen = {**likely, "code": name}, {**chosen, "code": name}
    taken = {*chosen, *PROGRAMS} if {*PROGRAMS} & chosen.keys() else {*chosen}
    chats = {name: one for name, one in chats_in(rows[:SHOWN]).items() if name not in taken}
    if chats and is_judged([row for row in rows if call_in(row)[1]] or rows, chosen):  # others are calls
        likely, chosen = {**likely, **chats}, {**chosen, **chats}
    if {*NAMES} & chosen.keys() and {*PROGRAMS}.isdisjoint(chosen) and (plan := plan_of_lists(rows, chosen)):
        why = f"{' and '.join(plan['explode'])} have attempts: {', '.join(f'{k} = {v}' for k, v in plan['columns'].items())}"
        return [Reading("map", why, tree={**{k: v for k, v in given.items() if k == "rows"}, **plan})]
    solutions = [name for name in columns if name.rpartition(".")[2].lower() in SOLUTIONS and name not in chosen.values()]
    refuse_lacking(path, rows, {**dict.fromkeys(solutions and PROGRAMS[:1], ""), **chosen})
    stated, more = stated_in(path, rows, chosen, alone=alone and "name" not in given)
    used = [name for name in likely.values() if f"{{{name}}}" in more["options"].get("outcomes", "")]
    likely, chosen = ({field: name for field, name in one.items() if name not in used} for one in (likely, chosen))
    plain = {**given, **likely}
    ways = [({**plain}, "")]
    if solutions and not {*PROGRAMS} & chosen.keys():
        ways = [({**plain, "code": solutions[0]}, f"{solutions[0]} has attempts"),
                ({**plain, "reference": solutions[0]}, f"{solutions[0]} has the tasks' references")]  # fmt: skip
        ways = ways[: 1 if {*OUTCOMES} & chosen.keys() else 2]  # references have no outcomes
    elif solutions and "reference" not in chosen:
        ways = [({**plain, "reference": solutions[0]}, "")]
    elif other := other_programs(rows, columns, chosen):
        field = next(name for name in PROGRAMS if name in chosen)
        fenced = field == "code" and "```" in str(values_of(rows, other)[0])
        more = {"answer": other, "reference": chosen[field]} if fenced else {field: other}
        rest = {name: one for name, one in plain.items() if name != field}
        ways = [
            ({**rest, **more}, f"{name} has the programs")
            for name, more in ((chosen[field], {field: chosen[field]}), (other, more))
        ]
    if "status" not in given and (outcomes := outcomes_in(rows, chosen)):
        ways = [*with_each(ways, outcomes)]
    shown = ", ".join(f"{field} = {name or 'none'}" for field, name in {**own, **plain}.items())
    readings = [Reading("table", why or f"a table with {shown}", dict(way)) for way, why in ways]
    return [with_stated(one, "; ".join(stated), more) for one in readings] if stated else readings


def refuse_lacking(path: Path, rows: Rows, chosen: Mapping[str, str]) -> None:
    """Raise SourceError if no column looks like a statement or a name of tasks, or none like programs or tests."""
    lacks = "" if {*NAMES} & chosen.keys() else "a statement or name of tasks"
    if lacks := lacks or ("" if {*PROGRAMS, "tests", "reference"} & chosen.keys() else "programs or tests"):
        shown = "; ".join([", ".join(columns_in(rows)), *hints_for(rows, chosen)])
        raise SourceError(
            f"{path}: no column looks like {lacks}; name the column: upsolve ingest {shlex.quote(str(path))} ARCHIVE --prompt COLUMN --code COLUMN "
            f"--status COLUMN, or --map FILE; its columns are {shown}"
        )


def with_stated(reading: Reading, why: str, more: Mapping[str, Any]) -> Reading:
    """Return the reading of a table with more options or, if it needs more keys of a map, by this map (``stated_in``)."""
    options, why = {**reading.options, **more["options"]}, f"{reading.why}; {why}"
    if not more["map"]:
        return replace(reading, options=options, why=why)
    return Reading("map", why, tree=map_with(options, more["map"]))


def map_with(options: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the map that has the effect of options of a table, with more keys."""
    numbers = {name: float(options[name]) for name in ("passed_at", "full_points") if name in options}
    own = {name: value for name, value in options.items() if name not in FIELDS}
    return {**own, **numbers, **more, "columns": {name: value or None for name, value in options.items() if name in FIELDS}}


def plan_of_lists(rows: Rows, chosen: Mapping[str, str]) -> dict[str, Any]:
    """Return the map for rows that are tasks with attempts in lists, given the columns of fields; {} without such lists, or if their content is unclear."""
    columns = {field: name for field, name in chosen.items() if field in (*TASK_FIELDS, "language", "author")}
    taken = [*columns.values()]
    if not (lists := explosions_in(rows, taken)):
        name, found = exploded_in(rows, taken)
        return {"explode": [name], "columns": {**columns, **found}} if name else {}
    items = {name: [one for row in rows for one in row.get(name) or ()] for name in lists}
    named = {("answer" if "```" in str(items[lists[0]]) else "code"): lists[0]}
    for name in lists[1:]:
        named |= {field: name for field in ("status", "outcomes") if fits(field, name, items[name])}
    is_sure = len(named) == min(len(lists), 2) and len(lists_of_programs(rows, taken)) == 1
    return {"explode": lists, "columns": {**columns, **named}} if is_sure else {}


def refuse_unknown(path: Path, rows: Rows, given: Mapping[str, str]) -> None:
    """Raise SourceError for an unknown option, or an option whose value is not a column of the rows; the message suggests the nearest name."""
    try:
        parse_options("source table", find("source", "table").options, given)
    except ValueError as error:
        raise SourceError(f"{path}: {error}") from error
    columns = columns_in(rows)
    for name in KEYS:
        column = given.get(name, "")
        if column and not re.search(r"[{+]", column) and not values_of(rows, column) and column not in columns:
            close = get_close_matches(column, columns, n=1)
            has = f"did you mean {close[0]}?" if close else f"its columns are {', '.join(columns)}"
            raise SourceError(f"{path}: --{name}: no column {column!r}; {has}")


def other_programs(rows: Rows, columns: Iterable[str], chosen: Mapping[str, str], but: Collection[str] = ()) -> str:
    """Return a column that no field uses and whose texts look like programs; "" if there is none.

    Columns in ``but``, and columns whose texts contain the chosen programs, are ignored.
    """
    column = next((chosen[name] for name in PROGRAMS if name in chosen), None)
    if column is None or "code_file" in chosen:
        return ""
    free = (name for name in columns if name not in chosen.values() and name.rpartition(".")[2].lower() not in but)
    found = (name for name in free if are_programs(values_of(rows, name), fenced=bool(column)))
    return next((name for name in found if not all(str(row.get(column)).strip() in str(row.get(name)) for row in rows)), "")


def tree_readings(path: Path) -> list[Reading]:
    """Return the ways to read a tree of programs (``layouts_of``); [] for another path."""
    found = [PurePosixPath(member.name) for member in islice(members(path), FILES)]
    if len(found) < 2 and not path.is_dir():
        return []
    return [Reading("map", why, tree=plan) for why, plan in layouts_of(path, found)]


@dataclass(slots=True)
class Preview:
    """The first records of a reading, with counts."""

    task: Task | None = None
    """First task; a task with tests if there is one."""
    attempt: Attempt | None = None
    """First attempt; one with an outcome if there is one."""
    verdict: Verdict | None = None
    """Recorded outcome of that attempt."""
    counts: Counter[str] = field(default_factory=Counter[str])
    """Number of records by the words of ``COUNTED``."""
    rejected: list[BadRow] = field(default_factory=list[BadRow])
    """Three rejected rows, of different reasons if there are."""
    bad_rows: int = 0
    """Number of rows with rejected records."""
    rows: int = 0
    """Number of rows read; 0 if the source does not count them."""
    allowed: float = 1.0
    """Largest share of rejected rows of an import, [0, 1]."""
    whole: bool = True
    """Whether all records were read."""
    unread: str = ""
    """Number and names of the files that are not read; empty if all are read."""

    @property
    def too_many(self) -> bool:
        """Whether an import would fail because more rows are rejected than allowed."""
        return self.whole and self.bad_rows > self.allowed * (self.rows or self.counts.total())

    def text(self) -> str:
        """Return the text that a user sees before an import."""
        shown: list[str] = []
        if self.task:
            tests = [shown_test(test) for test in self.task.tests[:3]]
            more = len(self.task.tests) - len(tests)
            number = f"{len(self.task.tests)} tests" if self.task.tests else "no tests"
            shown += [f"task {self.task.task_id}, {number}", quoted(self.task.prompt or "(no statement)"), *map(quoted, tests)]
            shown += [f"  | and {more} more"] * (more > 0)
        if self.attempt:
            outcome = f"recorded as {self.verdict.status}" if self.verdict else "without an outcome"
            by = f" by {self.attempt.author}" if self.attempt.author else ""
            shown += [f"attempt in {self.attempt.language}{by}, {outcome}", quoted(self.attempt.code)]
        counts = ", ".join(f"{self.counts[name]:,} {name}" for name in COUNTED.values())
        shown += [f"{'all' if self.whole else 'first'} rows: {counts}"]
        shown += [f"  {row.file}, line {row.line}: {row.reason}" for row in self.rejected]
        if self.too_many:
            rows = self.rows or self.counts.total()
            share = f"{self.bad_rows:,} of {rows:,} rows are rejected; fix the file, or allow it"
            shown += [f"the import would fail: {share}: --max-rejected {enough(self.bad_rows, rows)} (now {self.allowed:g})"]
        shown += [self.unread] * bool(self.unread)
        return "\n".join(shown)

    def facts(self) -> dict[str, Any]:
        """Return the preview as plain data for ``--json``."""
        records = {name: asdict(record) for name in ("task", "attempt", "verdict") if (record := getattr(self, name))}
        rejected = [asdict(row) for row in self.rejected]
        return {
            **records,
            "counts": dict(self.counts),
            "whole": self.whole,
            "rejected": rejected,
            "too_many": self.too_many,
            "unread": self.unread or None,
        }


def shown_test(test: TestCase) -> str:
    """Return a test as it is run."""
    match test.kind:
        case TestKind.CALL:
            return f"{test.input} == {test.expected}"
        case TestKind.STDIO:
            return f"{test.input!r} on standard input -> {test.expected!r}"
        case _:
            return test.input


def quoted(text: str) -> str:
    """Return the first lines of a text, each behind a bar."""
    lines = text.strip("\n").splitlines() or [""]
    left = [f"  | ... {len(lines) - LINES} more lines"] * (len(lines) > LINES)
    return "\n".join([*(f"  | {line[:WIDTH]}" for line in lines[:LINES]), *left])


def preview(
    source: Source, path: Path, options: Mapping[str, Any], *, whole: bool = False, max_rejected: float | None = None
) -> Preview:
    """Return the first records that a source reads from a path; ``whole``: all records are counted. ``max_rejected``: as for an import."""
    place = source.locate(path)
    units = (source.split(place, **options) if source.split else ()) or [Unit(place)]
    seen, places, without = Preview(unread=units[0].unread), set[tuple[str, int]](), 0
    counted[0] = 0
    rows = chain.from_iterable(source.read(unit.path, **{**options, **unit.options}) for unit in units)
    for number, row in enumerate(rows):
        if not whole and number >= RECORDS:
            seen.whole = False
            break
        if isinstance(row, LeftOut):
            continue
        seen.counts[COUNTED[type(row)]] += 1
        if isinstance(row, BadRow):
            keep_example(seen.rejected, row)
            without += not row.line
            places |= {(row.file, row.line)} if row.line else set()
        elif isinstance(row, Task):
            if seen.task is None or (row.tests and not seen.task.tests):
                seen.task = row
        elif isinstance(row, Attempt):
            seen.attempt = seen.attempt or row
        elif seen.attempt and seen.verdict is None and row.attempt_id == seen.attempt.attempt_id:
            seen.verdict = row
    seen.bad_rows, seen.rows = max(len(places), without), counted[0]
    stored = seen.counts.total() - seen.counts[COUNTED[BadRow]]
    seen.allowed = max_rejected if max_rejected is not None else source.max_rejected * bool(stored)
    return seen
