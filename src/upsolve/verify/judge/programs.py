"""Plans for programs that read standard input and write standard output, and for compiled and interpreted languages."""

import math
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from upsolve.errors import JudgeError
from upsolve.languages import Language, language, profile_of
from upsolve.types import Attempt, Finding, Status, Task, TestCase, TestKind, Verdict
from upsolve.verify.changes import OF_OLDER
from upsolve.verify.judge.checking import checked
from upsolve.verify.judge.outcomes import (
    ENDED,
    MOST_TYPE,
    Outcomes,
    how_it_ended,
    program_outcome,
    unrunnable,
    unscored,
    verdict,
)
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.sandbox.process import COMPILE_SECONDS, Job, build_job, encode_text, run_job
from upsolve.verify.sandbox.runner import Exit

__all__ = ["Plan", "in_language", "run_programs"]

Plan = Generator[Job, Exit, Verdict]
MOST_FINDINGS = 20
FINISHED = (Status.PASSED, Status.FAILED, Status.RUNTIME_ERROR)
"""Outcomes of runs after which the next test is run."""
SEARCHED = 1 << 14
"""Number of bytes at each end of standard error that are searched for exceptions and lines."""
FULL = 15 / 16
"""Share of the memory limit at which the heap counts as full: the rest is code and overhead of the allocator."""
NEWER = ("CompileError", *OF_OLDER)
"""Errors under an older Python that may mean that the program needs syntax, modules, names or arguments of a newer one."""
loadable: set[tuple[str, str]] = set()
"""Languages and packages that have been loaded in the sandbox."""


def run_programs(task: Task, attempt: Attempt, settings: JudgeSettings) -> Plan:
    """Run a Python program once per test: by the language ``settings.python``, else in forks of the warm interpreter.

    Programs that need packages, or whose first line must be an import from ``__future__`` although a setup precedes it, are always forks. So are
    programs that ``settings.python``, another implementation of Python, may fail because it is older.
    """
    if settings.python and not task.requires and not (task.setup and "__future__" in attempt.code):
        tools = language(settings.python)
        found = yield from in_language(task, attempt, settings, tools)
        if tools.grammar != "tree_sitter_python" or found.error_type not in NEWER:
            return found
    base = {"kind": "program", "code": attempt.code, "setup": task.setup, "lines": settings.lines}
    profile = profile_of(task.requires)
    jobs = [Job({**base, "stdin": encode_text(test.input)}, profile=profile) for test in task.tests]
    result, ends, points = yield from within_budget(task, jobs, settings)
    return verdict(task, attempt, result, ends=ends, points=points)


def within_budget(
    task: Task, jobs: Sequence[Job], settings: JudgeSettings
) -> Generator[Job, Exit, tuple[Outcomes, list[Exit], Mapping[int, float]]]:
    """Run one job per test within the time budget ``Limits.wall_seconds``; tests after its end are unscored.

    Also return the shares of points that a checker gave, by the index of the test.
    """
    ends: list[Exit] = []
    points: dict[int, float] = {}
    outcomes: list[Status] = []
    errors: list[list[object]] = []
    each = settings.limits.test_seconds
    stops = settings.limits.stops or math.isinf(each)
    for index, job in enumerate(jobs):
        left = settings.limits.wall_seconds - sum(end.counted_seconds for end in ends)
        over = bool(outcomes) and outcomes[-1] in ENDED and (outcomes[-1] is not Status.TIMEOUT or stops)
        if left <= 0 and outcomes and outcomes[-1] in FINISHED:  # the last run ended with the time of all
            outcomes.append(Status.TIMEOUT)
            errors.append(["Timeout", "exceeded the time limit of all tests", None])
            continue
        if left <= 0 or over or Status.COMPILE_ERROR in outcomes or Status.UNSCORED in outcomes:
            outcomes.append(Status.COMPILE_ERROR if Status.COMPILE_ERROR in outcomes else Status.UNSCORED)
            continue
        end = yield replace(job, wall_seconds=min(left, each))
        has_output = task.compare == "checker" and end.returncode == 0
        share = (yield from checked(task, index, end, settings)) if has_output else None
        outcome, error = program_outcome(task, index, end, share)
        if share and outcome is Status.FAILED:
            points[index] = share
        ends.append(end)
        outcomes.append(outcome)
        errors += [error] if error else []
    return (outcomes, errors), ends, points


def in_language(task: Task, attempt: Attempt, settings: JudgeSettings, tools: Language) -> Plan:
    """Build a program and run it once per test.

    A CODE test is appended to the attempt and passes if the program exits with 0; the verdict is labelled ``in_process``, since the attempt could
    forge the exit code.
    """
    if absent := (yield from missing_package(task, tools)):
        return unscored(task, attempt, absent)
    code = [test.input for test in task.tests if test.kind is TestKind.CODE]
    source = "\n".join([*([task.setup] if task.setup else []), attempt.code.removeprefix("\ufeff"), *code])
    files = {name: encode_text(text) for name, text in {**tools.files, tools.file: source}.items()}
    build = build_job(tools, files) if tools.compile else None
    if build:
        built = yield build
        refuse_unrunnable(tools, [built])
        if built.returncode != 0:
            return not_built(task, attempt, tools, built)
    tested = replace(task, tests=(TestCase(TestKind.CODE, ""),)) if code else task
    run = partial(run_job, tools, files, settings=settings, build=build)
    jobs = [run(encode_text(test.input)) for test in tested.tests]
    (outcomes, errors), ends, points = yield from within_budget(tested, jobs, settings)
    if tools.file in tools.run:  # else it runs what was built
        refuse_unrunnable(tools, ends)
    lines = partial(own_line, task, attempt)
    outcomes, errors = explain_first_error(tools, (outcomes, errors), ends, lines=lines, limit=settings.limits.memory_bytes)
    outcomes = outcomes * len(task.tests) if code else outcomes
    return verdict(
        task, attempt, (outcomes, errors), ends=ends, label="in_process" if code else "", points={} if code else points
    )


