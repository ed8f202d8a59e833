"""Inputs of calls and of programs as lists of values, and new inputs by mutation of these values within the domain of the task's tests."""

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from upsolve.suites.domain import FOREIGN, Domain, domain_of
from upsolve.suites.mutate import mutated
from upsolve.types import Task, TestCase, TestKind

__all__ = ["Candidate", "Inputs", "ValueInputs", "call_inputs", "candidates", "program_inputs"]

TRIES = 40
"""Number of mutations that are tried for each wanted input."""
AGAIN = 0.4
"""Probability that a mutated input is mutated once more."""
LONGEST = 20_000
"""Most characters of an input of calls and programs that is mutated."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A new test without an expected value."""

    test: TestCase
    """Kind and input; hidden."""
    origin: int
    """Index of the test that was mutated."""
    change: str
    """Description of the mutation."""
    edges: frozenset[str] = frozenset()
    """Properties that this input has and no present input has (``upsolve.suites.domain.EDGES``)."""


class Inputs(Protocol):
    """The inputs of a task's tests in a form that can be mutated."""

    def new(self, random: Random) -> Candidate | None:
        """Return a mutated input without an expected value; None if this mutation leaves the domain."""
        ...


def candidates(inputs: Inputs, known: Sequence[TestCase], count: int, random: Random) -> Iterator[Candidate]:
    """Yield distinct new tests, at most ``count``; fewer if mutations give no more."""
    seen = {test.input for test in known}
    for _ in range(TRIES * count):
        if len(seen) >= len(known) + count:
            return
        if (found := inputs.new(random)) and found.test.input not in seen:
            seen.add(found.test.input)
            yield found


@dataclass(frozen=True, slots=True)
class ValueInputs:
    """Inputs that only differ in the values at the same positions."""

    bases: Sequence[tuple[int, list[Any]]]
    """Index of a test, and the values of its input."""
    render: Callable[[Sequence[Any]], str]
    """Returns the input that has these values."""
    domain: Domain
    """Properties that all inputs share."""
    kind: TestKind
    """Kind of the tests."""

    def new(self, random: Random) -> Candidate | None:
        """Return a mutated input; see ``Inputs``."""
        origin, values = random.choice(self.bases)
        values, changes = [*values], list[str]()
        while values and (not changes or random.random() < AGAIN):
            place = random.randrange(len(values))
            values[place], change = mutated(values[place], [other[place] for _, other in self.bases], random)
            changes.append(f"value {place + 1}: {change}")
        edges = self.domain.outside(values)
        try:
            text = self.render(values) if FOREIGN not in edges else ""
        except (ValueError, RecursionError):
            return None
        if not text or len(text) > LONGEST:
            return None
        return Candidate(TestCase(self.kind, text, "", hidden=True), origin, ", ".join(changes), frozenset(edges))


def call_inputs(task: Task) -> ValueInputs | None:
    """Return the calls of a task in its most frequent form, such as ``f(_, _)``; None if no call has literal arguments."""
    parsed = {
        index: call for index, test in enumerate(task.tests) if test.kind is TestKind.CALL and (call := parts_of(test.input))
    }
    counts = Counter(form for form, values in parsed.values() if values)
    if not counts:
        return None
    form = max(counts, key=lambda one: (counts[one], one))
    bases = [(index, values) for index, (own, values) in parsed.items() if own == form]

    def render(values: Sequence[Any]) -> str:
        return ast.unparse(Filled(values).visit(ast.parse(form, mode="eval")))

    return ValueInputs(bases, render, domain_of([values for _, values in bases]), TestKind.CALL)


PLACE = "_upsolve_"
"""Prefix of the names that stand for literals in the form of a call."""


