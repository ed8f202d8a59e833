"""Rows of Parquet, Arrow, workbooks and databases, batch by batch."""

import json
import re
import sqlite3
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from datetime import date, datetime, time
from decimal import Decimal
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from upsolve.errors import MissingExtraError, SourceError, counted, one_line
from upsolve.extras import needs_extras
from upsolve.files import cache_folder, replaced
from upsolve.importers.formats.files import Member, on_disk, unreadable
from upsolve.importers.formats.texts import WRONG, is_text, names_of
from upsolve.importers.rows import BadRow, Numbered
from upsolve.solve.databases import quoted
from upsolve.types import content_id

__all__ = [
    "DUCKDB_TABLES",
    "SQLITE_TABLES",
    "arrow_rows",
    "copy_of_query",
    "duckdb_rows",
    "excel_rows",
    "is_database",
    "parquet_rows",
    "sqlite_rows",
]

BATCH_BYTES, BATCH_ROWS = 16 << 20, 1000
"""Limits of the rows of a file in memory at a time: bytes (as stored, without compression) and rows; assumes rows of equal size."""
RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
"""Attribute of a sheet of a workbook that names its file."""
BUFFER = 1 << 20
"""Number of bytes of each column of a Parquet file that are read at a time."""


def parquet_rows(member: Member) -> Iterator[Numbered]:
    """Yield the rows of a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with on_disk(member) as path, pq.ParquetFile(path, buffer_size=BUFFER, pre_buffer=False) as file:
            about = file.metadata
            size = sum(about.row_group(index).total_byte_size for index in range(about.num_row_groups))
            row_bytes = max(1, size // max(1, about.num_rows))
            batches = file.iter_batches(batch_size=max(1, min(BATCH_ROWS, BATCH_BYTES // row_bytes)))
            yield from enumerate((row for batch in batches for row in rows_of_batch(batch)), start=1)
    except (OSError, pa.ArrowException) as error:
        raise unreadable(member.where, error) from error


def arrow_rows(member: Member) -> Iterator[Numbered]:
    """Yield the rows of an Arrow stream, the format of ``save_to_disk`` of datasets, or of an Arrow file (Feather)."""
    import pyarrow as pa

    try:
        with on_disk(member) as path, pa.memory_map(str(path)) as source:
            is_file = source.read(6) == b"ARROW1"
            source.seek(0)
            opened: Any = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
            batches = map(opened.get_batch, range(opened.num_record_batches)) if is_file else opened
            yield from enumerate((row for batch in batches for part in parts_of(batch) for row in rows_of_batch(part)), start=1)
    except (OSError, pa.ArrowException) as error:
        raise unreadable(member.where, error) from error


def rows_of_batch(batch: Any) -> list[dict[str, Any]]:
    """Return the rows of an Arrow batch; columns with the same name stay separate."""
    names = batch.schema.names
    return (batch if len({*names}) == len(names) else batch.rename_columns(names_of(names))).to_pylist()


def parts_of(batch: Any) -> Iterator[Any]:
    """Yield the rows of an Arrow batch, as many at a time as memory allows."""
    size = max(1, min(BATCH_ROWS, BATCH_BYTES * batch.num_rows // max(1, batch.nbytes)))
    yield from (batch.slice(start, size) for start in range(0, batch.num_rows, size))


def excel_rows(member: Member, query: str = "") -> Iterator[Numbered]:
    """Yield the rows of the sheet ``query``, by default the only non-empty one; its first row with values names the columns."""
    with needs_extras():
        import python_calamine as calamine
    try:
        with member.open() as file, closing(calamine.CalamineWorkbook.from_filelike(file)) as book:
            heights = {name: book.get_sheet_by_name(name).height for name in book.sheet_names}
            chosen = book.get_sheet_by_name(only(member, "sheet", heights, query))
            if cell := uncomputed(member, chosen.name):
                raise SourceError(
                    f"{member.where}: sheet {chosen.name}, cell {cell}: a formula without a computed value; open the file in a spreadsheet "
                    "program, save it, and import it again"
                )
            numbered = (
                (number, row) for number, row in enumerate(chosen.iter_rows(), start=1) if any(cell != "" for cell in row)
            )
            names = names_of([str(plain(name) or "").strip() for name in next(numbered, (0, []))[1]])
            left = chosen.start[1] if chosen.start else 0
            for number, row in unmerged(numbered, chosen.merged_cell_ranges or (), left):
                yield number, dict(zip(names, map(plain, row), strict=True))
    except (OSError, calamine.CalamineError) as error:
        raise unreadable(member.where, error) from error


def unmerged(rows: Iterable[tuple[int, list[Any]]], merged: Iterable[Any], left: int) -> Iterator[tuple[int, list[Any]]]:
    """Yield numbered rows, whose first column is ``left``; a merged cell's value is copied to all rows and columns that it spans.

    A merged cell is given by its first and last row and column, from 0.
    """
    spans = {(row + 1, column - left): (last_row + 1, last_column - left) for (row, column), (last_row, last_column) in merged}
    held: dict[int, tuple[int, Any]] = {}
    for number, row in rows:
        for column in range(len(row)):
            if (number, column) in spans:
                last_row, last_column = spans[number, column]
                held |= dict.fromkeys(range(column, last_column + 1), (last_row, row[column]))
            if column in held and number <= held[column][0]:
                row[column] = held[column][1]
        yield number, row


def uncomputed(member: Member, sheet: str) -> str:
    """Return the first cell of a sheet of an .xlsx file whose formula has no computed value; empty if there is none.

    Libraries such as openpyxl and XlsxWriter store no value, or 0, and ask for a computation when the file is opened (``fullCalcOnLoad``).
    """
    with on_disk(member) as path, suppress(zipfile.BadZipFile, KeyError, ElementTree.ParseError), zipfile.ZipFile(path) as book:
        parts = ("xl/workbook.xml", "xl/_rels/workbook.xml.rels")
        about, links = (ElementTree.fromstring(book.read(name)) for name in parts)  # noqa: S314  expat limits what entities grow to
        never = any(one.get("fullCalcOnLoad") in ("1", "true") for one in about.iterfind("{*}calcPr"))
        link = next((one.get(RELATION) for one in about.iterfind("{*}sheets/{*}sheet") if one.get("name") == sheet), "")
        target = next((str(one.get("Target")) for one in links if one.get("Id") == link), "")
        with book.open(target.removeprefix("/") if target.startswith("/") else f"xl/{target}") as text:
            for _, row in ElementTree.iterparse(text):  # noqa: S314
                if row.tag.endswith("}row"):
                    for cell in row.iterfind("{*}c"):
                        if cell.find("{*}f") is not None and (never or cell.find("{*}v") is None):
                            return str(cell.get("r"))
                    row.clear()
    return ""


def plain(cell: Any) -> Any:
    """Return a cell of a workbook: whole numbers as int, times as text in ISO 8601, and None for an empty cell."""
    if isinstance(cell, float) and cell.is_integer():
        return int(cell)
    return cell.isoformat() if isinstance(cell, date | datetime | time) else None if cell == "" else cell


def only(member: Member, what: str, found: dict[str, int], name: str) -> str:
    """Return the name of the table or sheet to read: the given name, or the only one with rows. If there are several, SourceError lists them."""
    filled = [one for one, rows in found.items() if rows]
    if name in found or (not name and len(filled) == 1):
        return name or filled[0]
    listed = ", ".join(f"{one} ({counted(rows, 'row')})" for one, rows in found.items()) or "none"
    wrong = f"no {what} {name!r}" if name else f"which {what}?"
    raise SourceError(f"{member.where}: {wrong} --query NAME; its {what}s are {listed}")


SQLITE_TABLES = "select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%'"
DUCKDB_TABLES = "select table_name as name from information_schema.tables"
"""Queries of the names of the tables of a database."""


def sqlite_rows(member: Member, query: str = "") -> Iterator[Numbered]:
    """Yield the rows of a query or table of a SQLite file, by default its only table; the file is opened read-only."""
    try:
        with on_disk(member) as path, closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            connection.text_factory = partial(str, encoding="utf-8", errors=WRONG)
            for number, row in rows_of_query(member, connection.execute, SQLITE_TABLES, query):
                sound = isinstance(row, BadRow) or is_text("".join(map(str, row.values())))
                yield number, row if sound else BadRow(member.where, number, "a text is not UTF-8", ascii(row)[:500])
    except sqlite3.Error as error:
        raise SourceError(f"{member.where}: {one_line(error)}") from error


def duckdb_rows(member: Member, query: str = "") -> Iterator[Numbered]:
    """Yield the rows of a query or table of a DuckDB file, by default its only table; the file is opened read-only."""
    import duckdb

    try:
        with on_disk(member) as path, duckdb.connect(str(path), read_only=True) as connection:
            yield from rows_of_query(member, connection.execute, DUCKDB_TABLES, query)
    except duckdb.Error as error:
        raise SourceError(f"{member.where}: {one_line(error)}") from error


def rows_of_query(member: Member, execute: Callable[[str], Any], listed: str, query: str) -> Iterator[Numbered]:
    """Yield the rows of a query, or of a table given by name, of a database; a statement lists the database's tables."""
    if not query.strip().count(" "):
        tables = [name for (name,) in execute(listed).fetchall()]
        counts = {name: execute(f"select count(*) from {quoted(name)}").fetchone()[0] for name in tables}  # noqa: S608
        query = f"select * from {quoted(only(member, 'table', counts, query.strip()))}"  # noqa: S608
    yield from enumerate(rows_with(execute(query)), start=1)


