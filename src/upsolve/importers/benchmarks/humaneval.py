"""Importer for HumanEval (2107.03374): HumanEval.jsonl or .jsonl.gz."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from upsolve.importers.problems.problems import with_sound_tests
from upsolve.importers.recogniser.code import check_tests
from upsolve.importers.rows import Row, build_each, json_lines
from upsolve.importers.source import Source
from upsolve.types import Task

__all__ = ["INSTRUCTION", "SOURCE", "read", "task_of"]

INSTRUCTION = "Complete this Python function and give all of it:\n\n"
"""Precedes the signature with its docstring in a prompt."""


def read(path: Path) -> Iterator[Row]:
    """Yield the tasks of a file."""
    return build_each(path, json_lines(path), records_of)


def records_of(row: dict[str, Any]) -> Iterator[Row]:
    """Yield the task of a row, without tests that cannot fail."""
    return with_sound_tests(task_of(row))


def task_of(row: dict[str, Any]) -> Task:
    """Build a task: the prompt is the signature with its docstring, an attempt is the complete function."""
    return Task(
        task_id=f"humaneval/{str(row['task_id']).rpartition('/')[2]}",
        prompt=INSTRUCTION + row["prompt"].rstrip(),
        tests=check_tests(row["test"], row["entry_point"]),
        entry_point=row["entry_point"],
        source="humaneval",
        official=True,
        reference=row["prompt"] + row["canonical_solution"],
    )


SOURCE = Source(read, "HumanEval.jsonl or HumanEval.jsonl.gz")
