"""Tasks with attempts: questions with databases on which most wrong queries have a different answer than the right one."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from random import Random

from sqlworld.database import World
from sqlworld.judging import Answer, answer, compare, text_of
from sqlworld.kinds_joined import JOINED
from sqlworld.kinds_single import SINGLE, Kind, Question
from sqlworld.mutations import TYPICAL, mutants
from sqlworld.query import PLAIN, Compound, Query, Style, render
from sqlworld.schema import Schema
from sqlworld.slips import ERRORS, prose, python, slips
from upsolve.types import Attempt, Status, Task, TestCase, TestKind, Verdict

__all__ = ["KINDS", "SchemaTasks", "build"]

KINDS: Mapping[str, Kind] = {**SINGLE, **JOINED}
POOL, TESTS, TRIES, EXTRA = 6, 3, 30, 3
RIGHT, WRONG = 2, 3
"""Number of right attempts of a task, and smallest number of wrong ones."""
KILLED = 0.85
"""Smallest share of the mutations detected by any database of the pool that the three chosen databases must detect too."""
MOST_EXPECTED = 30
JUDGE = "recorded:sql"


@dataclass(slots=True)
class SchemaTasks:
    """Tasks, attempts and verdicts of a schema."""

    tasks: list[Task] = field(default_factory=list[Task])
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    verdicts: list[Verdict] = field(default_factory=list[Verdict])


@dataclass(frozen=True, slots=True)
class Draft:
    """A question with its databases and mutations."""

    question: Question
    wrong: dict[str, Query | Compound]
    """Mutations by name."""
    chosen: tuple[int, ...]
    """Databases of the pool that its tests use."""


def build(schema: Schema, seed: int) -> SchemaTasks:
    """Return the tasks of one schema: one of each kind that its tables allow, and a few more."""
    world, result = World(schema, seed, POOL), SchemaTasks()
    random = Random(f"{world.seed}/questions")
    kinds = [*KINDS, *random.sample([*KINDS], EXTRA)]
    seen: set[str] = set()
    for number, name in enumerate(kinds, start=1):
        draft = find(world, random, name, seen)
        if draft:
            seen |= {render(draft.question.query), draft.question.text}
            add(result, world, random, (f"{number:02d}-{name}", name), draft)
    return result


def find(world: World, random: Random, name: str, seen: set[str]) -> Draft | None:
    """Return a new, unambiguous question of a kind whose mutations the databases detect; None if none is found."""
    for _ in range(TRIES):
        question = KINDS[name].make(world, random)
        if question and not seen & {render(question.query), question.text}:
            wrong = mutants(question.query, world, random)
            chosen = databases(world, question, wrong, TYPICAL[name])
            if chosen:
                return Draft(question, wrong, chosen)
    return None


def databases(
    world: World, question: Question, wrong: Mapping[str, Query | Compound], typical: tuple[str, ...]
) -> tuple[int, ...]:
    """Return three databases in which the question has one answer and as many mutations as possible have another; else an empty tuple."""
    text = render(question.query)
    usable = [
        number
        for number, connection in enumerate(world.connections)
        if is_clear(question, answer(connection, text), world, number)
    ]
    if len(usable) < TESTS:
        return ()
    detecting: dict[str, set[int]] = {}
    for name, query in wrong.items():
        detecting[name] = {number for number in usable if differs(world, number, question, render(query))}
    if any(differs(world, number, question, render(other)) for other in question.others for number in usable):
        raise AssertionError(f"{world.schema.name}: {text} and {[render(other) for other in question.others]} differ")
    best = max(combinations(usable, TESTS), key=lambda three: sum(bool(numbers & {*three}) for numbers in detecting.values()))
    killed = {name for name, numbers in detecting.items() if numbers & {*best}}
    first = next((name for name in typical if name in wrong), None)
    enough = len(killed) >= KILLED * sum(map(bool, detecting.values()))
    return best if enough and (first is None or first in killed) else ()


def differs(world: World, number: int, question: Question, text: str) -> bool:
    """Return whether a query's answer in a database differs from that of the right query."""
    connection = world.connections[number]
    expected = answer(connection, render(question.query))
    assert isinstance(expected, list)
    return compare(answer(connection, text), expected, ordered=question.ordered) is not Status.PASSED


def is_clear(question: Question, rows: Answer, world: World, number: int) -> bool:
    """Return whether an answer is not trivial and the only right one: no ties where an order or one row is asked for."""
    if isinstance(rows, Exception):
        raise rows
    if not 0 < len(rows) <= MOST_EXPECTED or rows == [(None,)]:
        return False
    if rows == [(0,)] and "LEFT JOIN" not in render(question.query):
        return False
    if question.unique and len({row[0] for row in rows}) < len(rows):
        return False
    query = question.query
    if not isinstance(query, Query) or query.order is None:
        return True
    keys = answer(world.connections[number], render(replace(query, select=(query.order,), limit=0)))
    assert isinstance(keys, list)
    first = keys[: query.limit + 1] if query.limit else keys
    return len(set(first)) == len(first) and len(keys) > 1 and (None,) not in first and len(keys) >= query.limit


