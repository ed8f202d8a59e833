"""Variants of a plain program: correct ones in other styles, and incorrect ones with typical mistakes of people and models.

All programs are formatted by the same printer, so that their formatting does not reveal correctness. Running a mutant shows whether it is
incorrect.
"""

import ast
import io
import json
import tokenize
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from textwrap import indent
from typing import TypeVar

from upsolve.verify.judge.domains import ENTRY_POINT
from upsolve.worlds.composed.goal import MESSAGES, ROOMS, Goal

__all__ = ["KINDS", "STYLES", "calls_of", "functions", "mutated", "plain", "printed", "restyled"]


def plain(goal: Goal) -> str:
    """Return the plain program of a goal."""
    lines = "\n".join(part for part in (goal.first, goal.code) if part)
    return printed(ast.parse(f"def {ENTRY_POINT}(robot):\n{indent(lines, '    ')}\n"))


def printed(tree: ast.Module) -> str:
    """Return the source of a program, with strings in double quotes."""
    lines = ast.unparse(ast.fix_missing_locations(tree)).splitlines(keepends=True)
    strings = [
        token for token in tokenize.generate_tokens(io.StringIO("".join(lines)).readline) if token.type == tokenize.STRING
    ]
    for token in reversed(strings):
        row, (left, right) = token.start[0] - 1, (token.start[1], token.end[1])
        text = json.dumps(ast.literal_eval(token.string), ensure_ascii=False)
        lines[row] = lines[row][:left] + text + lines[row][right:]
    return "".join(lines) + "\n"


def calls_of(code: str) -> list[str]:
    """Return the distinct names of the robot's methods that a program calls, sorted."""
    nodes = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Attribute)]
    return sorted({node.attr for node in nodes if ast.unparse(node.value) == "robot"})


def restyled(code: str, rng: Random) -> str:
    """Return a program after one to three random style changes; unchanged if none applies."""
    tree = ast.parse(code)
    chosen = rng.sample([*STYLES], rng.randint(1, 3))
    for name in sorted(chosen, key=[*STYLES].index):
        tree = STYLES[name](tree)
    return printed(tree)


VARIABLES = {
    "room": "place",
    "answer": "reply",
    "count": "total",
    "votes": "yes_votes",
    "name": "person",
    "thing": "item",
    "found": "where",
    "start": "first_room",
}
"""Variable of plain programs -> replacement."""


def renamed(tree: ast.Module) -> ast.Module:
    """Rename variables."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = VARIABLES.get(node.id, node.id)
    return tree


def inverted(tree: ast.Module) -> ast.Module:
    """Invert conditions that have two branches, and exchange the branches."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and node.orelse:
            node.test, node.body, node.orelse = opposite(node.test), node.orelse, node.body
    return tree


def opposite(test: ast.expr) -> ast.expr:
    """Return the negation of a condition."""
    if isinstance(test, ast.Compare) and type(test.ops[0]) in OPPOSITES:
        return ast.Compare(test.left, [OPPOSITES[type(test.ops[0])]()], test.comparators)
    return ast.UnaryOp(ast.Not(), test)


OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.GtE: ast.Lt, ast.Lt: ast.GtE}


class Named(ast.NodeTransformer):
    """Assigns conditions and lists of rooms to variables."""

    def __init__(self) -> None:
        self.used = 0

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        """Assign the robot's answer in a condition to a variable."""
        self.generic_visit(node)
        if not isinstance(node.test, ast.Call):
            return node
        self.used += 1
        name = "is_here" if self.used == 1 else f"is_here_{self.used}"
        return [assign(name, node.test), ast.If(ast.Name(name, ast.Load()), node.body, node.orelse)]

    def visit_For(self, node: ast.For) -> ast.AST | list[ast.stmt]:
        """Assign the iterable of a loop to a variable."""
        self.generic_visit(node)
        if ast.unparse(node.iter) != "robot.get_all_rooms()":
            return node
        return [assign("rooms", node.iter), ast.For(node.target, ast.Name("rooms", ast.Load()), node.body, node.orelse)]


class Indexed(ast.NodeTransformer):
    """Replaces loops over lists by loops over indices."""

    def visit_For(self, node: ast.For) -> ast.AST | list[ast.stmt]:
        """Iterate over the indices of a list."""
        self.generic_visit(node)
        if isinstance(node.iter, ast.Call) and ast.unparse(node.iter.func) == "range":
            return node
        items = {"room": "rooms", "name": "people", "thing": "things"}.get(ast.unparse(node.target), "items")
        take = ast.parse(f"{ast.unparse(node.target)} = {items}[i]").body
        numbers: ast.expr = ast.parse(f"range(len({items}))", mode="eval").body
        return [assign(items, node.iter), ast.For(ast.Name("i", ast.Store()), numbers, [*take, *node.body], node.orelse)]


