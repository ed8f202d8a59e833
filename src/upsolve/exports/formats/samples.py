"""Sample files of EvalPlus and of HumanEval's own harness, and records as JSON lines."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from upsolve.exports.record import TEXT, Column, Export, LeftOut, Place
from upsolve.records import KINDS, to_row
from upsolve.types import Attempt, Group, Task, Verdict

__all__ = ["EVALPLUS", "HUMAN_EVAL", "JSONL", "benchmark_id"]

PREFIXES = {"humaneval": "HumanEval", "mbpp": "Mbpp"}
"""Benchmark, as in the ids of tasks -> first part of their ids in the files of both tools."""
TASK_ID = re.compile(r"(?:^|/)(humaneval|mbpp)\+?/(\d+)$", re.IGNORECASE)


def benchmark_id(task_id: str, benchmarks: Sequence[str]) -> str:
    """Return the id that EvalPlus and human-eval give a task: ``HumanEval/0`` for ``humaneval/0`` and ``ldb/humaneval/0``.

    Args:
        task_id: id of the task.
        benchmarks: those that the format holds; a task of no such benchmark has the id "".
    """
    found = TASK_ID.search(task_id)
    return f"{PREFIXES[found[1].lower()]}/{found[2]}" if found and found[1].lower() in benchmarks else ""


def as_solution(attempt: Attempt) -> str:
    """Return the whole program."""
    return attempt.code


def as_completion(attempt: Attempt) -> str:
    """Return text that continues the prompt of HumanEval: the whole program, which defines the function of the prompt again."""
    return f"\n{attempt.code}"


def sample_columns(*, name: str) -> tuple[Column, ...]:
    """Return the columns of a sample file."""
    return (Column("task_id", TEXT, "id of the task in the benchmark"), Column(name, TEXT, "program"))


def sample_rows(
    group: Group, _place: Place, *, name: str, text: Callable[[Attempt], str], benchmarks: tuple[str, ...]
) -> Iterator[Mapping[str, str] | LeftOut]:
    """Yield a row for every occurrence of every attempt, judged or not; attempts at other tasks are left out."""
    task_id = benchmark_id(group.task.task_id, benchmarks)
    for attempt in group.attempts:
        if task_id:
            yield from [{"task_id": task_id, name: text(attempt)}] * attempt.count
        else:
            yield LeftOut(f"attempts: no task of {' or '.join(PREFIXES[name] for name in benchmarks)}", attempt.count)


EVALPLUS = Export(
    partial(sample_rows, name="solution", text=as_solution, benchmarks=("humaneval", "mbpp")),
    partial(sample_columns, name="solution"),
    "attempts",
    "one row for each sample of HumanEval or MBPP: task_id, solution",
    "file",
)
HUMAN_EVAL = Export(
    partial(sample_rows, name="completion", text=as_completion, benchmarks=("humaneval",)),
    partial(sample_columns, name="completion"),
    "attempts",
    "one row for each sample of HumanEval: task_id, completion",
    "file",
)


NAMES = {kind: name for name, kind in KINDS.items()}


def columns() -> tuple[Column, ...]:
    """Return the columns: all records share the first one."""
    return (Column("kind", TEXT, "task, attempt or verdict"),)


def rows(record: Task | Attempt | Verdict, _place: Place) -> Iterator[Mapping[str, Any]]:
    """Yield the line of a record."""
    yield {"kind": NAMES[type(record)], **to_row(record)}


JSONL = Export(rows, columns, "record", "one row for each record of upsolve; `upsolve ingest jsonl` reads it back", "file")
