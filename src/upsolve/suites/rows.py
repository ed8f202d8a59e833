"""Databases as inputs of queries, and new databases by mutation of their rows within what the schema and the stored databases allow."""

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from random import Random
from typing import Any

from upsolve.errors import ConfigError
from upsolve.languages import language
from upsolve.solve.databases import databases_of, literal, quoted
from upsolve.suites.inputs import Candidate
from upsolve.types import Task, TestCase, TestKind

__all__ = ["Database", "DatabaseInputs", "database_inputs", "read_database", "reversed_rows"]

MADE = 12
"""Number of databases made from schema and question; at times one of these is mutated instead of a stored one."""
STEPS = 2_000_000
"""Most SQLite machine instructions while a script is read."""
EDITS = 8
"""Most changes of one database."""
DENIED = {sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH, sqlite3.SQLITE_PRAGMA}
"""SQLite actions that a task's script may not use, because they reach files."""


@dataclass(frozen=True, slots=True)
class Table:
    """Columns and rows of a table."""

    columns: tuple[str, ...]
    """Names."""
    keys: frozenset[int]
    """Columns of the primary key."""
    required: frozenset[int]
    """Columns that the schema declares NOT NULL."""
    parents: Mapping[int, str]
    """Column -> table that its foreign key names."""
    rows: list[list[Any]]
    """Rows."""


@dataclass(frozen=True, slots=True)
class Database:
    """The tables of a database."""

    schema: str
    """Statements that create the tables that the task's setup does not create."""
    tables: Mapping[str, Table]
    """Tables by name."""

    def script(self) -> str:
        """Return the statements that build the database."""
        lines = [self.schema] if self.schema else []
        for name, table in self.tables.items():
            rows = ", ".join("(" + ", ".join(map(literal, row)) + ")" for row in table.rows)
            lines += [f"INSERT INTO {quoted(name)} VALUES {rows};"] if rows else []  # noqa: S608  runs in the sandbox
        return "\n".join(lines) + "\n"


def allowed(action: int, *_: str | None) -> int:
    """Return whether a script may perform an action: any except ``DENIED``."""
    return sqlite3.SQLITE_DENY if action in DENIED else sqlite3.SQLITE_OK


def guarded() -> sqlite3.Connection:
    """Return an in-memory database whose scripts reach no files and must end."""
    connection = sqlite3.connect(":memory:")
    connection.set_authorizer(allowed)
    connection.set_progress_handler(lambda: 1, STEPS)
    return connection


def read_database(setup: str, script: str) -> Database | None:
    """Return the tables that a script builds after a setup; None if SQLite cannot read them, or the setup holds rows."""
    with closing(guarded()) as connection:
        try:
            connection.executescript(setup)
            given = [*objects(connection)]
            if any(connection.execute(f"select 1 from {quoted(name)} limit 1").fetchone() for name in tables_in(connection)):  # noqa: S608
                return None
            connection.executescript(script)
            made = [sql for sql in objects(connection) if sql not in given]
            connection.set_authorizer(None)
            tables = {name: table_of(connection, name) for name in tables_in(connection)}
        except (sqlite3.Error, ValueError, sqlite3.Warning):
            return None
    return Database("\n".join(f"{sql};" for sql in made), tables)


def objects(connection: sqlite3.Connection) -> list[str]:
    """Return the statements that created the objects of a database, in order."""
    return [sql for (sql,) in connection.execute("select sql from sqlite_master where sql is not null order by rowid")]


def tables_in(connection: sqlite3.Connection) -> list[str]:
    """Return the names of the tables of a database, in order."""
    query = "select name from sqlite_master where type = 'table' and name not like 'sqlite_%' order by rowid"
    return [name for (name,) in connection.execute(query)]


def table_of(connection: sqlite3.Connection, name: str) -> Table:
    """Return a table of a database."""
    info = connection.execute(f"pragma table_info({quoted(name)})").fetchall()
    columns = tuple(row[1] for row in info)
    parents = {
        columns.index(row[3]): row[2]
        for row in connection.execute(f"pragma foreign_key_list({quoted(name)})")
        if row[3] in columns
    }
    rows = [[*row] for row in connection.execute(f"select * from {quoted(name)}")]  # noqa: S608
    keys = frozenset(index for index, row in enumerate(info) if row[5])
    return Table(columns, keys, frozenset(index for index, row in enumerate(info) if row[3]), parents, rows)


@dataclass(frozen=True, slots=True)
class Column:
    """Values of a column in the stored databases."""

    values: tuple[Any, ...]
    """Distinct values, without NULL."""
    has_null: bool
    """Whether NULL occurs."""
    is_unique: bool
    """Whether the column is the primary key, or no value occurs twice in one database although values of several databases are equal."""
    parent: str
    """Table whose key contains every value; empty if there is none."""

    @property
    def is_number(self) -> bool:
        """Whether all values are numbers."""
        return bool(self.values) and all(isinstance(value, int | float) for value in self.values)


