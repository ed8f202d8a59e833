"""The syntax tree of a Python program, which may be anything."""

import ast
import warnings
from collections.abc import Iterator
from functools import lru_cache

__all__ = ["Function", "functions", "literal", "parsed", "reads"]

Function = ast.FunctionDef | ast.AsyncFunctionDef


@lru_cache(maxsize=1024)
def parsed(code: str) -> ast.Module | None:
    """Return the tree of a program, None where it has none; nobody may change it."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def literal(node: ast.expr | None) -> str | None:
    """Return the text of the value of a literal, None where it is none; 7 and "7" have one text, as input and output do."""
    try:
        return None if node is None else str(ast.literal_eval(node)).strip()
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None


def functions(tree: ast.Module) -> dict[str, Function]:
    """Return the functions of a module by name; of two of one name the later."""
    return {node.name: node for node in tree.body if isinstance(node, Function)}


def reads(node: ast.AST) -> Iterator[ast.Name]:
    """Yield every place where a name is read."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
            yield inner
