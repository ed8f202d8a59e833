"""Kinds of question about one table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random

from sqlworld.database import World
from sqlworld.phrases import (
    Filter,
    ask_count,
    ask_list,
    between_filter,
    col,
    filters,
    in_year_filter,
    joined,
    month_filter,
    pick_filter,
    superlative,
    with_article,
)
from sqlworld.query import Aggregate, Compound, Cond, Query
from sqlworld.schema import Column, Table, plural

__all__ = ["AVERAGES", "SINGLE", "Kind", "Question", "aggregate_of", "with_pick"]

AVERAGES = {"AVG": ("average", "mean"), "SUM": ("total",), "MAX": ("highest", "maximum"), "MIN": ("lowest", "minimum")}
COUNT = Aggregate("COUNT")


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its answer as a query."""

    text: str
    query: Query | Compound
    others: tuple[Query | Compound, ...] = ()
    """Other queries that answer it."""
    ordered: bool = False
    """Whether it asks for an order."""
    unique: bool = False
    """Whether the first column of the answer may not repeat: one row a group."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of question."""

    make: Callable[[World, Random], Question | None]
    """Makes one; None where the schema has no place for it."""
    difficulty: str


def some_table(world: World, random: Random, fits: Callable[[Table], object] = bool) -> Table | None:
    """Return a table of those that fit."""
    tables = [table for table in world.schema.tables if fits(table)]
    return random.choice(tables) if tables else None


def with_pick(world: World, random: Random, table: Table, share: float = 0.5, *avoid: Column) -> tuple[tuple[Cond, ...], str]:
    """Return the conditions and the words for rows of a table: with a condition in a share of cases."""
    picked = pick_filter(random, world, table, avoid=[col(column) for column in avoid]) if random.random() < share else None
    return ((picked.cond,), f"{table.many} {picked.phrase}") if picked else ((), table.many)


def listing(random: Random, table: Table, chosen: Filter) -> Question:
    """Return a question for the labels of the rows that a condition leaves, or for their number."""
    things = f"{table.many} {chosen.phrase}"
    if random.random() < 0.75:
        return Question(ask_list(random, [table.label], things), Query((col(table.label),), table.name, where=(chosen.cond,)))
    return Question(ask_count(random, things), Query((COUNT,), table.name, where=(chosen.cond,)))


def simple_filter(world: World, random: Random) -> Question | None:
    table = some_table(world, random)
    chosen = pick_filter(random, world, table) if table else None
    return listing(random, table, chosen) if table and chosen else None


def negation(world: World, random: Random) -> Question | None:
    table = some_table(world, random, lambda t: [c for c in t.role("category") if not c.nullable])
    if not table:
        return None
    column = random.choice([c for c in table.role("category") if not c.nullable])
    value = random.choice(world.values(column))
    words = random.choice([f"whose {column.noun} is not {value}", f"with {with_article(column.noun)} other than {value}"])
    return listing(random, table, Filter(Cond(col(column), "<>", value), words))


def conditions(world: World, random: Random) -> Question | None:
    table = some_table(world, random, lambda t: len(filters(Random(0), world, t)) > 1)
    if not table:
        return None
    one, two = random.sample(filters(random, world, table), 2)
    glue = random.choice(["AND", "AND", "OR"])
    things = f"{table.many} {one.phrase} {glue.lower()} {two.phrase}"
    query = Query((col(table.label),), table.name, where=(one.cond, two.cond), glue=glue)
    if random.random() < 0.3:
        return Question(ask_count(random, things), replace(query, select=(COUNT,)))
    return Question(ask_list(random, [table.label], things), query)


def columns(world: World, random: Random) -> Question | None:
    table = some_table(world, random, lambda t: len(t.columns) - len(t.role("fk", "id")) >= 3)
    if not table:
        return None
    free = [c for c in table.columns if c.role not in ("fk", "id", "label")]
    chosen = random.sample(free, min(len(free), random.choice([1, 2])))
    chosen = [table.label, *chosen] if table.role("label") else random.sample(free, 2)
    where, things = with_pick(world, random, table, 0.6)
    names = joined([f"the {column.noun}" for column in chosen])
    frames = (
        f"Show {names} of the {things}.",
        f"For the {things}, list {names}.",
        f"I need {names} of all {things}.",
        f"Give {names} of the {things}.",
    )
    return Question(random.choice(frames), Query(tuple(map(col, chosen)), table.name, where=where))


def count(world: World, random: Random) -> Question | None:
    table = some_table(world, random)
    assert table
    where, things = with_pick(world, random, table, 0.9)
    return Question(ask_count(random, things), Query((COUNT,), table.name, where=where))


