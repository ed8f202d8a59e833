"""Rows that a source yields, and readers of files of rows, compressed or not: JSON lines, JSON arrays, Parquet, Arrow."""

import bz2
import gzip
import json
import lzma
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile, ZipFile

from upsolve.errors import SourceError, one_line
from upsolve.records import KINDS, are_plain, checked
from upsolve.types import Attempt, Task, Verdict

__all__ = [
    "ARRAYS",
    "DATA_SUFFIXES",
    "LINES",
    "NOWHERE",
    "NO_ARRAY",
    "ODD",
    "UNREADABLE",
    "BadRow",
    "LeftOut",
    "Row",
    "build_each",
    "data_files",
    "ends_with",
    "json_lines",
    "json_value",
    "language_of_task",
    "languages_from",
    "left_out",
    "named",
    "objects_in",
    "open_bytes",
    "packed_too",
    "parquet_rows",
    "place_of_row",
    "reason_of",
    "rows_of_file",
]


def open_zstd(path: Path) -> IO[bytes]:
    """Open a file compressed by zstd; it cannot be sought."""
    import pyarrow as pa

    stream: Any = pa.input_stream(path, compression="zstd")
    return BufferedReader(stream)


def open_zip(path: Path) -> IO[bytes]:
    """Open the only file in a zip, as pandas writes ``log.csv.zip``; OSError for no file, several files or an encrypted file."""
    archive = ZipFile(path)
    inside = [one for one in archive.infolist() if not one.is_dir() and not one.filename.startswith("__MACOSX/")]
    if len(inside) != 1 or inside[0].flag_bits & ENCRYPTED:
        raise OSError(f"has {len(inside)} files or is encrypted: unpack it")
    return archive.open(inside[0])


ENCRYPTED = 1
"""Flag of an encrypted file in a zip."""
OPEN: dict[str, Callable[[Path], Any]] = {
    "": lambda path: path.open("rb"),
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": open_zstd,
    ".zip": open_zip,
}
"""Last ending of a file's name -> function that opens it; the first one opens files that are not compressed."""
UNREADABLE = (OSError, EOFError, zlib.error, lzma.LZMAError, BadZipFile)
"""What reading a file raises that is missing, damaged, or not compressed as its name says."""


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file for reading, decompressed by the ending of its name; raises one of ``UNREADABLE`` on failure."""
    return OPEN.get(path.suffix.lower(), OPEN[""])(path)


def packed_too(*endings: str) -> tuple[str, ...]:
    """Return each ending alone and followed by that of each compression: ``.csv``, ``.csv.gz``, ..."""
    return tuple(ending + packed for ending in endings for packed in OPEN)


def named(endings: Iterable[str]) -> str:
    """Return some endings for a message, without those of compressed files: ``.csv, .tsv (or compressed: .gz, ...)``."""
    packed = tuple(one for one in OPEN if one)
    known = [*endings]
    alone = [ending for ending in known if not ending.endswith(packed)]
    return ", ".join(alone) + (f" (or compressed: {', '.join(packed)})" if len(alone) < len(known) else "")


def ends_with(path: Path, endings: Iterable[str]) -> bool:
    """Return whether a file's name has one of some endings, in small or in capital letters."""
    return path.name.lower().endswith((*endings,))


@dataclass(frozen=True, slots=True)
class Refused:
    """A part of a file that is not stored."""

    file: str
    """File that it comes from; empty: that of the row whose records are read (``place_of_row``)."""
    line: int
    """Line or row, from 1; 0 if it is none, or unknown."""
    reason: str
    """Reason."""
    text: str
    """Its first 500 characters."""


class BadRow(Refused):
    """A row that cannot be used; the import counts it and stores it with its reason."""

    __slots__ = ()


class LeftOut(Refused):
    """A test of a row that cannot fail and is left out; the row is stored, and the import names and counts the test."""

    __slots__ = ()


