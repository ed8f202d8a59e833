"""Tests as they stand in a cell of a table -> tests of a task."""

import ast
import json
from collections.abc import Mapping
from typing import Any

from upsolve.archive.asserts import Names, constant, parse_asserts
from upsolve.archive.sources.problems import of_outputs

__all__ = ["fields_of_tests"]

FORMS = (
    "a test is an assert, a pair [input, output], or an object such as {input, output}; all together may be {inputs, outputs}"
)
"""What an error says."""


def fields_of_tests(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a task that follow from its tests.

    Args:
        cells: ``tests`` as text or value: asserts, one a line; tests as in upsolve's JSONL; pairs ``{"input", "output"}`` or ``[input, output]``;
            ``{"inputs": [...], "outputs": [...]}``, calls with ``"fn_name"``. Also ``entry_point`` and ``reference``, if known.

    Raises:
        ValueError: the tests have none of these forms.
    """
    value = cells.get("tests", ())
    if isinstance(value, str):
        value = json.loads(value) if value.lstrip().startswith(("[", "{")) else value.strip().splitlines()
    if isinstance(value, dict) and value.get("fn_name"):
        found = of_outputs("", with_arguments(value), str(cells.get("reference", "")))
        return found | {key: cells[key] for key in ("compare",) if key in cells}
    if isinstance(value, dict) and {"inputs", "outputs"} <= value.keys():
        given, expected = value["inputs"], value["outputs"]
        if len(given) != len(expected):
            raise ValueError(f"tests: {len(given)} inputs, but {len(expected)} outputs")
        return {"tests": [pair(*one) for one in zip(given, expected, strict=True)]}
    if not isinstance(value, list | tuple):
        raise ValueError(f"tests: {value!r}: {FORMS}")
    asserts = [test for test in value if isinstance(test, str)]
    if bare := next(filter(is_bare, asserts), ""):
        raise ValueError(f"tests: {bare[:60]!r} tests nothing: {FORMS}; a column of something else needs another name")
    names = Names(frozenset({str(cells.get("entry_point", ""))}))
    parsed = [
        {name: getattr(test, name) for name in ("kind", "input", "expected", "hidden")}
        for test in parse_asserts(asserts, names=names)
    ]
    return {"tests": [*parsed, *(as_test(test) for test in value if not isinstance(test, str))]}


def is_bare(code: str) -> bool:
    """Return whether statements are values or names alone, such as a number of tests: every attempt would pass them, or fail them."""
    try:
        body = ast.parse(code.strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    values = [node.value for node in body if isinstance(node, ast.Expr)]
    return 0 < len(body) == len(values) and all(isinstance(value, ast.Name) or constant(value) for value in values)


def as_test(test: Any) -> Any:
    """Return a pair of input and output as a test; an object as it is.

    Raises:
        ValueError: neither a pair nor an object.
    """
    if isinstance(test, list | tuple) and len(test) == 2:
        return pair(*test)
    if not isinstance(test, dict):
        raise ValueError(f"tests: {test!r}: {FORMS}")
    return pair(test["input"], test["output"]) if {*test} == {"input", "output"} else test


def pair(given: Any, expected: Any) -> dict[str, Any]:
    """Return a test of standard input and output."""
    return {"kind": "stdio", "input": lines(given), "expected": lines(expected), "hidden": True}


def lines(value: Any) -> str:
    """Return the text of standard input or output, given as text, as a number, or as a list of lines."""
    if isinstance(value, int | float):
        return f"{value}\n"
    return value if isinstance(value, str) else "".join(f"{line}\n" for line in value)


def with_arguments(tests: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``{"fn_name", "inputs", "outputs"}`` with values: a text holds an argument as JSON on each line, or an output as JSON or as text."""
    inputs = [[*map(json.loads, one.splitlines())] if isinstance(one, str) else one for one in tests["inputs"]]
    return {**tests, "inputs": inputs, "outputs": [value_of(one) for one in tests["outputs"]]}


def value_of(output: Any) -> Any:
    """Return an expected value: of a text the value that it is as JSON, or else the text."""
    try:
        return json.loads(output) if isinstance(output, str) else output
    except ValueError:
        return output
