"""Positions in the code of an attempt (lines and columns -> characters -> tokens), and its syntax tree.

Legend: N characters of the code without trailing blanks, as in a completion; R tokens of the completion; marked_N, marked_R bool.

Offsets are the spans (start, end) of tokens in characters from the start of the code. Text before the code (a whole answer,
``model.completion``) has negative positions; it and text after the code, such as the closing fence, belong to no line. A line ends at a line
feed, a carriage return or both, and includes its end. Lines and columns count from 1, columns in characters.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from upsolve.config.select import edit_distance
from upsolve.types import Finding, Status, Verdict
from upsolve.verify.analysis.syntax import python_tree

__all__ = [
    "Bools",
    "Function",
    "Offsets",
    "characters",
    "functions",
    "in_code",
    "left_at",
    "line_starts",
    "lines_of",
    "literal",
    "names_read",
    "parse",
    "token_distance",
    "tokens",
    "valid_characters",
]

Bools = NDArray[np.bool_]
Offsets = Sequence[tuple[int, int]]
TOKEN = re.compile(r"\w+|[^\w\s]|\n[ \t]*")
"""A name, number or mark, or the end of a line with the indentation of the next."""
LONGEST = 2000
"""Most tokens of a program that are compared."""
LINE_END = re.compile(r"\r\n|\r|\n")


def line_starts(code: str) -> list[int]:
    """Return the start of every line, followed by the end of the code, in characters."""
    text = code.rstrip()
    return [0, *(end.end() for end in LINE_END.finditer(text)), len(text)]


def lines_of(finding: Finding) -> range:
    """Return the numbers of all lines that a finding touches."""
    return range(finding.line, max(finding.line, finding.end_line or finding.line) + 1)


def characters(code: str, findings: Iterable[Finding], *, whole_lines: bool) -> Bools:
    """Return True for the characters that findings point at, [N]: their spans, or all of their lines.

    A span has at least one character; past the end of the code it is the last character.
    """
    starts = line_starts(code)
    marked_N = np.zeros(starts[-1], dtype=np.bool_)
    for finding in findings:
        last = finding.end_line or finding.line
        start = position(starts, finding.line, 1 if whole_lines else finding.column)
        end = (
            position(starts, last + 1, 1)
            if whole_lines or finding.end_column is None
            else position(starts, last, finding.end_column)
        )
        start = min(start, max(0, starts[-1] - 1))
        marked_N[start : max(end, start + 1)] = True
    return marked_N


def position(starts: Sequence[int], line: int, column: int) -> int:
    """Return the character at a line and a column, at most the end of that line and of the text."""
    if line >= len(starts):
        return starts[-1]
    return min(starts[line - 1] + column - 1, starts[line])


def tokens(code: str, marked_N: Bools, offsets: Offsets) -> Bools:
    """Return True for the tokens in marked characters, [R].

    A token is chosen if one of its non-blank characters is marked; a token of blanks alone if its last character is. So a line break
    with the indentation after it, often one token, belongs to the next line.
    """
    size = len(marked_N)
    solid_N = np.fromiter((not letter.isspace() for letter in code[:size]), dtype=np.bool_, count=size)
    solid_before, both_before = (np.concatenate([[0], np.cumsum(mask_N)]) for mask_N in (solid_N, solid_N & marked_N))
    spans = np.clip(np.array(offsets, dtype=np.int64).reshape(-1, 2), 0, size)
    first, end = spans[:, 0], spans[:, 1]
    in_text = end > first
    blank = solid_before[end] == solid_before[first]
    if size == 0:
        return in_text
    return in_text & np.where(blank, marked_N[end - 1], both_before[end] > both_before[first])


def in_code(code: str, offsets: Offsets) -> Bools:
    """Return True for the tokens that are code, [R]."""
    return tokens(code, np.ones(len(code.rstrip()), dtype=np.bool_), offsets)


def valid_characters(code: str, verdict: Verdict) -> int:
    """Return the number of characters before the first syntax error, 0..N; N without an error.

    Findings with a ``value`` give the place where the parser stopped, and replace findings without one. An error makes at least one
    character invalid. Code that does not compile and has no ``syntax`` finding is invalid from the start (0).
    """
    starts = line_starts(code)
    errors = [finding for finding in verdict.findings if finding.kind == "syntax"]
    measured = [error for error in errors if error.value is not None] or errors
    positions = [min(position(starts, part.line, part.column), max(0, starts[-1] - 1)) for part in measured]
    return min(positions, default=0 if verdict.status is Status.COMPILE_ERROR else starts[-1])


def token_distance(code: str, other: str) -> int:
    """Return the Levenshtein distance of two programs in tokens (names, numbers, marks, line ends), over their first ``LONGEST`` tokens."""
    words = [TOKEN.findall(text.strip())[:LONGEST] for text in (code, other)]
    letters = {word: chr(number) for number, word in enumerate(dict.fromkeys(words[0] + words[1]), 1)}
    first, second = ("".join(map(letters.__getitem__, each)) for each in words)
    return edit_distance(first, second) or 0


def left_at(code: str, other: str, window: int) -> Bools:
    """Return bool [N + 1]: True for the characters at which ``code`` departs from ``other``; the last entry is the end of the code.

    An alignment of both programs yields the tokens that only ``code`` has. Where only ``other`` has tokens, it yields the next token of ``code``.
    These tokens are marked, and ``window`` tokens after each.
    """
    text = code.rstrip()
    found = [match.span() for match in TOKEN.finditer(text)][:LONGEST]
    words, others = ([match[0] for match in TOKEN.finditer(one)][:LONGEST] for one in (text, other.rstrip()))
    spans, marked_N = [*found, (len(text), len(text) + 1)], np.zeros(len(text) + 1, dtype=np.bool_)
    for tag, first, last, _, _ in SequenceMatcher(None, words, others, autojunk=False).get_opcodes():
        if tag != "equal":
            marked = spans[first : max(last, first + 1) + window]
            marked_N[marked[0][0] : marked[-1][1]] = True
    return marked_N


Function = ast.FunctionDef | ast.AsyncFunctionDef


parse = lru_cache(maxsize=1024)(python_tree)
"""Returns the tree of a program, None if it does not parse. The tree is cached: do not change it."""


def literal(node: ast.expr | None) -> str | None:
    """Return the text of a literal's value; None for any other expression. 7 and "7" have the same text, since input and output are text."""
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
