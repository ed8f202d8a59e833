"""Run one program and return its output: no task, no tests, no verdict. Nothing checks the output."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from upsolve.errors import JudgeError
from upsolve.verify.judge.commands import COMPILE_SECONDS, build_job, encode_text, run_job
from upsolve.verify.languages import PYTHON, language
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.sandbox.process import Job
from upsolve.verify.sandbox.runner import Exit, run_jobs

__all__ = ["Program", "ProgramResult", "run_program"]

FETCH = """
import json, os, sys
names = json.load(sys.stdin)
if names is None:
    names = [os.path.relpath(os.path.join(top, name)) for top, _, files in os.walk(".") for name in files]
for name in names:
    if os.path.isfile(name):
        print(json.dumps([name, open(name, "rb").read().hex()]))
"""


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
    """How a program was built and ran."""

    built: Exit | None = None
    """Exit of the compiler; None for interpreted languages."""
    ended: Exit | None = None
    """Exit of the program; None if the build failed."""
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """The requested files that exist."""


def run_program(program: Program, settings: JudgeSettings) -> ProgramResult:
    """Build and run a program.

    Raises:
        JudgeError: the sandbox broke, or a file of ``files`` cannot be written, or one of ``fetch`` cannot be read.
        ValueError: the language is unknown or one of queries, or its tools are not installed.
    """
    job, built = python_job(program, settings), None
    if program.language not in PYTHON:
        tools = language(program.language)
        if tools.engine:
            raise ValueError(f"language {program.language}: a query needs a database; judge it as an attempt at a task")
        files = {
            **program.files,
            **{name: encode_text(text) for name, text in {**tools.files, tools.file: program.code}.items()},
        }
        compiled = tools.compile and tools.file not in tools.run  # else ``compile`` only checks the syntax, as a run does
        if compiled:
            built = finished(build_job(tools, files, seconds=program.build_seconds), settings)
            if built.returncode != 0:
                return ProgramResult(built)
        job = run_job(tools, None if compiled else files, program.stdin, settings=settings)
    ended = finished(job, settings)
    return ProgramResult(built, ended, fetched(program.fetch, job.profile, settings) if program.fetch != () else {})


def python_job(program: Program, settings: JudgeSettings) -> Job:
    """Return the job that runs a Python program in a fork of the warm interpreter."""
    job = {"kind": "script", "code": encode_text(program.code), "files": dict(program.files), "stdin": program.stdin}
    return Job(job, wall_seconds=settings.limits.wall_seconds)


def finished(job: Job, settings: JudgeSettings) -> Exit:
    """Run a job; raise JudgeError if it could not start."""
    end = run_jobs([job], settings)[0]
    broken = [record["broken"] for record in end.records if "broken" in record]
    if broken:
        raise JudgeError(str(broken[0])[:500])
    return end


def fetched(names: tuple[str, ...] | None, profile: str, settings: JudgeSettings) -> dict[str, bytes]:
    """Return files from the sandbox (``None``: all), read by a second job in the same working folder."""
    job = {"kind": "script", "code": FETCH.encode(), "files": {}, "stdin": json.dumps(names).encode()}
    end = finished(Job(job, continues=True, profile=profile), settings)
    if end.output_exceeded or end.returncode != 0:
        room = settings.limits.output_bytes // 2
        raise JudgeError(f"fetch_files: cannot be read, or are more than {room} bytes together: {end.stderr[-300:]!r}")
    records = (json.loads(line) for line in end.stdout.decode("utf-8", "replace").splitlines())
    return {str(name): bytes.fromhex(data) for name, data in records}
