"""Rows that a source yields, and readers of JSON lines."""

import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.records import checked
from upsolve.types import Attempt, Task, Verdict

__all__ = ["ODD", "BadRow", "Row", "build_each", "json_lines"]


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be used; the import counts it and stores it with its reason."""

    file: str
    """File that it comes from."""
    line: int
    """Line or row, from 1."""
    reason: str
    """Reason."""
    text: str
    """Its first 500 characters."""


ODD = (ArithmeticError, AttributeError, LookupError, RecursionError, SyntaxError, TypeError, ValueError)
"""Exceptions that a reader may raise on values of an unexpected type or form."""

Row = Task | Attempt | Verdict | BadRow


def json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any] | BadRow]]:
    """Yield the objects of a .jsonl file (.gz too), bad lines as ``BadRow``.

    Raises:
        SourceError: the file does not exist or cannot be read.
    """
    import gzip

    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield number, json_line(path, number, line)
    except (OSError, EOFError, zlib.error) as error:
        raise SourceError(f"{path}: cannot be read: {error}") from error


def json_line(path: Path, number: int, line: bytes) -> dict[str, Any] | BadRow:
    """Return the JSON object of a line, or a ``BadRow`` with the reason."""
    try:
        row = json.loads(line)
        if not isinstance(row, dict):
            raise ValueError("the line is not a JSON object")
    except (ValueError, RecursionError) as error:
        return BadRow(str(path), number, str(error), line[:500].decode("utf-8", "replace"))
    return row


def build_each(
    file: Path, rows: Iterable[tuple[int, dict[str, Any] | BadRow]], build: Callable[[dict[str, Any]], Iterable[Row]]
) -> Iterator[Row]:
    """Yield the records that ``build`` returns for each row; a row for which it raises becomes a ``BadRow`` with the reason."""
    for number, row in rows:
        if isinstance(row, BadRow):
            yield row
            continue
        try:
            records = [record if isinstance(record, BadRow) else checked(record) for record in build(row)]
        except ODD as error:
            name = "" if type(error) is ValueError else f"{type(error).__name__}: "
            records = [BadRow(str(file), number, f"{name}{error}", str(row)[:500])]
        yield from records