@dataclass(frozen=True, slots=True)
class DatabaseInputs:
    """Databases of one schema."""

    bases: Sequence[tuple[int, Database]]
    """Index of a test, and its database; -1 for a database made from the schema."""
    columns: Mapping[tuple[str, int], Column]
    """Table and number of a column -> its contents in the stored databases."""
    limits: Mapping[tuple[str, int], tuple[Any, ...]]
    """Table and number of a column -> values that queries compare it with, or that the question names."""

    def new(self, random: Random) -> Candidate | None:
        """Return a mutated database; see ``upsolve.suites.inputs.Inputs``."""
        origin, base = random.choice(self.bases)
        tables = {
            name: Table(t.columns, t.keys, t.required, t.parents, [[*row] for row in t.rows]) for name, t in base.tables.items()
        }
        names = [name for name, table in tables.items() if table.rows]
        changes: list[str] = []
        bounded = [name for name in names if any(table == name for table, _ in self.limits)]
        first = [(random.choice(bounded), set_limits) for _ in range(random.randint(0, 4) if bounded else 0)]
        drawn = [(random.choice(names), EDIT[random.choice([*EDIT])]) for _ in range(random.randint(1, EDITS) if names else 0)]
        for name, change in (*first, *drawn):
            if done := change(self, tables, name, random):
                changes.append(f"{name}: {done}")
        if not changes or not self.is_sound(tables):
            return None
        test = TestCase(TestKind.STDIO, Database(base.schema, tables).script(), "", hidden=True)
        return Candidate(test, origin, "; ".join(changes))

    def is_sound(self, tables: Mapping[str, Table]) -> bool:
        """Return whether keys and unique columns are distinct, and every value of a foreign key exists."""
        for name, table in tables.items():
            if not table.rows or (
                table.keys and len({tuple(row[key] for key in table.keys) for row in table.rows}) < len(table.rows)
            ):
                return False
            for index in range(len(table.columns)):
                column, held = self.columns[name, index], [row[index] for row in table.rows if row[index] is not None]
                if column.is_unique and len({*held}) < len(held):
                    return False
                if column.parent and not {*held} <= {row[key_of(tables[column.parent])] for row in tables[column.parent].rows}:
                    return False
        return True


Edit = Callable[[DatabaseInputs, Mapping[str, Table], str, Random], str]
"""``edit(inputs, tables, name, random)`` changes a table in place and returns a description; empty if nothing changed."""


def key_of(table: Table) -> int:
    """Return the column by which rows of other tables refer to a row."""
    return min(table.keys, default=0)


def free_column(table: Table, random: Random, *, rows: int = 1, fits: Callable[[int], bool] = lambda _: True) -> int | None:
    """Return a random suitable column outside of the primary key; None without one, or if the table has too few rows."""
    free = [index for index in range(len(table.columns)) if index not in table.keys and fits(index)]
    return random.choice(free) if free and len(table.rows) >= rows else None


def set_value(inputs: DatabaseInputs, tables: Mapping[str, Table], name: str, random: Random) -> str:
    """Set a cell to another value of its column, or to a neighbouring number."""
    table = tables[name]
    index = free_column(table, random)
    if index is None:
        return ""
    column, row = inputs.columns[name, index], random.choice(table.rows)
    choices = [row[key_of(tables[column.parent])] for row in tables[column.parent].rows] if column.parent else [*column.values]
    if not choices:
        return ""
    value = random.choice(choices)
    if isinstance(value, int | float) and not column.parent and random.random() < 0.3:
        value = min(max(value + random.choice((-1, 1)), min(column.values)), max(column.values))
    row[index] = value
    return f"{table.columns[index]} set"


def set_limits(inputs: DatabaseInputs, tables: Mapping[str, Table], name: str, random: Random) -> str:
    """Set cells of one row to values with which queries compare their columns; there an off-by-one condition shows."""
    table, done = tables[name], list[str]()
    row = random.choice(table.rows) if table.rows else []
    for index, column in enumerate(table.columns if row else ()):
        if (values := inputs.limits.get((name, index))) and random.random() < 0.7:
            row[index] = random.choice(values)
            done.append(column)
    return f"{', '.join(done)} set as in a query" if done else ""


