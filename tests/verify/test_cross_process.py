"""Tests whose functions are called in the attempt's process: what crosses, and which tests have to run in that process."""

import importlib

import pytest

from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.judge.plans import judge, judge_all
from upsolve.verify.judge.tested import changes_process
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.sandbox.process import FOLDER

FAST = JudgeSettings(Limits(wall_seconds=10, cpu_seconds=4))
ACROSS = {
    "keys of a dict": ("def f(d): return d.keys()", "assert f({'a': 1}) == {'a'} and list(f({'b': 1})) == ['b']"),
    "items of a dict": ("def f(d): return d.items()", "assert f({'a': 1}) == {('a', 1)} and f({}) != []"),
    "time zone": (
        "from datetime import timedelta\ndef f(d): return (d + timedelta(days=180)).utcoffset()",
        "from datetime import datetime, timedelta\nfrom zoneinfo import ZoneInfo\n"
        "assert f(datetime(2024, 1, 1, tzinfo=ZoneInfo('Europe/Berlin'))) == timedelta(hours=2)",
    ),
    "second of two equal hours": (
        "def f(t): return t.fold",
        "from datetime import time\nassert f(time(2, fold=1)) == 1 and f(time(2)) == 0",
    ),
    "number of the attempt": (
        "class Mod:\n    def __init__(self, n): self.n = n\n    def __neg__(self): return Mod(-self.n)\n    def __abs__(self): return Mod(abs(self.n))\n"
        "    def __mul__(self, other): return Mod(self.n * other.n)\ndef f(n): return Mod(n)",
        "assert (-f(3)).n == -3 and abs(f(-3)).n == 3 and (f(2) * f(4)).n == 8",
    ),
    "text and order of the attempt": (
        "class Path:\n    def __format__(self, spec): return spec + '!'\n    def __reversed__(self): return iter([2, 1])\ndef f(): return Path()",
        "assert f'{f():x}' == 'x!' and list(reversed(f())) == [2, 1]",
    ),
    "subclass of list": (
        "class Stack(list):\n    def push(self, x): self.append(x)\n    @property\n    def top(self): return self[-1]\ndef f(): return Stack([1])",
        "s = f()\ns.push(2)\nassert s == [1, 2] and s.top == 2 and len(s) == 2 and isinstance(s, list) and type(s) is not list\n"
        "s.append(3)\nassert s.top == 3 and s[1:] == [2, 3]\nimport copy\nt = copy.deepcopy(s)\nt.append(4)\nassert s == [1, 2, 3]",
    ),
    "named tuple with a method": (
        "from typing import NamedTuple\nclass P(NamedTuple):\n    x: int\n    y: int\n    def norm(self): return self.x + self.y\ndef f(a, b): return P(a, b)",
        "p = f(1, 2)\nassert p == (1, 2) and p.norm() == 3 and p.y == 2 and p._replace(x=5).x == 5",
    ),
    "named tuple": (
        "from collections import namedtuple\nP = namedtuple('P', 'x y')\ndef f(a, b): return P(a, b)",
        "assert f(1, 2).y == 2 and f(1, 2) == (1, 2)",
    ),
    "member of an enumeration": (
        "from enum import IntEnum\nclass Color(IntEnum):\n    RED = 3\ndef f(): return Color.RED\ndef g(c): return c is Color.RED",
        "assert f() == 3 and f().name == 'RED' and g(f()) and f() + 1 == 4",
    ),
    "part of a library": (
        "from urllib.parse import urlparse\ndef f(url): return urlparse(url)",
        "assert f('http://a.b/c').hostname == 'a.b' and f('http://a.b/c').path == '/c'",
    ),
    "dict with attributes": (
        "class D(dict):\n    def __getattr__(self, name): return self[name]\ndef f(): return D(a=1)",
        "d = f()\nassert d.a == 1 and d == {'a': 1}\nd['b'] = 2\nassert d.b == 2",
    ),
    "dict with defaults": (
        "from collections import defaultdict\ndef f(): return defaultdict(list), defaultdict(lambda: 7)\ndef g(d): d[5].append(1)",
        "from collections import defaultdict\na, b = f()\nassert a[1] == [] and a == {1: []} and isinstance(b, defaultdict) and b[2] == 7 and b == {2: 7}\n"
        "c = defaultdict(list)\ng(c)\nassert c == {5: [1]} and c[6] == []",
    ),
    "seed of the tests": (
        "import random\ndef f(): return random.random()",
        "import random\nfrom random import seed\nrandom.seed(1)\na = f()\nseed(1)\nassert a == f()\nseed(1)\nassert a == random.random()",
    ),
    "deep recursion": (
        "def f(n): return n and f(n - 1) + 1",
        "import sys\nsys.setrecursionlimit(9000)\nassert f(5000) == 5000\nx = [1]\nassert f(5) == 5",
    ),
    "digits": ("def f(n): return str(10**n)", "import sys\nsys.set_int_max_str_digits(0)\nassert len(f(5000)) == 5001"),
    "threads": (
        "def f(x): return [x] * x",
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(8) as pool:\n"
        "    assert [*pool.map(f, range(200))] == [[x] * x for x in range(200)]",
    ),
    "paths, identifiers and addresses": (
        "from ipaddress import ip_address\nfrom pathlib import Path\nfrom uuid import UUID\n"
        "def f(p): return {p / 'b': [UUID(int=1), ip_address('::1')]}",
        "from ipaddress import ip_address\nfrom pathlib import Path\nfrom uuid import UUID\nd = f(Path('a'))\n"
        "assert d == {Path('a/b'): [UUID(int=1), ip_address('::1')]} and isinstance([*d][0], Path)",
    ),
    "builtin types": (
        "def f(x, kinds={int: float}): return kinds.get(x, type(x))",
        "assert f(int) is float and f(2) is int and f('') == str",
    ),
    "name that the attempt lacks": (
        "def f(g): return g(1)",
        "try: f(other)\nexcept NameError as e: assert 'other' in str(e)\nelse: assert False\nassert f(str) == '1'",
    ),
    "type of an exception": (
        "import json\ndef f(s): return json.loads(s)",
        "import json\ntry: f('{')\nexcept Exception as e: assert isinstance(e, json.JSONDecodeError)\nelse: assert False",
    ),
    "text of the attempt's type": (
        "class T(str):\n    def __str__(self): return 'shown'\ndef f(): return T('a')",
        "assert f() == 'a' and str(f()) == 'shown'",
    ),
}
WRONG = {
    "type of a list": ("class L(list): pass\ndef f(): return L([1])", "assert type(f()) is list"),
    "type of a number": ("class I(int): pass\ndef f(): return I(1)", "assert type(f()) is int"),
    "equal to all": (
        "class I(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\ndef f(): return I(1)",
        "assert f() == 2",
    ),
    "equal list": (
        "class L(list):\n    def __eq__(self, other): return True\n    def __iter__(self): return iter([2])\ndef f(): return L([1])",
        "assert f() == [2] or list(f()) == [2]",
    ),
}
IN_PROCESS = {
    "printed": (
        "def f(x): print(x)",
        "import io\nfrom contextlib import redirect_stdout\nwith redirect_stdout(io.StringIO()) as out:\n    f(3)\nassert out.getvalue() == '3\\n'",
    ),
    "stream of the tests": ("def f(): return input()", "import io, sys\nsys.stdin = io.StringIO('a\\n')\nassert f() == 'a'"),
    "patched": (
        "def f(): return input()",
        "from unittest.mock import patch\nwith patch('builtins.input', return_value='b'):\n    assert f() == 'b'",
    ),
    "environment": (
        "import os\ndef f(): return os.environ['LEVEL']",
        "import os\nos.environ['LEVEL'] = '3'\nassert f() == '3'",
    ),
    "file of the tests": (
        "def f(path): return open(path).read()",
        "with open('a.txt', 'w') as file:\n    file.write('x')\nassert f('a.txt') == 'x'",
    ),
    "temporary folder": (
        "from pathlib import Path\ndef f(path): Path(path, 'a').write_text('x')",
        "import os, tempfile\nwith tempfile.TemporaryDirectory() as folder:\n    f(folder)\n    assert os.listdir(folder) == ['a']",
    ),
    "operator in a function of the tests": (
        "class D:\n    def __pow__(self, n): return n\ndef f(g): return g(D())",
        "assert f(lambda x: x ** 2) == 2",
    ),
    "time limit of a coroutine": (
        "import asyncio\nasync def f(x): await asyncio.sleep(x)",
        "import asyncio\nasync def main():\n    try: await asyncio.wait_for(f(9), 0.01)\n    except TimeoutError: return 'late'\n"
        "assert asyncio.run(main()) == 'late'",
    ),
    "order of coroutines": (
        "import asyncio\nasync def f(x):\n    await asyncio.sleep(x)\n    return x",
        "import asyncio\nfrom asyncio import as_completed\nasync def main(): return [await one for one in as_completed([f(0.2), f(0)])]\n"
        "assert asyncio.run(main()) == [0, 0.2]",
    ),
    "warning": (
        "import warnings\ndef f(): warnings.warn('old')",
        "import warnings\nwith warnings.catch_warnings(record=True) as seen:\n    warnings.simplefilter('always')\n    f()\nassert len(seen) == 1",
    ),
}
IN_PROCESS |= {
    name: (f"{given}\ndef f(): {body}", f"{given}\n{test}")
    for name, given, body, test in (
        ("replaced builtin", "import builtins", "return input()", "builtins.input = lambda: 'a'\nassert f() == 'a'"),
        ("set builtin", "import builtins", "return input()", "setattr(builtins, 'input', lambda: 'a')\nassert f() == 'a'"),
        ("replaced function", "import time", "return time.sleep(99)", "time.sleep = lambda _: None\nassert f() is None"),
        ("replaced module", "import sys", "import m; return m", "sys.modules['m'] = 3\nassert f() == 3"),
        ("precision", "from decimal import *", "return Decimal(1) / 3", "getcontext().prec = 2\nassert str(f()) == '0.33'"),
        (
            "warning as an error",
            "import warnings",
            "warnings.warn('old')",
            "warnings.simplefilter('error')\ntry: f()\nexcept UserWarning: pass\nelse: assert False",
        ),
        (
            "log",
            "import logging",
            "logging.getLogger('a').warning('b')",
            "class H(logging.Handler):\n    def emit(self, record): seen.append(record.msg)\nseen = []\n"
            "logging.getLogger('a').addHandler(H())\nf()\nassert seen == ['b']",
        ),
        ("file to append to", "", "open('a', 'a').write('y')", "with open('a', mode='w') as file: file.write('x')\nf()"),
        ("text to append to", "from pathlib import Path", "open('a', 'a').write('y')", "Path('a').write_text('x')\nf()"),
        ("file to remove", "import os", "open('a', 'w').write('y')", "f()\nos.remove('a')"),
        ("signature", "from inspect import signature", "pass", "assert not signature(f).parameters"),
        ("type of an object", "import re", "return re.compile('a')", "assert isinstance(f(), re.Pattern)"),
        ("type of a class", "", "return type('A', (), {})", "assert isinstance(f(), type)"),
        ("object", "from types import SimpleNamespace as N", "return N(a=1)", "assert f() == N(a=1)"),
        (
            "processes",
            "from multiprocessing import Pool",
            "return 1",
            "with Pool(1) as pool: assert pool.apply(f) == 1",
        ),
    )
}


