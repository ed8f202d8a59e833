"""Exit of a run -> outcomes of the tests -> verdict. Everything that an attempt wrote is untrusted data.

Evidence -> status; the first row of a table that applies decides. Sources are the kernel (exit, signals, usage), result lines and output.

    whole program                                                      status of every test
    ----------------------------------------------------------------   ----------------------------------------------------------
    line: does not compile                                             COMPILE_ERROR
    line: the task's setup or the sandbox fails                        UNSCORED if an empty attempt gets it, too; else RUNTIME_ERROR
    line: exception while loading, output above its limit              OUTPUT_LIMIT
    line: exception while loading                                      MEMORY_LIMIT for MemoryError (and, of a program, after an
                                                                       out-of-memory kill), else RUNTIME_ERROR
    the judge, the task or a tool is at fault                          UNSCORED

    one test of functions                                              status
    ----------------------------------------------------------------   ----------------------------------------------------------
    line: time limit of the test                                       TIMEOUT
    line: AssertionError of a CODE test                                FAILED
    line: exception                                                    MEMORY_LIMIT for MemoryError, else RUNTIME_ERROR (with output
                                                                       above its limit, or an out-of-memory kill: as the run ended)
    line: value, nonce of a CODE test, or final state is right         PASSED, else FAILED
    no line, after a test that is TIMEOUT, *_LIMIT or UNSCORED         UNSCORED
    no line                                                            as the run ended

    one run of a program, for one test                                 status
    ----------------------------------------------------------------   ----------------------------------------------------------
    output above its limit, deadline, signal                           as the run ended
    exit code is not 0                                                 MEMORY_LIMIT after an out-of-memory kill, else RUNTIME_ERROR
    CODE test; the checker gives all points; output is as expected     PASSED
    any other output                                                   MEMORY_LIMIT after an out-of-memory kill, else FAILED
    none: the time of all tests is used up                             UNSCORED

    how a run ended                                                    status
    ----------------------------------------------------------------   ----------------------------------------------------------
    output above its limit                                             OUTPUT_LIMIT
    out-of-memory kill in its control group                            MEMORY_LIMIT
    deadline, or limit of CPU time                                     TIMEOUT
    another signal, or exit before its tests ended                     RUNTIME_ERROR

The status of a verdict is the outcome of the first test that did not pass, else PASSED. Later tests keep their own outcomes if they were
run. Tests of standard input and others of one task are judged separately, and their verdicts merged.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from upsolve.errors import JudgeError
from upsolve.types import Attempt, Finding, Status, Task, TestCase, TestKind, Verdict, with_points, with_tests
from upsolve.verify.changes import JUDGE_VERSION
from upsolve.verify.judge.compare import answers, shown
from upsolve.verify.judge.outputs import difference, output_matches
from upsolve.verify.sandbox.runner import Exit

__all__ = [
    "ELAPSED",
    "ENDED",
    "JUDGE",
    "TEST_NUMBER",
    "ClaimError",
    "Outcomes",
    "describe_test",
    "forged",
    "function_outcomes",
    "how_it_ended",
    "merged",
    "output_outcome",
    "program_outcome",
    "reported_outcome",
    "shares_of",
    "unjudged",
    "unrunnable",
    "unscored",
    "verdict",
    "whole_program",
]

JUDGE = "upsolve-2"
"""Name and version of this judge, stored in every verdict."""

HEAD = 1000
ELAPSED = "elapsed"
"""Label of a verdict with a timeout by elapsed time, which a busy machine may have caused."""
LINE_BYTES, VALUE_BYTES = 1 << 14, 100
"""Most bytes of a test's result line in long results: ``LINE_BYTES`` plus ``VALUE_BYTES`` for each character of the expected value. The
encoding of an equal value is shorter."""
MOST_TYPE, MOST_MESSAGE = 100, 500
"""Maximum characters of an error's type and message."""
NO_MODULE = " (beside the standard library, only packages in the task's requires can be imported)"
"""Ends the message of an import that failed."""
ENDED = (Status.TIMEOUT, Status.MEMORY_LIMIT, Status.OUTPUT_LIMIT)
"""Statuses that may end a run: later tests without a result are unscored."""
Outcomes = tuple[list[Status], list[list[Any]]]
"""Outcome of every test, and the errors ``[type, message, line]`` in order of the tests."""


class ClaimError(JudgeError):
    """The attempt's process reports a fault of the task or of the sandbox; the attempt may have forged the report."""


