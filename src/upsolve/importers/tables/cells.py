"""Rows and values of user tables: CSV with any delimiter and encoding, JSON, Parquet, Arrow, SQLite."""

import codecs
import csv
import json
import re
import sqlite3
import warnings
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from enum import StrEnum
from io import TextIOWrapper
from itertools import chain, islice
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.rows import (
    ARRAYS,
    DATA_SUFFIXES,
    NO_ARRAY,
    UNREADABLE,
    BadRow,
    ends_with,
    json_value,
    named,
    objects_in,
    open_bytes,
    packed_too,
    rows_of_file,
)

__all__ = [
    "CONVERT",
    "TABLES",
    "Numbered",
    "Quotes",
    "decoded",
    "emptied",
    "first_rows",
    "moment",
    "nested_columns",
    "nested_value",
    "table_rows",
    "without",
]

CSV = packed_too(".csv", ".tsv")
DATABASES = (".db", ".sqlite", ".sqlite3")
TABLES = (*CSV, *DATABASES, *DATA_SUFFIXES)
"""Endings of the names of files that ``table_rows`` reads."""
QUOTING = """a cell that begins with a quote must end with one, and quotes in it are doubled: "say ""hi\"""; if no cell is quoted, --quotes none"""
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
SEPARATOR = re.compile(r'"?sep=([^"\r\n])"?[\r\n]*', re.IGNORECASE)
"""First line of a CSV file of Excel, which says its delimiter."""


class Quotes(StrEnum):
    """Meaning of quotes in CSV files."""

    DOUBLE = "double"
    """A cell may stand between quotes; quotes in it are doubled."""
    NONE = "none"
    """No cell is quoted: quotes are text like any other, and a cell has no newline."""


CONVERT = "unpack, convert or rename the file (JSON with a row on each line is .jsonl)"
"""Remedy for files of other formats."""
HEAD, HEAD_SIZE = 1000, 1 << 20
"""Maximum number of rows that are inspected before the import, and of their characters."""
SECONDS, LATEST = 1e8, 2e9
"""Range of numbers that are read as seconds since 1970: 1973 to 2033. Larger numbers are dates without signs, such as 2024010112."""
Numbered = tuple[int, dict[str, Any] | BadRow]
"""A row with its number, from 1."""


def table_rows(
    path: Path, *, encoding: str = "", query: str = "", quotes: Quotes = Quotes.DOUBLE, rows: str = ""
) -> Iterable[Numbered]:
    """Return the rows of a file with their numbers.

    Args:
        path: a file whose name ends as one of ``TABLES``.
        encoding: of a CSV file; empty: UTF-8, or UTF-16 if it starts with such a byte order mark.
        query: SQL whose rows are read; a SQLite file needs one.
        quotes: whether cells of a CSV file may be quoted.
        rows: name, with dots, of the list of rows in a JSON object; empty: the file is a list.

    Raises:
        SourceError: the file cannot be read, its ending is unknown, or an argument does not fit it.
    """
    if encoding and not ends_with(path, CSV):
        raise SourceError(f"{path}: option encoding: only {named(CSV)} files have an encoding; JSON is UTF-8")
    if quotes is not Quotes.DOUBLE and not ends_with(path, CSV):
        raise SourceError(f"{path}: option quotes: only {named(CSV)} files have quotes")
    if rows and not ends_with(path, ARRAYS):
        raise SourceError(f"{path}: option rows: only {named(ARRAYS)} files are objects with a list of rows")
    if bool(query) != ends_with(path, DATABASES):
        needs = "is a database: --query 'select ...' says which rows to read"
        raise SourceError(f"{path}: {'option query is for SQLite files' if query else needs}")
    if query:
        return sqlite_rows(path, query)
    if not ends_with(path, TABLES):
        raise SourceError(f"{path}: a table's name must end in one of {named(TABLES)}; {CONVERT}")
    if ends_with(path, ARRAYS):
        return rows_within(path, rows)
    return csv_rows(path, encoding, quotes) if ends_with(path, CSV) else rows_of_file(path)


