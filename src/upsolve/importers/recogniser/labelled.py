"""Texts with labelled inputs and outputs, such as examples of a statement -> pairs."""

import re
from itertools import takewhile

__all__ = ["labelled"]

LABEL = re.compile(
    r"[ \t#*]*(?:(?:sample|example|test|expected|case)[ \t]*\d*[ \t]*)*(input|output)[ \t]*#?\d*[ \t]*\**[ \t]*[:=]?\**[ \t]*(.*)",
    re.IGNORECASE,
)
"""A line ``Input: 1``, ``### Sample Input 1`` or ``**Output:**``."""
HEAD = re.compile(r"[ \t#*]*(?:(?:sample|example|test|case)s?[ \t]*)+#?\d*[ \t]*[:.)]?\**[ \t]*", re.IGNORECASE)
"""A line ``Example 1:`` before an input."""
REMARK = re.compile(r"[ \t#*]*explanation\**[ \t]*:", re.IGNORECASE)
FENCE = re.compile(r"\s*```\w*[ \t]*\n(.*)\n[ \t]*```\s*", re.DOTALL)


def labelled(text: str) -> list[tuple[str, str]]:
    """Return the inputs and outputs of a text with lines such as ``Input: 1`` and ``Output: 2``, without explanations; none for other text."""
    parts: list[tuple[str, list[str]]] = []
    for line in text.strip().splitlines():
        match = LABEL.fullmatch(line[:200]) if len(line) < 200 or ":" in line[:40] else None
        if match and (match[2] == "" or ":" in line[: match.start(2)] or "=" in line[: match.start(2)]):
            if parts and match[1].lower() == "input":
                parts[-1] = parts[-1][0], without_head(parts[-1][1])
            parts.append((match[1].lower(), [line[match.start(2) :]] if line[match.start(2) :] else []))
        elif parts:
            parts[-1][1].append(line)
        elif line.strip() and not HEAD.fullmatch(line[:200]):
            return []
    if [kind for kind, _ in parts] != ["input", "output"] * (len(parts) // 2) or not parts:
        return []
    texts = [body(lines) for _, lines in parts]
    return [*zip(texts[::2], texts[1::2], strict=True)]


def without_head(lines: list[str]) -> list[str]:
    """Return the lines before a heading such as ``Example 2:`` at their end."""
    end = len(lines)
    while end and (not lines[end - 1].strip() or HEAD.fullmatch(lines[end - 1][:200])):
        end -= 1
    return lines[:end]


def body(lines: list[str]) -> str:
    """Return the text of an input or output: what its fence has, if any, up to an explanation."""
    text = "\n".join(takewhile(lambda line: not REMARK.match(line[:200]), lines)).strip("\n")
    fenced = FENCE.fullmatch(text)
    return fenced[1] if fenced else text
