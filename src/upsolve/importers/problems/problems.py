"""Helpers of the sources of published problem sets: splits, tests of inputs and outputs, recorded solutions."""

import ast
import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from upsolve.importers.formats import rows_of_file
from upsolve.importers.recogniser.code import sound_tests
from upsolve.importers.recogniser.failing import About
from upsolve.importers.rows import Row, build_each, left_out
from upsolve.importers.source import Option
from upsolve.types import Attempt, Status, Task, TestCase, TestKind, Verdict
from upsolve.verify.contest import imports_without
from upsolve.verify.judge.compare import as_literal, integer

__all__ = [
    "COMPARE",
    "Callee",
    "Compare",
    "as_list",
    "build_alone",
    "by_numbers",
    "call_tests",
    "callee_of",
    "extra_of",
    "json_value",
    "literal",
    "of_outputs",
    "of_programs",
    "of_values",
    "prompt_of",
    "recorded",
    "rest_of",
    "sections",
    "setup_of",
    "split_of",
    "stdio_tests",
    "uses_numpy",
    "with_sound_tests",
]


class Compare(StrEnum):
    """Who decides whether an output is right."""

    PUBLISHER = "publisher"
    """The grader that the set was published with."""
    CONTEST = "contest"
    """Tokens must be equal, and numbers within a tolerance where an expected output has a decimal fraction."""
    EXACT = "exact"
    """Output must be equal, character by character."""


COMPARE = Option(
    "compare", Compare, "how outputs are compared: as the publisher's grader, contest (tokens, near numbers), or exact"
)

SPLITS = {"train": "train", "dev": "dev", "valid": "dev", "validation": "dev", "val": "dev", "test": "test"}
"""Word in the name of a file or folder -> split."""

PLAIN = """
def as_lists(value):
    if isinstance(value, (list, tuple)):
        return [as_lists(item) for item in value]
    if isinstance(value, dict):
        return {key: as_lists(item) for key, item in value.items()}
    return value
"""
"""Tuples as lists: expected values come from JSON, which has no tuples, and the published graders accept both."""

DECIMAL = re.compile(r"(?<![\w.])[+-]?\d*\.\d+(?![\w.])")
NUMPY = re.compile(r"^[ \t]*(?:import\b[^\n]*\bnumpy\b|from[ \t]+numpy\b)", re.MULTILINE)
DEFINED = re.compile(r"\s*def\s+(\w+)\s*\(", re.ASCII)


def split_of(file: Path) -> str:
    """Return the split that a word in the name of a file says, or else the name of its folder: train, dev, test; empty if neither does."""
    words = [*re.findall(r"[a-z]+", file.name.lower()), file.parent.name.lower()]
    return next((SPLITS[word] for word in words if word in SPLITS), "")


def build_alone(file: Path, build: Callable[[dict[str, Any]], Iterable[Row]]) -> Iterator[Row]:
    """Yield the records of a file's rows, as ``build_each`` does, but holding one row at a time: a row may have megabytes of tests."""
    for row in rows_of_file(file):
        yield from build_each(file, [row], build)


def extra_of(fields: Mapping[str, Any]) -> str:
    """Return the fields that hold something as JSON; an empty string if none does."""
    filled = {name: value for name, value in fields.items() if value not in (None, "", [], {})}
    return json.dumps(filled, default=str) if filled else ""


def rest_of(row: Mapping[str, Any], taken: Container[str], **more: Any) -> str:
    """Return ``extra_of`` the fields of a row that the record does not store, and of more fields."""
    return extra_of({**{name: value for name, value in row.items() if name not in taken}, **more})


def sections(fields: Mapping[str, Any], parts: Iterable[tuple[str, str]]) -> str:
    """Return the parts of a statement under their headings: pairs of heading and field; empty parts are left out."""
    texts = [(heading, str(fields.get(name) or "").strip()) for heading, name in parts]
    return "\n\n".join(f"{heading}\n\n{text}".strip() for heading, text in texts if text)


