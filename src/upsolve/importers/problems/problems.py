"""Helpers of the sources of published problem sets: splits, tests of inputs and outputs, recorded solutions."""

import ast
import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from upsolve.importers.formats import rows_of_file
from upsolve.importers.recogniser.code import sound_tests
from upsolve.importers.recogniser.failing import About, Compare
from upsolve.importers.rows import Row, build_each, left_out
from upsolve.importers.source import Option
from upsolve.types import Attempt, Status, Task, Verdict

__all__ = [
    "COMPARE",
    "as_list",
    "build_alone",
    "extra_of",
    "prompt_of",
    "recorded",
    "rest_of",
    "sections",
    "split_of",
    "uses_numpy",
    "with_sound_tests",
]


COMPARE = Option(
    "compare", Compare, "how outputs are compared: as the publisher's grader, contest (tokens, near numbers), or exact"
)

SPLITS = {"train": "train", "dev": "dev", "valid": "dev", "validation": "dev", "val": "dev", "test": "test"}
"""Word in the name of a file or folder -> split."""

NUMPY = re.compile(r"^[ \t]*(?:import\b[^\n]*\bnumpy\b|from[ \t]+numpy\b)", re.MULTILINE)


def split_of(file: Path) -> str:
    """Return the split that a word in the name of a file says, or else the name of its folder: train, dev, test; empty if neither does."""
    words = [*re.findall(r"[a-z]+", file.name.lower()), file.parent.name.lower()]
    return next((SPLITS[word] for word in words if word in SPLITS), "")


def build_alone(file: Path, build: Callable[[dict[str, Any]], Iterable[Row]]) -> Iterator[Row]:
    """Yield the records of a file's rows, as ``build_each`` does, but holding one row at a time: a row may have megabytes of tests."""
    for row in rows_of_file(file):
        yield from build_each(file, [row], build)


def extra_of(fields: Mapping[str, Any]) -> str:
    """Return the fields that hold something as JSON; an empty string if none does."""
    filled = {name: value for name, value in fields.items() if value not in (None, "", [], {})}
    return json.dumps(filled, default=str) if filled else ""


def rest_of(row: Mapping[str, Any], taken: Container[str], **more: Any) -> str:
    """Return ``extra_of`` the fields of a row that the record does not store, and of more fields."""
    return extra_of({**{name: value for name, value in row.items() if name not in taken}, **more})


def sections(fields: Mapping[str, Any], parts: Iterable[tuple[str, str]]) -> str:
    """Return the parts of a statement under their headings: pairs of heading and field; empty parts are left out."""
    texts = [(heading, str(fields.get(name) or "").strip()) for heading, name in parts]
    return "\n\n".join(f"{heading}\n\n{text}".strip() for heading, text in texts if text)


def as_list(value: Any) -> list[Any]:
    """Return a column's list, stored as a list, as JSON or as Python's repr; empty for null and empty text, else ValueError."""
    if value is None or value == "":
        return []
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = ast.literal_eval(value)
    if not isinstance(value, list | tuple):
        raise ValueError(f"a list was expected, not {str(value)[:60]!r}")
    return list(value)


def prompt_of(statement: str, starter: str) -> str:
    """Return a statement with the code to start from, if any."""
    statement = statement.strip()
    return f"{statement}\n\nComplete this code and give all of it:\n\n{starter.strip()}" if starter.strip() else statement


def uses_numpy(codes: Iterable[str]) -> tuple[str, ...]:
    """Return numpy as a required package if a program imports it: the graders provide no other package."""
    return ("numpy",) if any(NUMPY.search(code) for code in codes) else ()


def recorded(
    task: Task, codes: Iterable[str], status: Status, *, author: str = "", language: str = "python"
) -> Iterator[Attempt | Verdict]:
    """Yield recorded solutions with their outcome; empty ones are left out."""
    for code in codes:
        if code.strip():
            attempt = Attempt(task.task_id, code.replace("\r\n", "\n"), language, author)
            yield attempt
            yield Verdict(attempt.attempt_id, status, judge=f"recorded:{task.source}")


def with_sound_tests(task: Task) -> Iterator[Row]:
    """Yield the tests of a task in Python that cannot fail, and the task without them."""
    if task.language == "python":
        found = sound_tests(task.tests, About(task.entry_point, task.setup))
        yield from left_out(found.refused)
        task = replace(task, tests=found.tests) if found.refused else task
    yield task
