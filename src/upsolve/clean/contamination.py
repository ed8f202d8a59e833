"""Overlap of tasks with benchmarks: equal references, nearly equal prompts, and runs of words or tokens, or tests, of a benchmark inside of a task."""

import ast
import math
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from upsolve.archive.leaks import features_of, find_leaks, shingles
from upsolve.archive.places import SHIPPED
from upsolve.archive.store import read_tasks
from upsolve.clean.check import Check, Contents, Fault
from upsolve.clean.code import token_runs
from upsolve.errors import ConfigError
from upsolve.importers.rows import BadRow, json_lines
from upsolve.types import Task, TestCase, TestKind

__all__ = ["CONTAMINATION", "find_contained", "read_benchmark"]

PROMPT = ("prompt", "text", "question", "problem", "description", "statement", "problem_description")
REFERENCE = ("reference", "canonical_solution", "code", "solution")
WORDS = re.compile(r"\w+")
FEWEST, FEW = 5, 20
"""Prompts of fewer runs than the first number are not looked for inside of others; those of fewer than the second must be there as a whole."""
CODE_RUN, CODE_RUNS = 5, 20
"""Tokens of a run of code, and the fewest runs of a reference that is looked for inside of others."""
TESTS, MOST_TESTS = 3, 200
"""Fewest tests of a task that are looked for in others, and how many of a task's tests are looked at."""
BRACKETS = str.maketrans("()", "[]")
"""Data sets that come as JSON have lists for tuples."""
Runs = frozenset[Hashable]


def read_benchmark(name: str) -> list[Task]:
    """Return the tasks of a benchmark: an archive, ``source:path``, or a .jsonl file with any of the fields ``PROMPT`` and ``REFERENCE``.

    Raises:
        ConfigError: no such archive or file, or a line without any of these fields.
        SourceError: the source is unknown, or the file cannot be read.
    """
    path = Path(name)
    if name in SHIPPED or (path / "archive.json").is_file() or (":" in name and not path.exists()):
        return read_tasks(name, f"--against {name}")
    if not path.is_file():
        raise ConfigError(f"--against {name}: no such archive or file; name an archive, a .jsonl file, or source:path")
    return [task_of(name, number, row) for number, row in json_lines(path)]


def task_of(file: str, number: int, row: dict[str, Any] | BadRow) -> Task:
    """Return a line of a file as a task with prompt and reference."""
    if isinstance(row, BadRow):
        raise ConfigError(f"--against {file}, line {number}: {row.reason}")
    prompt, reference = (next((str(row[name]) for name in names if row.get(name)), "") for names in (PROMPT, REFERENCE))
    if not prompt and not reference:
        raise ConfigError(f"--against {file}, line {number}: has none of the fields {', '.join((*PROMPT, *REFERENCE))}")
    return Task(str(row.get("task_id") or f"line {number}"), prompt, reference=reference)


def needed(runs: int, share: float) -> int:
    """Return how many of a text's runs another one must have to contain it."""
    return runs if runs < FEW else math.ceil(share * runs - 1e-9)


def find_contained(texts: Sequence[Runs], parts: Sequence[Runs], *, share: float, fewest: int) -> Iterator[tuple[int, int]]:
    """Yield (index of a text, index of a part) where the text has ``needed`` runs of the part, and the part has at least ``fewest``.

    A text that has so many of a part's n runs has one of its n - needed + 1 rarest, by which candidates are found.
    """
    frequency = Counter(run for part in parts for run in part)
    holders: dict[Hashable, list[int]] = {}
    for index, part in enumerate(parts):
        if len(part) >= fewest:
            rarest = sorted(part, key=lambda run: (frequency[run], str(run)))
            for run in rarest[: len(part) - needed(len(part), share) + 1]:
                holders.setdefault(run, []).append(index)
    for number, text in enumerate(texts):
        candidates = sorted({index for run in text if run in holders for index in holders[run]})
        yield from ((number, index) for index in candidates if len(text & parts[index]) >= needed(len(parts[index]), share))


def overlaps(tasks: Sequence[Task], benchmark: Sequence[Task], share: float) -> Iterator[tuple[str, str]]:
    """Yield (task id, what it shares with which task of the benchmark)."""
    for leak in find_leaks(tasks, benchmark, threshold=share):
        yield leak.left, f"{leak.reason} as {leak.right}"
    ways = (("prompt", prompt_runs, FEWEST), ("reference", reference_runs, CODE_RUNS), ("set of tests", calls_of, TESTS))
    for name, runs_of, fewest in ways:
        ours, theirs = [runs_of(task) for task in tasks], [runs_of(task) for task in benchmark]
        for number, index in find_contained(ours, theirs, share=share, fewest=fewest):
            yield tasks[number].task_id, f"contains the {name} of {benchmark[index].task_id}"
        for index, number in find_contained(theirs, ours, share=share, fewest=fewest):
            yield tasks[number].task_id, f"its {name} is part of the {name} of {benchmark[index].task_id}"


def prompt_runs(task: Task) -> Runs:
    """Return the word trigrams of a task's prompt, without punctuation; none for a simulation, whose prompt describes its domain."""
    return frozenset(shingles(" ".join(WORDS.findall(task.prompt)))) if features_of(task, few=True) else frozenset()


def reference_runs(task: Task) -> Runs:
    """Return the runs of tokens of a task's reference."""
    return frozenset(token_runs(task.reference, CODE_RUN))


def calls_of(task: Task) -> Runs:
    """Return what a task's first tests ask for: calls of its function, or inputs with their outputs."""
    return frozenset(key for test in task.tests[:MOST_TESTS] for key in keys_of(test, task.entry_point))


def keys_of(test: TestCase, function: str) -> Iterator[Hashable]:
    """Yield the calls of a function in a test, with tuples as lists and the name in lower case without underscores; or input and output."""
    if test.kind is TestKind.STDIO:
        yield " ".join(test.input.split()), " ".join(test.expected.split())
    if test.kind not in (TestKind.CALL, TestKind.CODE) or not function:
        return
    try:
        nodes = [*ast.walk(ast.parse(test.input.strip()))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # in another language, or larger than the parser takes
        return
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function:
            arguments = ", ".join(map(ast.unparse, [*node.args, *(word.value for word in node.keywords)]))
            yield function.lower().replace("_", ""), arguments.translate(BRACKETS).replace(",]", "]")


def find(contents: Contents, options: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield tasks that overlap with a benchmark."""
    tasks = {task.task_id: (place, task) for place, task in contents.tasks()}
    for name in options["against"]:
        found = set[str]()
        for task_id, reason in overlaps([task for _, task in tasks.values()], read_benchmark(name), options["share"]):
            if task_id not in found:
                found.add(task_id)
                yield Fault("tasks", tasks[task_id][0], task_id, reason, f"tasks of {name}")


CONTAMINATION = Check(
    find,
    "tasks that overlap with benchmarks, by n-grams of prompts and of references, and by tests (`--against`)",
    "a gain on the benchmark is partly memorised",
    {"against": (), "share": 0.8},
    needs="against",
)
