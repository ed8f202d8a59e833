"""Task + Attempt -> Verdict. The attempt gets code and inputs; answers stay here.

The algebra: a program that does not compile is a compile error; otherwise the first test that did not pass decides, and the
tests after it keep their own outcomes as far as they were reached.
"""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from upsolve.errors import IsolationError, JudgeError
from upsolve.types import Attempt, Finding, Status, Task, TestCase, TestKind, Verdict
from upsolve.verify.compare import decode, equal, lines_match, literal
from upsolve.verify.limits import Limits
from upsolve.verify.sandbox import Exit, run_job

__all__ = ["JUDGE", "judge"]

JUDGE = "upsolve-1"
"""Name and version of this judge; part of every verdict."""

HEAD = 1000
LANGUAGES = ("", "python")


def judge(task: Task, attempt: Attempt, limits: Limits | None = None, *, isolation: str = "required") -> Verdict:
    """Judge one attempt.

    A judge that breaks tries once more, then says ``UNSCORED`` and why.

    Args:
        task: its tests decide.
        attempt: the code.
        limits: of one attempt; None means the defaults.
        isolation: ``required`` refuses to run without namespaces, ``best_effort`` takes what is there.

    Raises:
        IsolationError: a required layer is missing.
    """
    limits = limits or Limits()
    problem = impossible(task, attempt)
    for _ in range(0 if problem else 2):
        try:
            return run(task, attempt, limits, isolation)
        except IsolationError:
            raise
        except ClaimError as error:
            if control_runs(task, limits, isolation):
                return forged(task, attempt, str(error))
            problem = str(error)
        except (JudgeError, OSError, ValueError) as error:
            problem = f"{type(error).__name__}: {error}"
    return Verdict(attempt.attempt_id, Status.UNSCORED, total=len(task.tests), judge=JUDGE, error_message=problem[:500])


class ClaimError(JudgeError):
    """The attempt's process says that the task or the sandbox is at fault. The attempt may have forged that."""


def control_runs(task: Task, limits: Limits, isolation: str) -> bool:
    """Return whether the task's setup runs with an empty attempt: then it is not at fault."""
    try:
        run(task, Attempt(task.task_id, ""), limits, isolation)
    except ClaimError:
        return False
    return True


def forged(task: Task, attempt: Attempt, claim: str) -> Verdict:
    """Return the verdict of an attempt that tried to be unscored."""
    total = len(task.tests)
    outcomes = (Status.RUNTIME_ERROR,) * total
    said = f"wrote to the result channel: {claim}"[:500]
    return Verdict(
        attempt.attempt_id, Status.RUNTIME_ERROR, 0, total, outcomes, JUDGE, error_type="Forgery", error_message=said
    )


def impossible(task: Task, attempt: Attempt) -> str:
    """Return why this judge cannot judge this, or an empty string."""
    if not task.tests:
        return f"task {task.task_id} has no tests"
    if attempt.language not in LANGUAGES:
        return f"language {attempt.language!r} is not known here; known: python"
    try:
        for test in task.tests:
            if test.kind is TestKind.CALL:
                literal(test.expected)
    except ValueError as error:
        return f"task {task.task_id}: {error}"
    return ""


def run(task: Task, attempt: Attempt, limits: Limits, isolation: str) -> Verdict:
    """Run the tests by kind and put the outcomes together."""
    base = {"code": attempt.code, "setup": task.setup}
    if task.tests[0].kind is TestKind.STDIO:
        return run_programs(task, attempt, base, (limits, isolation))
    nonce = secrets.token_hex(8)
    tests = [[test.kind.value, test.input] for test in task.tests]
    end = run_job({**base, "tests": tests, "nonce": nonce}, limits, wall_seconds=limits.wall_seconds, isolation=isolation)
    outcomes, errors = function_outcomes(task.tests, end, nonce)
    return verdict(task, attempt, (outcomes, errors), [end])


def function_outcomes(tests: Sequence[TestCase], end: Exit, nonce: str) -> tuple[list[Status], list[list[Any]]]:
    """Return the outcome of every test and the errors ``[type, message, line]`` in order."""
    by_test: dict[int, Mapping[str, Any]] = {}
    for record in end.records:
        if isinstance(index := record.get("test"), int):
            by_test.setdefault(index, record)
    early = whole_program(end)
    if early:
        return [early[0]] * len(tests), [early[1]]
    outcomes: list[Status] = []
    errors: list[list[Any]] = []
    canary_fell = any("canary" in record for record in end.records)
    for index, test in enumerate(tests):
        if index in by_test:
            outcome, error = test_outcome(test, by_test[index], nonce if not canary_fell else "")
        elif Status.UNSCORED in outcomes or (outcomes and outcomes[-1] in ENDED):
            outcome, error = Status.UNSCORED, None
        else:
            outcome, error = how_it_ended(end)
        outcomes.append(outcome)
        errors += [error] if error else []
    return outcomes, errors


ENDED = (Status.TIMEOUT, Status.MEMORY_LIMIT, Status.OUTPUT_LIMIT)


