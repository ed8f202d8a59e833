"""Tables that belong together, of tasks, of their tests and of attempts: those of a judge's database, or the files of a folder."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from upsolve.importers.formats import Kind, Member, kind_of, rows_of
from upsolve.importers.formats.tabular import DUCKDB_TABLES, SQLITE_TABLES
from upsolve.importers.rows import Rows, columns_in, first_rows, known_words
from upsolve.importers.tables import FIELDS, NAMED_ONLY, PROGRAMS
from upsolve.importers.tables.columns import bare, likely_fields, values_of
from upsolve.solve.databases import quoted

__all__ = ["Relations", "columns_of_database", "relations_of"]

LISTED = {Kind.SQLITE: SQLITE_TABLES, Kind.DUCKDB: DUCKDB_TABLES}
"""Kind of a database -> query of the names of its tables."""


@dataclass(frozen=True, slots=True)
class Relations:
    """What each of several tables holds."""

    fields: Mapping[str, Mapping[str, str]]
    """Table -> columns of fields; of ``task_id`` in a table of tasks, the column that the other tables refer to."""
    tasks: tuple[str, ...]
    """Tables of tasks."""
    attempts: tuple[str, ...]
    """Tables of attempts."""
    tests: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Tables of tests -> their columns of the task, the input, the expected output and of what says which are hidden; at most one."""
    unread: tuple[str, ...] = ()
    """Tables of other things, such as users."""

    def __str__(self) -> str:
        parts = {"tasks": self.tasks, "tests": tuple(self.tests), "attempts": self.attempts}
        has = ", ".join(f"{' and '.join(names)} of {what}" for what, names in parts.items() if names)
        return f"tables: {has}" + (f" (not read: {', '.join(self.unread)})" if self.unread else "")

    def as_plan(self) -> dict[str, object]:
        """Return the map that reads the tables as files of a folder."""
        parts: list[dict[str, object]] = [
            {"files": f"**/{name}", "columns": dict(self.fields[name])} for name in (*self.tasks, *self.attempts)
        ]
        for name, (reference, *_) in self.tests.items():
            join = {"file": name, "where": {reference: self.fields[self.tasks[0]]["task_id"]}}
            parts[0] = {**parts[0], "columns": {**self.fields[self.tasks[0]], "tests": "tests"}, "joins": {"tests": join}}
        return {"parts": parts}

    def as_query(self, tables: Mapping[str, Rows]) -> dict[str, str]:
        """Return the query that reads the tables of a database as one, tasks first, and the columns of fields; {} of several tables of a kind."""
        if len(self.tasks) != 1 or len(self.attempts) != 1:
            return {}
        tasks, attempts = self.tasks[0], self.attempts[0]
        of_task, of_attempt = dict(self.fields[tasks]), dict(self.fields[attempts])
        key, reference = of_task.pop("task_id"), of_attempt["task_id"]
        theirs = [name for name in columns_in(tables[attempts]) if name != reference]
        mine = {
            name: name if name not in (*theirs, reference) else f"{tasks}_{name}"
            for name in columns_in(tables[tasks])
            if name != key
        }
        first = [f"t.{quoted(name)} as {quoted(as_)}" for name, as_ in mine.items()]
        source, tests = f"{quoted(tasks)} t", "null"
        for name, (to, *columns) in self.tests.items():
            keys = ("input", "output", *(name.lower() for name in columns[2:]))
            pairs = ", ".join(f"'{key}', {quoted(column)}" for key, column in zip(keys, columns, strict=True))
            pairs = f"json_group_array(json_object({pairs}))"
            source += f" left join (select {quoted(to)} as of_task, {pairs} as pairs from {quoted(name)} group by 1) x on x.of_task = t.{quoted(key)}"  # noqa: S608  quoted names
            tests = "x.pairs"
        nulls = [f"null as {quoted(name)}" for name in theirs]
        one = [f"t.{quoted(key)} as {quoted(reference)}", *first, *nulls, f"{tests} as {quoted('tests of the task')}"]
        two = [quoted(reference), *("null" for _ in mine), *map(quoted, theirs), "null"]
        query = f"select {', '.join(one)} from {source} union all select {', '.join(two)} from {quoted(attempts)}"  # noqa: S608
        columns = {name: mine[column] for name, column in of_task.items() if column in mine} | of_attempt
        return {"query": query, **columns, **({"tests": "tests of the task"} if self.tests else {})}


