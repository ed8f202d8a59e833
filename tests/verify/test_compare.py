import json
import time
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upsolve.verify.judge.compare import (
    MOST_CHARACTERS,
    Pairs,
    Tolerance,
    answers,
    as_literal,
    close,
    decode,
    equal,
    integer,
    literal,
    memo,
    tolerance_of,
    with_short_integers,
)
from upsolve.verify.judge.compare import shown as displayed
from upsolve.verify.judge.outputs import (
    apps_match,
    floats_match,
    lines_match,
    livecodebench_match,
    output_matches,
    tokens_match,
)
from upsolve.verify.sandbox.inside.values import plain


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


@pytest.mark.parametrize(
    ("got", "expected", "same"),
    [
        ({1: 2}, {3: 2}, False),
        ({1: 2}, {1: 3}, False),
        (1 + 2j, 1 + 2j, True),
        (1 + 2j, 3 + 2j, False),
        (1 + 2j, 1 + 3j, False),
        (1 + 0j, 1, True),
        (Decimal("2"), 2, True),
        (Decimal("0.5"), 0.5, True),
        (Decimal("0.1"), 0.1, False),  # 0.1 is not a float
        (Decimal("Infinity"), float("inf"), True),
        (Decimal("NaN"), float("nan"), False),
        (Decimal("1e400"), 10**400, True),
        (Decimal("1e401"), 10**401, False),  # too long to compare
        (Fraction(4, 2), 2, True),
        (Fraction(1, 2), 0.5, True),
        (Fraction(1, 3), 1 / 3, False),
    ],
)
def test_equality_by_hand(got, expected, same):
    assert equal(decode(shown(got)), expected) is same


def test_close_takes_any_value_for_any_other():
    tolerance = tolerance_of("floats")
    for got, expected in ((5, {}), ([], {}), (5, {"a": 1.0}), ([("a", 1.0)], {"a": 1.0}), (5, {1.0}), (5, [1.0]), (None, 1.0)):
        assert close(got, expected, tolerance) is False
    assert close(Pairs([("a", 1.0)]), {"a": 1.0}, tolerance)
    assert not close(Pairs([("a", 1.0), ("a", 1.0)]), {"a": 1.0}, tolerance)


def test_members_of_sets_are_compared_in_order():
    letters = [*"abcdefghijkl"]
    assert answers(["set", *letters], repr({*letters}), "floats")
    assert not answers(["set", *letters], repr({*letters[1:], "m"}), "floats")


@pytest.mark.parametrize(
    "compare",
    ["floats:1_0", "floats:x", "floats:inf", "floats:0", "floats:0:0", "floats:-1:1", "floats:1:1:1", "wrong:1", "wrong"],
)
def test_a_wrong_tolerance_is_refused(compare):
    with pytest.raises(ValueError, match=r"compare must be .*floats:TOLERANCE or floats:ABSOLUTE:RELATIVE"):
        tolerance_of(compare)


@pytest.mark.parametrize("name", ["floats", "item", "rows", "rows_in_order"])
def test_tolerances_by_name(name):
    assert tolerance_of(name) == Tolerance(1e-6) and tolerance_of(f"{name}:0.5") == Tolerance(0.5)
    assert tolerance_of(f"{name}:0:.25") == Tolerance(0.0, 0.25)


def test_nan_equals_nothing_and_signed_zeros_are_equal():
    assert not equal(decode(shown(float("nan"))), float("nan"))
    assert equal(decode(shown(-0.0)), 0.0)


def test_literals():
    assert literal("set()") == set()
    assert literal("-inf") == float("-inf")
    assert literal("[inf, {'a': -inf}, set([1])]") == [float("inf"), {"a": float("-inf")}, {1}]
    assert literal("{frozenset({1, 2}), frozenset(), frozenset((3,))}") == {frozenset({1, 2}), frozenset(), frozenset({3})}
    for wrong in ("set(x)", "frozenset(1)", "[f()]", "{**{}}", "float(x)", "inf()", "-set()"):
        with pytest.raises(ValueError, match="is not a Python literal"):
            literal(wrong)
    with pytest.raises(ValueError, match="literal"):
        literal("open('x')")


def test_lines_want_all_lines():
    assert lines_match("1\n2 \n\n", "1\n2\n")
    assert not lines_match("1\n", "1\n2\n")
    assert not lines_match("1\n2\n3\n", "1\n2\n")
    assert not lines_match("1 2", "12")
    assert tokens_match("1\n2", " 1 2 ")


