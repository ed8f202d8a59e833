"""Programs as checks compare them: parsed, without comments and white space, and as sets of token runs."""

import ast
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from upsolve.languages import PYTHON, languages
from upsolve.verify.analysis.syntax import parse

__all__ = ["is_valid", "nodes_of", "normalise", "python_tree", "quoted_spans", "same_shape", "token_runs", "tree_of"]

TOKEN = re.compile(r"\w+|[^\w\s]")
RUN = 3
"""Tokens of a run."""
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)


def token_runs(code: str, size: int = RUN) -> frozenset[str]:
    """Return the runs of ``size`` tokens of a program, or all of its tokens as one run if it is shorter."""
    tokens = TOKEN.findall(code)
    return frozenset(" ".join(tokens[start : start + size]) for start in range(max(1, len(tokens) - size + 1)))


def python_tree(code: str) -> ast.Module | None:
    """Return the syntax tree of a Python 3 program; None if it does not parse."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def tree_of(code: str, language: str) -> Any:
    """Return the root of a program's tree-sitter tree; None if its language has no grammar, JudgeError if not installed."""
    if language in PYTHON:
        return parse(code)
    known = languages().get(language)
    return parse(code, known.grammar) if known and known.grammar else None


def is_valid(code: str, language: str) -> bool | None:
    """Return whether a program has no syntax error; None if its language has no grammar."""
    if language in PYTHON:
        return python_tree(code) is not None
    root = tree_of(code, language)
    return None if root is None else not root.has_error


def normalise(code: str, language: str, *, docstrings: bool = True) -> str:
    """Return a text that is equal for programs that differ only in comments, white space or, if not wanted, docstrings."""
    if language in PYTHON:
        if tree := python_tree(code):
            return ast.dump(tree if docstrings else without_docstrings(tree))
    elif (root := tree_of(code, language)) is not None and not root.has_error:
        return "\n".join(
            node.text.decode("utf-8", "replace") for node in nodes_of(root) if not node.children and "comment" not in node.type
        )
    return " ".join(code.split())


def without_docstrings(tree: ast.Module) -> ast.Module:
    """Return a tree whose docstrings are empty."""
    for node in ast.walk(tree):
        if isinstance(node, DEFINITIONS) and ast.get_docstring(node, clean=False) is not None:
            node.body[0] = ast.Expr(ast.Constant(""))
    return tree


def same_shape(before: str, after: str, language: str) -> bool:
    """Return whether both programs are valid and their syntax trees differ in names and literals alone."""
    if language in PYTHON:
        trees = [python_tree(code) for code in (before, after)]
        shapes = [[type(node) for node in ast.walk(tree)] if tree else None for tree in trees]
    else:
        roots = [tree_of(code, language) for code in (before, after)]
        shapes = [None if root is None or root.has_error else str(root) for root in roots]
    return shapes[0] is not None and shapes[0] == shapes[1]


def nodes_of(root: Any, is_whole: Callable[[Any], bool] = lambda _: False) -> Iterator[Any]:
    """Yield the nodes of a tree in the order of the text, parents first, but none below a node that is whole."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += () if is_whole(node) else reversed(node.children)


def is_quoted(node: Any) -> bool:
    """Return whether a node is a comment or a string literal."""
    return "comment" in node.type or "string" in node.type


def quoted_spans(code: str, language: str) -> list[range]:
    """Return the spans of comments and string literals, in characters; the whole text if the language has no grammar."""
    root = tree_of(code, language)
    if root is None:
        return [range(len(code))]
    found = [(node.start_byte, node.end_byte) for node in nodes_of(root, is_quoted) if is_quoted(node)]
    data = code.encode("utf-8", "replace")
    places, character, byte = {0: 0}, 0, 0
    for place in sorted({place for span in found for place in span}):
        character += len(data[byte:place].decode("utf-8", "replace"))
        places[place], byte = character, place
    return [range(places[start], places[end]) for start, end in found]
