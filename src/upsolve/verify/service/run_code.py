"""Run one program and return its output: no task, no tests, no verdict."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from upsolve.errors import JudgeError
from upsolve.languages import PYTHON, language
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.sandbox.process import COMPILE_SECONDS, Job, build_job, encode_text, run_job
from upsolve.verify.sandbox.runner import Exit, run_jobs

__all__ = ["Program", "ProgramResult", "run_program"]


@dataclass(frozen=True, slots=True)
class Program:
    """A program with its input."""

    code: str
    """Source code."""
    language: str = "python"
    """Language, by name or alias."""
    stdin: bytes = b""
    """Standard input."""
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Relative path -> content of files to write into the working folder."""
    fetch: tuple[str, ...] | None = ()
    """Relative paths of the files to return after the run; None: of all files in the working folder."""
    build_seconds: float = COMPILE_SECONDS
    """Wall-clock limit of the compiler, seconds."""


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """Build and run of a program."""

    built: Exit | None = None
    """Exit of the compiler; None for interpreted languages."""
    ended: Exit | None = None
    """Exit of the program; None if the build failed."""
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """The requested files that exist and could be read."""
    left_out: tuple[str, ...] = ()
    """Requested files that the program made unreadable or too large (``Limits.output_bytes`` together)."""

    @property
    def noted(self) -> Exit | None:
        """``ended``, whose standard error also names the files left out."""
        if self.ended is None or not self.left_out:
            return self.ended
        note = f"\nleft out, unreadable or too large: {', '.join(self.left_out[:5])}\n"
        return replace(self.ended, stderr=self.ended.stderr + note.encode(errors="replace"))


def run_program(program: Program, settings: JudgeSettings) -> ProgramResult:
    """Build and run a program. Nothing that the program does to its descriptors, processes and files is an error.

    Raises:
        JudgeError: the sandbox broke, or a file of ``files`` cannot be written.
        ValueError: the language is unknown or one of queries, or its tools are not installed.
    """
    if program.language in PYTHON:
        script = {"kind": "script", "code": encode_text(program.code), "files": dict(program.files), "stdin": program.stdin}
        job, built = Job(script, wall_seconds=settings.limits.wall_seconds), None
        ended = run_script(job, settings)
    else:
        tools = language(program.language)
        if tools.engine:
            raise ValueError(f"language {program.language}: a query needs a database; judge the query as an attempt at a task")
        own = {name: encode_text(text) for name, text in {**tools.files, tools.file: program.code}.items()}
        files = {**program.files, **own}
        compiled = tools.compile and tools.file not in tools.run  # else ``compile`` only checks the syntax, as a run does
        build = build_job(tools, files, seconds=program.build_seconds) if compiled else None
        built = run_command(build, settings) if build else None
        if built and built.returncode != 0:
            return ProgramResult(built)
        job = run_job(tools, files, program.stdin, settings=settings, build=build)
        ended = run_command(job, settings, own=bool(compiled))
    if program.fetch == ():
        return ProgramResult(built, ended)
    return ProgramResult(built, ended, *fetched(program.fetch, job.profile, settings))


def run_script(job: Job, settings: JudgeSettings) -> Exit:
    """Run a Python program; raise JudgeError if it could not start.

    A program can forge the report that it could not start. So the report only counts if an empty program gets it, too; otherwise the program is run
    again, and its next report counts as its output.
    """
    empty = replace(job, attempt={**job.attempt, "code": b"", "stdin": b""})
    end = run_jobs([job], settings)[0]
    if reports(end, "broken"):
        if problem := reports(run_jobs([empty], settings)[0], "broken"):
            raise JudgeError(problem)
        end = run_jobs([job], settings)[0]
    return end


def run_command(job: Job, settings: JudgeSettings, *, own: bool = False) -> Exit:
    """Run a compiler, interpreter or built program (``own``: exits with 127 if it cannot start); JudgeError if the compiler or interpreter cannot start."""
    end = run_jobs([job], settings)[0]
    if problem := reports(end, "broken") or ("" if own else reports(end, "unrunnable")):
        raise JudgeError(problem)
    return end


def reports(end: Exit, key: str) -> str:
    """Return the text that a run reports under a key; "" without a report."""
    return next((str(record[key])[:500] or key for record in end.records if key in record), "")


def fetched(names: tuple[str, ...] | None, profile: str, settings: JudgeSettings) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """Return files of the sandbox (``None``: all), and the names of the files left out; the program no longer runs meanwhile."""
    job = {"kind": "fetch", "names": names, "room": settings.limits.output_bytes}
    end = run_jobs([Job(job, continues=True, profile=profile)], settings)[0]
    head, _, rest = end.stdout.partition(b"\n")
    try:
        sizes = [(str(name), int(size)) for name, size in json.loads(head)]
    except (TypeError, ValueError):
        return {}, names or (".",)
    files, absent = dict[str, bytes](), list[str]()
    for name, size in sizes:
        if size < 0:
            absent.append(name)
        else:
            files[name], rest = rest[:size], rest[size:]
    return files, tuple(absent)