@pytest.mark.parametrize(
    ("code", "test", "label"),
    [
        pytest.param(code, test, label, id=name)
        for label, cases in (("across", ACROSS), ("in_process", IN_PROCESS))
        for name, (code, test) in cases.items()
    ],
)
def test_honest_programs_pass(code, test, label):
    verdict = judge(Task("t", "", (TestCase(TestKind.CODE, test),)), Attempt("t", code), FAST)
    assert (verdict.status, verdict.isolation.split(",")[-1].strip()) == (Status.PASSED, label), verdict.error_message


@pytest.mark.parametrize(
    ("code", "test"),
    [
        ("class D:\n    def __pow__(self, n): return self\ndef f(g): return g(D())", "assert f(lambda x: x ** 2) == 4"),
        ("class D:\n    def __eq__(self, other): return True\ndef f(): return D()", "assert f() == 2"),
    ],
)
def test_an_object_that_met_a_value_of_the_tests_is_named(code, test):
    verdict = judge(Task("t", "", (TestCase(TestKind.CODE, test),)), Attempt("t", code), FAST)
    assert verdict.status in (Status.FAILED, Status.RUNTIME_ERROR)
    assert "the attempt's own D was compared or combined with a value of the tests" in verdict.error_message


@pytest.mark.parametrize("name", WRONG)
def test_a_subclass_does_not_decide(name):
    code, test = WRONG[name]
    assert judge(Task("t", "", (TestCase(TestKind.CODE, test),)), Attempt("t", code), FAST).status is Status.FAILED


