"""Near duplicates: attempts of one task with the same outcome, and tasks with nearly the same prompt.

Candidates are found by MinHash with locality-sensitive hashing (Broder 1997); a pair counts only if the Jaccard similarity of the sets,
|A and B| / |A or B|, is at least the threshold.
"""

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from upsolve.archive.leaks import features_of
from upsolve.clean.check import Check, Contents, Fault
from upsolve.clean.code import token_runs

__all__ = ["ATTEMPTS", "TASKS", "find_near"]

HASHES, BANDS = 120, 20
"""A pair with similarity 0.8 is found with probability 1 - (1 - 0.8^6)^20 = 0.998."""
BY_OUTCOME = """
select task_id, passed, attempt_id, author, any_value(code), list(place order by place)
from attempts left join labels using (attempt_id)
group by task_id, passed, attempt_id, author order by task_id, passed, min(place)
"""
"""Copies of a program by one author are one attempt with a count."""
Sets = tuple[frozenset[Any], ...]


def find_near(sets: Sequence[Sets], threshold: float) -> Iterator[tuple[int, int]]:
    """Yield (index, index of an earlier item that stays) of the items that are nearly equal to an item that stays.

    Args:
        sets: one or several sets of each item, all of which must be similar; an empty set is similar to any.
        threshold: smallest Jaccard similarity, in (0, 1].
    """
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
    """Yield attempts that are nearly equal to an earlier one at the same task with the same outcome.

    Attempts with different outcomes are no duplicates: nearly equal programs of which one fails show where the mistake is.
    """
    for (task_id, _), rows in groupby(contents.rows(BY_OUTCOME), key=itemgetter(0, 1)):
        group = [*rows]
        if len(group) > 1:
            task = contents.stored_tasks.get(task_id)
            yield from repeated(group, token_runs(task.prompt) if task else frozenset(), options["threshold"])


def repeated(group: Sequence[tuple[Any, ...]], given: frozenset[str], threshold: float) -> Iterator[Fault]:
    """Yield the attempts of a group that repeat an earlier one; runs that the prompt gives, such as its docstring, are not compared."""
    runs = [token_runs(row[4]) for row in group]
    for number, first in find_near([(found - given or found,) for found in runs], threshold):
        task_id, _, attempt_id, _, _, places = group[number]
        same = "equal" if group[first][4] == group[number][4] else "nearly equal"
        reason = f"{same} to {group[first][2]} at {task_id}, with the same outcome"
        yield from (Fault("attempts", place, attempt_id, reason, f"{same} attempts") for place in places)


def find_tasks(contents: Contents, options: Mapping[str, Any]) -> Iterable[Fault]:
    """Yield tasks whose prompt nearly equals that of an earlier task, and whose reference does too if both have one.

    Prompts of simulations share their domain's description and are not compared.
    """
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
    "tokens spent on what another attempt of the group says already",
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
