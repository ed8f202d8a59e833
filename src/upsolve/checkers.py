"""Checkers of outputs that are programs of contests, in any language of the judge; ``Task.checker`` holds one as JSON."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

__all__ = ["CALLS", "Call", "CheckerProgram", "checker_in", "is_program", "program_from", "program_of"]


@dataclass(frozen=True, slots=True)
class Call:
    """Arguments of a checker, and the meaning of its exit codes."""

    arguments: tuple[str, ...]
    """Names of files, before ``CheckerProgram.arguments``: ``input``, ``output``, ``answer`` (the expected output) and the folder ``feedback``."""
    accepts: tuple[int, ...]
    """Exit codes that accept the output."""
    refuses: tuple[int, ...]
    """Exit codes that reject the output; any other code means that the checker itself failed."""
    reads_output: bool = False
    """Whether standard input is the output."""
    gives_points: int = 0
    """Exit code after which standard error begins with ``points`` and a number: the points of the test, of its weight (``Task.weights``, else 1). 0:
    no such code."""


CALLS: Mapping[str, Call] = {
    "testlib": Call(("input", "output", "answer"), accepts=(0,), refuses=(1, 2, 4, 8), gives_points=7),
    "icpc": Call(("input", "answer", "feedback/"), accepts=(42,), refuses=(43,), reads_output=True),
}
"""Name -> call. ``testlib``: checkers of Codeforces' Polygon, which end with 3 if the jury is at fault; ``icpc``: output validators of problem packages."""


@dataclass(frozen=True, slots=True)
class CheckerProgram:
    """A checker that is a program.

    Raises:
        ValueError: ``call`` is unknown.
    """

    language: str
    """Name of the checker's language, such as ``cpp``."""
    source: str
    """The source of the checker."""
    call: str = "testlib"
    """How the checker is called: a name of ``CALLS``."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Name -> content of further files that the build needs, such as ``testlib.h``."""
    arguments: tuple[str, ...] = ()
    """Further arguments."""

    def __post_init__(self) -> None:
        if self.call not in CALLS:
            raise ValueError(f"the checker's call must be {' or '.join(CALLS)}, got {self.call!r}")

    @property
    def text(self) -> str:
        """The value for ``Task.checker``."""
        return json.dumps(asdict(self))


def is_program(checker: str) -> bool:
    """Return whether ``Task.checker`` holds a program of a contest, as JSON, instead of Python source."""
    return checker.lstrip().startswith("{")


def program_from(fields: Mapping[str, Any]) -> CheckerProgram:
    """Return the checker that a JSON object describes.

    Raises:
        ValueError: a field is missing, unknown or wrong.
    """
    try:
        given: dict[str, Any] = {**fields, "arguments": tuple(fields.get("arguments", ()))}
        return CheckerProgram(**given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"a checker that is a program must be an object with language and source: {error}") from error


@lru_cache(64)
def program_of(checker: str) -> CheckerProgram | None:
    """Return the program that ``Task.checker`` stores as JSON; None if the checker is Python source.

    Raises:
        ValueError: the text begins with a JSON object that describes no checker.
    """
    if not is_program(checker):
        return None
    try:
        fields = json.loads(checker)
    except ValueError as error:
        raise ValueError(f"checker: not valid JSON: {error}") from error
    return program_from(fields)


SCORED = '''import contextlib
import io
import re
import sys
import tempfile
from pathlib import Path

SOURCE = {source!r}


def score(given, expected, output):
    """Return the last number that the checker prints about an output."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("input.txt", "correct_output.txt", "solution_output.txt")]
        for file, text in zip(files, (given, expected, output)):
            file.write_text(text, encoding="utf-8")
        said, sys.argv = io.StringIO(), ["checker.py", *map(str, files)]
        with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
            exec(compile(SOURCE, "checker.py", "exec"), {{"__name__": "__main__"}})
    return float(re.findall(r"-?\\d+(?:\\.\\d+)?", said.getvalue())[-1])


def check(input, expected, output):
    most = score(input, expected, expected)
    if most <= 0:
        raise ValueError("the checker refuses the expected output")
    return score(input, expected, output) >= most
'''
"""Checker that runs a Python program: ``checker.py input.txt correct_output.txt solution_output.txt`` prints a score and exits with 0. The score of a
wrong output is 0; that of a right one equals the score of the expected output (1 or 100)."""


def checker_in(value: Any) -> Any:
    """Return the checker in a cell of a table. Python that reads its arguments and defines no ``check`` is a program that prints a score (``SCORED``)."""
    is_scored = isinstance(value, str) and "sys.argv" in value and not re.search(r"^def check\(", value, re.MULTILINE)
    return SCORED.format(source=value) if is_scored else value
