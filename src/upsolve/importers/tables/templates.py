"""Values that a map makes from the columns of a row: templates, the first of several columns, outcomes in words."""

import ast
import json
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.outcome import is_given, number_in, status_of, whole
from upsolve.importers.recogniser.asserts import parsed
from upsolve.importers.rows import Rows, everywhere, nested_value
from upsolve.importers.tables.columns import values_of
from upsolve.languages.names import language_in
from upsolve.types import Status

__all__ = [
    "Bounds",
    "Maker",
    "Wanted",
    "by_case",
    "constant",
    "first_of",
    "fits",
    "loaded",
    "maker_of",
    "object_of",
    "refuse_escapes",
    "status_in",
    "tests_in",
    "text_of",
    "value_at",
]

Cells = Mapping[str, Any]
Wanted = Mapping[str, "tuple[Any, ...] | Bounds"]
"""Column -> its accepted values."""


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes a value of a row."""

    value: Callable[[Cells], Any]
    """Returns the value; None if the row has none."""
    names: Callable[[Cells | None], Iterable[str]]
    """Returns the columns from which the value is made (for a given row, if any); for a case also the columns that select it."""
    kind: str = ""
    """``template``, or ``choice`` of columns that not every row has."""

    def __call__(self, row: Cells) -> Any:
        """Return the value in a row."""
        return self.value(row)


PLACE = re.compile(r"(\{\{|\}\})|\{([^{}?]+)(\?[^{}]*)?\}")
"""A doubled brace, ``{column}``, or ``{column?text before it}``, which may be missing; ``{column|filter}`` changes the value."""


def loaded(value: Any) -> Any:
    """Return the value of a JSON text or Python literal; ValueError for other text."""
    if not isinstance(value, str):
        return value
    for read in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError):
            return read(value)
    raise ValueError(f"the value is neither JSON nor a literal: {value[:60]!r}")


def seconds(value: Any) -> Any:
    """Return a duration in seconds, also from an object with ``seconds`` and ``nanos``; None for 0."""
    number = value["seconds"] + value["nanos"] / 1e9 if isinstance(value, dict) else value
    return number or None


def with_lines(value: Any) -> Any:
    """Return a list of lines, as in notebooks, as text; other values unchanged."""
    if not isinstance(value, list):
        return value
    return ("" if any(str(line).endswith("\n") for line in value) else "\n").join(map(str, value))


ESCAPE, SIGNS = re.compile(r"\\(.)", re.DOTALL), {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
"""Escapes that databases write in text files, and the characters that they stand for."""
FILTERS: Mapping[str, Callable[[Any], Any]] = {
    "strip": lambda value: text_of(value).strip(),
    "load": loaded,
    "seconds": seconds,
    "mib": lambda value: int(value * 2**20) or None,
    "unix": lambda value: everywhere(value, lambda one: one.replace("\r\n", "\n") if isinstance(one, str) else one),
    "language": lambda value: language_in(str(value)),
    "escapes": lambda value: ESCAPE.sub(lambda found: SIGNS.get(found[1], found[1]), text_of(value)),
    "html": lambda value: unescape(text_of(value)),
    "lines": with_lines,
    "0000": lambda value: text_of(value).zfill(4),
}
"""Name of a filter -> function that changes a value."""


QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'")
"""Matches a string in a program."""
HTML = {"<": "&lt;", ">": "&gt;", '"': "&quot;"}


def refuse_escapes(path: Path, rows: Rows, column: str, prompt: str = "") -> None:
    """Raise SourceError if programs have escapes of databases such as ``\\n``, or of HTML, instead of characters; are lists of lines; or only
    continue their prompts.

    A template in place of a column says how programs are read; ``{column}`` reads them unchanged.
    """
    values = values_of(rows, column) if "{" not in column else []
    texts = [QUOTED.sub("", value) for value in values if isinstance(value, str)]
    written, read = "", ""
    if 2 * sum("\\n" in text for text in texts) > len(texts) and not any("\n" in text for text in texts):
        written, read = "\\n in place of line ends, as databases write text files", f"{{{column}|escapes}}"
    elif found := next((name for sign, name in HTML.items() if not holds(values, sign) and holds(texts, name)), ""):
        written, read = f"{found}, as HTML writes {unescape(found)}", f"{{{column}|html}}"
    elif values and all(isinstance(value, list) and is_lines(value) for value in values):
        written, read = "lists of lines", f"{{{column}|lines}}"
    elif texts and 2 * sum(map(continues, values_of(rows, prompt), values)) > len(texts):
        written, read = "only what follows their prompts", f"{{{prompt}}}{{{column}}}"
    elif texts and not values_of(rows, prompt) and 2 * sum(map(is_body, values)) > len(texts):
        raise SourceError(
            f"{path}: programs in {column} are bodies of functions that continue prompts: upsolve ingest samples {path} ARCHIVE --tasks TASKS; "
            f"if they are meant: --code '{{{column}}}'"
        )
    if written:
        read, plain = map(shlex.quote, (read, f"{{{column}}}"))
        raise SourceError(
            f"{path}: programs in {column} have {written}: --code {read}; if these belong to the programs: --code {plain}"
        )


def continues(prompt: Any, code: Any) -> bool:
    """Return whether a program parses as Python only after the code in its prompt."""
    return "def " in str(prompt) and parsed(str(code)) is None and parsed(f"{prompt}{code}") is not None


def is_body(code: Any) -> bool:
    """Return whether a text parses as Python only as the body of a function."""
    return isinstance(code, str) and parsed(code) is None and parsed(f"def f():\n{code}") is not None


def holds(values: Iterable[Any], text: str) -> bool:
    """Return whether a value is a text that contains another."""
    return any(text in value for value in values if isinstance(value, str))


def is_lines(items: Sequence[Any]) -> bool:
    """Return whether a list has at least two texts, each of one line, at least one of which is indented."""
    texts = [item for item in items if isinstance(item, str) and "\n" not in item[:-1]]
    return 1 < len(texts) == len(items) and any(text[:1] in " \t" for text in texts)


def value_at(row: Mapping[str, Any], name: str) -> Any:
    """Return the value of a column, whose name may be a path into objects."""
    return row.get(name) if name in row or "." not in name else nested_value(row, name.split("."))


def column(name: str, change: str = "") -> Maker:
    """Return the maker of a column's value, changed by the filter named ``change``."""

    def value(row: Cells) -> Any:
        found = value_at(row, name)
        return FILTERS[change](found) if change and is_given(found) else found

    return Maker(value, lambda _row: (name,))