def function_outcomes(task: Task, end: Exit, nonce: str | bool, records: Sequence[Mapping[str, Any]] | None = None) -> Outcomes:
    """Return the outcome of every test and the errors ``[type, message, line]`` in order of the tests.

    Args:
        task: the task.
        end: exit of the run.
        nonce: value that a passed CODE test must have reported.
        records: result lines that replace those of ``end``.
    """
    by_test: dict[int, Mapping[str, Any]] = {}
    for record in end.reports if records is None else records:
        index = record.get("test")
        if type(index) is int and 0 <= index < len(task.tests):
            by_test.setdefault(index, record)
    if early := whole_program(end):
        return [early[0]] * len(task.tests), [early[1]]
    outcomes: list[Status] = []
    errors: list[list[Any]] = []
    canary_fell = any("canary" in record for record in end.reports)
    for index, test in enumerate(task.tests):
        if index in by_test:
            line = end.line(by_test[index], LINE_BYTES + VALUE_BYTES * len(test.expected))
            outcome, error = test_outcome(test, line, nonce if not canary_fell else "", task.compare)
            if outcome is Status.RUNTIME_ERROR and (end.output_exceeded or end.out_of_memory):  # that is what failed
                outcome, error = how_it_ended(end)
        elif Status.UNSCORED in outcomes or (outcomes and outcomes[-1] in ENDED):
            outcome, error = Status.UNSCORED, None
        else:
            outcome, error = how_it_ended(end)
        outcomes.append(outcome)
        errors += [[error[0], describe_test(index, test, error[1]), error[2]]] if error else []
    return outcomes, errors


def describe_test(index: int, test: TestCase, message: Any) -> str:
    """Return a message after the number of its test, which is called hidden if prompts may not show it."""
    return f"{'hidden ' if test.hidden else ''}test {index + 1}: {message}"


def whole_program(end: Exit) -> tuple[Status, list[Any]] | None:
    """Return the status and the error of a program that did not reach its tests; None if it did."""
    for record in end.reports:
        if "compile" in record:
            return Status.COMPILE_ERROR, error_of(record["compile"])
        if "setup" in record:
            raise ClaimError(f"the task's own setup fails: {error_of(record['setup'])}")
        if "broken" in record:
            raise ClaimError(str(record["broken"])[:MOST_MESSAGE] if isinstance(record["broken"], str) else "malformed")
        if "load" in record:
            error = error_of(record["load"])
            if end.output_exceeded and error_status(error) is Status.RUNTIME_ERROR:  # the write past the limit is what failed
                return Status.OUTPUT_LIMIT, how_it_ended(end)[1]
            return error_status(error), error
    return None


def unrunnable(ends: Iterable[Exit]) -> str:
    """Return why the command of a run could not be started; "" if it started. Programs in other languages cannot report this."""
    messages = (record["unrunnable"] for end in ends for record in end.records if "unrunnable" in record)
    return str(next(messages, ""))[:MOST_MESSAGE]


def error_of(error: Any) -> list[Any]:
    """Return ``[type, message, line]`` of an error record, validated and truncated, since the attempt may have written it."""
    if isinstance(error, list) and len(error) >= 3 and isinstance(error[0], str) and isinstance(error[1], str):
        hint = NO_MODULE if error[0] == "ModuleNotFoundError" and error[1].startswith("No module named") else ""
        return [error[0][:MOST_TYPE], f"{error[1][:MOST_MESSAGE]}{hint}", error[2] if type(error[2]) is int else None]
    return ["MalformedResult", str(error)[:200] if isinstance(error, str | int | None) else type(error).__name__, None]


def error_status(error: Sequence[Any]) -> Status:
    """Return the status for an exception, by its type."""
    return Status.MEMORY_LIMIT if error[0] == "MemoryError" else Status.RUNTIME_ERROR


def test_outcome(test: TestCase, record: Mapping[str, Any], nonce: str | bool, compare: str) -> tuple[Status, list[Any] | None]:
    """Return the outcome of a test by its result line, and the error if it did not pass."""
    if "timeout" in record or "error" in record:
        outcome, error = reported_outcome(record)
        if test.kind is TestKind.CODE and error[0] == "AssertionError":
            return Status.FAILED, ["", f"assertion failed {error[1]}".rstrip(), error[2]]
        return outcome, error
    if test.kind is TestKind.SIMULATION:
        return (Status.PASSED, None) if record["reached"] else (Status.FAILED, ["", "did not reach the goal", None])
    if test.kind is TestKind.CODE:
        passed = bool(nonce) and record.get("ok") == nonce
        return (Status.PASSED, None) if passed else (Status.FAILED, ["", "did not prove that it ran", None])
    if answers(record.get("value"), test.expected, compare):
        return Status.PASSED, None
    value = shown(record.get("value"))[:100]
    wrong = "wrong value" if test.hidden else f"{test.input[:200]} gave {value}, expected {test.expected[:100]}"
    return Status.FAILED, ["", wrong, None]


