"""Importers of contest problems with their tests and submissions, and helpers of the sources of published problem sets."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from upsolve.importers.recogniser.code import sound_tests
from upsolve.importers.recogniser.failing import About
from upsolve.importers.rows import Row, as_json, left_out
from upsolve.types import Attempt, Status, Task, Verdict

__all__ = ["extra_of", "judged", "prompt_of", "rest_of", "sections", "split_of", "with_sound_tests"]

SPLITS = {"train": "train", "dev": "dev", "valid": "dev", "validation": "dev", "val": "dev", "test": "test"}
"""Word in the name of a file or folder -> split."""


def split_of(file: Path) -> str:
    """Return the split that a word in the name of a file, or else of its folder, states: train, dev, test; empty if neither does."""
    words = [*re.findall(r"[a-z]+", file.name.lower()), file.parent.name.lower()]
    return next((SPLITS[word] for word in words if word in SPLITS), "")


def extra_of(fields: Mapping[str, Any]) -> str:
    """Return the non-empty fields as JSON; an empty string if all are empty."""
    filled = {name: value for name, value in fields.items() if value not in (None, "", [], {})}
    return as_json(filled) if filled else ""


def rest_of(row: Mapping[str, Any], taken: Container[str], **more: Any) -> str:
    """Return ``extra_of`` those fields of a row that the record does not store, and of further fields."""
    return extra_of({**{name: value for name, value in row.items() if name not in taken}, **more})


def sections(fields: Mapping[str, Any], parts: Iterable[tuple[str, str]]) -> str:
    """Return the parts of a statement under their headings: pairs of heading and field; empty parts are left out."""
    texts = [(heading, str(fields.get(name) or "").strip()) for heading, name in parts]
    return "\n\n".join(f"{heading}\n\n{text}".strip() for heading, text in texts if text)


def prompt_of(statement: str, starter: str) -> str:
    """Return a statement with the starter code, if any."""
    statement = statement.strip()
    return f"{statement}\n\nComplete this code and give all of it:\n\n{starter.strip()}" if starter.strip() else statement


def judged(attempt: Attempt, status: Status, judge: str, **outcome: Any) -> Iterator[Row]:
    """Yield an attempt and its recorded verdict; further fields are those of the verdict."""
    yield attempt
    yield Verdict(attempt.attempt_id, status, judge=judge, **outcome)


def with_sound_tests(task: Task) -> Iterator[Row]:
    """Yield the tests of a Python task that cannot fail, then the task without these."""
    if task.language == "python":
        found = sound_tests(task.tests, About(task.entry_point, task.setup))
        yield from left_out(found.refused)
        task = replace(task, tests=found.tests) if found.refused else task
    yield task
