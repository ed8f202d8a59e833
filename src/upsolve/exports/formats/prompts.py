"""Prompts with their tests, from which verl and OpenRLHF sample online."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from upsolve.exports.record import (
    CHAT,
    LICENCE_OF_TASK,
    OF_TASK,
    TEXT,
    WHOLE,
    Column,
    Export,
    Form,
    Place,
    completion_of,
    licence_of,
    prompt_of,
    task_values,
)
from upsolve.importers.source import Option
from upsolve.languages.names import same_language
from upsolve.records import to_row
from upsolve.types import Attempt, Task, TestCase, TestKind

__all__ = ["OPENRLHF", "VERL"]

ABILITY = "code"
DATA_SOURCE = Option("data_source", str, "name of the reward in verl for every row; default: the source of each task")
ABOUT = (*OF_TASK, LICENCE_OF_TASK)
EXTRA = pa.struct([("split", TEXT), ("index", WHOLE), *((column.name, column.type) for column in ABOUT), ("task", TEXT)])


def about(task: Task) -> dict[str, Any]:
    """Return the values of ``ABOUT``."""
    return task_values(task) | {LICENCE_OF_TASK.name: licence_of(task)}


def verl_columns(data_source: str = "") -> tuple[Column, ...]:
    """Return the columns of ``verl``."""
    del data_source
    style = pa.struct([("style", TEXT), ("ground_truth", TEXT)])
    return (
        Column("data_source", TEXT, "name by which verl chooses a reward"),
        Column("prompt", CHAT, "chat messages"),
        Column("ability", TEXT, ABILITY),
        Column("reward_model", style, "style: rule; ground_truth: the tests as JSON (docs/importing.md)"),
        Column(
            "extra_info",
            EXTRA,
            "split, number of the row, the task's columns; task: the whole record as JSON, for upsolve's judge",
        ),
    )


def verl_rows(task: Task, place: Place, *, data_source: str = "") -> Iterator[Mapping[str, Any]]:
    """Yield the row of a task."""
    yield {
        "data_source": data_source or task.source or "upsolve",
        "prompt": prompt_of(task, Form.CONVERSATIONAL, place),
        "ability": ABILITY,
        "reward_model": {"style": "rule", "ground_truth": json.dumps(ground_truth(task))},
        "extra_info": {"split": place.split, "index": place.index, **about(task), "task": json.dumps(to_row(task))},
    }


def ground_truth(task: Task) -> dict[str, Any]:
    """Return the tests of a task as verl's scorers of code read them.

    ``{"inputs": [...], "outputs": [...]}`` for programs that read standard input, ``{"assert_case": [...]}`` for Python functions, and the
    tests as in upsolve's JSONL for all others, which only upsolve's judge reads.
    """
    kinds = {test.kind for test in task.tests}
    if kinds == {TestKind.STDIO}:
        return {"inputs": [test.input for test in task.tests], "outputs": [test.expected for test in task.tests]}
    if kinds and kinds <= {TestKind.CALL, TestKind.CODE} and same_language(task.language, "python"):
        return {"assert_case": [assertion(task, test) for test in task.tests]}
    return {"tests": to_row(task)["tests"]}


def assertion(task: Task, test: TestCase) -> str:
    """Return a test as statements that raise an exception on failure, after the task's trusted set-up."""
    statement = f"assert {test.input} == {test.expected}" if test.kind is TestKind.CALL else test.input
    return f"{task.setup}\n{statement}".lstrip("\n")


def openrlhf_columns() -> tuple[Column, ...]:
    """Return the columns of ``openrlhf``."""
    return (
        Column("input", CHAT, "chat messages, for --data.apply_chat_template"),
        Column("output", CHAT, "the task's reference solution; empty if it has none"),
        Column("label", TEXT, "the task as JSON, for upsolve's judge"),
        Column("datasource", TEXT, "source of the task"),
        *ABOUT,
    )


def openrlhf_rows(task: Task, place: Place) -> Iterator[Mapping[str, Any]]:
    """Yield the row of a task."""
    reference = Attempt(task.task_id, task.reference)
    yield {
        "input": prompt_of(task, Form.CONVERSATIONAL, place),
        "output": completion_of(task, reference, Form.CONVERSATIONAL) if task.reference else [],
        "label": json.dumps(to_row(task)),
        "datasource": task.source or "upsolve",
        **about(task),
    }


VERL = Export(verl_rows, verl_columns, "task", "one row for each task, tried or not: prompt and tests", options=(DATA_SOURCE,))
OPENRLHF = Export(
    openrlhf_rows, openrlhf_columns, "task", "one row for each task, tried or not: prompt, reference and tests", "jsonl"
)
