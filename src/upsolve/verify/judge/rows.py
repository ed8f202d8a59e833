"""Compare the rows that a query gave with the expected ones: one JSON array a line, as the sandbox writes them.

Cells: NULL is null, text a string, numbers are numbers, a blob is ``{"blob": hex}``. Two numbers are equal within a tolerance (see
``near``: 2 equals 2.0, two integers must be the same), text is compared exactly, NULL equals NULL alone. Names of columns do not count,
their number and order do. The work grows no faster than n log n with the number of cells.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from upsolve.verify.judge.compare import near
from upsolve.verify.judge.memo import memo

__all__ = ["row_difference", "rows_match", "rows_of"]

Row = list[Any]
SHOWN = 100
"""Characters of a row in a message."""


def rows_of(text: str) -> list[Row]:
    """Return the rows of an output.

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
    """Return the rows of an expected output; see ``rows_of``."""
    return rows_of(text)


def rows_match(got: str, expected: str, tolerance: float, *, in_order: bool) -> bool:
    """Return whether two outputs hold the same rows, duplicates counted: as sequences, or as bags in which the order does not count."""
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


def sequences_match(left: Sequence[Row], right: Sequence[Row], tolerance: float) -> bool:
    """Return whether rows are equal one by one."""
    return all(same(x, y, tolerance) for a, b in zip(left, right, strict=True) for x, y in zip(a, b, strict=True))


def same(got: Any, expected: Any, tolerance: float) -> bool:
    """Return whether two cells are equal."""
    if is_number(got) and is_number(expected):
        return near(got, expected, tolerance)
    return type(got) is type(expected) and got == expected


def is_number(cell: Any) -> bool:
    """Return whether a cell is a number."""
    return type(cell) is int or type(cell) is float


def bags_match(left: Sequence[Row], right: Sequence[Row], tolerance: float) -> bool:
    """Return whether two bags of rows are equal.

    Rows are told apart by their exact cells first, which leaves groups in which only the inexact numbers differ. These are sorted and cut
    where neighbours are further apart than the tolerance, column by column; both bags must have equally many rows in each part, and the
    sorted numbers of every column must be near each other there.
    """
    inexact = [column for column in range(len(right[0])) if not is_exact([*left, *right], column, tolerance)]
    loose = {*inexact}
    tagged = sorted(
        ((key_of(row, loose), side, row) for side, rows in enumerate((left, right)) for row in rows),
        key=lambda entry: entry[:2],
    )
    for _, group in groupby(tagged, lambda entry: entry[0]):
        members = [(side, row) for _, side, row in group]
        sides = [[row for side, row in members if side == wanted] for wanted in (0, 1)]
        if len(sides[0]) != len(sides[1]) or (inexact and not parts_match(sides, inexact, tolerance)):
            return False
    return True


def is_exact(rows: Sequence[Row], column: int, tolerance: float) -> bool:
    """Return whether two numbers of a column can only be near each other if they are equal: integers, and floats that small integers equal."""
    cells = (row[column] for row in rows if type(row[column]) is float)
    return all(cell.is_integer() and abs(cell) < 1 / tolerance for cell in cells)


def key_of(row: Row, loose: set[int]) -> str:
    """Return a text that rows share whose exact cells are equal; for each number in a loose column it has an infinity, which is never exact."""
    cells = [cell if not is_number(cell) else float("inf") if column in loose else int(cell) for column, cell in enumerate(row)]
    return json.dumps(cells, sort_keys=True)


def parts_match(sides: Sequence[Sequence[Row]], columns: Sequence[int], tolerance: float) -> bool:
    """Return whether the numbers in these columns of two equally long lists of rows can be paired within the tolerance."""
    numeric = [column for column in columns if is_number(sides[0][0][column])]
    parts = [(0, side, [row[column] for column in numeric]) for side, rows in enumerate(sides) for row in rows]
    for place in range(len(numeric)):
        parts = cut(parts, place, tolerance)
    for _, group in groupby(parts, lambda entry: entry[0]):
        members = [*group]
        left, right = ([numbers for side, numbers in ((m[1], m[2]) for m in members) if side == wanted] for wanted in (0, 1))
        if len(left) != len(right):
            return False
        for a, b in zip(zip(*left, strict=True), zip(*right, strict=True), strict=True):
            if not all(near(x, y, tolerance) for x, y in zip(sorted(a), sorted(b), strict=True)):
                return False
    return True


def cut(parts: Sequence[tuple[int, int, Row]], place: int, tolerance: float) -> list[tuple[int, int, Row]]:
    """Sort the rows of each part by one number, and begin a new part wherever it is not near the one before."""
    ordered = sorted(parts, key=lambda entry: (entry[0], entry[2][place]))
    found: list[tuple[int, int, Row]] = []
    number, before = 0, ordered[0]
    for entry in ordered:
        number += entry[0] != before[0] or not near(before[2][place], entry[2][place], tolerance)
        found.append((number, entry[1], entry[2]))
        before = entry
    return found


def row_difference(got: str, expected: str, *, in_order: bool) -> str:
    """Return in one line where the rows of an output differ from the expected ones."""
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
    known = {json.dumps(row) for row in right}
    return f"not expected: {next((shown(row) for row in left if json.dumps(row) not in known), 'the number of a duplicate')}"


def shown(row: Row) -> str:
    """Return the beginning of a row."""
    return json.dumps(row, ensure_ascii=False)[:SHOWN]
