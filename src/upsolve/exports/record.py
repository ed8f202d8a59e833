"""Export formats as records (``docs/extending.md``), and the columns that formats share."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

import pyarrow as pa

from upsolve.clean.secrets import LICENCE
from upsolve.config import PromptConfig
from upsolve.importers.source import Option
from upsolve.policy.prompt import answer_text, fenced_answer, messages, opening, plain_prompt
from upsolve.types import Attempt, Group, Task, Turn

__all__ = [
    "CHAT",
    "COMPLETION",
    "FORM",
    "LICENCE_OF_TASK",
    "OF_ATTEMPT",
    "OF_TASK",
    "REAL",
    "TEXT",
    "WHOLE",
    "Column",
    "Content",
    "Export",
    "Form",
    "LeftOut",
    "Place",
    "attempt_values",
    "completion_of",
    "licence_of",
    "listed",
    "prefixed",
    "prompt_of",
    "task_values",
    "text_type",
]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a format."""

    name: str
    """Name in the file."""
    type: Any
    """Arrow type."""
    help: str
    """Meaning in one line, for the card."""


@dataclass(frozen=True, slots=True)
class Place:
    """Position of a row in the export."""

    split: str
    """``train``, ``dev`` or ``test``."""
    index: int
    """Number of the row in its file, from 0."""
    prompt: PromptConfig = field(default_factory=PromptConfig)
    """System message, solved examples and form of queries in every prompt: ``model.prompt`` of the recipe."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Yielded in place of a row for data that the format cannot hold; the export counts it by reason."""

    reason: str
    """Kind and reason of the data that is left out, such as ``attempts: not passed``."""
    count: int = 1
    """Number of left-out attempts or tasks."""


@dataclass(frozen=True, slots=True)
class Export:
    """A format in which an archive can be exported."""

    rows: Callable[..., Iterable[Mapping[str, Any] | LeftOut]]
    """``rows(item, place, **options)`` yields the rows of an item, and a ``LeftOut`` for data that the format cannot hold; ``place``: place of the
    first row."""
    columns: Callable[..., Sequence[Column]]
    """``columns(**options)`` returns the columns of the rows."""
    unit: Literal["record", "task", "attempts", "group", "pair"]
    """Kind of the items: ``record``: a ``Task``, ``Attempt`` or ``Verdict``; ``task``: a ``Task``, tried or not; ``attempts``: a ``Group`` with
    all attempts at a task, judged or not; ``group``: a ``TrainGroup``, attempts with rewards and advantages; ``pair``: a ``TrainGroup`` of
    the chosen and the rejected attempt."""
    help: str
    """Content of a row, in one line."""
    output: Literal["parquet", "jsonl", "file"] = "parquet"
    """``parquet``: a folder with a card and a Parquet file for each split; ``jsonl``: the same with files of JSON lines; ``file``: one file of
    JSON lines, without a card."""
    options: tuple[Option, ...] = ()
    """Keyword arguments of ``rows`` and ``columns``; each has a default in both."""
    recipe: str = "rloo"
    """Recipe of the package that rewards, compares and pairs attempts if the user names none."""


TEXT = pa.string()
WHOLE = pa.int64()
REAL = pa.float64()
CHAT = pa.list_(pa.struct([("role", TEXT), ("content", TEXT)]))
"""Chat messages."""


class Form(StrEnum):
    """How prompts and completions are written."""

    CONVERSATIONAL = "conversational"
    PLAIN = "plain"


FORM = Option("form", Form, "conversational (lists of chat messages) or plain (text, for models without a chat template)")


class Content(StrEnum):
    """Content of completions, as ``model.completion`` of a recipe says."""

    CODE = "code"
    ANSWER = "answer"


COMPLETION = Option(
    "completion",
    Content,
    "code or answer (the whole response, with thinking and prose); default: model.completion of the recipe",
)

