"""Questions and SQL queries in the layout of Spider (1809.08887) and BIRD (2305.03111), each with its SQLite databases.

train_spider.json, train_others.json, train.json, dev.json, test.json      here or in a folder here
database/<db_id>/*.sqlite, dev_databases/<db_id>/*.sqlite ...              every file is one test (2010.02840 has several each)
"""

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.formats import json_value
from upsolve.importers.rows import Row, build_each
from upsolve.importers.source import Option, Source, Unit, row_units
from upsolve.types import Task, TestCase, TestKind
from upsolve.verify.judge.queries import expected_rows

__all__ = ["SOURCE"]

FILES = {"train_spider": "train", "train_others": "train", "train": "train", "dev": "dev", "test": "test"}
"""Name of a question file -> split. Without a test file, dev is the test split, because results are then reported on dev."""
CREATES = "SELECT sql FROM sqlite_master WHERE type IN ('table', 'view') AND sql <> '' AND name NOT LIKE 'sqlite_%'"
MAX_KB, MAX_DATABASES = 100, 8
NESTED = re.compile(r"\([^()]*\)|'(?:[^']|'')*'|\"[^\"]*\"")
ORDERED = re.compile(r"\border\s+by\b", re.IGNORECASE)


QUESTIONS = 50
"""Number of questions of a unit; after an interruption the queries of a finished unit are not run again."""


def read(
    path: Path,
    *,
    max_kb: int = MAX_KB,
    max_databases: int = MAX_DATABASES,
    only: tuple[str, range] | None = None,
) -> Iterator[Row]:
    """Yield a task for each question: its reference is the recorded query, whose rows are expected.

    A question is rejected if its database is missing, or has a script longer than ``max_kb`` kilobytes. It is also rejected if the recorded query
    fails, does more than read, takes too long or gives too many rows for the judge.
    """
    files = question_files(path)
    tested = any(file.stem == "test" for file in files)
    databases_by_name: dict[str, list[Path]] = {}
    for file in sorted(path.rglob("*.sqlite"), key=lambda file: (file.stem != file.parent.name, file)):
        databases_by_name.setdefault(file.parent.name, []).append(file)

    @cache
    def database(name: str) -> tuple[str, ...]:
        return database_of(name, databases_by_name.get(name, [])[:max_databases], max_bytes=max_kb * 1000)

    for file in files if only is None else [Path(only[0])]:
        numbers = only[1] if only else None
        of_split = "test" if FILES[file.stem] == "dev" and not tested else FILES[file.stem]
        build = partial(task_of, name=file.stem, split=of_split, database=database)
        rows = ((number, row) for number, row in numbered(file) if numbers is None or number in numbers)
        yield from build_each(file, rows, lambda row, build=build: [build(row)])


def question_files(path: Path) -> list[Path]:
    """Return the question files of a folder; SourceError if it has none."""
    files = [file for pattern in ("*.json", "*/*.json") for file in sorted(path.glob(pattern)) if file.stem in FILES]
    if not files:
        raise SourceError(f"{path}: contains no question file: {', '.join(f'{name}.json' for name in FILES)}")
    return files


def split(path: Path, **_options: Any) -> list[Unit]:
    """Return units of consecutive questions of a file."""
    units = [unit for file in question_files(path) for unit in row_units(file, numbered(file), QUESTIONS)]
    return [Unit(path, {"only": (str(unit.path), unit.options["only"])}, unit.bytes) for unit in units]


def numbered(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the questions of a file with their numbers, from 1."""
    for number, row in enumerate(json_value(file), start=1):
        yield number, {"number": number, **(row if isinstance(row, dict) else {"row": row})}


def task_of(row: Mapping[str, Any], *, name: str, split: str, database: Any) -> Task:
    """Build the task of a question of either data set."""
    bird = "SQL" in row
    query, source = str(row["SQL" if bird else "query"]).strip(), "bird" if bird else "spider"
    schema, *scripts = database(str(row["db_id"]))
    evidence = str(row.get("evidence") or "").strip()
    tests = zip(scripts, expected_rows(query, scripts), strict=True)
    return Task(
        task_id=f"{source}/{name}/{row.get('question_id', row['number'])}",
        prompt="\n\n".join([schema, str(row["question"]).strip(), *([f"Hint: {evidence}"] if evidence else [])]),
        tests=tuple(TestCase(TestKind.STDIO, script, rows, hidden=True) for script, rows in tests),
        language="sql",
        difficulty=str(row.get("difficulty") or ""),
        source=source,
        reference=query,
        compare="rows_in_order" if is_ordered(query) else "rows",
        extra=json.dumps({"schema": row["db_id"], "split": split}),
    )


def is_ordered(query: str) -> bool:
    """Return whether a query orders its result; an ordered subquery does not count."""
    outer, before = query, ""
    while outer != before:
        outer, before = NESTED.sub(" ", outer), outer
    return bool(ORDERED.search(outer))


def database_of(name: str, files: Sequence[Path], *, max_bytes: int) -> tuple[str, ...]:
    """Return a schema as CREATE statements, and its databases as scripts; drops databases that are too large, but never the last."""
    scripts: list[str] = []
    problem, schema = f"no database {name}/*.sqlite here", ""
    for file in files:
        try:
            with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
                connection.text_factory = partial(str, encoding="utf-8", errors="replace")
                schema = schema or "\n".join(f"{sql.strip().rstrip(';')};" for (sql,) in connection.execute(CREATES))
                scripts.append(script_of(connection, max_bytes))
        except (sqlite3.Error, ValueError) as error:
            problem = f"{file}: {error}"
    if not scripts:
        raise ValueError(problem)
    return schema, *dict.fromkeys(scripts)


def script_of(connection: sqlite3.Connection, max_bytes: int) -> str:
    """Return a database as an SQL script; ValueError if it is longer than ``max_bytes``."""
    lines, size = list[str](), 0
    for line in connection.iterdump():
        lines.append(line)
        size += len(line.encode()) + 1
        if size > max_bytes:
            raise ValueError(f"the SQL script of its database is longer than {max_bytes // 1000} kB; raise --max-kb")
    return "\n".join(lines)


SOURCE = Source(
    read,
    "a folder in the layout of Spider or BIRD",
    (
        Option("max_kb", int, f"maximum size of a database's script, kilobytes (default: {MAX_KB})"),
        Option("max_databases", int, f"maximum number of databases per schema (default: {MAX_DATABASES})"),
    ),
    split=split,
    marks=("database/*/*.sqlite", "*databases/*/*.sqlite"),
)
