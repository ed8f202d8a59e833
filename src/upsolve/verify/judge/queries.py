"""Plan for queries: run a query against the database of every test in one process; compare the rows outside it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isinf
from typing import Any

from upsolve.languages import ENGINES, Language, language, profile_of
from upsolve.types import Attempt, Status, Task, TestCase, TestKind, Verdict
from upsolve.verify.judge.compare import memo
from upsolve.verify.judge.outcomes import (
    ENDED,
    ClaimError,
    Outcomes,
    describe_test,
    how_it_ended,
    output_outcome,
    reported_outcome,
    verdict,
    whole_program,
)
from upsolve.verify.judge.outputs import rows_of
from upsolve.verify.judge.programs import Plan
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.sandbox.process import Job
from upsolve.verify.sandbox.runner import Exit, run_jobs

__all__ = ["expected_rows", "query_fault", "run_queries"]


RANDOM, NO_CODE = (
    re.compile(r"\b(random|randomblob|uuid|gen_random_uuid)\s*\(", re.IGNORECASE),
    re.compile(r"'[^']*'|--[^\n]*|/\*.*?\*/", re.DOTALL),
)
"""Functions of SQLite and DuckDB with random values; texts and comments of a query."""
PLACES = ("test", "start", "end")
"""Integer fields of a record: index of the test, and offsets of its rows in the output, bytes."""


def query_fault(task: Task) -> str:
    """Return why a task cannot be judged by queries; an empty string if it can."""
    if any(test.kind is not TestKind.STDIO for test in task.tests):
        return f"task {task.task_id}: a test of a query is STDIO: the database as an SQL script, and the rows expected"
    if task.compare.partition(":")[0] not in ("rows", "rows_in_order"):
        return f"task {task.task_id}: compare must be rows or rows_in_order for a query, got {task.compare}"
    for number, test in enumerate(task.tests, start=1):
        if not are_rows(test.expected):
            return f"task {task.task_id}: test {number}: expected rows are one JSON array a line, not {test.expected[:100]!r}"
    return ""


@memo
def are_rows(text: str) -> bool:
    """Return whether a text is valid rows: one JSON array per line."""
    try:
        rows_of(text)
    except (ValueError, RecursionError):
        return False
    return True


def query_job(code: str, databases: Sequence[str], settings: JudgeSettings, engine: str) -> Job:
    """Return the job that runs a query against databases; the databases are SQL scripts."""
    each = settings.limits.test_seconds
    job = {"kind": "queries", "engine": engine, "code": code, "databases": [*databases]}
    job |= {"test_seconds": 0 if isinf(each) else each, "output_bytes": settings.limits.output_bytes}
    return Job(job, None, settings.limits.wall_seconds, profile=profile_of(ENGINES[engine]) if ENGINES[engine] else "sql")


def run_queries(task: Task, attempt: Attempt, settings: JudgeSettings, tools: Language) -> Plan:
    """Judge a query on the database of every test, built by the task's setup and the test's input."""
    databases = [f"{task.setup}\n{test.input}" for test in task.tests]
    end = yield query_job(attempt.code, databases, settings, tools.engine)
    return with_column(verdict(task, attempt, query_outcomes(task, end), ends=[end]), end)


def expected_rows(
    query: str, databases: Sequence[str], settings: JudgeSettings | None = None, *, name: str = "sql"
) -> list[str]:
    """Return the rows of a reference query for each database, in the form of expected outputs; it runs in the sandbox.

    A query that calls ``random()`` has no expected rows: a right query may give others.

    Args:
        query: the reference query.
        databases: SQL scripts that build the databases.
        settings: limits and isolation.
        name: name or alias of the language.

    Raises:
        ValueError: a database cannot be built, the query fails on it, or its rows are random; says why.
        JudgeError: the sandbox broke, or a layer is missing.
    """
    settings = settings or JudgeSettings()
    if found := RANDOM.search(NO_CODE.sub(" ", query)):
        raise ValueError(f"the reference query calls {found[1]}(): a right query may give other rows")
    task = Task("reference", "", tuple(TestCase(TestKind.STDIO, database) for database in databases), compare="rows")
    (end,) = run_jobs([query_job(query, databases, settings, language(name).engine)], settings)
    try:
        outcomes, errors = query_outcomes(task, end)
    except ClaimError as error:
        raise ValueError(str(error)) from error
    if any(outcome not in (Status.PASSED, Status.FAILED) for outcome in outcomes):
        kind, message = next((error[0], error[1]) for error in errors if error[0])
        raise ValueError(f"the reference query fails: {kind}: {message}")
    return [rows_in(end, record) for record in end.records if "end" in record]


def query_outcomes(task: Task, end: Exit) -> Outcomes:
    """Return the outcome of every test, and the errors ``[type, message, line]`` in order of the tests."""
    if early := whole_program(end):
        return [early[0]] * len(task.tests), [early[1]]
    valid = [record for record in end.records if all(type(record.get(key, 0)) is int for key in PLACES)]
    by_test = {record["test"]: record for record in valid if "test" in record}
    outcomes: list[Status] = []
    errors: list[list[Any]] = []
    for index, test in enumerate(task.tests):
        record = by_test.get(index)
        if record is None and (Status.UNSCORED in outcomes or (outcomes and outcomes[-1] in ENDED)):
            outcome, error = Status.UNSCORED, None
        elif record is None:
            outcome, error = how_it_ended(end)
        elif "end" in record:
            outcome, error = output_outcome(task, index, rows_in(end, record))
        else:
            outcome, error = reported_outcome(record)
            error = [error[0], describe_test(index, test, error[1]), error[2]]
        outcomes.append(outcome)
        errors += [error] if error else []
    return outcomes, errors


def rows_in(end: Exit, record: Mapping[str, Any]) -> str:
    """Return the bytes of the output between the offsets in a record."""
    return end.stdout[record.get("start", 0) : record["end"]].decode("utf-8", "replace")


def with_column(error: Verdict, end: Exit) -> Verdict:
    """Add the column of a syntax error to its finding."""
    reports = [record["compile"] for record in end.records if isinstance(record.get("compile"), list)]
    column = reports[0][3] if reports and len(reports[0]) > 3 and type(reports[0][3]) is int else 1
    findings = tuple(replace(finding, column=max(1, column)) for finding in error.findings)
    return replace(error, findings=findings)