OF_TASK = (
    Column("task_id", TEXT, "id of the task"),
    Column("source", TEXT, "source of the task, such as mbpp"),
    Column("difficulty", TEXT, "label of the task; empty if unknown"),
    Column("language", TEXT, "language that the task asks for; empty for any"),
    Column("entry_point", TEXT, "name of the required function; empty for a whole program"),
)
"""Columns about the task."""
LICENCE_OF_TASK = Column("licence", TEXT, "licence of the task as its source states it; empty if unknown")
OF_ATTEMPT = (
    Column("attempt_id", TEXT, "content id of task, language and code"),
    Column("author", TEXT, "author of the attempt: a user, or a model's name"),
    Column("created", TEXT, "time of writing, ISO 8601; empty if unknown"),
    Column("parent_id", TEXT, "attempt_id of the attempt that this one repairs; empty if none"),
    Column("licence", TEXT, "licence of the attempt, or else of its task, as its source states it; empty if unknown"),
    Column("count", WHOLE, "how often this attempt occurs in the archive"),
    Column(
        "status", TEXT, "outcome: passed, failed, timeout, memory_limit, output_limit, runtime_error, compile_error, unscored"
    ),
    Column("tests_passed", WHOLE, "number of tests passed"),
    Column("tests", WHOLE, "number of tests judged; 0 if only the outcome was recorded"),
    Column("judge", TEXT, "judge of the outcome: upsolve with its version, or recorded:SOURCE for one that came with the data"),
    Column("label_right", REAL, "estimated probability that the outcome (passed or not) is right"),
    Column("scores", TEXT, "scores by name as a JSON object; empty if none"),
)
"""Columns about an attempt and its verdict."""


def licence_of(task: Task, attempt: Attempt | None = None) -> str:
    """Return the licence that the source of an attempt, or else of its task, states in ``extra``; empty if it states none."""
    for record in (attempt, task):
        try:
            fields = json.loads(record.extra or "{}") if record else {}
        except ValueError:
            continue
        named = (fields[name] for name in LICENCE if isinstance(fields, dict) and fields.get(name))
        if stated := next(named, None):
            return ", ".join(map(str, stated)) if isinstance(stated, list) else str(stated)
    return ""


def task_values(task: Task) -> dict[str, Any]:
    """Return the values of ``OF_TASK``."""
    return {column.name: getattr(task, column.name) for column in OF_TASK}


def attempt_values(group: Group, index: int) -> dict[str, Any]:
    """Return the values of ``OF_ATTEMPT`` for an attempt of a group; fields of the outcome are None without a verdict."""
    attempt, known = group.attempts[index], group.verdicts[index]
    verdict = None if known and known.is_score else known
    names = ("attempt_id", "author", "created", "parent_id", "count")
    outcome = verdict and (verdict.status.value, verdict.passed, verdict.total, verdict.judge)
    keys = ("status", "tests_passed", "tests", "judge")
    return {
        **{name: getattr(attempt, name) for name in names},
        "licence": licence_of(group.task, attempt),
        **dict(zip(keys, outcome or [None] * len(keys), strict=True)),
        "label_right": group.label_right[index] if group.label_right else None,
        "scores": json.dumps(known.scores) if known and known.scores else "",
    }


def listed(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns as lists with one value for each completion of a row."""
    return tuple(Column(column.name, pa.list_(column.type), f"of each completion: {column.help}") for column in columns)


def prefixed(prefix: str, columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns with a prefix in their names, such as ``chosen``."""
    return tuple(
        Column(f"{prefix}_{column.name}", column.type, f"of the {prefix} attempt: {column.help}") for column in columns
    )


def text_type(form: Form) -> Any:
    """Return the Arrow type of a prompt or completion."""
    return TEXT if form is Form.PLAIN else CHAT


def prompt_of(
    task: Task, form: Form, place: Place, *, turns: Sequence[Turn] = (), content: Content = Content.CODE
) -> str | list[dict[str, str]]:
    """Return the prompt as training writes it: chat messages or, for a model without a chat template, text up to the code or the answer."""
    if form is Form.PLAIN:
        return plain_prompt(task, place.prompt, turns, fence=content is Content.CODE)
    return messages(task, place.prompt, turns)


def completion_of(task: Task, attempt: Attempt, form: Form, content: Content = Content.CODE) -> str | list[Mapping[str, str]]:
    """Return the completion as training writes it: the code in a fence or, for ``Content.ANSWER``, the whole answer."""
    if content is Content.ANSWER:
        text, opened = fenced_answer(attempt), ""
    else:
        text, opened = answer_text(attempt), opening(task)
    return text if form is Form.PLAIN else [{"role": "assistant", "content": opened + text}]
