"""Mutations of correct programs: mistakes that people and models make. Running a mutant shows whether it is incorrect."""

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from random import Random
from typing import TypeVar

from upsolve.worlds.composed.goal import MESSAGES, ROOMS
from upsolve.worlds.composed.programs import functions, printed

__all__ = ["KINDS", "mutated"]

S = TypeVar("S", bound=ast.stmt)
Change = Callable[[], None]
"""An in-place change of a tree."""


def mutated(code: str, kind: str, rng: Random) -> str:
    """Return a program with one random mistake of a kind; "" if the kind does not apply."""
    if kind == MALFORMED:
        return malformed(code, rng)
    tree = ast.parse(code)
    changes = [*MUTATIONS[kind](tree, rng)]
    if not changes:
        return ""
    rng.choice(changes)()
    text = printed(tree)
    return text if text != code else ""


def malformed(code: str, rng: Random) -> str:
    """Return a program with a syntax error: a line without its final colon or parenthesis."""
    lines = code.splitlines(keepends=True)
    line_number = rng.choice([number for number, line in enumerate(lines) if line.rstrip().endswith((":", ")"))])
    lines[line_number] = lines[line_number].rstrip()[:-1] + "\n"
    return "".join(lines)


def calls(tree: ast.Module, *names: str) -> Iterator[ast.Call]:
    """Yield the calls of these methods of the robot, in source order."""
    result = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and method_of(node) in names]
    yield from sorted(result, key=lambda node: (node.lineno, node.col_offset))


def method_of(node: ast.AST) -> str:
    """Return the robot's method that an expression calls; "" for other nodes."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "robot":
        return node.func.attr
    return ""


def statements(tree: ast.AST, *kinds: type[S]) -> Iterator[tuple[list[ast.stmt], int, S]]:
    """Yield the block, the place in it, and the node of each statement of these kinds inside compound statements and functions."""
    for node in ast.walk(tree):
        for part in ("body", "orelse"):
            block = getattr(node, part, None)
            if isinstance(block, list) and not isinstance(node, ast.Module):
                yield from ((block, place, one) for place, one in enumerate(block) if isinstance(one, kinds))


def setting(node: ast.AST, name: str, value: object) -> Change:
    """Return the change that sets a field of a node."""
    return lambda: setattr(node, name, value)


def replacing(block: list[ast.stmt], start: int, end: int, *new: ast.stmt) -> Change:
    """Return the change that replaces ``block[start:end]``; an empty block becomes ``pass``."""

    def change() -> None:
        block[start:end] = new
        if not block:
            block.append(ast.Pass())

    return change


def texts(tree: ast.Module, method: str) -> Iterator[ast.Constant]:
    """Yield the string constants among the arguments of the calls of a method."""
    for call in calls(tree, method):
        yield from (arg for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str))


def wrong_room(tree: ast.Module, rng: Random) -> Iterator[Change]:
    """Go to another room, if possible one that the program visits."""
    rooms = sorted({str(text.value) for text in texts(tree, "go_to")})
    for text in texts(tree, "go_to"):
        others = [room for room in rooms if room != text.value] or [room for room in ROOMS if room != text.value]
        yield setting(text, "value", rng.choice(others))


def wrong_text(words: str, rng: Random) -> str:
    """Return other words."""
    return rng.choice([words + ".", words.upper(), " ".join(words.split()[:-1]) or words + "!", rng.choice(MESSAGES)])


UNKNOWN: Mapping[str, Sequence[str]] = {
    "go_to": ("move_to", "goto", "navigate"),
    "say": ("speak", "announce", "tell"),
    "pick": ("grab", "take", "pick_up"),
    "place": ("drop", "put", "put_down"),
    "is_in_room": ("is_here", "has", "sees"),
    "get_all_rooms": ("get_rooms", "rooms", "list_rooms"),
    "ask": ("question", "ask_person"),
    "get_current_location": ("get_location", "location"),
}
"""Method -> plausible names that do not exist."""
FAILURES = ("RoomError", "AbsentError", "HandError", "ValueError", "DoorClosedError")


def negated(test: ast.expr) -> ast.expr:
    """Return the negation of a condition."""
    return test.operand if isinstance(test, ast.UnaryOp) else ast.UnaryOp(ast.Not(), test)


def one_less(tree: ast.Module, rng: Random) -> Iterator[Change]:
    """Off-by-one error in a count, or skipping the first or last item."""
    for node in ast.walk(tree):
        if isinstance(node, ast.For):
            text = ast.unparse(node.iter)
            if text.startswith("range(") and text[6:-1].isdigit():
                new = f"range({int(text[6:-1]) + rng.choice((-1, 1))})"
            elif text.startswith("range("):
                new = f"range({text[6:-1]} - 1)"
            else:
                new = f"{text}{rng.choice(('[1:]', '[:-1]'))}"
            yield setting(node, "iter", ast.parse(new, mode="eval").body)
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.GtE | ast.Lt):
            yield setting(node, "ops", [ast.Gt() if isinstance(node.ops[0], ast.GtE) else ast.LtE()])


def first_part(tree: ast.Module, _rng: Random) -> Iterator[Change]:
    """Omit the last statements."""
    (function,) = functions(tree)
    for keep in range(max(1, len(function.body) // 2), len(function.body)):
        yield replacing(function.body, keep, len(function.body))


def call_plainly(tree: ast.Module) -> None:
    """Call the robot's methods as plain functions."""
    for call in [*calls(tree, *UNKNOWN)]:
        call.func = ast.Name(method_of(call), ast.Load())


