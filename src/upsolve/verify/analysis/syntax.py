"""Where code does not parse, and how far it does, in every language whose grammar is installed (tree-sitter)."""

import ast
import importlib
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from upsolve.errors import JudgeError
from upsolve.types import Finding
from upsolve.verify.analysis.source import Source, column_of
from upsolve.verify.languages import languages

__all__ = ["parse", "syntax"]

MOST = 20
"""Errors reported of one program."""


@cache
def parser(grammar: str) -> Any:
    """Return the parser of a grammar, given as ``module`` or ``module:function``.

    Raises:
        JudgeError: the grammar is not installed; says how to get it.
    """
    from tree_sitter import Language, Parser

    name, _, function = grammar.partition(":")
    try:
        module: Any = importlib.import_module(name)
    except ImportError as error:
        raise JudgeError(f"analysis syntax needs {name}: pip install 'upsolve[grammars]'") from error
    handle: object = getattr(module, function or "language")()
    return Parser(Language(handle))


def parse(code: str, grammar: str = "tree_sitter_python") -> Any:
    """Return the root node of the tree of a program; it has one for broken code, too."""
    return parser(grammar).parse(code.encode("utf-8", "replace")).root_node


def syntax(sources: Sequence[Source]) -> list[tuple[Finding, ...]]:
    """Return the syntax errors of every program, of the kind ``syntax``; a program without any is valid as a whole.

    The first has a ``value``: the share of the program before it, in [0, 1], which says how far it is valid. For Python that is the place
    where its own parser gives up (rule ``SyntaxError`` ...). Rules of the others: ``error``, text that fits nowhere, and ``missing``,
    something that was to come. Languages without a grammar have none.
    """
    return [tuple(of_program(source)) for source in sources]


def of_program(source: Source) -> Iterator[Finding]:
    """Yield the errors of one program."""
    python = source.language == "python"
    grammar = "tree_sitter_python" if python else languages()[source.language].grammar
    own = own_error(source.code) if python else None
    if own:
        yield own
    if grammar and (own or not python):
        for number, node in enumerate(bad_nodes(parse(source.code, grammar))):
            yield finding(node, source.code, measured=number == 0 and not python)


def finding(node: Any, code: str, *, measured: bool) -> Finding:
    """Build a finding from a bad node, with the share of the code before it where that is wanted."""
    (row, offset), (last, end) = node.start_point, node.end_point
    text = code.encode("utf-8", "replace")[node.start_byte : node.end_byte].decode("utf-8", "replace").strip()
    rule, said = ("missing", f"{node.type} is missing") if node.is_missing else ("error", f"does not parse: {text[:80]}")
    line, column = row + 1, column_of(code, row + 1, offset)
    share = share_before(code, line, column) if measured else None
    return Finding("syntax", rule, said, line, column, last + 1, column_of(code, last + 1, end), share)


def bad_nodes(root: Any) -> Iterator[Any]:
    """Yield the outermost nodes that are errors or stand for something missing, by place, at most ``MOST``."""
    waiting, found = [root], 0
    while waiting and found < MOST:
        node = waiting.pop()
        if node.is_missing or (node.is_error and node is not root):
            found += 1
            yield node
        elif node.has_error:
            waiting += reversed(node.children)


def own_error(code: str) -> Finding | None:
    """Return what Python's own parser says against a program, None if nothing."""
    try:
        with warnings.catch_warnings(action="ignore"):
            ast.parse(code)
    except SyntaxError as error:
        line, column = max(1, error.lineno or 1), max(1, error.offset or 1)
        known = error.end_lineno and error.end_offset and error.end_lineno > 0 and error.end_offset > 0
        end = (error.end_lineno, error.end_offset) if known else (None, None)
        return Finding("syntax", type(error).__name__, error.msg[:500], line, column, *end, share_before(code, line, column))
    except (ValueError, RecursionError, MemoryError) as error:
        return Finding("syntax", type(error).__name__, str(error)[:500], 1, value=0.0)
    return None


def share_before(code: str, line: int, column: int) -> float:
    """Return which share of the characters of a program, without blanks at its end, lies before a place."""
    whole = code.rstrip()
    before = sum(len(text) + 1 for text in code.split("\n")[: line - 1]) + column - 1
    return round(min(1.0, before / len(whole)), 6) if whole else 1.0
