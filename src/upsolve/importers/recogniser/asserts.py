"""Assert statements -> tests whose expected values stay outside the attempt's process."""

import ast
import builtins
import cmath
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from typing import Any

from upsolve.types import TestCase, TestKind
from upsolve.verify.judge.scopes import global_names, names_bound_by

__all__ = [
    "BUILTINS",
    "UNREADABLE",
    "call_test",
    "called_first",
    "constant",
    "imports_of",
    "names_bound",
    "names_in",
    "names_read",
    "packages_in",
    "parsed",
]

PURE: dict[str, Any] = {
    f.__name__: f for f in (set, frozenset, list, tuple, dict, sorted, range, float, int, str, len, sum, abs, max, min, round)
}
BUILTINS = frozenset(dir(builtins))
NO_NAMES: frozenset[str] = frozenset()
CALLED = re.compile(r"(\w+)\s*\(")
UNREADABLE = (ValueError, SyntaxError, RecursionError, MemoryError, TypeError)
"""Errors of parsing text as Python, a literal or JSON."""
LARGEST = 100_000
"""Most items, or characters of a repeated sequence, of an expected value."""


def constant(node: ast.expr) -> str | None:
    """Return the value of an expression of literals, ``+ - * /`` and pure builtins as a literal; None for any other expression.

    Values are bounded (``LARGEST``), so that a row such as ``"a" * 10**10`` costs an import neither time nor memory.
    """
    try:
        return written(value_of(node))
    except Exception:
        return None


SCALARS = frozenset({int, str, bool, bytes, type(None)})
NESTED = 90
"""Depth up to which values can be parsed back from their text."""


def written(value: Any, depth: int = NESTED) -> str:
    """Return a value as a literal, with the items of its sets in the same order in every process; ValueError if no literal exists."""
    kind = type(value)
    if kind in SCALARS or (kind in (float, complex) and cmath.isfinite(value)):
        return repr(value)
    if not depth or kind not in (dict, list, tuple, set):
        raise ValueError("no literal")
    if kind is dict:
        pairs = (f"{written(key, depth - 1)}: {written(item, depth - 1)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    items = [written(item, depth - 1) for item in value]
    if kind is set:
        return f"{{{', '.join(items if all(map(is_steady, value)) else sorted(items))}}}" if items else "set()"
    return f"[{', '.join(items)}]" if kind is list else f"({', '.join(items)}{',' * (len(items) == 1)})"


def is_steady(value: Any) -> bool:
    """Return whether the hash of a value is the same in every process, as for numbers and tuples of numbers."""
    return all(map(is_steady, value)) if isinstance(value, tuple) else isinstance(value, int | float)


def value_of(node: ast.expr) -> Any:
    """Return the value of a constant expression; ValueError if it is not constant or its value is too large."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            make = {ast.List: list[Any], ast.Tuple: tuple[Any, ...], ast.Set: set[Any]}[type(node)]
            return make(map(value_of, items))
        case ast.Dict(keys=keys, values=values) if None not in keys:
            return {value_of(key): value_of(value) for key, value in zip(keys, values, strict=True) if key}
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -value_of(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return +value_of(operand)
        case ast.BinOp(left=left, op=op, right=right):
            return calculate(value_of(left), op, value_of(right))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in PURE:
            named = {keyword.arg: value_of(keyword.value) for keyword in keywords if keyword.arg}
            value = PURE[name](*map(value_of, args), **named)
            return bounded(value) if isinstance(value, range) else value
        case _:
            raise ValueError("the expression is not constant")


def calculate(left: Any, op: ast.operator, right: Any) -> Any:
    """Return the result of a binary operation; ValueError if it is unsupported or the result too large."""
    if isinstance(op, ast.Mult):
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        # repetitions of a sequence, and the printed length of what is repeated
        one, other = (abs(value) if isinstance(value, int) else len(repr(value)) for value in (left, right))
        if not numbers and one * other > LARGEST:
            raise ValueError("too large")
        return left * right
    if isinstance(op, ast.Add):
        return bounded(left + right)
    if isinstance(op, ast.Sub):
        return left - right
    if isinstance(op, ast.Div):
        return left / right
    raise ValueError("the expression is not constant")


def bounded(value: Any) -> Any:
    """Return a value; ValueError if it is a sequence of too many items."""
    if hasattr(value, "__len__") and len(value) > LARGEST:
        raise ValueError("too large")
    return value


def parsed(source: str) -> ast.Module | None:
    """Return the syntax tree of a module; None if it is not Python, or nested too deeply."""
    try:
        return ast.parse(source)
    except UNREADABLE:
        return None


def names_in(node: ast.AST | str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the global names that code binds (``*`` for ``import *``), and those that it reads, also within functions and classes.

    Code that is nested too deeply for an analysis of scopes is read as a single scope.
    """
    tree = ast.parse(node) if isinstance(node, str) else node
    try:
        found = global_names([tree])
    except RecursionError:
        parts = [*ast.walk(tree)]
        reads = (part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load))
        return frozenset(name for part in parts for name in names_bound_by(part)), frozenset(reads)
    return frozenset(found.bound), frozenset(read.node.id for read in found.reads)