def set_mean(inputs: DatabaseInputs, tables: Mapping[str, Table], name: str, random: Random) -> str:
    """Set a cell to the mean of its column, and change another cell so that the mean stays the same.

    All numbers of the column become whole, because sums of whole numbers are exact.
    """
    table = tables[name]
    free = [
        index
        for index in range(len(table.columns))
        if index not in table.keys and not inputs.columns[name, index].parent and inputs.columns[name, index].is_number
    ]
    index = random.choice(free) if free else 0
    rows = [row for row in table.rows if free and isinstance(row[index], int | float)]
    if len(rows) < 3:
        return ""
    whole = [row[index] if isinstance(row[index], int) else float(round(row[index])) for row in rows]
    one, other = random.sample(range(len(rows)), 2)
    total = sum(whole) - whole[one]
    mean = type(whole[one])(round(total / (len(rows) - 1)))
    whole[one], whole[other] = mean, whole[other] + mean * (len(rows) - 1) - total
    for row, value in zip(rows, whole, strict=True):
        row[index] = value
    return f"{table.columns[index]} set to its mean"


def set_null(inputs: DatabaseInputs, tables: Mapping[str, Table], name: str, random: Random) -> str:
    """Set a cell to NULL, where the column holds NULL in a stored database."""
    table = tables[name]
    free = [
        index for index in range(len(table.columns)) if inputs.columns[name, index].has_null and index not in table.required
    ]
    if not free or not table.rows:
        return ""
    index = random.choice(free)
    random.choice(table.rows)[index] = None
    return f"{table.columns[index]} NULL"


def delete_row(inputs: DatabaseInputs, tables: Mapping[str, Table], name: str, random: Random) -> str:
    """Delete a row, and the rows of other tables that refer to it."""
    table = tables[name]
    if len(table.rows) < 2:
        return ""
    row = table.rows.pop(random.randrange(len(table.rows)))
    key = row[key_of(table)]
    for other, child in tables.items():
        places = [index for index in range(len(child.columns)) if inputs.columns[other, index].parent == name]
        child.rows[:] = [one for one in child.rows if not any(one[index] == key for index in places)]
    return "row deleted"


def duplicate_row(inputs: DatabaseInputs, tables: Mapping[str, Table], name: str, random: Random) -> str:
    """Add a row of any stored database, or a row of this one with another key."""
    table = tables[name]
    pool = [row for _, base in inputs.bases for row in base.tables[name].rows] if random.random() < 0.5 else table.rows
    if not pool:
        return ""
    row, key = [*random.choice(pool)], key_of(table)
    if table.keys and len(table.keys) == 1 and not inputs.columns[name, key].parent:
        row[key] = next_key([one[key] for one in table.rows])
    table.rows.insert(random.randint(0, len(table.rows)), row)
    return "row added"


def next_key(keys: Sequence[Any]) -> Any:
    """Return a key that no row has: the next number, or the last text with the next number at its end."""
    whole = [key for key in keys if isinstance(key, int)]
    if whole:
        return max(whole) + 1
    last = max((str(key) for key in keys), default="")
    head = last.rstrip("0123456789")
    digits = last[len(head) :]
    return f"{head}{int(digits or 0) + 1:0{len(digits)}d}"


def shuffle_column(_inputs: DatabaseInputs, tables: Mapping[str, Table], name: str, random: Random) -> str:
    """Exchange the values of a column between rows."""
    table = tables[name]
    index = free_column(table, random, rows=2)
    if index is None:
        return ""
    values = [row[index] for row in table.rows]
    random.shuffle(values)
    for row, value in zip(table.rows, values, strict=True):
        row[index] = value
    return f"{table.columns[index]} shuffled"


def equal_values(inputs: DatabaseInputs, tables: Mapping[str, Table], name: str, random: Random) -> str:
    """Give a row the value of another row in a column."""
    table = tables[name]
    index = free_column(table, random, rows=2, fits=lambda index: not inputs.columns[name, index].is_unique)
    if index is None:
        return ""
    one, other = random.sample(table.rows, 2)
    one[index] = other[index]
    return f"{table.columns[index]} repeated"


EDIT: Mapping[str, Edit] = {
    "set": set_value,
    "limits": set_limits,
    "mean": set_mean,
    "null": set_null,
    "delete": delete_row,
    "duplicate": duplicate_row,
    "shuffle": shuffle_column,
    "equal": equal_values,
}
"""The possible changes of a table."""


CELL = r"('(?:[^']|'')*'|-?\d+(?:\.\d+)?)"
COMPARED = re.compile(rf"(\w+)[\"`\]]?\s*(?:[<>=!]=?|<>)\s*{CELL}(?!\w)", re.ASCII)
BETWEEN = re.compile(rf"(\w+)[\"`\]]?\s+(?:NOT\s+)?BETWEEN\s+{CELL}\s+AND\s+{CELL}", re.ASCII | re.IGNORECASE)
LIKE = re.compile(r"(\w+)[\"`\]]?\s+(?:NOT\s+)?LIKE\s+'%?([^'%_]+)%?'", re.ASCII | re.IGNORECASE)
"""Regular expressions for comparisons of a column with literals."""


