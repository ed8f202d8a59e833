"""Honest programs with their tests, read from the text files beside this one, and how each is put to the judge.

=== NAME [OPTION ...]       a program begins; options: beside (its tests need the attempt's own
                            objects), entry=NAME (the entry point), setup (the task's setup comes first, then ``---``)
CODE
---                         its tests: in call.txt a line each, ``CALL == LITERAL``; in code.txt and names.txt blocks of statements
                            between ``---``; in names.txt also ``call: CALL == LITERAL``;
TESTS                       in stdio.txt blocks of input (``< line``) and output (``> line``); ``@EXPRESSION`` stands for a long text
"""

import ast
from dataclasses import dataclass
from pathlib import Path

from upsolve.types import Attempt, Task, TestCase, TestKind

__all__ = ["MODES", "Program", "programs", "read"]

FOLDER = Path(__file__).parent
MODES = {"call": ("call", "across", "beside"), "code": ("across", "beside"), "names": ("names",), "stdio": ("stdio",)}
"""How programs of each file are judged."""
BESIDE = TestCase(TestKind.CODE, "assert globals()")
"""A test that asks for the attempt's own namespace."""


@dataclass(frozen=True, slots=True)
class Program:
    """One program under one mode."""

    name: str
    mode: str
    code: str
    tests: tuple[TestCase, ...]
    options: tuple[str, ...] = ()
    setup: str = ""

    @property
    def pair(self) -> tuple[Task, Attempt]:
        task_id = f"honest/{self.name}/{self.mode}"
        entry = next((option.removeprefix("entry=") for option in self.options if option.startswith("entry=")), "")
        return Task(task_id, "", self.tests, entry, setup=self.setup), Attempt(task_id, self.code)


def programs() -> list[Program]:
    """Return every program under every mode that fits it."""
    return [one for kind in MODES for one in read(kind)]


def read(kind: str, file: Path | None = None) -> list[Program]:
    """Read the programs of one file."""
    found = []
    for block in (file or FOLDER / f"{kind}.txt").read_text(encoding="utf-8").split("=== ")[1:]:
        head, _, body = block.partition("\n")
        name, *options = head.split()
        code, *parts = body.rstrip("\n").split("\n---\n")
        setup, code, parts = (code, parts[0], parts[1:]) if "setup" in options else ("", code, parts)
        modes = ("beside",) if "beside" in options else MODES[kind]
        found += [Program(name, mode, f"{code}\n", tests_of(kind, mode, parts), tuple(options), setup) for mode in modes]
    return found


def tests_of(kind: str, mode: str, parts: list[str]) -> tuple[TestCase, ...]:
    """Return the tests of a program under a mode."""
    if kind == "stdio":
        return tuple(TestCase(TestKind.STDIO, marked(part, "<"), marked(part, ">")) for part in parts)
    if kind == "names":
        calls = [split(part.removeprefix("call: ")) if part.startswith("call: ") else None for part in parts]
        return tuple(
            TestCase(TestKind.CALL, *call) if call else TestCase(TestKind.CODE, part)
            for call, part in zip(calls, parts, strict=True)
        )
    extra = (BESIDE,) if mode == "beside" else ()
    if kind == "code":
        return (*(TestCase(TestKind.CODE, part) for part in parts), *extra)
    lines = [line for part in parts for line in part.splitlines() if line]
    if mode == "call":
        return tuple(TestCase(TestKind.CALL, *split(line)) for line in lines)
    return (*(TestCase(TestKind.CODE, f"assert {line}") for line in lines), *extra)


def split(line: str) -> tuple[str, str]:
    """Return the call and the literal of ``CALL == LITERAL``."""
    test = ast.parse(line, mode="eval").body
    assert isinstance(test, ast.Compare), line
    return ast.unparse(test.left), ast.unparse(test.comparators[0])


def marked(part: str, mark: str) -> str:
    """Return the lines that begin with a mark, without it."""
    lines = [line[1:].removeprefix(" ") for line in part.splitlines() if line.startswith(mark)]
    return "".join(f"{eval(line[1:]) if line.startswith('@') else line}\n" for line in lines)