def test_a_reference_that_passes_across_processes_isolates_the_tests():
    test = "import os\nos.environ['LEVEL'] = '3'\nassert f(2) == 4"
    task = Task("t", "", (TestCase(TestKind.CODE, test),), reference="def f(x): return x * x")
    assert judge(task, Attempt("t", "def f(x): return x + x"), FAST).isolation.endswith("across")


@pytest.mark.parametrize(
    ("code", "test"),
    [
        (
            "class Context:\n    def __enter__(self): return 4\n    def __exit__(self, *_): return True\ndef f(): return Context()",
            "with f() as x:\n    assert x == 5",
        ),
        (
            "class Context:\n    async def __aenter__(self): return 4\n    async def __aexit__(self, *_): return True\n"
            "def f(): return Context()",
            "import asyncio\nasync def main():\n    async with f() as x:\n        assert x == 5\nasyncio.run(main())",
        ),
    ],
)
def test_a_context_of_the_attempt_suppresses_no_failed_assertion(code, test):
    verdict = judge(Task("t", "", (TestCase(TestKind.CODE, test),)), Attempt("t", code), FAST)
    assert verdict.status is Status.FAILED and verdict.isolation.endswith(",across"), verdict


@pytest.mark.parametrize(
    ("code", "test"),
    [
        (
            "from contextlib import contextmanager\n@contextmanager\ndef f(kind):\n    try: yield\n    except kind: pass",
            "with f(KeyError):\n    raise KeyError",
        ),
        (
            "def f(x):\n    try: int(x)\n    except ValueError as e: raise KeyError from e",
            "try: f('x')\nexcept KeyError as e: assert isinstance(e.__cause__, ValueError)\nelse: assert False",
        ),
        ("def f():\n    try: yield 1\n    except ValueError: yield 2", "g = f()\nnext(g)\nassert g.throw(ValueError()) == 2"),
        (
            "def f(): raise ExceptionGroup('', [ValueError(1)])",
            "try: f()\nexcept* ValueError as e: assert len(e.exceptions) == 1",
        ),
    ],
)
def test_tests_that_watch_the_way_of_an_exception_run_beside_the_attempt(code, test):
    verdict = judge(Task("t", "", (TestCase(TestKind.CODE, test),)), Attempt("t", code), FAST)
    assert verdict.status is Status.PASSED and verdict.isolation.endswith(",in_process"), verdict


