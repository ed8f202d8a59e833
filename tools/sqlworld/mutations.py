"""Wrong queries of kinds that people and models write, made from the right one. Whether they are wrong is for the judge to say."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from random import Random

from sqlworld.database import World
from sqlworld.query import Aggregate, Col, Compound, Cond, Join, Query, each_query
from sqlworld.schema import Column, Table

__all__ = ["STRUCTURAL", "TYPICAL", "mutants"]

Many = Iterator[Query | Compound]
FLIP = {">": "<", "<": ">", ">=": "<=", "<=": ">="}
EDGE = {">": ">=", "<": "<=", ">=": ">", "<=": "<"}
OTHER = {"AVG": "SUM", "SUM": "AVG", "MAX": "MIN", "MIN": "MAX"}
COUNT = Aggregate("COUNT")


def conds(query: Query, change: Callable[[Cond], Cond | None]) -> Many:
    """Yield the query with one condition changed, for each that can be; HAVING counts as well."""
    for index, cond in enumerate(query.where):
        new = change(cond)
        if new:
            yield replace(query, where=(*query.where[:index], new, *query.where[index + 1 :]))
    if query.having and (new := change(query.having)):
        yield replace(query, having=new)


def dropped_condition(query: Query, _world: World) -> Many:
    for index in range(len(query.where)):
        yield replace(query, where=query.where[:index] + query.where[index + 1 :])
    if query.having:
        yield replace(query, having=None)


def wrong_direction(query: Query, _world: World) -> Many:
    return conds(query, lambda cond: replace(cond, op=FLIP[cond.op]) if cond.op in FLIP else None)


def off_by_one(query: Query, _world: World) -> Many:
    yield from conds(query, lambda cond: replace(cond, op=EDGE[cond.op]) if cond.op in EDGE else None)
    if query.limit > 1:
        yield replace(query, limit=query.limit - 1)


def and_or(query: Query, _world: World) -> Many:
    if len(query.where) > 1 and not any(isinstance(cond.right, Query) for cond in query.where):
        yield replace(query, glue="OR" if query.glue == "AND" else "AND")


def negation(query: Query, _world: World) -> Many:
    opposite = {"<>": "=", "NOT IN": "IN", "NOT EXISTS": "EXISTS", "IS NOT NULL": "IS NULL", "IS NULL": "IS NOT NULL"}
    return conds(query, lambda cond: replace(cond, op=opposite[cond.op]) if cond.op in opposite else None)


def null_equals(query: Query, _world: World) -> Many:
    replacements = {"IS NULL": "= NULL", "IS NOT NULL": "<> NULL"}
    return conds(query, lambda cond: replace(cond, op=replacements[cond.op]) if cond.op in replacements else None)


def like_equals(query: Query, _world: World) -> Many:
    def change(cond: Cond) -> Cond | None:
        return replace(cond, op="=", right=str(cond.right).strip("%-")) if cond.op == "LIKE" else None

    return conds(query, change)


def like_place(query: Query, _world: World) -> Many:
    def change(cond: Cond) -> Cond | None:
        if cond.op != "LIKE":
            return None
        text = str(cond.right)
        return replace(cond, right=f"%{text[:-1]}" if not text.startswith("%") else f"{text.strip('%')}%")

    return conds(query, change)


def half_range(query: Query, _world: World) -> Many:
    for end, op in ((0, ">="), (1, "<=")):
        yield from conds(query, lambda c, e=end, o=op: replace(c, op=o, right=c.right[e]) if c.op == "BETWEEN" else None)  # type: ignore[index,misc]


def first_value(query: Query, _world: World) -> Many:
    return conds(query, lambda c: replace(c, op="=", right=c.right[0]) if c.op == "IN" and isinstance(c.right, tuple) else None)


def wrong_value(query: Query, _world: World) -> Many:
    def change(cond: Cond) -> Cond | None:
        if cond.op not in ("=", "<>") or not isinstance(cond.right, str):
            return None
        return replace(cond, right=cond.right.capitalize() if cond.right.islower() else cond.right.lower())

    return conds(query, change)


def aggregates(query: Query, change: Callable[[Aggregate], Aggregate | None]) -> Many:
    """Yield the query with one aggregate changed, wherever it stands."""
    for index, item in enumerate(query.select):
        if isinstance(item, Aggregate) and (new := change(item)):
            yield replace(query, select=(*query.select[:index], new, *query.select[index + 1 :]))
    if isinstance(query.order, Aggregate) and (new := change(query.order)):
        yield replace(query, order=new)
    if query.having and isinstance(query.having.left, Aggregate) and (new := change(query.having.left)):
        yield replace(query, having=replace(query.having, left=new))


def wrong_aggregate(query: Query, _world: World) -> Many:
    return aggregates(query, lambda call: replace(call, name=OTHER[call.name]) if call.name in OTHER else None)


def count_sum(query: Query, world: World) -> Many:
    numbers = table_of(world, query.table).role("number")

    def change(one: Aggregate) -> Aggregate | None:
        if one.name == "SUM":
            return replace(one, name="COUNT")
        if one == COUNT and numbers:
            return Aggregate("SUM", Col(query.table, numbers[0].name))
        return None

    return aggregates(query, change)


def count_star(query: Query, _world: World) -> Many:
    if any(join.outer for join in query.joins):
        yield from aggregates(query, lambda call: COUNT if call.name == "COUNT" else None)


def missing_distinct(query: Query, _world: World) -> Many:
    if query.distinct:
        yield replace(query, distinct=False)
    yield from aggregates(query, lambda call: replace(call, distinct=False) if call.distinct else None)


def missing_group(query: Query, _world: World) -> Many:
    if query.group:
        yield replace(query, group=())


def wrong_group(query: Query, world: World) -> Many:
    for group in query.group[:1]:
        table = table_of(world, group.table)
        yield from (replace(query, group=(Col(group.table, c.name),)) for c in table.columns if c.role in ("category", "fk"))


def having_where(query: Query, _world: World) -> Many:
    if query.having:
        yield replace(query, having=None, where=(*query.where, query.having))


def wrong_order(query: Query, _world: World) -> Many:
    if query.order:
        yield replace(query, descending=not query.descending)


def missing_order(query: Query, _world: World) -> Many:
    if query.order:
        yield replace(query, order=None, descending=False)


def missing_limit(query: Query, _world: World) -> Many:
    if query.limit:
        yield replace(query, limit=0)


def inner_join(query: Query, _world: World) -> Many:
    if any(join.outer for join in query.joins):
        yield replace(query, joins=tuple(replace(join, outer=False) for join in query.joins))


def joins(query: Query, change: Callable[[Join], Join | None]) -> Many:
    """Yield the query with one join changed."""
    for index, join in enumerate(query.joins):
        if new := change(join):
            yield replace(query, joins=(*query.joins[:index], new, *query.joins[index + 1 :]))


def missing_join(query: Query, _world: World) -> Many:
    return joins(query, lambda join: Join(join.table, None, None))


def wrong_join_column(query: Query, world: World) -> Many:
    def change(join: Join) -> Join | None:
        return replace(join, left=Col(join.left.table, table_of(world, join.left.table).key.name)) if join.left else None

    return joins(query, change)


def other_join_column(query: Query, world: World) -> Many:
    def change(join: Join) -> Join | None:
        if not join.left:
            return None
        others = [c for c in table_of(world, join.left.table).role("fk") if c.name != join.left.name]
        return replace(join, left=Col(join.left.table, others[0].name)) if others else None

    return joins(query, change)


def dropped_join(query: Query, _world: World) -> Many:
    if query.joins:
        yield replace(query, joins=query.joins[:-1])


def extra_column(query: Query, world: World) -> Many:
    first = query.select[0]
    if isinstance(first, Col) and first.name != "*":
        spare = [c for c in world_columns(world, first) if Col(first.table, c.name) not in query.select]
        yield from (replace(query, select=(*query.select, Col(first.table, column.name))) for column in spare)
    if query.order and query.order not in query.select:
        yield replace(query, select=(*query.select, query.order))


def swapped_columns(query: Query, _world: World) -> Many:
    if len(query.select) > 1:
        yield replace(query, select=query.select[::-1])


def missing_column(query: Query, _world: World) -> Many:
    if len(query.select) > 1:
        yield from (
            replace(query, select=query.select[:index] + query.select[index + 1 :]) for index in range(len(query.select))
        )


def wrong_column(query: Query, world: World) -> Many:
    first = query.select[0]
    if isinstance(first, Col) and first.name != "*":
        for column in world_columns(world, first):
            yield replace(query, select=(Col(first.table, column.name), *query.select[1:]))
    elif isinstance(first, Aggregate) and first.column:
        for column in world_columns(world, first.column):
            if column.role == "number":
                yield replace(query, select=(replace(first, column=Col(first.column.table, column.name)), *query.select[1:]))


def wrong_filter_column(query: Query, world: World) -> Many:
    def change(cond: Cond) -> Cond | None:
        if not isinstance(cond.left, Col) or isinstance(cond.right, Query | Col | None):
            return None
        numeric = not isinstance(cond.right, str)
        others = [c for c in world_columns(world, cond.left) if (c.type != "TEXT") == numeric and c.role != "fk"]
        return replace(cond, left=Col(cond.left.table, others[0].name)) if others else None

    return conds(query, change)


def select_all(query: Query, _world: World) -> Many:
    if len(query.select) == 1 and isinstance(query.select[0], Col) and not query.joins and not query.alias:
        yield replace(query, select=(Col(query.table, "*"),))


def list_instead(query: Query, world: World) -> Many:
    if query.select == (COUNT,):
        yield replace(query, select=(Col(query.table, table_of(world, query.table).label.name),))


def count_instead(query: Query, _world: World) -> Many:
    if len(query.select) == 1 and isinstance(query.select[0], Col) and not query.order and not query.group:
        yield replace(query, select=(COUNT,), distinct=False)


def value_instead(query: Query, _world: World) -> Many:
    if isinstance(query.order, Col) and query.limit == 1:
        best = Aggregate("MAX" if query.descending else "MIN", query.order)
        yield replace(query, select=(best,), order=None, limit=0, descending=False)


def global_extreme(query: Query, _world: World) -> Many:
    for index, cond in enumerate(query.where):
        if query.alias and isinstance(cond.right, Query):
            free = replace(cond, right=replace(cond.right, where=()))
            yield replace(query, where=(*query.where[:index], free, *query.where[index + 1 :]))


def one_row(query: Query, _world: World) -> Many:
    """Ask one child for both conditions that two children fulfil."""
    subqueries = [cond for cond in query.where if isinstance(cond.right, Query) and cond.left]
    if len(subqueries) != 2:
        return
    one, two = subqueries
    assert isinstance(one.right, Query) and isinstance(two.right, Query) and isinstance(one.left, Col)
    second = two.right.where[0]
    if two.op == "NOT IN":
        second = replace(second, op={"=": "<>", **FLIP, ">=": "<", "<=": ">"}.get(second.op, second.op))
    foreign = one.right.select[0]
    assert isinstance(foreign, Col)
    join = Join(query.table, foreign, one.left)
    yield Query(query.select, one.right.table, (join,), (*one.right.where, second), distinct=True)


def not_in_null(query: Query, world: World) -> Many:
    """Use NOT IN where the list has a missing value, so that no row is left."""
    for index, cond in enumerate(query.where):
        if cond.op == "NOT EXISTS" and isinstance(cond.right, Query):
            first = cond.right.where[0]
            assert isinstance(first.left, Col)
            if next(c for c in table_of(world, first.left.table).columns if c.name == first.left.name).nullable:
                listed = replace(cond.right, select=(first.left,), where=cond.right.where[1:])
                new = Cond(first.right, "NOT IN", listed)  # type: ignore[arg-type]
                yield replace(query, where=(*query.where[:index], new, *query.where[index + 1 :]))


def other_set(query: Query | Compound, _world: World) -> Many:
    if isinstance(query, Compound):
        replacements = {"UNION": ("UNION ALL", "INTERSECT"), "-": ("-",), "INTERSECT": ("UNION",), "EXCEPT": ("UNION",)}
        yield from (Compound(op, query.right, query.left) for op in replacements[query.op])
        yield query.left


def table_of(world: World, name: str) -> Table:
    """Return a table by its name."""
    return next((table for table in world.schema.tables if table.name == name), world.schema.tables[0])


def world_columns(world: World, column: Col) -> list[Column]:
    """Return the other columns of a column's table."""
    return [other for other in table_of(world, column.table).columns if other.name != column.name]