def relations_of(tables: Mapping[str, Rows]) -> Relations | None:
    """Return what tables hold, given their first rows; None unless some have tasks, and others attempts at these by their ids.

    The answer is None, too, if a table without programs has outcomes: these may belong to the attempts.
    """
    likely = {name: fields_in(rows) for name, rows in tables.items()}
    tasks = [name for name, fields in likely.items() if "prompt" in fields and fields.keys().isdisjoint(PROGRAMS)]
    attempts = [name for name, fields in likely.items() if "task_id" in fields and not fields.keys().isdisjoint(PROGRAMS)]
    others = [name for name in tables if name not in (*tasks, *attempts)]
    if not tasks or not attempts:
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
    found = {name: columns for name in others if (columns := tests_in(tables[name], references, keys))}
    unread = tuple(name for name in others if name not in found)
    if (
        len(found) > 1
        or not all(one[0] for one in found.values())
        or (found and len(tasks) > 1)
        or any({"status", "outcomes"} & likely[name].keys() for name in unread)
    ):
        return None
    return Relations(likely, tuple(tasks), tuple(attempts), found, unread)


def columns_of_database(member: Member) -> tuple[str, dict[str, str]]:
    """Return what the tables of a database hold, and the options that read them as one (``Relations.as_query``); empty if that is not known."""
    tables = tables_in(member)
    found = relations_of(tables) if len(tables) > 1 else None
    columns = found.as_query(tables) if found else {}
    return f"{found}; {', '.join(f'{name} = {one}' for name, one in columns.items() if name != 'query')}", columns


def tests_in(rows: Rows, references: set[str], keys: set[str]) -> tuple[str, ...]:
    """Return the columns of the task (empty: unknown), the input, the expected output and of what says which are hidden; () of other tables."""
    words = known_words()["tests"]
    names = {bare(name): name for name in columns_in(rows)}
    pair = [next((names[one] for one in map(bare, words[kind]) if one in names), "") for kind in ("inputs", "outputs")]
    if not all(pair) or pair[0] == pair[1]:
        return ()
    named = [
        *(name for name in columns_in(rows) if name in references),
        likely_fields(rows, {}, ["task_id"]).get("task_id", ""),
    ]
    held = {name: {*map(str, values_of(rows, name))} for name in named if name and name not in pair}
    to = next((name for name, values in held.items() if values and 2 * len(values & keys) >= len(values)), "")
    return (to, *pair, *(name for name in columns_in(rows) if name.lower() in ("hidden", *words["flags"])))


def tables_in(member: Member) -> dict[str, Rows]:
    """Return the first rows of the tables of a database that have any; {} of another file."""
    if (kind := kind_of(member)) not in LISTED:
        return {}
    found = [str(row["name"]) for _, row in rows_of(member, query=LISTED[kind]) if isinstance(row, dict)]
    heads = {name: first_rows(iter(rows_of(member, query=f"select * from {quoted(name)}"))) for name in found}  # noqa: S608
    tables = {name: [row for _, row in head if isinstance(row, dict)] for name, head in heads.items()}
    return {name: rows for name, rows in tables.items() if rows}


def fields_in(rows: Rows) -> dict[str, str]:
    """Return the columns of the fields that rows show, by name or content."""
    own = {name: name for name in columns_in(rows) if name in FIELDS and name not in NAMED_ONLY}
    return {**own, **{field: name for field, name in likely_fields(rows, own).items() if field in FIELDS}}
