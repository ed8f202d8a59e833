"""Importers as records (``docs/extending.md``)."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from upsolve.archive.rows import Row
from upsolve.errors import SourceError

__all__ = ["Option", "Source", "parse_options"]


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a source."""

    name: str
    """Keyword argument of ``Source.read``; ``--name value`` on the command line."""
    kind: type[str] | type[int] | type[float]
    """Type of the value."""
    help: str
    """Description in one line."""


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


def parse_options(name: str, source: Source, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with values of the declared types.

    Raises:
        SourceError: the source lacks an option, or a value has another type; says which options there are.
    """
    declared = {option.name: option for option in source.options}
    values: dict[str, Any] = {}
    for key, value in options.items():
        if key not in declared:
            close = get_close_matches(key, declared, n=1)
            has = f"did you mean {close[0]}?" if close else f"its options are: {', '.join(declared) or 'none'}"
            raise SourceError(f"source {name} has no option {key}; {has}")
        try:
            values[key] = declared[key].kind(value)
        except ValueError as error:
            raise SourceError(f"source {name}, option {key}: {value!r} is not of type {declared[key].kind.__name__}") from error
    return values
