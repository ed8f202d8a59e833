"""Tests in the styles of unittest and pytest -> CODE tests, one per test function, so that a program can pass some of them."""

import ast
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from upsolve.importers.recogniser.asserts import parsed
from upsolve.types import TestCase, TestKind

__all__ = ["Suite", "imports_of", "packages_in", "pytest_tests", "unittest_tests"]

RUN = """
import unittest
result = unittest.TestResult()
unittest.TestSuite([{name}({method!r})]).run(result)
for _, trace in [*result.failures, *result.errors]:
    raise AssertionError(trace)
"""
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests of a file."""

    tests: tuple[TestCase, ...]
    """One per test function."""
    names: tuple[str, ...] = ()
    """Name of the function of each, such as ``TestAdd.test_zero``."""
    left_out: tuple[str, ...] = ()
    """Names of test functions that cannot be called alone: they use fixtures."""


def packages_in(names: Iterable[str]) -> tuple[str, ...]:
    """Return the packages outside of the standard library among the names of modules, sorted."""
    tops = {name.partition(".")[0] for name in names}
    return tuple(sorted(tops - set(sys.stdlib_module_names)))


def imports_of(sources: Iterable[str]) -> Iterator[str]:
    """Yield the names of the modules that Python code imports; code that does not parse is skipped."""
    for source in sources:
        tree = parsed(source)
        for node in ast.walk(tree) if tree else ():
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield node.module


def unittest_tests(source: str) -> Suite:
    """Return the tests of classes derived from TestCase.

    Raises:
        ValueError: there are none.
        SyntaxError: the source is not Python.
    """
    found = [
        (node.name, function.name)
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and any("TestCase" in ast.unparse(base) for base in node.bases)
        for function in node.body
        if isinstance(function, Function) and function.name.startswith("test")
    ]
    if not found:
        raise ValueError("has no test methods")
    texts = (source.rstrip() + "\n" + RUN.format(name=name, method=method) for name, method in found)
    return Suite(tuple(TestCase(TestKind.CODE, text, "", True) for text in texts), tuple(map(".".join, found)))


def pytest_tests(source: str, *, module: str = "solution") -> Suite:
    """Return the tests of a file for pytest.

    Imports from ``module`` are left out: the attempt is there already. ``parametrize`` becomes a loop over its cases.

    Raises:
        SyntaxError: the source is not Python.
    """
    shared: list[ast.stmt] = []
    found: list[tuple[str, ast.stmt, str]] = []
    left_out: list[str] = []
    for node in ast.parse(source).body:
        if is_import_of(node, module) or is_import_of(node, "pytest") or is_main(node):
            continue
        calls = list(calls_of(node))
        if not calls:
            shared.append(node)
        for name, call in calls:
            found += [(name, node, call)] if call else []
            left_out += [] if call else [name]
    head = ast.unparse(ast.Module(shared, []))
    bodies = (with_pytest(f"{head}\n{ast.unparse(undecorated(node))}\n{call}\n".lstrip("\n")) for _, node, call in found)
    tests = tuple(TestCase(TestKind.CODE, body, "", True) for body in bodies)
    return Suite(tests, tuple(name for name, _, _ in found), tuple(left_out))


def with_pytest(code: str) -> str:
    """Return code with an import of pytest if it uses pytest."""
    used = any(isinstance(node, ast.Name) and node.id == "pytest" for node in ast.walk(ast.parse(code)))
    return f"import pytest\n{code}" if used else code


def is_import_of(node: ast.stmt, module: str) -> bool:
    """Return whether a statement imports a module or from it."""
    if isinstance(node, ast.ImportFrom):
        return node.module == module
    return isinstance(node, ast.Import) and [alias.name for alias in node.names] == [module]


def is_main(node: ast.stmt) -> bool:
    """Return whether a statement is ``if __name__ == "__main__"``."""
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def calls_of(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """Yield the name of each test function of a statement and the code that calls it, empty if it uses fixtures or setup methods."""
    if isinstance(node, Function) and node.name.startswith("test"):
        yield node.name, call_of(node, node.name, 0)
    elif isinstance(node, ast.ClassDef):
        methods = [function for function in node.body if isinstance(function, Function)]
        prepared = any(function.name.startswith(("setup", "teardown")) for function in methods)
        in_unittest = any("TestCase" in ast.unparse(base) for base in node.bases)
        for function in methods if in_unittest or node.name.startswith("Test") else ():
            if function.name.startswith("test"):
                call = "" if prepared else call_of(function, f"{node.name}().{function.name}", 1)
                run = RUN.format(name=node.name, method=function.name).strip("\n")
                yield f"{node.name}.{function.name}", run if in_unittest else call


def call_of(function: Function, callee: str, given: int) -> str:
    """Return the code that calls a test function, in a loop over the cases of ``parametrize``; empty if it uses fixtures or
    is asynchronous.

    Args:
        function: the function.
        callee: how it is called.
        given: number of its arguments that the call binds itself (``self``).
    """
    names = [argument.arg for argument in function.args.args[given:]][
        : len(function.args.args) - given - len(function.args.defaults)
    ]
    if isinstance(function, ast.AsyncFunctionDef):
        return ""
    marks = [node for node in function.decorator_list if isinstance(node, ast.Call) and "parametrize" in ast.unparse(node.func)]
    if not marks:
        return "" if names else f"{callee}()"
    if len(marks) > 1 or len(marks[0].args) < 2:
        return ""
    listed, cases = marks[0].args[:2]
    if isinstance(listed, ast.Constant):
        given_names = [name.strip() for name in str(listed.value).split(",")]
    else:
        given_names = [str(ast.literal_eval(item)) for item in getattr(listed, "elts", [])]
    if set(given_names) < set(names) or "pytest.param" in ast.unparse(cases):
        return ""
    values = f"**dict(zip({given_names!r}, case))" if len(given_names) > 1 else f"**{{{given_names[0]!r}: case}}"
    return f"for case in {ast.unparse(cases)}:\n    {callee}({values})"


def undecorated(node: ast.stmt) -> ast.stmt:
    """Return a definition without pytest's marks on it and on its methods."""
    for part in ast.walk(node):
        if isinstance(part, Function | ast.ClassDef):
            part.decorator_list = [mark for mark in part.decorator_list if not ast.unparse(mark).startswith("pytest.mark.")]
    return node
