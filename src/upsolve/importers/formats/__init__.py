"""Rows of files of any format. The content of a file decides its format; its name does not.

A file may be compressed, or in an archive, even within another archive (``members``).
"""

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import IO, Any

from upsolve.errors import SourceError
from upsolve.importers.formats.files import Member, member_of, members, names_in, unreadable
from upsolve.importers.formats.tabular import arrow_rows, duckdb_rows, excel_rows, parquet_rows, sqlite_rows
from upsolve.importers.formats.texts import DELIMITERS, SEPARATOR, Quotes, csv_rows, encoding_of, json_rows, line_rows
from upsolve.importers.rows import BadRow, Numbered

__all__ = [
    "Kind",
    "Member",
    "data_files",
    "json_lines",
    "json_object",
    "json_value",
    "kind_of",
    "kind_of_file",
    "member_of",
    "members",
    "rows_of",
    "rows_of_file",
]

SAMPLE, LONGEST = 1 << 16, 1 << 22
"""Number of bytes that decide the format of a file, and most bytes of a first line that is parsed."""


class Kind(StrEnum):
    """Format of a file."""

    JSON = "json"
    """One JSON array or object, or several objects, each over several lines."""
    JSONL = "jsonl"
    """A JSON object on each line."""
    CSV = "csv"
    """A table of text: a row on each line, cells between commas, semicolons, tabs or vertical bars."""
    PARQUET = "parquet"
    ARROW = "arrow"
    """Arrow file (Feather) or stream."""
    EXCEL = "excel"
    """A workbook: .xlsx, .xls, .xlsb or .ods."""
    SQLITE = "sqlite"
    DUCKDB = "duckdb"
    TEXT = "text"
    """Other text, such as a program or a log."""
    BINARY = "binary"
    """Anything else."""


MAGIC = {
    b"PAR1": Kind.PARQUET,
    b"ARROW1": Kind.ARROW,
    b"\xff\xff\xff\xff": Kind.ARROW,
    b"SQLite format 3\0": Kind.SQLITE,
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": Kind.EXCEL,
}
"""First bytes of files."""
LINES = (".jsonl", ".ndjson")
"""Endings of JSON lines; they decide if the content allows two formats."""


def kind_of(member: Member) -> Kind:
    """Return the format of a file by its content; its name only decides between two possible formats. SourceError if it cannot be read."""
    with member.open() as file:
        head = file.read(SAMPLE)
        for magic, kind in MAGIC.items():
            if head.startswith(magic):
                return kind
        if head[8:12] == b"DUCK":
            return Kind.DUCKDB
        if head.startswith(b"PK") and (b"xl/" in head or b"opendocument.spreadsheet" in head):
            return Kind.EXCEL
        encoding = encoding_of(head[:4])
        text = head.decode(encoding if "utf-8" not in encoding else "latin-1", "replace").removeprefix("\xef\xbb\xbf")
        if not text.strip():  # as parallel writers leave them
            ending = member.name.lower().rpartition(".")[2]
            return Kind(ending) if ending in {*Kind} else Kind.TEXT
        if text.count("\0") > len(text) / 100:
            return Kind.BINARY
        return kind_of_text(member.name.lower(), text, file)


def kind_of_text(name: str, text: str, rest: IO[bytes]) -> Kind:
    """Return the format of a text, given its name, its first characters and the characters after them."""
    if (start := text.lstrip()[:1]) and start in "[{":
        first, newline, after = text.lstrip().partition("\n")
        if not newline:
            line = rest.readline(LONGEST).decode("latin-1")
            first, after = first + line, rest.read(SAMPLE).decode("latin-1")
        if is_json(first):
            one = not after.strip() and (start == "[" or name.endswith(".json"))
            return Kind.JSON if one else Kind.JSONL
        if is_json(after.strip().partition("\n")[0], dict) or (name.endswith(LINES) and first.strip() not in ("[", "{")):
            return Kind.JSON if start == "[" else Kind.JSONL
        return Kind.JSON
    lines = text.splitlines(keepends=True)[: -1 if len(text) >= SAMPLE else None]
    if name.endswith(LINES) or any(is_json(line, dict) for line in lines[:20]):
        return Kind.JSONL
    return Kind.CSV if name.endswith((".csv", ".tsv")) or is_table(lines) else Kind.TEXT


def is_json(line: str, kind: type = object) -> bool:
    """Return whether a line is a JSON value of a kind."""
    try:
        return isinstance(json.loads(line), kind)
    except (ValueError, RecursionError):
        return False


def is_table(lines: list[str]) -> bool:
    """Return whether lines are rows with the same number of cells (at least two) below a header of short names."""
    if lines and SEPARATOR.match(lines[0]):
        return True
    for delimiter in DELIMITERS:
        try:
            rows = [row for row in csv.reader(StringIO("".join(lines), newline=""), delimiter=delimiter, strict=True) if row]
        except csv.Error:
            continue
        if len(rows) > 1 and len(rows[0]) > 1 and {len(row) for row in rows} == {len(rows[0])}:
            header = {name.strip() for name in rows[0]}
            if len(header) == len(rows[0]) and all(0 < len(name) <= 60 for name in header):
                return True
    return False