def template(parts: Sequence[str | tuple[Maker, str | None]]) -> Maker:
    """Return the maker of a text with values; each part is the text before an optional value, None for a required one.

    A template with a single value and no text returns the value unchanged. No value if a required one is missing.
    """

    def value(row: Cells) -> Any:
        texts: list[str] = []
        for part in parts:
            make, before = (None, part) if isinstance(part, str) else part
            if make is None:
                texts.append(before or "")
            elif is_given(found := make(row)):
                texts += [before or "", text_of(found)]
            elif before is None:
                return None
        return "".join(texts)

    makers = [part[0] for part in parts if not isinstance(part, str)]
    alone = len(parts) == 1 and bool(makers)
    return Maker(makers[0].value if alone else value, lambda row: names_of(makers, row), "template")


def names_of(makers: Iterable[Maker], row: Cells | None) -> Iterator[str]:
    """Yield the columns from which makers make their values."""
    yield from (name for make in makers for name in make.names(row))


def first_of(makers: Sequence[Maker]) -> Maker:
    """Return the maker of the first value that a row has among several."""

    def names(row: Cells | None) -> Iterator[str]:
        for make in makers:
            yield from make.names(row)
            if row is not None and is_given(make(row)):
                return

    return Maker(lambda row: next((value for make in makers if is_given(value := make(row))), None), names, "choice")


def object_of(makers: Mapping[str, Maker]) -> Maker:
    """Return the maker of an object of several values, without missing ones; the object is None if all are missing."""

    def value(row: Cells) -> Any:
        return {name: found for name, make in makers.items() if is_given(found := make(row))} or None

    return Maker(value, lambda row: names_of(makers.values(), row))


