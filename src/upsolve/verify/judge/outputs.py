"""Compare the output of a program with the expected output, by the task's ``compare``.

Rows of a query are one JSON array per line. NULL is null, text a string, a blob ``{"blob": hex}``. Numbers are compared within a
tolerance (see ``near``: 2 equals 2.0, two integers must be equal), text exactly, and NULL equals only NULL. Number and order of columns
must be the same; their names are ignored. The work is O(n log n) in the length of the output.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from itertools import groupby, zip_longest
from typing import Any

from upsolve.verify.judge.compare import LONGEST_NUMBER, NUMBER, Tolerance, memo, near, tolerance_of

__all__ = ["difference", "output_matches", "rows_of"]

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
    """Yield the lines of a text without trailing spaces. Lazy, so that a flood of output costs no more than the expected output."""
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

    Tokens match if they are equal or, where all are numbers, equal when rounded to three decimal places; outputs with one number on each line also
    match by ``numpy.allclose``.
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
    close = Tolerance(1e-8, 1e-5)  # of numpy.allclose
    if len(a) == len(b) and all(len(x) == len(y) == 1 and near(x[0], y[0], close) for x, y in zip(a, b, strict=True)):
        return True
    rounded = ([[str(round(number, 3)) for number in line] for line in lines] for lines in (a, b))
    return as_sets(next(rounded)) == as_sets(next(rounded))


def as_sets(lines: Sequence[Sequence[str]]) -> set[str]:
    """Return the set of the sets of tokens in lines, each as text, because hashes of texts cannot be made to collide."""
    return {" ".join(sorted(set(line))) for line in lines}


def livecodebench_match(got: str, expected: str) -> bool:
    """Compare as LiveCodeBench's grader does: line by line without surrounding white space; lines that differ must be equal decimal numbers.

    White space around the whole output is ignored; the number of remaining lines must match.
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


Row = list[Any]
SHOWN = 100
"""Maximum characters of a row in a message."""


def rows_of(text: str) -> list[Row]:
    """Parse the rows of an output.

    Raises:
        ValueError: a line is not a JSON array.
    """
    lines = [line for line in text.split("\n") if line.strip()]
    rows: Any = json.loads(f"[{','.join(lines)}]")
    if len(rows) != len(lines) or not all(type(row) is list for row in rows):
        raise ValueError("a line is not a JSON array")
    return rows


expected_rows = memo(rows_of)
"""``rows_of`` for expected outputs, cached."""


def rows_match(got: str, expected: str, tolerance: Tolerance, *, in_order: bool) -> bool:
    """Return whether two outputs have equal rows: as sequences (``in_order``), or as multisets."""
    if got == expected:
        return True
    try:
        left = rows_of(got)
    except (ValueError, RecursionError, MemoryError):
        return False
    right = expected_rows(expected)
    widths = {*map(len, left)}
    if len(left) != len(right) or widths != {*map(len, right)} or len(widths) > 1:
        return False
    if right and not in_order:
        return bags_match(left, right, tolerance)
    return all(same(x, y, tolerance) for a, b in zip(left, right, strict=True) for x, y in zip(a, b, strict=True))


def same(got: Any, expected: Any, tolerance: Tolerance) -> bool:
    """Return whether two cells are equal."""
    if is_number(got) and is_number(expected):
        return near(got, expected, tolerance)
    return type(got) is type(expected) and got == expected


def is_number(cell: Any) -> bool:
    """Return whether a cell is a number."""
    return type(cell) is int or type(cell) is float


