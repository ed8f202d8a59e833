"""Checkers of tasks that judge as the output validators of problem packages, and the checkers of testlib, do."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from upsolve.checkers import CheckerProgram

__all__ = ["BUILT", "TESTLIB", "built_checker", "default_validator", "python_validator"]

BUILT = {".cpp": "cpp", ".cc": "cpp", ".cxx": "cpp", ".c": "c"}
"""Suffix of a checker that is built -> its language."""
INCLUDED = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)

DEFAULT = """import math
import re

CASE, SPACE, ABSOLUTE, RELATIVE = {case}, {space}, {absolute}, {relative}
NUMBER = re.compile(rb"[+-]?(\\d+\\.?\\d*|\\.\\d+)([eE][+-]?\\d+)?")


def number(token):
    if not NUMBER.fullmatch(token):
        return None
    value = float(token)
    return value if math.isfinite(value) else None


def same(expected, token):
    wanted = number(expected) if ABSOLUTE >= 0 or RELATIVE >= 0 else None
    if wanted is None:
        return expected == token if CASE else expected.lower() == token.lower()
    value = number(token)
    if value is None:
        return False
    away = abs(wanted - value)
    return away <= ABSOLUTE or away <= RELATIVE * abs(wanted)


def check(input, expected, output):
    expected, output = expected.encode("utf-8", "replace"), output.encode("utf-8", "replace")
    if SPACE and re.sub(rb"\\S+", b"x", expected) != re.sub(rb"\\S+", b"x", output):
        return False
    tokens, wanted = output.split(), expected.split()
    return len(tokens) == len(wanted) and all(map(same, wanted, tokens))
"""
"""The default validator: tokens are equal up to the case of ASCII letters; with a tolerance those that are numbers in the answer need only be close."""
PROGRAM = """import contextlib
import io
import sys
import tempfile
from pathlib import Path

SOURCE, ARGUMENTS = {source!r}, {arguments!r}


def check(input, expected, output):
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("judge.in", "judge.ans")]
        for file, text in zip(files, (input, expected)):
            file.write_text(text, encoding="utf-8")
        feedback = Path(folder, "feedback")
        feedback.mkdir()
        sys.argv = ["validate.py", *map(str, files), str(feedback) + "/", *ARGUMENTS]
        sys.stdin = io.TextIOWrapper(io.BytesIO(output.encode("utf-8", "surrogateescape")), encoding="utf-8", errors="replace")
        code = 0
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            try:
                exec(compile(SOURCE, "validate.py", "exec"), {{"__name__": "__main__"}})
            except SystemExit as end:
                code = end.code
    if code not in (42, 43):
        raise ValueError(f"the output validator ended with {{code}}, not 42 or 43")
    return code == 42
"""
"""A validator in Python is a program: it reads the output from standard input, and ends with 42 if it accepts it, else with 43."""
TOLERANCES = {
    "float_tolerance": ("absolute", "relative"),
    "float_absolute_tolerance": ("absolute",),
    "float_relative_tolerance": ("relative",),
}
"""Flag of the default validator that a number follows -> what it sets."""

LINES = """def check(input, expected, output):
    return words(expected) == words(output)


def words(text):
    return [line.split() for line in text.rstrip().splitlines()]
"""
UNORDERED = """def check(input, expected, output):
    return sorted(expected.split()) == sorted(output.split())
"""


def default_validator(flags: Sequence[str]) -> str:
    """Return a checker that compares as the default validator does with these flags.

    Raises:
        ValueError: a flag is unknown, or lacks its number.
    """
    values: dict[str, bool | float] = {"case": False, "space": False, "absolute": -1.0, "relative": -1.0}
    rest = iter(flags)
    for flag in rest:
        if flag in ("case_sensitive", "space_change_sensitive"):
            values[flag.split("_")[0]] = True
        elif flag in TOLERANCES:
            values |= dict.fromkeys(TOLERANCES[flag], float(next(rest, "")))
        else:
            raise ValueError(f"the default validator has no flag {flag!r}")
    return DEFAULT.format(**values)


def python_validator(source: str, arguments: Sequence[str]) -> str:
    """Return a checker that runs an output validator written in Python with these arguments."""
    return PROGRAM.format(source=source, arguments=[*arguments])


def built_checker(file: Path, call: str, arguments: Sequence[str] = ()) -> CheckerProgram:
    """Return a checker in C or C++ with the headers that it includes and that lie beside it.

    Raises:
        ValueError: it includes ``testlib.h``, which does not lie there.
    """
    source = file.read_text(encoding="utf-8", errors="replace")
    files: dict[str, str] = {}
    todo = INCLUDED.findall(source)
    while todo:
        name = todo.pop()
        header = (file.parent / name).resolve()
        if name in files or not header.is_relative_to(file.parent.resolve()):
            continue
        if header.is_file():
            files[name] = header.read_text(encoding="utf-8", errors="replace")
            todo += INCLUDED.findall(files[name])
        elif name == "testlib.h":
            raise ValueError(f"checker {file.name} includes testlib.h, which is not beside it")
    return CheckerProgram(BUILT[file.suffix], source, call=call, files=files, arguments=tuple(arguments))


TESTLIB: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("hcmp", "icmp", "ncmp", "wcmp", "caseicmp", "casencmp", "casewcmp"), ("tokens", "")),
    **{name: (f"floats:{close}", "") for name, close in (("dcmp", 1e-6), ("rcmp4", 1e-4), ("rcmp6", 1e-6), ("rcmp9", 1e-9))},
    **dict.fromkeys(("yesno", "nyesno"), ("checker", default_validator([]))),
    **dict.fromkeys(("acmp", "rcmp"), ("checker", default_validator(["float_absolute_tolerance", "1.5e-6"]))),
    "rncmp": ("checker", default_validator(["float_absolute_tolerance", "1.5e-5"])),
    "fcmp": ("lines", ""),
    "lcmp": ("checker", LINES),
    "uncmp": ("checker", UNORDERED),
}
"""Checker of testlib, such as ``wcmp`` -> ``Task.compare`` and ``Task.checker`` with which a task compares output as it does."""
