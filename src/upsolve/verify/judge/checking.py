"""Checkers: trusted code of a task, a Python function or a program, that decides in a separate process how many points an output gets."""

import re
import secrets
from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any

from upsolve.checkers import CALLS, CheckerProgram, program_of
from upsolve.errors import JudgeError
from upsolve.languages import Language, language
from upsolve.types import Task, content_id
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.sandbox.process import SLOTS, Job, build_job, command_job, encode_text
from upsolve.verify.sandbox.runner import Exit

__all__ = ["checked", "checker_fault"]

BROKEN = ("ImportError", "ModuleNotFoundError", "NameError", "UnboundLocalError")
"""Exceptions that show a fault of the checker, whatever the output."""
SECONDS, MEMORY = 10.0, 1 << 30
"""Limits of a checker that is a program: elapsed time, seconds, and memory, bytes."""
POINTS = re.compile(r"points (\d+(?:\.\d+)?)\b")
"""Prefix of the message in which a testlib checker gives points."""
MARK, ABSENT = "built", 99
"""Name of the file that identifies the program built in a folder; exit code of a run if the folder holds another program."""
BUILD = f'"$@" && printf %s "$0" > {MARK}'
RUN = f'[ "$(cat {MARK} 2>/dev/null)" = "$0" ] || exit {ABSENT}; rm -rf feedback; mkdir feedback; exec "$@"'


def checker_fault(task: Task) -> str:
    """Return why the checker of a task cannot be used; empty if it can.

    Raises:
        ValueError: the checker is a program that cannot be read, or its language has no tools installed.
    """
    if program := program_of(task.checker):
        if language(program.language).engine:
            return f"a checker cannot be in {program.language}"
    elif "def check" not in task.checker:
        return "compare is checker, but its checker defines no check(input, expected, output)"
    return ""


def checked(task: Task, index: int, end: Exit, settings: JudgeSettings) -> Generator[Job, Exit, float]:
    """Return the share of points, [0, 1], that the task's checker gives the output of a test: 1 if it accepts the output.

    A checker that raises or hangs on this output rejects it: otherwise an attempt could choose to stay unscored. The task is at
    fault if the checker also fails on a correct output (the expected one, else the reference's) or, if no correct output is
    known, if the checker cannot be loaded or built, or fails with one of ``BROKEN``.

    Raises:
        JudgeError: the checker is at fault.
    """
    test, output = task.tests[index], end.stdout.decode("utf-8", "replace")
    share, output_of_checker, broken = yield from run_checker(task, index, output)
    if share is not None:
        return share
    right = test.expected or (yield from reference_output(task, index, settings))
    if broken if right is None else (yield from run_checker(task, index, right))[0] is None:
        raise JudgeError(f"task {task.task_id}: {output_of_checker} for test {index + 1}"[:500])
    return 0.0


def run_checker(task: Task, index: int, output: str) -> Generator[Job, Exit, tuple[float | None, str, bool]]:
    """Return the checker's share of points (None if it gives none), its message, and whether the message shows that the checker is at fault."""
    if (program := program_of(task.checker)) is None:
        test = task.tests[index]
        call = ("apply", ("check", [test.input, test.expected, output]))
        job = {"kind": "tests", "code": task.checker, "setup": "", "tests": [call], "lines": False, "test_seconds": 0}
        end = yield Job({**job, "nonce": secrets.token_hex(8)})
        errors = [record["error"] for record in end.records if isinstance(record.get("error"), list) and record["error"]]
        broken = any("load" in record or "compile" in record for record in end.records)
        broken = broken or any(str(error[0]) in BROKEN for error in errors)
        values = [record.get("value") for record in end.records if record.get("test") == 0]
        share = share_of(values[0]) if len(values) == 1 else None
        return share, f"check() must return True, False or points from 0 to 1; it gave {[*end.records[:1]]}", broken
    end = yield from run_program(program, task, index, output)
    call = CALLS[program.call]
    code = -1 if end.returncode is None else end.returncode
    known = {**dict.fromkeys(call.accepts, 1.0), **dict.fromkeys(call.refuses, 0.0)}
    words = end.stderr.decode("utf-8", "replace").strip()
    if code == call.gives_points and (found := POINTS.match(words)):
        full = task.weights[index] if task.weights else 1.0
        reason = f"its checker must give from 0 to {full:g} points; it gave {found[1]}"
        return share_of(float(found[1]) / full if full else 1.0), reason, False
    codes = ", ".join(map(str, [*known, *([call.gives_points] if call.gives_points else [])]))
    return known.get(code), f"its checker must end with {codes}; it ended with {code} ({words})", False


def share_of(value: Any) -> float | None:
    """Return a checker's answer as a share of points, [0, 1]; None if the answer is neither a bool nor a number in this range."""
    return float(value) if isinstance(value, int | float) and 0 <= value <= 1 else None


def run_program(program: CheckerProgram, task: Task, index: int, output: str) -> Generator[Job, Exit, Exit]:
    """Run a checker that is a program; build it first unless the sandbox still has it. JudgeError if it cannot be built."""
    tools, test, key = language(program.language), task.tests[index], content_id(task.checker)
    files = {"input": test.input, "output": output, "answer": test.expected}
    for _ in range(SLOTS + 1):  # of attempts at several tasks that are judged together, each may build its own
        end = yield call_program(program, tools, key, {name: encode_text(text) for name, text in files.items()})
        if end.returncode != ABSENT:
            return end
        built = yield build_program(program, tools, key)
        if built.returncode != 0:
            log = (built.stderr + built.stdout).decode("utf-8", "replace").strip()
            raise JudgeError(f"task {task.task_id}: its checker, a program in {tools.name}, cannot be built: {log}"[:500])
    raise JudgeError(f"task {task.task_id}: its checker disappeared each time after it was built")


def build_program(program: CheckerProgram, tools: Language, key: str) -> Job:
    """Return the job that builds a checker, and marks its folder (``MARK``)."""
    files = {**tools.files, **program.files, tools.file: program.source}
    marking = replace(tools, compile=("sh", "-c", BUILD, key, *(tools.compile or ("true",))))
    return replace(build_job(marking, {name: encode_text(text) for name, text in files.items()}), profile="checker")


def call_program(program: CheckerProgram, tools: Language, key: str, files: Mapping[str, bytes]) -> Job:
    """Return the job that runs a checker in the folder where it was built."""
    call = CALLS[program.call]
    words = ("sh", "-c", RUN, key, *tools.run, *call.arguments, *program.arguments)
    job = {**command_job(tools, words, MEMORY), "files": dict(files), "stdin": files["output"] if call.reads_output else b""}
    job |= {"seconds": SECONDS, "address_bytes": MEMORY if tools.memory == "address" else 0}
    return Job(job, wall_seconds=SECONDS, memory_bytes=MEMORY, profile="checker", continues=True)


def reference_output(task: Task, index: int, settings: JudgeSettings) -> Generator[Job, Exit, str | None]:
    """Return the output of the task's reference, a Python program, for a test; None if there is no reference or it fails."""
    if not task.reference:
        return None
    job = {"kind": "program", "code": task.reference, "setup": task.setup, "lines": False}
    end = yield Job({**job, "stdin": encode_text(task.tests[index].input)}, wall_seconds=settings.limits.wall_seconds)
    return end.stdout.decode("utf-8", "replace") if end.returncode == 0 and not end.timed_out else None
