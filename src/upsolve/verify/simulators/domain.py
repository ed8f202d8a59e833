"""What a domain's Python file says of itself, read without running it.

class DoorError(Exception): ...      a failure that programs may catch by its name
ACTIONS = ("go_to", ...)             methods that a program can call
class World:                         its docstring tells the program's author about the world
    def __init__(self, initial: dict[str, Any]) -> None     plain data, from a task
    def go_to(self, room: str) -> None                      a docstring for the author; str, int, float, bool, list of these
    def state(self) -> dict[str, Any]                       plain data that checks look at
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType

__all__ = ["ENTRY_POINT", "Action", "Domain", "domain_of"]

ENTRY_POINT = "run"
"""Name of the function that a program defines."""
PLAIN = ("str", "int", "float", "bool")
TYPES = (*PLAIN, *(f"list[{name}]" for name in PLAIN))


@dataclass(frozen=True, slots=True)
class Action:
    """Something that a program can do."""

    name: str
    """Of the method."""
    params: Mapping[str, str]
    """Its arguments with their types."""
    answer: str
    """Type of what it gives."""
    about: str
    """Its docstring, in one line."""


@dataclass(frozen=True, slots=True)
class Domain:
    """A kind of world."""

    code: CodeType
    """Its file, compiled; it runs in the tester's process only."""
    about: str
    """What its author says of it to the author of a program."""
    actions: tuple[Action, ...]
    """In the order of ACTIONS."""
    failures: tuple[str, ...]
    """Names of its exceptions."""

    @property
    def arities(self) -> dict[str, int]:
        """Return the number of arguments of every action."""
        return {action.name: len(action.params) for action in self.actions}

    @property
    def types(self) -> dict[str, list[str]]:
        """Return the types of the arguments of every action."""
        return {action.name: [*action.params.values()] for action in self.actions}

    def stubs(self) -> str:
        """Return the Python that stands for the world in the attempt's process: ``_act`` sends an action and gets its answer."""
        lines = [f"class {name}(Exception):\n    pass\n" for name in self.failures]
        lines += [f"_FAILURES = {{{', '.join(f'{name!r}: {name}' for name in self.failures)}}}\n"]
        lines += ["class _Actions:"]
        for action in self.actions:
            params = "".join(f", {name}" for name in action.params)
            lines += [f"    def {action.name}(self{params}):\n        return _do('{action.name}'{params})"]
        return "\n".join([*lines, DO])

    def described(self, name: str) -> str:
        """Return what the author of a program must know, in words."""
        lines = [f"{self.about}\n\nMethods of `{name}`:"]
        for action in self.actions:
            params = ", ".join(f"{param}: {kind}" for param, kind in action.params.items())
            lines += [f"- `{action.name}({params}) -> {action.answer}`: {action.about}"]
        lines += (
            [f"\n{', '.join(self.failures)} can be caught by these names; nothing has to be imported."] if self.failures else []
        )
        return "\n".join(lines)


DO = """
def _do(name, *args):
    failure, answer = _act(name, *args)
    if failure:
        raise _FAILURES.get(failure, TypeError)(answer)
    return answer
"""


@lru_cache(maxsize=16)
def domain_of(source: str) -> Domain:
    """Read a domain's Python.

    Raises:
        ValueError: it does not parse, or World, ACTIONS, an action or a docstring is missing or not as it must be; says which.
    """
    try:
        tree = ast.parse(source)
        code = compile(source, "<world>", "exec", dont_inherit=True)
    except (SyntaxError, RecursionError) as error:
        raise ValueError(f"it is no Python: {error}") from error
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    if "World" not in classes:
        raise ValueError("it has no class World")
    methods = {node.name: node for node in classes["World"].body if isinstance(node, ast.FunctionDef)}
    for name in ("__init__", "state"):
        if name not in methods:
            raise ValueError(f"World has no method {name}")
    about = ast.get_docstring(classes["World"])
    if not about:
        raise ValueError("World has no docstring")
    actions = tuple(action_of(name, methods) for name in names_of_actions(tree))
    failures = tuple(name for name, node in classes.items() if "Exception" in map(ast.unparse, node.bases))
    return Domain(code, " ".join(about.split()), actions, failures)


def names_of_actions(tree: ast.Module) -> Iterator[str]:
    """Yield the names in ACTIONS."""
    values = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and [ast.unparse(t) for t in node.targets] == ["ACTIONS"]
    ]
    try:
        (names,) = map(ast.literal_eval, values)
    except ValueError:
        raise ValueError("ACTIONS must be set once, to a tuple of names") from None
    if not isinstance(names, tuple) or not names or not all(isinstance(name, str) for name in names):
        raise ValueError("ACTIONS must be a tuple of names")
    yield from names


def action_of(name: str, methods: Mapping[str, ast.FunctionDef]) -> Action:
    """Return an action as its method describes it."""
    if name not in methods or name.startswith("_"):
        raise ValueError(f"World has no method {name}, which ACTIONS names")
    node = methods[name]
    about, rest = ast.get_docstring(node), node.args
    if not about:
        raise ValueError(f"World.{name} has no docstring")
    if rest.posonlyargs or rest.kwonlyargs or rest.vararg or rest.kwarg or rest.defaults or not rest.args:
        raise ValueError(f"World.{name}: actions take plain arguments without defaults")
    params = {arg.arg: ast.unparse(arg.annotation) if arg.annotation else "" for arg in rest.args[1:]}
    if odd := [param for param, kind in params.items() if kind not in TYPES]:
        raise ValueError(f"World.{name}: {odd[0]} must be one of {', '.join(TYPES)}")
    return Action(name, params, ast.unparse(node.returns) if node.returns else "None", " ".join(about.split()))
