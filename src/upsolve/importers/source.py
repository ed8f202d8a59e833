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
"""Smallest size of a share of an import. Units whose records take long are given this size, so that an interruption does not repeat them."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a source or of an export format."""

    name: str
    """Keyword argument of ``Source.read`` or ``Export.rows``; ``--name value`` on the command line."""
    kind: type[str] | type[int] | type[float]
    """Type of the value; a ``StrEnum`` lists the allowed words."""
    help: str
    """Description in one line."""


IMPORTS = Option("imports", Imports, "imports added to attempts at tasks in Python: none, or contest (List, deque, math, ...)")
"""Option for sources whose rows do not say which imports programs need (``verify.limits.prepared``)."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Part of a source's input, such as one of many files."""

    path: Path
    """Path of ``Source.read``."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Options of ``Source.read`` that replace the given ones."""
    bytes: int = 0
    """Size of the unit, for dividing work; 0 for the size of the file ``path``."""
    unread: str = ""
    """Number and names of the files of the source's path that no unit reads; only in the first unit."""


@dataclass(frozen=True, slots=True)
class Source:
    """An importer: reads a format or data set and yields tasks, attempts and verdicts."""

    read: Callable[..., Iterable[Row]]
    """``read(path, **options)`` yields records, and a ``BadRow`` for each unusable row; SourceError if reading cannot start."""
    path: str
    """Description of the path, such as ``the folder Project_CodeNet``."""
    options: tuple[Option, ...] = ()
    """Options, which are keyword arguments of ``read`` with defaults."""
    locate: Callable[[Path], Path] = Path
    """Maps the given path to the file or folder; a source may accept names of built-in data."""
    max_rejected: float = 0.01
    """Share of records that may be rejected by default, [0, 1]; 1 if rejections do not mean that the file is wrong."""
    reports: bool = False
    """True if ``read`` takes ``on_progress(stage, done, total)``, for sources whose rows take long to come."""
    split: Callable[..., Sequence[Unit]] | None = None
    """``split(path, **options)`` returns units, which workers read in parallel. Reading them in their order yields what ``read`` yields; a
    task may be in several of them. None if the source must be read as a whole."""

    detect: tuple[str, ...] = ()
    """Columns by which rows of this source are recognised; ``!name``: a missing column; ``name=a|b``: a column with only these values."""
    rows: str = ""
    """List in a JSON object that holds rows of this source; empty: anywhere."""
    marks: tuple[str, ...] = ()
    """Patterns of files by which a folder of this source is recognised; each is sufficient."""
    version: str = ""
    """Version of data that ``read`` depends on besides its module; an interrupted import only resumes with the same value."""

    def tasks(self, path: Path) -> tuple[list[Task], list[str]]:
        """Return the tasks of a file or folder, each id once, and line and reason of the unusable rows."""
        rows = [*self.read(self.locate(path))]
        unusable = [f"line {row.line}: {row.reason}" for row in rows if isinstance(row, BadRow)]
        return [*{row.task_id: row for row in rows if isinstance(row, Task)}.values()], unusable


def split_files(path: Path, *, kinds: Sequence[Kind] = (), **_options: Any) -> list[Unit]:
    """Return a unit for each file of rows in a folder (``data_files``), as ``Source.split``."""
    return [Unit(file) for file in data_files(path, *kinds)]


def row_units(file: Path, rows: Iterable[object], size: int) -> list[Unit]:
    """Return units of consecutive rows of a file whose rows take long to read; the option ``only`` holds their numbers, from 1."""
    count = sum(1 for _ in rows)
    return [Unit(file, {"only": range(start, start + size)}, SHARE_BYTES) for start in range(1, count + 1, size)]


def parse_options(owner: str, declared: Sequence[Option], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with values of the declared types; ``owner``, such as ``source mbpp``, names their owner in messages.

    Raises:
        ValueError: an option is unknown, or a value has another type; the message lists the known options or words.
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
