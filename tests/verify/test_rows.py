"""Comparison of rows: bags and sequences, tolerance, and work that stays bounded."""

import json
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upsolve.verify.judge.compare import tolerance_of
from upsolve.verify.judge.outputs import difference, output_matches, rows_match

SMALL = tolerance_of("rows")


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize(
    ("got", "expected", "same"),
    [
        ([[1, "a"], [2, "b"]], [[2, "b"], [1, "a"]], True),
        ([[1], [1], [2]], [[1], [2], [2]], False),  # duplicates count
        ([[1], [1]], [[1]], False),
        ([], [], True),
        ([], [[1]], False),
        ([[1, 2]], [[1]], False),  # the number of columns counts
        ([[2, 1]], [[1, 2]], False),  # and their order
        ([[2]], [[2.0]], True),
        ([[2]], [["2"]], False),
        ([[None]], [[None]], True),
        ([[None]], [[0]], False),
        ([[None]], [[""]], False),
        ([["a "]], [["a"]], False),
        ([["A"]], [["a"]], False),
        ([[0.1 + 0.2]], [[0.3]], True),
        ([[1.00001]], [[1.0]], False),
        ([[1e9 + 1]], [[1e9]], True),  # relative
        ([[1_000_000_001]], [[1_000_000_000]], False),  # integers are exact
        ([[1_000_000_001]], [[1_000_000_000.0]], True),
        ([[{"blob": "00ff"}]], [[{"blob": "00ff"}]], True),
        ([[{"blob": "00ff"}]], [["00ff"]], False),
        ([[float("inf")]], [[float("inf")]], True),
        ([[float("inf")]], [[1e300]], False),
        ([[float("nan")]], [[1.5]], False),
        ([[-0.0]], [[0]], True),
        ([[9007199254740993]], [[9007199254740992]], False),
        # near numbers that change places when sorted: rows are paired by their other cells
        ([[1.0 + 1e-9, 5], [1.0, 7]], [[1.0, 5], [1.0 + 1e-9, 7]], True),
        ([[1.0 + 1e-9, 5.5], [1.0, 7.5]], [[1.0, 5.5], [1.0 + 1e-9, 7.5]], True),
        ([[1.0 + 1e-9, 5.5], [1.0, 7.5]], [[1.0, 5.5], [1.0 + 1e-9, 5.5]], False),
        ([[2_000_000, 0.5], [2_000_001, 0.25]], [[2_000_000, 0.25], [2_000_001, 0.5]], False),
        ([["x", 0.5], ["y", 0.25]], [["x", 0.25], ["y", 0.5]], False),
        ([["x", None], ["x", 0.5]], [["x", 0.5], ["x", None]], True),
        ([["1.5"], [1.5]], [[1.5], ["1.5"]], True),
    ],
)
def test_bags_of_rows(got, expected, same):
    assert output_matches(lines(got), lines(expected), "rows") is same
    assert output_matches(lines(expected), lines(got), "rows") is same


def test_order_counts_if_the_query_orders():
    rows = [[1, 0.3], [2, 0.1]]
    assert output_matches("[1, 0.30000000000000004]\n[2, 0.1]\n", lines(rows), "rows_in_order")
    assert not output_matches(lines(rows[::-1]), lines(rows), "rows_in_order")
    assert not output_matches(lines(rows[:1]), lines(rows), "rows_in_order")
    assert not output_matches(lines([[1, 0.3, 0], [2, 0.1, 0]]), lines(rows), "rows_in_order")


def test_the_tolerance_can_be_set():
    assert output_matches("[1.001]", "[1]", "rows:1e-2") and not output_matches("[1.001]", "[1]", "rows:1e-4")
    assert output_matches("[1.001]", "[1]", "rows_in_order:1e-2")
    with pytest.raises(ValueError, match="rows_in_order"):
        output_matches("[1.001]", "[1]", "rows:-1")


@pytest.mark.parametrize(
    "output",
    ["hello", "[1", "1", '{"a": 1}', "[1] [2]", "[1],[1]", "[1\n]", "[" * 100_000, "[" + "9" * 100_000 + "]", "[[[]]]", "\x00"],
)
def test_what_is_no_row_equals_none(output):
    assert not output_matches(output, "[1]\n", "rows")
    assert difference(output, "[1]\n", "rows")


@pytest.mark.parametrize(
    ("got", "compare", "words"),
    [
        ([[1, 2]], "rows", "1 rows, expected 2"),
        ([[1], [2]], "rows", "1 columns, expected 2"),
        ([[1, "x"], [3, "y"]], "rows", 'not expected: [3, "y"]'),
        ([[1, "x"], [3, "y"]], "rows_in_order", 'row 2: [3, "y"], expected [2, "y"]'),
        ([[1, "x"], [1, "x"]], "rows", "not expected: the number of a duplicate"),
    ],
)
def test_errors_show_the_differences(got, compare, words):
    assert difference(lines(got), lines([[1, "x"], [2, "y"]]), compare) == words


cells = st.none() | st.integers(-3, 3) | st.sampled_from([0.1, 0.5, 1.0, 2.5]) | st.sampled_from(["", "a", "1"])


@given(st.lists(st.tuples(cells, cells, cells), max_size=8), st.randoms(), st.floats(-4e-7, 4e-7))
def test_a_shuffled_bag_with_numbers_moved_within_the_tolerance_is_the_same(rows, source, moved):
    other = [[cell + moved if isinstance(cell, float) else cell for cell in row] for row in rows]
    source.shuffle(other)
    assert rows_match(lines(other), lines(rows), SMALL, in_order=False)
    changed = [*other[:-1], ["z", *other[-1][1:]]] if other else [["z"]]
    assert not rows_match(lines(changed), lines(rows), SMALL, in_order=False)


@pytest.mark.slow
def test_comparing_many_rows_is_fast():
    source = random.Random(0)
    rows = [[source.randrange(5), source.choice("ab"), source.random(), 1 / 3] for _ in range(20_000)]
    other = [[a, b, c + 1e-9, d] for a, b, c, d in rows]
    source.shuffle(other)
    started = time.process_time()
    assert output_matches(lines(other), lines(rows), "rows")
    assert not output_matches(lines([*other[1:], [0, "a", 7.5, 1.0]]), lines(rows), "rows")
    assert time.process_time() - started < 20
