"""Syntax trees of Python programs; a program may be any text."""

import ast
import warnings
from collections.abc import Iterator
from functools import lru_cache

__all__ = ["Function", "functions", "literal", "names_read", "parse"]

Function = ast.FunctionDef | ast.AsyncFunctionDef


@lru_cache(maxsize=1024)
def parse(code: str) -> ast.Module | None:
    """Return the tree of a program, None if it does not parse. The tree is cached: do not change it."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def literal(node: ast.expr | None) -> str | None:
    """Return the text of a literal's value, None for any other expression. 7 and "7" have the same text, as in input and output."""
    try:
        return None if node is None else str(ast.literal_eval(node)).strip()
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None


def functions(tree: ast.Module) -> dict[str, Function]:
    """Return the top-level functions by name; the last one of each name."""
    return {node.name: node for node in tree.body if isinstance(node, Function)}


def names_read(node: ast.AST) -> Iterator[ast.Name]:
    """Yield every name that is read (not assigned)."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
            yield inner
