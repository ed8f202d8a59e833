"""Near duplicates among attempts and among tasks of an archive, and overlap of its tasks with benchmarks.

Candidates are found by MinHash with locality-sensitive hashing (Broder 1997) or by rare runs of words or tokens; a pair counts only by the
Jaccard similarity of the sets, |A and B| / |A or B|, or by the share of runs, which is at least the threshold.
"""

import ast
import importlib
import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from upsolve.archive.places import SHIPPED
from upsolve.archive.split import features_of, find_leaks, shingles
from upsolve.archive.store import read_tasks
from upsolve.clean.check import Check, Contents, Fault
from upsolve.errors import ConfigError
from upsolve.importers.formats import json_lines
from upsolve.importers.rows import BadRow
from upsolve.types import Task, TestCase, TestKind
from upsolve.verify.analysis.syntax import python_tree

__all__ = ["ATTEMPTS", "CONTAMINATION", "TASKS", "find_contained", "find_near", "read_benchmark"]

HASHES, BANDS = 120, 20
"""A pair with similarity 0.8 is found with probability 1 - (1 - 0.8^6)^20 = 0.998."""
BY_OUTCOME = """
select task_id, passed, attempt_id, author, any_value(code), list(place order by place)
from attempts left join labels using (attempt_id)
group by task_id, passed, attempt_id, author order by task_id, passed, min(place)
"""
"""Query that merges copies of a program by one author and outcome into one attempt with a count."""
TOKEN = re.compile(r"\w+|[^\w\s]")
RUN = 3
"""Number of tokens of a run."""
Sets = tuple[frozenset[Any], ...]


def token_runs(code: str, size: int = RUN) -> frozenset[str]:
    """Return the runs of ``size`` tokens of a program, or all of its tokens as one run if it is shorter."""
    tokens = TOKEN.findall(code)
    return frozenset(" ".join(tokens[start : start + size]) for start in range(max(1, len(tokens) - size + 1)))


def find_near(sets: Sequence[Sets], threshold: float) -> Iterator[tuple[int, int]]:
    """Yield (index, index of an earlier kept item) of items whose sets all have a Jaccard similarity >= threshold."""
    rensa: Any = importlib.import_module("rensa")
    index = rensa.RMinHashLSH(threshold, HASHES, BANDS)
    hashes = rensa.RMinHash.from_token_sets([[*map(str, first)] for first, *_ in sets], HASHES, 1)
    for number, minhash in enumerate(hashes):
        near = (other for other in sorted(index.query(minhash)) if are_near(sets[number], sets[other], threshold))
        first = next(near, None)
        if first is None:
            index.insert(number, minhash)
        else:
            yield number, first


def are_near(left: Sets, right: Sets, threshold: float) -> bool:
    """Return whether each pair of corresponding sets is similar."""
    pairs = zip(left, right, strict=True)
    return all(not a or not b or len(a & b) >= threshold * len(a | b) for a, b in pairs)