def rows_within(path: Path, name: str) -> Iterator[Numbered]:
    """Return the rows of a JSON file: its items, or the items of the named list; SourceError names the lists in the file."""
    value = json_value(path)
    found = nested_value(value, name.split(".")) if name else value
    if not isinstance(found, list):
        lists = sorted(lists_of_objects(value), key=lambda one: -one[1])
        has = ", ".join(f"{one} ({count})" for one, count in lists[:5])
        advice = f"; it has lists of objects: {has}: --rows {lists[0][0]}" if lists else ""
        raise SourceError(f"{path}: {f'{name} is no list of rows' if name else NO_ARRAY}{advice}")
    return objects_in(path, found)


def lists_of_objects(value: Any, prefix: str = "") -> Iterator[tuple[str, int]]:
    """Yield name, with dots, and length of the lists of objects in an object."""
    for name, item in value.items() if isinstance(value, dict) else ():
        if isinstance(item, list) and item and isinstance(item[0], dict):
            yield prefix + name, len(item)
        yield from lists_of_objects(item, f"{prefix}{name}.")


def first_rows(numbered: Iterator[Numbered]) -> deque[Numbered]:
    """Return the first rows: at most ``HEAD``, and at most ``HEAD_SIZE`` characters."""
    rows: deque[Numbered] = deque()
    size = 0
    for number, row in islice(numbered, HEAD):
        rows.append((number, row))
        size += length_of(row)
        if size > HEAD_SIZE:
            break
    return rows


def length_of(row: Any) -> int:
    """Return the approximate number of characters of a row."""
    values = row.values() if isinstance(row, dict) else ()
    try:
        return sum(len(value) if type(value) is str else len(str(value)) for value in values)
    except RecursionError:  # a value that is nested too deeply
        return HEAD_SIZE


def emptied(rows: deque[Any]) -> Iterator[Any]:
    """Yield rows, each removed from the queue before, so that its memory is freed."""
    while rows:
        yield rows.popleft()


def csv_rows(path: Path, encoding: str, quotes: Quotes) -> Iterator[Numbered]:
    """Yield the rows of a CSV file; one in another encoding, or with too many or too few cells, is a ``BadRow``, and one without values is left out."""
    csv.field_size_limit(2**27)
    empty, end, quoting = 0, 0, csv.QUOTE_NONE if quotes is Quotes.NONE else csv.QUOTE_MINIMAL
    try:
        delimiter, first = delimiter_of(path, encoding)
        with opened(path, encoding) as text:
            for _ in range(first):
                text.readline()
            table = csv.DictReader(text, delimiter=delimiter, strict=True, quoting=quoting)
            end = first
            table.fieldnames = names_of([name.strip() for name in table.fieldnames or ()], f"{path}: the header")
            end = first + table.line_num
            for row in table:
                end = first + table.line_num
                if any(chain.from_iterable(filter(None, row.values()))):  # texts, and a list of what the header has no name for
                    yield end, checked_row(path, end, row, encoding, delimiter)
                else:
                    empty += 1
    except csv.Error as error:
        raise SourceError(f"{path}: the row that begins in line {end + 1} cannot be read: {error}; {QUOTING}") from error
    except (*UNREADABLE, LookupError, UnicodeError) as error:
        raise SourceError(f"{path}: cannot be read: {error}") from error
    if empty:
        warnings.warn(f"{path}: {empty} empty rows are left out", stacklevel=2)


def checked_row(path: Path, number: int, row: dict[Any, Any], encoding: str, delimiter: str) -> dict[str, Any] | BadRow:
    """Return a row of a CSV file; a ``BadRow`` for one that has not the cells of the header, or is in another encoding."""
    if None in row or None in row.values():
        columns, comma = [name for name in row if name is not None], DELIMITERS.get(delimiter, repr(delimiter))
        cells = sum(row[name] is not None for name in columns) + len(row.get(None, ()))
        reason = f"{cells} cells, and the header has {len(columns)}; is a quote missing, or a {comma} not in quotes?"
        return BadRow(str(path), number, reason, ascii(row)[:500])
    try:
        "".join(map(str, row.values())).encode()
    except UnicodeEncodeError:
        reason = f"not {encoding or 'UTF-8; name its encoding, such as --encoding latin-1'}"
        return BadRow(str(path), number, reason, ascii(row)[:500])
    return row


