"""Turn the task functions of this folder into records, checked, as ``Task`` objects.

    python tools/embedded/build.py      # prints the counts

Every reference is run on its inputs to make the expected values, so an example in a statement and a test cannot disagree.
"""

import ast
import collections
import copy
import functools
import importlib
import inspect
import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pools

from upsolve.types import Task, TestCase, TestKind

MODULES = ("numbers", "strings", "lists", "structures")
VISIBLE = 5


def load():
    """Yield each theme with the tasks that its module registers."""
    for name in MODULES:
        importlib.import_module(f"about_{name}")
        yield name, list(pools.TASKS)
        pools.TASKS.clear()


def literal(value):
    """Return a literal for a value, the members of a set in order; raise ValueError if there is none."""
    text = f"{{{', '.join(sorted(map(repr, value)))}}}" if isinstance(value, set) and value else repr(value)
    if value != set() and ast.literal_eval(text) != value:
        raise ValueError(f"{text} is not a literal")
    return text


def reference_of(function):
    """Return the function's source without decorator and docstring."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    node = tree.body[0]
    node.decorator_list = []
    node.body = node.body[1:]
    return ast.unparse(node)


def make_task(difficulty, function, inputs):
    """Build one task; the first inputs become the visible tests."""
    name = function.__name__
    tests = []
    for position, arguments in enumerate(inputs):
        call = f"{name}({', '.join(literal(a) for a in arguments)})"
        expected = function(*copy.deepcopy(arguments))
        tests.append(TestCase(TestKind.CALL, call, literal(expected), hidden=position >= VISIBLE))
    signature = f"{name}{inspect.signature(function)}"
    statement = f"Write a Python function `{signature}` that {inspect.getdoc(function)}"
    return Task(
        task_id=f"upsolve/{name}",
        prompt=" ".join(statement.split()),
        tests=tuple(tests),
        entry_point=name,
        difficulty=difficulty,
        source="upsolve",
        reference=reference_of(function),
    )


@functools.cache
def tasks():
    """Return all embedded tasks, checked: each has at least ten tests, and no constant answer passes."""
    result = []
    for theme, registered in load():
        for difficulty, function, inputs in registered:
            task = make_task(difficulty, function, inputs)
            if len(task.tests) < 2 * VISIBLE:
                raise ValueError(f"{theme}: {task.task_id} has {len(task.tests)} tests")
            if len({t.expected for t in task.tests}) < 2:
                raise ValueError(f"{task.task_id}: a constant would pass")
            result.append(task)
    double = [n for n, c in collections.Counter(t.task_id for t in result).items() if c > 1]
    if double:
        raise ValueError(f"names used twice: {double}")
    return result


if __name__ == "__main__":
    print(collections.Counter(t.difficulty for t in tasks()))