def early(tree: ast.Module) -> ast.Module:
    """Return from the first branch of a final condition, instead of ``else``."""
    (function,) = functions(tree)
    last = function.body[-1]
    if isinstance(last, ast.If) and last.orelse:
        function.body[-1:] = [ast.If(last.test, [*last.body, ast.Return(None)], []), *last.orelse]
    return tree


def tuples(tree: ast.Module) -> ast.Module:
    """Iterate over tuples instead of lists."""
    for node in ast.walk(tree):
        if isinstance(node, ast.For) and isinstance(node.iter, ast.List):
            node.iter = ast.Tuple(node.iter.elts, ast.Load())
    return tree


@dataclass(frozen=True, slots=True)
class Helper:
    """A helper function for a repeated sequence of actions."""

    name: str
    """Name of the function."""
    params: tuple[str, ...]
    """Parameters of the function."""
    actions: tuple[tuple[str, str], ...]
    """Actions of the function, each with the parameter that is its argument."""

    def calls(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Return a block in which calls of the function replace its actions."""
        result: list[ast.stmt] = []
        while body:
            run, rest = body[: len(self.actions)], body[len(self.actions) :]
            if [done(node)[0] for node in run] == [action for action, _ in self.actions]:
                arguments = {word: done(node)[1] for node, (_, word) in zip(run, self.actions, strict=True)}
                result += ast.parse(f"{self.name}({', '.join(arguments[word] for word in self.params)})").body
                body = rest
            else:
                result, body = [*result, body[0]], body[1:]
        return result

    @property
    def code(self) -> str:
        """Return the source of the function."""
        lines = "".join(f"    robot.{action}({word})\n" for action, word in self.actions)
        return f"def {self.name}({', '.join(self.params)}):\n{lines}"


HELPERS = (
    Helper(
        "carry",
        ("thing", "source", "target"),
        (("go_to", "source"), ("pick", "thing"), ("go_to", "target"), ("place", "thing")),
    ),
    Helper("say_in", ("room", "text"), (("go_to", "room"), ("say", "text"))),
)


def helpers(tree: ast.Module) -> ast.Module:
    """Extract repeated carrying, and saying in rooms, into helper functions."""
    (function,) = functions(tree)
    definitions: list[ast.stmt] = []
    for helper in HELPERS:
        body = everywhere(deepcopy(function.body), helper.calls)
        used = [node for part in body for node in ast.walk(part) if isinstance(node, ast.Name) and node.id == helper.name]
        if len(used) > 1:
            function.body = body
            definitions += ast.parse(helper.code).body
    function.body = [*definitions, *function.body]
    return tree


def done(node: ast.stmt) -> tuple[str, str]:
    """Return action and argument of a statement ``robot.action(argument)``; empty strings for other statements."""
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and len(call.args) == 1:
        return call.func.attr, ast.unparse(call.args[0])
    return "", ""


def everywhere(body: list[ast.stmt], change: Callable[[list[ast.stmt]], list[ast.stmt]]) -> list[ast.stmt]:
    """Apply a change to a block and to all nested blocks."""
    for node in body:
        for part in ("body", "orelse"):
            inner: list[ast.stmt] = getattr(node, part, [])
            if inner:
                setattr(node, part, everywhere(inner, change))
        for handler in getattr(node, "handlers", []):
            handler.body = everywhere(handler.body, change)
    return change(body)


def functions(tree: ast.Module) -> list[ast.FunctionDef]:
    """Return the top-level functions of a program."""
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


def assign(name: str, value: ast.expr) -> ast.stmt:
    """Return ``name = value``."""
    return ast.Assign([ast.Name(name, ast.Store())], value)


STYLES: Mapping[str, Callable[[ast.Module], ast.Module]] = {
    "tuples": tuples,
    "indexed": lambda tree: Indexed().visit(tree),
    "named": lambda tree: Named().visit(tree),
    "inverted": inverted,
    "early": early,
    "renamed": renamed,
    "helpers": helpers,
}
"""Style -> transformation, in order of application; it may leave a program unchanged."""


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
    """Go to another room, preferably a room that the program visits."""
    rooms = sorted({str(text.value) for text in texts(tree, "go_to")})
    for text in texts(tree, "go_to"):
        others = [room for room in rooms if room != text.value] or [room for room in ROOMS if room != text.value]
        yield setting(text, "value", rng.choice(others))


def wrong_text(words: str, rng: Random) -> str:
    """Replace a text by other words."""
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
    """Make an off-by-one error in a count, or skip the first or last item."""
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