@lru_cache(maxsize=16)
def names_bound(source: str) -> frozenset[str]:
    """Return the names that a module binds at its top level; empty if it cannot be parsed."""
    return names_in(tree)[0] if (tree := parsed(source)) else NO_NAMES


@lru_cache(maxsize=16)
def names_read(source: str) -> frozenset[str]:
    """Return the names that a module reads and does not bind at its top level; empty if it cannot be parsed."""
    binds, reads = names_in(tree) if (tree := parsed(source)) else (NO_NAMES, NO_NAMES)
    return reads - binds - BUILTINS


def packages_in(names: Iterable[str]) -> tuple[str, ...]:
    """Return the packages outside of the standard library among the names of modules, sorted."""
    return tuple(sorted({name.partition(".")[0] for name in names} - sys.stdlib_module_names))


def imports_of(sources: Iterable[str], *, top: bool = False) -> Iterator[str]:
    """Yield the names of the modules that Python code imports; ``top``: only when it is loaded. Code that does not parse is skipped."""
    for tree in filter(None, map(parsed, sources)):
        for node in tree.body if top else ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield node.module


def called_first(sources: Iterable[str], defined: Collection[str]) -> str:
    """Return the first function of a program that tests call; empty if they call none."""
    return next((name for source in sources for name in CALLED.findall(source) if name in defined), "")


def is_own_call(node: ast.expr, own: frozenset[str], setup: frozenset[str]) -> bool:
    """Return whether an expression is ``f(...)`` or ``C(...).f(...)``: a call of the attempt's ``f`` on values that it cannot influence.

    Only such an expression may be evaluated in the attempt's process: a builtin or a helper around the call (``all``, ``bool``,
    ``isclose``) could be replaced there by one that always agrees.
    """
    if not isinstance(node, ast.Call):
        return False
    arguments: list[ast.AST] = []
    while isinstance(node, ast.Call | ast.Attribute):
        if isinstance(node, ast.Call):
            arguments += [*node.args, *node.keywords]
        node = node.func if isinstance(node, ast.Call) else node.value
    if not isinstance(node, ast.Name):
        return False
    parts = [part for argument in arguments for part in ast.walk(argument) if isinstance(part, ast.Name)]
    known = BUILTINS | setup | {part.id for part in parts if isinstance(part.ctx, ast.Store)}
    if not all(part.id in known and part.id not in own for part in parts):
        return False
    return node.id in own or node.id not in BUILTINS | setup


def call_test(
    node: ast.stmt, own: frozenset[str] = NO_NAMES, setup: frozenset[str] = NO_NAMES, *, hidden: bool = False
) -> TestCase | None:
    """Return a CALL test for ``assert f(...) == constant`` (either side, ``is`` too); None for every other statement.

    A CALL test is evaluated beside the attempt and compared outside; CODE tests are weaker or slower (``docs/judge.md``). ``own``: functions that the
    attempt must define, a function may have the name of a builtin (``sum``); ``setup``: names that the task's setup binds.
    """
    test = node.test if isinstance(node, ast.Assert) else None
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq | ast.Is):
        for call, answer in ((test.left, test.comparators[0]), (test.comparators[0], test.left)):
            if is_own_call(call, own, setup) and (expected := constant(answer)) is not None:
                return TestCase(TestKind.CALL, ast.unparse(call), expected, hidden)
    return None
