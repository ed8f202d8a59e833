"""Containers that the tests and the attempt both hold behave as in one process: changes and identity, over several calls."""

import random

import pytest

from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.judge.plans import judge
from upsolve.verify.limits import JudgeSettings, Limits

FAST = JudgeSettings(Limits(wall_seconds=20, cpu_seconds=10))
BOX = "class Box:\n    def __init__(self, items): self.items = items\n    def get(self): return self.items\ndef f(items): return Box(items)"
WRONG = {
    "one row many times": ("def f(n): return [[0] * n] * n", "g = f(2)\ng[0][0] = 1\nassert g == [[1, 0], [0, 0]]"),
    "one value for all keys": ("def f(ks): return dict.fromkeys(ks, [])", "d = f('ab')\nd['a'].append(1)\nassert d['b'] == []"),
    "shallow copy": ("def f(x): return x[:]", "a = [[1]]\nb = f(a)\nb[0].append(2)\nassert a == [[1]]"),
    "argument in a tuple": ("def f(x): return (x,)", "a = [1]\nb = f(a)\nb[0].append(2)\nassert a == [1]"),
    "default that remembers": (
        "def f(x, l=[]):\n    l.append(x)\n    return l",
        "a = f(1)\nb = f(2)\nassert (a, b) == ([1], [2])",
    ),
    "cached result": (
        "from functools import cache\n@cache\ndef f(n): return [1]",
        "a = f(1)\na.append(2)\nassert f(1) == [1]",
    ),
    "argument that is kept": (BOX, "a = [1]\nbox = f(a)\na.append(2)\nassert box.get() == [1]"),
    "inner list that is returned": (BOX, "box = f([1])\nbox.get().append(2)\nassert box.get() == [1]"),
    "buffer that is kept": (
        "def f(x, l=[]):\n    l.append(x)\n    l[0][0] += 1",
        "a = bytearray(2)\nf(a)\nf(bytes(1))\nassert a[0] == 1",
    ),
}
RIGHT = {
    "sorted rows": (
        "def f(l): l.sort()",
        "a, b = [2], [1]\nl = [a, b]\nf(l)\nassert l == [[1], [2]] and a == [2] and l[0] is b",
    ),
    "swapped values": (
        "def f(d): d['a'], d['b'] = d['b'], d['a']",
        "a = [1]\nd = {'a': a, 'b': [2]}\nf(d)\nassert d['b'] is a and a == [1] and d['a'] == [2]",
    ),
    "list in itself": ("def f(l): return l[0] is l", "l = []\nl.append(l)\nassert f(l)"),
    "result in itself": ("def f():\n    l = [1]\n    l.append(l)\n    return l", "l = f()\nassert l[1] is l"),
    "nested deep": ("def f(x): return x", "l = []\nfor _ in range(298):\n    l = [l]\nassert f(l) is l"),
    "changed, then raised": (
        "def f(l):\n    l[0].append(1)\n    raise ValueError",
        "a = []\ntry:\n    f([a])\nexcept ValueError:\n    pass\nassert a == [1]",
    ),
    "changed by a function of the tests": (
        "def f(l, g):\n    for x in l: g(x)\n    return l",
        "seen, a = [], [[1], [2]]\ndef g(x):\n    seen.append(x)\n    x.append(0)\nassert f(a, g) is a and a == [[1, 0], [2, 0]] and seen[1] is a[1]",
    ),
    "many rows by a key of the tests": (
        "def f(l, key): return sorted(l, key=key)",
        "l = [[i] for i in range(3000, 0, -1)]\nr = f(l, lambda row: row[0])\nassert r[0] is l[-1] and r[0] == [1]",
    ),
    "many items, many calls": (
        "class Index:\n    def __init__(self, l): self.l = l\n    def at(self, i): return self.l[i]\ndef f(l): return Index(l)",
        "l = list(range(100_000))\nindex = f(l)\nfor i in range(1000):\n    assert index.at(i) == i",
    ),
    "subclass that is changed": (
        "def f(d): return d[0]['k'][0]",
        "from collections import defaultdict\nd = defaultdict(list)\nd['k'].append(1)\nl = [d]\nassert f(l) == 1\nd['k'][0] = 2\nassert f(l) == 2",
    ),
}
STATE = """
kept = []
def keep(x): kept.append(x)
def kept_at(i): return kept[i % len(kept)] if kept else None
def pair(x, y): return [x, y]
def both(x): return (x, [x], {'x': x})
def first(x): return x[0] if x and isinstance(x, (list, tuple)) else x
def push(x, y):
    if isinstance(x, list) and len(x) < 6 and x is not y: x.append(y)
    return x
def drop(x):
    if isinstance(x, list) and x: x.pop(0)
def forget(i):
    if kept: kept.pop(i % len(kept))
def touch(i):
    for one in kept:
        if isinstance(one, list) and len(one) < 6: one.append(i)
        if isinstance(one, dict): one[i] = [i]
"""
SHOWN = "found = [[a is b or type(a) is tuple for a in held] for b in held], [type(a).__name__ for a in held], repr(held)"


def verdict(code: str, test: str) -> tuple[Status, str]:
    """Judge a program by one test, which has to run in the tester's process."""
    judged = judge(Task("t", "", (TestCase(TestKind.CODE, test),)), Attempt("t", code), FAST)
    assert judged.isolation.endswith("across")
    return judged.status, judged.error_message


@pytest.mark.parametrize("name", WRONG)
def test_a_list_with_two_names_remains_one_list(name):
    code, test = WRONG[name]
    assert verdict(code, test)[0] is Status.FAILED


@pytest.mark.parametrize("name", RIGHT)
def test_honest_programs_pass(name):
    code, test = RIGHT[name]
    assert verdict(code, test) == (Status.PASSED, "")


def steps(random: random.Random, first: str, *, keeps: bool) -> str:
    """Return a test that makes containers, changes them on both sides and hands them to and fro."""

    def at() -> str:
        return f"held[{random.randrange(5)}]"

    calls = [
        lambda: f"{at()} = pair({at()}, {at()})",
        lambda: f"{at()} = both({at()})",
        lambda: f"{at()} = first({at()})",
        lambda: f"{at()} = push({at()}, {at()})",
        lambda: f"drop({at()})",
        lambda: f"{at()} = [{random.randrange(9)}]",
        lambda: f"x = {at()}\nif type(x) is list and len(x) < 6: x.append({random.randrange(9)})",
        lambda: f"x = {at()}\nif type(x) is dict: x['y'] = [{random.randrange(9)}]",
    ]
    kept = [
        lambda: f"keep({at()})",
        lambda: f"{at()} = kept_at({random.randrange(5)})",
        lambda: f"forget({random.randrange(5)})",
        lambda: f"touch({random.randrange(9)})",
    ]
    chosen = calls + kept if keeps else calls
    return f"held = {first}\n" + "\n".join(random.choice(chosen)() for _ in range(40))


@pytest.mark.parametrize(
    ("first", "keeps"),
    [
        ("[[1], [2], [[3], [4]], {'k': [5]}, None]", True),
        pytest.param("[[1], [[2], list(range(5000))], [[3], [4]], {'k': [5]}, None]", False, marks=pytest.mark.slow),
    ],
)
def test_random_programs_end_as_in_one_process(first, keeps):
    for seed in range(40):
        test = steps(random.Random(seed), first, keeps=keeps)
        space: dict[str, object] = {}
        exec(f"{STATE}\n{test}\n{SHOWN}", space)
        assert verdict(STATE, f"{test}\n{SHOWN}\nassert found == {space['found']!r}, found") == (Status.PASSED, ""), test
