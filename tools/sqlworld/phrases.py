"""English for conditions, lists, counts and columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from random import Random
from typing import Any

from sqlworld.database import World
from sqlworld.query import Col, Cond
from sqlworld.schema import Column, Link, Table, plural

__all__ = [
    "Filter",
    "ask_count",
    "ask_list",
    "col",
    "filters",
    "joined",
    "numeric_filter",
    "of_parent",
    "pick_filter",
    "superlative",
    "with_article",
]

MORE = {">": ("more than", "over"), "<": ("less than", "under"), ">=": ("at least",), "<=": ("at most",)}
TIMES = {">": ("after",), "<": ("before",)}
LISTS = (
    "List the {labels} of the {things}.",
    "What are the {labels} of the {things}?",
    "Show the {labels} of all {things}.",
    "Give me the {labels} of the {things}.",
    "Find the {things} and return their {labels}.",
    "I need the {labels} of all {things}.",
    "Which are the {things}? Return their {labels}.",
)
COUNTS = (
    "How many {things} are there?",
    "Count the {things}.",
    "What is the number of {things}?",
    "Tell me how many {things} there are.",
    "I want to know the number of {things}.",
)


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition in SQL and in English."""

    cond: Cond
    phrase: str
    """What follows the noun: ``costing more than 20 euros``."""

    @property
    def column(self) -> Col:
        """The column that it is about."""
        assert isinstance(self.cond.left, Col)
        return self.cond.left


def col(column: Column) -> Col:
    """Return a column as queries have it."""
    return Col(column.table, column.name)


def shown(value: Any) -> str:
    """Return a value in a question."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def joined(words: Sequence[str], last: str = "and") -> str:
    """Return ``a, b and c``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def ask_list(random: Random, columns: Sequence[Column], things: str) -> str:
    """Return a question for some columns of some rows."""
    return random.choice(LISTS).format(labels=joined([plural(column.noun) for column in columns]), things=things)


def ask_count(random: Random, things: str) -> str:
    """Return a question for a number of rows."""
    return random.choice(COUNTS).format(things=things)


def superlative(random: Random, column: Column, *, largest: bool) -> str:
    """Return an adjective such as ``longest``, or empty: then the column is to be named."""
    words = column.most if largest else column.least
    return words if words and " " not in words and random.random() < 0.5 else ""


def with_article(words: str) -> str:
    """Return words after ``a`` or ``an``."""
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def of_parent(random: Random, link: Link, name: str) -> str:
    """Return ``by the author Anna Weber``."""
    return f"{link.word} {random.choice([f'the {link.parent.one} ', f'{link.parent.one} '])}{name}"


def pick_filter(random: Random, world: World, table: Table, *, avoid: Sequence[Col] = ()) -> Filter | None:
    """Return a condition on a table, on a column that is not to be avoided."""
    found = [condition for condition in filters(random, world, table) if condition.column not in avoid]
    return random.choice(found) if found else None


def filters(random: Random, world: World, table: Table) -> list[Filter]:
    """Return a condition for each column that can have one."""
    result = [equals(random, world, column) for column in table.role("category")]
    result += [numeric_filter(random, world, column) for column in table.role("number")]
    result += [time_filter(random, world, column) for column in table.role("year", "date")]
    return [condition for condition in result if condition]


def equals(random: Random, world: World, column: Column) -> Filter | None:
    """Return ``genre = 'crime'``."""
    values = world.values(column)
    if len(values) < 2:
        return None
    value = random.choice(values)
    return Filter(Cond(col(column), "=", value), column.phrase.format(value))


def middle(random: Random, world: World, column: Column) -> Any:
    """Return a value from the middle half of a column's values."""
    values = world.values(column)
    return random.choice(values[len(values) // 4 : max(1 + len(values) // 4, 3 * len(values) // 4)])


def numeric_filter(random: Random, world: World, column: Column, ops: Sequence[str] = (">", "<", ">=", "<=")) -> Filter:
    """Return ``pages > 300``, with a number that is in the data, so that > and >= differ."""
    op, value = random.choice(ops), middle(random, world, column)
    return Filter(Cond(col(column), op, value), column.phrase.format(f"{random.choice(MORE[op])} {shown(value)}"))


def time_filter(random: Random, world: World, column: Column) -> Filter:
    """Return a condition on a year or a date: before or after."""
    op, value = random.choice([">", "<"]), middle(random, world, column)
    return Filter(Cond(col(column), op, value), column.phrase.format(f"{TIMES[op][0]} {value}"))


def month_filter(random: Random, world: World, column: Column) -> Filter:
    """Return a condition on a date: in a month."""
    month = str(middle(random, world, column))[:7]
    name = date.fromisoformat(f"{month}-01").strftime("%B %Y")
    return Filter(Cond(col(column), "LIKE", f"{month}-%"), column.phrase.format(f"in {name}"))


def in_year_filter(random: Random, world: World, column: Column) -> Filter:
    """Return a condition on a date: in a year."""
    year = str(middle(random, world, column))[:4]
    return Filter(Cond(col(column), "LIKE", f"{year}-%"), column.phrase.format(f"in {year}"))


def between_filter(random: Random, world: World, column: Column) -> Filter | None:
    """Return a condition on a number, a year or a date: between two values, which count as well."""
    values = world.values(column)
    if len(values) < 5:
        return None
    low, high = sorted(random.sample(values[len(values) // 8 :], 2))
    words = random.choice(
        [f"between {shown(low)} and {shown(high)}"] * 2 + [f"from {shown(low)} to {shown(high)}"] * (column.role != "number")
    )
    return Filter(Cond(col(column), "BETWEEN", (low, high)), column.phrase.format(words))
