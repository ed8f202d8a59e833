"""A model's answer -> its fenced blocks, without thoughts and control tokens. Linear in the answer's length."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from upsolve.languages.names import language_in

__all__ = ["Answer", "Block", "Line", "before_fence", "end_of", "read_answer"]

Line = tuple[int, str]
"""Position of a line in the answer, in characters, and its text without line end."""

TAGS = "think|thinking|thought|reasoning|seed:think"
BEGIN = rf"<(?:{TAGS})>|\[THINK\]|◁think▷|<\|channel\|>(?:analysis|commentary)\b"
ENDS = (*(f"</{tag}>" for tag in TAGS.split("|")), "[/THINK]", "◁/think▷")
CHANNEL = "<|channel|>final<|message|>"
END = rf"(?:{'|'.join(map(re.escape, ENDS))})(?!['\"\\]|`(?!``))|{re.escape(CHANNEL)}"
"""Begin and end marks of a thought. A quoted end mark, as in ``text.split("</think>")``, is plain text."""
FIRST = rf"(?:^|(?<=[>\]▷])(?:{'|'.join(f'(?<={re.escape(tag)})' for tag in (*ENDS, '|>', '｜>'))}))"
"""Start of a line, or the position behind the end of a thought or a control token."""
MARKS = re.compile(
    rf"{FIRST}[ \t]*+(?:(?P<fence>`{{3,}}+|~{{3,}}+)(?P<info>(?:(?!{END})[^\n])*+)"
    rf"|(?P<begin>{BEGIN})|(?P<end>{END}))|(?P<within>{END})"
    r"|(?:(?<=[\w:.)*>] )|(?<=[:>]))(?P<late>`{3,}+|~{3,}+)(?P<name>[\w+#.-]++)[ \t\r]*+$",
    re.MULTILINE,
)
"""Fences, and begin and end marks of thoughts; ``late``: a fence that opens behind text on its line."""
LABEL = re.compile(r"[ \t]*+\{?\.?([A-Za-z][\w+#-]*+)")
CONTROL = re.compile(r"(?:<\|[^|<>\n]{1,40}\|>|<｜[^｜<>\n]{1,40}｜>|</s>|<eos>|<pad>|<end_of_turn>|<\[EOS\]>|\[EOS\])\Z")
LONGEST_TOKEN = 48
OPENED = re.compile(r"(?:^|\n)[ \t]*+(`{3,}+|~{3,}+)[ \t]*+([\w+#-]++)[ \t]*+\r?\n?\Z")
THINKING = re.compile(rf"(?:{BEGIN})\s*+\Z")
TAIL = 200
"""Characters at the end of a prompt that may open a fence or a thought."""
QUOTES = re.compile(r"\"\"\"|'''|\"(?:[^\"\\\n]|\\.)*+\"?|'(?:[^'\\\n]|\\.)*+'?|#[^\n]*+|\\[\s\S]")
CLOSES = {mark: re.compile(rf"(?:[^{mark[0]}\\]|\\[\s\S]|{mark[0]}(?!{mark[0] * 2}))*+{mark}") for mark in ('"""', "'''")}
INSET = 4
"""Number of columns beyond the indentation of a block's fence from which an indented fence is text of the block, as in CommonMark."""


@dataclass(frozen=True, slots=True)
class Block:
    """The text of a fenced block."""

    label: str
    """First word after the opening fence, in lower case; empty if there is none."""
    lines: tuple[Line, ...]
    """Lines of the block, without the indentation of the fence."""

    @property
    def text(self) -> str:
        """Return the text, without empty lines around it."""
        return "\n".join(text for _, text in self.lines)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a model after its last thought."""

    text: str
    """The whole answer."""
    start: int
    """Position at which the last thought ends."""
    end: int
    """Position at which the control tokens at the end begin."""
    thinking: bool
    """True if the answer ends within a thought."""
    blocks: tuple[Block, ...]
    """The fenced blocks, in order."""
    continued: bool
    """True if the first block continues a fence that the prompt opened."""
    first_fence: int
    """Start of the line with the first fence; ``end`` without a fence."""
    lone: bool
    """True if the first fence has no label, so that it may be a closing fence."""

    def between(self, start: int, end: int) -> tuple[Line, ...]:
        """Return the lines of a part of the answer."""
        return lines_of(self.text, start, end, "")


@dataclass(slots=True)
class Open:
    """A block whose closing fence has not been read yet."""

    marks: str
    indent: str
    label: str
    start: int
    """Position in the answer, characters, at which the block's text begins."""
    is_python: bool
    of_prompt: bool = False
    quote: str = ""
    """Triple quotes that are open at ``seen``."""
    seen: int = 0
    skipped: bool = False
    """True if a fence was inside a triple-quoted string, and so did not close the block."""


