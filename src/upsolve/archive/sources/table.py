"""Importer for any table (CSV, JSON, Parquet, Arrow, SQLite): each row is an attempt with its task and, if recorded, its outcome.

A map names the column of each field (``FIELDS``); without a map, columns have the names of the fields. Other columns are kept as JSON
in ``extra`` of the attempt. No ids are needed: tasks are told apart by ``task_id`` or by their prompt.
"""

import json
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from upsolve.archive.cells import TABLES, emptied, first_rows, nested_columns, nested_value, table_rows, without
from upsolve.archive.contest import Imports, prepared
from upsolve.archive.language_names import language_in
from upsolve.archive.outcome import OUTCOME_FIELDS, WORDS, are_statuses, recorded_verdict
from upsolve.archive.rows import BadRow, Row, build_each, code_in, data_files
from upsolve.archive.source import IMPORTS, Option, Source, Unit
from upsolve.archive.table_tests import fields_of_tests
from upsolve.errors import SourceError, one_line
from upsolve.records import from_row
from upsolve.types import Attempt, Status, Task, content_id

__all__ = ["FIELDS", "SOURCE", "read"]

TASK_FIELDS: Mapping[str, str] = {
    "task_id": "name of the task; without it, rows with the same prompt have the same task",
    "prompt": "statement",
    "tests": 'asserts, {"inputs": [...], "outputs": [...]}, or tests as in upsolve\'s JSONL',
    "entry_point": "function that the tests call",
    "difficulty": "difficulty",
    "reference": "correct program",
    "setup": "code that runs before the attempt",
    "compare": "how outputs are compared",
    "checker": "code of check(input, expected, output)",
    "limit_seconds": "processor time of one test, seconds",
    "limit_bytes": "memory, bytes",
}
ATTEMPT_FIELDS: Mapping[str, str] = {
    "code": "program",
    "answer": "whole response of a model, with its program in a fence",
    "language": "language of program and task",
    "author": "user or model",
    "created": "time, ISO 8601",
    "id": "name of the attempt in this table",
    "parent": "id, in an earlier row, of the attempt that this one repairs",
}
FILE_FIELDS: Mapping[str, str] = {
    "prompt_file": "file with the statement, relative to the table",
    "code_file": "file with the program, relative to the table",
}
ABOUT_ATTEMPT = (*(name for name in ATTEMPT_FIELDS if name not in ("code", "answer", "language")), *OUTCOME_FIELDS)
"""Fields that say something about an attempt, beside its program."""
FIELDS = {**TASK_FIELDS, **ATTEMPT_FIELDS, **FILE_FIELDS, **OUTCOME_FIELDS}
"""What a column can hold -> what that is."""
NAMED_ONLY = ("answer", *FILE_FIELDS)
"""Fields whose column must be named: a column ``answer`` often holds the expected answer."""
NAMES = ("task_id", "prompt", "prompt_file")
"""Fields by which tasks are told apart."""
PROGRAMS = ("code", "answer", "code_file")
KEYS = (*NAMES, *PROGRAMS, "status", "passed")
"""Fields whose columns, if named, the first rows of JSON must have."""