STRUCTURAL: Mapping[str, Callable[[Query, World], Many]] = {
    mutation.__name__: mutation
    for mutation in (
        *(
            and_or,
            count_instead,
            count_star,
            count_sum,
            dropped_condition,
            dropped_join,
            extra_column,
            first_value,
            global_extreme,
        ),
        *(
            half_range,
            having_where,
            inner_join,
            like_equals,
            like_place,
            list_instead,
            missing_column,
            missing_distinct,
            missing_group,
        ),
        *(
            missing_join,
            missing_limit,
            missing_order,
            negation,
            not_in_null,
            null_equals,
            off_by_one,
            one_row,
            other_join_column,
            select_all,
        ),
        *(swapped_columns, value_instead, wrong_aggregate, wrong_column, wrong_direction, wrong_filter_column, wrong_group),
        *(wrong_join_column, wrong_order, wrong_value),
    )
}
"""Mutations of one SELECT, by the name under which the author of an attempt has them."""

TYPICAL: Mapping[str, tuple[str, ...]] = {
    "filter": ("wrong_direction", "select_all", "list_instead"),
    "negation": ("negation", "select_all"),
    "conditions": ("and_or", "dropped_condition"),
    "columns": ("swapped_columns", "dropped_condition"),
    "count": ("list_instead", "count_sum"),
    "aggregate": ("wrong_aggregate", "dropped_condition"),
    "distinct": ("missing_distinct",),
    "like": ("like_equals",),
    "between": ("half_range",),
    "one_of": ("first_value",),
    "missing": ("null_equals",),
    "count_distinct": ("missing_distinct",),
    "order": ("wrong_order", "missing_order"),
    "top": ("missing_limit", "wrong_order"),
    "extreme": ("value_instead", "wrong_order"),
    "dates": ("like_equals", "half_range"),
    "group_count": ("missing_group",),
    "group_aggregate": ("missing_group", "wrong_aggregate"),
    "having": ("having_where", "off_by_one"),
    "above_average": ("average_outside", "wrong_direction"),
    "difference": ("other_set",),
    "top_in_group": ("global_extreme",),
    "join_filter": ("wrong_join_column", "dropped_join"),
    "join_show": ("missing_join", "wrong_join_column"),
    "join_count": ("wrong_join_column", "missing_join"),
    "join_aggregate": ("wrong_join_column", "wrong_aggregate"),
    "join_group": ("missing_group", "wrong_join_column"),
    "left_count": ("inner_join", "count_star"),
    "join_having": ("having_where", "off_by_one"),
    "argmax": ("missing_limit", "wrong_order"),
    "never": ("not_in_null", "negation"),
    "some_child": ("count_instead", "dropped_condition"),
    "both": ("one_row",),
    "but_not": ("one_row",),
    "union": ("other_set",),
    "three_filter": ("dropped_join", "wrong_join_column"),
    "three_exists": ("missing_distinct", "dropped_join"),
    "three_group": ("missing_group", "dropped_join"),
}
"""Kind of question -> the mistakes that most of its wrong attempts share, the first most often."""


def mutants(query: Query | Compound, world: World, random: Random) -> dict[str, Query | Compound]:
    """Return one query for each structural mutation that applies, other than the query itself."""
    result: dict[str, Query | Compound] = {}
    for name, mutate in STRUCTURAL.items():
        changed: list[Query | Compound] = []
        for part, put in each_query(query):
            changed += [put(new) for new in mutate(part, world) if isinstance(new, Query) and new != part]
        if changed:
            result[name] = random.choice(changed)
    if changed := [new for new in other_set(query, world) if new != query]:
        result["other_set"] = changed[0] if random.random() < 0.7 else changed[-1]
    return result
