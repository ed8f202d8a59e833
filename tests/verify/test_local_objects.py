# pyright: basic
"""Functions, iterators and files of the tests in the hands of a hostile attempt: it can use them as such and in no other way."""

import pytest

from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.judge.plans import judge
from upsolve.verify.limits import JudgeSettings, Limits

FAST = JudgeSettings(Limits(wall_seconds=5, cpu_seconds=2))
RAW = """
import json, os
def send(message):
    os.write(3, (message if isinstance(message, bytes) else json.dumps(message).encode()) + b'\\n')
def receive():
    size = int.from_bytes(os.read(4, 8), 'little')
    return os.read(4, size)
def ask(number, do, *args):
    send({'ask': number, 'do': do, 'args': ['list', *args], 'named': ['dict']})
    return receive()
"""
ANY = """
class Any:
    def same(self, *_): return self
    def yes(self, *_): return True
    __eq__ = __ne__ = __lt__ = __gt__ = __le__ = __ge__ = __contains__ = yes
    __add__ = __radd__ = __mul__ = __rmul__ = __mod__ = __rmod__ = same
    def __hash__(self): return hash(4)
    def __int__(self): return 4
    __index__ = __int__
"""


def judged(test, code, settings=FAST):
    return judge(Task("t", "", (TestCase(TestKind.CODE, test),), "f"), Attempt("t", code), settings)


@pytest.mark.parametrize(
    "do", ["__globals__", "__getattribute__", "__code__", "getattr", "str", "next", "__class__", "", 7, None, ["call"]]
)
def test_an_exposed_function_can_be_called_and_nothing_else(do):
    code = RAW + f"def f(g):\n    said = ask(0, {do!r}, '__globals__')\n    return 6765 if b'error' in said else said\n"
    verdict = judged("answer = 6765\nassert f(lambda x: x + 1) == answer", code)
    assert verdict.status is Status.PASSED, verdict  # here 6765 says that the request was refused


@pytest.mark.parametrize("number", [1, -2, 10**9, "x", None, [], 0.5j.imag])
def test_only_exposed_objects_have_numbers(number):
    code = (
        RAW
        + f"def f(g):\n    send({{'value': ['exposed', {number!r}, ['name', 'builtins', 'len']]}})\n    receive()\n    return 1\n"
    )
    verdict = judged("got = f(lambda: 0)\nassert not callable(got) or got() == 0", code)
    assert verdict.isolation.endswith(",across") and verdict.status in (Status.PASSED, Status.RUNTIME_ERROR)


@pytest.mark.parametrize(
    "test",
    [
        "seen = []\nf(seen.append)\nassert seen == [4]",
        "seen = []\nf(lambda x: seen.append(x))\nassert seen == [4]",
        "assert f(lambda x: x == 4) is True",
        "assert f(lambda x: x + 1 == 5) is True",
        "assert f({4: 'right'}.get) == 'right'",
        "assert f([4].__contains__) is True",
        "seen = set()\nf(seen.add)\nassert 4 in seen",
        "import io\nout = io.StringIO()\nf(out.write if hasattr(out.write, 'x') else lambda x: out.write(str(x)))\nassert out.getvalue() == '4'",
    ],
)
def test_an_object_that_agrees_with_everything_agrees_with_no_function_of_the_tests(test):
    verdict = judged(test, ANY + "def f(g):\n    return g(Any())\n")
    assert verdict.status in (Status.FAILED, Status.RUNTIME_ERROR) and "across" in verdict.isolation.split(","), verdict
    assert judged(test, "def f(g):\n    return g(4)\n").status is Status.PASSED