@dataclass
class Reader:
    """Builds records from rows; yields each task once."""

    columns: Mapping[str, str]
    """Field -> column."""
    name: str
    """Prefix of task ids, and the tasks' source."""
    words: Mapping[str, Status]
    """Word of a status -> status."""
    languages: Mapping[str, str] = field(default_factory=dict[str, str])
    """Word of a language, in lower case -> language."""
    root: Path | None = None
    """Folder of the files that rows name."""
    any_language: bool = False
    """Whether attempts at a task are in several languages, so that tasks ask for none."""
    tasks: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    """Hash (without the language) and language of the tasks yielded so far, by id: a table may have more tasks than fit in memory."""
    built: dict[str, Task] = field(default_factory=dict[str, Task])
    """The task of the last row by its cells: rows of a task often follow one another."""
    attempts: dict[str, str] = field(default_factory=dict[str, str])
    """Name of an attempt in the table (``id``) -> ``attempt_id``."""
    used: set[str] = field(default_factory=set[str])
    """Fields that had a value in a row."""

    def __post_init__(self) -> None:
        self.taken = {*self.columns.values()}
        self.nested = {column: tuple(column.split(".")) for column in self.taken if "." in column}

    def value(self, row: Mapping[str, Any], column: str) -> Any:
        """Return the value of a column, whose name may be a path into objects."""
        return nested_value(row, self.nested[column]) if column in self.nested and column not in row else row.get(column)

    def records(self, row: dict[str, Any]) -> Iterator[Row]:
        """Yield the records of a row: its task if it is new, the attempt, and its recorded verdict, if any."""
        cells = {
            name: value
            for name, column in self.columns.items()
            if (value := self.value(row, column)) not in (None, "") and value == value  # NaN is missing
        }
        self.used |= cells.keys()
        cells |= {key.removesuffix("_file"): self.text(cells[key]) for key in FILE_FIELDS if key in cells}
        rest = {column: value for column, value in row.items() if column not in self.taken and value not in (None, "")}
        for column, path in self.nested.items():
            rest = rest if column in row else without(rest, path)
        about = repr([cells[key] for key in (*TASK_FIELDS, "language") if key in cells])
        task = self.built.get(about) or self.task(cells)
        old = self.tasks.get(task.task_id)
        self.refuse_lost(cells, row)
        if old is None:
            yield task
        elif about not in self.built and "prompt" in cells and old[0] != hash(replace(task, language="")):
            raise ValueError(f"task {task.task_id} has different content in an earlier row")
        if "code" in cells or "answer" in cells:
            yield from self.attempt(cells, rest, task)
        if old is None:
            self.tasks[task.task_id] = hash(replace(task, language="")), sys.intern(task.language)
        self.built = {about: task}

    def refuse_lost(self, cells: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        """Raise ValueError for a row with an empty program and something about an attempt, which would be lost; others describe a task."""
        empty = [self.columns[name] for name in PROGRAMS if self.columns.get(name, "").split(".")[0] in row]
        lost = [name for name in ABOUT_ATTEMPT if name in cells]
        if empty and lost and not {*PROGRAMS} & {*cells}:
            raise ValueError(f"{empty[0]} is empty, but the row has {', '.join(lost)}: an attempt needs a program")

    def text(self, name: Any) -> str:
        """Return the text of a file that a row names; ValueError if it is outside of the table's folder, cannot be read, or is not UTF-8."""
        if self.root is None:
            raise ValueError(f"file {name}: the table has no folder")
        file = (self.root / str(name)).resolve()
        if not file.is_relative_to(self.root):
            raise ValueError(f"file {name}: outside of {self.root}")
        try:
            return file.read_text(encoding="utf-8-sig")
        except OSError as error:
            raise ValueError(f"file {name}: {error.strerror}") from error

    def task(self, cells: Mapping[str, Any]) -> Task:
        """Return the task of a row; of one with an id and no prompt, id and language of the task of an earlier row."""
        name = str(cells.get("task_id", ""))
        full = name if "/" in name else f"{self.name}/{name or content_id(str(cells.get('prompt')))[:12]}"
        if "prompt" not in cells:
            if not name:
                raise ValueError(
                    f"neither a prompt ({self.columns['prompt']!r}) nor the id of a task ({self.columns['task_id']!r})"
                )
            if full not in self.tasks:
                raise ValueError(f"no prompt, and no earlier row has the task {name!r}")
            return Task(full, "", language=self.tasks[full][1])
        fields = {key: cells[key] for key in TASK_FIELDS if key in cells and key != "tests"}
        language = "" if self.any_language else self.language(cells) or "python"
        about = {"task_id": full, "source": self.name, "language": language}
        return from_row(Task, {**fields, **fields_of_tests(cells), **about})

    def language(self, cells: Mapping[str, Any]) -> str:
        """Return the language in a row, as upsolve calls it; empty if it says nothing."""
        word = str(cells.get("language", "")).strip()
        return self.languages.get(word.lower()) or language_in(word)

    def mixed(self, rows: Iterable[Mapping[str, Any]]) -> bool:
        """Return whether a task has rows in several languages."""
        found: dict[str, set[str]] = {}
        for row in rows:
            cells = {name: self.value(row, self.columns.get(name, name)) for name in (*NAMES, "language")}
            if cells["language"]:
                found.setdefault(repr([cells[name] for name in NAMES]), set()).add(self.language(cells))
        return any(len(languages) > 1 for languages in found.values())

    def likely_outcome(self, rows: Sequence[Mapping[str, Any]]) -> str:
        """Return a column that no field has and that holds nothing but words for a status; empty if there is none."""
        others = dict.fromkeys(name for row in rows for name in row if name not in self.taken)
        return next((name for name in others if are_statuses((row.get(name) for row in rows), self.words)), "")

    def attempt(self, cells: Mapping[str, Any], rest: Mapping[str, Any], task: Task) -> Iterator[Row]:
        """Yield the attempt of a row and its recorded verdict."""
        fields = {key: cells[key] for key in ("code", "answer", "language", "author", "created") if key in cells}
        fields["language"] = self.language(cells) or task.language or "python"
        if str(cells.get("language", "")).lower() not in ("", fields["language"]):
            rest = {**rest, self.columns["language"]: cells["language"]}  # with the version
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


def read(
    path: Path, *, name: str = "", imports: Imports = Imports.NONE, encoding: str = "", query: str = "", **columns: str
) -> Iterator[Row]:
    """Yield the records of a file, or of the files of a folder; names of attempts, and tasks without a prompt, hold within a file.

    Args:
        path: a file whose name ends as one of ``TABLES``, or a folder of such files.
        name: prefix of task ids; default: the name of the file or folder.
        imports: what attempts find imported.
        encoding: of CSV files, if it is not UTF-8.
        query: SQL for a SQLite file.
        columns: field=column, with dots for a value in an object (``meta.user``); ``map`` names a YAML file with ``columns`` (field:
            column), ``statuses`` (word: a status) and ``languages`` (word: a language); columns given here override those of the map.

    Raises:
        SourceError: the file or the map cannot be read.
    """
    if path.is_dir():
        for unit in split(path, name=name):
            yield from read(unit.path, imports=imports, encoding=encoding, query=query, **{**columns, **unit.options})
        return
    file = columns.pop("map", "")
    plan = read_map(Path(file)) if file else {}
    named = {**plan.get("columns", {}), **columns}
    mapped = {**{field: field for field in FIELDS if field not in {*NAMED_ONLY, *named.values()}}, **named}
    try:
        words = {**WORDS, **{str(word).lower(): Status(status) for word, status in plan.get("statuses", {}).items()}}
    except ValueError as error:
        raise SourceError(f"{file}: statuses: {error}; known statuses are {', '.join(Status)}") from error
    numbered = iter(table_rows(path, encoding=encoding, query=query))
    head = first_rows(numbered)
    check_columns(path, (row for _, row in head), named, mapped, source=file or "the options")
    languages = {str(word).lower(): str(language) for word, language in plan.get("languages", {}).items()}
    reader = Reader(mapped, name or path.name.partition(".")[0], words, languages)
    reader.root = path.parent.resolve()
    first = [row for _, row in head if isinstance(row, dict)]
    reader.any_language, likely = reader.mixed(first), reader.likely_outcome(first)
    del first
    yield from prepared(build_each(path, chain(emptied(head), numbered), reader.records), imports)
    if reader.used and (unused := [f"{key}={column}" for key, column in named.items() if key not in reader.used]):
        warnings.warn(f"{path}: no row has a value for {', '.join(unused)}", stacklevel=2)
    if likely and {*PROGRAMS} & reader.used and not {*OUTCOME_FIELDS} & reader.used:
        warnings.warn(
            f"{path}: no attempt has an outcome; if column {likely} has it, import with --status {likely}", stacklevel=2
        )


def split(path: Path, *, name: str = "", **_columns: str) -> list[Unit]:
    """Return the files as units; the tasks of a folder's files are named after the folder."""
    files = data_files(path, suffixes=[ending for ending in TABLES if ending != ".json"])
    return [Unit(file, {"name": name or path.name.partition(".")[0]}) for file in files]


def read_map(file: Path) -> dict[str, Any]:
    """Return the columns and statuses of a map file, checked."""
    import yaml

    try:
        plan = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise SourceError(f"{file}: cannot be read as YAML: {one_line(error)}") from error
    if not isinstance(plan, dict) or not all(isinstance(part, dict) for part in plan.values()):
        raise SourceError(
            f"{file}: a map has the tables `columns` (field: column), `statuses` (word: status) and `languages` (word: language)"
        )
    if unknown := {*plan} - {"columns", "statuses", "languages"} | {*plan.get("columns", {})} - {*FIELDS}:
        raise SourceError(f"{file}: unknown {', '.join(sorted(map(str, unknown)))}; columns can be {', '.join(FIELDS)}")
    return plan


def check_columns(
    path: Path, head: Iterable[dict[str, Any] | BadRow], named: Mapping[str, str], mapped: Mapping[str, str], *, source: str
) -> None:
    """Raise SourceError if the first rows lack a named column, or hold neither prompts nor ids of tasks; rows of JSON may lack some."""
    found = [*dict.fromkeys(name for row in head if isinstance(row, dict) for name in nested_columns(row))]
    needed = KEYS if ".json" in path.suffixes or ".jsonl" in path.suffixes else FIELDS
    known, shown = {*found}, ", ".join(found)
    if found and (missing := [f"{key}={column}" for key, column in named.items() if key in needed and column not in known]):
        raise SourceError(f"{path}: no column for {missing[0]} of {source}; its columns are {shown}")
    if found and not {mapped.get(name) for name in NAMES} & known:
        raise SourceError(f"{path}: which column holds the prompt? --prompt COLUMN, or --map FILE; its columns are {shown}")


SOURCE = Source(
    read,
    "a CSV, JSON, Parquet, Arrow or SQLite file with one attempt per row, or a folder of such files",
    (
        Option("map", str, "YAML file with the tables `columns` (field: column), `statuses` and `languages` (word: ours)"),
        Option("name", str, "prefix of task ids (default: the name of the file or folder)"),
        Option("encoding", str, "encoding of CSV files, such as latin-1 (default: UTF-8)"),
        Option("query", str, "SQL that selects the rows of a SQLite file"),
        IMPORTS,
        *(Option(name, str, f"column of: {what}") for name, what in FIELDS.items()),
    ),
    split=split,
)
