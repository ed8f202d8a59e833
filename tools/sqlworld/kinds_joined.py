"""Kinds of question about several tables."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

from sqlworld.database import World
from sqlworld.kinds_single import Kind, Question, aggregate_of, with_pick
from sqlworld.phrases import ask_count, ask_list, col, joined, of_parent, pick_filter, with_article
from sqlworld.query import Aggregate, Col, Compound, Cond, Join, Query
from sqlworld.schema import Column, Link, Table, plural

__all__ = ["JOINED"]

COUNT = Aggregate("COUNT")


def some_link(world: World, random: Random, fits: Callable[[Link], object] = bool) -> Link | None:
    """Return a foreign key of those that fit, to a table whose rows have names."""
    links = [link for link in world.schema.links if link.parent.role("label") and fits(link)]
    return random.choice(links) if links else None


def join(link: Link, *, up: bool = True, outer: bool = False) -> Join:
    """Return the join of a child with its parent or, not ``up``, of the parent with its children."""
    foreign, key = col(link.column), col(link.parent.key)
    return Join(link.parent.name if up else link.child.name, foreign, key, outer)


def restrict(world: World, random: Random, link: Link, named: float) -> tuple[Cond, str] | None:
    """Return a condition on the parent with its words, ``by authors from France`` or ``by the author Anna Weber``."""
    if random.random() < named:
        value = random.choice(world.values(link.parent.label))
        return Cond(col(link.parent.label), "=", value), of_parent(random, link, str(value))
    chosen = pick_filter(random, world, link.parent)
    return (chosen.cond, f"{link.word} {link.parent.many} {chosen.phrase}") if chosen else None


def join_filter(world: World, random: Random) -> Question | None:
    link = some_link(world, random)
    restriction = restrict(world, random, link, 0.5) if link else None
    if not link or not restriction:
        return None
    child = link.child
    where, things = with_pick(world, random, child, 0.25)
    query = Query((col(child.label),), child.name, (join(link),), (*where, restriction[0]))
    inner = Query((col(link.parent.key),), link.parent.name, where=(restriction[0],))
    other = Query((col(child.label),), child.name, where=(*where, Cond(col(link.column), "IN", inner)))
    return Question(ask_list(random, [child.label], f"{things} {restriction[1]}"), query, (other,))


def join_show(world: World, random: Random) -> Question | None:
    link = some_link(world, random)
    if not link:
        return None
    child, parent = link.child, link.parent
    extra = random.choice([child.label, *child.role("number", "date", "year")])
    where, things = with_pick(world, random, child, 0.6, extra)
    mine, theirs = f"the {extra.noun}", f"the {parent.label.noun} of the {parent.one}"
    frames = (
        f"For the {things}, show {mine} and {theirs}.",
        f"List {mine} of the {things} together with {theirs}.",
        f"Show {mine} and {theirs} for all {things}.",
        f"I need {mine} and {theirs} of the {things}.",
    )
    known = f" Leave out {child.many} without {with_article(parent.one)}." if link.column.nullable else ""
    return Question(random.choice(frames) + known, Query((col(extra), col(parent.label)), child.name, (join(link),), where))


def join_count(world: World, random: Random) -> Question | None:
    link = some_link(world, random)
    restriction = restrict(world, random, link, 0.3) if link else None
    if not link or not restriction:
        return None
    where, things = with_pick(world, random, link.child, 0.25)
    query = Query((COUNT,), link.child.name, (join(link),), (*where, restriction[0]))
    return Question(ask_count(random, f"{things} {restriction[1]}"), query)


def join_aggregate(world: World, random: Random) -> Question | None:
    link = some_link(world, random, lambda link: link.child.role("number"))
    restriction = restrict(world, random, link, 0.3) if link else None
    if not link or not restriction:
        return None
    column = random.choice(link.child.role("number"))
    name, word = aggregate_of(random, column)
    things = f"{link.child.many} {restriction[1]}"
    frames = (
        f"What is the {word} {column.noun} of the {things}?",
        f"Find the {word} {column.noun} of all {things}.",
        f"Compute the {word} {column.noun} of the {things}.",
        f"Tell me the {word} {column.noun} of {things}.",
    )
    query = Query((Aggregate(name, col(column)),), link.child.name, (join(link),), (restriction[0],))
    return Question(random.choice(frames), query)


def per_parent(link: Link, *values: Aggregate) -> Query:
    """Return a query with a row for each parent that has children."""
    label = col(link.parent.label)
    return Query((label, *values), link.child.name, (join(link),), group=(label,))


def join_group(world: World, random: Random) -> Question | None:
    link = some_link(world, random)
    if not link:
        return None
    child, parent = link.child, link.parent
    value, words = COUNT, f"the number of {child.many}"
    if child.role("number") and random.random() < 0.5:
        column = random.choice(child.role("number"))
        name, word = aggregate_of(random, column)
        value, words = Aggregate(name, col(column)), f"the {word} {column.noun} of its {child.many}"
    label = parent.label.noun
    frames = (
        f"For each {parent.one} with at least one {child.one}, show the {label} and {words}.",
        f"Show the {label} of every {parent.one} that has any {child.many}, and {words}.",
        f"List {label} and {words} for all {parent.many} with {child.many}.",
    )
    return Question(random.choice(frames), per_parent(link, value))


def left_count(world: World, random: Random) -> Question | None:
    link = some_link(world, random)
    if not link:
        return None
    child, parent = link.child, link.parent
    label = parent.label.noun
    frames = (
        f"How many {child.many} does each {parent.one} have? Show {label} and number, also for those with none.",
        f"Show the {label} of every {parent.one} and its number of {child.many}, 0 where there are none.",
        f"For all {parent.many}, even those without any {child.many}, list the {label} and the number of {child.many}.",
    )
    query = Query(
        (col(parent.label), Aggregate("COUNT", col(child.key))),
        parent.name,
        (join(link, up=False, outer=True),),
        group=(col(parent.label),),
    )
    return Question(random.choice(frames), query)


def join_having(world: World, random: Random) -> Question | None:
    link = some_link(world, random)
    if not link:
        return None
    child, parent, size = link.child, link.parent, random.choice([1, 2, 2, 3])
    op, words = random.choice([(">", f"more than {size}"), (">=", f"at least {size + 1}"), ("=", f"exactly {size}")])
    cond = Cond(COUNT, op, size + (op == ">="))
    many = child.one if words.endswith(" 1") else child.many
    frames = [f"{parent.many} with {words} {many}", f"{parent.many} that have {words} {many}"]
    if child.role("number") and random.random() < 0.3:
        column = random.choice(child.role("number"))
        value = random.choice(world.values(column)[1:-1] or world.values(column))
        cond = Cond(Aggregate("MAX", col(column)), "<", value)
        number = int(value) if isinstance(value, float) and value.is_integer() else value
        frames = [f"{parent.many} with {child.many} whose highest {column.noun} is below {number}"]
    return Question(ask_list(random, [parent.label], random.choice(frames)), replace(per_parent(link), having=cond))


def argmax(world: World, random: Random) -> Question | None:
    link = some_link(world, random)
    if not link:
        return None
    child, parent, down = link.child, link.parent, random.random() < 0.8
    value, words = COUNT, f"the {'most' if down else 'fewest'} {child.many}"
    columns = [column for column in child.role("number") if column.additive]
    if columns and random.random() < 0.4:
        column = random.choice(columns)
        value, words = (
            Aggregate("SUM", col(column)),
            f"the {'highest' if down else 'lowest'} total {column.noun} of {child.many}",
        )
    some = "" if down else f", among those with at least one {child.one}"
    label = parent.label.noun
    frames = (
        f"Which {parent.one} has {words}{some}? Give the {label}.",
        f"What is the {label} of the {parent.one} with {words}{some}?",
        f"Find the {parent.one} with {words}{some} and return the {label}.",
    )
    query = replace(per_parent(link), order=value, descending=down, limit=1)
    return Question(random.choice(frames), query)


def children_of(link: Link, *where: Cond) -> Query:
    """Return the keys of parents that have children under some conditions."""
    return Query((col(link.column),), link.child.name, where=where)


def never(world: World, random: Random) -> Question | None:
    link = some_link(world, random)
    if not link:
        return None
    child, parent, key = link.child, link.parent, col(link.parent.key)
    chosen = pick_filter(random, world, child) if random.random() < 0.3 else None
    where = (chosen.cond,) if chosen else ()
    things = f"{child.many} {chosen.phrase}" if chosen else child.many
    frames = [f"{parent.many} without any {things}", f"{parent.many} that have no {things}"]
    if link.deed and not chosen:
        frames += [f"{parent.many} that have never {link.deed}"] * 2
    same = Cond(col(link.column), "=", key)
    inner = Query((Col(child.name, "*"),), child.name, where=(same, *where))
    query = Query((col(parent.label),), parent.name, where=(Cond(None, "NOT EXISTS", inner),))
    not_null = (Cond(col(link.column), "IS NOT NULL"),) if link.column.nullable else ()
    listed = replace(query, where=(Cond(key, "NOT IN", children_of(link, *where, *not_null)),))
    outer = Query((col(parent.label),), parent.name, (join(link, up=False, outer=True),), (Cond(col(child.key), "IS NULL"),))
    return Question(ask_list(random, [parent.label], random.choice(frames)), query, (listed,) if chosen else (listed, outer))


def some_child(world: World, random: Random) -> Question | None:
    link = some_link(world, random)
    chosen = pick_filter(random, world, link.child) if link else None
    if not link or not chosen:
        return None
    child, parent = link.child, link.parent
    thing = f"{child.one} {chosen.phrase}"
    things = random.choice(
        [f"{parent.many} with at least one {thing}", f"{parent.many} that have any {child.many} {chosen.phrase}"]
    )
    query = Query((col(parent.label),), parent.name, where=(Cond(col(parent.key), "IN", children_of(link, chosen.cond)),))
    other = Query((col(parent.label),), child.name, (join(link),), (chosen.cond,), distinct=True)
    return Question(once(ask_list(random, [parent.label], things), parent), query, (other,))


def once(text: str, table: Table) -> str:
    """Return a question that asks for every row once."""
    return f"{text} Each {table.one} once."


def two_children(world: World, random: Random, *, both: bool) -> Question | None:
    """Return a question for parents with two kinds of children, or with the first kind and not the second."""
    link = some_link(world, random, lambda link: link.child.role("category", "number", "date", "year"))
    one = pick_filter(random, world, link.child) if link else None
    if not link or not one:
        return None
    values = [v for v in world.values(column_of(link.child, one.column)) if v != one.cond.right]
    if one.cond.op == "=":
        column = column_of(link.child, one.column)
        value = random.choice(values)
        two_cond, two_words = Cond(one.column, "=", value), column.phrase.format(value)
    else:
        two = pick_filter(random, world, link.child, avoid=[one.column])
        if not two:
            return None
        two_cond, two_words = two.cond, two.phrase
    child, parent, key = link.child, link.parent, col(link.parent.key)
    first, second = f"{child.one} {one.phrase}", f"{child.one} {two_words}"
    things = f"{parent.many} with {with_article(first)} {'and also ' + with_article(second) if both else f'but no {second}'}"
    not_null = (Cond(col(link.column), "IS NOT NULL"),) if link.column.nullable and not both else ()
    second_query = children_of(link, two_cond, *not_null)
    where = (Cond(key, "IN", children_of(link, one.cond)), Cond(key, "IN" if both else "NOT IN", second_query))
    query = Query((col(parent.label),), parent.name, where=where)
    left, right = (Query((col(parent.label),), child.name, (join(link),), (c,)) for c in (one.cond, two_cond))
    other = Compound("INTERSECT" if both else "EXCEPT", left, right)
    return Question(once(ask_list(random, [parent.label], things), parent), query, (other,))


def column_of(table: Table, wanted: Col) -> Column:
    """Return the column of a table that a query's column stands for."""
    return next(column for column in table.columns if column.name == wanted.name)


