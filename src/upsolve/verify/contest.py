"""The imports that judges of contests make for every Python program: solutions rely on ``List``, ``deque`` or ``math`` being there.

Standard library only, since the judge uses it.
"""

import ast
from collections.abc import Container, Iterable, Iterator
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache
from typing import TypeVar

from upsolve.types import Task, TestKind

__all__ = ["PROVIDED", "Imports", "imports_without", "prepared", "with_imports"]


class Imports(StrEnum):
    """Imports that Python attempts get."""

    NONE = "none"
    CONTEST = "contest"
    """``MODULES`` and ``MEMBERS``."""


MODULES = "bisect collections copy datetime fractions functools heapq itertools math operator random re string sys time"
MEMBERS = {
    "typing": "Any Callable Dict Generator Iterable Iterator List Optional Sequence Set Tuple Union",
    "bisect": "bisect_left bisect_right insort insort_left insort_right",
    "collections": "ChainMap Counter OrderedDict defaultdict deque namedtuple",
    "fractions": "Fraction",
    "functools": "cache cmp_to_key lru_cache partial reduce",
    "heapq": "heapify heappop heappush heappushpop heapreplace nlargest nsmallest",
    "itertools": "accumulate chain combinations count cycle groupby islice permutations product starmap zip_longest",
    "math": "ceil comb cos exp fabs factorial floor gcd hypot inf isqrt log log2 pi sin sqrt tan",
}
"""Imports of the graders of APPS, TACO and LiveCodeBench, for every program; LeetCode's solutions rely on them."""

PROVIDED = frozenset(" ".join([MODULES, *MEMBERS.values()]).split())
"""All names that they bind."""

T = TypeVar("T")


def prepared(rows: Iterable[T], imports: Imports) -> Iterator[T | Task]:
    """Yield the rows of a source, tasks in Python with the imports."""
    for row in rows:
        python = isinstance(row, Task) and row.language == "python"
        yield with_imports(row) if python and imports is Imports.CONTEST else row


def imports_without(names: Container[str] = ()) -> str:
    """Return the imports of ``MODULES`` and ``MEMBERS`` but for names that the program itself must define."""
    left = {module: [name for name in members.split() if name not in names] for module, members in MEMBERS.items()}
    lines = [f"import {', '.join(module for module in MODULES.split() if module not in names)}"]
    lines += [f"from {module} import {', '.join(members)}" for module, members in left.items() if members]
    return "\n".join(lines) + "\n"


@lru_cache(maxsize=64)
def with_imports(task: Task) -> Task:
    """Return a task whose setup has the imports, too.

    Names that its tests use are left out, and so is its entry point: the attempt may define them, and the tests are to call
    its functions. A task with tests that do not parse, which is a fault of the task, and one with simulated worlds are returned as they are.
    """
    calls = [test.input.strip() for test in task.tests if test.kind in (TestKind.CALL, TestKind.CODE)]
    if any(test.kind is TestKind.SIMULATION for test in task.tests):
        return task
    try:
        used = {node.id for call in calls for node in ast.walk(ast.parse(call)) if isinstance(node, ast.Name)}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return task
    parts = [imports_without(used | {task.entry_point}), task.setup]
    first = "__future__" in task.setup  # must be at the beginning
    return replace(task, setup="".join(reversed(parts) if first else parts))