@pytest.mark.parametrize(
    ("value", "expected", "compare", "same"),
    [
        (10**400, "1.5", "floats", False),  # beyond the range of floats
        (10**400, "10" + "0" * 399, "floats", True),
        (100000050, "100000000", "floats", False),  # two integers are equal or not
        (100000050.0, "100000000.0", "floats", True),  # 5e-7 of the expected value
        (100000150.0, "100000000.0", "floats", False),
        (5.0, "inf", "floats", False),
        (float("inf"), "inf", "floats", True),
        (True, "1.0", "floats", True),
        ("1.0", "1.0", "floats", False),
        ({"a": 0.1 + 0.2}, "{'a': 0.3}", "floats", True),
        ({"a": 0.1 + 0.2}, "{'a': 0.3}", "lines", False),
        ({"a": 0.31}, "{'a': 0.3}", "floats", False),
        ({"b": 0.3}, "{'a': 0.3}", "floats", False),
        ({0.1 + 0.2, 5}, "{5, 0.3}", "floats", True),
        ({(0.1 + 0.2, "x"), "y"}, "{'y', (0.3, 'x')}", "floats", True),
        ({0.4, 5}, "{5, 0.3}", "floats", False),
        ({0.3}, "{0.3, 5}", "floats", False),
        ({float("nan")}, "{0.3}", "floats", False),
        (complex(1, 2.0000001), "(1+2j)", "floats", True),
        (1000.15, "1000.0", "floats:1e-4", False),  # 1e-4 * 1000 = 0.1 is allowed
        (1000.05, "1000.0", "floats:1e-4", True),
        (1000.00025, "1000.0", "floats:1e-4:1e-7", False),  # 1e-4 + 1e-7 * 1000 = 0.0002 is allowed
        (1000.00015, "1000.0", "floats:1e-4:1e-7", True),
        (0.00005, "0.0", "floats:1e-4:0", True),
        (0.00005, "0.0", "floats:0:1e-4", False),  # a share of the expected value alone
        (100000050, "100000000", "floats:1:1", False),
        (0.515, "0.5", "floats:0.01", False),  # below 1 the tolerance is that of 1
        (1.5, "1.0", "floats:0.5", True),  # at the tolerance
        (Fraction(1, 3), "0.3333333", "floats", True),
        (Decimal("0.30000001"), "0.3", "floats", True),
        ({"a": 0.3, "b": 1}, "{'a': 0.3}", "floats", False),
        ((0.3,), "[0.3]", "floats", False),
        ([0.3], "{0.3}", "floats", False),
        ({5, (0.1 + 0.2,)}, "{(0.3,), 5}", "floats", True),
        (
            {(1.00000001,), (0.3,)},
            "{(1.0,), (0.3,)}",
            "floats",
            True,
        ),  # by value: as text 1.0 comes after 0.3, and 1.00000001 before
    ],
)
def test_the_tolerance_of_values(value, expected, compare, same):
    assert answers(shown(value), expected, compare) is same


@pytest.mark.parametrize(
    ("got", "expected", "same"),
    [
        ("100000050", "100000000", False),
        ("007", "7", True),
        ("1.0", "1", True),
        ("1_0e-1", "1", False),
        ("١", "1", False),
        ("1e-7", "0", True),
        ("1e999", "1e998", True),  # both are infinite
        ("1e999", "5.0", False),
        ("9" * 5000, "1.0", False),
        ("nan", "NaN", True),
        ("-NaN", "nan", True),
        ("nan", "1.0", False),
        ("1.0", "nan", False),
        ("inf", "nan", False),
        ("banana", "nan", False),
        ("0x10", "16.0", False),
    ],
)
def test_the_tolerance_of_outputs(got, expected, same):
    assert floats_match(got, expected, tolerance_of("floats")) is same


