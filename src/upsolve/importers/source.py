"""Importers as records (``docs/extending.md``)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any

from upsolve.importers.formats import Kind, data_files
from upsolve.importers.rows import BadRow, Row
from upsolve.types import Task
from upsolve.verify.limits import Imports

__all__ = ["IMPORTS", "SHARE_BYTES", "Option", "Source", "Unit", "parse_options", "row_units", "split_files"]

SHARE_BYTES = 1 << 20
"""Smallest size of a share of an import: units of this size, whose records take long to come, are not read again after an interruption."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a source or of an export format."""

    name: str
    """Keyword argument of ``Source.read`` or ``Export.rows``; ``--name value`` on the command line."""
    kind: type[str] | type[int] | type[float]
    """Type of the value; a ``StrEnum`` lists the words that it may be."""
    help: str
    """Description in one line."""


IMPORTS = Option("imports", Imports, "imports added to attempts at tasks in Python: none, or contest (List, deque, math, ...)")
"""For sources whose rows say nothing about it (``verify.limits.prepared``)."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Part of a source's input, such as one of many files."""

    path: Path
    """Path of ``Source.read``."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Options of ``Source.read`` that replace the given ones."""
    bytes: int = 0
    """Size by which units are shared out; 0 for the size of the file ``path``."""
    unread: str = ""
    """Number and names of the files of the source's path that no unit reads; of the first unit alone."""


@dataclass(frozen=True, slots=True)
class Source:
    """An importer: reads a format or data set and yields tasks, attempts and verdicts."""

    read: Callable[..., Iterable[Row]]
    """``read(path, **options)`` yields records, and a ``BadRow`` for each unusable row; SourceError if it cannot start."""
    path: str
    """Description of the path, such as ``the folder Project_CodeNet``."""
    options: tuple[Option, ...] = ()
    """Keyword arguments of ``read``; each has a default there."""
    locate: Callable[[Path], Path] = Path
    """Maps the given path to the file or folder; a source may accept names of built-in data."""
    max_rejected: float = 0.01
    """Share of records that may be rejected, [0, 1], unless the user gives another; 1 where that is no sign of a wrong file."""
    reports: bool = False
    """True if ``read`` takes ``on_progress(stage, done, total)``, for sources whose rows take long to come."""
    split: Callable[..., Sequence[Unit]] | None = None
    """``split(path, **options)`` returns units, which workers read in parallel. Reading them in their order yields what ``read`` yields; a
    task may be in several of them. None if the source must be read as a whole."""

    detect: tuple[str, ...] = ()
    """Columns by which rows of this source are recognised; ``!name``: one that they lack; ``name=a|b``: one with these values alone."""
    rows: str = ""
    """List of a JSON object in which rows of this source are; empty: anywhere."""
    marks: tuple[str, ...] = ()
    """Patterns of files by which a folder of this source is recognised, each alone."""
    version: str = ""
    """Version of data that ``read`` depends on besides its module: an interrupted import resumes only with the same value."""

    def tasks(self, path: Path) -> tuple[list[Task], list[str]]:
        """Return the tasks of a file or folder, each id once, and the rows that cannot be used: line and reason."""
        rows = [*self.read(self.locate(path))]
        unusable = [f"line {row.line}: {row.reason}" for row in rows if isinstance(row, BadRow)]
        return [*{row.task_id: row for row in rows if isinstance(row, Task)}.values()], unusable


def split_files(path: Path, *, kinds: Sequence[Kind] = (), **_options: Any) -> list[Unit]:
    """Return a unit for each file of rows in a folder (``data_files``), as ``Source.split``."""
    return [Unit(file) for file in data_files(path, *kinds)]


def row_units(file: Path, rows: Iterable[object], size: int) -> list[Unit]:
    """Return units of consecutive rows of a file, which take long to read; the option ``only`` has their numbers, from 1."""
    count = sum(1 for _ in rows)
    return [Unit(file, {"only": range(start, start + size)}, SHARE_BYTES) for start in range(1, count + 1, size)]


def parse_options(owner: str, declared: Sequence[Option], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with values of the declared types; ``owner`` has them, for messages: ``source mbpp``.

    Raises:
        ValueError: there is no such option, or a value has another type; says which options, or words, there are.
    """
    by_name = {option.name: option for option in declared}
    values: dict[str, Any] = {}
    for key, value in options.items():
        if key not in by_name:
            close = get_close_matches(key, by_name, n=1)
            has = f"did you mean {close[0]}?" if close else f"its options are: {', '.join(by_name) or 'none'}"
            raise ValueError(f"{owner} has no option {key}; {has}")
        kind = by_name[key].kind
        try:
            values[key] = kind(value)
        except ValueError as error:
            fits = f"one of {', '.join(kind)}" if issubclass(kind, StrEnum) else f"of type {kind.__name__}"
            raise ValueError(f"{owner}, option {key}: {value!r} is not {fits}") from error
    return values
