"""Jobs of the sandbox that build and run programs of other languages by the commands of their records."""

import re
from collections.abc import Mapping
from typing import Any

from upsolve.languages import MOST_STACK, SYSTEM_PATH, Language, stack_bytes
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.sandbox.inside.launcher import PACKAGES
from upsolve.verify.sandbox.process import Job

__all__ = ["COMPILE_MEMORY", "COMPILE_SECONDS", "build_job", "command_job", "encode_text", "opens_output", "run_job"]

COMPILE_SECONDS = 60.0
COMPILE_MEMORY = 4 << 30
COMPILE_STACK = 64 << 20
OUTPUTS = re.compile(rb"/dev/(?!(?:null|zero|u?random|shm|stdin)\b|fd/0)|/fd\b(?!/0)")
"""Beginnings of names by which a program may open its standard output or standard error."""


def encode_text(text: str) -> bytes:
    """Encode a text for a program's standard input."""
    return text.encode("utf-8", "surrogatepass")


def build_job(tools: Language, files: Mapping[str, bytes], *, seconds: float = COMPILE_SECONDS) -> Job:
    """Return the job that compiles a program or checks its syntax; ``seconds``: deadline, elapsed time."""
    job = {**command_job(tools, tools.compile, COMPILE_MEMORY), "files": dict(files), "stdin": b""}
    job |= {"seconds": COMPILE_SECONDS, "address_bytes": 0}
    return Job(job, wall_seconds=seconds, memory_bytes=COMPILE_MEMORY, profile="any")


def opens_output(files: Mapping[str, bytes]) -> bool:
    """Return whether a program's files name devices such as ``/dev/stdout``, which is then a pipe: opening a file again would empty it."""
    return any(OUTPUTS.search(data) for data in files.values())


def run_job(tools: Language, files: Mapping[str, bytes], stdin: bytes, *, settings: JudgeSettings, built: bool) -> Job:
    """Return the job that runs a program, which is written from its files or, if ``built``, has been built from them by the previous job."""
    memory = settings.limits.memory_bytes
    job = {**command_job(tools, tools.run, memory), "files": {} if built else dict(files), "stdin": stdin}
    job |= {"seconds": settings.limits.cpu_seconds, "address_bytes": memory if tools.memory == "address" else 0}
    job |= {"stack": (stack_bytes(memory), MOST_STACK), "piped": opens_output(files)}
    return Job(job, wall_seconds=settings.limits.wall_seconds, continues=built, memory_bytes=memory, profile="any")


def command_job(tools: Language, words: tuple[str, ...], memory_bytes: int) -> dict[str, Any]:
    """Return the fields common to build and run jobs of a language."""
    prepared = f"{PACKAGES}/{tools.prepared_name}" if tools.prepare else ""
    environment = {name: text.replace("{prepared}", prepared) for name, text in tools.environment.items()}
    job = {"kind": "command", "environment": {"PATH": SYSTEM_PATH, **environment}, "prepared": prepared}
    job |= {"stack": (COMPILE_STACK, COMPILE_STACK)}
    return {**job, "argv": tools.command(words, memory_bytes, prepared)}
