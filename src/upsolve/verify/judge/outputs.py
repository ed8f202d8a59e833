"""Compare the output of a program with the expected output, by the task's ``compare``.

The work is O(n log n) in the length of the output.
"""

import re
from collections.abc import Iterator
from itertools import zip_longest

from upsolve.verify.judge.compare import LONGEST_NUMBER, NUMBER, Tolerance, near, tolerance_of
from upsolve.verify.judge.rows import row_difference, rows_match

__all__ = ["difference", "first_difference", "floats_match", "lines_match", "output_matches", "tokens_match"]

INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
LINE_END = re.compile("\r\n|[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")


def output_matches(got: str, expected: str, compare: str) -> bool:
    """Return whether an output matches the expected output under the comparison ``compare``."""
    plain_ways = {"lines": lines_match, "exact": str.__eq__, "tokens": tokens_match}
    if compare in plain_ways:
        return plain_ways[compare](got, expected)
    name, tolerance = compare.partition(":")[0], tolerance_of(compare)
    if name == "floats":
        return floats_match(got, expected, tolerance)
    return rows_match(got, expected, tolerance, in_order=name == "rows_in_order")


def lines_of(text: str) -> Iterator[str]:
    """Yield the lines of a text without trailing spaces; lazily, so that a flood costs no more than the expected output."""
    start = 0
    for end in LINE_END.finditer(text):
        yield text[start : end.start()].rstrip()
        start = end.end()
    yield text[start:].rstrip()


def lines_match(got: str, expected: str) -> bool:
    """Compare line by line, ignoring trailing spaces and trailing empty lines; the number of lines must match."""
    got, expected = got.rstrip(), expected.rstrip()
    return got == expected or all(a == b for a, b in zip_longest(lines_of(got), lines_of(expected)))


def tokens_match(got: str, expected: str) -> bool:
    """Compare the sequences of whitespace-separated tokens."""
    expected_tokens = expected.split()
    return got.split(None, len(expected_tokens)) == expected_tokens


def floats_match(got: str, expected: str, tolerance: Tolerance) -> bool:
    """Compare token by token; tokens that differ must be numbers within the tolerance (see ``near``)."""
    right = expected.split()
    left = got.split(None, len(right))
    return len(left) == len(right) and all(a == b or numbers_near(a, b, tolerance) for a, b in zip(left, right, strict=True))


def numbers_near(got: str, expected: str, tolerance: Tolerance) -> bool:
    """Return whether two tokens are numbers within the tolerance; two integer tokens must be equal."""
    if max(len(got), len(expected)) > LONGEST_NUMBER or not (NUMBER.fullmatch(got) and NUMBER.fullmatch(expected)):
        return False
    return near(number(got), number(expected), tolerance)


def number(token: str) -> float:
    """Parse a token as int, or else as float."""
    return int(token) if INTEGER.fullmatch(token) else float(token)


def difference(got: str, expected: str, compare: str) -> str:
    """Describe in one line how an output differs from the expected output."""
    if compare.startswith("rows"):
        return row_difference(got, expected, in_order=compare.startswith("rows_in_order"))
    return first_difference(got, expected)


def first_difference(got: str, expected: str) -> str:
    """Describe in one line the first difference between two outputs."""
    for number, (a, b) in enumerate(zip_longest(lines_of(got.rstrip()), lines_of(expected.rstrip())), start=1):
        if a != b:
            return f"line {number}: {'nothing' if a is None else repr(a[:100])}, expected {'nothing' if b is None else repr(b[:100])}"
    return "only white space differs"
