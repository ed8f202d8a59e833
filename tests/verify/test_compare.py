import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upsolve.verify.judge.compare import decode, equal, lines_match, literal, tokens_match
from upsolve.verify.sandbox.values import plain


def shown(value):
    return json.loads(plain(value))


leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
hashable = st.recursive(leaves, lambda x: st.tuples(x, x) | st.frozensets(x, max_size=3), max_leaves=4)
values = st.recursive(
    leaves, lambda x: st.lists(x, max_size=4) | st.dictionaries(hashable, x, max_size=4) | st.tuples(x), max_leaves=12
)


@given(values)
def test_what_crosses_the_border_is_equal_to_itself(value):
    assert equal(decode(shown(value)), value)


@given(values, values)
def test_equality_is_pythons(left, right):
    assert equal(decode(shown(left)), right) == (left == right)


class Liar:
    def __eq__(self, other):
        return True


class LyingInt(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


def test_objects_with_their_own_equality_are_opaque_or_plain():
    assert not equal(decode(shown(Liar())), 3)
    assert not equal(decode(shown(LyingInt(4))), 3)
    assert equal(decode(shown(LyingInt(4))), 4)
    assert not equal(decode(shown([Liar()])), [3])


@pytest.mark.parametrize("forged", [["int"], ["int", "x"], ["nope", 1], {"a": 1}, [[]], ["dict", 3], "text", 7, ["float", []]])
def test_forged_records_equal_nothing(forged):
    assert not any(equal(decode(forged), value) for value in (0, "", [], {}, None, float("nan")))


def test_nan_equals_nothing_and_signed_zeros_are_equal():
    assert not equal(decode(shown(float("nan"))), float("nan"))
    assert equal(decode(shown(-0.0)), 0.0)


def test_literals():
    assert literal("set()") == set()
    assert literal("-inf") == float("-inf")
    with pytest.raises(ValueError, match="literal"):
        literal("open('x')")


def test_lines_want_all_lines():
    assert lines_match("1\n2 \n\n", "1\n2\n")
    assert not lines_match("1\n", "1\n2\n")
    assert not lines_match("1\n2\n3\n", "1\n2\n")
    assert not lines_match("1 2", "12")
    assert tokens_match("1\n2", " 1 2 ")