def names_of(names: Sequence[str], what: str) -> list[str]:
    """Return the names of columns; several without a name get the numbers of their columns."""
    nameless = names.count("") > 1
    if twice := [name for name, count in Counter(names).items() if count > 1 and name]:
        raise SourceError(f"{what} has two columns {twice[0]!r}: rename one of them")
    return [name or (f"column {number}" if nameless else "") for number, name in enumerate(names, start=1)]


def opened(path: Path, encoding: str) -> TextIOWrapper:
    """Open a CSV file, compressed or not; LookupError for an unknown encoding."""
    codecs.lookup(encoding or "utf-8")
    if not encoding:
        with open_bytes(path) as file:
            encoding = "utf-16" if file.read(2) in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return TextIOWrapper(open_bytes(path), encoding=encoding, errors="surrogateescape", newline="")


def delimiter_of(path: Path, encoding: str) -> tuple[str, int]:
    """Return the delimiter of a CSV file, and how many lines stand before its header.

    A first line ``sep=;`` says the delimiter; else it is the one that gives the header the most cells, a comma in doubt.
    """
    with opened(path, encoding) as text:
        if declared := SEPARATOR.fullmatch(text.readline()):
            return declared[1], 1
    cells: dict[str, int] = {}
    for delimiter in "\t" if ends_with(path, packed_too(".tsv")) else DELIMITERS:
        with opened(path, encoding) as text:
            cells[delimiter] = len(next(csv.reader(text, delimiter=delimiter), []))
    return max(cells, key=lambda delimiter: cells[delimiter]), 0


def sqlite_rows(path: Path, query: str) -> Iterator[Numbered]:
    """Yield the rows of a query of a SQLite file, which is opened for reading alone."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            answer = connection.execute(query)
            names = names_of([column[0] for column in answer.description or ()], f"{path}: the query")
            for number, row in enumerate(answer, start=1):
                yield number, dict(zip(names, row, strict=True))
    except sqlite3.Error as error:
        raise SourceError(f"{path}: {error}") from error


def nested_columns(row: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the names of the values of a row, those in objects with dots: ``meta``, ``meta.user``."""
    for name, value in row.items():
        yield prefix + name if prefix else name
        if isinstance(value, dict):
            yield from nested_columns(value, f"{prefix}{name}.")


def nested_value(row: Any, path: Sequence[str]) -> Any:
    """Return the value at a path of names, and of places in lists, such as ``("messages", "0", "content")``; None if there is none."""
    for name in path:
        row = json_in(row) if isinstance(row, str) else row
        if isinstance(row, dict):
            row = row.get(name)
        else:
            row = row[int(name)] if isinstance(row, list) and name.isdigit() and int(name) < len(row) else None
    return row


def json_in(text: str) -> Any:
    """Parse a cell with a JSON object or list; None for other text."""
    try:
        return json.loads(text) if text.lstrip().startswith(("{", "[")) else None
    except (ValueError, RecursionError):
        return None


def without(row: Any, path: Sequence[str]) -> Any:
    """Return a copy of a row without the value at a path, and without objects and lists that are then empty."""
    first, *rest = path
    if isinstance(row, list) and first.isdigit() and int(first) < len(row):
        left = [*row]
        left[int(first)] = (without(row[int(first)], rest) or None) if rest else None  # others keep their places
        return left if any(item is not None for item in left) else None
    if not isinstance(row, dict) or first not in row:
        return row
    inner = without(row[first], rest) if rest else None
    return {name: inner if name == first else value for name, value in row.items() if name != first or inner}


def decoded(data: bytes, encoding: str) -> str:
    """Return the text of a file: UTF-8, or else in an encoding that the user names; lines end as ``open`` reads them."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode(encoding or "utf-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def moment(value: Any) -> str:
    """Return a time as text: ISO 8601 for seconds or milliseconds since 1970; other values unchanged."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    seconds = number / 1000 if number > 9e11 else number
    return datetime.fromtimestamp(seconds, UTC).isoformat() if SECONDS <= seconds < LATEST else str(value)