def as_list(value: Any) -> list[Any]:
    """Return a column's list, stored as a list, as JSON or as Python's repr; empty for null and empty text, else ValueError."""
    if value is None or value == "":
        return []
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = ast.literal_eval(value)
    if not isinstance(value, list | tuple):
        raise ValueError(f"a list was expected, not {str(value)[:60]!r}")
    return list(value)


def prompt_of(statement: str, starter: str) -> str:
    """Return a statement with the code to start from, if any."""
    statement = statement.strip()
    return f"{statement}\n\nComplete this code and give all of it:\n\n{starter.strip()}" if starter.strip() else statement


@dataclass(frozen=True, slots=True)
class Callee:
    """The function that the tests of a problem call."""

    name: str
    """Its name."""
    in_class: bool = False
    """True if it is a method of the class ``Solution``, as on LeetCode."""

    @property
    def expression(self) -> str:
        """The callee as Python."""
        return f"Solution().{self.name}" if self.in_class else self.name

    @property
    def entry_point(self) -> str:
        """The name that a program must define."""
        return "Solution" if self.in_class else self.name


def callee_of(name: str, *codes: str) -> Callee:
    """Return the callee: a method if the first code that is not empty (starter code, a solution) defines ``class Solution``.

    Without a name it is the first function of the starter code; ValueError if there is none.
    """
    code = next((code for code in codes if code.strip()), "")
    in_class = re.search(r"^class Solution\b", code, re.MULTILINE) is not None
    found = DEFINED.search(code)
    if not name and found is None:
        raise ValueError("no name of a function, and no code that defines one")
    return Callee(name or (found[1] if found else ""), in_class)


def literal(value: Any) -> str:
    """Return a JSON value as a Python literal; ValueError for inf and nan, which have no literal."""
    text = as_literal(value)
    ast.literal_eval(text)
    return text


def json_value(text: str) -> Any:
    """Return the value of JSON text, whose integers may have more digits than Python converts by default."""
    return json.loads(text, parse_int=integer)


def with_integer_keys(value: Any) -> Any:
    """Return a dict with keys as integers where all are integers as text: JSON has no others, and graders undo it."""
    if isinstance(value, dict) and value and all(re.fullmatch(r"-?\d+", str(key)) for key in value):
        return {int(key): item for key, item in value.items()}
    return value


def call_tests(
    callee: Callee, inputs: Sequence[Any], outputs: Sequence[Any], *, hidden: Sequence[bool]
) -> tuple[TestCase, ...]:
    """Return tests that call a function with JSON values: a list of arguments, the expected value, and whether a prompt may not show them.

    Where outputs are lists or dicts, tuples in the attempt's value count as lists (``setup_of``); other tests are plain calls.

    Raises:
        ValueError: the numbers differ, an input is not a list, or a value is not a literal.
    """
    if any(not isinstance(arguments, list | tuple) for arguments in inputs):
        raise ValueError("an input is not a list of arguments")
    texts = [", ".join(literal(with_integer_keys(item)) for item in arguments) for arguments in inputs]
    calls = [f"{callee.expression}({text})" for text in texts]
    expected = [with_integer_keys(value) for value in outputs]
    nested = any(isinstance(value, list | dict) for value in expected)
    return tuple(
        TestCase(TestKind.CALL, f"as_lists({call})" if nested else call, literal(value), secret)
        for call, value, secret in zip(calls, expected, hidden, strict=True)
    )


def stdio_tests(inputs: Iterable[Any], outputs: Iterable[Any], *, hidden: bool = True) -> tuple[TestCase, ...]:
    """Return tests of standard input and output, each text or a list of lines; ValueError for other types, or for unequal numbers of inputs and outputs."""
    pairs = zip(inputs, outputs, strict=True)
    return tuple(TestCase(TestKind.STDIO, text_of(given), text_of(expected), hidden) for given, expected in pairs)


