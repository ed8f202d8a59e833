"""Records of maps for tables, trees and logs (``docs/maps.md``); ``maps`` reads them from YAML."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.formats.texts import Quotes
from upsolve.importers.tables.templates import Bounds, Maker, Wanted
from upsolve.languages.names import languages_in
from upsolve.verify.limits import Imports

__all__ = ["MAPS", "TESTS", "Choice", "Join", "Map", "Match", "TestFiles"]

ROLLOUTS = ("reward", "passed_at", "tasks", "statement", "language", "author")
"""Options of every map of rollouts."""
MAPS = Path(__file__).parents[1] / "maps"
"""Folder of the maps that are part of upsolve."""
DATE = re.compile(r"\d{4}-\d\d-\d\d")
TESTS = "tests in files"
"""Column of tests that are files."""


@dataclass(frozen=True, slots=True)
class Match:
    """A regular expression over a column; its named groups become columns."""

    column: str
    """Column that is searched."""
    patterns: tuple[re.Pattern[str], ...]
    """Expressions; each finds its first match."""
    every: bool = False
    """Whether every match becomes a row."""


@dataclass(frozen=True, slots=True)
class TestFiles:
    """Files of a task's tests: templates of paths, with an asterisk."""

    input: str
    """Path of the inputs, from the folder that is read."""
    expected: str
    """Path of the expected output; ``*`` stands for the same text as in the input's path. Without a slash: beside the input."""
    name: str = "input"
    """``input``, or ``call`` if files hold calls and their values."""


@dataclass(frozen=True, slots=True)
class Join:
    """Rows of another table that belong to a row."""

    where: Mapping[str, str]
    """Column of the other table -> column of the row with the same value."""
    file: str = ""
    """Template of the other table's path, with asterisks, from the folder of the rows or the folder above; empty: the file of the rows, a database."""
    query: str = ""
    """Name of the table in a database."""
    order: tuple[str, ...] = ()
    """Columns with the number by which the rows are sorted; the first with a value counts."""
    value: str = ""
    """Column whose values are the items; empty: whole rows are the items."""
    along: tuple[str, str, str] | None = None
    """Column of an earlier join, its key column, and the key column here. There is an item for each row of the earlier join, ``unscored`` if no row
    here has its key."""
    is_one: bool = False
    """Whether a second row is an error."""
    most: int = 0
    """Most rows that are read; 0: all."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An option that a map offers on the command line."""

    name: str
    """Name of the option."""
    help: str
    """Description in one line."""
    kind: str
    """Effect of the option. ``column``: rows with this value are read; ``from``, ``to``: a bound of a column; ``attempts``: attempts with this value
    are kept; ``constant``: sets it; ``files``: which are read; ``version``: of the files; ``first``: number of rows, or of attempts of a row by list
    and language."""
    target: str = ""
    """Column or constant; ``rows``, ``attempts`` or a name of ``Map.joins``."""
    default: Any = None
    """Value without the option."""
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Word -> value, for the allowed words; empty: any word."""
    is_date: bool = False
    """Whether the value is a date."""

    def value_in(self, options: Mapping[str, Any]) -> Any:
        """Return the option's value, None if it is not given; SourceError for an invalid word, date or language."""
        value = options.get(self.name, self.default)
        if value in (None, ""):
            return None
        if self.values and str(value) not in self.values:
            *words, last = self.values
            raise SourceError(f"{self.name} must be {', '.join(words)}{' or ' * bool(words)}{last}, got {value!r}")
        if self.is_date and not DATE.fullmatch(str(value)):
            raise SourceError(f"{self.name}: {value!r} is not a date such as 2024-08-01")
        if self.name == "language" and self.kind in ("column", "attempts"):
            languages_in(str(value))
        return self.values[str(value)] if self.values else value