ODD = (ArithmeticError, AttributeError, LookupError, RecursionError, SyntaxError, TypeError, ValueError)
"""Exceptions that a reader may raise on values of an unexpected type or form."""

Row = Task | Attempt | Verdict | BadRow | LeftOut

OTHER_FORMS = (b"\xff\xfe", b"\xfe\xff", b"(\xb5/\xfd", b"\x1f\x8b", b"PK\x03\x04", b"BZh", b"\xfd7zXZ", b"PAR1", b"SQLite ")
"""How files begin that are no lines of JSON in UTF-8: UTF-16, zstd, gzip, zip, bzip2, xz, Parquet, SQLite."""
OTHER_FORM = "is no text in UTF-8: convert it (iconv -f UTF-16 -t UTF-8), unpack it, or give its name the right ending"
NO_ARRAY = "is not a JSON array of objects (pandas writes one with to_json(orient='records'))"
"""Remedies in errors."""
CHUNK = 100
"""Rows whose records are checked together."""
HELD = 10_000
"""Maximum number of tasks of rejected rows that are held for an attempt at them."""
NOWHERE: tuple[str, int] = ("", 0)
reading: list[tuple[str, int]] = [NOWHERE]
"""File and line of the row whose records ``build_each`` yields at the moment."""


def place_of_row() -> tuple[str, int]:
    """Return file and line of the record that a reader has just yielded; ("", 0) if it does not read with ``build_each``.

    A record that turns out to be unusable only beside others (a task with other content) can thus be named by its line.
    """
    return reading[0]


languages: list[Callable[[str], str]] = []
"""Functions that return the language of a task of another file or import (``languages_from``)."""


@contextmanager
def languages_from(language_of: Callable[[str], str]) -> Generator[None]:
    """Context manager: readers look up languages of tasks from other files or imports with ``language_of``."""
    languages.append(language_of)
    try:
        yield
    finally:
        languages.pop()


def language_of_task(task_id: str) -> str:
    """Return the language of a task that another file or import has; empty if it is not known, or may be any."""
    return languages[-1](task_id) if languages else ""


def json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any] | BadRow]]:
    """Yield the objects of a file of JSON lines, compressed or not, bad lines as ``BadRow``; SourceError if it cannot be read."""
    try:
        with open_bytes(path) as lines:
            for number, line in enumerate(lines, start=1):
                if number == 1 and line.startswith(OTHER_FORMS):
                    raise SourceError(f"{path}: {OTHER_FORM}")
                if line.strip():
                    yield number, json_line(path, number, line)
    except UNREADABLE as error:
        raise SourceError(f"{path}: cannot be read: {error}") from error


def json_line(path: Path, number: int, line: bytes) -> dict[str, Any] | BadRow:
    """Return the JSON object of a line, or a ``BadRow`` with the reason."""
    try:
        row = json.loads(line)
        if isinstance(row, dict):
            return row
        reason = "the line is not a JSON object"
    except UnicodeDecodeError:
        reason = "not UTF-8; convert the file, such as with iconv -f LATIN1 -t UTF-8"
    except json.JSONDecodeError as error:
        reason = f"{error.msg.removesuffix(' at')} (column {error.colno})"
    except (ValueError, RecursionError) as error:
        reason = str(error)
    return BadRow(str(path), number, reason, line[:500].decode("utf-8", "replace"))


