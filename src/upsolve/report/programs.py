"""Two programs side by side, coloured, with their differences by word; and why a program failed: the test, its result, the expected result."""

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, repeat
from operator import itemgetter
from typing import Any

from upsolve.report.blocks import Node, el
from upsolve.types import Task

__all__ = [
    "KINDS",
    "MEANINGS",
    "MOST_LINE",
    "MOST_SHOWN",
    "Reason",
    "Sample",
    "diff_lines",
    "program_line",
    "program_pair",
    "question_line",
    "reason_of",
    "reason_text",
    "shortened",
    "syntax_spans",
]

WORD = re.compile(r"\w+|\n|[^\S\n]+|.")
MESSAGE = re.compile(r"(?:hidden )?test (\d+): (.*)", re.DOTALL)
GAVE = (
    re.compile(r"(?P<input>.*?) gave (?P<got>.*), expected (?P<expected>.*)", re.DOTALL),
    re.compile(r"(?P<got>.*), expected (?P<expected>.*)", re.DOTALL),
)
"""Regular expressions for the judge's messages about a test (``verify.judge.outcomes``): about a call, and about an output."""
WITHHELD = ("wrong output", "wrong value")
"""The judge's messages about hidden tests, without the result of the attempt."""
MOST_SHOWN = 300
"""Characters of an input or an expected output that a reason shows."""
MOST_LINE = 120
"""Characters of a program, and of a reason, in one line of a list."""
MEANINGS = {
    "failed": "ran, but a result is wrong",
    "timeout": "ran longer than the time limit",
    "memory_limit": "needed more than the memory limit",
    "output_limit": "printed more than the limit",
    "runtime_error": "stopped by an error while it ran",
    "compile_error": "cannot be parsed or compiled",
    "unscored": "could not be judged; in no pass rate",
    "Refused": "not a read-only query, or one with random()",
    "NoSuchColumn": "names a column that its tables lack",
    "NoSuchTable": "names a table that the database lacks",
    "NoSuchFunction": "calls a function that the database lacks",
    "AmbiguousColumn": "names a column that several tables have",
    "Misuse": "uses an aggregate where none may stand",
    "WrongArguments": "calls a function with too many or too few arguments",
}
"""Outcome, or type of error of a query -> its meaning. Error types of programs have the meaning of their language."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample of an evaluation."""

    code: str
    """Program of the sample."""
    status: str
    """Outcome of the sample."""
    error: str = ""
    """The judge's message; empty if it passed."""
    kind: str = ""
    """Type of the error; empty without an error."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an attempt did not pass."""

    text: str
    """The judge's message; empty if it recorded none."""
    test: int | None = None
    """Number of the first test that did not pass, from 1; None if the message names none."""
    input: str = ""
    """Input of this test; empty if unknown."""
    got: str = ""
    """Value or output of the attempt; empty if it was not recorded, as for hidden tests."""
    expected: str = ""
    """Expected value or output; empty if unknown."""
    kind: str = ""
    """Type of the error; empty without an error."""

    @property
    def message(self) -> str:
        """The judge's message without the number of the test."""
        return MESSAGE.sub(r"\2", self.text)

    @property
    def is_hidden(self) -> bool:
        """Whether the message withholds the result, because the test is hidden."""
        return self.message in WITHHELD and not self.got

    @property
    def line(self) -> str:
        """The message in one line, with the expected value of a test whose message hides it."""
        hidden = f", expected {self.expected}" if self.expected and not (self.got or self.kind) else ""
        where = " at a hidden test" if self.is_hidden else ""
        return shortened(" ".join(f"{self.message}{where}{hidden}".split()), MOST_LINE)


def reason_of(error_type: str, message: str, task: Task | None) -> Reason:
    """Return the reason that a judge's error states; input and expected output come from the task if it has them."""
    text = ": ".join(filter(None, (error_type, message)))
    named = MESSAGE.fullmatch(message)
    if not named:
        return Reason(text, kind=error_type)
    number, rest = int(named[1]), named[2]
    test = task.tests[number - 1] if task and number <= len(task.tests) else None
    found = next((match.groupdict() for pattern in GAVE if (match := pattern.fullmatch(rest))), {})
    given, expected = (test.input, test.expected) if test else (found.get("input", ""), "")
    shown = given[:MOST_SHOWN], found.get("got", ""), (expected or found.get("expected", ""))[:MOST_SHOWN]
    return Reason(text, number, *shown, kind=error_type)


