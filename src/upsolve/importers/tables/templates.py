"""Values that a map makes of the columns of a row: templates, the first of several columns, outcomes in words."""

import ast
import json
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.outcome import is_given, number_in, status_of, whole
from upsolve.importers.rows import Rows, nested_value
from upsolve.importers.tables.columns import values_of
from upsolve.languages.names import language_in
from upsolve.types import Status

__all__ = [
    "Bounds",
    "ByCase",
    "Constant",
    "Firsts",
    "Maker",
    "Parts",
    "StatusOf",
    "Template",
    "TestsIn",
    "Wanted",
    "fits",
    "loaded",
    "maker_of",
    "names_in",
    "refuse_escapes",
    "text_of",
    "value_at",
]

Maker = Callable[[Mapping[str, Any]], Any]
"""Returns a value of a row; None if the row has none."""
PLACE = re.compile(r"(\{\{|\}\})|\{([^{}?]+)(\?[^{}]*)?\}")
"""A doubled brace, ``{column}``, or ``{column?text before it}``, which may be missing; ``{column|filter}`` changes the value."""


def loaded(value: Any) -> Any:
    """Return the value that a text of JSON or a literal of Python is; ValueError for other text."""
    if not isinstance(value, str):
        return value
    for read in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError):
            return read(value)
    raise ValueError(f"neither JSON nor a literal: {value[:60]!r}")


def seconds(value: Any) -> Any:
    """Return a duration in seconds, which may be an object of ``seconds`` and ``nanos``; None for 0."""
    number = value["seconds"] + value["nanos"] / 1e9 if isinstance(value, dict) else value
    return number or None


def with_lines(value: Any) -> Any:
    """Return a list of lines, as notebooks have them, as text; other values as they are."""
    if not isinstance(value, list):
        return value
    return ("" if any(str(line).endswith("\n") for line in value) else "\n").join(map(str, value))


def with_unix_lines(value: Any) -> Any:
    """Return a value with the line ends of Unix in its texts."""
    if isinstance(value, dict):
        return {name: with_unix_lines(one) for name, one in value.items()}
    if isinstance(value, list):
        return [*map(with_unix_lines, value)]
    return value.replace("\r\n", "\n") if isinstance(value, str) else value