def find_attempts(contents: Contents, options: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield attempts nearly equal to an earlier one with the same outcome; a different outcome would show where the mistake is."""
    for (task_id, _), rows in groupby(contents.rows(BY_OUTCOME), key=itemgetter(0, 1)):
        group = [*rows]
        if len(group) > 1:
            task = contents.stored_tasks.get(task_id)
            yield from repeated(group, token_runs(task.prompt) if task else frozenset(), options["threshold"])


def repeated(group: Sequence[tuple[Any, ...]], given: frozenset[str], threshold: float) -> Iterator[Fault]:
    """Yield the near duplicates of earlier attempts in a group; ignores text from the prompt, such as its docstring."""
    runs = [token_runs(row[4]) for row in group]
    for number, first in find_near([(found - given or found,) for found in runs], threshold):
        task_id, _, attempt_id, _, _, places = group[number]
        same = "equal" if group[first][4] == group[number][4] else "nearly equal"
        reason = f"{same} to {group[first][2]} at {task_id}, with the same outcome"
        yield from (Fault("attempts", place, attempt_id, reason, f"{same} attempts") for place in places)


def find_tasks(contents: Contents, options: Mapping[str, Any]) -> Iterable[Fault]:
    """Yield tasks whose prompt (and reference, if any) nearly equals an earlier one; simulations are skipped, since they share their prompt."""
    tasks = [(place, task, features_of(task, few=True)) for place, task in contents.tasks()]
    tasks = [item for item in tasks if item[2]]
    sets = [(words, token_runs(task.reference) if task.reference else frozenset[str]()) for _, task, words in tasks]
    for number, first in find_near(sets, options["threshold"]):
        place, task, _ = tasks[number]
        reason = f"nearly the same prompt as {tasks[first][1].task_id}"
        yield Fault("tasks", place, task.task_id, reason, "nearly equal tasks")


ATTEMPTS = Check(
    find_attempts,
    "attempts nearly equal to another one at the same task with the same outcome",
    "tokens spent on text that another attempt of the group already has",
    {"threshold": 0.9},
    modules=("rensa",),
)
TASKS = Check(
    find_tasks,
    "tasks with nearly the same prompt and reference",
    "one problem counts as several; if they fall into different splits, the test is partly memorised",
    {"threshold": 0.8},
    modules=("rensa",),
)


PROMPT = ("prompt", "text", "question", "problem", "description", "statement", "problem_description")
REFERENCE = ("reference", "canonical_solution", "code", "solution")
WORDS = re.compile(r"\w+")
FEWEST, FEW = 5, 20
"""Fewest runs of a prompt that is searched in other prompts; and the number of runs below which a prompt must occur as a whole."""
CODE_RUN, CODE_RUNS = 5, 20
"""Number of tokens of a run of code; and fewest runs of a reference that is searched in other references."""
TESTS, MOST_TESTS = 3, 200
"""Fewest tests of a task that are searched in other tasks; and largest number of a task's tests that are read."""
BRACKETS = str.maketrans("()", "[]")
"""Translation of round brackets to square ones, since data sets in JSON have lists instead of tuples."""
Runs = frozenset[Hashable]


def read_benchmark(name: str) -> list[Task]:
    """Return the tasks of an archive, ``source:path``, or a .jsonl file with ``PROMPT`` or ``REFERENCE``; ConfigError."""
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
    """Return how many runs of a text another text must have to contain it."""
    return runs if runs < FEW else math.ceil(share * runs - 1e-9)


def find_contained(texts: Sequence[Runs], parts: Sequence[Runs], *, share: float, fewest: int) -> Iterator[tuple[int, int]]:
    """Yield (text, part) where the text has ``needed`` of n runs: it then has one of the n - needed + 1 rarest."""
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
    """Yield (task id, shared text and the benchmark's task)."""
    for leak in find_leaks(tasks, benchmark, threshold=share):
        yield leak.left, f"{leak.reason} as {leak.right}"
    for name, (runs_of, fewest) in WAYS.items():
        ours, theirs = [runs_of(task) for task in tasks], [runs_of(task) for task in benchmark]
        for number, index in find_contained(ours, theirs, share=share, fewest=fewest):
            yield tasks[number].task_id, f"contains the {name} of {benchmark[index].task_id}"
        for index, number in find_contained(theirs, ours, share=share, fewest=fewest):
            yield tasks[number].task_id, f"its {name} is part of the {name} of {benchmark[index].task_id}"


def keys_of(test: TestCase, function: str) -> Iterator[Hashable]:
    """Yield the calls of a function in a test, with tuples as lists and the name in lower case without underscores; or input and output."""
    if test.kind is TestKind.STDIO:
        yield " ".join(test.input.split()), " ".join(test.expected.split())
    if test.kind not in (TestKind.CALL, TestKind.CODE) or not function:
        return
    tree = python_tree(test.input.strip())  # None in another language, or larger than the parser takes
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function:
            arguments = ", ".join(map(ast.unparse, [*node.args, *(word.value for word in node.keywords)]))
            yield function.lower().replace("_", ""), arguments.translate(BRACKETS).replace(",]", "]")


WAYS: Mapping[str, tuple[Callable[[Task], Runs], int]] = {
    # word trigrams without punctuation; a simulation's prompt describes its domain
    "prompt": (
        lambda t: frozenset(shingles(" ".join(WORDS.findall(t.prompt)))) if features_of(t, few=True) else Runs(),
        FEWEST,
    ),
    "reference": (lambda task: frozenset(token_runs(task.reference, CODE_RUN)), CODE_RUNS),
    # what the first tests ask for: calls of the function, or inputs with their outputs
    "set of tests": (lambda t: frozenset(key for one in t.tests[:MOST_TESTS] for key in keys_of(one, t.entry_point)), TESTS),
}
"""Part of a task -> function that returns its runs, and the fewest runs that are searched in other tasks."""


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