@dataclass(slots=True)
class Reading:
    """State of ``read_answer``."""

    start: int = 0
    thinking: bool = False
    current: Open | None = None
    blocks: list[Block] = field(default_factory=list[Block])
    continued: bool = False
    first_fence: int | None = None
    lone: bool = False


def end_of(text: str) -> int:
    """Return the position at which trailing white space and control tokens such as ``<|im_end|>`` begin; without them, the length of the text."""
    end = len(text)
    while True:
        solid = end
        while solid and text[solid - 1].isspace():
            solid -= 1
        token = CONTROL.search(text[max(0, solid - LONGEST_TOKEN) : solid])
        if token is None:
            return end
        end = solid - len(token[0])


def before_fence(text: str) -> str:
    """Return the code of a completion that continues an opened fence: the text before the closing fence, or all of the text."""
    head, fence, _ = text.partition("\n```")
    return head if fence else text.removesuffix("```")


def read_answer(text: str, *, prompt: str = "", python: bool = True) -> Answer:
    """Return the blocks of an answer; the end of ``prompt`` may open a fence or a thought.

    A fence is closed by a fence without a label of at least as many of the same characters; a fence with a label opens the next block. An open fence
    runs to the end. In Python, fences in strings of three quotes are text; ``python``: blocks without a label hold Python.
    """
    end, tail = end_of(text), prompt[-TAIL:]
    opened, thinking = OPENED.search(tail), THINKING.search(tail) is not None
    strings_until = len(text)
    while True:
        state = Reading(thinking=thinking)
        if opened:
            state.current = Open(opened[1], "", opened[2].lower(), 0, is_python(opened[2], python), of_prompt=True)
        for mark in MARKS.finditer(text, 0, end):
            step(state, text, mark, python=python, strings_until=strings_until)
        last = state.current
        if last and last.skipped and in_string(last, text, end):  # quotes that never end: read again, with its fences as fences
            strings_until = last.start
            continue
        break
    if last:
        close(state, text, end, at_end=True)
    first = end if state.first_fence is None else state.first_fence
    return Answer(text, state.start, end, state.thinking, tuple(state.blocks), state.continued, first, state.lone)


def step(state: Reading, text: str, mark: re.Match[str], *, python: bool, strings_until: int) -> None:
    """Process a fence, or the begin or end mark of a thought."""
    current = state.current
    if (
        current
        and not state.thinking
        and current.is_python
        and current.start < strings_until
        and in_string(current, text, mark.start())
    ):
        current.skipped = True
    elif mark["end"] or mark["within"]:
        marks = "" if current is None else current.marks
        if mark["end"] or not current or mark.start() < current.start or text.endswith(marks, current.start, mark.start()):
            state.start, state.thinking, state.current, state.blocks = mark.end(), False, None, []
            state.continued, state.first_fence, state.lone = False, None, False
    elif state.thinking:
        pass
    elif mark["begin"]:
        state.thinking = not current
    elif mark["late"]:
        if not current:
            note_first(state, mark.start(), lone=False)
            open_block(state, mark["late"], "", mark["name"], mark.end() + 1, python=python)
    else:
        read_fence(state, text, mark, python=python)