def bags_match(left: Sequence[Row], right: Sequence[Row], tolerance: Tolerance) -> bool:
    """Return whether two multisets of rows are equal.

    Rows are first grouped by their exact cells, so that only inexact numbers differ within a group. Each group is then sorted
    and split, column by column, between neighbours whose difference exceeds the tolerance. In each part both multisets must
    have the same number of rows, and the sorted numbers of each column must be pairwise near.
    """
    inexact: list[int] = []
    for column in range(len(right[0])):
        cells = [row[column] for row in (*left, *right) if type(row[column]) is float]
        if not all(cell.is_integer() and tolerance.allowed(abs(cell)) < 1 for cell in cells):  # else near only if equal
            inexact.append(column)
    loose = {*inexact}
    tagged = [(key_of(row, loose), side, row) for side, rows in enumerate((left, right)) for row in rows]
    tagged.sort(key=lambda entry: entry[:2])
    for _, group in groupby(tagged, lambda entry: entry[0]):
        members = [(side, row) for _, side, row in group]
        sides = [[row for side, row in members if side == number] for number in (0, 1)]
        if len(sides[0]) != len(sides[1]) or (inexact and not parts_match(sides, inexact, tolerance)):
            return False
    return True


def key_of(row: Row, loose: set[int]) -> str:
    """Return the grouping key of a row: its exact cells as JSON, with Infinity for each number in a loose column."""
    cells = [cell if not is_number(cell) else float("inf") if column in loose else int(cell) for column, cell in enumerate(row)]
    return json.dumps(cells, sort_keys=True)


def parts_match(sides: Sequence[Sequence[Row]], columns: Sequence[int], tolerance: Tolerance) -> bool:
    """Return whether the numbers in these columns of two lists of rows match part by part; see ``bags_match``."""
    numeric = [column for column in columns if is_number(sides[0][0][column])]
    parts = [(0, side, [row[column] for column in numeric]) for side, rows in enumerate(sides) for row in rows]
    for position in range(len(numeric)):
        parts = split_parts(parts, position, tolerance)
    for _, group in groupby(parts, lambda entry: entry[0]):
        members = [*group]
        left, right = ([numbers for _, side, numbers in members if side == index] for index in (0, 1))
        if len(left) != len(right):
            return False
        for a, b in zip(zip(*left, strict=True), zip(*right, strict=True), strict=True):
            if not all(near(x, y, tolerance) for x, y in zip(sorted(a), sorted(b), strict=True)):
                return False
    return True


def split_parts(parts: Sequence[tuple[int, int, Row]], column: int, tolerance: Tolerance) -> list[tuple[int, int, Row]]:
    """Sort the rows of each part by the number in ``column``, and split the part between numbers that are not near."""
    ordered = sorted(parts, key=lambda entry: (entry[0], entry[2][column]))
    result: list[tuple[int, int, Row]] = []
    number, before = 0, ordered[0]
    for entry in ordered:
        number += entry[0] != before[0] or not near(before[2][column], entry[2][column], tolerance)
        result.append((number, entry[1], entry[2]))
        before = entry
    return result


def row_difference(got: str, expected: str, *, in_order: bool) -> str:
    """Describe in one line how the rows of an output differ from the expected rows."""
    try:
        left, right = rows_of(got), rows_of(expected)
    except (ValueError, RecursionError, MemoryError):
        return "not rows: one JSON array a line"
    if len(left) != len(right):
        return f"{len(left)} rows, expected {len(right)}"
    if (a := {*map(len, left)}) != (b := {*map(len, right)}):
        return f"{max(a)} columns, expected {max(b)}"
    pairs: Iterator[tuple[int, tuple[Row, Row]]] = enumerate(zip(left, right, strict=True), start=1)
    if in_order:
        return next((f"row {n}: {shown(x)}, expected {shown(y)}" for n, (x, y) in pairs if x != y), "equal")
    known_rows = {json.dumps(row) for row in right}
    wrong = next((shown(row) for row in left if json.dumps(row) not in known_rows), "the number of a duplicate")
    return f"not expected: {wrong}"


def shown(row: Row) -> str:
    """Return a row as text of at most ``SHOWN`` characters."""
    return json.dumps(row, ensure_ascii=False)[:SHOWN]