def test_a_package_that_tests_import_and_the_task_does_not_name_is_the_tasks_fault():
    test = TestCase(TestKind.CODE, "import absent_package\nassert f(2) == 4")
    verdict = judge(Task("t", "", (test,)), Attempt("t", "def f(x): return x * x"), FAST)
    assert (verdict.status, verdict.error_message) == (
        Status.UNSCORED,
        "task t: test 1 imports absent_package: name it in the task's requires",
    )


def test_a_package_that_a_program_imports_and_the_task_does_not_name_is_explained():
    verdict = judge(Task("t", "", (TestCase(TestKind.CALL, "f(2)", "4"),)), Attempt("t", "import absent_package"), FAST)
    assert verdict.error_message.startswith("No module named 'absent_package' (beside the standard library")


@pytest.mark.parametrize("name", ["os.system", "builtins.exec", "pathlib.os", "type"])
def test_text_makes_no_other_values(name, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    with pytest.raises(ValueError, match="unknown type"):
        importlib.import_module("texts").decode_copied(name, "exec")


@pytest.mark.parametrize(
    ("test", "beside"),
    [
        ("import pandas as pd\npd.testing.assert_frame_equal(f(), pd.DataFrame())", True),
        ("from sympy import symbols\nassert f(2) == symbols('x')", True),
        ("import pandas\nassert f(2) == 4", False),
        ("import numpy as np\nassert np.allclose(f(2), 4)", False),
    ],
)
def test_objects_of_pandas_and_sympy_are_compared_beside_the_attempt(test, beside):
    assert changes_process(Task("t", "", (TestCase(TestKind.CODE, test),))) is beside


AGREES = {
    "always": "return True",
    "itself": "return self",
    "other": "return other",
    "text": "return 'yes'",
    "zero": "return 0",
    "once": "self.asked = getattr(self, 'asked', 0) + 1; return self.asked == 1",
    "extremes": "return other < 10**20",
}
"""Bodies of operators that agree with values they do not know."""
DECIDED = (
    *("f(2) == 4", "4 == f(2)", "not f(2) != 4", "f(2) in [4]", "{'a': f(2)} == {'a': 4}", "f(2) == 'four'", "f(2) == [4, 5]"),
    *("f(2) == {4}", "f(2) == True", "f(2) == None", "abs(f(2) - 4) < 1e-9", "4.5 - f(2) == 0", "divmod(f(2), 4) == (1, 0)"),
    *("f(2) / 4 == 1", "not f(2) % 4", "f(2) // 4 == 1", "not f(2) ^ 4", "f(2) & 4 == 4", "(lambda x: 3.9 < x < 4.1)(f(2))"),
)
"""Tests that an operator of the attempt could decide."""


@pytest.mark.parametrize("base", ["", "(int)"])
@pytest.mark.parametrize("body", AGREES)
def test_no_object_agrees_with_the_expected_value(base, body):
    names = "eq ne lt le gt ge sub rsub truediv floordiv mod divmod and or xor isub".split()  # noqa: SIM905
    methods = "".join(f"    def __{name}__(self, other): {AGREES[body]}\n" for name in names)
    attempt = Attempt("t", f"class A{base}:\n{methods}    __hash__ = None\ndef f(x): return A({'9' if base else ''})\n")
    tasks = [Task("t", "", (TestCase(TestKind.CODE, f"assert {test}"),), "f") for test in DECIDED]
    found = judge_all([(task, attempt) for task in tasks], FAST)
    assert [test for test, one in zip(DECIDED, found, strict=True) if one.status is Status.PASSED] == []


@pytest.mark.parametrize("base", ["", "(float)", "(int)"])
@pytest.mark.parametrize(
    "test",
    [
        "assert f(2) & {4} == {4}",
        "assert {4} | f(2) == {4}",
        "assert abs(f(2) - 4.5) < 1e-9",
        "assert 4.5 - f(2) == 0",
        "assert f(2) / 4.5 == 1",
        "assert not f(2) % 4",
    ],
)
def test_no_object_says_how_far_it_is_from_the_expected_value(base, test):
    answers = "".join(f"    def __{name}__(self, other): return 0\n" for name in ("sub", "rsub", "mod", "add", "radd"))
    answers += "".join(f"    def __{name}__(self, other): return other\n" for name in ("and", "ror"))
    code = f"class Near{base}:\n{answers}    def __truediv__(self, other): return 1\ndef f(x): return Near({'1' if base else ''})\n"
    tests = (TestCase(TestKind.CODE, "assert f(2) + 1 == 0"), TestCase(TestKind.CODE, test))
    verdict = judge(Task("t", "", tests, "f"), Attempt("t", code))
    assert verdict.status is not Status.PASSED and verdict.passed <= 1