@pytest.mark.parametrize(
    "test",
    [
        "assert f(lambda o, name: getattr(o, name))",
        "look = getattr\nassert f(lambda o, name: look(o, name))",
        "def look(o, name): return getattr(o, name)\nassert f(lambda o, name: look(o, name))",
        "def make():\n    look = getattr\n    return lambda o, name: look(o, name)\nassert f(make())",
        "class Look:\n    def __call__(self, o, name): return getattr(o, name)\nassert f(lambda o, name: Look()(o, name))",
        "from operator import attrgetter\nassert f(lambda o, name: attrgetter(name)(o))",
        "assert f(lambda o, name: [open(name, o)])",
        "import os\nassert f(lambda o, name: os.write(o, name))",
        "from functools import partial\nassert f(partial(getattr))",
        "assert f(lambda o, name: type(o).__getattribute__(o, name))",
        "import builtins\nassert f(lambda o, name: builtins.getattr(o, name))",
        "class User:\n    def __init__(self): pass\nassert f(lambda text: text.format(User()))",
    ],
)
def test_functions_that_could_reach_the_tests_are_not_exposed(test):
    verdict = judged(test, "def f(g):\n    return True\n")
    assert verdict.status is Status.PASSED and verdict.isolation.endswith(",in_process"), verdict


@pytest.mark.parametrize(
    "setup",
    [
        "def g(s): return eval(s)",
        "e = eval\ndef g(s): return e(s)",
        "import builtins\ndef g(s): return builtins.eval(s)",
        "def g(s): return globals()[s]",
        "def g(s): return vars()[s]",
        "from os import system\ndef g(s): return system(s)",
        "def g(s):\n    import os as o\n    return o.system(s)",
        "def g(s):\n    from os import system\n    return system(s)",
        "import pickle as p\ndef g(s): return p.loads(s)",
        "def helper(s): return exec(s)\ndef g(s): return helper(s)",
        "def g(s): return __import__(s)",
        "from functools import reduce\ndef g(s): return reduce(getattr, s)",
        "class H:\n    def run(self, s): return eval(s)\nh = H\ndef g(s): return h().run(s)",
    ],
)
def test_functions_of_the_setup_that_turn_data_into_power_are_not_exposed(setup):
    task = Task("t", "", (TestCase(TestKind.CODE, "assert f(g) == 3"),), "f", setup=setup)
    verdict = judge(task, Attempt("t", "def f(g):\n    return 3\n"), FAST)
    assert "across" not in verdict.isolation.split(","), verdict


@pytest.mark.parametrize(
    "setup",
    [
        "import math\ndef g(s): return math.floor(s) + len(str(s))",
        "from functools import cmp_to_key\ndef g(s): return sorted(s, key=cmp_to_key(lambda a, b: a - b))",
        "import re\ndef g(s): return re.sub('a', 'b', s.strip().lower())",
        "def g(s):\n    from collections import Counter\n    return Counter(s).most_common()",
        "class E(ValueError): pass\ndef g(s):\n    if not s: raise E('empty')\n    return isinstance(s, Exception)",
    ],
)
def test_common_functions_of_the_setup_are_exposed(setup):
    task = Task("t", "", (TestCase(TestKind.CODE, "assert f(g) == 3"),), "f", setup=setup)
    verdict = judge(task, Attempt("t", "def f(g):\n    return 3\n"), FAST)
    assert verdict.status is Status.PASSED and "across" in verdict.isolation.split(","), verdict


def test_an_attempt_cannot_choose_to_be_judged_beside_its_tests():
    code = "def f(g):\n    try:\n        return g(True)\n    except TypeError:\n        return 4\n"
    verdict = judged("class P:\n    pass\nassert f(lambda odd: P() if odd else 0) == 4", code)
    assert verdict.status is Status.PASSED and "across" in verdict.isolation.split(","), verdict


@pytest.mark.parametrize(
    ("test", "code"),
    [
        ("assert [got for got in map(f, [lambda: next(iter([]))])] == []", "def f(g):\n    return g()\n"),
        ("assert list(map(f, [iter([])])) == []", "def f(it):\n    return next(it)\n"),
        (
            "assert f(lambda: 1 / 0) == 1",
            "class E(Exception): pass\ndef f(g):\n    e = E()\n    e._lent_error = -1\n    raise e\n",
        ),
        (
            "assert f(lambda: 1) == 1",
            "class E(Exception): pass\ndef f(g):\n    e = E()\n    e._lent_error = 10 ** 30\n    raise e\n",
        ),
        ("assert f(lambda: exit(0)) == 1", "def f(g):\n    return g()\n"),
        ("def g(): assert False\nf(g)", "def f(g):\n    return g()\n"),
    ],
)
def test_exceptions_of_exposed_functions_end_no_test_without_an_error(test, code):
    verdict = judged(test, code)
    assert verdict.status in (Status.FAILED, Status.RUNTIME_ERROR) and "across" in verdict.isolation.split(","), verdict


