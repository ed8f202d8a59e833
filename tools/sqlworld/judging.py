"""A small judge: run a query in SQLite against databases, and compare its rows with the expected ones."""

import json
import sqlite3
from collections.abc import Sequence
from math import isclose
from typing import Any

from upsolve.types import Status

__all__ = ["Answer", "answer", "compare", "text_of"]

MOST_ROWS = 10_000
STEPS = 2_000_000
"""Largest number of SQLite virtual machine instructions for one query."""
UNPARSED = ("syntax error", "unrecognized token", "incomplete input", "one statement")

Answer = list[tuple[Any, ...]] | sqlite3.Error
"""Rows, or the error."""


def answer(connection: sqlite3.Connection, query: str) -> Answer:
    """Return the rows of a query, or its error."""
    connection.set_progress_handler(lambda: 1, STEPS)
    try:
        return connection.execute(query).fetchmany(MOST_ROWS)
    except (sqlite3.Error, sqlite3.Warning) as error:
        return error if isinstance(error, sqlite3.Error) else sqlite3.ProgrammingError(str(error))


def compare(got: Answer, expected: Sequence[tuple[Any, ...]], *, ordered: bool) -> Status:
    """Return the outcome: equal rows, as a sequence or as a bag, numbers within 1e-6."""
    if isinstance(got, sqlite3.Error):
        return Status.COMPILE_ERROR if any(word in str(got) for word in UNPARSED) else Status.RUNTIME_ERROR
    if len(got) != len(expected):
        return Status.FAILED
    left, right = (list(rows) if ordered else sorted(rows, key=sorting) for rows in (got, expected))
    equal = all(len(a) == len(b) and all(map(same, a, b)) for a, b in zip(left, right, strict=True))
    return Status.PASSED if equal else Status.FAILED


def sorting(row: tuple[Any, ...]) -> list[tuple[str, Any]]:
    """Return a key by which rows of mixed types are sorted; numbers are rounded, so that near ones come together."""
    return [("", "") if cell is None else ("1", cell) if isinstance(cell, str) else ("0", round(cell, 5)) for cell in row]


def same(got: Any, expected: Any) -> bool:
    """Return whether two cells are equal."""
    if isinstance(got, int | float) and isinstance(expected, int | float):
        return isclose(got, expected, rel_tol=1e-6, abs_tol=1e-6)
    return type(got) is type(expected) and got == expected


def text_of(rows: Sequence[tuple[Any, ...]]) -> str:
    """Return rows as tests hold them: one JSON array a line."""
    return "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)