def whole_program(end: Exit) -> tuple[Status, list[Any]] | None:
    """Return the status of a program that never reached its tests, with the error; None when it did."""
    for record in end.records:
        if "compile" in record:
            return Status.COMPILE_ERROR, error_of(record["compile"])
        if "setup" in record:
            raise ClaimError(f"the task's own setup fails: {record['setup']}")
        if "broken" in record:
            raise ClaimError(str(record["broken"]))
        if "load" in record:
            return error_status(error_of(record["load"])), error_of(record["load"])
    return None


def error_of(said: Any) -> list[Any]:
    """Return ``[type, message, line]`` of an error record; an attempt may have written anything there."""
    if isinstance(said, list) and len(said) >= 3 and isinstance(said[0], str):
        return said[:3]
    return ["MalformedResult", str(said)[:200], None]


def error_status(error: Sequence[Any]) -> Status:
    """Return the status an exception stands for."""
    return Status.MEMORY_LIMIT if error[0] == "MemoryError" else Status.RUNTIME_ERROR


def test_outcome(test: TestCase, record: Mapping[str, Any], nonce: str) -> tuple[Status, list[Any] | None]:
    """Judge one test by its result line."""
    if "error" in record:
        error = error_of(record["error"])
        if test.kind is TestKind.CODE and error[0] == "AssertionError":
            return Status.FAILED, None
        return error_status(error), error
    if test.kind is TestKind.CODE:
        return (Status.PASSED if nonce and record.get("ok") == nonce else Status.FAILED), None
    same = equal(decode(record.get("value")), literal(test.expected))
    return (Status.PASSED if same else Status.FAILED), None


def how_it_ended(end: Exit) -> tuple[Status, list[Any]]:
    """Return the status of a process that left a test unanswered, from facts of the kernel."""
    if end.output_exceeded:
        return Status.OUTPUT_LIMIT, ["OutputLimit", "wrote more than the limit", None]
    if end.timed_out or end.signal == 24:
        return Status.TIMEOUT, ["Timeout", "ran into the time limit", None]
    if end.signal:
        return Status.RUNTIME_ERROR, [f"Signal{end.signal}", f"killed by signal {end.signal}", None]
    return Status.RUNTIME_ERROR, ["EarlyExit", f"left with exit code {end.returncode} before its tests", None]


def run_programs(task: Task, attempt: Attempt, base: Mapping[str, Any], how: tuple[Limits, str]) -> Verdict:
    """Run a program once a test, on standard input, within one budget of time; stop at the first that is cut off."""
    limits, isolation = how
    ends: list[Exit] = []
    outcomes: list[Status] = []
    errors: list[list[Any]] = []
    for test in task.tests:
        left = limits.wall_seconds - sum(end.wall_seconds for end in ends)
        if left <= 0 or (outcomes and outcomes[-1] in (*ENDED, Status.COMPILE_ERROR)):
            outcomes.append(Status.UNSCORED if outcomes[-1] in (*ENDED, Status.UNSCORED) else outcomes[-1])
            continue
        end = run_job({**base, "stdin": test.input}, limits, wall_seconds=left, isolation=isolation)
        outcome, error = program_outcome(test, end)
        ends.append(end)
        outcomes.append(outcome)
        errors += [error] if error else []
    return verdict(task, attempt, (outcomes, errors), ends)


def program_outcome(test: TestCase, end: Exit) -> tuple[Status, list[Any] | None]:
    """Judge one run of a program."""
    if early := whole_program(end):
        return early
    if end.output_exceeded or end.timed_out or end.signal:
        return how_it_ended(end)
    if end.returncode != 0:
        return Status.RUNTIME_ERROR, ["ExitCode", f"exit code {end.returncode}", None]
    same = lines_match(end.stdout.decode("utf-8", "replace"), test.expected)
    return (Status.PASSED if same else Status.FAILED), None


def verdict(task: Task, attempt: Attempt, result: tuple[list[Status], list[list[Any]]], ends: list[Exit]) -> Verdict:
    """Put a verdict together."""
    outcomes, errors = result
    status = next((outcome for outcome in outcomes if outcome is not Status.PASSED), Status.PASSED)
    name, message, line = (*errors[0][:3], None, None, None)[:3] if errors else ("", "", None)
    line = line if isinstance(line, int) and 1 <= line <= attempt.code.count("\n") + 1 else None
    kind = "syntax" if status is Status.COMPILE_ERROR else "traceback"
    layers = (*ends[0].layers, *(["in_process"] if any(t.kind is TestKind.CODE for t in task.tests) else []))
    return Verdict(
        attempt_id=attempt.attempt_id,
        status=status,
        passed=outcomes.count(Status.PASSED),
        total=len(task.tests),
        outcomes=tuple(outcomes),
        judge=JUDGE,
        isolation=",".join(layers),
        wall_seconds=sum(end.wall_seconds for end in ends),
        cpu_seconds=sum(end.cpu_seconds for end in ends),
        memory_bytes=max(end.memory_bytes for end in ends),
        error_type=str(name or ""),
        error_message=str(message or "")[:500],
        error_line=line,
        stdout_head=ends[-1].stdout[: 4 * HEAD].decode("utf-8", "replace")[:HEAD],
        stderr_head=ends[-1].stderr[: 4 * HEAD].decode("utf-8", "replace")[:HEAD],
        findings=(Finding(kind, str(name), str(message or "")[:500], line),) if line else (),
    )
