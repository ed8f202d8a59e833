"""Our own JSONL: one record a line, ``{"kind": "task" | "attempt" | "verdict", ...}`` with the fields of types.py."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from upsolve.archive.rows import Row, build_each, json_lines
from upsolve.archive.store import Archive
from upsolve.records import KINDS, from_row, to_row

__all__ = ["read", "write"]


def read(path: Path) -> Iterator[Row]:
    """Yield the records of a file."""
    return build_each(path, json_lines(path), lambda row: [record_of(row)])


def record_of(row: dict[str, Any]) -> Row:
    """Return the record of a row; unknown fields are errors, absent ones get their defaults."""
    kind = str(row.get("kind"))
    if kind not in KINDS:
        raise ValueError(f"kind is {kind}, it must be one of {', '.join(KINDS)}")
    return from_row(KINDS[kind], {name: value for name, value in row.items() if name != "kind"})


def write(archive: Archive, path: Path) -> int:
    """Write a whole archive; returns the number of records."""
    count = 0
    with path.open("w", encoding="utf-8") as out:
        for kind, records in (("task", archive.tasks()), ("attempt", archive.attempts()), ("verdict", archive.verdicts())):
            for record in records:
                out.write(json.dumps({"kind": kind, **to_row(record)}) + "\n")
                count += 1
    return count
