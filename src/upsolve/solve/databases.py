"""Databases made from a schema, on which the rows of candidate queries are compared.

A user who asks a question often has the schema in the prompt and no data. The rows are made from types, keys and the literals of the question.
"""

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from random import Random

from upsolve.errors import ConfigError
from upsolve.types import Task, TestCase, TestKind

__all__ = ["databases_of", "literal", "quoted", "schema_in"]

ROWS = 12
"""Rows of a table."""
CREATE = re.compile(r"\bCREATE\s+(?:TEMP(?:ORARY)?\s+)?TABLE\b", re.IGNORECASE)
TEXTS = re.compile(r"'([^'\n]{1,60})'|\"([^\"\n]{1,60})\"")
NUMBERS = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.]*\w)")
NAMES = re.compile(r"(?<=[a-z,] )[A-Z]\w+(?: [A-Z]\w+)*")
WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "harbor")
"""Values of text columns beside the literals of a question."""
NULLS = 0.08
"""Share of NULL among the values of columns that may hold NULL and are not keys."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    """Name as declared."""
    kind: str
    """Declared type in capital letters; empty if none."""
    is_key: bool
    """True for a column of the primary key."""
    is_required: bool
    """True if the column holds no NULL."""
    refers: str
    """Table that a foreign key names; empty if none."""


def schema_in(text: str) -> list[str]:
    """Return the CREATE TABLE statements of a text, each from CREATE to its closing parenthesis."""
    statements: list[str] = []
    for match in CREATE.finditer(text):
        depth, start = 0, text.find("(", match.end())
        for end in range(start, len(text)) if start >= 0 else ():
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            if not depth:
                statements.append(text[match.start() : end + 1])
                break
    return statements


def databases_of(task: Task, count: int = 3, seed: int = 0) -> tuple[TestCase, ...]:
    """Return databases of a task's schema as inputs of queries, with rows made up from types, keys and the question's literals.

    Args:
        task: its ``setup`` or, without tables there, its ``prompt`` holds the CREATE TABLE statements.
        count: number of databases.
        seed: seed of the rows; the same task and seed give the same databases.

    Raises:
        ConfigError: SQLite cannot read the schema; says why.
    """
    built, in_prompt = schema_in(task.setup), schema_in(task.prompt)
    if not (statements := built or in_prompt):
        return ()
    tables = tables_of(statements, task.task_id)
    script = "" if built else "".join(f"{one};\n" for one in statements)
    question = task.prompt
    for statement in in_prompt:
        question = question.replace(statement, "")
    inputs: list[TestCase] = []
    for number in range(count):
        random = Random(f"{seed}/{number}/{script}{task.prompt}")
        rows = "".join(insert(name, columns, question, random) for name, columns in tables.items())
        inputs.append(TestCase(TestKind.STDIO, script + rows))
    return tuple(inputs)


def tables_of(statements: Sequence[str], label: str) -> dict[str, list[Column]]:
    """Return the columns of each table as SQLite understands the statements; ConfigError if it does not."""
    tables: dict[str, list[Column]] = {}
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            for statement in statements:
                connection.execute(statement)
            names = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
            for name in names:
                refers = {row[3]: row[2] for row in connection.execute(f"pragma foreign_key_list({quoted(name)})")}
                tables[name] = [
                    Column(row[1], row[2].upper(), row[5] > 0, bool(row[3]), refers.get(row[1], ""))
                    for row in connection.execute(f"pragma table_info({quoted(name)})")
                ]
        except sqlite3.Error as error:
            raise ConfigError(f"{label}: SQLite cannot read the schema: {error}") from error
    return tables


def insert(table: str, columns: Sequence[Column], question: str, random: Random) -> str:
    """Return the statement that fills a table."""
    rows = [[value(one, number, question, random) for one in columns] for number in range(1, ROWS + 1)]
    texts = ", ".join("(" + ", ".join(row) + ")" for row in rows)
    return f"INSERT INTO {quoted(table)} VALUES {texts};\n" if columns else ""  # noqa: S608  runs in the sandbox


def value(column: Column, number: int, question: str, random: Random) -> str:
    """Return a value of row ``number`` as SQL: keys count from 1, other values are drawn, half of them from the question's literals."""
    is_text = any(word in column.kind for word in ("CHAR", "TEXT", "CLOB", "DATE", "TIME"))
    if column.is_key or (not column.refers and column.name.lower() in ("id", "rowid")):
        return literal(f"{column.name}{number}" if is_text else number)
    if column.refers and not is_text:
        return literal(random.randint(1, ROWS))
    if not column.is_required and random.random() < NULLS:
        return "NULL"
    if "DATE" in column.kind or "TIME" in column.kind or (is_text and "date" in column.name.lower()):
        return literal(f"20{random.randint(15, 24)}-{random.randint(1, 12):02}-{random.randint(1, 28):02}")
    if is_text:
        named = [first or second for first, second in TEXTS.findall(question)] + NAMES.findall(question)
        return literal(random.choice(named) if named and random.random() < 0.5 else random.choice(WORDS))
    whole = not any(word in column.kind for word in ("REAL", "FLOA", "DOUB", "NUM", "DEC"))
    near = [float(text) for text in NUMBERS.findall(question)]
    if near and random.random() < 0.5:
        number_near = random.choice(near) + random.choice((-1, 0, 0, 1))
        return literal(int(number_near) if whole else number_near)
    return literal(random.randint(0, 40) if whole else random.randint(0, 400) / 10)


def literal(value: str | bytes | float | None) -> str:
    """Return a value as SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def quoted(name: str) -> str:
    """Return a name as SQL, in quotes."""
    return '"' + name.replace('"', '""') + '"'