def build_each(
    file: Path, rows: Iterable[tuple[int, dict[str, Any] | BadRow]], build: Callable[[dict[str, Any]], Iterable[Row]]
) -> Iterator[Row]:
    """Yield the records that ``build`` returns for each row.

    A row for which it raises, or of which a record has a field of another type, becomes a ``BadRow`` with the reason. Its tasks are
    yielded before the next attempt at them, or at the end: a reader that yields each task once does not yield them again.
    """
    numbered, held = iter(rows), dict[str, tuple[int, Task]]()
    try:
        while chunk := list(islice(numbered, CHUNK)):
            built = [(number, row, *build_row(file, number, row, build)) for number, row in chunk]
            found = [record for _, _, records, _ in built for record in records]
            by_kind = [[record for record in found if isinstance(record, kind)] for kind in KINDS.values()]
            plain = all(are_plain(same) for same in by_kind if same)
            for number, row, records, tasks in built:
                sound, more = (records, []) if plain else build_row(file, number, row, partial(checked_rows, records))
                reading[0] = (str(file), number)
                yield from with_tasks(sound, held) if held else sound
                held |= {task.task_id: (number, task) for task in [*tasks, *more]}
                while len(held) > HELD:
                    yield held.pop(next(iter(held)))[1]
        for number, task in held.values():
            reading[0] = (str(file), number)
            yield task
    finally:
        reading[0] = NOWHERE


def with_tasks(records: Iterable[Row], held: dict[str, tuple[int, Task]]) -> Iterator[Row]:
    """Yield records, and before an attempt its task if that is among the held ones, which are then yielded or replaced."""
    for record in records:
        if isinstance(record, Attempt) and record.task_id in held:
            yield held.pop(record.task_id)[1]
        elif isinstance(record, Task):
            held.pop(record.task_id, None)
        yield record


def build_row(
    file: Path, number: int, row: dict[str, Any] | BadRow, build: Callable[[dict[str, Any]], Iterable[Row]]
) -> tuple[list[Row], list[Task]]:
    """Return the records of a row, or a ``BadRow`` with the reason and the tasks that the row has nevertheless."""
    if isinstance(row, BadRow):
        return [row], []
    records: list[Row] = []
    try:
        for record in build(row):
            if isinstance(record, Attempt):
                refuse_surrogates(record.code)
            records.append(record)
        return records, []
    except ODD as error:
        tasks = [record for record in records if isinstance(record, Task) and is_sound(record)]
        return [BadRow(str(file), number, reason_of(error), head_of(row))], tasks


def is_sound(task: Task) -> bool:
    """Return whether the fields of a task have the right types."""
    try:
        checked(task)
    except ODD:
        return False
    return True


def head_of(value: Any) -> str:
    """Return the first 500 characters of a value; a note if the value is nested too deeply to be printed."""
    try:
        return str(value)[:500]
    except RecursionError:
        return "(nested too deeply to be shown)"


def left_out(refused: Iterable[tuple[str, str]]) -> Iterator[LeftOut]:
    """Yield tests that cannot fail, of which the reasons and texts are given."""
    for reason, text in refused:
        yield LeftOut("", 0, reason, text[:500])


def refuse_surrogates(code: Any) -> None:
    """Raise ValueError for a program that cannot be stored as it is, so that its id would be that of another program."""
    if isinstance(code, str) and not code.isascii():
        try:
            code.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"code: {error.object[error.start]!a} is half of a character (a lone surrogate)") from None


def reason_of(error: Exception) -> str:
    """Return why a row could not be read, in one line."""
    if isinstance(error, KeyError):
        return f"no field {error}"
    return one_line(error if type(error) is ValueError else f"{type(error).__name__}: {error}")


def checked_rows(records: Iterable[Row], _row: Any) -> Iterator[Row]:
    """Yield records whose fields have the right types, and a ``BadRow`` as it is; ValueError names each field that has not."""
    yield from (record if isinstance(record, Refused) else checked(record) for record in records)


BATCH_BYTES, BATCH_ROWS = 16 << 20, 1000
"""Most bytes (as stored, without compression) and rows of a Parquet file in memory at a time, as far as rows are of equal size."""


