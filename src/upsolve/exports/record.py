"""Export formats as records (``docs/extending.md``)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from upsolve.config import PromptConfig
from upsolve.importers.source import Option

__all__ = ["Column", "Export", "LeftOut", "Place"]


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
    """Where a row will stand."""

    split: str
    """``train``, ``dev`` or ``test``."""
    index: int
    """Number of the row in its file, from 0."""
    prompt: PromptConfig = field(default_factory=PromptConfig)
    """System message, solved examples and form of queries in every prompt: ``model.prompt`` of the recipe."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Takes the place of a row for something that the format cannot hold; the export counts it by reason."""

    reason: str
    """What it is and why, such as ``attempts: not passed``."""
    count: int = 1
    """How many."""


@dataclass(frozen=True, slots=True)
class Export:
    """A format in which an archive can be exported."""

    rows: Callable[..., Iterable[Mapping[str, Any] | LeftOut]]
    """``rows(item, place, **options)`` yields the rows of an item, and a ``LeftOut`` for what it cannot hold; ``place`` is of its first row."""
    columns: Callable[..., Sequence[Column]]
    """``columns(**options)`` returns the columns of the rows."""
    unit: Literal["record", "task", "attempts", "group", "pair"]
    """What an item is: ``record``: a ``Task``, ``Attempt`` or ``Verdict``; ``task``: a ``Task``, tried or not; ``attempts``: a ``Group`` with
    all attempts at a task, judged or not; ``group``: a ``TrainGroup``, attempts with rewards and advantages; ``pair``: a ``TrainGroup`` of
    the chosen and the rejected attempt."""
    help: str
    """What a row is, in one line."""
    output: Literal["parquet", "jsonl", "file"] = "parquet"
    """``parquet``: a folder with a card and a Parquet file for each split; ``jsonl``: the same with files of JSON lines; ``file``: one file of
    JSON lines, without a card."""
    options: tuple[Option, ...] = ()
    """Keyword arguments of ``rows`` and ``columns``; each has a default in both."""
    recipe: str = "rloo"
    """Recipe of the package that rewards, compares and pairs attempts if the user names none."""
