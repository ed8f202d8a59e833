"""Proxies for values of the attempt that are not plain data; they equal no value of a test."""

import math

import pytest

from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.judge.compare import answers
from upsolve.verify.judge.plans import judge
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.sandbox.inside import values

FAST = JudgeSettings(Limits(wall_seconds=5, cpu_seconds=2))
ANY = """
class Any:
    def always(self, *_, **__): return True
    def same(self, *_): return self
    __eq__ = __ne__ = __lt__ = __gt__ = __le__ = __ge__ = __contains__ = __bool__ = always
    __sub__ = __rsub__ = __add__ = __abs__ = __round__ = __neg__ = __pos__ = same
    def __getitem__(self, place):
        if place: raise IndexError
        return self
    def __hash__(self): return hash(4)
    def __float__(self): return 5.0  # a number that an object gives is compared like one that a function returns
    def __len__(self): return 1
    def __str__(self): return Text()
    def __int__(self): return 4
class Text(str):
    def __eq__(self, other): return True
    __hash__ = str.__hash__
int = float = Any
def f(x): return Any()
def g(x):
    yield Any()
def skip(x):
    import unittest
    raise unittest.SkipTest('never mind')
def leave(x): raise GeneratorExit
"""
SUITE = """
import io, unittest
class T(unittest.TestCase):
    def test(self):
        self.assertEqual(skip(2), 4)
result = unittest.TextTestRunner(stream=io.StringIO()).run(unittest.defaultTestLoader.loadTestsFromTestCase(T))
assert result.wasSuccessful() and not result.skipped
"""


@pytest.mark.parametrize(
    "test",
    [
        "assert f(2) == 4",
        "assert 4 == f(2)",
        "assert not f(2) != 4",
        "assert abs(f(2) - 4.0) < 1e-9",
        "assert f(2) > 3",
        "assert 3 < f(2)",
        "assert 4 in f(2)",
        "assert f(2) in [4]",
        "assert [f(2)] == [4]",
        "assert {f(2)} == {4}",
        "assert {4: 1}[f(2)]",
        "assert (f(2), 1) == (4, 1)",
        "assert list(g(2)) == [4]",
        "assert next(g(2)) == 4",
        "assert round(f(2), 1) == 4",
        "assert str(f(2)) == '4'",
        "assert float(f(2)) == 4",
        "assert f(2)[0] == 4",
        "assert isinstance(f(2), (int, float))",
        "import math\nassert math.isclose(f(2), 4)",
        "import math\nassert math.floor(f(2)) == 4",
        "from decimal import Decimal\nassert f(2) == Decimal(4)",
        "from unittest.mock import call\nassert call(f(2)) == call(4)",
        "assert all(value == 4 for value in [f(2)])",
        "assert sum(1 for value in g(2) if value == 4) == 1",
        "assert max(f(2), 3) == 4",
        "assert sorted([f(2), 5]) == [4, 5]",
        "assert leave(2) == 4",
        SUITE,
    ],
)
def test_an_object_that_agrees_with_everything_agrees_with_no_test(test):
    verdict = judge(Task("t", "", (TestCase(TestKind.CODE, test),)), Attempt("t", ANY), FAST)
    assert verdict.status in (Status.FAILED, Status.RUNTIME_ERROR), verdict
    assert verdict.isolation.endswith(",across")


def test_a_stop_iteration_of_an_attempts_own_iterator_only_ends_that_iterator():
    code = "class Stop(StopIteration): pass\ndef f(x): raise Stop(x)\n"
    test = "assert [got for got in map(f, [1, 2])] == []"
    assert judge(Task("t", "", (TestCase(TestKind.CODE, test),)), Attempt("t", code), FAST).status is Status.RUNTIME_ERROR


@pytest.mark.parametrize(
    ("data", "expected", "right"),
    [
        (["Decimal", "4.0"], "4", True),
        (["Decimal", "0.5"], "0.5", True),
        (["Decimal", "0.1"], "0.1", False),  # 0.1 is no decimal fraction in binary: Decimal('0.1') != 0.1 in Python too
        (["Decimal", "12345678901234567890"], "12345678901234567890", True),
        (["Decimal", "NaN"], "nan", False),
        (["Decimal", "sNaN"], "4", False),
        (["Decimal", "Infinity"], "inf", True),
        (["Decimal", "1E+999999999999"], "1e999", False),
        (["Decimal", "1" * 20_000], "1", False),
        (["Decimal", "x"], "4", False),
        (["Decimal", 4], "4", False),
        (["Fraction", "8", "2"], "4", True),
        (["Fraction", "1", "4"], "0.25", True),
        (["Fraction", "1", "3"], "0.3333333333333333", False),
        (["Fraction", "1", "0"], "4", False),
        (["Counter", ["a", 1]], "{'a': 1}", True),
        (["named", "P", ["x"], 4], "(4,)", True),
        (["frozenset", 4], "{4}", True),
        (["range", 0, 3, 1], "[0, 1, 2]", False),
        (["deque", None, 4], "[4]", False),
        (["remote", 0, ["int", ["__eq__"]]], "4", False),
        (["bytearray", "41"], "b'A'", True),
        ({"int": 4}, "4", False),
    ],
)
def test_what_equals_a_literal(data, expected, right):
    assert answers(data, expected, "lines") is right


@pytest.mark.parametrize(
    "value",
    [
        1,
        -(2**53),
        2**53,
        10**400,
        0.1,
        -0.0,
        math.inf,
        1j,
        "a\ud800\0",
        b"x",
        None,
        True,
        [],
        (1, [2, {"a": {3}}]),
        range(1, 9, 2),
    ],
)
def test_values_are_read_as_they_were_written(value):
    import json

    read = values.value_of(json.loads(values.plain(value)))
    assert (repr(read), type(read)) == (repr(value), type(value))