def read_fence(state: Reading, text: str, mark: re.Match[str], *, python: bool) -> None:
    """Open or close a block."""
    current, marks = state.current, mark["fence"]
    info = mark["info"].rstrip()
    info = info[: end_of(info)].strip()
    begins_line = text[max(0, mark.start() - 1) : mark.start()] in ("", "\n")
    indent = text[mark.start() : mark.start("fence")] if begins_line else ""
    if marks[0] == "`" and "`" in info:
        if not current and info.endswith(marks):
            note_first(state, mark.start(), lone=False)
            state.blocks.append(one_line(info[: -len(marks)].rstrip("`"), mark.start("info") + mark["info"].index(info)))
        return
    label = LABEL.match(info)
    words = len(info.split(None, 2))
    named = label is not None and (words == 1 or not mark["info"].startswith((" ", "\t")))
    if current and not fits(current, marks, indent):
        return
    if current and current.of_prompt and (named or not text[current.start : mark.start()].strip()):
        state.current = current = None  # the answer opens a fence of its own
    if current:
        close(state, text, mark.start())
    if not current or named:
        note_first(state, mark.start(), lone=not named)
        open_block(state, marks, indent, label[1] if label and named else "", mark.end() + 1, python=python)


def note_first(state: Reading, place: int, *, lone: bool) -> None:
    """Record the position of the first fence."""
    if state.first_fence is None:
        state.first_fence, state.lone = place, lone


def fits(current: Open, marks: str, indent: str) -> bool:
    """Return whether a fence can close a block."""
    inset = len(indent.expandtabs(INSET)) - len(current.indent.expandtabs(INSET))
    return marks[0] == current.marks[0] and len(marks) >= len(current.marks) and inset < INSET


def open_block(state: Reading, marks: str, indent: str, label: str, start: int, *, python: bool) -> None:
    """Begin a block."""
    state.current = Open(marks, indent, label.lower(), start, is_python(label, python), seen=start)


def is_python(label: str, python: bool) -> bool:
    """Return whether a block holds Python according to its label."""
    return language_in(label[:LONGEST_TOKEN]) == "python" if label else python


def close(state: Reading, text: str, end: int, *, at_end: bool = False) -> None:
    """End the open block. At the end of the answer, the closing fence may stand at the end of the last line."""
    block = state.current
    assert block
    lines = lines_of(text, block.start, end, block.indent)
    if at_end and lines:
        place, last = lines[-1]
        last = "" if last.strip() and block.marks.startswith(last.strip()) else last.rstrip().removesuffix(block.marks)
        lines = trimmed([*lines[:-1], (place, last)])
    state.blocks.append(Block(block.label, lines))
    state.continued |= block.of_prompt
    state.current = None


def one_line(text: str, place: int) -> Block:
    """Return a block that is opened and closed on one line."""
    head, _, rest = text.partition(" ")
    label = LABEL.fullmatch(head)
    if label and rest.strip():
        return Block(label[1].lower(), ((place + len(head) + 1, rest),))
    return Block("", ((place, text),))


def in_string(block: Open, text: str, end: int) -> bool:
    """Return whether a position in a Python block is within a triple-quoted string; positions must be asked for in order."""
    place = block.seen
    while place < end:
        found = CLOSES[block.quote].match(text, place, end) if block.quote else QUOTES.search(text, place, end)
        if found is None:
            break
        place = found.end()
        block.quote = found[0] if not block.quote and found[0] in CLOSES else ""
    block.seen = end
    return bool(block.quote)


def lines_of(text: str, start: int, end: int, indent: str) -> tuple[Line, ...]:
    """Return the lines of a part of a text without their ``indent``, and without empty lines around them."""
    lines: list[Line] = []
    place = min(start, end)
    for line in text[place:end].split("\n"):
        blank = 0
        while blank < len(indent) and line[blank : blank + 1] in (" ", "\t"):
            blank += 1
        lines.append((place + blank, line[blank:].removesuffix("\r")))
        place += len(line) + 1
    return trimmed(lines)


def trimmed(lines: Sequence[Line]) -> tuple[Line, ...]:
    """Return lines without the empty lines around them."""
    first, last = 0, len(lines)
    while first < last and not lines[first][1]:
        first += 1
    while last > first and not lines[last - 1][1]:
        last -= 1
    return tuple(lines[first:last])
