"""What runs in the attempt's own process: load the program, put the tests to it, write down what came of them.

Standard library only. Everything here can be seen and changed by the attempt, so nothing here decides anything.
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False  # typing itself is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from typing import Any

__all__ = ["report", "run_program", "run_tests"]

RESULTS = 3
"""Descriptor of the results: one JSON line a test."""


NUMBERS: tuple[tuple[type, str, Any], ...] = (
    (int, "int", hex),
    (float, "float", float.__repr__),
    (complex, "complex", complex.__repr__),
    (bytes, "bytes", bytes.hex),
    (bytearray, "bytes", bytearray.hex),
)
"""Type, tag, and how a value is written: by the type's own method, never by one of a subclass."""
SEQUENCES: tuple[Any, ...] = (list, tuple, set, frozenset)


def plain(value: Any, depth: int = 0) -> Any:
    """Encode a value as tagged plain data of exact builtin types; anything else becomes opaque, equal to nothing."""
    kind = type(value)
    if depth > 100:
        return ["opaque", "too deep"]
    if value is None or kind is bool:
        return value
    if kind is str:
        return ["str", value]
    for base, tag, write in NUMBERS:
        if isinstance(value, base):
            return [tag, write(value)]
    if isinstance(value, str):
        return ["str", str.__str__(value)]
    for base in SEQUENCES:
        if isinstance(value, base):
            tag = "set" if base is frozenset else base.__name__
            return [tag, *[plain(item, depth + 1) for item in base.__iter__(value)]]
    if isinstance(value, dict):
        return ["dict", *[[plain(k, depth + 1), plain(v, depth + 1)] for k, v in dict.items(value)]]
    return ["opaque", kind.__name__]


def report(**record: Any) -> None:
    """Write one line to the results; a value that cannot be written becomes opaque."""
    try:
        line = json.dumps(record)
    except (ValueError, RecursionError, MemoryError):
        line = json.dumps({**record, "value": ["opaque", "unprintable"]})
    os.write(RESULTS, line.encode() + b"\n")


def describe(error: BaseException) -> list[Any]:
    """Return [type, message, innermost line of the attempt] of an exception."""
    line, step = None, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == "<attempt>":
            line = step.tb_lineno
        step = step.tb_next
    try:
        message = str(error)[:500]
    except BaseException:
        message = ""
    return [type(error).__name__[:100], message, line]


def load(job: dict[str, Any], name: str) -> dict[str, Any] | None:
    """Compile and run setup and attempt; return the namespace, or None after reporting why not."""
    sys.dont_write_bytecode = True
    try:
        program = compile(job["code"], "<attempt>", "exec", dont_inherit=True)
    except BaseException as error:
        report(compile=[*describe(error)[:2], getattr(error, "lineno", None), getattr(error, "offset", None)])
        return None
    space: dict[str, Any] = {"__name__": name, "__builtins__": __builtins__}
    try:
        exec(compile(job["setup"], "<setup>", "exec", dont_inherit=True), space)
    except BaseException as error:
        report(setup=describe(error))
        return None
    try:
        exec(program, space)
    except BaseException as error:
        if name == "__main__" and isinstance(error, SystemExit) and error.code in (None, 0):
            return space
        report(load=describe(error))
        return None
    return space


def run_tests(job: dict[str, Any]) -> None:
    """Evaluate the expressions and run the statements of a job, one result line each."""
    space = load(job, "attempt")
    if space is None:
        return
    for index, (kind, source) in enumerate(job["tests"]):
        try:
            if kind == "call":
                report(test=index, value=plain(eval(source, space)))
            else:
                exec(compile(source, "<test>", "exec", dont_inherit=True), space)
                report(test=index, ok=job["nonce"])
        except BaseException as error:
            report(test=index, error=describe(error))
    if any(kind == "code" for kind, _ in job["tests"]):
        try:
            exec("assert False", space)
            report(canary="assert is disabled")
        except AssertionError:
            pass
    report(done=True)


def run_program(job: dict[str, Any]) -> None:
    """Run a program that reads standard input."""
    job_input = os.memfd_create("stdin")
    os.write(job_input, job["stdin"].encode("utf-8", "surrogatepass"))
    os.lseek(job_input, 0, os.SEEK_SET)
    os.dup2(job_input, 0)
    os.close(job_input)
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    if load(job, "__main__") is not None:
        report(done=True)