ESCAPE, SIGNS = re.compile(r"\\(.)", re.DOTALL), {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
"""What databases write in text files in place of some characters, and these."""
FILTERS: Mapping[str, Callable[[Any], Any]] = {
    "strip": lambda value: text_of(value).strip(),
    "load": loaded,
    "seconds": seconds,
    "mib": lambda value: int(value * 2**20) or None,
    "unix": with_unix_lines,
    "language": lambda value: language_in(str(value)),
    "escapes": lambda value: ESCAPE.sub(lambda found: SIGNS.get(found[1], found[1]), text_of(value)),
    "html": lambda value: unescape(text_of(value)),
    "lines": with_lines,
    "0000": lambda value: text_of(value).zfill(4),
}
"""Name -> what a filter makes of a value."""


QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'")
"""A text in a program."""
HTML = {"<": "&lt;", ">": "&gt;", '"': "&quot;"}


def refuse_escapes(path: Path, rows: Rows, column: str) -> None:
    """Raise SourceError if programs have escapes in place of characters that none has: of databases, such as ``\\n``, of HTML, or lists of lines.

    A template in place of a column says how programs are read, as they are by ``{column}``.
    """
    values = values_of(rows, column) if "{" not in column else []
    texts = [QUOTED.sub("", value) for value in values if isinstance(value, str)]
    written, change = "", ""
    if 2 * sum("\\n" in text for text in texts) > len(texts) and not any("\n" in text for text in texts):
        written, change = "\\n in place of line ends, as databases write text files", "escapes"
    elif found := next((name for sign, name in HTML.items() if not holds(values, sign) and holds(texts, name)), ""):
        written, change = f"{found}, as HTML writes {unescape(found)}", "html"
    elif values and all(isinstance(value, list) and is_lines(value) for value in values):
        written, change = "lists of lines", "lines"
    if change:
        read, plain = (shlex.quote(f"{{{column}{how}}}") for how in (f"|{change}", ""))
        raise SourceError(f"{path}: programs in {column} have {written}: --code {read}; if they are meant: --code {plain}")


def holds(values: Iterable[Any], text: str) -> bool:
    """Return whether a value is a text that holds another."""
    return any(text in value for value in values if isinstance(value, str))


def is_lines(items: Sequence[Any]) -> bool:
    """Return whether a list has at least two texts, each of one line, of which one is indented."""
    texts = [item for item in items if isinstance(item, str) and "\n" not in item[:-1]]
    return 1 < len(texts) == len(items) and any(text[:1] in " \t" for text in texts)


def value_at(row: Mapping[str, Any], name: str) -> Any:
    """Return the value of a column, whose name may be a path into objects."""
    return row.get(name) if name in row or "." not in name else nested_value(row, name.split("."))


@dataclass(frozen=True, slots=True)
class Place:
    """A column, alone or in a template."""

    name: str
    before: str | None = None
    """Text before the value, if there is one; None if the value may not be missing."""
    change: str = ""
    """Name of a filter; empty: none."""

    def __call__(self, row: Mapping[str, Any]) -> Any:
        """Return the value in a row."""
        value = value_at(row, self.name)
        return FILTERS[self.change](value) if self.change and is_given(value) else value


@dataclass(frozen=True, slots=True)
class Template:
    """Text with the values of columns; the value as it is if the template is one column; None if a column has no value."""

    parts: tuple[str | Place, ...]

    def __call__(self, row: Mapping[str, Any]) -> Any:
        """Return the value in a row."""
        if len(self.parts) == 1 and isinstance(place := self.parts[0], Place):
            return place(row)
        texts: list[str] = []
        for part in self.parts:
            if isinstance(part, str):
                texts.append(part)
            elif is_given(value := part(row)):
                texts += [part.before or "", text_of(value)]
            elif part.before is None:
                return None
        return "".join(texts)


@dataclass(frozen=True, slots=True)
class Firsts:
    """The first of several values that a row has."""

    makers: tuple[Maker, ...]

    def __call__(self, row: Mapping[str, Any]) -> Any:
        """Return the value in a row."""
        return next((value for make in self.makers if is_given(value := make(row))), None)


@dataclass(frozen=True, slots=True)
class Parts:
    """An object of several values, without missing ones; None if all are missing."""

    makers: Mapping[str, Maker]

    def __call__(self, row: Mapping[str, Any]) -> Any:
        """Return the value in a row."""
        return {name: value for name, make in self.makers.items() if is_given(value := make(row))} or None


@dataclass(frozen=True, slots=True)
class TestsIn:
    """Tests in a text: inputs and outputs that an expression finds; ValueError if it finds none."""

    __test__ = False  # not a pytest class
    make: Maker
    """Makes the text."""
    match: re.Pattern[str]
    """Expression with the groups ``input`` and ``expected``; each match is a test. Entities of XML are decoded."""

    def __call__(self, row: Mapping[str, Any]) -> Any:
        """Return the value in a row."""
        if not is_given(value := self.make(row)):
            return None
        text = text_of(value)
        decode = unescape if text.lstrip().startswith("<") else str
        tests = [{name: decode(part or "") for name, part in one.groupdict().items()} for one in self.match.finditer(text)]
        if not tests:
            raise ValueError(f"no match of {self.match.pattern!r} for tests: {text[:60]!r}")
        return [{"input": one["input"], "output": one["expected"]} for one in tests]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Values of a column as a range; both ends belong to it."""

    least: Any = None
    """Smallest value; None: no bound."""
    most: Any = None
    """Largest value; None: no bound."""
    given: bool = True
    """Whether the column has a value; False: it has none."""

    def holds(self, value: Any) -> bool:
        """Return whether a value is within the bounds, as numbers or as texts of which the beginning counts, such as times in ISO 8601."""
        if not is_given(value):
            return not self.given
        return self.given and not any(
            bound is not None and is_less(*pair, bound)
            for bound, pair in ((self.least, (value, self.least)), (self.most, (self.most, value)))
        )


def is_less(value: Any, other: Any, bound: Any) -> bool:
    """Return whether a value is less than another, one of which is a bound."""
    try:
        return float(value) < float(other)
    except (TypeError, ValueError):
        return str(value)[: len(str(bound))] < str(other)[: len(str(bound))]


Wanted = Mapping[str, tuple[Any, ...] | Bounds]
"""Column -> its values."""


def fits(row: Mapping[str, Any], wanted: Wanted, languages: Collection[str] = ()) -> bool:
    """Return whether a row has some values; columns of ``languages`` may have another name of the same language."""
    for column, values in wanted.items():
        value = value_at(row, column)
        if isinstance(values, Bounds):
            if not values.holds(value):
                return False
        elif text_of(value).lower() not in (words := {text_of(one).lower() for one in values}):
            if column not in languages or not is_given(value):
                return False
            if language_in(str(value)) not in {language_in(word) for word in words}:
                return False
    return True


@dataclass(frozen=True, slots=True)
class Constant:
    """The same value in every row."""

    value: Any

    def __call__(self, _row: Mapping[str, Any]) -> Any:
        """Return the value in any row."""
        return self.value


@dataclass(frozen=True, slots=True)
class ByCase:
    """A value that rows of different forms have in different places; of several cases that fit a row, the last counts."""

    cases: tuple[tuple[Wanted, Maker], ...]
    """Values of the rows of a case, and what makes the value there."""

    def __call__(self, row: Mapping[str, Any]) -> Any:
        """Return the value in a row."""
        return next((make(row) for wanted, make in reversed(self.cases) if fits(row, wanted)), None)


OPPOSITE = {Status.PASSED: Status.FAILED, Status.FAILED: Status.PASSED}


@dataclass(frozen=True, slots=True)
class StatusOf:
    """An outcome in a text, or one that is written the other way round; None if the text has none."""

    make: Maker
    """Makes the text or value."""
    match: re.Pattern[str] | None = None
    """Expression whose group is the word."""
    negate: bool = False
    """Whether passed means failed; of numbers, 0 is passed then, and all others are failed."""
    words: Mapping[str, str] = field(default_factory=dict[str, str])
    """Word -> status."""

    def __call__(self, row: Mapping[str, Any]) -> Any:
        """Return the value in a row."""
        value = self.make(row)
        if self.match and is_given(value):
            found = self.match.search(text_of(value))
            value = found[1] if found else None
        if not self.negate or not is_given(value):
            return value
        word = str(value).strip().lower()
        own = {str(name).strip().lower(): Status(one) for name, one in self.words.items()}
        if number_in(word) and word not in own:
            return (Status.PASSED if float(word) == 0 else Status.FAILED).value
        status = own.get(word) or status_of(value)
        return OPPOSITE.get(status, status).value


def text_of(value: Any) -> str:
    """Return a value as text: JSON for objects and lists."""
    return value if isinstance(value, str) else json.dumps(value) if isinstance(value, dict | list) else str(whole(value))


def maker_of(text: str) -> Maker:
    """Return what makes the value of a template or column; ValueError for a brace without its other half."""
    if "{" not in text and "}" not in text:
        return Place(text)
    parts: list[str | Place] = []
    at = 0
    for found in (*PLACE.finditer(text), None):
        plain = text[at : found.start() if found else len(text)]
        if "{" in plain or "}" in plain:
            raise ValueError(f"{text!r} has a brace without its other half; a brace that is text is doubled: {{{{")
        parts += [plain] if plain else []
        if found:
            at = found.end()
            parts.append(found[1][0] if found[1] else place_of(found[2].strip(), None if found[3] is None else found[3][1:]))
    return Template(tuple(parts))


def place_of(name: str, before: str | None) -> Place:
    """Return a column in a template; what stands behind a bar is a filter if it has the name of one."""
    column, _, change = name.rpartition("|")
    return Place(column.strip(), before, change) if change in FILTERS and column else Place(name, before)


def names_in(make: Any, row: Mapping[str, Any] | None = None) -> Iterator[str]:
    """Yield the columns of which a value is made, in a row if it is given; of a case also those that tell it."""
    match make:
        case Template(parts=parts):
            yield from (part.name for part in parts if isinstance(part, Place))
        case Place(name=name):
            yield name
        case Firsts(makers=makers):
            for one in makers:
                yield from names_in(one, row)
                if row is not None and is_given(one(row)):
                    return
        case Parts(makers=makers):
            yield from (name for one in makers.values() for name in names_in(one, row))
        case StatusOf(make=inner) | TestsIn(make=inner):
            yield from names_in(inner, row)
        case ByCase(cases=cases):
            yield from (name for wanted, _ in cases for name in wanted)
            fitting = [one for wanted, one in cases if row is None or fits(row, wanted)]
            yield from (name for one in (fitting if row is None else fitting[-1:]) for name in names_in(one, row))
        case _:
            return
