"""Related tables of tasks, tests, attempts and outcomes: the tables of a judge's database, or the files of a folder."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.formats import Kind, Member, kind_of, rows_of
from upsolve.importers.formats.tabular import DUCKDB_TABLES, SQLITE_TABLES
from upsolve.importers.outcome import OUTCOME_FIELDS
from upsolve.importers.rows import Rows, columns_in, first_rows, known_words
from upsolve.importers.tables import FIELDS, NAMED_ONLY, PROGRAMS
from upsolve.importers.tables.columns import bare, by_name, fits, likely_fields, says_opposite, values_of
from upsolve.importers.tables.grades import differ
from upsolve.importers.tables.table import CASE
from upsolve.solve.databases import quoted

__all__ = ["plan_of", "tables_of"]

LISTED = {Kind.SQLITE: SQLITE_TABLES, Kind.DUCKDB: DUCKDB_TABLES}
"""Kind of a database -> query for the names of its tables."""
RECORDED = tuple(name for name in OUTCOME_FIELDS if name not in ("outcomes", "judge"))
"""Fields that a table of outcomes may have."""
SCORE = re.compile("|".join(known_words()["meanings"]["score"]))
"""Names of columns, without signs, that often hold scores."""


@dataclass(frozen=True, slots=True)
class Results:
    """The columns of a table of outcomes."""

    attempt: str
    """Column that names the attempts."""
    key: str
    """Column of the attempts that has these names."""
    columns: Mapping[str, str]
    """Field -> column."""
    test: str = ""
    """Column that names single tests; empty: a row is about the whole attempt."""
    of_test: str = ""
    """Column of the tests that has these names; empty without a table of tests."""


@dataclass(frozen=True, slots=True)
class Relations:
    """The contents of several related tables."""

    fields: Mapping[str, Mapping[str, str]]
    """Table -> columns of fields; for ``task_id`` in a table of tasks, the column that the other tables refer to."""
    tasks: tuple[str, ...]
    """Tables of tasks."""
    attempts: tuple[str, ...]
    """Tables of attempts."""
    tests: Mapping[str, str] = field(default_factory=dict[str, str])
    """Tables of tests -> their columns of the task; at most one."""
    results: Mapping[str, Results] = field(default_factory=dict[str, Results])
    """Tables of outcomes of attempts, and of attempts at single tests; at most one of each."""
    unread: tuple[str, ...] = ()
    """Tables with other contents, such as users."""

    def __str__(self) -> str:
        parts = {"tasks": self.tasks, "tests": tuple(self.tests), "attempts": self.attempts, "outcomes": tuple(self.results)}
        has = ", ".join(f"{' and '.join(names)} of {what}" for what, names in parts.items() if names)
        return f"tables: {has}" + (f" (not read: {', '.join(self.unread)})" if self.unread else "")

    def as_plan(self, tables: Mapping[str, Rows], given: Mapping[str, str], *, database: bool) -> dict[str, object]:
        """Return the map that reads the tables of a database, or the files of a folder, with the columns that options name."""
        place, form = ("query", "{}") if database else ("files", "**/{}")
        parts: list[dict[str, Any]] = []
        for name in (*self.tasks, *self.attempts):
            own = {key: one for key, one in given.items() if key in FIELDS and one in columns_in(tables[name])}
            parts.append({place: form.format(name), "columns": {**self.fields[name], **own}, "joins": {}})
        first, last, place = parts[0], parts[-1], place.removesuffix("s")
        for name, to in self.tests.items():
            first["columns"]["tests"] = "tests"
            first["joins"]["tests"] = {place: name, "where": {to: self.fields[self.tasks[0]]["task_id"]}}
        for name, one in self.results.items():
            stem, join = name.partition(".")[0], {place: name, "where": {one.attempt: one.key}}
            if not one.test:
                found = {key: f"{stem}.0.{column}" for key, column in one.columns.items()}
                last["joins"][stem] = {**join, "one": True}
            else:
                column = next(one.columns[key] for key in ("status", "passed") if key in one.columns)
                found, join = {"outcomes": f"{stem}.{column}"}, {**join, "order": [one.test], "value": column}
                for tests, to in self.tests.items() if one.of_test else ():
                    last["joins"]["its tests"] = {place: tests, "where": {to: self.fields[self.attempts[0]]["task_id"]}}
                    last["extra"] = {"without": ["its tests"]}
                    join = {**join, "along": {"its tests": {one.of_test: one.test}}}
                last["joins"][f"{stem}.{column}"] = join
            last["columns"] |= {key: column for key, column in found.items() if key not in given}
        return {"parts": parts}


def plan_of(
    path: Path, tables: Mapping[str, Rows], given: Mapping[str, str], *, database: bool
) -> tuple[str, dict[str, str], dict[str, object]] | None:
    """Return the contents of tables, the options that the map includes, and the map; None if the tables are not related.

    Raises:
        SourceError: the outcomes of attempts are not clear.
    """
    try:
        found = relations_of(tables) if len(tables) > 1 else None
    except ValueError as error:
        raise SourceError(f"{path}: {error}; read one table or a join: --query NAME or --query 'select ...'") from error
    columns = {name: "" for name in given if name in FIELDS}
    return (str(found), columns, found.as_plan(tables, given, database=database)) if found else None


def relations_of(tables: Mapping[str, Rows]) -> Relations | None:
    """Return the contents of tables, given their first rows; None unless some have attempts, and others their tasks or their outcomes.

    Also None if a table without programs has outcomes whose attempts are unknown.

    Raises:
        ValueError: an attempt has several outcomes, and no column names the test of each.
    """
    likely = {name: fields_in(rows) for name, rows in tables.items()}
    tasks = [name for name, fields in likely.items() if "prompt" in fields and fields.keys().isdisjoint(PROGRAMS)]
    attempts = [name for name, fields in likely.items() if "task_id" in fields and not fields.keys().isdisjoint(PROGRAMS)]
    others = [name for name in tables if name not in (*tasks, *attempts)]
    if not attempts or not (tasks or others):
        return None
    references = {likely[name]["task_id"] for name in attempts}
    wanted = {str(value) for name in attempts for value in values_of(tables[name], likely[name]["task_id"])}
    keys = set[str]()
    for name in tasks:
        known = {one: {*map(str, values_of(tables[name], one))} for one in columns_in(tables[name])}
        column = max(known, key=lambda one: (len(known[one] & wanted), one in references, bare(one) == "id"))
        if 2 * len(known[column] & wanted) < min(len(wanted), len(known[column])) or not wanted:
            return None
        likely[name]["task_id"] = column
        keys |= known[column]
    tests = {name: to for name in others if (to := tests_in(tables[name], references, keys)) is not None}
    results = dict[str, Results]()
    for name in others:
        if name not in tests and len(attempts) == 1 and (found := results_in(name, tables, attempts[0], likely, [*tests])):
            results[name] = found
    unread = tuple(name for name in others if name not in tests and name not in results)
    if len(tests) > 1 or not all(tests.values()) or (tests and len(tasks) > 1) or not (tasks or results):
        return None
    if strange := next((name for name in unread if {"status", "outcomes"} & likely[name].keys()), ""):
        raise ValueError(f"the table {strange} has outcomes, but no column that refers to rows of {' or '.join(attempts)}")
    if len({bool(one.test) for one in results.values()}) < len(results):
        raise ValueError(f"the tables {' and '.join(results)} both have outcomes of the same attempts")
    for found in results.values():
        if not found.test:
            likely[attempts[0]] = {key: one for key, one in likely[attempts[0]].items() if key not in found.columns}
    return Relations(likely, tuple(tasks), tuple(attempts), tests, results, unread)


def results_in(
    name: str, tables: Mapping[str, Rows], attempts: str, likely: Mapping[str, Mapping[str, str]], tests: Sequence[str]
) -> Results | None:
    """Return the contents of a table of outcomes of attempts; None for another table.

    A column that only has the name of an outcome counts, too: readers reject it with the reason if its values need a map.

    Raises:
        ValueError: no column distinguishes several outcomes of an attempt, or an outcome contradicts the one beside the program.
    """
    rows, columns = tables[name], {key: one for key, one in likely[name].items() if key in RECORDED}
    link = link_to(rows, attempts, tables[attempts])
    if "passed" in columns and "status" in columns and not fits("status", "", values_of(rows, columns["status"])):
        del columns["status"]
    if link and {"status", "passed"}.isdisjoint(columns):
        names = [one for one in columns_in(rows) if one not in link]
        scores = [one for one in names if SCORE.search(bare(one)) or says_opposite(one)]
        columns |= dict.fromkeys(["status"], [*by_name("status", names), *scores, ""][0])
        columns = {key: one for key, one in columns.items() if one}
    if not link or {"status", "passed"}.isdisjoint(columns):
        return None
    if are_apart(rows, link[0]):
        field, own = ("status" if "status" in columns else "passed"), likely[attempts].get("status", "")
        recorded = {str(row[link[0]]): row.get(columns[field]) for row in rows}
        pairs = [{"own": row.get(own), "other": recorded.get(str(row.get(link[1])))} for row in tables[attempts]]
        if own and fits("status", own, [pair["own"] for pair in pairs]) and any(differ(pair, "own", "other") for pair in pairs):
            raise ValueError(f"{attempts}.{own} and {name}.{columns[field]} contradict each other")
        return Results(*link, columns)
    for one in tests:
        if (to := link_to(rows, one, tables[one])) and are_apart(rows, link[0], to[0]):
            return Results(*link, columns, *to)
    if tests or not (test := next((one for one in columns_in(rows) if CASE.search(one) and are_apart(rows, link[0], one)), "")):
        beside = f" as {tests[0]} does" if tests else ""
        raise ValueError(f"{name} has several outcomes for one {link[0]}, but no column names the test of each{beside}")
    return Results(*link, columns, test)


def are_apart(rows: Rows, *columns: str) -> bool:
    """Return whether each row differs from all others in some columns."""
    return len({repr([row.get(one) for one in columns]) for row in rows}) == len(rows)


def link_to(rows: Rows, table: str, others: Rows) -> tuple[str, str] | None:
    """Return the column of rows that refers to another table, and the referenced column there; None if no column does."""
    nouns = {
        bare(table.partition(".")[0]).removesuffix("s"),
        re.split(r"[\W_]", table.partition(".")[0])[-1].lower().removesuffix("s"),
    }
    nouns |= {"test"} if any("test" in one or "case" in one for one in nouns) else {"submission", "attempt"}
    for column in columns_in(rows):
        word = bare(column).removesuffix("id").removesuffix("number").removesuffix("no")
        values = {*map(str, values_of(rows, column))}
        for key in columns_in(others) if word in nouns or bare(column) == bare(table) else ():
            same = bare(key) in (bare(column), "id", *nouns)
            if same and are_apart(others, key) and values & {*map(str, values_of(others, key))}:
                return column, key
    return None


def tables_of(member: Member) -> dict[str, Rows]:
    """Return the first rows of the non-empty tables of a database; {} for another file."""
    if (kind := kind_of(member)) not in LISTED:
        return {}
    found = [str(row["name"]) for _, row in rows_of(member, query=LISTED[kind]) if isinstance(row, dict)]
    heads = {name: first_rows(iter(rows_of(member, query=f"select * from {quoted(name)}"))) for name in found}  # noqa: S608
    tables = {name: [row for _, row in head if isinstance(row, dict)] for name, head in heads.items()}
    return {name: rows for name, rows in tables.items() if rows}


def tests_in(rows: Rows, references: set[str], keys: set[str]) -> str | None:
    """Return the column of the task in a table of tests, empty if unknown; None for other tables."""
    words = known_words()["tests"]
    names = {bare(name): name for name in columns_in(rows)}
    pair = [next((names[one] for one in map(bare, words[kind]) if one in names), "") for kind in ("inputs", "outputs")]
    if not all(pair) or pair[0] == pair[1]:
        return None
    named = [
        *(name for name in columns_in(rows) if name in references),
        likely_fields(rows, {}, ["task_id"]).get("task_id", ""),
    ]
    held = {name: {*map(str, values_of(rows, name))} for name in named if name and name not in pair}
    return next((name for name, values in held.items() if values and 2 * len(values & keys) >= len(values)), "")


def fields_in(rows: Rows) -> dict[str, str]:
    """Return field -> column for the fields that rows show, by name or content."""
    own = {name: name for name in columns_in(rows) if name in FIELDS and name not in NAMED_ONLY}
    return {**own, **{field: name for field, name in likely_fields(rows, own).items() if field in FIELDS}}
