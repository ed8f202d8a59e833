"""Plans for programs: standard input in, standard output out; and for languages other than Python, built and run by commands."""

import re
from collections.abc import Generator, Sequence
from dataclasses import replace

from upsolve.types import Attempt, Finding, Status, Task, TestCase, TestKind, Verdict
from upsolve.verify.languages import SYSTEM_PATH, Language
from upsolve.verify.limits import Judging
from upsolve.verify.outcomes import ENDED, Outcomes, how_it_ended, program_outcome, verdict
from upsolve.verify.process import Job
from upsolve.verify.sandbox import Exit

__all__ = ["in_language", "run_programs"]

Plan = Generator[Job, Exit, Verdict]
COMPILE_SECONDS = 60.0
COMPILE_MEMORY = 4 << 30
MOST_FINDINGS = 20


def run_programs(task: Task, attempt: Attempt, how: Judging) -> Plan:
    """Run a Python program once a test."""
    base = {"kind": "program", "code": attempt.code, "setup": task.setup}
    jobs = [Job({**base, "stdin": encoded(test.input)}) for test in task.tests]
    result, ends = yield from within_budget(task.tests, jobs, how)
    return verdict(task, attempt, result, ends, "")


def encoded(text: str) -> bytes:
    """Return what a program is given on standard input."""
    return text.encode("utf-8", "surrogatepass")


def within_budget(
    tests: Sequence[TestCase], jobs: Sequence[Job], how: Judging
) -> Generator[Job, Exit, tuple[Outcomes, list[Exit]]]:
    """Run one job a test within one budget of time; stop at the first that is cut off."""
    ends: list[Exit] = []
    outcomes: list[Status] = []
    errors: list[list[object]] = []
    for test, job in zip(tests, jobs, strict=True):
        left = how.limits.wall_seconds - sum(end.wall_seconds for end in ends)
        if left <= 0 or (outcomes and outcomes[-1] in (*ENDED, Status.COMPILE_ERROR)):
            outcomes.append(Status.UNSCORED if outcomes[-1] in (*ENDED, Status.UNSCORED) else outcomes[-1])
            continue
        end = yield replace(job, wall_seconds=left)
        outcome, error = program_outcome(test, end)
        ends.append(end)
        outcomes.append(outcome)
        errors += [error] if error else []
    return (outcomes, errors), ends


def in_language(task: Task, attempt: Attempt, how: Judging, tools: Language) -> Plan:
    """Build a program and run it once a test.

    A test that is code is put behind the attempt, and passes when the whole exits with 0 (weaker: the verdict says ``in_process``).
    """
    code = [test.input for test in task.tests if test.kind is TestKind.CODE]
    source = "\n".join([*([task.setup] if task.setup else []), attempt.code, *code]) if code or task.setup else attempt.code
    files = {name: encoded(text) for name, text in {**tools.files, tools.file: source}.items()}
    base = {"kind": "command", "environment": {"PATH": SYSTEM_PATH, **tools.environment}, "seconds": how.limits.cpu_seconds}
    if tools.compile:
        command = tools.command(tools.compile, COMPILE_MEMORY)
        built = yield Job(
            {**base, "files": files, "argv": command, "stdin": b"", "seconds": COMPILE_SECONDS, "address_bytes": 0},
            wall_seconds=COMPILE_SECONDS,
            memory_bytes=COMPILE_MEMORY,
            profile="any",
        )
        if built.returncode != 0:
            return not_built(task, attempt, tools, built)
    tests = [TestCase(TestKind.CODE, "")] if code else list(task.tests)
    runs = {**base, "files": {} if tools.compile else files, "argv": tools.command(tools.run, how.limits.memory_bytes)}
    runs["address_bytes"] = how.limits.memory_bytes if tools.memory == "address" else 0
    jobs = [
        Job(
            {**runs, "stdin": encoded(test.input)},
            continues=bool(tools.compile),
            memory_bytes=how.limits.memory_bytes,
            profile="any",
        )
        for test in tests
    ]
    (outcomes, errors), ends = yield from within_budget(tests, jobs, how)
    outcomes, errors = explained(tools, outcomes, errors, ends)
    outcomes = outcomes * len(task.tests) if code else outcomes
    return verdict(task, attempt, (outcomes, errors), ends, "in_process" if code else "")


def not_built(task: Task, attempt: Attempt, tools: Language, built: Exit) -> Verdict:
    """Return the verdict of a program that the compiler refuses, with every place it names."""
    said = (built.stderr + b"\n" + built.stdout).decode("utf-8", "replace")
    places = [*re.finditer(tools.error, said, re.MULTILINE)] if tools.error else []
    reasons = [*re.finditer(tools.reason, said, re.MULTILINE)] if tools.reason else places
    findings = [
        Finding("syntax", "compile", message_of(reasons, index), int(place["line"]), int(place.groupdict().get("column") or 1))
        for index, place in enumerate(places[:MOST_FINDINGS])
    ]
    status, error = how_it_ended(built) if built.timed_out or built.signal else (Status.COMPILE_ERROR, None)
    first = findings[0] if findings else None
    error = error or ["CompileError", first.message if first else said.strip()[:500], first.line if first else None]
    outcomes = [Status.COMPILE_ERROR if status is Status.COMPILE_ERROR else Status.UNSCORED] * len(task.tests)
    if status is not Status.COMPILE_ERROR:  # a compiler that ran out of time or memory is the program's doing
        outcomes[0] = status
    return replace(verdict(task, attempt, (outcomes, [error]), [built], ""), findings=tuple(findings))


def message_of(reasons: Sequence[re.Match[str]], index: int) -> str:
    """Return the message that belongs to a place."""
    return (reasons[index].groupdict().get("message") or "")[:500] if index < len(reasons) else ""


def explained(
    tools: Language, outcomes: list[Status], errors: list[list[object]], ends: Sequence[Exit]
) -> tuple[list[Status], list[list[object]]]:
    """Put the line and the first words of a failed run into its error, and tell a full heap from other failures."""
    failed = [index for index, end in enumerate(ends) if end.returncode not in (0, None)]
    words = ends[failed[0]].stderr.decode("utf-8", "replace") if failed else ""
    full = {
        i for i in failed if tools.out_of_memory and re.search(tools.out_of_memory, ends[i].stderr.decode("utf-8", "replace"))
    }
    outcomes = [Status.MEMORY_LIMIT if index in full else outcome for index, outcome in enumerate(outcomes)]
    place = re.search(tools.trace, words, re.MULTILINE) if tools.trace else None
    if errors and failed and errors[0][0] == "ExitCode":
        errors[0] = ["ExitCode", f"{errors[0][1]}: {words.strip()[:400]}", int(place["line"]) if place else None]
    return outcomes, errors
