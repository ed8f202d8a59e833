"""Answers of a reference program to tests, run in the sandbox: to calls, some of which may fail, or to all tests of a task."""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from upsolve.languages import PYTHON, profile_of
from upsolve.types import Task, TestKind
from upsolve.verify.judge.compare import answers
from upsolve.verify.judge.outcomes import ClaimError, error_of, how_it_ended, whole_program
from upsolve.verify.judge.plans import as_sent, common_fields
from upsolve.verify.limits import JudgeSettings, Limits, limits_for
from upsolve.verify.sandbox.inside.values import value_of
from upsolve.verify.sandbox.process import Job, encode_text
from upsolve.verify.sandbox.runner import Exit, run_jobs

__all__ = ["OPAQUE", "REFERENCE_LIMITS", "expected_answers", "expected_values"]

OPAQUE = "..."
"""Placeholder for a value that is not a literal: an object or nan."""
LONGEST = 100_000
"""Most characters of an expected value."""
REFERENCE_LIMITS = Limits(wall_seconds=10.0, cpu_seconds=2.0)
"""Limits of a run of a reference: by processor time, so that its values do not depend on how busy the machine is."""
RUNS = 2
"""Most runs of a reference: a call that exceeds the limits is skipped, and the later calls are run once more; all runs together take less than an
attempt may."""


def expected_values(code: str, calls: Sequence[str], settings: JudgeSettings | None = None) -> list[str | None]:
    """Return the value of each call as a literal; ``OPAQUE`` for a value that is no literal, None for a value that is too long and for a
    call that raised or was not reached.

    Args:
        code: the reference program.
        calls: expressions that call its functions.
        settings: limits and isolation (default limits: ``REFERENCE_LIMITS``).

    Raises:
        ValueError: the program does not compile, fails before the calls, or no call has a value; the message says why.
        JudgeError: the sandbox broke, or a layer is missing.
    """
    settings = settings or JudgeSettings(REFERENCE_LIMITS)
    values: dict[int, str | None] = {}
    start, problem = 0, ""
    for _ in range(RUNS):
        end = run_calls(code, calls[start:], settings)
        found = {start + record["test"]: record for record in end.records if type(record.get("test")) is int}
        values |= {index: as_literal(record["value"]) for index, record in found.items() if "value" in record}
        problem = why(end, found)
        start = max(found) + 2 if found else start + 1  # the call after the last reported one has exceeded a limit
        if start >= len(calls):
            break
    if calls and not values:
        raise ValueError(f"the reference fails: {problem}")
    return [values.get(index) for index in range(len(calls))]


def run_calls(
    code: str, calls: Sequence[str], settings: JudgeSettings, *, requires: Sequence[str] = (), setup: str = ""
) -> Exit:
    """Run a program, which may import the packages of ``requires``, and calls of its functions in the sandbox."""
    sent = [as_sent(TestKind.CALL, call) for call in calls]
    job = {"kind": "tests", "code": code, "setup": setup, "tests": sent, "nonce": "", **common_fields(settings)}
    (end,) = run_jobs([Job(job, None, settings.limits.wall_seconds, profile=profile_of(requires))], settings)
    return end


def why(end: Exit, found: Mapping[int, Mapping[str, Any]]) -> str:
    """Return the error of a reference none of whose calls returned a value."""
    try:
        early = whole_program(end)
    except ClaimError as error:
        return str(error)
    reported = [record["error"] for record in found.values() if isinstance(record.get("error"), list)]
    kind, message = early[1][:2] if early else reported[0][:2] if reported else how_it_ended(end)[1][:2]
    return f"{kind}: {message}"


def as_literal(data: object) -> str | None:
    """Return encoded data as a Python literal; ``OPAQUE`` if no literal exists, None if longer than ``LONGEST``."""
    try:
        text = repr(value_of(data, set, dict))
        if text in ("inf", "-inf"):
            return text
        if len(text) > LONGEST:
            return None
        ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return OPAQUE
    return text


def expected_answers(task: Task, settings: JudgeSettings | None = None) -> list[str]:
    """Return the answer of a Python reference to every test: the literal of a CALL's value, the output of a STDIO test.

    Args:
        task: the task; its tests are all CALL, or all STDIO.
        settings: limits and isolation.

    Raises:
        ValueError: the task has no Python reference, has tests of another kind, or the reference fails or returns a value that no literal
            equals; says which test.
        JudgeError: the sandbox broke, or a layer is missing.
    """
    settings = settings or JudgeSettings()
    settings = replace(settings, limits=limits_for(task, settings))
    kinds = {test.kind for test in task.tests}
    if not task.reference.strip() or (task.language or "python") not in PYTHON:
        raise ValueError("no Python reference")
    if kinds - {TestKind.CALL, TestKind.STDIO} or len(kinds) != 1:
        raise ValueError(f"tests must be all CALL or all STDIO, not {', '.join(sorted(kinds)) or 'none'}")
    return values_of(task, settings) if kinds == {TestKind.CALL} else outputs_of(task, settings)


def values_of(task: Task, settings: JudgeSettings) -> list[str]:
    """Return the literals of the values of all CALL tests."""
    calls = [test.input for test in task.tests]
    end = run_calls(task.reference, calls, settings, requires=task.requires, setup=task.setup)
    if failed := whole_program(end):
        raise ValueError(f"the reference fails: {failed[1][0]}: {failed[1][1]}")
    by_test, texts = {record["test"]: record for record in end.records if "test" in record}, list[str]()
    for number, record in ((index + 1, by_test.get(index)) for index in range(len(calls))):
        if record is None or "value" not in record:
            error = how_it_ended(end)[1] if record is None else error_of(record.get("error"))
            raise ValueError(f"the reference fails test {number}: {error[0]}: {error[1]}")
        text = as_literal(record["value"])
        if text is None or text == OPAQUE or not answers(record["value"], text, "lines"):
            raise ValueError(f"no literal equals the value of test {number}: {str(text)[:60]}")
        texts.append(text)
    return texts


def outputs_of(task: Task, settings: JudgeSettings) -> list[str]:
    """Return the outputs of all STDIO tests."""
    base = {"kind": "program", "code": task.reference, "setup": task.setup, "lines": False}
    outputs: list[str] = []
    for number, test in enumerate(task.tests, start=1):
        (end,) = run_jobs([Job({**base, "stdin": encode_text(test.input)}, None, settings.limits.wall_seconds)], settings)
        failed = whole_program(end) or (None if end.returncode == 0 and not end.output_exceeded else how_it_ended(end))
        if failed:
            raise ValueError(f"the reference fails test {number}: {failed[1][0]}: {failed[1][1]}")
        outputs.append(end.stdout.decode("utf-8", "replace"))
    return outputs