def parquet_rows(path: Path) -> Iterator[tuple[int, dict[str, Any] | BadRow]]:
    """Yield the rows of a Parquet file, batch by batch; SourceError if the file does not exist or cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            about = file.metadata
            size = sum(about.row_group(index).total_byte_size for index in range(about.num_row_groups))
            row_bytes = max(1, size // max(1, about.num_rows))
            batches = file.iter_batches(batch_size=max(1, min(BATCH_ROWS, BATCH_BYTES // row_bytes)))
            yield from enumerate((row for batch in batches for row in batch.to_pylist()), start=1)
    except (OSError, pa.ArrowException) as error:
        raise SourceError(f"{path}: cannot be read: {error}") from error


def arrow_rows(path: Path) -> Iterator[tuple[int, dict[str, Any] | BadRow]]:
    """Yield the rows of an Arrow stream, the format of ``save_to_disk`` of datasets, or of an Arrow file (Feather), row by row."""
    import pyarrow as pa

    try:
        with pa.memory_map(str(path)) as source:
            is_file = source.read(6) == b"ARROW1"
            source.seek(0)
            opened: Any = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
            batches = map(opened.get_batch, range(opened.num_record_batches)) if is_file else opened
            rows = (batch.slice(index, 1).to_pylist()[0] for batch in batches for index in range(batch.num_rows))
            yield from enumerate(rows, start=1)
    except (OSError, pa.ArrowException) as error:
        raise SourceError(f"{path}: cannot be read: {error}") from error


def json_array(path: Path) -> Iterator[tuple[int, dict[str, Any] | BadRow]]:
    """Yield the objects of a file with one JSON array, compressed or not, which is read as a whole; other items are ``BadRow``."""
    rows = json_value(path)
    if not isinstance(rows, list):
        raise SourceError(f"{path}: {NO_ARRAY}")
    yield from objects_in(path, rows)


def json_value(path: Path) -> Any:
    """Return the value of a JSON file, compressed or not; SourceError if it cannot be read."""
    try:
        with open_bytes(path) as file:
            return json.loads(file.read())
    except (*UNREADABLE, ValueError, RecursionError) as error:
        lines = "; if each line is an object, name it .jsonl" if str(error).startswith("Extra data") else ""
        raise SourceError(f"{path}: cannot be read: {error}{lines}") from error


def objects_in(path: Path, rows: Iterable[Any]) -> Iterator[tuple[int, dict[str, Any] | BadRow]]:
    """Yield the items of an array with their numbers; a ``BadRow`` for an item that is no object."""
    for number, row in enumerate(rows, start=1):
        yield number, row if isinstance(row, dict) else BadRow(str(path), number, "not a JSON object", head_of(row))


LINES = packed_too(".jsonl", ".ndjson")
"""Endings of files with a row of JSON on each line."""
ARRAYS = packed_too(".json")
"""Endings of files with one JSON array of rows."""
DATA_SUFFIXES = {
    **dict.fromkeys(LINES, json_lines),
    **dict.fromkeys(ARRAYS, json_array),
    ".parquet": parquet_rows,
    ".arrow": arrow_rows,
    ".feather": arrow_rows,
}
"""Ending of a file's name -> reader of its rows."""


def rows_of_file(path: Path) -> Iterator[tuple[int, dict[str, Any] | BadRow]]:
    """Yield the rows of a file, in the format of its ending, with their numbers; SourceError if it is unknown, or cannot be read."""
    for suffix, reader in DATA_SUFFIXES.items():
        if ends_with(path, (suffix,)):
            return reader(path)
    raise SourceError(f"{path}: must be one of {named(DATA_SUFFIXES)}")


def data_files(path: Path, *, suffixes: Iterable[str] = (*LINES, ".parquet", ".arrow")) -> list[Path]:
    """Return a file itself, or the files below a folder with one of the endings, sorted by name; SourceError if there is none."""
    if path.is_file():
        return [path]
    endings = tuple(suffixes)
    found = sorted(file for file in path.rglob("*") if ends_with(file, endings) and file.is_file())
    if not found:
        raise SourceError(f"{path}: contains no file {named(f'*{ending}' for ending in endings)}")
    return found
