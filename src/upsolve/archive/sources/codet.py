"""Samples of CodeGen-16B on HumanEval, as published with CodeT (2207.10397): no outcomes are recorded."""

from collections.abc import Iterator
from pathlib import Path

from upsolve.archive.rows import BadRow, Row, json_lines
from upsolve.archive.sources.humaneval import task_of
from upsolve.errors import SourceError
from upsolve.types import Attempt, Task

__all__ = ["read"]

AUTHOR = "codegen-16b"


def read(path: Path) -> Iterator[Row]:
    """Yield tasks and attempts of a folder; the rows of samples are joined to the tasks on the prompt."""
    tasks_file = path / "HumanEval_for_code_generation.jsonl"
    sample_files = sorted(set(path.glob("*_code_solution.jsonl")) - {tasks_file})
    if not sample_files:
        raise SourceError(f"{path}: no *_code_solution.jsonl here")
    by_prompt: dict[str, Task] = {}
    for number, row in json_lines(tasks_file):
        if isinstance(row, BadRow):
            yield row
            continue
        try:
            by_prompt[row["prompt"].strip()] = task = task_of(row)
            yield task
        except (KeyError, SyntaxError) as error:
            yield BadRow(str(tasks_file), number, f"{type(error).__name__}: {error}", str(row)[:500])
    for file in sample_files:
        yield from attempts_of(file, by_prompt)


def attempts_of(file: Path, by_prompt: dict[str, Task]) -> Iterator[Row]:
    """Yield the attempts of one file."""
    for number, row in json_lines(file):
        if isinstance(row, BadRow):
            yield row
            continue
        task = by_prompt.get(str(row.get("prompt", "")).strip())
        if task is None:
            yield BadRow(str(file), number, "no task has this prompt", str(row)[:500])
            continue
        for sample in row.get("samples", []):
            yield Attempt(task.task_id, row["prompt"] + sample, author=AUTHOR)
