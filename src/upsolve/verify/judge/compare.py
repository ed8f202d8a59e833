"""Compare what an attempt gave with what was expected, on plain data, outside of its process."""

import ast
import json
import math
from functools import lru_cache
from itertools import zip_longest
from typing import Any

from upsolve.verify.sandbox.values import Opaque, plain, value_of

__all__ = [
    "answers",
    "decode",
    "equal",
    "first_difference",
    "lines_match",
    "literal",
    "output_matches",
    "shown",
    "tokens_match",
    "tolerance_of",
]

NUMBERS = (bool, int, float, complex)


def decode(data: Any) -> Any:
    """Return the value that child.plain encoded; anything malformed becomes ``Opaque``. Dicts become lists of pairs."""
    try:
        return value_of(data, Members, Pairs)
    except (ValueError, TypeError, IndexError, KeyError, RecursionError, OverflowError):
        return Opaque()


class Pairs(list[Any]):
    """A dict as its pairs: its keys need not be hashable for us."""


class Members(list[Any]):
    """A set as its members."""


@lru_cache(maxsize=100_000)
def literal(source: str) -> Any:
    """Return the value of a Python literal (``set()``, ``inf`` and ``nan`` too).

    Raises:
        ValueError: it is not one; names it.
    """
    try:
        return ast.literal_eval(source)
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        if source.strip().lstrip("-") in ("inf", "nan"):
            return float(source)
        raise ValueError(f"expected value is not a Python literal: {source[:200]}") from error


@lru_cache(maxsize=100_000)
def usual_answer(source: str) -> Any:
    """Return a literal as child.plain encodes it, or None when equality is more than being encoded the same (nan)."""
    value = literal(source)
    data = json.loads(plain(value))
    return data if equal(decode(data), value) else None


def answers(data: Any, expected: str, compare: str) -> bool:
    """Return whether encoded data is the value of a literal, in Python's sense: most right answers are encoded the same."""
    usual = usual_answer(expected)
    if usual is not None and data == usual:
        return True
    got, wanted = decode(data), literal(expected)
    return close(got, wanted, tolerance_of(compare)) if compare.startswith("floats") else equal(got, wanted)


def equal(got: Any, expected: Any) -> bool:
    """Return whether Python's == would hold between plain values: 1 == 1.0 == True, a list is no tuple, nan is nothing."""
    if isinstance(expected, NUMBERS):
        return isinstance(got, NUMBERS) and got == expected
    if isinstance(expected, dict):
        return isinstance(got, Pairs) and same_members(got, list(expected.items()), pair=True)
    if isinstance(expected, set | frozenset):
        return isinstance(got, Members) and same_members(got, list(expected), pair=False)
    if isinstance(expected, list | tuple):
        kind = list if isinstance(expected, list) else tuple
        same = type(got) is kind and len(got) == len(expected)
        return same and all(equal(a, b) for a, b in zip(got, expected, strict=True))
    return type(got) is type(expected) and bool(got == expected)


def same_members(got: list[Any], expected: list[Any], *, pair: bool) -> bool:
    """Return whether both hold the same members, in any order; quick when their order agrees."""
    if len(got) != len(expected):
        return False
    left = list(expected)
    for item in got:
        match = next((i for i, other in enumerate(left) if (equal_pair(item, other) if pair else equal(item, other))), None)
        if match is None:
            return False
        left.pop(match)
    return True


def equal_pair(got: Any, expected: Any) -> bool:
    """Compare a key and its value."""
    return equal(got[0], expected[0]) and equal(got[1], expected[1])


def lines_match(got: str, expected: str) -> bool:
    """Compare line by line, spaces at line ends and empty lines at the end apart. A missing or a further line is a miss."""
    left, right = ([line.rstrip() for line in text.rstrip().splitlines()] for text in (got, expected))
    return all(a == b for a, b in zip_longest(left, right))


def tokens_match(got: str, expected: str) -> bool:
    """Compare the sequences of tokens between white space."""
    return got.split() == expected.split()


def floats_match(got: str, expected: str, tolerance: float) -> bool:
    """Compare token by token; numbers that are not spelled the same may differ by the tolerance, absolute or relative."""
    left, right = got.split(), expected.split()
    return len(left) == len(right) and all(
        a == b or close(number(a), number(b), tolerance) for a, b in zip(left, right, strict=True)
    )


def number(token: str) -> float:
    """Return the number a token spells, nan when it spells none."""
    try:
        return float(token)
    except ValueError:
        return math.nan


def close(got: Any, expected: Any, tolerance: float) -> bool:
    """Return whether plain values are equal but for floats within the tolerance, absolute or relative; nan is close to nothing."""
    if isinstance(expected, float | int) and not isinstance(expected, bool) and isinstance(got, float | int):
        return bool(got == expected or math.isclose(got, expected, rel_tol=tolerance, abs_tol=tolerance))
    if isinstance(expected, list | tuple):
        kind = list if isinstance(expected, list) else tuple
        same = type(got) is kind and len(got) == len(expected)
        return same and all(close(a, b, tolerance) for a, b in zip(got, expected, strict=True))
    return equal(got, expected)


def tolerance_of(compare: str) -> float:
    """Return the tolerance of ``floats`` or ``floats:1e-9``; ValueError names what is wrong."""
    name, _, given = compare.partition(":")
    value = number(given or "1e-6")
    if name != "floats" or not value > 0:
        raise ValueError(f"compare is lines, exact, tokens, floats, floats:TOLERANCE or checker, not {compare!r}")
    return value


def output_matches(got: str, expected: str, compare: str) -> bool:
    """Compare an output as the task asks for."""
    plain_ways = {"lines": lines_match, "exact": str.__eq__, "tokens": tokens_match}
    if compare in plain_ways:
        return plain_ways[compare](got, expected)
    return floats_match(got, expected, tolerance_of(compare))


def shown(data: Any) -> str:
    """Return encoded data as Python would print it, in about a hundred characters."""
    value = decode(data)
    if isinstance(value, Pairs):
        value = dict(value) if all(isinstance(key, str | int | float | tuple) for key, _ in value) else value
    try:
        return "something that is not plain data" if isinstance(value, Opaque) else repr(value)[:100]
    except (ValueError, RecursionError):
        return "a value too large to print"


def first_difference(got: str, expected: str) -> str:
    """Return where two outputs part, in a line."""
    left, right = got.splitlines(), expected.splitlines()
    for place, (a, b) in enumerate(zip_longest(left, right), start=1):
        if a is None or b is None or a.rstrip() != b.rstrip():
            return f"line {place}: {'nothing' if a is None else repr(a[:100])}, expected {'nothing' if b is None else repr(b[:100])}"
    return "only white space differs"