def reported_outcome(record: Mapping[str, Any]) -> tuple[Status, list[Any]]:
    """Return the status and error of a test that raised an exception or exceeded its time limit."""
    if "timeout" in record:
        reason = record["timeout"] if isinstance(record["timeout"], str) else "exceeded the time limit of a test"
        return Status.TIMEOUT, ["Timeout", reason[:MOST_MESSAGE], None]
    error = error_of(record.get("error"))
    return error_status(error), error


def how_it_ended(end: Exit) -> tuple[Status, list[Any]]:
    """Return the status and error of a process that ended before it answered a test, from what the kernel reports."""
    if end.output_exceeded:
        return Status.OUTPUT_LIMIT, ["OutputLimit", "wrote more than the limit", None]
    if end.out_of_memory:
        return Status.MEMORY_LIMIT, ["OutOfMemory", "its processes used more memory than the limit", None]
    if end.timed_out or end.signal == 24:
        return Status.TIMEOUT, ["Timeout", "exceeded the time limit", None]
    if end.signal:
        return Status.RUNTIME_ERROR, [f"Signal{end.signal}", f"killed by signal {end.signal}", None]
    return Status.RUNTIME_ERROR, ["EarlyExit", f"exited with code {end.returncode} before its tests ended", None]


def program_outcome(task: Task, index: int, end: Exit, share: float | None) -> tuple[Status, list[Any] | None]:
    """Return the outcome of one run of a program, and the error; ``share``: share of points that the checker gave; None without a checker.

    A run in which the kernel killed a process for lack of memory exceeded its memory limit, whatever else went wrong.
    """
    outcome, error = ended_or_answered(task, index, end, share)
    return how_it_ended(end) if end.out_of_memory and outcome in (Status.FAILED, Status.RUNTIME_ERROR) else (outcome, error)


def ended_or_answered(task: Task, index: int, end: Exit, share: float | None) -> tuple[Status, list[Any] | None]:
    """Return the outcome of one run by how it ended; if it ended normally, by its output."""
    test = task.tests[index]
    if early := whole_program(end):
        return early
    if end.output_exceeded or end.timed_out or end.signal:
        return how_it_ended(end)
    if end.returncode != 0:
        return Status.RUNTIME_ERROR, ["ExitCode", f"exit code {end.returncode}", None]
    if share is not None:
        refused = f"the checker gives {share:.3g} of the points" if share else "the checker rejects the output"
        refused = "wrong output" if test.hidden else refused
        return (Status.PASSED, None) if share == 1 else (Status.FAILED, ["", describe_test(index, test, refused), None])
    if test.kind is TestKind.CODE:
        return Status.PASSED, None
    return output_outcome(task, index, end.stdout.decode("utf-8", "replace"))


def output_outcome(task: Task, index: int, got: str) -> tuple[Status, list[Any] | None]:
    """Return the outcome of a test by the program's output, and the error if they differ."""
    test = task.tests[index]
    if output_matches(got, test.expected, task.compare):
        return Status.PASSED, None
    message = "wrong output" if test.hidden else difference(got, test.expected, task.compare)
    return Status.FAILED, ["", describe_test(index, test, message), None]


def verdict(
    task: Task,
    attempt: Attempt,
    result: Outcomes,
    *,
    ends: list[Exit],
    label: str = "",
    points: Mapping[int, float] | None = None,
) -> Verdict:
    """Return the verdict for the outcomes of all tests; its status is the first outcome that is not PASSED.

    ``points``: shares of points of tests that did not pass, by index.
    """
    outcomes, errors = result
    status = next((outcome for outcome in outcomes if outcome is not Status.PASSED), Status.PASSED)
    name, message, line = (*errors[0][:3], None, None, None)[:3] if errors else ("", "", None)
    lines = attempt.code.replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1
    line = line if isinstance(line, int) and 1 <= line <= lines else None
    kind = "syntax" if status is Status.COMPILE_ERROR else "traceback"
    late = [end for end in ends if end.timed_out or end.signal == 24 or end.late_tests] if Status.TIMEOUT in outcomes else []
    elapsed = ELAPSED if Status.TIMEOUT in outcomes and not (late and all(end.steadily_late for end in late)) else ""
    found = Verdict(
        attempt_id=attempt.attempt_id,
        status=status,
        passed=outcomes.count(Status.PASSED),
        total=len(task.tests),
        outcomes=tuple(outcomes),
        judge=JUDGE,
        judge_version=JUDGE_VERSION,
        isolation=",".join([*ends[0].layers, *filter(None, (label, elapsed))]),
        wall_seconds=sum(end.wall_seconds for end in ends),
        cpu_seconds=sum(end.cpu_seconds for end in ends),
        memory_bytes=max(end.memory_bytes for end in ends),
        error_type=str(name or ""),
        error_message=str(message or "")[:500],
        error_line=line,
        stdout_head=ends[-1].stdout[: 4 * HEAD].decode("utf-8", "replace")[:HEAD],
        stderr_head=ends[-1].stderr[: 4 * HEAD].decode("utf-8", "replace")[:HEAD],
        findings=(Finding(kind, str(name), str(message or "")[:500], line),) if line else (),
        executed_lines=executed(ends, lines),
    )
    return with_points(found, [points.get(index) for index in range(len(outcomes))]) if points else found