READERS: Mapping[Kind, tuple[Callable[..., Iterator[Numbered]], tuple[str, ...]]] = {
    Kind.JSON: (json_rows, ("rows",)),
    Kind.JSONL: (line_rows, ()),
    Kind.CSV: (csv_rows, ("encoding", "quotes")),
    Kind.PARQUET: (parquet_rows, ()),
    Kind.ARROW: (arrow_rows, ()),
    Kind.EXCEL: (excel_rows, ("query",)),
    Kind.SQLITE: (sqlite_rows, ("query",)),
    Kind.DUCKDB: (duckdb_rows, ("query",)),
}
"""Format -> function that reads its rows, and the options of ``rows_of`` that it accepts."""
OTHERS = {
    "encoding": ": only CSV files have an encoding; JSON is UTF-8",
    "quotes": ": only CSV files have quotes",
    "rows": ": only JSON files are objects with a list of rows",
    "query": " is for databases and workbooks",
}
"""Option of ``rows_of`` -> message for formats that do not accept it."""


def rows_of(
    member: Member, *, rows: str = "", query: str = "", encoding: str = "", quotes: Quotes = Quotes.DOUBLE
) -> Iterator[Numbered]:
    """Return the rows of a file with their numbers, from 1; unusable rows as ``BadRow``.

    Args:
        member: the file.
        rows: name, with dots, of the list of rows in a JSON object; ``data.*``: the values of an object, whose names are in ``key``;
            ``.``: the object itself is the only row; empty: the file is a list.
        query: SQL whose rows are read, or the name of a table or sheet; needed for a database or workbook with several.
        encoding: of a CSV file; empty: UTF-8, or what its first bytes show.
        quotes: whether cells of a CSV file may be quoted.

    Raises:
        SourceError: the file cannot be read, has no such format, or an argument does not fit the format.
    """
    kind, given = kind_of(member), {"encoding": encoding, "quotes": quotes, "rows": rows, "query": query}
    if kind is Kind.TEXT and (encoding or quotes is not Quotes.DOUBLE):
        kind = Kind.CSV  # whose first lines are uneven
    if kind is Kind.JSONL and rows and not member.name.lower().endswith(LINES):
        kind = Kind.JSON  # an object on one line, such as a notebook
    if not member.size and kind not in (Kind.JSONL, Kind.CSV):
        raise SourceError(f"{member.where}: {no_rows(member, kind)}")
    read, names = READERS.get(kind, (None, ()))
    for name, reason in OTHERS.items():
        if name not in names and given[name] != (Quotes.DOUBLE if name == "quotes" else ""):
            raise SourceError(f"{member.where}: option {name}{reason}")
    if read is None:
        raise SourceError(f"{member.where}: {no_rows(member, kind)}")
    return read(member, **{name: given[name] for name in names})


def no_rows(member: Member, kind: Kind) -> str:
    """Return why a file has no rows, and the remedy."""
    with member.open() as file:
        head = file.read(4)
    if head.startswith((b"7z\xbc\xaf", b"Rar!")):
        return "is an archive that is not read: unpack it"
    what, fix = ("is binary", "convert it") if head else ("is empty", "copy it again")
    if head and kind is Kind.TEXT:
        what, fix = "is text", "convert it, or read it by a map (docs/maps.md)"
    return f"{what}, and no JSON, CSV, Parquet, Arrow, Excel, SQLite or DuckDB: {fix}"


def rows_of_file(path: Path) -> Iterator[Numbered]:
    """Yield the rows of a file on disk, with their numbers; SourceError if it has none, or cannot be read."""
    return rows_of(member_of(path))


def json_lines(path: Path) -> Iterator[Numbered]:
    """Yield the rows of a file that should be JSON lines, bad lines as ``BadRow``; SourceError if the file cannot be read."""
    member = member_of(path)
    yield from line_rows(member) if kind_of(member) in (Kind.TEXT, Kind.CSV) else rows_of(member)


def json_value(path: Path) -> Any:
    """Return the value of a JSON file; SourceError if it cannot be read."""
    member = member_of(path)
    try:
        with member.open() as file:
            return json.loads(file.read())
    except (ValueError, RecursionError) as error:
        raise unreadable(str(path), error) from error


def json_object(path: Path) -> Iterator[Numbered]:
    """Yield the object of a JSON file as its only row; a ``BadRow`` if the file holds no object, or cannot be read."""
    try:
        row = json_value(path)
    except SourceError as error:
        row = str(error)
    yield 1, row if isinstance(row, dict) else BadRow(str(path), 1, f"is not a JSON object: {str(row)[:200]}", "")


ROWS = (Kind.JSONL, Kind.PARQUET, Kind.ARROW)
"""Formats that only hold rows; JSON files beside such files often describe them."""


def data_files(path: Path, *kinds: Kind, suffixes: tuple[str, ...] = ()) -> list[Path]:
    """Return a file itself, or the files below a folder of some formats (``ROWS``), or with some endings, sorted by name.

    SourceError if there is no such file, or if a file cannot be read.
    """
    if path.is_file():
        return [path]
    wanted = kinds or ROWS
    files = [path / name for name in names_in(path)]
    found = [file for file in files if (file.name.lower().endswith(suffixes) if suffixes else kind_of_file(file) in wanted)]
    if not found:
        raise SourceError(
            f"{path}: contains no file {', '.join(f'*{one}' for one in suffixes or [f'.{kind}' for kind in wanted])}"
        )
    return found


def kind_of_file(path: Path) -> Kind | None:
    """Return the format of a file, decompressed, or of the only file in an archive; None for an archive with several files."""
    found = [*islice(members(path), 2)]
    return kind_of(found[0]) if len(found) == 1 else None
