"""Mutations of correct programs: mistakes that people and models make. Running a mutant shows whether it is incorrect."""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from random import Random

from upsolve.worlds.composed.goal import MESSAGES, ROOMS
from upsolve.worlds.composed.programs import functions, printed

__all__ = ["KINDS", "mutated"]

Places = Iterator[Callable[[], None]]
"""Possible in-place changes of a tree, of which one is chosen."""


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


def method_of(node: ast.expr) -> str:
    """Return the robot's method that an expression calls; "" for other expressions."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "robot":
        return node.func.attr
    return ""


def blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield all statement lists inside compound statements and functions."""
    for node in ast.walk(tree):
        for part in ("body", "orelse"):
            block = getattr(node, part, None)
            if isinstance(block, list) and not isinstance(node, ast.Module):
                yield block


def setting(node: ast.AST, name: str, value: object) -> Callable[[], None]:
    """Return the change that sets a field of a node."""
    return lambda: setattr(node, name, value)


def replacing(block: list[ast.stmt], start: int, end: int, *new: ast.stmt) -> Callable[[], None]:
    """Return the change that replaces ``block[start:end]``; an empty block becomes ``pass``."""

    def change() -> None:
        block[start:end] = new
        if not block:
            block.append(ast.Pass())

    return change


def texts(call: ast.Call) -> list[ast.Constant]:
    """Return the string constants among the arguments of a call."""
    return [arg for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]


def wrong_room(tree: ast.Module, rng: Random) -> Places:
    """Go to another room, if possible one that the program visits."""
    rooms = sorted({str(text.value) for call in calls(tree, "go_to") for text in texts(call)})
    for call in calls(tree, "go_to"):
        for text in texts(call):
            others = [room for room in rooms if room != text.value] or [room for room in ROOMS if room != text.value]
            yield setting(text, "value", rng.choice(others))


def wrong_text(tree: ast.Module, rng: Random) -> Places:
    """Say something else."""
    for call in calls(tree, "say"):
        for text in texts(call):
            words = str(text.value)
            wrong = rng.choice([words + ".", words.upper(), " ".join(words.split()[:-1]) or words + "!", rng.choice(MESSAGES)])
            yield setting(text, "value", wrong)


def number_said(tree: ast.Module, _rng: Random) -> Places:
    """Pass a number instead of a string to ``say``."""
    for call in calls(tree, "say"):
        if call.args and ast.unparse(call.args[0]).startswith("str("):
            inner = call.args[0]
            assert isinstance(inner, ast.Call)
            yield setting(call, "args", inner.args)


def printed_words(tree: ast.Module, _rng: Random) -> Places:
    """Call ``print`` instead of ``say``."""
    for call in calls(tree, "say"):
        yield setting(call, "func", ast.Name("print", ast.Load()))


def unknown_call(tree: ast.Module, rng: Random) -> Places:
    """Call a plausible method that the robot lacks."""
    for call in calls(tree, *UNKNOWN):
        assert isinstance(call.func, ast.Attribute)
        yield setting(call.func, "attr", rng.choice(UNKNOWN[call.func.attr]))


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


def argument_order(tree: ast.Module, _rng: Random) -> Places:
    """Exchange person and question of ``ask``."""
    for call in calls(tree, "ask"):
        if len(call.args) == 3:
            yield setting(call, "args", [call.args[1], call.args[0], call.args[2]])


def missing_options(tree: ast.Module, _rng: Random) -> Places:
    """Call ``ask`` without options."""
    for call in calls(tree, "ask"):
        yield setting(call, "args", call.args[:2])


def more_arguments(tree: ast.Module, rng: Random) -> Places:
    """Pass a superfluous room as an additional argument."""
    for call in calls(tree, "is_in_room", "pick", "place", "say"):
        yield setting(call, "args", [*call.args, ast.Constant(rng.choice(ROOMS))])