SERVER = re.compile(
    r"(?:postgres(?:ql)?|mysql|mariadb|oracle|mssql|sqlite|duckdb|snowflake|bigquery|redshift|cockroachdb|clickhouse|trino|\w+\+\w+)(?:\+\w+)?://"
)
"""Beginning of a URL of a database, as SQLAlchemy writes them."""


def is_database(path: object) -> bool:
    """Return whether a path is the URL of a database, such as ``postgresql://user@host/judge`` or ``duckdb://``."""
    return bool(SERVER.match(str(path)))


def copy_of_query(url: str, query: str) -> Path:
    """Write the rows of a query as JSON lines into the cache folder, and return the file; a file of an interrupted import is reused.

    Raises:
        SourceError: there is no query, or the database refuses it.
        MissingExtraError: SQLAlchemy is not installed.
    """
    shown = re.sub(r":[^:@/]*@", ":***@", url)
    if not query:
        raise SourceError(f"{shown}: is a database; select the rows to read with --query 'select ...'")
    scheme, _, rest = url.partition("://")
    file = cache_folder() / "sources" / content_id(f"{url}\n{query}") / "query" / f"{Path(rest).stem or scheme}.jsonl"
    if file.exists():
        return file
    try:
        with replaced(file) as temporary, temporary.open("w", encoding="utf-8") as out:
            for row in answer_of(url, query):
                out.write(json.dumps(row, default=as_json) + "\n")
    except MissingExtraError:
        raise
    except Exception as error:  # every driver has its own exceptions
        raise SourceError(f"{shown}: {one_line(error)}") from error
    return file


def as_json(value: Any) -> Any:
    """Return a JSON value for a database value that JSON lacks: numbers as numbers, times in ISO 8601, bytes and others as text."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(plain(value))


def answer_of(url: str, query: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a query of a database, through SQLAlchemy; for DuckDB, of its file or of the files that the query names."""
    scheme, _, file = url.partition("://")
    if scheme == "duckdb":
        import duckdb

        with duckdb.connect(file.removeprefix("/") if file else ":memory:", read_only=bool(file)) as connection:
            yield from rows_with(connection.execute(query))
        return
    with needs_extras():
        import sqlalchemy
    engine = sqlalchemy.create_engine(url)
    try:
        with engine.connect().execution_options(stream_results=True) as connection:
            answer = connection.exec_driver_sql(query)
            yield from rows_with(answer, [*answer.keys()])
    finally:
        engine.dispose()


def rows_with(answer: Any, names: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield the rows of an answer with the given column names, by default its own."""
    unique = names_of(names or [column[0] for column in answer.description or ()])
    for row in chain.from_iterable(iter(lambda: answer.fetchmany(BATCH_ROWS), [])):
        yield dict(zip(unique, row, strict=True))
