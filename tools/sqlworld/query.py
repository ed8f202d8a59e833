"""Queries as trees: built by the kinds of question, changed by mutations, written in several styles."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

__all__ = ["PLAIN", "Aggregate", "Col", "Compound", "Cond", "Join", "Query", "Style", "each_query", "literal", "render"]


@dataclass(frozen=True, slots=True)
class Col:
    """A column, with the table or alias that it belongs to."""

    table: str
    name: str


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``COUNT(*)`` where ``column`` is None, else ``name(column)``."""

    name: str
    column: Col | None = None
    distinct: bool = False


Expression = Col | Aggregate
Value = str | int | float


@dataclass(frozen=True, slots=True)
class Cond:
    """A condition. ``right``: a value, a list of values, another column, a subquery, or None for ``IS NULL``."""

    left: Expression | None
    op: str
    right: "Value | tuple[Value, ...] | Col | Query | None" = None


@dataclass(frozen=True, slots=True)
class Join:
    """``JOIN table ON left = right``; without ``left``: every row with every row."""

    table: str
    left: Col | None
    right: Col | None
    outer: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """One SELECT."""

    select: tuple[Expression, ...]
    table: str
    joins: tuple[Join, ...] = ()
    where: tuple[Cond, ...] = ()
    glue: str = "AND"
    group: tuple[Col, ...] = ()
    having: Cond | None = None
    order: Expression | None = None
    descending: bool = False
    limit: int = 0
    distinct: bool = False
    alias: str = ""
    """Second name of ``table``, for a subquery that refers to it."""


@dataclass(frozen=True, slots=True)
class Compound:
    """Two queries: ``UNION``, ``INTERSECT``, ``EXCEPT`` or, of two that give one number each, ``-``."""

    op: str
    left: Query
    right: Query


@dataclass(frozen=True, slots=True)
class Style:
    """How a query is written."""

    aliases: bool = False
    """Short names for joined tables."""
    comma: bool = False
    """Joins as ``FROM a, b WHERE a.x = b.y``; outer joins stay."""
    lower: bool = False
    """Keywords in lower case, and a semicolon."""


PLAIN = Style()
RESERVED = {"as", "by", "do", "if", "in", "is", "no", "of", "on", "or", "to"}


def render(query: Query | Compound, style: Style = PLAIN) -> str:
    """Return a query as text on one line."""
    if isinstance(query, Compound):
        left, right = select_text(query.left, style), select_text(query.right, style)
        text = f"SELECT ({left}) - ({right})" if query.op == "-" else f"{left} {query.op} {right}"
    else:
        text = select_text(query, style)
    if style.lower:
        text = "".join(part if part.startswith("'") else part.lower() for part in re.split(r"('(?:[^']|'')*')", text)) + ";"
    return text


def select_text(query: Query, style: Style) -> str:
    """Return one SELECT."""
    names = short_names(query) if style.aliases else {}
    qualified = bool(query.joins)

    def expression(one: Expression, *, full: bool = qualified) -> str:
        if isinstance(one, Col):
            return f"{names.get(one.table, one.table)}.{one.name}" if full else one.name
        inside = expression(one.column, full=full) if one.column else "*"
        return f"{one.name}({'DISTINCT ' if one.distinct else ''}{inside})"

    def condition(one: Cond) -> str:
        return condition_text(one, style, expression)

    comma = style.comma and not any(join.outer for join in query.joins)
    where = [condition(cond) for cond in query.where]
    if comma:
        where = [
            f"{expression(join.left)} = {expression(join.right)}" for join in query.joins if join.left and join.right
        ] + where
    parts = ["SELECT", "DISTINCT" if query.distinct else "", ", ".join(map(expression, query.select))]
    parts.append(from_text(query, names, expression, comma=comma))
    parts.append("WHERE " + f" {query.glue} ".join(where) if where else "")
    parts.append("GROUP BY " + ", ".join(map(expression, query.group)) if query.group else "")
    parts.append("HAVING " + condition(query.having) if query.having else "")
    parts.append("ORDER BY " + expression(query.order) + (" DESC" if query.descending else "") if query.order else "")
    parts.append(f"LIMIT {query.limit}" if query.limit else "")
    return " ".join(part for part in parts if part)


def from_text(query: Query, names: dict[str, str], expression: Callable[[Expression], str], *, comma: bool) -> str:
    """Return the tables of a query."""

    def named(table: str) -> str:
        return f"{table} AS {names[table]}" if table in names else table

    text = "FROM " + (f"{query.table} AS {query.alias}" if query.alias else named(query.table))
    for join in query.joins:
        word = "LEFT JOIN" if join.outer else "JOIN"
        text += f", {named(join.table)}" if comma else f" {word} {named(join.table)}"
        if join.left and join.right and not comma:
            text += f" ON {expression(join.left)} = {expression(join.right)}"
    return text


def condition_text(cond: Cond, style: Style, expression: Callable[..., str]) -> str:
    """Return a condition."""
    if isinstance(cond.right, Query):
        inner = f"({select_text(cond.right, style)})"
        return f"{expression(cond.left)} {cond.op} {inner}" if cond.left else f"{cond.op} {inner}"
    assert cond.left is not None
    if isinstance(cond.right, Col):
        return f"{expression(cond.left, full=True)} {cond.op} {expression(cond.right, full=True)}"
    left = expression(cond.left)
    if cond.right is None:
        return f"{left} {cond.op}"
    if isinstance(cond.right, tuple):
        values = [literal(value) for value in cond.right]
        return (
            f"{left} BETWEEN {values[0]} AND {values[1]}" if cond.op == "BETWEEN" else f"{left} {cond.op} ({', '.join(values)})"
        )
    return f"{left} {cond.op} {literal(cond.right)}"


def literal(value: Value) -> str:
    """Return a value as SQL writes it."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else repr(value)


def short_names(query: Query) -> dict[str, str]:
    """Return an alias of one or more letters for each table of a query with joins."""
    names: dict[str, str] = {}
    for table in (query.table, *(join.table for join in query.joins)) if query.joins else ():
        lengths = (size for size in range(1, len(table) + 1) if table[:size] not in {*names.values(), *RESERVED})
        names[table] = table[: next(lengths)]
    return names


def each_query(query: Query | Compound) -> Iterator[tuple[Query, Callable[[Query], Query | Compound]]]:
    """Yield the SELECTs of a query, subqueries included, each with a function that replaces it."""
    if isinstance(query, Compound):
        yield query.left, lambda new: replace(query, left=new)
        yield query.right, lambda new: replace(query, right=new)
        return
    yield query, lambda new: new
    for index, cond in enumerate(query.where):
        if isinstance(cond.right, Query):

            def put(new: Query, index: int = index, cond: Cond = cond) -> Query:
                where = (*query.where[:index], replace(cond, right=new), *query.where[index + 1 :])
                return replace(query, where=where)

            yield cond.right, put