def left_out(tree: ast.Module, _rng: Random) -> Places:
    """Omit an action."""
    for block in blocks(tree):
        for place, node in enumerate(block):
            if isinstance(node, ast.Expr) and method_of(node.value) in ("go_to", "pick", "place"):
                yield replacing(block, place, place + 1)


def wrong_order(tree: ast.Module, _rng: Random) -> Places:
    """Exchange two consecutive actions."""
    for block in blocks(tree):
        for place in range(len(block) - 1):
            one, two = block[place : place + 2]
            if isinstance(one, ast.Expr) and isinstance(two, ast.Expr) and ast.dump(one) != ast.dump(two):
                yield replacing(block, place, place + 2, two, one)


def no_condition(tree: ast.Module, rng: Random) -> Places:
    """Replace a condition by one of its branches."""
    for block in blocks(tree):
        for place, node in enumerate(block):
            if isinstance(node, ast.If):
                yield replacing(block, place, place + 1, *rng.choice([part for part in (node.body, node.orelse) if part]))


def exchanged_branches(tree: ast.Module, _rng: Random) -> Places:
    """Exchange the branches of a condition."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and node.orelse:
            test = deepcopy(node.test)
            yield setting(node, "test", test.operand if isinstance(test, ast.UnaryOp) else ast.UnaryOp(ast.Not(), test))


def not_caught(tree: ast.Module, _rng: Random) -> Places:
    """Do not catch a failure."""
    for block in blocks(tree):
        for place, node in enumerate(block):
            if isinstance(node, ast.Try):
                yield replacing(block, place, place + 1, *node.body, *node.orelse)


def wrong_failure(tree: ast.Module, rng: Random) -> Places:
    """Catch the wrong exception."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and isinstance(node.type, ast.Name):
            others = ("RoomError", "AbsentError", "HandError", "ValueError", "DoorClosedError")
            yield setting(node.type, "id", rng.choice(others))


def no_end(tree: ast.Module, _rng: Random) -> Places:
    """Omit a ``break`` or ``return``."""
    for block in blocks(tree):
        for place, node in enumerate(block):
            if isinstance(node, ast.Break | ast.Return):
                yield replacing(block, place, place + 1)


def one_less(tree: ast.Module, rng: Random) -> Places:
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


def first_part(tree: ast.Module, _rng: Random) -> Places:
    """Omit the last statements."""
    (function,) = functions(tree)
    for keep in range(max(1, len(function.body) // 2), len(function.body)):
        yield replacing(function.body, keep, len(function.body))


def return_in_loop(tree: ast.Module, _rng: Random) -> Places:
    """Return in the first iteration of a loop."""
    for node in ast.walk(tree):
        if isinstance(node, ast.For):
            yield replacing(node.body, len(node.body), len(node.body), ast.Return(None))


def bare_calls(tree: ast.Module, _rng: Random) -> Places:
    """Call the robot's methods as plain functions."""

    def change() -> None:
        for call in [*calls(tree, *UNKNOWN)]:
            assert isinstance(call.func, ast.Attribute)
            call.func = ast.Name(call.func.attr, ast.Load())

    yield change


MUTATIONS: Mapping[str, Callable[[ast.Module, Random], Places]] = {
    "argument_order": argument_order,
    "bare_calls": bare_calls,
    "exchanged_branches": exchanged_branches,
    "first_part": first_part,
    "left_out": left_out,
    "missing_options": missing_options,
    "more_arguments": more_arguments,
    "no_condition": no_condition,
    "no_end": no_end,
    "not_caught": not_caught,
    "number_said": number_said,
    "one_less": one_less,
    "printed_words": printed_words,
    "return_in_loop": return_in_loop,
    "unknown_call": unknown_call,
    "wrong_failure": wrong_failure,
    "wrong_order": wrong_order,
    "wrong_room": wrong_room,
    "wrong_text": wrong_text,
}
"""Kind of mistake -> generator of changes."""
MALFORMED = "malformed"
KINDS = (*MUTATIONS, MALFORMED)
"""All kinds of mistakes."""
