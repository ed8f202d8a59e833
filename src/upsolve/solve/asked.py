"""Tasks to solve, and the file of answers that an interrupted command resumes."""

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from upsolve.archive.store import read_tasks
from upsolve.errors import ConfigError, SourceError
from upsolve.files import RowFile, row_in
from upsolve.languages.names import comparison_of, is_query_language
from upsolve.solve.databases import schema_in
from upsolve.solve.solving import Answer
from upsolve.types import Task, TestCase, TestKind, content_id

__all__ = [
    "AnswerFile",
    "answer_row",
    "asked_task",
    "database_input",
    "database_inputs",
    "read_tests",
    "schema_of",
    "tasks_at",
    "without_inputs",
]


def tasks_at(place: str) -> list[Task]:
    """Return the tasks of an archive, of a JSONL file of tasks, or of ``source:path``; SourceError says what is expected."""
    is_file = Path(place).suffix == ".jsonl" and ":" not in place
    if is_file and not Path(place).is_file():
        raise SourceError(
            f"{place}: no such file; name an archive, a JSONL file of tasks, or - for one prompt from standard input"
        )
    return read_tasks(f"jsonl:{place}" if is_file else place, place)


def asked_task(
    prompt: str, *, language: str = "python", schema: str = "", tests: Sequence[TestCase] = (), entry_point: str = ""
) -> Task:
    """Return the task of one question; ConfigError if it is empty.

    The CREATE TABLE statements of ``schema`` are put before the question and run before the query. ``entry_point``: function that
    the program defines; empty for a program that reads standard input.
    """
    if not prompt.strip():
        raise ConfigError("the prompt is empty: write the question to standard input, as in `echo QUESTION | upsolve solve -`")
    text = f"{schema.strip()}\n{prompt.strip()}" if schema.strip() else prompt.strip()
    task_id, compare = f"asked/{content_id(text, language)[:12]}", comparison_of(language)
    return Task(task_id, text, tuple(tests), entry_point, language, compare=compare)


def database_input(path: Path) -> TestCase:
    """Return a SQLite database as the input of queries; ConfigError as ``read_database``."""
    return TestCase(TestKind.STDIO, "\n".join(read_database(path, lambda connection: connection.iterdump())))


def schema_of(path: Path) -> str:
    """Return the CREATE statements of the tables and views of a SQLite database; ConfigError as ``read_database``."""
    names = "select sql from sqlite_master where type in ('table', 'view') and name not like 'sqlite\\_%' escape '\\'"
    statements = read_database(path, lambda connection: (sql for (sql,) in connection.execute(names)))
    return "\n".join(f"{statement};" for statement in statements)


def read_database(path: Path, read: Callable[[sqlite3.Connection], Iterable[str]]) -> list[str]:
    """Return what ``read`` yields for a SQLite database; ConfigError if the file is missing, is not a SQLite database or has no table."""
    if not path.is_file():
        raise ConfigError(f"--database {path}: no such file")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            if not connection.execute("select 1 from sqlite_master where type = 'table'").fetchone():
                raise ConfigError(f"--database {path}: the database has no table")
            return [*read(connection)]
    except sqlite3.Error as error:
        raise ConfigError(f"--database {path}: SQLite cannot read it: {error}") from error


def database_inputs(tasks: Sequence[Task], path: Path) -> dict[str, list[TestCase]]:
    """Return task id -> the database of ``--database``, for each task that asks for a query.

    ConfigError: no task asks for a query, or the file is not a SQLite database.
    """
    queries = [task.task_id for task in tasks if is_query_language(task.language)]
    if not queries:
        raise ConfigError(f"--database {path} has no effect: no task asks for a query; for a prompt, add --language sql")
    found = database_input(path)
    return {task_id: [found] for task_id in queries}


