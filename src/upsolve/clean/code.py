"""Programs as checks compare them: by the shape of their syntax trees, and as sets of token runs."""

import ast
import re
from typing import Any

from upsolve.languages import PYTHON
from upsolve.verify.analysis.syntax import nodes_of, python_tree, tree_of

__all__ = ["is_valid", "quoted_spans", "same_shape", "token_runs"]

TOKEN = re.compile(r"\w+|[^\w\s]")
RUN = 3
"""Tokens of a run."""


def token_runs(code: str, size: int = RUN) -> frozenset[str]:
    """Return the runs of ``size`` tokens of a program, or all of its tokens as one run if it is shorter."""
    tokens = TOKEN.findall(code)
    return frozenset(" ".join(tokens[start : start + size]) for start in range(max(1, len(tokens) - size + 1)))


def is_valid(code: str, language: str) -> bool | None:
    """Return whether a program has no syntax error; None if its language has no grammar."""
    if language in PYTHON:
        return python_tree(code) is not None
    root = tree_of(code, language)
    return None if root is None else not root.has_error


def same_shape(before: str, after: str, language: str) -> bool:
    """Return whether both programs are valid and their syntax trees differ in names and literals alone."""
    if language in PYTHON:
        trees = [python_tree(code) for code in (before, after)]
        shapes = [[type(node) for node in ast.walk(tree)] if tree else None for tree in trees]
    else:
        roots = [tree_of(code, language) for code in (before, after)]
        shapes = [None if root is None or root.has_error else str(root) for root in roots]
    return shapes[0] is not None and shapes[0] == shapes[1]


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