def aggregate_of(random: Random, column: Column) -> tuple[str, str]:
    """Return a function that means something for a column, and its word."""
    name = random.choice(["AVG", "SUM", "SUM", "MAX", "MIN"] if column.additive else ["AVG", "AVG", "MAX", "MIN"])
    return name, random.choice(AVERAGES[name])


def aggregate(world: World, random: Random) -> Question | None:
    table = some_table(world, random, lambda t: t.role("number"))
    if not table:
        return None
    column = random.choice(table.role("number"))
    name, word = aggregate_of(random, column)
    where, things = with_pick(world, random, table, 0.6, column)
    frames = (
        f"What is the {word} {column.noun} of the {things}?",
        f"Find the {word} {column.noun} of all {things}.",
        f"Compute the {word} {column.noun} of the {things}.",
        f"Tell me the {word} {column.noun} of {things}.",
    )
    return Question(random.choice(frames), Query((Aggregate(name, col(column)),), table.name, where=where))


def repeated(table: Table) -> list[Column]:
    """Return the columns whose values form groups."""
    return [column for column in table.role("category") if not column.nullable]


def distinct(world: World, random: Random) -> Question | None:
    table = some_table(world, random, repeated)
    if not table:
        return None
    column = random.choice(repeated(table))
    where, things = with_pick(world, random, table, 0.6, column)
    nouns = plural(column.noun)
    frames = (
        f"Which different {nouns} occur among the {things}?",
        f"List every {column.noun} of the {things}, each only once.",
        f"Show the {nouns} of the {things} without repeats.",
        f"What are the distinct {nouns} of the {things}?",
    )
    query = Query((col(column),), table.name, where=where, distinct=True)
    other = replace(query, distinct=False, group=(col(column),))
    return Question(random.choice(frames), query, (other,))


def count_distinct(world: World, random: Random) -> Question | None:
    table = some_table(world, random, lambda t: t.role("category"))
    if not table:
        return None
    column = random.choice(table.role("category"))
    where, things = with_pick(world, random, table, 0.6, column)
    nouns = plural(column.noun)
    frames = (
        f"How many different {nouns} occur among the {things}?",
        f"What is the number of distinct {nouns} of the {things}?",
        f"Count the different {nouns} of the {things}.",
    )
    return Question(random.choice(frames), Query((Aggregate("COUNT", col(column), distinct=True),), table.name, where=where))


def like(world: World, random: Random) -> Question | None:
    table = some_table(world, random, lambda t: t.role("label", "text"))
    if not table:
        return None
    column = random.choice([*table.role("label"), *table.role("label", "text")])
    value = str(random.choice(world.values(column) or ["x"]))
    size = random.choice([1, 2, 3])
    words = value.replace("@", " ").replace(".", " ").split()
    pattern, word = random.choice(
        [
            (f"{value[:size]}%", f"starts with {value[:size].strip()}"),
            (f"%{value[-size:]}", f"ends with {value[-size:].strip()}"),
            (f"%{words[-1]}%", f"contains {words[-1]}"),
            (f"%{words[0]}%", f"contains {words[0]}"),
        ]
    )
    if " " in pattern:
        return None
    return listing(random, table, Filter(Cond(col(column), "LIKE", pattern), f"whose {column.noun} {word}"))


def between(world: World, random: Random) -> Question | None:
    table = some_table(world, random, lambda t: t.role("number", "year"))
    chosen = between_filter(random, world, random.choice(table.role("number", "year"))) if table else None
    if not table or not chosen:
        return None
    question = listing(random, table, chosen)
    low, high = (Cond(chosen.column, op, value) for op, value in zip((">=", "<="), chosen.cond.right, strict=True))  # type: ignore[arg-type]
    assert isinstance(question.query, Query)
    return replace(question, others=(replace(question.query, where=(low, high)),))


def one_of(world: World, random: Random) -> Question | None:
    table = some_table(world, random, lambda t: [c for c in t.role("category") if len(world.values(c)) > 3])
    if not table:
        return None
    column = random.choice([c for c in table.role("category") if len(world.values(c)) > 3])
    values = tuple(random.sample(world.values(column), random.choice([2, 2, 3])))
    chosen = Filter(Cond(col(column), "IN", values), column.phrase.format(joined(values, "or")))
    question = listing(random, table, chosen)
    assert isinstance(question.query, Query)
    either = tuple(Cond(col(column), "=", value) for value in values)
    return replace(question, others=(replace(question.query, where=either, glue="OR"),))


def missing(world: World, random: Random) -> Question | None:
    table = some_table(world, random, lambda t: [c for c in t.columns if c.nullable])
    if not table:
        return None
    column = random.choice([c for c in table.columns if c.nullable])
    noun = column.noun if column.role != "fk" else next(n.parent.one for n in world.schema.links if n.column is column)
    op, words = random.choice(
        [
            ("IS NULL", (f"without a known {noun}", f"with no {noun} recorded", f"whose {noun} is missing")),
            ("IS NOT NULL", (f"with a known {noun}", f"that have {with_article(noun)} recorded", f"whose {noun} is known")),
        ]
    )
    return listing(random, table, Filter(Cond(col(column), op), random.choice(words)))


