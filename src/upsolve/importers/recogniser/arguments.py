"""Arguments and expected values of calls, as text or values -> lists of values.

How many arguments a list stands for shows in the function's parameters, if its definition is known, or over all tests.
"""

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any

from upsolve.importers.problems.problems import Callee, literal
from upsolve.importers.recogniser.asserts import parsed
from upsolve.importers.recogniser.code import FENCE

__all__ = ["arguments_of", "labelled", "value_in", "values_of"]


def value_in(text: str) -> Any:
    """Return the list or object that a text is, as JSON, JSON in JSON or a Python literal; None for other text."""
    if not text.lstrip().startswith(("[", "{", "(", '"')):
        return None
    for read in (json.loads, ast.literal_eval):
        try:
            value = read(text.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
        if isinstance(value, list | dict | tuple):
            return value
        if isinstance(value, str) and value != text:
            return value if value_in(value) is None else value_in(value)
    return None


def arguments_of(inputs: Sequence[Any], callee: Callee, told: Sequence[str] = (), program: str = "") -> list[Any]:
    """Return the arguments of calls: a list, or an object of named ones.

    ``told`` are the reference and the statement, which may define the function; ``program`` is an attempt, which counts if
    neither these nor the tests show whether a list is one argument.
    """
    found = as_written(inputs, callee)
    names = next((names for code in told if (names := parameters_in(code, callee)) is not None), None)
    if (
        names is None
        and len({len(one) for one in found if isinstance(one, list)}) > 1
        and all(isinstance(one, list) for one in inputs)
    ):
        names = ["values"]
    if names is None:
        names = parameters_in(program, callee)
    return found if names is None else fitted(found, inputs, names)


def fitted(found: list[Any], inputs: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """Return arguments of which there are as many as parameters: a list as the only one, or the items of an only list or object."""
    if all(fits(one, names) for one in found):
        return found
    if len(names) == 1 and all(isinstance(one, list | tuple) for one in inputs):
        return [[[*one]] for one in inputs]
    if all(isinstance(one, list) and len(one) == 1 for one in found):
        inner = [one[0] for one in found]
        if all(
            isinstance(one, list | tuple | dict) and fits([*one] if isinstance(one, tuple) else one, names) for one in inner
        ):
            return [[*one] if isinstance(one, tuple) else one for one in inner]
    return found


def fits(arguments: Any, names: Sequence[str]) -> bool:
    """Return whether arguments are as many as parameters, or have their names."""
    return {*arguments} <= {*names} if isinstance(arguments, Mapping) else len(arguments) == len(names)


def parameters_in(code: str, callee: Callee) -> list[str] | None:
    """Return the names of the parameters of a function in a text; None if it does not define it, or they may be left out."""
    found = re.search(rf"^[ \t]*def[ \t]+{re.escape(callee.name)}[ \t]*\(", code, re.MULTILINE)
    if not found:
        return None
    end = found.end()
    for _ in range(20):  # one of the first closing parentheses ends the list of parameters
        if (end := code.find(")", end) + 1) == 0:
            return None
        if (tree := parsed(f"def f({code[found.end() : end - 1]}): ...")) is None:
            continue
        node = tree.body[0]
        if not isinstance(node, ast.FunctionDef):
            return None
        given = node.args
        if given.defaults or given.vararg or given.kwarg or given.kwonlyargs:
            return None
        names = [one.arg for one in (*given.posonlyargs, *given.args)]
        return names[1:] if names and names[0] == "self" else names
    return None


def as_written(inputs: Sequence[Any], callee: Callee) -> list[Any]:
    """Return the arguments of calls as inputs state them."""
    if not all(isinstance(one, str) for one in inputs):
        return [[*one] if isinstance(one, list | tuple) else one if isinstance(one, dict) else [one] for one in inputs]
    if all(found := [in_call(text, callee) for text in inputs]):
        return [one[0] for one in found]
    rows = [text.rstrip("\n").split("\n") for text in inputs]
    columns = [[row[index] for row in rows if index < len(row)] for index in range(max(map(len, rows)))]
    readers = [reader_of(column) for column in columns]
    return [[readers[index](line) for index, line in enumerate(row)] for row in rows]


def in_call(text: str, callee: Callee) -> list[Any]:
    """Return, in a list, the arguments of a text that is a call of the function, or arguments between commas; an empty list for others."""
    text, start = text.strip(), rf"(?:Solution\(\)\.)?{re.escape(callee.name)}\s*\("
    source = text if re.match(start, text) else f"{callee.name}({text})"
    try:
        call = ast.parse(source, mode="eval").body
        if not isinstance(call, ast.Call) or "\n" in text or (call.args and call.keywords):
            return []
        if call.keywords:
            return [{str(one.arg): ast.literal_eval(one.value) for one in call.keywords}]
        return [[ast.literal_eval(one) for one in call.args]]
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return []


def reader_of(texts: Sequence[str]) -> Callable[[str], Any]:
    """Return what reads all of some texts: JSON, Python literals, or else the text itself."""
    for read in (json.loads, ast.literal_eval):
        try:
            for text in texts:
                literal(read(text.strip()))
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
        return lambda text, read=read: read(text.strip())
    return str


def values_of(outputs: Sequence[Any]) -> list[Any]:
    """Return expected values; texts are read alike, or, if some are plain text, only those that are lists or objects."""
    texts = [one for one in outputs if isinstance(one, str)]
    read = reader_of(texts)
    if read is str:
        return [one if not isinstance(one, str) or (inner := value_in(one)) is None else inner for one in outputs]
    return [read(one) if isinstance(one, str) else one for one in outputs]


LABEL = re.compile(
    r"[ \t#*]*(?:(?:sample|example|test|expected|case)[ \t]*\d*[ \t]*)*(input|output)[ \t]*#?\d*[ \t]*\**[ \t]*[:=]?\**[ \t]*(.*)",
    re.IGNORECASE,
)
"""A line ``Input: 1``, ``### Sample Input 1`` or ``**Output:**``."""
HEAD = re.compile(r"[ \t#*]*(?:(?:sample|example|test|case)s?[ \t]*)+#?\d*[ \t]*[:.)]?\**[ \t]*", re.IGNORECASE)
"""A line ``Example 1:`` before an input."""
REMARK = re.compile(r"[ \t#*]*explanation\**[ \t]*:", re.IGNORECASE)


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
