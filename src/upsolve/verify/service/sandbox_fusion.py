"""``/run_code`` in SandboxFusion's protocol: requests, answers, names of languages."""

import base64
import binascii
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from pydantic import BaseModel, Field

from upsolve.languages import PYTHON, language
from upsolve.verify.judge.commands import COMPILE_SECONDS, encode_text
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.sandbox.runner import Exit
from upsolve.verify.service.run_code import Program, ProgramResult

__all__ = ["CodeRequest", "answer_of", "broken", "program_of"]

NAMES = {"nodejs": "javascript", "R": "r"}
"""SandboxFusion's name -> upsolve's name, for languages whose names differ."""


class CodeRequest(BaseModel, extra="forbid"):
    """A request; unknown fields are refused."""

    code: str
    language: str
    stdin: str | None = None
    compile_timeout: float = Field(default=10.0, gt=0, allow_inf_nan=False)
    run_timeout: float = Field(default=10.0, gt=0, allow_inf_nan=False)
    memory_limit_MB: int = -1
    files: dict[str, str | None] = {}
    fetch_files: list[str] = []
    args: list[str] = []


def program_of(request: CodeRequest, settings: JudgeSettings, caps: Limits) -> tuple[Program, JudgeSettings]:
    """Return the program and the settings of a request; ValueError names a field that is invalid or above its cap."""
    name = NAMES.get(request.language, request.language)
    if name not in PYTHON:
        try:
            language(name)
        except ValueError as error:
            raise ValueError(f"language: {error}") from error
    if request.args:
        raise ValueError("args: programs cannot get arguments; leave it out")
    for field, cap in (
        ("compile_timeout", COMPILE_SECONDS),
        ("run_timeout", caps.wall_seconds),
        ("memory_limit_MB", caps.memory_bytes >> 20),
    ):
        if getattr(request, field) > cap:
            raise ValueError(f"{field}: {getattr(request, field)} is more than this server allows: {cap}")
    memory = request.memory_limit_MB << 20 if request.memory_limit_MB > 0 else settings.limits.memory_bytes
    limits = replace(settings.limits, wall_seconds=request.run_timeout, cpu_seconds=caps.cpu_seconds, memory_bytes=memory)
    program = Program(
        request.code,
        name,
        encode_text(request.stdin or ""),
        {relative("files", name): decoded(name, data) for name, data in request.files.items() if data is not None},
        tuple(relative("fetch_files", name) for name in request.fetch_files),
        request.compile_timeout,
    )
    return program, replace(settings, limits=limits)


def relative(field: str, name: str) -> str:
    """Return a file name relative to the working folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
        raise ValueError(f"{field}: {name!r} is not a path within the program's folder")
    return str(path)


def decoded(name: str, data: str) -> bytes:
    """Return the decoded content of a file."""
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"files: {name!r} is not base64: {error}") from error


def answer_of(ran: ProgramResult, settings: JudgeSettings) -> dict[str, Any]:
    """Return the answer to a request: Failed if the program fails or exceeds a limit, SandboxError if the sandbox fails."""
    ends = [end for end in (ran.built, ran.ended) if end]
    good = all(end.returncode == 0 and not end.timed_out for end in ends)
    room = settings.limits.output_bytes
    message = f"output was cut after {room} bytes" if any(end.output_exceeded for end in ends) else ""
    message = "used more memory than the limit" if any(end.out_of_memory for end in ends) else message
    if ran.left_out:
        names = ", ".join(map(repr, ran.left_out[:5]))
        message = f"{message}; " * bool(message) + f"fetch_files: {names}: unreadable, or more than {room} bytes together"
    return {
        "status": "Success" if good else "Failed",
        "message": message,
        "compile_result": command(ran.built),
        "run_result": command(ran.ended),
        "executor_pod_name": None,
        "files": {name: base64.b64encode(data).decode() for name, data in ran.files.items()},
    }


def command(end: Exit | None) -> dict[str, Any] | None:
    """Return the result of a command; killed by signal n, its return code is -n."""
    if end is None:
        return None
    return {
        "status": "TimeLimitExceeded" if end.timed_out else "Finished",
        "execution_time": end.wall_seconds,
        "return_code": None if end.timed_out else end.returncode if end.returncode is not None else -end.signal,
        "stdout": end.stdout.decode("utf-8", "replace"),
        "stderr": end.stderr.decode("utf-8", "replace"),
    }


def broken(problem: str) -> dict[str, Any]:
    """Return the answer for a failure of the sandbox."""
    nothing = {"compile_result": None, "run_result": None, "executor_pod_name": None, "files": {}}
    return {"status": "SandboxError", "message": problem, **nothing}
