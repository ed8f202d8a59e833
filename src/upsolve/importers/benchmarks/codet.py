"""Importer for the samples of CodeGen-16B on HumanEval published with CodeT (2207.10397); they have no recorded outcomes."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.benchmarks.humaneval import task_of
from upsolve.importers.problems.problems import with_sound_tests
from upsolve.importers.rows import Row, build_each, json_lines
from upsolve.importers.source import Source
from upsolve.types import Attempt, Task

__all__ = ["SOURCE", "read"]

AUTHOR = "codegen-16b"


def read(path: Path) -> Iterator[Row]:
    """Yield tasks and attempts of a folder; samples are matched to tasks by their prompt.

    Raises:
        SourceError: the folder has no file of samples.
    """
    tasks_file = path / "HumanEval_for_code_generation.jsonl"
    sample_files = sorted(set(path.glob("*_code_solution.jsonl")) - {tasks_file})
    if not sample_files:
        raise SourceError(f"{path}: contains no *_code_solution.jsonl")
    by_prompt: dict[str, Task] = {}
    yield from build_each(tasks_file, json_lines(tasks_file), partial(keep_task, by_prompt=by_prompt))
    for file in sample_files:
        yield from build_each(file, json_lines(file), partial(attempts_of, by_prompt=by_prompt))


def keep_task(row: dict[str, Any], *, by_prompt: dict[str, Task]) -> list[Row]:
    """Return the task of a row, and add it to ``by_prompt``."""
    by_prompt[row["prompt"].strip()] = task = task_of(row)
    return [*with_sound_tests(task)]


def attempts_of(row: dict[str, Any], *, by_prompt: dict[str, Task]) -> list[Row]:
    """Return the attempts of a row."""
    task = by_prompt.get(str(row.get("prompt", "")).strip())
    if task is None:
        raise ValueError("no task has this prompt")
    return [Attempt(task.task_id, row["prompt"] + sample, author=AUTHOR) for sample in row.get("samples", [])]


SOURCE = Source(read, "a folder with *_code_solution.jsonl")