def add(result: SchemaTasks, world: World, random: Random, name: tuple[str, str], draft: Draft) -> None:
    """Add a task with its attempts and their verdicts."""
    schema, question, kind = world.schema, draft.question, name[1]
    reference = render(question.query)
    expected = [answer(world.connections[number], reference) for number in draft.chosen]
    tests = tuple(
        TestCase(TestKind.STDIO, world.databases[number].script, text_of(rows), hidden=True)  # type: ignore[arg-type]
        for number, rows in zip(draft.chosen, expected, strict=True)
    )
    task = Task(
        f"sql/{schema.name}/{name[0]}",
        f"{schema.ddl}\n{question.text}",
        tests,
        language="sql",
        difficulty=KINDS[kind].difficulty,
        source="sql",
        reference=reference,
        compare="rows_in_order" if question.ordered else "rows",
        official=True,
        extra=json.dumps({"schema": schema.name, "kind": kind, "split": schema.split}),
    )
    result.tasks.append(task)
    for author, code in attempts(world, random, draft, kind).items():
        attempt = Attempt(task.task_id, code, "sql", author)
        outcomes = tuple(
            compare(answer(world.connections[number], code), rows, ordered=question.ordered)  # type: ignore[arg-type]
            for number, rows in zip(draft.chosen, expected, strict=True)
        )
        first = next((status for status in outcomes if status is not Status.PASSED), Status.PASSED)
        passed = outcomes.count(Status.PASSED)
        result.attempts.append(attempt)
        result.verdicts.append(Verdict(attempt.attempt_id, first, passed, len(outcomes), outcomes, JUDGE))


def attempts(world: World, random: Random, draft: Draft, kind: str) -> dict[str, str]:
    """Return the code of the attempts by author: two right ones, and three or four others."""
    question, reference = draft.question, render(draft.question.query)
    found = {"right:plain": reference}
    if question.others and random.random() < 0.6:
        found["right:other"] = render(random.choice(question.others))
    elif (aliased := render(question.query, Style(aliases=True))) != reference:
        found["right:alias"] = aliased if random.random() < 0.7 else render(question.query, Style(aliases=True, comma=True))
    else:
        found["right:lower"] = render(question.query, Style(lower=True))
    for name in semantic(random, draft, kind):
        aliases = random.random() < 0.4
        found[f"mutation:{name}"] = render(draft.wrong[name], Style(aliases=aliases) if aliases else PLAIN)
    spelled = slips(reference, world, random)
    if kind == "above_average" and random.random() < 0.6:
        spelled = {"average_outside": spelled.get("average_outside", reference)}
    names = [slip for slip in ERRORS if slip in spelled]
    if names:
        slip = random.choice(names)
        found[f"mutation:{slip}"] = spelled[slip]
    spare = [name for name in draft.wrong if f"mutation:{name}" not in found]
    if len(found) < RIGHT + WRONG and spare:
        another = random.choice(spare)
        found[f"mutation:{another}"] = render(draft.wrong[another])
    if len(found) < RIGHT + WRONG or (len(found) == RIGHT + WRONG and random.random() < 0.45):
        name, code = no_query(world, random, question.query)
        found[f"mutation:{name}"] = code
    first = {code: author for author, code in reversed(found.items())}
    return {author: code for author, code in found.items() if first[code] == author}


def no_query(world: World, random: Random, query: Query | Compound) -> tuple[str, str]:
    """Return an answer that is not SQL: Python, or prose (always where a query has no short form in Python)."""
    plain = query.left if isinstance(query, Compound) else query
    table = next(table for table in world.schema.tables if table.name == plain.table)
    simple = plain is query and not plain.joins and not any(isinstance(cond.right, Query) for cond in plain.where)
    return ("python", python(plain, random)) if simple and random.random() < 0.7 else ("prose", prose(plain, table, random))


def semantic(random: Random, draft: Draft, kind: str) -> list[str]:
    """Return the names of two mutations that run: mostly the mistake that is typical of the kind, and another one."""
    typical = [name for name in TYPICAL[kind] if name in draft.wrong]
    others = [name for name in draft.wrong if name not in typical]
    first = typical[0] if typical and random.random() < 0.7 else random.choice(typical or others or [""])
    second = random.choice(others if others and random.random() < 0.7 else typical or others or [""])
    return [name for name in dict.fromkeys((first, second)) if name]