def limits_of(database: Database, queries: Sequence[str]) -> dict[tuple[str, int], tuple[Any, ...]]:
    """Return the literals with which queries compare the columns of a database, by their names."""
    found: dict[str, set[Any]] = {}
    for query in queries:
        for match in (*COMPARED.finditer(query), *BETWEEN.finditer(query)):
            name, *texts = match.groups()
            found.setdefault(name.lower(), set()).update(map(cell_of, texts))
        for name, text in LIKE.findall(query):
            found.setdefault(name.lower(), set()).update((text, f"{text} Ray", f"Ray {text}", f"Ray {text} Ray"))
    places = [(name, index, column) for name, table in database.tables.items() for index, column in enumerate(table.columns)]
    return {
        (name, index): tuple(sorted(found[column.lower()], key=repr))
        for name, index, column in places
        if column.lower() in found and index not in database.tables[name].keys
    }


def cell_of(text: str) -> Any:
    """Return the value of a literal of SQL."""
    if text.startswith("'"):
        return text[1:-1].replace("''", "'")
    return float(text) if "." in text else int(text)


def database_inputs(task: Task, queries: Sequence[str] = (), seed: int = 0) -> DatabaseInputs | None:
    """Return the databases of a task's tests, and some made from its schema; None if SQLite cannot read them, or their schemas differ.

    Args:
        task: the task.
        queries: queries whose comparisons the new databases should test: the reference, and passed ones.
        seed: seed of the made databases.
    """
    read = [(index, read_database(task.setup, test.input)) for index, test in enumerate(task.tests)]
    bases = [(index, database) for index, database in read if database]
    if not bases or len({form_of(database) for _, database in bases}) > 1:
        return None
    form = form_of(bases[0][1])
    columns = columns_of([database for _, database in bases])
    try:
        made = [read_database(task.setup, test.input) for test in databases_of(task, MADE, seed)]
    except ConfigError:
        made = []
    added = [(-1, one) for one in made if one and form_of(one) == form]
    return DatabaseInputs([*bases, *added], columns, limits_of(bases[0][1], queries))


def form_of(database: Database) -> str:
    """Return a text that is equal for databases with the same tables and columns."""
    return repr([(name, table.columns) for name, table in sorted(database.tables.items())])


def columns_of(databases: Sequence[Database]) -> dict[tuple[str, int], Column]:
    """Return the values of each column in the stored databases."""
    found: dict[tuple[str, int], Column] = {}
    for name, table in databases[0].tables.items():
        for index in range(len(table.columns)):
            held = [[row[index] for row in one.tables[name].rows] for one in databases]
            known = [[value for value in values if value is not None] for values in held]
            distinct = all(len({*values}) == len(values) for values in known)
            repeats = len({value for values in known for value in values}) < sum(map(len, known))
            parent = table.parents.get(index) or parent_of(databases, name, index)
            values = tuple(dict.fromkeys(value for one in known for value in one))
            unique = table.keys == frozenset((index,)) or (distinct and repeats)
            found[name, index] = Column(
                values, any(None in one for one in held), unique, parent if holds(databases, name, index, parent) else ""
            )
    return found


def parent_of(databases: Sequence[Database], name: str, index: int) -> str:
    """Return the table whose key has the name of a column without a declared foreign key; empty if there is none."""
    column = databases[0].tables[name].columns[index]
    for other, table in databases[0].tables.items():
        if other != name and len(table.keys) == 1 and table.columns[key_of(table)] == column:
            return other
    return ""


def holds(databases: Sequence[Database], name: str, index: int, parent: str) -> bool:
    """Return whether every value of a column is a key of a table in each database."""
    if parent not in databases[0].tables or parent == name:
        return False
    for database in databases:
        keys = {row[key_of(database.tables[parent])] for row in database.tables[parent].rows}
        if not {row[index] for row in database.tables[name].rows if row[index] is not None} <= keys:
            return False
    return True


REVERSED = "PRAGMA reverse_unordered_selects = ON;\n"
"""Statement that makes SQLite read tables backwards if a query asks for no order, including tables stored by their key."""


def reversed_rows(task: Task, script: str) -> str | None:
    """Return a database with its rows stored and read in reverse order; None if SQLite cannot read it.

    An answer that changes on this database depends on an order of rows that the query does not ask for.
    """
    database = read_database(task.setup, script)
    if database is None:
        return None
    for table in database.tables.values():
        table.rows.reverse()
    return (REVERSED if language(task.language).engine == "sqlite" else "") + database.script()