@pytest.mark.parametrize(
    ("got", "expected", "same"),
    [
        (" 1 2 3\n", "1 2 3", True),
        ("0\n\n1\n\n", "0\n1\n", True),
        ("1\t2", "1 2", True),
        ("1\n2", "1 2", False),  # lines are separate
        ("2 1\nb", "b\n1 2 2", True),  # sets of tokens, and a set of lines
        ("YES\nNO", "YES\nNO\nYES", True),
        ("YES", "YES\nNO", False),
        ("0.33333 x", "0.33333 y", False),
        ("1.0004 2", "1 2.0", True),  # to three decimal places
        ("1.0006 2", "1 2.0", False),
        ("100000.5", "100000", True),  # within 1e-5 of the expected number, the only one of its line
        ("100002", "100000", False),
        ("100000.5 1", "100000 1", False),
        ("1e999", "5", False),
    ],
)
def test_outputs_as_the_grader_of_apps(got, expected, same):
    assert apps_match(got, expected) is same and output_matches(got, expected, "apps") is same


@pytest.mark.parametrize(
    ("got", "expected", "same"),
    [
        ("  1 \n 2\n\n", "1\n2", True),
        ("1\n\n2", "1\n2", False),  # an empty line between
        ("1.50 2", "1.5  2.0", True),
        ("0.3000000001", "0.3", False),  # no tolerance
        ("1e1", "10", True),
        ("2 1", "1 2", False),
        ("1 2 3", "1 2", False),
        ("Yes", "YES", False),
        ("NaN", "nan", False),
        ("sNaN", "1", False),
        ("50000000000000001", "50000000000000000", False),
    ],
)
def test_outputs_as_the_grader_of_livecodebench(got, expected, same):
    assert livecodebench_match(got, expected) is same and output_matches(got, expected, "livecodebench") is same


@pytest.mark.parametrize(
    ("value", "expected", "compare", "same"),
    [
        (1, "1", "item", True),
        ([1], "1", "item", True),
        ((1,), "1", "item", True),
        ([1, 1], "1", "item", False),
        ([[1]], "1", "item", False),
        ([], "1", "item", False),
        ({1: 2}, "1", "item", False),
        ([1.0000001], "1.0", "item:1e-6", True),
        ([1.0000001], "1.0", "item", False),
        ([[1, 2]], "[1, 2]", "item", True),
        ([1, 2], "[1, 2]", "apps", True),
        ((1, 2), "[1, 2]", "apps", True),
        (1, "[1, 2]", "apps", True),
        (2, "[1, 2]", "apps", False),
        (0, "[]", "apps", False),
        ("a", "'abc'", "apps", False),
        ((1, 2), "[1, 2]", "livecodebench", True),
        (1, "[1, 2]", "livecodebench", False),
        (0.1 + 0.2, "0.3", "livecodebench", False),
        ((1, 2), "[1, 2]", "lines", False),
    ],
)
def test_values_as_the_graders_of_published_sets(value, expected, compare, same):
    assert answers(shown(value), expected, compare) is same


def test_integers_of_any_length():
    digits = "1" + "0" * 5000
    assert answers(shown(10**5000), digits, "lines") and not answers(shown(10**5000 + 1), digits, "lines")
    assert literal(f"[-{digits}, '{digits}', 7]") == [-(10**5000), digits, 7]
    with pytest.raises(ValueError, match="literal"):
        literal("1" * 300_000)


def test_integers_longer_than_python_converts():
    nines = 10**4001 - 1  # 4,001 digits: Python itself converts at most 4,300
    digits = "9" * 4001
    assert [integer(sign + digits) for sign in ("", "+", "-")] == [nines, nines, -nines]
    assert integer("12") == 12 and integer("1" * 200_000) == (10**200_000 - 1) // 9
    for bad in ("1" * 200_001, "1" * 4001 + "x", "١" * 4001, "1" * 4000 + "."):
        with pytest.raises(ValueError, match="not an integer of at most 200,000 digits"):
            integer(bad)
    code = "x = {0} + {0}\ny = '{1}'  # {1}\nz = 7 + {2}\n"
    assert with_short_integers(code.format(digits, digits, f"1_{digits}")) == code.format(
        hex(nines), digits, hex(nines + 10**4001)
    )
    for other in (f"({digits}", "1" * 200_001, "x = 7"):
        assert with_short_integers(other) == other


def test_json_as_a_literal():
    assert as_literal([1, {"a": None, "b": [2.5, True]}, "c"]) == "[1, {'a': None, 'b': [2.5, True]}, 'c']"
    assert as_literal({"a": [], "b": {}}) == "{'a': [], 'b': {}}"
    assert as_literal(2**12_000) == hex(2**12_000) and as_literal(2**12_000 - 1) == repr(2**12_000 - 1)