def both(world: World, random: Random) -> Question | None:
    return two_children(world, random, both=True)


def but_not(world: World, random: Random) -> Question | None:
    return two_children(world, random, both=False)


def union(world: World, random: Random) -> Question | None:
    named = [table for table in world.schema.tables if table.role("label")]
    if len(named) < 2:
        return None
    parts: list[tuple[Query, str]] = []
    for table in random.sample(named, 2):
        where, things = with_pick(world, random, table, 0.5, table.label)
        parts.append((Query((col(table.label),), table.name, where=where), f"the {plural(table.label.noun)} of the {things}"))
    names = joined([words for _, words in parts])
    frames = (
        f"Show {names} in one column without repeats.",
        f"Put {names} into a single list, each only once.",
        f"List {names} together in one column, without duplicates.",
    )
    return Question(random.choice(frames), Compound("UNION", parts[0][0], parts[1][0]))


def path(world: World, random: Random) -> tuple[Link, Link] | None:
    """Return two links that connect three tables: two parents of one child, or a child, its parent and that one's parent."""
    links = [link for link in world.schema.links if link.parent.role("label")]
    pairs = [
        (a, b)
        for a in links
        for b in links
        if a is not b and (b.child is a.child or b.child is a.parent) and a.parent is not b.parent
    ]
    return random.choice(pairs) if pairs else None


