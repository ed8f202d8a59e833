"""Two programs side by side with their differences by word, and why a program failed: the test, what it gave, what was expected."""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from upsolve.report.blocks import Node, el
from upsolve.types import Task

__all__ = ["Reason", "diff_lines", "program_pair", "reason_of", "reason_text"]

WORD = re.compile(r"\w+|\n|[^\S\n]+|.")
MESSAGE = re.compile(r"(?:hidden )?test (\d+): (.*)", re.DOTALL)
GAVE = (
    re.compile(r"(?P<input>.*?) gave (?P<got>.*), expected (?P<expected>.*)", re.DOTALL),
    re.compile(r"(?P<got>.*), expected (?P<expected>.*)", re.DOTALL),
)
"""Messages of the judge about a test (``verify.judge.outcomes``): of a call, and of an output."""
MOST_SHOWN = 300
"""Characters of an input or an expected output that a reason shows."""


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
    """What the attempt gave; empty if it was not recorded, as for hidden tests."""
    expected: str = ""
    """What was expected; empty if unknown."""


def reason_of(error_type: str, message: str, task: Task | None) -> Reason:
    """Return the reason that a judge's error gives; input and expected output are the task's own where it has them."""
    text = ": ".join(filter(None, (error_type, message)))
    named = MESSAGE.fullmatch(message)
    if not named:
        return Reason(text)
    number, rest = int(named[1]), named[2]
    test = task.tests[number - 1] if task and number <= len(task.tests) else None
    found = next((match.groupdict() for pattern in GAVE if (match := pattern.fullmatch(rest))), {})
    given, expected = (test.input, test.expected) if test else (found.get("input", ""), "")
    return Reason(text, number, given[:MOST_SHOWN], found.get("got", ""), (expected or found.get("expected", ""))[:MOST_SHOWN])


def reason_text(reason: Reason) -> Node | None:
    """Return a reason: the test, what the attempt gave and what was expected; None for an empty one."""
    if not reason.text:
        return None
    if reason.test is None or not (reason.got or reason.expected):
        return el("p", reason.text, class_="reason")
    parts = {f"test {reason.test}": reason.input, "got": reason.got or "not recorded", "expected": reason.expected}
    if not reason.got and (error := MESSAGE.sub(r"\2", reason.text)):
        parts["got"] = error
    return el(
        "dl",
        *(part for name, text in parts.items() if text for part in (el("dt", name), el("dd", el("code", text)))),
        class_="reason facts",
    )


def diff_lines(before: str, after: str) -> list[tuple[str, str]]:
    """Return all lines of two programs as a diff: sign (``-``, ``+`` or blank) and line."""
    old, new = before.splitlines(), after.splitlines()
    lines: list[tuple[str, str]] = []
    for kind, low, high, start, stop in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        lines += [(" " if kind == "equal" else "-", line) for line in old[low:high]]
        lines += [("+", line) for line in new[start:stop]] if kind != "equal" else []
    return lines


def program_pair(before: str, after: str) -> tuple[Node, Node]:
    """Return two programs, in which the words that differ are marked ``del`` and ``ins``; lines that differ have a class."""
    old, new = before.splitlines(), after.splitlines()
    left, right = list[Node](), list[Node]()
    for kind, low, high, start, stop in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            left += [line_of([text]) for text in old[low:high]]
            right += [line_of([text]) for text in new[start:stop]]
            continue
        ours, theirs = marked("\n".join(old[low:high]), "\n".join(new[start:stop]))
        left += [line_of(parts, "removed") for parts in ours] if high > low else []
        right += [line_of(parts, "added") for parts in theirs] if stop > start else []
    sides = (("program before", before, left), ("program after", after, right))
    first, second = (
        el("pre", *(lines if text.strip() else [el("i", "empty")]), tabindex="0", role="group", aria_label=name)
        for name, text, lines in sides
    )
    return first, second


def line_of(parts: Sequence[Node], kind: str | None = None) -> Node:
    """Return a line of a program."""
    return el("span", *parts, "\n", class_=kind)


def marked(before: str, after: str) -> tuple[list[list[Node]], list[list[Node]]]:
    """Return the lines of two texts, in which the words of the one that the other lacks are marked."""
    old, new = WORD.findall(before), WORD.findall(after)
    left, right = [list[Node]()], [list[Node]()]
    for kind, low, high, start, stop in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        for lines, words, mark in ((left, old[low:high], "del"), (right, new[start:stop], "ins")):
            for number, piece in enumerate("".join(words).split("\n")):
                if number:
                    lines.append([])
                if piece:
                    lines[-1].append(piece if kind == "equal" else el(mark, piece))
    return left, right
