"""Compare the rows of a query with the expected rows, given as one JSON array per line.

Cells: NULL is null, text a string, numbers are numbers, a blob is ``{"blob": hex}``. Numbers are compared within a tolerance
(see ``near``: 2 equals 2.0, two integers must be equal), text exactly, and NULL equals only NULL. Number and order of columns
must be the same; their names are ignored. The work is O(n log n) in the number of cells.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from upsolve.verify.judge.compare import Tolerance, near
from upsolve.verify.judge.memo import memo

__all__ = ["row_difference", "rows_match", "rows_of"]

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


@memo
def expected_rows(text: str) -> list[Row]:
    """Parse the rows of an expected output; cached; raises as ``rows_of``."""
    return rows_of(text)


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
    if not right:
        return True
    return sequences_match(left, right, tolerance) if in_order else bags_match(left, right, tolerance)


def sequences_match(left: Sequence[Row], right: Sequence[Row], tolerance: Tolerance) -> bool:
    """Return whether two sequences of rows are equal, row by row."""
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
    inexact = [column for column in range(len(right[0])) if not is_exact([*left, *right], column, tolerance)]
    loose = {*inexact}
    tagged = sorted(
        ((key_of(row, loose), side, row) for side, rows in enumerate((left, right)) for row in rows),
        key=lambda entry: entry[:2],
    )
    for _, group in groupby(tagged, lambda entry: entry[0]):
        members = [(side, row) for _, side, row in group]
        sides = [[row for side, row in members if side == number] for number in (0, 1)]
        if len(sides[0]) != len(sides[1]) or (inexact and not parts_match(sides, inexact, tolerance)):
            return False
    return True


def is_exact(rows: Sequence[Row], column: int, tolerance: Tolerance) -> bool:
    """Return whether numbers of a column are near only if equal: all are integers or floats with small integer values."""
    cells = (row[column] for row in rows if type(row[column]) is float)
    return all(cell.is_integer() and tolerance.allowed(abs(cell)) < 1 for cell in cells)


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
        left, right = ([numbers for side, numbers in ((m[1], m[2]) for m in members) if side == index] for index in (0, 1))
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
    return (
        f"not expected: {next((shown(row) for row in left if json.dumps(row) not in known_rows), 'the number of a duplicate')}"
    )


def shown(row: Row) -> str:
    """Return a row as text of at most ``SHOWN`` characters."""
    return json.dumps(row, ensure_ascii=False)[:SHOWN]