def three_filter(world: World, random: Random) -> Question | None:
    found = path(world, random)
    far = restrict(world, random, found[1], 0.4) if found else None
    if not found or not far:
        return None
    near, second = found
    child, joins = near.child, (join(near), join(second))
    if second.child is child:
        mine = restrict(world, random, near, 0.0)
        if not mine:
            return None
        where, things = (mine[0], far[0]), f"{child.many} {mine[1]} {far[1]}"
    else:
        where, things = (far[0],), f"{child.many} {near.word} {near.parent.many} {far[1]}"
    if random.random() < 0.5 or not child.role("label"):
        return Question(ask_count(random, things), Query((COUNT,), child.name, joins, where))
    return Question(ask_list(random, [child.label], things), Query((col(child.label),), child.name, joins, where))


def three_exists(world: World, random: Random) -> Question | None:
    found = path(world, random)
    if not found:
        return None
    one, two = random.sample(found, 2) if found[0].child is found[1].child else found
    far = restrict(world, random, two, 0.5)
    if not far:
        return None
    if two.child is one.child:  # authors with books in shops from France
        table, things = one.parent, f"{one.parent.many} that have {one.child.many} {far[1]}"
    else:  # the far one is asked for: authors with loans lasting 3 days
        chosen = pick_filter(random, world, one.child)
        if not chosen:
            return None
        table, far = two.parent, (chosen.cond, "")
        things = f"{two.parent.many} that have {two.child.many} with any {one.child.many} {chosen.phrase}"
    query = Query((col(table.label),), one.child.name, (join(one), join(two)), (far[0],), distinct=True)
    return Question(once(ask_list(random, [table.label], things), table), query)