MUTATIONS: Mapping[str, Callable[[ast.Module, Random], Iterable[Change]]] = {
    # exchange person and question
    "argument_order": lambda tree, _: (
        setting(call, "args", [call.args[1], call.args[0], call.args[2]]) for call in calls(tree, "ask") if len(call.args) == 3
    ),
    "bare_calls": lambda tree, _: [lambda: call_plainly(tree)],
    "exchanged_branches": lambda tree, _: (
        setting(node, "test", negated(deepcopy(node.test)))
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and node.orelse
    ),
    "first_part": first_part,
    # omit an action
    "left_out": lambda tree, _: (
        replacing(block, place, place + 1)
        for block, place, node in statements(tree, ast.Expr)
        if method_of(node.value) in ("go_to", "pick", "place")
    ),
    # ask without options
    "missing_options": lambda tree, _: (setting(call, "args", call.args[:2]) for call in calls(tree, "ask")),
    # pass a superfluous room
    "more_arguments": lambda tree, rng: (
        setting(call, "args", [*call.args, ast.Constant(rng.choice(ROOMS))])
        for call in calls(tree, "is_in_room", "pick", "place", "say")
    ),
    # replace a condition by one of its branches
    "no_condition": lambda tree, rng: (
        replacing(block, place, place + 1, *rng.choice([part for part in (node.body, node.orelse) if part]))
        for block, place, node in statements(tree, ast.If)
    ),
    "no_end": lambda tree, _: (
        replacing(block, place, place + 1) for block, place, _node in statements(tree, ast.Break, ast.Return)
    ),
    "not_caught": lambda tree, _: (
        replacing(block, place, place + 1, *node.body, *node.orelse) for block, place, node in statements(tree, ast.Try)
    ),
    # say a number instead of a string
    "number_said": lambda tree, _: (
        setting(call, "args", inner.args)
        for call in calls(tree, "say")
        for inner in call.args[:1]
        if isinstance(inner, ast.Call) and ast.unparse(inner).startswith("str(")
    ),
    "one_less": one_less,
    # print instead of saying
    "printed_words": lambda tree, _: (setting(call, "func", ast.Name("print", ast.Load())) for call in calls(tree, "say")),
    # return in the first iteration of a loop
    "return_in_loop": lambda tree, _: (
        replacing(node.body, len(node.body), len(node.body), ast.Return(None))
        for node in ast.walk(tree)
        if isinstance(node, ast.For)
    ),
    # call a plausible method that the robot lacks
    "unknown_call": lambda tree, rng: (
        setting(call.func, "attr", rng.choice(UNKNOWN[method_of(call)])) for call in calls(tree, *UNKNOWN)
    ),
    # catch the wrong exception
    "wrong_failure": lambda tree, rng: (
        setting(node.type, "id", rng.choice(FAILURES))
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler) and isinstance(node.type, ast.Name)
    ),
    # exchange two consecutive actions
    "wrong_order": lambda tree, _: (
        replacing(block, place, place + 2, two, one)
        for block, place, one in statements(tree, ast.Expr)
        if isinstance(two := (block[place + 1 :] or [one])[0], ast.Expr) and ast.dump(one) != ast.dump(two)
    ),
    "wrong_room": wrong_room,
    "wrong_text": lambda tree, rng: (setting(text, "value", wrong_text(str(text.value), rng)) for text in texts(tree, "say")),
}
"""Kind of mistake -> generator of changes."""
MALFORMED = "malformed"
KINDS = (*MUTATIONS, MALFORMED)
"""All kinds of mistakes."""
