"""Failed attempts of plausible kinds for an archive: python benchmarks/near_misses.py ARCHIVE OUT [--each 4] [--tasks N] [--models half=FOLDER ...]

OUT becomes a copy of the archive (a folder, ``embedded`` or ``embedded-sql``) with at least ``--each`` failed attempts a task of the author ``mutation:KIND``: passed attempts,
or the reference, with one mistake of a kind that people and models make (``PYTHON`` and ``SQL`` below). The judge decides which of them fail; programs that end with a wrong
answer come before those that raise. Each ``--models NAME=FOLDER``, such as policies at several stages of a run (`monitor.snapshot_every`), of other seeds or sizes, adds ``--each`` judged
samples a task by the author NAME. Work is written every 100 tasks: interrupt any time, the same command resumes. Prints attempts by author and status; OUT/near_misses.json has them.
"""

import argparse
import ast
import copy
import json
import random
import re
from collections import Counter
from pathlib import Path

from upsolve.archive.store import Archive, copy_archive, open_archive
from upsolve.config import load_recipe
from upsolve.policy.collect import sample_missing
from upsolve.types import Attempt, Status
from upsolve.verify.pool.pool import verify

PORTION, MOST = 100, 200
"""Tasks between two writes; most mistakes of one Python program that are made."""
COMPARE = {ast.Lt: (ast.LtE, ast.Gt), ast.LtE: (ast.Lt, ast.GtE), ast.Gt: (ast.GtE, ast.Lt), ast.GtE: (ast.Gt, ast.LtE)}
COMPARE |= {
    ast.Eq: (ast.NotEq, ast.NotEq),
    ast.NotEq: (ast.Eq, ast.Eq),
    ast.In: (ast.NotIn, ast.NotIn),
    ast.NotIn: (ast.In, ast.In),
}
"""Comparison -> the one that differs at its edge, and the opposite one."""
ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Div,
    ast.Div: ast.FloorDiv,
    ast.Mod: ast.FloorDiv,
}
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any", "sum": "len", "len": "sum", "sorted": "list"}


def edge(node):
    """Yield comparisons that differ at the edge, ``<`` and ``<=``, and numbers that are off by one."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARE:
        yield ast.Compare(node.left, [COMPARE[type(node.ops[0])][0](), *node.ops[1:]], node.comparators)
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield from (ast.Constant(node.value + step) for step in (1, -1))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range" and node.args:
        at = min(1, len(node.args) - 1)
        for op in (ast.Add(), ast.Sub()):
            yield ast.Call(
                node.func, [*node.args[:at], ast.BinOp(node.args[at], op, ast.Constant(1)), *node.args[at + 1 :]], node.keywords
            )


def comparison(node):
    """Yield the opposite comparison."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARE:
        yield ast.Compare(node.left, [COMPARE[type(node.ops[0])][1](), *node.ops[1:]], node.comparators)


def condition(node):
    """Yield conditions without one of their parts, and with ``and`` and ``or`` exchanged."""
    if isinstance(node, ast.BoolOp):
        for at in range(len(node.values)):
            rest = [*node.values[:at], *node.values[at + 1 :]]
            yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    if isinstance(node, ast.If | ast.IfExp) and not isinstance(node.test, ast.Constant):
        yield type(node)(ast.Constant(value=True), node.body, node.orelse)