def three_group(world: World, random: Random) -> Question | None:
    found = path(world, random)
    if not found:
        return None
    near, second = found
    child, table, label = near.child, second.parent, second.parent.label.noun
    chosen = pick_filter(random, world, near.parent) if second.child is child else None
    if second.child is child and not chosen:
        return None
    things = (
        f"{child.many} {near.word} {near.parent.many} {chosen.phrase}"
        if chosen
        else f"{child.many} {near.word} its {near.parent.many}"
    )
    frames = (
        f"For each {table.one} that has any, show the {label} and the number of {things}.",
        f"Show the {label} and the number of {things} for every {table.one} that has any.",
        f"How many {things} does each {table.one} have? Show {label} and number where there are any.",
    )
    query = Query(
        (col(table.label), COUNT),
        child.name,
        (join(near), join(second)),
        (chosen.cond,) if chosen else (),
        group=(col(table.label),),
    )
    return Question(random.choice(frames), query)


JOINED: Mapping[str, Kind] = {
    "join_filter": Kind(join_filter, "medium"),
    "join_show": Kind(join_show, "medium"),
    "join_count": Kind(join_count, "medium"),
    "join_aggregate": Kind(join_aggregate, "medium"),
    "join_group": Kind(join_group, "hard"),
    "left_count": Kind(left_count, "hard"),
    "join_having": Kind(join_having, "hard"),
    "argmax": Kind(argmax, "hard"),
    "never": Kind(never, "hard"),
    "some_child": Kind(some_child, "medium"),
    "both": Kind(both, "hard"),
    "but_not": Kind(but_not, "hard"),
    "union": Kind(union, "medium"),
    "three_filter": Kind(three_filter, "hard"),
    "three_exists": Kind(three_exists, "hard"),
    "three_group": Kind(three_group, "hard"),
}
"""Kind of question by name."""
