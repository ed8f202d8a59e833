"""Importer for MBPP (2108.07732): mbpp.jsonl, or sanitized-mbpp.json."""

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.benchmarks.asserts import Names, names_bound, names_read, parse_asserts
from upsolve.importers.problems.problems import with_sound_tests
from upsolve.importers.rows import BadRow, Row, build_each, json_lines
from upsolve.importers.source import Option, Source
from upsolve.types import Attempt, Task

__all__ = ["SOURCE", "mbpp_split", "read", "task_of"]

CALLED = re.compile(r"(\w+)\s*\(")


def mbpp_split(number: int) -> str:
    """Return the published split of a task: test (11-510), dev (511-600), train (601-974, and the ten meant for few-shot prompts)."""
    return "test" if 10 < number <= 510 else "dev" if 510 < number <= 600 else "train"


def read(path: Path, *, references: int = 0) -> Iterator[Row]:
    """Yield the tasks of a file; with ``references`` 1 also the reference of each as an attempt, without a verdict."""
    return build_each(path, rows(path), partial(records_of, references=references > 0))


def records_of(row: dict[str, Any], *, references: bool) -> Iterator[Row]:
    """Yield the records of a row."""
    task = task_of(row)
    yield from with_sound_tests(task)
    if references:
        yield Attempt(task.task_id, task.reference, author="reference")


def rows(path: Path) -> Iterator[tuple[int, dict[str, Any] | BadRow]]:
    """Yield the rows of a JSON or JSONL file."""
    if path.suffix != ".json":
        yield from json_lines(path)
        return
    try:
        yield from enumerate(json.loads(path.read_text(encoding="utf-8")), start=1)
    except (OSError, ValueError) as error:
        raise SourceError(f"{path}: cannot be read: {error}") from error


def task_of(row: dict[str, Any]) -> Task:
    """Build a task; the three asserts are visible tests, shown in the prompt as usual for MBPP."""
    asserts, prompt = row["test_list"], row.get("text") or row["prompt"]
    if not isinstance(prompt, str) or not isinstance(asserts, list):
        raise ValueError("text (or prompt) is not a text, or test_list not a list")
    asserts = [str(test) for test in asserts]
    setup = row.get("test_setup_code") or "\n".join(row.get("test_imports", []))
    defined = names_bound(str(row["code"]))
    if names_read(setup) & defined:  # objects of a class that the attempt defines: they are made after the attempt
        asserts, setup = [f"{setup.strip()}\n{test}" for test in asserts], ""
    entry_point = next((name for test in asserts for name in CALLED.findall(test) if name in defined), "")
    tests = parse_asserts(asserts, names=Names(frozenset({entry_point}), names_bound(setup)))
    return Task(
        task_id=f"mbpp/{row['task_id']}",
        prompt=prompt,
        tests=tests,
        entry_point=entry_point,
        source="mbpp",
        official=True,
        reference=str(row["code"]).replace("\r\n", "\n"),
        setup=setup,
        extra=json.dumps({"split": mbpp_split(int(row["task_id"]))}),
    )


SOURCE = Source(
    read,
    "mbpp.jsonl or sanitized-mbpp.json",
    (Option("references", int, "1: the reference of each task is an attempt, too, for `upsolve verify` (default: 0)"),),
)