def aggregate(node):
    """Yield calls of another function of the same values, ``min`` for ``max``, and another operator of the same numbers."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
        yield ast.Call(ast.Name(CALLS[node.func.id], ast.Load()), node.args, node.keywords)
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        yield ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)


PYTHON = {"off_by_one": edge, "comparison": comparison, "condition": condition, "aggregate": aggregate}
"""Kind -> function that yields the mistakes of a node; ``variable`` exchanges names, which are no matter of one node."""


def python_mutants(code):
    """Yield kind and text of programs with one mistake; nothing for a program that does not parse."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError):
        return
    read = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    own = sorted(stored | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)})
    changes = [
        ("variable", node, ast.Name(other, node.ctx)) for node in read if node.id in own for other in own if other != node.id
    ]
    changes += [(kind, node, new) for node in ast.walk(tree) for kind, mutate in PYTHON.items() for new in mutate(node)]
    for kind, old, new in changes[:: max(1, len(changes) // MOST)]:
        yield kind, ast.unparse(ast.fix_missing_locations(copy.deepcopy(tree, {id(old): new})))


WORD = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\d+(?:\.\d+)?|\w+|<=|>=|<>|!=|\s+|.", re.DOTALL)
TABLE = re.compile(r"CREATE\s+TABLE\s+\"?(\w+)\"?\s*\((.*?)\)\s*(?:;|\n|$)", re.IGNORECASE | re.DOTALL)
EDGES = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
OPPOSITE = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "<>", "<>": "=", "!=": "=", "AND": "OR", "OR": "AND"}
AGGREGATES = {"SUM": "AVG", "AVG": "SUM", "MIN": "MAX", "MAX": "MIN", "COUNT": "SUM"}
ENDS = ("AND", "OR", "GROUP", "ORDER", "HAVING", "LIMIT", "UNION", "EXCEPT", "INTERSECT", ")")


def columns_of(schema):
    """Return table -> its columns, as far as CREATE TABLE names them."""
    return {table: re.findall(r"(?:^|,)\s*\"?(\w+)\"?\s+[A-Z]", body) for table, body in TABLE.findall(schema)}


def sql_mutants(query, schema=""):
    """Yield kind and text of queries with one mistake."""
    words, tables, between = WORD.findall(query), columns_of(schema), False

    def put(at, *new, until=None):
        return "".join([*words[:at], *new, *words[(at + 1 if until is None else until) :]]).strip()

    for at, word in enumerate(words):
        upper, rest = word.upper(), "".join(words[at + 1 :]).lstrip().upper()
        for others in tables.values():
            if word in others:
                yield from (("wrong_column", put(at, other)) for other in others if other != word)
        if word in EDGES:
            yield "off_by_one", put(at, EDGES[word])
        if word.isdigit():
            yield from (("off_by_one", put(at, str(int(word) + step))) for step in (1, -1))
        if upper == "AND" and between:
            between = False
            continue
        between = upper == "BETWEEN" or between
        if upper in OPPOSITE:
            yield ("condition" if upper in ("AND", "OR") else "comparison"), put(at, OPPOSITE[upper])
        if upper in AGGREGATES and rest.startswith("(") and not (upper == "COUNT" and rest.startswith("(*")):
            yield "aggregate", put(at, AGGREGATES[upper])
        if upper in ("AND", "WHERE", "HAVING"):
            yield "condition", put(at, " ", until=ended(words, at))
        if upper in ("DESC", "DISTINCT"):
            yield ("order" if upper == "DESC" else "distinct"), put(at, "")
        if upper == "ASC" or (upper == "LIMIT" and "DESC" not in query.upper() and "ORDER" in query.upper()):
            yield "order", put(at, "DESC" if upper == "ASC" else f"DESC {word}")
        if upper == "LIMIT":
            yield "limit", put(at, "", until=at + 3)
        if upper == "JOIN":
            yield (
                "join",
                put(at, "LEFT JOIN")
                if "LEFT" not in "".join(words[max(0, at - 2) : at]).upper()
                else put(at - 2, "", until=at),
            )


def ended(words, start):
    """Return the index at which the condition behind a word ends; conditions of ``BETWEEN a AND b`` stay whole."""
    depth, between = 0, False
    for at in range(start + 1, len(words)):
        upper = words[at].upper()
        if (
            not depth
            and upper in ENDS
            and not (between and upper == "AND")
            and not (words[start].upper() != "AND" and upper in ("AND", "OR"))
        ):
            return at
        between = upper == "BETWEEN" or (between and upper != "AND")
        depth += {"(": 1, ")": -1}.get(upper, 0)
    return len(words)


def mutants(task, programs, chance, most):
    """Return at most this many mutated programs of a task as attempts, in turns of their kinds, none equal to a stored one."""
    found, seen = {}, {*programs}
    for code in programs:
        new = (
            sql_mutants(code, f"{task.prompt}\n{task.setup}")
            if task.language in ("sql", "sqlite", "duckdb")
            else python_mutants(code)
        )
        for kind, text in new:
            if text not in seen:
                seen.add(text)
                found.setdefault(kind, []).append(text)
    drawn = []
    for kind in found:
        chance.shuffle(found[kind])
    while len(drawn) < most and any(found.values()):
        kinds = [kind for kind in found if found[kind]]
        drawn += [Attempt(task.task_id, found[one].pop(), task.language or "python", author=f"mutation:{one}") for one in kinds]
    return drawn[:most]


def bases(group):
    """Return the programs that are mutated: passed ones in the language of the task, the shortest first, else the reference."""
    pairs = zip(group.attempts, group.verdicts, strict=True)
    passed = [attempt.code for attempt, verdict in pairs if verdict and verdict.status is Status.PASSED]
    return sorted(dict.fromkeys(passed), key=len)[:3] or [code for code in (group.task.reference,) if code]


def add_mutants(archive, options):
    """Add failed mutants until every task has ``--each``, or no more are found."""
    done_file = archive.path / "near_misses.done"
    done = {*done_file.read_text().split("\n")} if done_file.exists() else set()
    groups = [group for group in archive.groups() if group.task.task_id not in done and group.task.tests]
    random.Random(options.seed).shuffle(groups)
    for start in range(0, len(groups), PORTION):
        some, judged = groups[start : start + PORTION], []
        for group in some:
            chance = random.Random(f"{options.seed}/{group.task.task_id}")
            judged += [(group.task, one) for one in mutants(group.task, bases(group), chance, 4 * options.each)]
        kept = {}
        for (task, attempt), verdict in zip(judged, verify(judged), strict=True):
            if verdict.status not in (Status.PASSED, Status.UNSCORED):
                kept.setdefault(task.task_id, []).append((verdict.status is not Status.FAILED, len(kept), attempt, verdict))
        chosen = [one for of in kept.values() for one in sorted(of, key=lambda one: one[:2])[: options.each]]
        archive.append(attempts=[one[2] for one in chosen], verdicts=[one[3] for one in chosen])
        with done_file.open("a") as file:
            file.write("".join(f"{group.task.task_id}\n" for group in some))
        print(f"mutations: {start + len(some)} of {len(groups)} tasks, {len(chosen)} attempts", flush=True)


def add_samples(archive, name, folder, options):
    """Sample a model until each task has ``--each`` attempts by this author, and judge them."""
    config = load_recipe(
        None,
        [f"sample.samples={options.each}", "sample.temperature=0.8", "sample.max_tokens=160", f"sample.seed={options.seed}"],
    )
    tested = [task for task in archive.tasks() if task.tests]
    random.Random(options.seed).shuffle(tested)
    tasks = {task.task_id: task for task in tested[: options.sampled or None]}
    sample_missing(archive, tasks, config.sample, model=config.model.at(folder), author=name, progress=lambda *_: None)
    pairs = [
        (g.task, a)
        for g in archive.groups()
        for a, v in zip(g.attempts, g.verdicts, strict=True)
        if a.author == name and v is None
    ]
    archive.append(verdicts=verify(pairs))


def opened(source, out, options):
    """Return the archive at OUT: a copy, or one of ``--tasks`` of its tasks drawn by ``--seed``."""
    if (out / "archive.json").exists():
        return Archive(out)
    if not options.tasks:
        return copy_archive(open_archive(source), out)
    groups = [group for group in open_archive(source).groups() if group.task.tests]
    some = random.Random(options.seed).sample(groups, min(options.tasks, len(groups)))
    archive = Archive.create(out)
    attempts, verdicts = ([one for group in some for one in getattr(group, name) if one] for name in ("attempts", "verdicts"))
    archive.append(tasks=[group.task for group in some], attempts=attempts, verdicts=verdicts)
    return archive


def main(arguments=None):
    """Copy the archive and add near misses."""
    parser = argparse.ArgumentParser()
    parser.add_argument("archive")
    parser.add_argument("out", type=Path)
    parser.add_argument("--each", type=int, default=4)
    parser.add_argument("--tasks", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sampled", type=int, default=0, help="tasks that a model samples; 0: all")
    parser.add_argument("--models", nargs="*", default=[], metavar="NAME=FOLDER")
    options = parser.parse_args(arguments)
    archive = opened(options.archive, options.out, options)
    add_mutants(archive, options)
    for name, _, folder in (one.partition("=") for one in options.models):
        add_samples(archive, name, folder, options)
    counts = Counter(
        (a.author, str(v.status)) for g in archive.groups() for a, v in zip(g.attempts, g.verdicts, strict=True) if v
    )
    rows = [{"author": author, "status": status, "attempts": count} for (author, status), count in sorted(counts.items())]
    (options.out / "near_misses.json").write_text(json.dumps(rows, indent=1) + "\n")
    for row in rows:
        print(f"{row['author']:28} {row['status']:14} {row['attempts']:7}")


if __name__ == "__main__":
    main()
