"""What a reader of a source gives."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.types import Attempt, Task, Verdict

__all__ = ["BadRow", "Row", "build_each", "json_lines"]


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be used: counted, named, kept aside."""

    file: str
    """Where it is."""
    line: int
    """Line or row, from 1."""
    reason: str
    """What is wrong."""
    text: str
    """Its first 500 characters."""


Row = Task | Attempt | Verdict | BadRow


def json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any] | BadRow]]:
    """Yield the objects of a .jsonl file (.gz too), bad lines as ``BadRow``.

    Raises:
        SourceError: the file is not there or cannot be read.
    """
    import gzip

    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                    if not isinstance(row, dict):
                        raise ValueError("not an object")
                    yield number, row
                except ValueError as error:
                    yield number, BadRow(str(path), number, str(error), line[:500])
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise SourceError(f"{path}: cannot be read: {error}") from error


def build_each(
    file: Path, rows: Iterable[tuple[int, dict[str, Any] | BadRow]], build: Callable[[dict[str, Any]], Iterable[Row]]
) -> Iterator[Row]:
    """Yield what ``build`` makes of each row; a row it cannot use becomes a ``BadRow`` with the reason, and the rest goes on."""
    for number, row in rows:
        if isinstance(row, BadRow):
            yield row
            continue
        try:
            made = list(build(row))
        except (KeyError, SyntaxError, TypeError, ValueError) as error:
            made = [BadRow(str(file), number, f"{type(error).__name__}: {error}", str(row)[:500])]
        yield from made