def parts_of(source: str) -> tuple[str, list[Any]] | None:
    """Return the form of an expression, with a name for each literal argument of a call, and the literals; None if it does not parse."""
    try:
        emptied = Emptied()
        form = ast.unparse(emptied.visit(ast.parse(source.strip(), mode="eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return form, emptied.values


class Emptied(ast.NodeTransformer):
    """Replaces the literal arguments of calls by names."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def visit_Call(self, node: ast.Call) -> ast.Call:
        """Replace the literal arguments of a call."""
        node.args = [self.emptied(argument) for argument in node.args]
        for keyword in node.keywords:
            keyword.value = self.emptied(keyword.value)
        node.func = self.visit(node.func)
        return node

    def emptied(self, node: ast.expr) -> ast.expr:
        """Return a name for a literal; any other expression with its calls emptied."""
        try:
            self.values.append(ast.literal_eval(node))
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return self.visit(node)
        return ast.Name(f"{PLACE}{len(self.values) - 1}")


class Filled(ast.NodeTransformer):
    """Replaces names by literals."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Return the literal that a name stands for."""
        if not node.id.startswith(PLACE):
            return node
        return ast.parse(literal_of(self.values[int(node.id.removeprefix(PLACE))]), mode="eval").body


def literal_of(value: Any) -> str:
    """Return a value as a literal; members of sets are sorted."""
    if isinstance(value, set | frozenset):
        members: list[str] = sorted(map(literal_of, value))  # pyright: ignore[reportUnknownArgumentType]
        return f"{{{', '.join(members)}}}" if members else "set()"
    if isinstance(value, dict):
        items: Mapping[Any, Any] = value
        return f"{{{', '.join(f'{literal_of(key)}: {literal_of(one)}' for key, one in items.items())}}}"
    if isinstance(value, list | tuple):
        texts = [*map(literal_of, value)]  # pyright: ignore[reportUnknownArgumentType]
        if isinstance(value, list):
            return f"[{', '.join(texts)}]"
        return f"({', '.join(texts)}{',' * (len(texts) == 1)})"
    return repr(value)


WHOLE, REAL = re.compile(r"-?[0-9]+", re.ASCII), re.compile(r"-?[0-9]+\.[0-9]+", re.ASCII)


def token_value(text: str) -> Any:
    """Return a token of a line as a number; as text if the number would be written differently."""
    if len(text) < 20 and WHOLE.fullmatch(text) and str(int(text)) == text:
        return int(text)
    return float(text) if len(text) < 20 and REAL.fullmatch(text) and repr(float(text)) == text else text


@dataclass(frozen=True, slots=True)
class Layout:
    """Form of the inputs of a program: lines with one value each, and rows that follow them."""

    widths: Sequence[int]
    """Number of tokens of each line before the rows; 0 for a list of any length, -1 for a text."""
    rows: int | None
    """Number of tokens of each row, 0 for any number, -1 for a text; None if no rows follow the lines."""
    counts: Mapping[tuple[int, int], int]
    """Position (line, token) of a number that counts -> line whose tokens it counts, ``ROWS`` for the rows."""


ROWS = -1
MOST_LINES = 8
"""Most lines of inputs without rows."""


def layout_of(texts: Sequence[list[list[str]]]) -> Layout:
    """Return the common form of inputs that are given as tokens of lines."""
    heights = {len(lines) for lines in texts}
    fixed = min(heights) if len(heights) == 1 and min(heights) <= MOST_LINES else header_of(texts)
    widths = [width_of([lines[index] for lines in texts]) for index in range(fixed)]
    rest = [line for lines in texts for line in lines[fixed:]]
    rows = None if len(heights) == 1 and fixed == min(heights) else width_of(rest)
    counts: dict[tuple[int, int], int] = {}
    for line, width in enumerate(widths):
        for place in range(max(width, 0)):
            numbers = [lines[line][place] for lines in texts]
            lists = [other for other, wide in enumerate(widths) if wide == 0 and other > line]
            lengths = {other: [str(len(lines[other])) for lines in texts] for other in lists}
            lengths |= {ROWS: [str(len(lines) - fixed) for lines in texts]} if rows is not None else {}
            if found := [other for other, sizes in lengths.items() if sizes == numbers]:
                counts[line, place] = found[0]
    return Layout(widths, rows, counts)


def header_of(texts: Sequence[list[list[str]]]) -> int:
    """Return the number of lines before the rows: the rows begin after the last line whose number of tokens differs from the final line's."""
    header = 0
    for lines in texts:
        body = len(lines)
        while body and len(lines[body - 1]) == len(lines[-1]):
            body -= 1
        header = max(header, body)
    counted = all(lines[0][:1] == [str(len(lines) - 1)] for lines in texts)
    return 1 if counted else min(header, *(len(lines) for lines in texts))


def width_of(lines: Sequence[list[str]]) -> int:
    """Return the number of tokens of lines; 0 if it varies, -1 if it varies and some token is not a number."""
    widths = {*map(len, lines)}
    if len(widths) == 1 and (width := min(widths)):
        return width
    return 0 if all(not isinstance(token_value(token), str) for line in lines for token in line) else -1


def parsed_lines(lines: list[list[str]], layout: Layout) -> list[Any]:
    """Return the values of an input, without the numbers that are counts."""
    values: list[Any] = []
    for index, width in enumerate(layout.widths):
        line = lines[index]
        if width > 0:
            values += [token_value(token) for place, token in enumerate(line) if (index, place) not in layout.counts]
        else:
            values.append(line_value(line, width))
    if layout.rows is not None:
        values.append([line_value(line, layout.rows) for line in lines[len(layout.widths) :]])
    return values


def line_value(line: list[str], width: int) -> Any:
    """Return the value of a line: a text, one token, a tuple of tokens, or a list of any length."""
    if width < 0:
        return " ".join(line)
    tokens = [token_value(token) for token in line]
    return tokens if width == 0 else tokens[0] if width == 1 else tuple(tokens)


def rendered(values: Sequence[Any], layout: Layout) -> str:
    """Return the input that has these values."""
    left = [*values]
    rows = [*left.pop()] if layout.rows is not None else []
    lines: list[Any] = []
    for index, width in enumerate(layout.widths):
        if width > 0:
            lines.append([None if (index, place) in layout.counts else left.pop(0) for place in range(width)])
        else:
            lines.append(left.pop(0))
    for (line, place), other in layout.counts.items():
        lines[line][place] = len(rows) if other == ROWS else len(lines[other])
    return "".join(f"{line_text(line)}\n" for line in (*lines, *rows))


def line_text(line: Any) -> str:
    """Return a line as text; ValueError for a token that is empty or contains white space."""
    if not isinstance(line, list | tuple):
        line = [line] if not isinstance(line, str) else line.split(" ")
    tokens = [str(token) for token in line]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if any(not token or token.split() != [token] for token in tokens) and tokens != [""]:
        raise ValueError("a token is empty or contains white space")
    return " ".join(tokens)


def program_inputs(task: Task) -> ValueInputs | None:
    """Return the standard inputs of a task's tests; None if they have no common form that can be written again."""
    texts = {index: test.input for index, test in enumerate(task.tests) if test.kind is TestKind.STDIO and test.input.strip()}
    lines = {index: [line.split() for line in text.rstrip().split("\n")] for index, text in texts.items()}
    if not lines or any(len(text) > LONGEST for text in texts.values()):
        return None
    layout = layout_of([*lines.values()])
    bases = [(index, parsed_lines(one, layout)) for index, one in lines.items()]
    try:
        same = all(
            rendered(values, layout).split("\n")[:-1] == [" ".join(line) for line in lines[index]] for index, values in bases
        )
    except ValueError:
        same = False
    values = [one for _, one in bases]
    if not same or len({*map(len, values)}) != 1:
        return None
    return ValueInputs(bases, lambda new: rendered(new, layout), domain_of(values), TestKind.STDIO)
