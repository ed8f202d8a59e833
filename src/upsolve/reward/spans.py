"""Findings -> characters -> tokens.

Legend: N characters of the code without the blanks at its end, as a completion has it; R tokens of the completion; marked_N,
marked_R bool. An offset is the span (start, end) of a token in characters of the completion, which begins with the code: whatever
lies behind it, such as the closing fence, belongs to no line. Lines end at a line feed, a carriage return or both; the end of a
line is a part of it. Lines and columns count from 1, columns in characters.
"""

import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from upsolve.types import Finding, Status, Verdict

__all__ = ["Bools", "Offsets", "characters", "in_code", "line_starts", "lines_of", "tokens", "valid_characters"]

Bools = NDArray[np.bool_]
Offsets = Sequence[tuple[int, int]]
LINE_END = re.compile(r"\r\n|\r|\n")


def line_starts(code: str) -> list[int]:
    """Return where every line begins, and at last the end of the code."""
    text = code.rstrip()
    return [0, *(end.end() for end in LINE_END.finditer(text)), len(text)]


def lines_of(finding: Finding) -> range:
    """Return the lines of a finding, all of them whole."""
    return range(finding.line, max(finding.line, finding.end_line or finding.line) + 1)


def characters(code: str, findings: Iterable[Finding], *, whole_lines: bool) -> Bools:
    """Mark what findings point at, [N]: their spans, or all lines that these touch.

    A span holds one character at least; where it lies behind the end of the code, that is the last one.
    """
    starts = line_starts(code)
    marked_N = np.zeros(starts[-1], dtype=np.bool_)
    for one in findings:
        last = one.end_line or one.line
        start = place(starts, one.line, 1 if whole_lines else one.column)
        end = place(starts, last + 1, 1) if whole_lines or one.end_column is None else place(starts, last, one.end_column)
        start = min(start, max(0, starts[-1] - 1))
        marked_N[start : max(end, start + 1)] = True
    return marked_N


def place(starts: Sequence[int], line: int, column: int) -> int:
    """Return the place of a line and a column in the text, at most its end; a column behind the end of its line is that end."""
    if line >= len(starts):
        return starts[-1]
    return min(starts[line - 1] + column - 1, starts[line])


def tokens(code: str, marked_N: Bools, offsets: Offsets) -> Bools:
    """Return which tokens lie in marked characters, [R].

    A token does when a character of it that is not blank does; one of blanks alone when its last character does. So the break and
    indentation before a line, one token often, belong to that line.
    """
    size = len(marked_N)
    solid_N = np.fromiter((not letter.isspace() for letter in code[:size]), dtype=np.bool_, count=size)
    solid_before, both_before = (np.concatenate([[0], np.cumsum(what)]) for what in (solid_N, solid_N & marked_N))
    spans = np.minimum(np.array(offsets, dtype=np.int64).reshape(-1, 2), size)
    first, end = spans[:, 0], spans[:, 1]
    in_text = end > first
    blank = solid_before[end] == solid_before[first]
    if size == 0:
        return in_text
    return in_text & np.where(blank, marked_N[end - 1], both_before[end] > both_before[first])


def in_code(code: str, offsets: Offsets) -> Bools:
    """Return which tokens are code, [R]."""
    return tokens(code, np.ones(len(code.rstrip()), dtype=np.bool_), offsets)


def valid_characters(code: str, verdict: Verdict) -> int:
    """Return how many characters of the code, of N, lie before its first syntax error; N where there is none.

    Of several findings those that are measured (``value``) count: that is where the parser gave up. An error leaves one character
    invalid at least. What did not compile and has no place for it is valid nowhere.
    """
    starts = line_starts(code)
    found = [one for one in verdict.findings if one.kind == "syntax"]
    measured = [one for one in found if one.value is not None] or found
    places = [min(place(starts, one.line, one.column), max(0, starts[-1] - 1)) for one in measured]
    return min(places, default=0 if verdict.status is Status.COMPILE_ERROR else starts[-1])