def refuse_unrunnable(tools: Language, ends: Sequence[Exit]) -> None:
    """Raise JudgeError if the compiler or interpreter of a language could not be started, which is not the program's fault."""
    if problem := unrunnable(ends):
        raise JudgeError(
            f"language {tools.name}: {problem} in the sandbox, which sees only the system's folders: install it there"
        )


def own_line(task: Task, attempt: Attempt, line: int) -> int | None:
    """Return the attempt's line for a line of the built program, which has setup before and tests after the attempt; None outside the attempt."""
    line -= task.setup.count("\n") + 1 if task.setup else 0
    return line if 1 <= line <= attempt.code.count("\n") + 1 else None


def missing_package(task: Task, tools: Language) -> Generator[Job, Exit, str]:
    """Return why a package that a task requires cannot be loaded in the sandbox for this language (Python if the task accepts any); empty if all can."""
    for package in task.requires if task.language in tools.names else ():
        if not tools.package:
            return f"task {task.task_id} requires {package}: language {tools.name} has no key `package` to look for it"
        if (tools.name, package) not in loadable:
            words = tuple(word.replace("{package}", package) for word in tools.package)
            found = yield build_job(replace(tools, compile=words), {})
            if found.returncode != 0:
                return f"task {task.task_id} requires {package}, which {tools.name} cannot load: install it for all users"
            loadable.add((tools.name, package))
    return ""


def not_built(task: Task, attempt: Attempt, tools: Language, built: Exit) -> Verdict:
    """Return the verdict on a program that the compiler rejects, with a finding for each error that the compiler reports in the attempt."""
    output = (built.stderr + b"\n" + built.stdout).decode("utf-8", "replace")
    matches = [*re.finditer(tools.error, output, re.MULTILINE)] if tools.error else []
    reasons = [*re.finditer(tools.reason, output, re.MULTILINE)] if tools.reason else matches
    findings = [
        Finding("syntax", "compile", message_of(reasons, index), line, int(match.groupdict().get("column") or 1))
        for index, match in enumerate(matches)
        if (line := own_line(task, attempt, int(match["line"])))
    ][:MOST_FINDINGS]
    stopped = built.returncode is None or built.out_of_memory or built.cpu_seconds > COMPILE_SECONDS
    status, error = how_it_ended(built) if stopped else (Status.COMPILE_ERROR, None)
    first = findings[0] if findings else None
    message = first.message if first else message_of(reasons, 0) or output.strip()[:500]
    error = error or ["CompileError", message, first.line if first else None]
    outcomes = [Status.COMPILE_ERROR if status is Status.COMPILE_ERROR else Status.UNSCORED] * len(task.tests)
    if status is not Status.COMPILE_ERROR:  # a compiler that exceeds time or memory counts against the program
        outcomes[0] = status
    return replace(verdict(task, attempt, (outcomes, [error]), ends=[built]), findings=tuple(findings))


def message_of(reasons: Sequence[re.Match[str]], index: int) -> str:
    """Return the message of the error at an index; empty if there is none."""
    return (reasons[index].groupdict().get("message") or "")[:500] if index < len(reasons) else ""


def explain_first_error(
    tools: Language, result: Outcomes, ends: Sequence[Exit], *, lines: Callable[[int], int | None], limit: int
) -> Outcomes:
    """Add the exception, its line (``lines``: of the program -> of the attempt) and the beginning of standard error to the first error.

    If the heap was full (``limit``, bytes), the outcome becomes MEMORY_LIMIT.
    """
    outcomes, errors = result
    failed = [index for index in range(len(ends)) if outcomes[index] is Status.RUNTIME_ERROR]
    stderr_of = {index: shortened(ends[index].stderr).decode("utf-8", "replace") for index in failed}
    # a program whose memory is limited by address space may end in any way when an allocation fails: C programs use a null pointer
    full = {index for index in stderr_of if tools.memory == "address" and ends[index].memory_bytes / limit >= FULL}
    if tools.out_of_memory:
        full |= {index for index, words in stderr_of.items() if re.search(tools.out_of_memory, words, re.MULTILINE)}
    outcomes = [Status.MEMORY_LIMIT if index in full else outcome for index, outcome in enumerate(outcomes)]
    if errors and str(errors[0][0]).startswith(("ExitCode", "Signal")):
        first, words = next(iter(stderr_of.items()))
        places = re.finditer(tools.trace, words, re.MULTILINE) if tools.trace else ()
        line = next((line for place in places if (line := lines(int(place["line"])))), None)
        name = "OutOfMemory" if first in full else exception_in(tools, words) or errors[0][0]
        errors[0] = [name, f"{errors[0][1]}: {words.strip()[:400]}", line]
    return outcomes, errors


def shortened(words: bytes) -> bytes:
    """Return the beginning and the end of a long standard error: an attempt may write text on which regular expressions are slow."""
    return words if len(words) <= 2 * SEARCHED else words[:SEARCHED] + b"\n" + words[-SEARCHED:]


def exception_in(tools: Language, words: str) -> str:
    """Return the name of the last exception in the standard error of a failed run; empty if there is none."""
    names = [match["type"] for match in re.finditer(tools.exception, words, re.MULTILINE)] if tools.exception else []
    return names[-1][:MOST_TYPE] if names else ""
