"""The peers' data -> tasks and programs."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NoReturn, cast

from upsolve.errors import SourceError
from upsolve.importers.known import KnownTasks
from upsolve.importers.tables.reader import FIELDS, Reader
from upsolve.records import from_row
from upsolve.types import Task

__all__ = ["task_of", "task_of_truth", "text_of_answer"]

CELLS = frozenset({*FIELDS}) - {"code", "answer", "id", "parent"}
"""Columns of a row that describe its task."""


def text_of_answer(completion: Any) -> str:
    """Return the text of a completion: text, or the last message of the assistant in a list of messages.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(completion, str):
        return completion
    messages = [one for one in completion or () if isinstance(one, Mapping) and one.get("role", "assistant") == "assistant"]
    if not messages:
        raise ValueError(f"a completion must be text or messages with one of the assistant, not {str(completion)[:80]!r}")
    content = messages[-1].get("content") or ""
    parts = [content] if isinstance(content, str) else [str(part.get("text", "")) for part in content]
    return "".join(parts)


def task_of(row: Mapping[str, Any], known: KnownTasks | None = None) -> Task:
    """Return the task of a row of a data set.

    Args:
        row: a record of upsolve as JSON in ``task``; or ``task_id`` of a known task; or ``tests`` (asserts, ``{"inputs", "outputs"[, "fn_name"]}`` or
            tests as in upsolve's JSONL) with further fields of a task such as ``entry_point``, ``language`` and ``setup``.
        known: tasks by id.

    Raises:
        SourceError: the row has none of these; names its columns, or the id that is not known.
    """
    record = row.get("task")
    if isinstance(record, Mapping) or (isinstance(record, str) and record.lstrip().startswith("{")):
        return task_of_json(record if isinstance(record, str) else json.dumps(record))
    name, tests = str(row.get("task_id") or ""), row.get("tests")
    if name and known and known.tasks:
        try:
            found = known.named(name)
        except ValueError as error:
            raise SourceError(str(error)) from error
        if found or tests is None:
            return found or refuse(f"no task {name!r} among the {len(known.tasks)} given, such as {known.tasks[0].task_id!r}")
    if tests is None:
        refuse(
            f"a row needs a column task, tests, or task_id of a known task; its columns are {', '.join(sorted(row)) or 'none'}"
        )
    cells = {key: value for key, value in row.items() if key in CELLS and value is not None}
    cells.setdefault("prompt", "")
    return task_of_cells(json.dumps(cells, sort_keys=True))


def task_of_truth(ground_truth: Any, about: Mapping[str, Any], known: KnownTasks | None = None) -> Task:
    """Return the task of a row with ``ground_truth``, as verl and SkyRL have it.

    Args:
        ground_truth: the tests, JSON or not: ``{"inputs", "outputs"[, "fn_name"]}``, ``{"assert_case"}`` or ``{"tests"}``.
        about: other columns; ``task``, or ``task_id`` of a known task, decides if it is there.
        known: tasks by id.

    Raises:
        SourceError: as ``task_of``, or the ground truth is not JSON.
    """
    if about.get("task") or (about.get("task_id") and known and known.tasks):
        return task_of(about, known)
    try:
        tests = json.loads(ground_truth) if isinstance(ground_truth, str) else ground_truth
    except ValueError as error:
        raise SourceError(f"ground_truth: is not JSON: {ground_truth[:80]!r}") from error
    if isinstance(tests, Mapping):
        tests = tests.get("assert_case", tests.get("tests", tests))
    fields = {name: about[name] for name in ("entry_point", "language") if about.get(name)}
    return task_of({**fields, "tests": tests})


def refuse(problem: str) -> NoReturn:
    """Raise SourceError."""
    raise SourceError(problem)


@lru_cache(maxsize=65536)
def task_of_json(text: str) -> Task:
    """Return the task of a record as JSON."""
    try:
        return from_row(Task, cast("dict[str, Any]", json.loads(text)))
    except (TypeError, ValueError) as error:
        raise SourceError(f"column task: is not a task as JSON: {error}: {text[:80]!r}") from error


@lru_cache(maxsize=65536)
def task_of_cells(text: str) -> Task:
    """Return the task of the fields of a row."""
    cells: dict[str, Any] = json.loads(text)
    try:
        return Reader({name: name for name in cells}, "row", {}).task(cells)
    except (TypeError, ValueError) as error:
        raise SourceError(f"column tests: {error}: {str(cells['tests'])[:80]!r}") from error