def test_a_forged_set_is_not_its_members_twice():
    assert not equal(decode(["set", ["int", "1"], ["int", "1"]]), {1})
    assert not answers(["dict", [["str", "a"], ["int", "1"]], [["str", "a"], ["int", "1"]]], "{'a': 1}", "floats")


COUNT = 20_000


def colliding(*, half=False):
    """Numbers with one hash, or one hash for every two, as an attempt reports them; to put them into a set would take seconds."""
    return shown([k * (2**61 - 1) + (0.5 if half else 0) for k in range(COUNT)])[1:]


def keys(members):
    """A dictionary with these keys, as an attempt reports it."""
    return ["dict", *([member, 1] for member in members)]


@pytest.mark.parametrize(
    ("made", "expected", "compare"),
    [
        (lambda: shown({str(k) for k in range(COUNT)}), lambda: {str(k) for k in range(COUNT, 2 * COUNT)}, "lines"),
        (lambda: shown({k: k for k in range(COUNT)}), lambda: {k: k for k in reversed(range(COUNT))}, "lines"),
        (lambda: ["set", *colliding()], lambda: {*range(COUNT)}, "lines"),
        (lambda: ["set", *colliding(half=True)], lambda: {*range(COUNT)}, "floats"),
        (lambda: keys(colliding()), lambda: dict.fromkeys(range(COUNT), 1), "floats"),
        (lambda: keys(colliding()), lambda: 5, "lines"),
    ],
    ids=["texts", "order", "integers", "floats", "keys", "kinds"],
)
def test_no_value_takes_long_to_compare(made, expected, compare):
    data, source = made(), repr(expected())
    started = time.process_time()
    answers(data, source, compare)
    displayed(data)
    assert time.process_time() - started < 2


def test_a_flood_of_output_costs_no_more_than_what_it_is_compared_with():
    started = time.process_time()
    assert not lines_match("x\n" * (4 << 20), "1\n2\n")
    assert not tokens_match("x " * (4 << 20), "1 2")
    assert not floats_match("1 " * (4 << 20), "1 2", tolerance_of("floats"))
    assert not livecodebench_match("1 " * (4 << 20), "1 2")
    assert not livecodebench_match("1\n" * (4 << 20), "1\n2")
    assert time.process_time() - started < 0.5


def test_values_are_displayed_by_their_beginning():
    assert displayed(shown({"a": {1, 2}, 3: (None,)})) == "{'a': {1, 2}, 3: (None,)}"
    assert displayed(shown([[1] * 1000] * 1000)).startswith("[[1, 1") and len(displayed(shown("x" * 1000))) == 100
    assert displayed(shown([0] * 40)) == str([0] * 30)
    assert displayed(shown(1 << 9999)) == str(1 << 9999)[:100]
    assert displayed(shown(1 << 10_000)) == "a value too large to print"
    assert displayed(shown(Liar())) == "something that is not plain data" and displayed(shown(set())) == "set()"


@pytest.mark.parametrize(
    ("before", "after"),
    [("[" * 8, "]" * 8), ("(" * 8, ",)" * 8), ("{0: " * 8, "}" * 8), ("{" + "(" * 7, ",)" * 7 + ": 0}")],
    ids=["lists", "tuples", "values", "keys"],
)
def test_values_are_displayed_to_a_depth_of_eight(before, after):
    assert displayed(shown(literal(f"{before}1{after}"))) == f"{before}1{after}"
    assert displayed(shown(literal(f"{before}(1,){after}"))) == f"{before}(...,){after}"


def test_a_memo_keeps_what_fits_and_forgets_the_oldest():
    calls = []

    @memo
    def size(text, more=()):
        calls.append(text[:1])
        return len(text) + len(more)

    half = MOST_CHARACTERS // 2 - 64
    for _ in range(2):
        assert size("a" * half) == size("b" * half) == half
        assert size("c" * (2 * half)) == 2 * half
    assert "".join(calls) == "abc" * 2  # c replaces a and b
    size("d", ("e" * half,))
    size("f")
    size("d", ("e" * half,))
    assert "".join(calls) == "abc" * 2 + "df"
    for _ in range(2):
        size("g" * MOST_CHARACTERS)
    assert "".join(calls)[-2:] == "gg"
