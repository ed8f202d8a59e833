"""Importer for the attempts of three model families on MBPP and HumanEval published with LDB (2402.16906), with their outcomes."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.benchmarks.humaneval import INSTRUCTION
from upsolve.importers.problems.problems import with_sound_tests
from upsolve.importers.recogniser.code import check_tests
from upsolve.importers.rows import Row, build_each, json_lines
from upsolve.importers.source import Source
from upsolve.types import Attempt, Status, Task, Verdict

__all__ = ["SOURCE", "read"]

JUDGE = "recorded:ldb"


def read(path: Path) -> Iterator[Row]:
    """Yield tasks, attempts and verdicts of a folder with seed_*.jsonl and debug_*.jsonl.

    Raises:
        SourceError: the folder has no such file.
    """
    files = [file for kind in ("seed", "debug") for file in sorted(path.glob(f"{kind}_*.jsonl"))]
    if not files:
        raise SourceError(f"{path}: contains no seed_*.jsonl or debug_*.jsonl")
    task_ids: set[str] = set()
    for file in files:
        yield from build_each(
            file, json_lines(file), partial(records_of, author=file.stem.partition("_")[2], task_ids=task_ids)
        )


def records_of(row: dict[str, Any], *, author: str, task_ids: set[str]) -> list[Row]:
    """Return the records of a row; the task only if its id is not in ``task_ids``, to which it is added."""
    task = task_of(row)
    records: list[Row] = [*([] if task.task_id in task_ids else with_sound_tests(task)), *attempts_of(row, task, author)]
    task_ids.add(task.task_id)
    return records


def task_of(row: dict[str, Any]) -> Task:
    """Build a task; its id starts with ``ldb/``, because prompt and tests differ from those of MBPP and HumanEval."""
    name = str(row["task_id"]).lower()
    return Task(
        task_id=f"ldb/{name}",
        prompt=INSTRUCTION + row["prompt"].rstrip(),
        tests=check_tests(row["test"].replace(f"check({row['entry_point']})\n", ""), row["entry_point"]),
        entry_point=row["entry_point"],
        source="ldb",
        official=True,
        reference=row["prompt"] + row["canonical_solution"] if name.startswith("humaneval") else row["canonical_solution"],
    )


def attempts_of(row: dict[str, Any], task: Task, author: str) -> list[Attempt | Verdict]:
    """Return the chain of repairs, if any, and the final attempt with its recorded outcome."""
    chain = [code for code in row.get("implementations", []) if isinstance(code, str)]
    codes = [*[code for code in chain if code != row["solution"]], row["solution"]]
    records: list[Attempt | Verdict] = []
    parent = ""
    for code in codes:
        attempt = Attempt(task.task_id, code, author=author, parent_id=parent)
        parent = attempt.attempt_id
        records.append(attempt)
    status = Status.PASSED if row["is_solved"] else Status.FAILED
    return [*records, Verdict(parent, status, judge=JUDGE)]


SOURCE = Source(read, "a folder with seed_*.jsonl and debug_*.jsonl")
