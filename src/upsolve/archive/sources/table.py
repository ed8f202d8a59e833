"""Importer for any table (JSONL, CSV or Parquet): each row is an attempt with its task and, if recorded, its outcome.

A map names the column of each field (``FIELDS``); without a map, columns have the names of the fields. Other columns are kept as JSON
in ``extra`` of the attempt. No ids are needed: tasks are told apart by ``task_id`` or by their prompt.
"""

import csv
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from upsolve.archive.asserts import Names, parse_asserts
from upsolve.archive.contest import Imports, prepared
from upsolve.archive.outcome import OUTCOME_FIELDS, WORDS, recorded_verdict
from upsolve.archive.rows import BadRow, Row, build_each, code_in, data_files, json_lines, parquet_rows
from upsolve.archive.source import IMPORTS, Option, Source, Unit
from upsolve.errors import SourceError, one_line
from upsolve.records import from_row
from upsolve.types import Attempt, Status, Task, content_id

__all__ = ["FIELDS", "SOURCE", "read"]

TASK_FIELDS = (
    "task_id",
    "prompt",
    "tests",
    "entry_point",
    "difficulty",
    "reference",
    "setup",
    "compare",
    "checker",
    "limit_seconds",
    "limit_bytes",
)
ATTEMPT_FIELDS = ("code", "answer", "language", "author", "created", "id", "parent")
ABOUT_ATTEMPT = (*(name for name in ATTEMPT_FIELDS if name not in ("code", "answer", "language")), *OUTCOME_FIELDS)
"""Fields that say something about an attempt, beside its program."""
FIELDS = (*TASK_FIELDS, *ATTEMPT_FIELDS, *OUTCOME_FIELDS)
"""What a column can hold. ``id`` and ``parent`` are the table's own names of attempts; ``tests`` are asserts, pairs of input and
output (``{"inputs": [...], "outputs": [...]}``), or tests as in upsolve's JSONL."""
NAMED_ONLY = ("answer",)
"""Fields whose column must be named: a column ``answer`` often holds the expected answer."""
SUFFIXES = {".csv": ",", ".tsv": "\t"}


