"""Importer for TACO (2312.14852): its files on the Hub (.arrow, .parquet) or JSON lines."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from upsolve.importers.problems.problems import (
    COMPARE,
    Compare,
    as_list,
    extra_of,
    json_value,
    of_outputs,
    prompt_of,
    recorded,
    split_of,
    uses_numpy,
)
from upsolve.importers.rows import BadRow, Row, build_each, data_files, rows_of_file
from upsolve.importers.source import Source
from upsolve.types import Status, Task

__all__ = ["SOURCE", "read"]

LISTS = ("raw_tags", "tags", "skill_types")
TAKEN = ("number", "question", "solutions", "starter_code", "input_output", "difficulty")


def read(path: Path, *, compare: Compare = Compare.CONTEST) -> Iterator[Row]:
    """Yield tasks and the solutions of people, which are recorded as correct."""
    numbers: dict[str, int] = {}
    for file in data_files(path):
        split = split_of(file)
        for number, row in rows_of_file(file):
            numbers[split] = numbers.get(split, -1) + 1
            placed = row if isinstance(row, BadRow) else {**row, "number": numbers[split]}
            yield from build_each(file, [(number, placed)], partial(records_of, split=split, compare=compare))


def records_of(row: Mapping[str, Any], *, split: str, compare: Compare) -> Iterator[Row]:
    """Yield the task of a row and its solutions; ``number`` is its index in the split."""
    starter, solutions = str(row.get("starter_code") or ""), [str(code) for code in as_list(row.get("solutions"))]
    lists = {name: as_list(row.get(name)) for name in LISTS}
    difficulty = str(row.get("difficulty") or "")
    task = Task(
        task_id=f"taco/{split or 'all'}/{row['number']}",
        prompt=prompt_of(str(row["question"]), starter),
        difficulty="" if difficulty == "UNKNOWN_DIFFICULTY" else difficulty.lower(),
        source="taco",
        reference=solutions[0] if solutions else "",
        requires=uses_numpy(solutions),
        extra=extra_of(
            {**{name: row[name] for name in row if name not in TAKEN}, **lists, "split": split, "starter_code": starter}
        ),
        **of_outputs("", json_value(row.get("input_output") or "{}"), starter, *solutions[:1], compare=compare),
    )
    yield task
    yield from recorded(task, solutions, Status.PASSED, author="human")


SOURCE = Source(read, "a folder or file of TACO's rows (.arrow, .parquet, .jsonl)", (COMPARE,))
