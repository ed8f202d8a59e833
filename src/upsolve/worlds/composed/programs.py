"""Correct variants of a plain program: the same actions in other programming styles.

All programs, correct and incorrect, are formatted by the same printer, so that their formatting does not reveal correctness.
"""

import ast
import io
import json
import tokenize
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from textwrap import indent

from upsolve.verify.judge.domains import ENTRY_POINT
from upsolve.worlds.composed.goal import Goal

__all__ = ["STYLES", "calls_of", "functions", "plain", "printed", "restyled"]


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
    """Invert conditions that have two branches, and exchange these."""
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