def program_line(code: str) -> str:
    """Return the start of a program in one line."""
    return shortened(" ⏎ ".join(line.strip() for line in code.splitlines() if line.strip()), MOST_LINE)


def question_line(prompt: str) -> str:
    """Return the first line of a prompt; of one that begins with the tables of a database, the last line."""
    lines = [line.strip() for line in prompt.splitlines() if line.strip()] or [""]
    return shortened(lines[-1 if lines[0].upper().startswith("CREATE ") else 0], 2 * MOST_LINE)


def shortened(text: str, most: int) -> str:
    """Return a text of at most ``most`` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


HIDDEN = "a wrong result, which verdicts do not record at hidden tests"


def reason_text(reason: Reason) -> Node | None:
    """Return a reason as text: the test, the attempt's result and the expected result; None for an empty reason."""
    if not reason.text:
        return None
    means = el("div", f"{reason.kind}: {MEANINGS[reason.kind]}", class_="soft") if reason.kind in MEANINGS else None
    if reason.test is None or not (reason.got or reason.expected):
        return el("div" if means else "p", reason.text, means, class_="reason")
    if reason.is_hidden:
        got, expected = el("span", HIDDEN, class_="soft"), el("code", reason.expected)
    else:
        got, expected = differing(reason.got or reason.message or "not recorded", reason.expected)
    shown = [el("dt", f"test {reason.test}"), el("dd", input_text(reason.input))] if reason.input else []
    shown += [el("dt", "got"), el("dd", got, means)]
    shown += [el("dt", "expected"), el("dd", expected)] if reason.expected else []
    return el("dl", *shown, class_="reason facts")


def input_text(text: str) -> Node:
    """Return the input of a test, of several lines folded, such as the script of a database."""
    lines = text.count("\n") + 1
    if lines == 1:
        return el("code", text)
    kind = "database script" if text.lstrip().upper().startswith("CREATE ") else "input"
    return el("details", el("summary", f"{kind}, {lines} lines"), el("code", text))


def differing(got: str, expected: str) -> tuple[Node, Node]:
    """Return two values, in which the words that differ are marked if they have enough words in common."""
    if not are_alike(got, expected):
        return el("code", got), el("code", expected)
    joined = [[piece for line in lines for piece in (*line, ("\n", ""))][:-1] for lines in marked(got, expected)]
    first, second = (el("code", *coloured(pieces, repeat(None))) for pieces in joined)
    return first, second


def are_alike(before: str, after: str) -> bool:
    """Return whether two texts share ``ALIKE`` of their words; marks on nearly every word say nothing."""
    ours, theirs = ([word for word in WORD.findall(text) if not word.isspace()] for text in (before, after))
    return difflib.SequenceMatcher(None, ours, theirs).quick_ratio() >= ALIKE


def diff_lines(before: str, after: str) -> list[tuple[str, str]]:
    """Return all lines of two programs as a diff: sign (``-``, ``+`` or blank) and line."""
    old, new = before.splitlines(), after.splitlines()
    lines: list[tuple[str, str]] = []
    for kind, low, high, start, stop in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        lines += [(" " if kind == "equal" else "-", line) for line in old[low:high]]
        lines += [("+", line) for line in new[start:stop]] if kind != "equal" else []
    return lines


ALIKE = 0.4
"""Share of common words (``difflib``'s upper bound) below which no words of two programs are marked."""
Piece = tuple[str, str]
"""A part of a line, and ``del`` or ``ins`` if the other program lacks the part, else an empty text."""