def tests_in(make: Maker, match: re.Pattern[str]) -> Maker:
    """Return the maker of the tests in a text: each match has the groups ``input`` and ``expected``, in which XML entities are decoded."""

    def value(row: Cells) -> Any:
        if not is_given(given := make(row)):
            return None
        text = text_of(given)
        decode = unescape if text.lstrip().startswith("<") else str
        tests = [{name: decode(part or "") for name, part in one.groupdict().items()} for one in match.finditer(text)]
        if not tests:
            raise ValueError(f"no match of {match.pattern!r} for tests: {text[:60]!r}")
        return [{"input": one["input"], "output": one["expected"]} for one in tests]

    return Maker(value, make.names)


@dataclass(frozen=True, slots=True)
class Bounds:
    """A range of a column's values; both ends belong to the range."""

    least: Any = None
    """Smallest value; None: no bound."""
    most: Any = None
    """Largest value; None: no bound."""
    given: bool = True
    """Whether the column has a value; False: the column is empty."""

    def holds(self, value: Any) -> bool:
        """Return whether a value is within the bounds, compared as numbers, or as texts such as ISO 8601 times; a bound may be a prefix."""
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


def fits(row: Mapping[str, Any], wanted: Wanted, languages: Collection[str] = ()) -> bool:
    """Return whether a row has the wanted values; a language may also have another name."""
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


def constant(value: Any) -> Maker:
    """Return the maker of the same value in every row."""
    return Maker(lambda _row: value, lambda _row: ())


def by_case(cases: Sequence[tuple[Wanted, Maker]]) -> Maker:
    """Return the maker of a value whose column depends on the form of the row; if several cases fit, the last counts."""

    def fitting(row: Cells) -> Sequence[Maker]:
        return [make for wanted, make in cases if fits(row, wanted)][-1:]

    def names(row: Cells | None) -> Iterator[str]:
        yield from (name for wanted, _ in cases for name in wanted)
        yield from names_of([make for _, make in cases] if row is None else fitting(row), row)

    return Maker(lambda row: next((make(row) for make in fitting(row)), None), names, "choice")


OPPOSITE = {Status.PASSED: Status.FAILED, Status.FAILED: Status.PASSED}


def status_in(make: Maker, match: re.Pattern[str] | None, words: Mapping[str, str], *, negate: bool) -> Maker:
    """Return the maker of an outcome from a text; no value if the text has none.

    ``match``: expression whose group is the word. ``negate``: passed means failed; for numbers, 0 then means passed.
    """
    own = {str(name).strip().lower(): Status(one) for name, one in words.items()}

    def value(row: Cells) -> Any:
        given = make(row)
        if match and is_given(given):
            found = match.search(text_of(given))
            given = found[1] if found else None
        if not negate or not is_given(given):
            return given
        word = str(given).strip().lower()
        if number_in(word) and word not in own:
            return (Status.PASSED if float(word) == 0 else Status.FAILED).value
        status = own.get(word) or status_of(given)
        return OPPOSITE.get(status, status).value

    return Maker(value, make.names)


def text_of(value: Any) -> str:
    """Return a value as text: JSON for objects and lists."""
    return value if isinstance(value, str) else json.dumps(value) if isinstance(value, dict | list) else str(whole(value))


def maker_of(text: str) -> Maker:
    """Return the maker of the value of a template or column; ValueError for an unbalanced brace."""
    if "{" not in text and "}" not in text:
        return column(text)
    parts: list[str | tuple[Maker, str | None]] = []
    at = 0
    for found in (*PLACE.finditer(text), None):
        plain = text[at : found.start() if found else len(text)]
        if "{" in plain or "}" in plain:
            raise ValueError(f"{text!r} has an unmatched brace; write a literal brace twice: {{{{")
        parts += [plain] if plain else []
        if found:
            at = found.end()
            parts.append(found[1][0] if found[1] else (place_of(found[2].strip()), None if found[3] is None else found[3][1:]))
    return template(parts)


def place_of(name: str) -> Maker:
    """Return the maker of the value of one placeholder of a template; text after a bar is a filter if a filter has this name."""
    before, _, change = name.rpartition("|")
    return column(before.strip(), change) if change in FILTERS and before else column(name)
