"""Syntax trees, normalised programs, syntax errors and valid prefix, in every language whose tree-sitter grammar is installed; dead code of Python programs.

Dead code is unreachable or unused (Vulture) or, if executed lines are known, not executed.
"""

import ast
import contextlib
import importlib
import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from upsolve.errors import JudgeError
from upsolve.extras import needs_extras
from upsolve.languages import PYTHON, languages
from upsolve.types import Finding
from upsolve.verify.analysis import Source, column_of

__all__ = ["dead", "nodes_of", "normalise", "own_error", "parse", "python_tree", "syntax", "tree_of", "unexecuted"]

MOST = 20
"""Maximum number of errors reported per program."""
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)


@cache
def parser(grammar: str) -> Any:
    """Return the parser of a grammar, given as ``module`` or ``module:function``; JudgeError if it is not installed."""
    with needs_extras():
        from tree_sitter import Language, Parser

    name, _, function = grammar.partition(":")
    try:
        module: Any = importlib.import_module(name)
    except ImportError as error:
        raise JudgeError(f"analysis syntax needs {name}: pip install 'upsolve[grammars]'") from error
    handle: object = getattr(module, function or "language")()
    return Parser(Language(handle))


def parse(code: str, grammar: str = "tree_sitter_python") -> Any:
    """Return the root node of a program's syntax tree; invalid code also has a tree."""
    return parser(grammar).parse(code.encode("utf-8", "replace")).root_node


def python_tree(code: str) -> ast.Module | None:
    """Return the syntax tree of a Python 3 program; None if it does not parse."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def tree_of(code: str, language: str) -> Any:
    """Return the root of a program's tree-sitter tree; None if its language has no grammar, JudgeError if the grammar is not installed."""
    if language in PYTHON:
        return parse(code)
    known = languages().get(language)
    return parse(code, known.grammar) if known and known.grammar else None


def normalise(code: str, language: str, *, docstrings: bool = True) -> str:
    """Return a text that is equal for programs that differ only in comments and white space or, if docstrings are not wanted, in docstrings."""
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


def nodes_of(root: Any, is_whole: Callable[[Any], bool] = lambda _: False) -> Iterator[Any]:
    """Yield the nodes of a tree in the order of the text, parents first; children of a node that counts as a whole are skipped."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += () if is_whole(node) else reversed(node.children)


def syntax(sources: Sequence[Source]) -> list[tuple[Finding, ...]]:
    """Return the syntax errors of every program, kind ``syntax``; a program without findings is valid.

    The ``value`` of the first error is the fraction of the program's characters before it, in [0, 1]: the valid prefix. In
    Python the first error is that of CPython's parser (rule ``SyntaxError`` ...). Rules of the other errors: ``error``,
    unexpected text, and ``missing``, a missing token. Languages without a grammar have no findings.
    """
    return [tuple(of_program(source)) for source in sources]


def of_program(source: Source) -> Iterator[Finding]:
    """Yield the syntax errors of one program."""
    python = source.language == "python"
    grammar = "tree_sitter_python" if python else languages()[source.language].grammar
    own = own_error(source.code) if python else None
    if own:
        yield own
    if grammar and (own or not python):
        for number, node in enumerate(bad_nodes(parse(source.code, grammar))):
            yield finding(node, source.code, measured=number == 0 and not python)


def finding(node: Any, code: str, *, measured: bool) -> Finding:
    """Build a finding from an error node; if ``measured``, with the fraction of the code before it as ``value``."""
    (row, offset), (last, end) = node.start_point, node.end_point
    text = code.encode("utf-8", "replace")[node.start_byte : node.end_byte].decode("utf-8", "replace").strip()
    rule, message = ("missing", f"{node.type} is missing") if node.is_missing else ("error", f"does not parse: {text[:80]}")
    line, column = row + 1, column_of(code, row + 1, offset)
    share = share_before(code, line, column) if measured else None
    return Finding("syntax", rule, message, line, column, last + 1, column_of(code, last + 1, end), share)


def bad_nodes(root: Any) -> Iterator[Any]:
    """Yield the outermost error and missing nodes by position, at most ``MOST``."""
    waiting, count = [root], 0
    while waiting and count < MOST:
        node = waiting.pop()
        if node.is_missing or (node.is_error and node is not root):
            count += 1
            yield node
        elif node.has_error:
            waiting += reversed(node.children)


def own_error(code: str) -> Finding | None:
    """Return the syntax error that CPython's parser raises for a program; None if it is valid."""
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
    """Return the fraction of a program's characters, without trailing whitespace, before a position, in [0, 1]."""
    stripped = code.rstrip()
    before = sum(len(text) + 1 for text in code.split("\n")[: line - 1]) + column - 1
    return round(min(1.0, before / len(stripped)), 6) if stripped else 1.0


NO_CODE = frozenset({"comment", "case_clause", "global_statement", "nonlocal_statement", "future_import_statement"})
CONSTANTS = frozenset({"string", "concatenated_string", "ellipsis", "integer", "float", "true", "false", "none"})


def dead(sources: Sequence[Source]) -> list[tuple[Finding, ...]]:
    """Return the findings of every program.

    Kinds: ``dead``, with Vulture's rule (``unreachable_code``, ``function``, ``import``, ...) and its confidence in [0.6, 1] as
    ``value``, except for names that the tests use; and ``unexecuted``, rule ``statement``, one per block of consecutive
    statements that no test executed.
    """
    return [(*unused(source), *unexecuted(source)) for source in sources]


def unused(source: Source) -> Iterator[Finding]:
    """Yield unused and unreachable code."""
    import vulture

    scanner: Any = vulture.Vulture()
    with contextlib.redirect_stderr(io.StringIO()):  # Vulture reports code that does not parse there
        scanner.scan(source.code)
    for item in scanner.get_unused_code():
        if item.name not in source.names or item.typ == "unreachable_code":
            share = item.confidence / 100
            yield Finding("dead", item.typ, item.message[:500], item.first_lineno, end_line=item.last_lineno, value=share)


def unexecuted(source: Source) -> Iterator[Finding]:
    """Yield blocks of consecutive statements that were not executed."""
    if source.executed is None:
        return
    ran, start, end = set(source.executed), 0, 0
    for first, last in statements(parse(source.code)):
        if not ran.isdisjoint(range(first, last + 1)):
            yield from idle(start, end)
            start = 0
        else:
            start, end = start or first, last
    yield from idle(start, end)


def idle(start: int, end: int) -> Iterator[Finding]:
    """Yield one finding for a block of unexecuted lines; none for an empty block."""
    if start:
        yield Finding("unexecuted", "statement", "no test runs this", start, end_line=end)


def statements(root: Any) -> Iterator[tuple[int, int]]:
    """Yield the first and the last line of every statement, in order; a compound statement counts with its head only."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.parent is not None and node.parent.type in ("module", "block") and has_code(node):
            first = node.start_point[0] + 1
            inner = [child for part in (node, *node.named_children) for child in part.named_children]
            bodies = [child.start_point[0] for child in inner if child.type == "block"]
            yield first, max(first, min(bodies, default=node.end_point[0] + 1))
        waiting += reversed(node.named_children)


def has_code(node: Any) -> bool:
    """Return whether a statement compiles to code; lone constants, declarations and annotations without a value do not."""
    if node.type != "expression_statement":
        return node.is_named and node.type not in NO_CODE
    inner = node.named_children[0] if node.named_child_count == 1 else None
    bare = inner is not None and inner.type == "assignment" and inner.child_by_field_name("right") is None
    return inner is None or not (bare or inner.type in CONSTANTS)