@pytest.mark.parametrize(
    ("test", "code", "statuses"),
    [
        ("assert f(lambda: 0) == 1", "def f(g):\n    while True: g()\n", ["timeout"]),
        pytest.param("assert f(lambda: iter([])) == 1", "def f(g):\n    while True: g()\n", ["timeout", "runtime_error"], marks=pytest.mark.slow),
        ("import itertools\nassert f(itertools.count()) == 1", "def f(it):\n    return list(it)\n", ["timeout", "memory_limit"]),
        pytest.param("assert f(lambda n: 'x' * n) == 1", "def f(g):\n    return g(1 << 40)\n", ["memory_limit", "runtime_error"], marks=pytest.mark.slow),
        ("assert f(lambda n: 10 ** n) == 1", "def f(g):\n    return g(10 ** 9)\n", ["timeout"]),
        ("assert f(lambda x: f(lambda y: x)) == 1", "def f(g):\n    return g(g)\n", ["failed"]),
        ("assert f(lambda: 0) == 1", RAW + "def f(g):\n    send(b'[' * (100 << 20))\n", ["runtime_error", "memory_limit"]),
        pytest.param("assert f(lambda: 0) == 1", RAW + "def f(g):\n    while True: send(b'{\"ask\": 0}')\n", ["timeout", "runtime_error"], marks=pytest.mark.slow),
        pytest.param("def g(): raise ValueError('x' * 10 ** 6)\nassert f(g) == 1", "def f(g):\n    while True:\n        try: g()\n        except ValueError: pass\n", ["timeout"], marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_work_on_exposed_objects_is_bounded(test, code, statuses):
    cpu = 0.4 if "timeout" in statuses else 2  # what has to end by itself may take a slow machine a second
    verdict = judged(test, code, JudgeSettings(Limits(wall_seconds=1.5, cpu_seconds=cpu)))
    assert verdict.status.value in statuses and "across" in verdict.isolation.split(","), verdict


def test_threads_and_processes_that_stay_cannot_use_remote_objects():
    code = """
import os, sys, threading, time
said = []
def later(g):
    while in_f(): time.sleep(0.01)
    time.sleep(0.1)
    try: said.append(g())
    except RuntimeError as error: said.append('refused')
    open('/tmp/said', 'w').close()
def in_f():
    frame = sys._current_frames()[threading.main_thread().ident]
    while frame and frame.f_code is not f.__code__: frame = frame.f_back
    return frame is not None
def f(g):
    threading.Thread(target=later, args=(g,)).start()
    pid = os.fork()
    if not pid:
        try: g()
        except RuntimeError: os._exit(7)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
def result():
    return said
"""
    test = "import os, time\ncalls = []\nassert f(lambda: calls.append(1)) == 7\nwhile not os.path.exists('/tmp/said'): time.sleep(0.01)\nassert result() == ['refused'] and calls == []"
    verdict = judged(test, code)
    assert verdict.status is Status.PASSED and "across" in verdict.isolation.split(","), verdict


def test_deep_recursion_between_tests_and_attempt():
    test = "def g(n):\n    return n if n == 0 else f(g, n - 1) + 1\nassert g(60) == 60"
    assert judged(test, "def f(g, n):\n    return g(n)\n").status is Status.PASSED
    verdict = judged(test.replace("60", "5000"), "def f(g, n):\n    return g(n)\n")
    assert (verdict.status, verdict.error_type) == (Status.RUNTIME_ERROR, "RecursionError")
