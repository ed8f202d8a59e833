"""Mistakes in the text of a query: names that do not exist, quotes, keywords, Python, prose."""

import re
from collections.abc import Callable, Mapping
from random import Random

from sqlworld.database import World
from sqlworld.query import Aggregate, Col, Cond, Query, literal
from sqlworld.schema import Table, plural

__all__ = ["ERRORS", "FORMS", "prose", "python", "slips"]

WORDS = re.compile(r"'(?:[^']|'')*'|\w+(?:\.\w+)?|\S")
ERRORS = ("average_outside", "broken_clause", "unknown_column", "unknown_table", "unquoted")
"""SQL that does not run."""
FORMS = ("prose", "python")
"""No SQL."""


def average_outside(text: str, _world: World, _random: Random) -> str:
    return re.sub(r"\(SELECT (AVG\(\w+\)) FROM \w+\)", r"\1", text)


def broken_clause(text: str, _world: World, random: Random) -> str:
    orders = [
        text.replace(" WHERE ", " ", 1),
        text.replace(" GROUP BY ", " GROUP ", 1),
        text.replace(" ORDER BY ", " ORDER ", 1),
        re.sub(r"( WHERE .*?)( GROUP BY \S+)", r"\2\1", text),
        re.sub(r" LIMIT (\d+)$", r" TOP \1", text),
        text.replace(" ON ", " WHERE ", 1) if " WHERE " in text else text,
        text.replace(" FROM ", " ", 1),
    ]
    return random.choice([order for order in orders if order != text])


def unquoted(text: str, _world: World, _random: Random) -> str:
    return re.sub(r"'((?:[^']|'')*)'", r"\1", text)


def unknown_column(text: str, world: World, random: Random) -> str:
    """Replace a column by a plausible name that does not exist."""
    columns = {column.name: column for table in world.schema.tables for column in table.columns}
    matches = [m for m in WORDS.finditer(text) if m[0].rpartition(".")[2] in columns and not m[0].startswith("'")]
    if not matches:
        return text
    match = random.choice(matches)
    table, dot, name = match[0].rpartition(".")
    column = columns[name]
    table_name = column.table.removesuffix("s")
    made_up = [f"{table_name}_{name}", column.noun.replace(" ", "_")] + (
        [plural(name)] if column.role != "id" else [f"id_{table_name}"]
    )
    chosen = random.choice([name for name in made_up if name not in columns] or [f"{name}_value"])
    return f"{text[: match.start()]}{table}{dot}{chosen}{text[match.end() :]}"


def unknown_table(text: str, world: World, random: Random) -> str:
    """Put singular for plural, or plural for singular."""
    table = random.choice([t for t in world.schema.tables if re.search(rf"\b{t.name}\b", text)] or [world.schema.tables[0]])
    names = {t.name for t in world.schema.tables}
    other = table.one if table.name == table.many else table.many
    other = other.replace(" ", "") if " " in other else other
    return text if other in names else re.sub(rf"\b{table.name}\b", other, text)


SLIPS: Mapping[str, Callable[[str, World, Random], str]] = {
    slip.__name__: slip for slip in (average_outside, broken_clause, unknown_column, unknown_table, unquoted)
}


def slips(text: str, world: World, random: Random) -> dict[str, str]:
    """Return the mistakes in spelling a query that apply, by name."""
    return {name: changed for name, slip in SLIPS.items() if (changed := slip(text, world, random)) != text}


def condition(cond: Cond, row: str) -> str:
    """Return a condition in Python."""
    name = f"{row}.{cond.left.name}" if isinstance(cond.left, Col) else "value"
    if cond.op == "LIKE":
        return f"{name}.startswith({str(cond.right).strip('%')!r})"
    if cond.op == "BETWEEN" and isinstance(cond.right, tuple):
        return f"{cond.right[0]!r} <= {name} <= {cond.right[1]!r}"
    words = {"=": "==", "<>": "!=", "IS NULL": "is None", "IS NOT NULL": "is not None", "IN": "in", "NOT IN": "not in"}
    right = "" if cond.right is None else f" {cond.right!r}" if not isinstance(cond.right, Query | Col) else " other"
    return f"{name} {words.get(cond.op, cond.op)}{right}"


def python(query: Query, random: Random) -> str:
    """Return what somebody would write who takes tables for lists or data frames."""
    row = query.table[0]
    tests = f" {query.glue.lower()} ".join(condition(cond, row) for cond in query.where if cond.left)
    first = query.select[0]
    column = first.name if isinstance(first, Col) else first.column.name if first.column else ""
    rows = f"[{row}.{column or 'id'} for {row} in {query.table}{f' if {tests}' if tests else ''}]"
    if isinstance(first, Aggregate):
        word = {"COUNT": "len", "AVG": "mean"}.get(first.name, first.name.lower())
        return random.choice(
            [f"{word}({rows})", f"{query.table}.filter({tests}).{first.name.lower()}({column and repr(column)})"]
        )
    if query.order and isinstance(query.order, Col):
        rows = f"sorted({query.table}, key=lambda {row}: {row}.{query.order.name})[:{query.limit or ''}]"
    return random.choice(
        [rows, f"{query.table}[{tests}][{column!r}]", f"{query.table}.query({tests!r}).{column}"] if tests else [rows]
    )


def prose(query: Query, table: Table, random: Random) -> str:
    """Return a sentence in the place of a query."""
    about = " and ".join(f"the {c.left.name.replace('_', ' ')}" for c in query.where if isinstance(c.left, Col))
    values = [literal(c.right).strip("'") for c in query.where if isinstance(c.right, str | int | float)]
    tail = f" where {about} is {' and '.join(values)}" if about and values else ""
    frames = (
        f"To find the {table.many}{tail}, look at the table {query.table}.",
        f"The answer is the {table.many}{tail}.",
        f"You can get the {table.label.noun} of the {table.many}{tail} from the {query.table} table.",
    )
    return random.choice(frames)