@dataclass
class Reader:
    """Builds records from rows; yields each task once."""

    columns: Mapping[str, str]
    """Field -> column."""
    name: str
    """Prefix of task ids, and the tasks' source."""
    words: Mapping[str, Status]
    """Word of a status -> status."""
    tasks: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    """Hash and language of the tasks yielded so far, by id: a table may have more tasks than fit in memory."""
    built: dict[str, Task] = field(default_factory=dict[str, Task])
    """The task of the last row by its cells: rows of a task often follow one another."""
    attempts: dict[str, str] = field(default_factory=dict[str, str])
    """Name of an attempt in the table (``id``) -> ``attempt_id``."""

    def records(self, row: dict[str, Any]) -> Iterator[Row]:
        """Yield the records of a row: its task if it is new, the attempt, and its recorded verdict, if any."""
        cells = {name: row[column] for name, column in self.columns.items() if row.get(column) not in (None, "")}
        taken = set(self.columns.values())
        rest = {column: value for column, value in row.items() if column not in taken and value not in (None, "")}
        about = repr([cells[key] for key in (*TASK_FIELDS, "language") if key in cells])
        task = self.built.get(about) or self.task(cells)
        old = self.tasks.get(task.task_id)
        self.refuse_lost(cells, row)
        if old is None:
            yield task
        elif "prompt" in cells and old[0] != hash(task):
            raise ValueError(f"task {task.task_id} has different content in an earlier row")
        if "code" in cells or "answer" in cells:
            yield from self.attempt(cells, rest, task)
        if old is None:
            self.tasks[task.task_id] = hash(task), sys.intern(task.language)
        self.built = {about: task}

    def refuse_lost(self, cells: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        """Raise ValueError for a row with an empty program and something about an attempt, which would be lost; others describe a task."""
        empty = [self.columns[name] for name in ("code", "answer") if self.columns.get(name) in row]
        lost = [name for name in ABOUT_ATTEMPT if name in cells]
        if empty and lost and not {"code", "answer"} & {*cells}:
            raise ValueError(f"{empty[0]} is empty, but the row has {', '.join(lost)}: an attempt needs a program")

    def task(self, cells: Mapping[str, Any]) -> Task:
        """Return the task of a row; of one with an id and no prompt, id and language of the task of an earlier row."""
        name = str(cells.get("task_id", ""))
        full = name if "/" in name else f"{self.name}/{name or content_id(str(cells.get('prompt')))[:12]}"
        if "prompt" not in cells:
            if full not in self.tasks:
                raise ValueError(f"no prompt, and no earlier row has the task {name!r}")
            return Task(full, "", language=self.tasks[full][1])
        fields = {key: cells[key] for key in TASK_FIELDS if key in cells and key != "tests"}
        names = Names(frozenset({str(cells.get("entry_point", ""))}))
        tests = [to_test(test) for test in tests_of(cells.get("tests", ()), names)]
        language = str(cells.get("language", "python")).lower()
        return from_row(Task, {**fields, "task_id": full, "tests": tests, "source": self.name, "language": language})

    def attempt(self, cells: Mapping[str, Any], rest: Mapping[str, Any], task: Task) -> Iterator[Row]:
        """Yield the attempt of a row and its recorded verdict."""
        fields = {key: cells[key] for key in ("code", "answer", "language", "author", "created") if key in cells}
        fields["language"] = str(fields.get("language", task.language)).lower()
        if "answer" in fields:
            fields.setdefault("code", code_in(fields["answer"], fields["language"]))
        fields |= {key: str(fields[key]) for key in ("author", "created") if key in fields}
        parent = str(cells.get("parent", ""))
        if parent and parent not in self.attempts:
            raise ValueError(f"no earlier row has the attempt {parent!r}, the parent of this one")
        extra = json.dumps(rest, default=str) if rest else ""
        columns = {**fields, "task_id": task.task_id, "parent_id": self.attempts.get(parent, ""), "extra": extra}
        attempt = from_row(Attempt, columns)
        verdict = recorded_verdict(attempt.attempt_id, cells, f"recorded:{self.name}", self.words)
        if "id" in cells:
            self.attempts[str(cells["id"])] = attempt.attempt_id
        yield attempt
        if verdict:
            yield verdict


def to_test(test: Any) -> dict[str, Any]:
    """Return a test as a row."""
    return test if isinstance(test, dict) else {name: getattr(test, name) for name in ("kind", "input", "expected", "hidden")}


def tests_of(value: Any, names: Names) -> list[Any]:
    """Return the tests in a cell; ValueError if it has none of the known forms."""
    if isinstance(value, str):
        value = json.loads(value) if value.lstrip().startswith(("[", "{")) else value.strip().splitlines()
    if isinstance(value, dict) and {"inputs", "outputs"} <= value.keys():
        pairs = zip(value["inputs"], value["outputs"], strict=True)
        return [{"kind": "stdio", "input": lines(a), "expected": lines(b), "hidden": True} for a, b in pairs]
    if not isinstance(value, list | tuple):
        raise ValueError("tests are a list of asserts or tests, or inputs and outputs")
    asserts = [test for test in value if isinstance(test, str)]
    return [*parse_asserts(asserts, names=names), *(test for test in value if not isinstance(test, str))]


def lines(value: Any) -> str:
    """Return the text of standard input or output, given as text or as a list of lines."""
    return value if isinstance(value, str) else "".join(f"{line}\n" for line in value)


def read(path: Path, *, name: str = "", imports: Imports = Imports.NONE, **columns: str) -> Iterator[Row]:
    """Yield the records of a file, or of the files of a folder; names of attempts, and tasks without a prompt, hold within a file.

    Args:
        path: ``.jsonl``, ``.jsonl.gz``, ``.csv``, ``.tsv`` or ``.parquet``.
        name: prefix of task ids; default: the name of the file or folder.
        imports: what attempts find imported.
        columns: field=column; ``map`` names a YAML file with ``columns`` (field: column) and ``statuses`` (word: a status);
            columns given here override those of the map.

    Raises:
        SourceError: the file or the map cannot be read.
    """
    if path.is_dir():
        for unit in split(path, name=name):
            yield from read(unit.path, imports=imports, **{**columns, **unit.options})
        return
    file = columns.pop("map", "")
    plan = read_map(Path(file)) if file else {}
    named = {**plan.get("columns", {}), **columns}
    mapped = {**{field: field for field in FIELDS if field not in {*NAMED_ONLY, *named.values()}}, **named}
    try:
        words = {**WORDS, **{str(word).lower(): Status(status) for word, status in plan.get("statuses", {}).items()}}
    except ValueError as error:
        raise SourceError(f"{file}: statuses: {error}; known statuses are {', '.join(Status)}") from error
    known, found = set(mapped.values()), header(path)
    if missing := [f"{key}={column}" for key, column in named.items() if found and column not in found]:
        raise SourceError(f"{path}: no column for {missing[0]} of {file or 'the options'}; its columns are {', '.join(found)}")
    if found and not known & {*found} & {mapped["prompt"], mapped["task_id"]}:
        raise SourceError(
            f"{path}: which column holds the prompt? --prompt COLUMN, or --map FILE; its columns are {', '.join(found)}"
        )
    reader = Reader(mapped, name or path.name.partition(".")[0], words)
    yield from prepared(build_each(path, rows(path), reader.records), imports)


def split(path: Path, *, name: str = "", **_columns: str) -> list[Unit]:
    """Return the files as units; the tasks of a folder's files are named after the folder."""
    files = data_files(path, suffixes=(".jsonl", ".jsonl.gz", ".csv", ".tsv", ".parquet"))
    return [Unit(file, {"name": name or path.name.partition(".")[0]}) for file in files]


def read_map(file: Path) -> dict[str, Any]:
    """Return the columns and statuses of a map file, checked."""
    import yaml

    try:
        plan = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise SourceError(f"{file}: cannot be read as YAML: {one_line(error)}") from error
    if not isinstance(plan, dict) or not all(isinstance(part, dict) for part in plan.values()):
        raise SourceError(f"{file}: a map has two tables, `columns` (field: column) and `statuses` (word: status)")
    if unknown := {*plan} - {"columns", "statuses"} | {*plan.get("columns", {})} - {*FIELDS}:
        raise SourceError(f"{file}: unknown {', '.join(sorted(map(str, unknown)))}; columns can be {', '.join(FIELDS)}")
    return plan


def rows(path: Path) -> Iterable[tuple[int, dict[str, Any] | BadRow]]:
    """Return the rows of a file with their numbers."""
    if path.suffix == ".parquet":
        return parquet_rows(path)
    return csv_rows(path, SUFFIXES[path.suffix]) if path.suffix in SUFFIXES else json_lines(path)


def header(path: Path) -> list[str]:
    """Return the columns of a file that has the same ones in every row; none of JSON lines, and of a file that cannot be read."""
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        with suppress(OSError, ValueError):  # the reader of rows says what is wrong
            return list(pq.read_schema(path).names)
    if path.suffix in SUFFIXES:
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as text, suppress(csv.Error):
            return next(csv.reader(text, delimiter=SUFFIXES[path.suffix]), [])
    return []


def csv_rows(path: Path, delimiter: str) -> Iterator[tuple[int, dict[str, Any] | BadRow]]:
    """Yield the rows of a CSV file; one that is not UTF-8, or with too many or too few cells, is a ``BadRow``."""
    csv.field_size_limit(2**27)
    try:
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as text:
            table = csv.DictReader(text, delimiter=delimiter)
            for row in table:
                if None in row or None in row.values():
                    yield table.line_num, BadRow(str(path), table.line_num, cells_of(row), ascii(row)[:500])
                    continue
                try:
                    "".join(map(str, row.values())).encode()
                    yield table.line_num, row
                except UnicodeEncodeError:
                    yield table.line_num, BadRow(str(path), table.line_num, "not UTF-8", ascii(row)[:500])
    except (OSError, csv.Error) as error:
        raise SourceError(f"{path}: cannot be read: {error}") from error


def cells_of(row: Mapping[Any, Any]) -> str:
    """Return why a row has not as many cells as the header."""
    columns = [name for name in row if name is not None]
    cells = sum(row[name] is not None for name in columns) + len(row.get(None, ()))
    return f"{cells} cells, and the header has {len(columns)}; is a quote missing, or a comma not in quotes?"


SOURCE = Source(
    read,
    "a .jsonl, .csv, .tsv or .parquet file with one attempt per row, or a folder of such files",
    (
        Option("map", str, "YAML file with the tables `columns` (field: column) and `statuses` (word: status)"),
        Option("name", str, "prefix of task ids (default: the name of the file or folder)"),
        IMPORTS,
        *(Option(name, str, f"column that holds {name}") for name in FIELDS),
    ),
    split=split,
)