def forged(task: Task, attempt: Attempt, claim: str) -> Verdict:
    """Return the verdict of an attempt that forged a fault of the task in order to be unscored: RUNTIME_ERROR."""
    outcomes = (Status.RUNTIME_ERROR,) * len(task.tests)
    verdict = unscored(task, attempt, f"wrote to the result channel: {claim}")
    return replace(verdict, status=Status.RUNTIME_ERROR, outcomes=outcomes, error_type="Forgery")


def executed(ends: Sequence[Exit], max_line: int) -> tuple[int, ...] | None:
    """Return the executed lines that the runs report, in 1..``max_line``; None if no run reports any."""
    reported = [record["lines"] for end in ends for record in end.reports if isinstance(record.get("lines"), list)]
    lines = {line for lines in reported for line in lines if isinstance(line, int) and 1 <= line <= max_line}
    return tuple(sorted(lines)) if reported else None


def unscored(task: Task, attempt: Attempt, problem: str) -> Verdict:
    """Return the UNSCORED verdict of an attempt that could not be judged; its message is the problem."""
    return unjudged(attempt.attempt_id, problem, total=len(task.tests))


def unjudged(attempt_id: str, problem: str, *, total: int = 0) -> Verdict:
    """Return the UNSCORED verdict of an attempt, given the attempt's id."""
    return Verdict(
        attempt_id, Status.UNSCORED, total=total, judge=JUDGE, judge_version=JUDGE_VERSION, error_message=problem[:500]
    )


TEST_NUMBER = re.compile(r"^((?:hidden )?test )(\d+)(?=: )")
"""Number of a test at the start of a message (``outcomes.describe_test``)."""


def shares_of(task: Task) -> list[tuple[Sequence[int], Task]]:
    """Return the groups of tests that are judged together (STDIO tests, all other tests), each as indices and a task with only these tests."""
    stdio = [index for index, test in enumerate(task.tests) if test.kind is TestKind.STDIO]
    if len(stdio) in (0, len(task.tests)):
        return [(range(len(task.tests)), task)]
    others = [index for index, test in enumerate(task.tests) if test.kind is not TestKind.STDIO]
    return [(chosen, with_tests(task, chosen)) for chosen in (stdio, others)]


def merged(task: Task, attempt: Attempt, shares: Sequence[tuple[Sequence[int], Verdict]]) -> Verdict:
    """Return the verdict on a whole task, merged from the verdicts on its groups of tests.

    Status and error are those of the first test that did not pass; times are added, and the largest memory counts. If a whole group is unscored, so
    is the attempt.
    """
    if broken := next((one for _, one in shares if not one.outcomes), None):
        return unscored(task, attempt, broken.error_message)
    outcomes = {index: outcome for chosen, one in shares for index, outcome in zip(chosen, one.outcomes, strict=True)}
    failed = next((index for index in sorted(outcomes) if outcomes[index] is not Status.PASSED), 0)
    ((chosen, first),) = ((chosen, one) for chosen, one in shares if failed in chosen)
    numbers = {str(place): str(index + 1) for place, index in enumerate(chosen, start=1)}  # of the tests in the whole task
    verdicts = [one for _, one in shares]
    lines = [one.executed_lines for one in verdicts if one.executed_lines is not None]
    points = {index: share for chosen, one in shares for index, share in zip(chosen, one.points, strict=True)}
    whole = replace(
        first,
        error_message=with_numbers(first.error_message, numbers),
        findings=tuple(replace(one, message=with_numbers(one.message, numbers)) for one in first.findings),
        status=outcomes[failed],
        passed=sum(one.passed for one in verdicts),
        total=len(task.tests),
        outcomes=tuple(outcomes[index] for index in sorted(outcomes)),
        isolation=",".join(dict.fromkeys(",".join(one.isolation for one in verdicts).split(","))),
        wall_seconds=sum(one.wall_seconds or 0 for one in verdicts),
        cpu_seconds=sum(one.cpu_seconds or 0 for one in verdicts),
        memory_bytes=max(one.memory_bytes or 0 for one in verdicts),
        executed_lines=tuple(sorted({*chain.from_iterable(lines)})) if lines else None,
    )
    return with_points(whole, [points[index] for index in sorted(points)])


def with_numbers(message: str, numbers: Mapping[str, str]) -> str:
    """Replace the number of the test at the start of a message."""
    return TEST_NUMBER.sub(lambda match: match[1] + numbers.get(match[2], match[2]), message)
