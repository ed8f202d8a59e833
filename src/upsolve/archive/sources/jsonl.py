"""Our own JSONL: one record a line, ``{"kind": "task" | "attempt" | "verdict", ...}`` with the fields of types.py."""

import json
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from upsolve.archive.rows import Row, build_each, json_lines
from upsolve.archive.schema import from_row
from upsolve.archive.store import Archive
from upsolve.types import Attempt, Task, Verdict

__all__ = ["read", "record_of", "write"]

KINDS = {"task": ("tasks", Task), "attempt": ("attempts", Attempt), "verdict": ("verdicts", Verdict)}
BLANK = {"tests": [], "outcomes": [], "findings": []}


def read(path: Path) -> Iterator[Row]:
    """Yield the records of a file."""
    return build_each(path, json_lines(path), lambda row: [record_of(row)])


def record_of(row: dict[str, Any]) -> Row:
    """Build a record; unknown fields are errors, those that are not given get their defaults."""
    given = dict(row)
    table, kind = KINDS[given.pop("kind")]
    names = {field.name for field in fields(kind)}
    if unknown := given.keys() - names:
        raise ValueError(f"unknown fields {sorted(unknown)}")
    if table == "tasks":
        given["tests"] = [{"expected": "", "hidden": False, **test} for test in given.get("tests", [])]
    blank = {name: value for name, value in BLANK.items() if name in names}
    return from_row[table](complete(kind, blank | given))


def complete(kind: type, row: dict[str, object]) -> dict[str, object]:
    """Fill in the defaults of fields that are not given."""
    from dataclasses import MISSING

    return {f.name: f.default for f in fields(kind) if f.default is not MISSING and f.default != ()} | row


def write(archive: Archive, path: Path) -> int:
    """Write a whole archive; returns the number of records."""
    count = 0
    with path.open("w", encoding="utf-8") as out:
        for kind, records in (("task", archive.tasks()), ("attempt", archive.attempts()), ("verdict", archive.verdicts())):
            for record in records:
                out.write(json.dumps({"kind": kind, **asdict(record)}) + "\n")
                count += 1
    return count