def program_pair(before: str, after: str, language: str = "") -> tuple[Node, Node]:
    """Return two programs with differing words marked as ``del`` and ``ins``; differing lines have a class.

    If two programs share few words, no words are marked. Tokens are coloured as in the viewer (``syntax_spans``) if the ``language`` is known.
    """
    old, new = before.splitlines(), after.splitlines()
    left, right = list[tuple[str, list[Piece]]](), list[tuple[str, list[Piece]]]()
    if not are_alike(before, after):
        left, right = ([("", [(line, "")]) for line in lines] for lines in (old, new))
        old = new = []
    for kind, low, high, start, stop in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            left += [("", [(text, "")]) for text in old[low:high]]
            right += [("", [(text, "")]) for text in new[start:stop]]
            continue
        ours, theirs = marked("\n".join(old[low:high]), "\n".join(new[start:stop]))
        left += [("removed", pieces) for pieces in ours] if high > low else []
        right += [("added", pieces) for pieces in theirs] if stop > start else []
    first, second = (
        el("pre", *(lines_of(lines, language) or [el("i", "empty")]), tabindex="0", role="group", aria_label=name)
        for name, lines in (("program before", left), ("program after", right))
    )
    return first, second


def lines_of(lines: Sequence[tuple[str, Sequence[Piece]]], language: str) -> list[Node]:
    """Return the lines of a program, each with its class; [] for a blank program."""
    code = "".join("".join(text for text, _ in pieces) + "\n" for _, pieces in lines)
    kinds = iter(token_kinds(code, language))
    shown = [el("span", *coloured([*pieces, ("\n", "")], kinds), class_=name or None) for name, pieces in lines]
    return shown if code.strip() else []


def coloured(pieces: Sequence[Piece], kinds: Iterator[int | None]) -> Iterator[Node]:
    """Yield the parts of a line with their marks, divided into tokens with the classes of their kinds."""
    for text, mark in pieces:
        runs = groupby(zip(text, kinds, strict=False), key=itemgetter(1))  # the text is read first, so no kind is lost
        parts = [(kind, "".join(letter for letter, _ in run)) for kind, run in runs]
        nodes = [part if kind is None else el("span", part, class_=f"syntax{kind}") for kind, part in parts]
        yield from [el(mark, *nodes)] if mark and nodes else nodes


def token_kinds(code: str, language: str) -> list[int | None]:
    """Return for each character the kind of its token, an index into ``KINDS``; None without a colour."""
    kinds, end, flat = list[int | None]([None] * len(code)), 0, syntax_spans(code, language)
    for skip, length, kind in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
        kinds[end + skip : end + skip + length] = [kind] * length
        end += skip + length
    return kinds


def marked(before: str, after: str) -> tuple[list[list[Piece]], list[list[Piece]]]:
    """Return the lines of two texts; words that the other text lacks are marked."""
    old, new = WORD.findall(before), WORD.findall(after)
    left, right = [list[Piece]()], [list[Piece]()]
    for kind, low, high, start, stop in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        for lines, words, mark in ((left, old[low:high], "del"), (right, new[start:stop], "ins")):
            for number, piece in enumerate("".join(words).split("\n")):
                if number:
                    lines.append([])
                if piece:
                    lines[-1].append((piece, "" if kind == "equal" else mark))
    return left, right


MOST_CODE = 100_000
"""Most characters of a program that is coloured."""
KINDS = ("Keyword", "String", "Comment", "Number", "Name.Function", "Name.Class", "Name.Builtin", "Operator.Word")
"""Token kinds of Pygments that have a colour; a span names its kind by the index in this list."""
NAMES = {"pypy": "python", "duckdb": "sql", "text": "text"}
"""Languages that Pygments knows by another name."""


def syntax_spans(code: str, language: str) -> list[int]:
    """Return ``start, length, kind, ...`` of the coloured tokens of a program, in characters, each start after the end before it."""
    lexer = lexer_of(language) if len(code) <= MOST_CODE else None
    if lexer is None:
        return []
    spans, end = list[int](), 0
    for at, token, text in lexer.get_tokens_unprocessed(code):
        name = str(token).removeprefix("Token.").replace("Literal.", "")
        kind = next((number for number, known in enumerate(KINDS) if name == known or name.startswith(f"{known}.")), None)
        if kind is not None and text.strip():
            spans += [at - end, len(text), kind]
            end = at + len(text)
    return spans


@lru_cache(maxsize=32)
def lexer_of(language: str) -> Any:
    """Return Pygments' lexer of a language; None if it has none."""
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        return get_lexer_by_name(NAMES.get(language, language), stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