def text_of(value: Any) -> str:
    """Return text given as text or as a list of lines; ValueError for other values."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and all(isinstance(line, str) for line in value):
        return "".join(f"{line}\n" for line in value)
    raise ValueError(f"input or output is neither text nor lines: {str(value)[:60]!r}")


def by_numbers(tests: Iterable[TestCase], tolerance: str = "1e-6") -> str:
    """Return ``floats`` with a tolerance where an expected output has a decimal fraction, ``lines`` elsewhere."""
    return f"floats:{tolerance}" if any(DECIMAL.search(test.expected) for test in tests) else "lines"


def of_outputs(name: str, values: Mapping[str, Any], *codes: str, compare: Compare = Compare.CONTEST) -> dict[str, Any]:
    """Return the fields of a task with the tests ``{"inputs": [...], "outputs": [...], "fn_name": ...}`` of APPS and TACO, which may be none.

    With ``fn_name`` (or ``name``) the tests are calls, else standard input and output. Where all outputs of a function are
    lists of one item, the item is the value (as in problems of Codewars), or the list, as for the graders of APPS, except for
    methods of ``Solution``, which ``codes`` (starter code and a solution) show. ValueError if the numbers of inputs and outputs
    differ, or a value has another form.
    """
    inputs: list[Any] = list(values.get("inputs") or ())
    outputs: list[Any] = list(values.get("outputs") or ())
    name = name or str(values.get("fn_name") or "")
    if not name:
        tests = stdio_tests(inputs, outputs)
        return {"tests": tests, "compare": of_programs(tests, compare, "apps"), "setup": imports_without()}
    callee = callee_of(name, *codes)
    if not callee.in_class and all(isinstance(value, list) and len(value) == 1 for value in outputs):
        outputs, way = [value[0] for value in outputs], "item"
    else:
        way = "apps" if compare is Compare.PUBLISHER else ""
    tests = call_tests(callee, inputs, outputs, hidden=[True] * len(inputs))
    way = of_values(tests, compare, way)
    return {"tests": tests, "entry_point": callee.entry_point, "compare": way, "setup": setup_of(tests, callee)}


def of_values(tests: Sequence[TestCase], compare: Compare, way: str) -> str:
    """Return ``Task.compare`` of calls: ``way``, with a tolerance for decimal fractions unless the publisher's grader decides.

    ``way`` is ``item`` if the values were taken out of lists, ``apps`` for the publisher's grader, else empty.
    """
    numbers = "lines" if compare is Compare.PUBLISHER else by_numbers(tests)
    return (way or "lines") if numbers == "lines" else numbers.replace("floats", way or "floats")


def of_programs(tests: Sequence[TestCase], compare: Compare, publisher: str, tolerance: str = "1e-6") -> str:
    """Return ``Task.compare`` of programs: ``publisher`` names the comparison of the publisher's grader."""
    if compare is Compare.CONTEST:
        numbers = by_numbers(tests, tolerance)
        return "tokens" if numbers == "lines" else numbers
    return publisher if compare is Compare.PUBLISHER else "exact"


def setup_of(tests: Sequence[TestCase], callee: Callee) -> str:
    """Return the setup of tests by ``call_tests``."""
    nested = any(test.input.startswith("as_lists(") for test in tests)
    return imports_without((callee.entry_point,)) + (PLAIN if nested else "")


def uses_numpy(codes: Iterable[str]) -> tuple[str, ...]:
    """Return numpy as a required package if a program imports it: the graders provide no other package."""
    return ("numpy",) if any(NUMPY.search(code) for code in codes) else ()


def recorded(
    task: Task, codes: Iterable[str], status: Status, *, author: str = "", language: str = "python"
) -> Iterator[Attempt | Verdict]:
    """Yield recorded solutions with their outcome; empty ones are left out."""
    for code in codes:
        if code.strip():
            attempt = Attempt(task.task_id, code.replace("\r\n", "\n"), language, author)
            yield attempt
            yield Verdict(attempt.attempt_id, status, judge=f"recorded:{task.source}")


def with_sound_tests(task: Task) -> Iterator[Row]:
    """Yield the tests of a task in Python that cannot fail, and the task without them."""
    if task.language == "python":
        found = sound_tests(task.tests, About(task.entry_point, task.setup))
        yield from left_out(found.refused)
        task = replace(task, tests=found.tests) if found.refused else task
    yield task