def without_inputs(tasks: Sequence[Task], inputs: Mapping[str, Sequence[TestCase]]) -> str:
    """Return a sentence on the tasks whose candidates cannot be run; empty if there are none. ``inputs``: task id -> given inputs."""
    bare = [task for task in tasks if task.task_id not in inputs and not is_runnable(task)]
    if not bare:
        return ""
    if len(tasks) > 1:
        return f"{len(bare)} of {len(tasks)} tasks have no visible test and no schema: their candidates are not run"
    needed = "--schema, --database or --tests" if is_query_language(bare[0].language) else "--tests"
    return f"the candidates are not run, because there is no visible test and no schema: add {needed}"


def is_runnable(task: Task) -> bool:
    """Return whether a task has an input to run candidates on: a visible test, or tables from which databases are made."""
    return any(not test.hidden for test in task.tests) or any(map(schema_in, (task.setup, task.prompt)))


def answer_row(answer: Answer) -> dict[str, Any]:
    """Return an answer as a row of JSON: the program and the evidence for it, None for a kind of evidence about which nothing is known."""
    index, count = answer.choice.index, len(answer.candidates.attempts)
    return {
        "task_id": answer.task.task_id,
        "code": answer.attempt.code,
        "language": answer.attempt.language,
        "author": answer.attempt.author,
        "evidence": {
            kind: None if kind in answer.candidates.unknown else scores[index] for kind, scores in answer.choice.scores.items()
        },
        "decided_by": answer.choice.decided_by,
        "parent_id": answer.attempt.parent_id,
        "candidate": index,
        "candidates": count,
        "tokens": answer.tokens,
        "stopped": answer.stopped,
        "task_content": content_of(answer.task),
    }


def content_of(task: Task) -> str:
    """Return a content id of a task: answers to an earlier version of the task have another one."""
    return content_id(repr(task))


class AnswerFile:
    """Answers as JSON lines, after a line that identifies the command; a repeated command skips the tasks that are answered."""

    def __init__(self, path: Path, settings: str) -> None:
        """Open the file, or begin it; ``settings`` identifies everything that decides the answers.

        ConfigError: the file has answers of other settings, or is no file of answers; it is left as it is.
        """
        try:
            self.file = RowFile(path, content_id(settings))
        except ValueError as error:
            message = f"--out {path} holds answers of other tasks or settings: name another file, or remove it"
            raise ConfigError(message) from error
        self.answered: dict[str, dict[str, Any]] = {row["task_id"]: row for row in self.file.rows}

    def unanswered(self, tasks: Sequence[Task]) -> list[Task]:
        """Return the tasks without an answer in the file.

        Raises:
            ConfigError: prompt, tests or another field of an answered task have changed; the file is left as it is.
        """
        for task in tasks:
            stored = self.answered.get(task.task_id, {}).get("task_content")
            if stored not in (None, content_of(task)):
                raise ConfigError(
                    f"--out {self.file.path} holds answers of other tasks or settings, such as another version of the task {task.task_id}: "
                    "name another file, or remove it"
                )
        return [task for task in tasks if task.task_id not in self.answered]

    def add(self, row: dict[str, Any]) -> None:
        """Append an answer."""
        self.answered[row["task_id"]] = row
        self.file.add(row)


def read_tests(text: str, label: str, *, queries: bool = False) -> list[TestCase]:
    """Return the tests in JSON lines with ``input`` and ``expected``: a call and its value, or standard input and output.

    With ``queries``, inputs are databases. ConfigError: a line is not such a test (the message names the line), or no line is left.
    """
    tests: list[TestCase] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        row = row_in(line)
        if row is None or not {"input", "expected"} <= {*row}:
            raise ConfigError(f"{label}, line {number}: a test is an object with input and expected")
        is_call = not queries and (row.get("kind", "") == "call" or str(row["input"]).rstrip().endswith(")"))
        tests.append(TestCase(TestKind.CALL if is_call else TestKind.STDIO, str(row["input"]), str(row["expected"])))
    if not tests:
        raise ConfigError(f"{label}: holds no test; write JSON lines with input and expected")
    return tests
