"""Arguments of CALL tests: each test has its own, as if every test were run in an interpreter of its own."""

# pyright: basic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.judge.plans import judge, judge_all


def calls(*pairs):
    return Task("t", "", tuple(TestCase(TestKind.CALL, call, expected) for call, expected in pairs), "f")


@pytest.mark.parametrize(
    ("call", "expected", "body"),
    [
        ("f([1])", "[1, 2]", "x.append(2); return x"),
        ("f({'a': [1]})", "{'a': [1, 2]}", "x['a'].append(2); return x"),
        ("f({1})", "{1, 2}", "x.add(2); return x"),
        ("f(([1],))", "([1, 2],)", "x[0].append(2); return x"),
        ("f([[1], [1]])", "[[1, 2], [1]]", "x[0].append(2); return x"),
        ("f([1], [1])", "[[1, 2], [1]]", "x.append(2); return [x, *more]"),
        ("f(list([1]))", "[1, 2]", "x.append(2); return x"),
    ],
)
def test_equal_tests_of_one_task_and_of_the_next_attempt_have_equal_outcomes(call, expected, body):
    code = f"def f(x, *more):\n    {body}\n"
    for verdict in judge_all([(calls(*[(call, expected)] * 3), Attempt("t", code))] * 2):
        assert verdict.outcomes == (Status.PASSED,) * 3, verdict


def test_a_test_with_the_arguments_of_an_earlier_one_inside():
    assert (
        judge(
            calls(("f([1])", "[1, 2]"), ("f([[1]])", "[[1], 2]")), Attempt("t", "def f(x):\n    x.append(2); return x")
        ).passed
        == 2
    )


values = st.recursive(
    st.integers(-3, 3) | st.text(max_size=2) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.integers(0, 3), inner, max_size=2),
    max_leaves=6,
)
SPOIL = """
def spoil(x):
    for part in x.values() if isinstance(x, dict) else x if isinstance(x, list) else ():
        spoil(part)
    if isinstance(x, list):
        x.append(len(x))
    if isinstance(x, dict):
        x["new"] = len(x)
    return x

def f(*args):
    return [spoil(x) for x in args]
"""


@given(st.lists(st.lists(values, min_size=1, max_size=2), min_size=1, max_size=4))
@settings(max_examples=25)
def test_outcomes_do_not_depend_on_earlier_tests(arguments):
    """The same tests twice: a function that changes all that it is given returns the same values both times."""
    space = {}
    exec(SPOIL, space)
    sources = [", ".join(map(repr, args)) for args in arguments]
    pairs = [(f"f({source})", repr(space["f"](*args))) for source, args in zip(sources, arguments, strict=True)]
    verdict = judge(calls(*pairs, *pairs), Attempt("t", SPOIL))
    assert verdict.outcomes == (Status.PASSED,) * (2 * len(pairs)), verdict