def rankable(table: Table) -> list[Column]:
    """Return the columns by which rows can be ordered: without missing values."""
    return [column for column in table.role("number", "year", "date") if not column.nullable]


def order(world: World, random: Random) -> Question | None:
    table = some_table(world, random, rankable)
    if not table:
        return None
    column = random.choice(rankable(table))
    where, things = with_pick(world, random, table, 0.6, column)
    down = random.random() < 0.5
    ends = {"number": ("lowest", "highest"), "year": ("earliest", "latest"), "date": ("earliest", "latest")}[column.role]
    way = f"{ends[down]} first"
    frames = (
        f"List the {plural(table.label.noun)} of the {things} by {column.noun}, {way}.",
        f"Show the {plural(table.label.noun)} of all {things}, sorted by {column.noun} with the {way}.",
        f"Give me the {plural(table.label.noun)} of the {things}, ordered from {ends[down]} to {ends[not down]} {column.noun}.",
    )
    query = Query((col(table.label),), table.name, where=where, order=col(column), descending=down)
    return Question(random.choice(frames), query, ordered=True)


def top(world: World, random: Random) -> Question | None:
    table = some_table(world, random, rankable)
    if not table:
        return None
    column, size, down = random.choice(rankable(table)), random.choice([2, 3, 4]), random.random() < 0.6
    where, things = with_pick(world, random, table, 0.4, column)
    end = ("lowest" if column.role == "number" else "earliest", "highest" if column.role == "number" else "latest")[down]
    labels, adjective = plural(table.label.noun), superlative(random, column, largest=down)
    frames = (
        f"What are the {labels} of the {size} {things} with the {end} {column.noun}? Put the {end} first.",
        f"List the {labels} of the {size} {things} that have the {end} {column.noun}, {end} first.",
    )
    text = (
        f"List the {labels} of the {size} {adjective} {things}, the {adjective} first." if adjective else random.choice(frames)
    )
    query = Query((col(table.label),), table.name, where=where, order=col(column), descending=down, limit=size)
    return Question(text, query, ordered=True)


def extreme(world: World, random: Random) -> Question | None:
    table = some_table(world, random, rankable)
    if not table:
        return None
    column, down = random.choice(rankable(table)), random.random() < 0.6
    where, things = with_pick(world, random, table, 0.4, column)
    adjective = superlative(random, column, largest=down)
    end = ("lowest" if column.role == "number" else "earliest", "highest" if column.role == "number" else "latest")[down]
    frames = (
        f"Which of the {things} has the {end} {column.noun}? Give the {table.label.noun}.",
        f"What is the {table.label.noun} of the one with the {end} {column.noun} among the {things}?",
    )
    text = f"Which of the {things} is the {adjective}? Give the {table.label.noun}." if adjective else random.choice(frames)
    query = Query((col(table.label),), table.name, where=where, order=col(column), descending=down, limit=1)
    best = Query((Aggregate("MAX" if down else "MIN", col(column)),), table.name, where=where)
    other = replace(query, order=None, descending=False, limit=0, where=(*where, Cond(col(column), "=", best)))
    return Question(text, query, (other,))


def dates(world: World, random: Random) -> Question | None:
    table = some_table(world, random, lambda t: t.role("date"))
    if not table:
        return None
    make = random.choice([month_filter, in_year_filter, in_year_filter, between_filter])
    chosen = make(random, world, random.choice(table.role("date")))
    return listing(random, table, chosen) if chosen else None


def group_count(world: World, random: Random) -> Question | None:
    table = some_table(world, random, repeated)
    if not table:
        return None
    column = random.choice(repeated(table))
    where, things = with_pick(world, random, table, 0.4, column)
    noun = column.noun
    frames = (
        f"How many {things} are there for each {noun}? Show the {noun} and the number.",
        f"For each {noun}, count the {things}. Return {noun} and count.",
        f"Show every {noun} with its number of {things}.",
        f"Count the {things} per {noun} and show {noun} and count.",
    )
    return Question(random.choice(frames), Query((col(column), COUNT), table.name, where=where, group=(col(column),)))


def group_aggregate(world: World, random: Random) -> Question | None:
    table = some_table(world, random, lambda t: repeated(t) and t.role("number"))
    if not table:
        return None
    column, value = random.choice(repeated(table)), random.choice(table.role("number"))
    name, word = aggregate_of(random, value)
    frames = (
        f"What is the {word} {value.noun} of the {table.many} for each {column.noun}? Show both.",
        f"For each {column.noun}, show the {column.noun} and the {word} {value.noun} of its {table.many}.",
        f"Show the {word} {value.noun} of the {table.many} per {column.noun}, after the {column.noun} itself.",
    )
    words = (frames[0].replace("Show both", f"Show the {column.noun}, then the {word} {value.noun}"), *frames[1:])
    return Question(random.choice(words), Query((col(column), Aggregate(name, col(value))), table.name, group=(col(column),)))


