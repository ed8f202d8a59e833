"""Compare the output of a program with the expected output, by the task's ``compare``.

The work is O(n log n) in the length of the output.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from itertools import zip_longest

from upsolve.verify.judge.compare import LONGEST_NUMBER, NUMBER, Tolerance, near, tolerance_of
from upsolve.verify.judge.rows import row_difference, rows_match

__all__ = [
    "apps_match",
    "difference",
    "first_difference",
    "floats_match",
    "lines_match",
    "livecodebench_match",
    "output_matches",
    "tokens_match",
]

INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
NAN = re.compile(r"[+-]?nan", re.IGNORECASE | re.ASCII)
LINE_END = re.compile("\r\n|[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")


def output_matches(got: str, expected: str, compare: str) -> bool:
    """Return whether an output matches the expected output under the comparison ``compare``."""
    if compare in PLAIN_WAYS:
        return PLAIN_WAYS[compare](got, expected)
    name, tolerance = compare.partition(":")[0], tolerance_of(compare)
    if name == "item":
        return tokens_match(got, expected)
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


def apps_match(got: str, expected: str) -> bool:
    """Compare as APPS's grader does: white space and empty lines are ignored, and so are the order and repetition of lines, and of tokens in a line.

    Tokens match if they are equal or, where all are numbers, equal when rounded to three decimal places; outputs of one number a line match
    also as by ``numpy.allclose``.
    """
    if got.strip() == expected.strip():
        return True
    left, right = ([line.split() for line in text.splitlines() if line.strip()] for text in (got, expected))
    if as_sets(left) == as_sets(right):
        return True
    try:
        a, b = ([[float(token) for token in line] for line in lines] for lines in (left, right))
    except ValueError:
        return False
    if len(a) == len(b) and all(len(x) == len(y) == 1 and is_close(x[0], y[0]) for x, y in zip(a, b, strict=True)):
        return True
    return as_sets([[str(round(x, 3)) for x in line] for line in a]) == as_sets(
        [[str(round(y, 3)) for y in line] for line in b]
    )


def as_sets(lines: Sequence[Sequence[str]]) -> set[str]:
    """Return the set of the sets of tokens in lines, each as text: hashes of text cannot be made to collide."""
    return {" ".join(sorted(set(line))) for line in lines}


def is_close(got: float, expected: float) -> bool:
    """Return whether two numbers are near by the default tolerances of ``numpy.allclose``."""
    return got == expected or (math.isfinite(expected) and abs(got - expected) <= 1e-8 + 1e-5 * abs(expected))


def livecodebench_match(got: str, expected: str) -> bool:
    """Compare as LiveCodeBench's grader does: line by line without white space at the ends; lines that differ must be equal decimal numbers.

    White space at the ends of the whole output is ignored; the number of lines between must match.
    """
    got, expected = got.strip(), expected.strip()
    if got == expected:
        return True
    if got.count("\n") != expected.count("\n"):
        return False
    pairs = zip(got.split("\n"), expected.split("\n"), strict=True)
    return all(a.strip() == b.strip() or decimals_equal(a, b) for a, b in pairs)


def decimals_equal(got: str, expected: str) -> bool:
    """Return whether two lines hold equal decimal numbers, in order; no number is rounded."""
    right = expected.split()
    left = got.split(None, len(right))
    try:
        return len(left) == len(right) and all(Decimal(a) == Decimal(b) for a, b in zip(left, right, strict=True))
    except InvalidOperation:  # not numbers
        return False


def numbers_near(got: str, expected: str, tolerance: Tolerance) -> bool:
    """Return whether two tokens are numbers within the tolerance, or both nan; two integer tokens must be equal."""
    if NAN.fullmatch(expected):
        return NAN.fullmatch(got) is not None
    if max(len(got), len(expected)) > LONGEST_NUMBER or not (NUMBER.fullmatch(got) and NUMBER.fullmatch(expected)):
        return False
    return near(number(got), number(expected), tolerance)


def number(token: str) -> float:
    """Parse a token as int, or else as float."""
    return int(token) if INTEGER.fullmatch(token) else float(token)


PLAIN_WAYS: Mapping[str, Callable[[str, str], bool]] = {
    "lines": lines_match,
    "exact": str.__eq__,
    "tokens": tokens_match,
    "apps": apps_match,
    "livecodebench": livecodebench_match,
}
"""Name of a comparison without a tolerance -> function of the output and the expected output."""


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
