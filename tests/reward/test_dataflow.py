"""Edges written out by hand."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upsolve.reward.components import dataflow_similarity, edges

REFERENCE = "def f(n):\n    a = n + 1\n    return a"


def test_edges_by_hand():
    # n is variable 0, a is 1: n is read, a is read, a is from n
    assert edges(REFERENCE) == Counter({(0, "read", ()): 1, (1, "read", ()): 1, (1, "from", (0,)): 1})
    # s 0, x 1 (loop), c 2; c += x reads c and x
    code = "def g(s):\n    for x in s:\n        c += x * x\n    d[c] = 0"
    assert edges(code) == Counter(
        {
            (0, "read", ()): 1,
            (1, "read", ()): 2,
            (2, "read", ()): 1,
            (1, "from", (0,)): 1,
            (2, "from", (1, 2)): 1,
            (3, "read", ()): 1,  # d, of which a part is changed
            (3, "from", ()): 1,
        }
    )
    assert edges("import os\nprint(len(os.listdir()))") == Counter()
    assert edges("def f(:") is None


@pytest.mark.parametrize(
    ("code", "share"),
    [
        (REFERENCE, 1.0),
        ("def f(k):\n    total = k + 1\n    return total", 1.0),  # other names
        ("def f(n):\n    return n + 1", 1 / 3),  # n is read, no more
        ("def f(n):\n    a = 5\n    return a", 1 / 3),  # a is read; it is not from n
        ("def f(n):\n    return 5", 0.0),
        ("def f(n", 0.0),
    ],
)
def test_shares_by_hand(code, share):
    assert dataflow_similarity(code, REFERENCE) == pytest.approx(share)


def test_odd_references():
    assert dataflow_similarity("x = 1", "print(1)") == 1.0
    assert dataflow_similarity("x = 1", "def f(") is None


names = st.lists(st.sampled_from(["alpha", "beta", "g", "h", "x1", "y"]), min_size=3, max_size=3, unique=True)
PROGRAM = "def f({0}, {1}):\n    for {2} in {0}:\n        {1} += {2}\n    {0}[{1}], {2} = [{2} for {2} in {0} if {2} > {1}]\n    return {0}"


@given(names, names)
def test_names_do_not_matter(first, second):
    assert dataflow_similarity(PROGRAM.format(*first), PROGRAM.format(*second)) == 1.0