def having(world: World, random: Random) -> Question | None:
    table = some_table(world, random, repeated)
    if not table:
        return None
    column, size = random.choice(repeated(table)), random.choice([2, 3, 4])
    op, words = random.choice([(">", f"more than {size}"), (">=", f"at least {size}"), ("<", f"less than {size}")])
    where, things = with_pick(world, random, table, 0.25, column)
    noun, nouns = column.noun, plural(column.noun)
    frames = (
        f"Which {nouns} occur for {words} {things}?",
        f"List the {nouns} with {words} {things}.",
        f"Find every {noun} that {words} {things} have.",
    )
    query = Query((col(column),), table.name, where=where, group=(col(column),), having=Cond(COUNT, op, size))
    return Question(random.choice(frames), query)


def above_average(world: World, random: Random) -> Question | None:
    table = some_table(world, random, lambda t: t.role("number"))
    if not table:
        return None
    column = random.choice(table.role("number"))
    op, word = random.choice([(">", "above"), (">", "higher than"), ("<", "below"), ("<", "lower than")])
    average = Query((Aggregate("AVG", col(column)),), table.name)
    where, things = with_pick(world, random, table, 0.2, column)
    of_all = random.choice([f"the average of all {table.many}", "the overall average"])
    things = f"{things} whose {column.noun} is {word} {of_all}"
    query = Query((col(table.label),), table.name, where=(*where, Cond(col(column), op, average)))
    return Question(ask_list(random, [table.label], things), query)


def difference(world: World, random: Random) -> Question | None:
    table = some_table(world, random, repeated)
    if not table:
        return None
    column = random.choice(repeated(table))
    one, two = random.sample(world.values(column), 2)
    left, right = (Query((COUNT,), table.name, where=(Cond(col(column), "=", value),)) for value in (one, two))
    first, second = (f"{table.many} {column.phrase.format(value)}" for value in (one, two))
    frames = (
        f"How many more {first} than {second} are there?",
        f"What is the number of {first} minus the number of {second}?",
        f"By how much does the number of {first} exceed that of {second}?",
    )
    return Question(random.choice(frames), Compound("-", left, right))


def top_in_group(world: World, random: Random) -> Question | None:
    table = some_table(world, random, lambda t: repeated(t) and rankable(t))
    if not table:
        return None
    group, value, down = random.choice(repeated(table)), random.choice(rankable(table)), random.random() < 0.6
    end = ("lowest" if value.role == "number" else "earliest", "highest" if value.role == "number" else "latest")[down]
    alias = table.name[0] if table.name[0] != table.name else "x"
    inner = Query(
        (Aggregate("MAX" if down else "MIN", col(value)),),
        table.name,
        where=(Cond(col(group), "=", replace(col(group), table=alias)),),
    )
    select = tuple(replace(col(column), table=alias) for column in (group, table.label))
    query = Query(select, table.name, where=(Cond(replace(col(value), table=alias), "=", inner),), alias=alias)
    frames = (
        f"For each {group.noun}, show the {group.noun} and the {table.label.noun} of the {table.one} with the {end} {value.noun}.",
        f"Which {table.one} has the {end} {value.noun} within its {group.noun}? List {group.noun} and {table.label.noun}.",
    )
    return Question(random.choice(frames), query, unique=True)


SINGLE: Mapping[str, Kind] = {
    "filter": Kind(simple_filter, "easy"),
    "negation": Kind(negation, "easy"),
    "conditions": Kind(conditions, "easy"),
    "columns": Kind(columns, "easy"),
    "count": Kind(count, "easy"),
    "aggregate": Kind(aggregate, "easy"),
    "distinct": Kind(distinct, "easy"),
    "like": Kind(like, "easy"),
    "between": Kind(between, "easy"),
    "one_of": Kind(one_of, "easy"),
    "missing": Kind(missing, "easy"),
    "count_distinct": Kind(count_distinct, "medium"),
    "order": Kind(order, "medium"),
    "top": Kind(top, "medium"),
    "extreme": Kind(extreme, "medium"),
    "dates": Kind(dates, "medium"),
    "group_count": Kind(group_count, "medium"),
    "group_aggregate": Kind(group_aggregate, "medium"),
    "having": Kind(having, "medium"),
    "above_average": Kind(above_average, "hard"),
    "difference": Kind(difference, "hard"),
    "top_in_group": Kind(top_in_group, "hard"),
}
"""Kind of question by name."""
