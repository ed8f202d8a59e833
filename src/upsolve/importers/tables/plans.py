"""What a map says of tables, trees and logs, as records (``docs/tables.md``); ``maps`` reads them from YAML."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from upsolve.importers.formats import Quotes
from upsolve.importers.tables.templates import Bounds, Maker, Wanted
from upsolve.verify.contest import Imports

__all__ = ["MAPS", "TESTS", "Choice", "Map", "Match", "TestFiles", "maps_for"]

MAPS = Path(__file__).parents[1] / "maps"
"""Folder of the maps that are part of upsolve."""
TESTS = "tests in files"
"""Column of tests that are files."""


@dataclass(frozen=True, slots=True)
class Match:
    """A regular expression over a column; its named groups are columns."""

    column: str
    """Column that is searched."""
    patterns: tuple[re.Pattern[str], ...]
    """Expressions; each finds its first match."""
    every: bool = False
    """Whether every match is a row."""


@dataclass(frozen=True, slots=True)
class TestFiles:
    """Files of a task's tests: templates of paths, with an asterisk."""

    input: str
    """Path of the inputs, from the folder that is read."""
    expected: str
    """Path of the expected output; ``*`` is what it is in the input's path. Without a slash: beside the input."""
    name: str = "input"
    """``input``, or ``call`` if files hold calls and their values."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An option that a map offers on the command line."""

    name: str
    """Name of the option."""
    help: str
    """Description in one line."""
    column: str = ""
    """Column whose rows with this value are read; empty: the option sets a constant."""
    bound: str = ""
    """``least`` or ``most`` if the value is a bound of the column."""
    constant: str = ""
    """Name of the constant that the option sets."""
    default: Any = None
    """Value of the constant without the option."""


@dataclass(frozen=True, slots=True)
class Map:
    """What a map says; empty: columns have the names of the fields."""

    file: str = ""
    """File of the map, for messages."""
    about: str = ""
    """Description in one line."""
    name: str = ""
    """Prefix of task ids; empty: the name of the file or folder that is read."""
    detect: tuple[str, ...] = ()
    """Columns by which files of this form are recognised; ``!name``: a column that they lack."""
    files: tuple[str, ...] = ()
    """Patterns of the files that are read."""
    rows: str = ""
    """List of the rows in a JSON object, with dots; ``*`` is every item, whose name is the column ``key``."""
    explode: tuple[str, ...] = ()
    """Columns with lists, of which each item is an attempt; parallel if several. ``grade *`` stands for the columns that it fits."""
    constants: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Column or field -> value in every row."""
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Column -> template of the path of the file whose text it holds."""
    match: tuple[Match, ...] = ()
    """Regular expressions over columns."""
    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    """Field -> column."""
    makers: Mapping[str, Maker] = field(default_factory=dict[str, Maker])
    """Column that the rows do not have -> what makes its value."""
    unset: frozenset[str] = frozenset()
    """Fields that no column has, although one may have the field's name."""
    tests: TestFiles | None = None
    """Files of tests."""
    statuses: Mapping[str, str] = field(default_factory=dict[str, str])
    """Word -> status."""
    languages: Mapping[str, str] = field(default_factory=dict[str, str])
    """Word -> language."""
    passed_at: float | None = None
    """Least score that counts as passed."""
    full_points: float = 1.0
    """Number in ``points`` of a full answer, > 0."""
    negated: bool = False
    """Whether the column of the status says that an attempt failed."""
    only: Wanted = field(default_factory=dict[str, Any])
    """Column -> values of the rows that are read."""
    options: tuple[Choice, ...] = ()
    """Options on the command line."""
    extra: tuple[str, ...] | None = None
    """Columns without a field that are stored; None: all."""
    of_task: tuple[str, ...] = ()
    """Columns without a field that are stored with the task, although the row has an attempt."""
    encoding: str = ""
    """Encoding of texts that are not UTF-8."""
    quotes: Quotes = Quotes.DOUBLE
    """Meaning of quotes in CSV files."""
    query: str = ""
    """SQL whose rows are read."""
    imports: Imports = Imports.NONE
    """What attempts find imported."""
    parts: tuple["Map", ...] = ()
    """Maps of several tables that belong together."""

    @property
    def no_prompt(self) -> bool:
        """Whether tasks have no statement."""
        return "prompt" in self.unset

    @property
    def is_ours(self) -> bool:
        """Whether the map is part of upsolve."""
        return self.file.startswith(f"{MAPS}/")

    def given(self, options: Mapping[str, Any]) -> "Map":
        """Return the map with the values of its options; the others are not looked at."""
        constants, only = {**self.constants}, {**self.only}
        for choice in self.options:
            value = options.get(choice.name, choice.default)
            if choice.constant and value not in (None, ""):
                constants[choice.constant] = value
            elif choice.bound and value not in (None, ""):
                before = only.get(choice.column)
                bounds = before if isinstance(before, Bounds) else Bounds()
                only[choice.column] = replace(bounds, **{choice.bound: value})
            elif choice.column and value not in (None, ""):
                only[choice.column] = tuple(part.strip() for part in str(value).split(","))
        parts = tuple(part.given(options) for part in self.parts)
        return replace(self, constants=constants, only=only, parts=parts)


def maps_for(columns: Iterable[str], maps: Mapping[str, Map]) -> list[str]:
    """Return the names of the maps whose ``detect`` fits the columns of a file."""
    found = {*columns}

    def fits(one: Map) -> bool:
        return bool(one.detect) and all((name.removeprefix("!") in found) != name.startswith("!") for name in one.detect)

    return [name for name, one in maps.items() if fits(one)]
