"""upsolve's own JSON lines, which `upsolve ingest jsonl` reads back."""

from collections.abc import Iterator, Mapping
from typing import Any

from upsolve.exports.columns import TEXT
from upsolve.exports.record import Column, Export, Place
from upsolve.records import KINDS, to_row
from upsolve.types import Attempt, Task, Verdict

__all__ = ["JSONL"]

NAMES = {kind: name for name, kind in KINDS.items()}


def columns() -> tuple[Column, ...]:
    """Return the field that all records have; the others are those of the record."""
    return (Column("kind", TEXT, "task, attempt or verdict"),)


def rows(record: Task | Attempt | Verdict, _place: Place) -> Iterator[Mapping[str, Any]]:
    """Yield the line of a record."""
    yield {"kind": NAMES[type(record)], **to_row(record)}


JSONL = Export(rows, columns, "record", "one row for each record of upsolve; `upsolve ingest jsonl` reads it back", "file")