@dataclass(frozen=True, slots=True)
class Map:
    """A map. In an empty map, columns have the names of the fields."""

    file: str = ""
    """File of the map, for messages."""
    about: str = ""
    """Description in one line."""
    name: str = ""
    """Prefix of task ids; empty: the name of the file or folder that is read."""
    detect: tuple[str, ...] = ()
    """Columns by which files of this form are recognised; ``!name``: a missing column; ``?name``: a column that some rows lack."""
    files: tuple[str, ...] = ()
    """Patterns of the files that are read."""
    repeats: tuple[str, ...] = ()
    """Columns in which a file may differ from the previous file whose rows it repeats; such a file is skipped."""
    rows: str = ""
    """Dotted name of the list of rows in a JSON object; ``*`` means every item, whose name becomes the column ``key``."""
    explode: tuple[str, ...] = ()
    """Columns with lists, each item of which is an attempt; several columns are parallel. ``grade *`` stands for all columns that match."""
    sides: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Column -> columns that each hold the program or answer of a different attempt; the row of that attempt has it in the first column."""
    rollouts: Mapping[str, Any] | None = None
    """Options of rollouts (``rollouts_of``); None: the rows are not rollouts."""
    attempts: tuple["Map", ...] | None = None
    """Maps of the attempts in a row that is a task: in exploded lists, or in columns. None: a row is an attempt."""
    reference: Wanted | None = None
    """Column -> values of the attempt that becomes the task's reference; the first match counts."""
    kept: Wanted = field(default_factory=dict[str, Any])
    """Column -> values of the attempts that are read."""
    versions: re.Pattern[str] | None = None
    """Expression for the version in file names, such as ``v1.2``; only the files of one version are read."""
    version: str = ""
    """Version whose files are read; empty: the newest."""
    marks: tuple[str, ...] = ()
    """Patterns of files by which a folder of this form is recognised; each is sufficient."""
    is_listed: bool = False
    """Whether each of ``files`` must exist."""
    first: int = 0
    """Largest number of rows that are read, over all files; 0: all."""
    most: int = 0
    """Largest number of attempts of a row that are read, by list and language; 0: all."""
    constants: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Column or field -> value in every row."""
    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """Column -> value as text, in lower case -> replacement."""
    joins: Mapping[str, Join] = field(default_factory=dict[str, Join])
    """Column -> rows of another table that the column holds."""
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Column -> template of the path of a file; the column holds the file's text."""
    match: tuple[Match, ...] = ()
    """Regular expressions over columns."""
    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    """Field -> column."""
    makers: Mapping[str, Maker] = field(default_factory=dict[str, Maker])
    """Column that the rows do not have -> maker of its value."""
    unset: frozenset[str] = frozenset()
    """Fields that stay unset, even if a column has the field's name."""
    tests: TestFiles | None = None
    """Files of tests."""
    statuses: Mapping[str, str] = field(default_factory=dict[str, str])
    """Word -> status."""
    languages: Mapping[str, str] = field(default_factory=dict[str, str])
    """Word -> language."""
    passed_at: float | None = None
    """Lowest score that passes."""
    full_points: float = 1.0
    """Points of a full answer in ``points``, > 0."""
    negated: bool = False
    """Whether the column of the status is true for failed attempts."""
    only: Wanted = field(default_factory=dict[str, Any])
    """Column -> values of the rows that are read."""
    options: tuple[Choice, ...] = ()
    """Options on the command line."""
    extra: tuple[str, ...] | None = None
    """Columns without a field that are stored; None: all."""
    of_task: tuple[str, ...] = ()
    """Columns without a field that are stored with the task, although the row has an attempt."""
    without: tuple[str, ...] = ()
    """Columns without a field that are not stored."""
    encoding: str = ""
    """Encoding of texts that are not UTF-8."""
    quotes: Quotes = Quotes.DOUBLE
    """Meaning of quotes in CSV files."""
    query: str = ""
    """SQL whose rows are read."""
    imports: Imports = Imports.NONE
    """Imports added to attempts."""
    parts: tuple["Map", ...] = ()
    """Maps of several tables that belong together."""

    @property
    def is_ours(self) -> bool:
        """Whether the map is part of upsolve."""
        return self.file.startswith(f"{MAPS}/")

    def given(self, options: Mapping[str, Any]) -> "Map":
        """Return the map with the values of its options; other options are ignored."""
        constants, only, changes = {**self.constants}, {**self.only}, dict[str, Any]()
        if self.rollouts is not None:
            changes["rollouts"] = {name: options[name] for name in ROLLOUTS if name in options}
        for choice in self.options:
            value = choice.value_in(options)
            if value is None:
                continue
            match choice.kind:
                case "files":
                    changes |= {"files": tuple(value), "is_listed": True}
                case "first" if choice.target in self.joins:
                    join = replace(self.joins[choice.target], most=int(value))
                    changes["joins"] = {**changes.get("joins", self.joins), choice.target: join}
                case "first":
                    changes["first" if choice.target == "rows" else "most"] = int(value)
                case "version":
                    changes["version"] = str(value)
                case "constant":
                    constants[choice.target] = value
                case "from" | "to":
                    before = only.get(choice.target)
                    bounds = before if isinstance(before, Bounds) else Bounds()
                    only[choice.target] = replace(bounds, **{"least" if choice.kind == "from" else "most": value})
                case "attempts":
                    changes["kept"] = {**changes.get("kept", self.kept), choice.target: words_in(value)}
                case _:
                    only[choice.target] = words_in(value)
        parts = tuple(part.given(options) for part in self.parts)
        return replace(self, constants=constants, only=only, parts=parts, **changes)


def words_in(value: Any) -> tuple[str, ...]:
    """Return the words between commas."""
    return tuple(part.strip() for part in str(value).split(","))
