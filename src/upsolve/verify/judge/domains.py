"""Interface of a domain, parsed from its Python file without running it.

class DoorError(Exception): ...      a failure that programs can catch by name
ACTIONS = ("go_to", ...)             methods that programs can call
class World:                         its docstring describes the world in prompts
    def __init__(self, initial: dict[str, Any]) -> None     plain data, from a task
    def go_to(self, room: str) -> None                      docstring for prompts; types str, int, float, bool, lists of these
    def state(self) -> dict[str, Any]                       plain data for checks
    def points(self) -> float                               share of points, [0, 1], of a program that fails a check; may be missing
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType

__all__ = ["ENTRY_POINT", "Action", "Domain", "domain_of"]

ENTRY_POINT = "run"
"""Name of the function that a program must define."""
PLAIN = ("str", "int", "float", "bool")
TYPES = (*PLAIN, *(f"list[{name}]" for name in PLAIN))


@dataclass(frozen=True, slots=True)
class Action:
    """A method of the world that programs can call."""

    name: str
    """Name of the method."""
    params: Mapping[str, str]
    """Parameter -> type."""
    answer: str
    """Return type."""
    about: str
    """Docstring, in one line."""


@dataclass(frozen=True, slots=True)
class Domain:
    """A simulated environment: its world, actions and failures."""

    code: CodeType
    """Compiled world.py; runs only in the tester's process."""
    about: str
    """Docstring of ``World``, in one line, for prompts."""
    actions: tuple[Action, ...]
    """Actions, in the order of ACTIONS."""
    failures: tuple[str, ...]
    """Names of the domain's exceptions."""

    @property
    def arities(self) -> dict[str, int]:
        """Return action -> number of arguments."""
        return {action.name: len(action.params) for action in self.actions}

    @property
    def types(self) -> dict[str, list[str]]:
        """Return action -> types of its arguments."""
        return {action.name: [*action.params.values()] for action in self.actions}

    def stubs(self) -> str:
        """Return the source of the world's stubs in the attempt's process; ``_act`` sends an action and returns its answer."""
        lines = [f"class {name}(Exception):\n    pass\n" for name in self.failures]
        lines += [f"_FAILURES = {{{', '.join(f'{name!r}: {name}' for name in self.failures)}}}\n"]
        lines += ["class _Actions:"]
        for action in self.actions:
            params = "".join(f", {name}" for name in action.params)
            lines += [f"    def {action.name}(self{params}):\n        return _do('{action.name}'{params})"]
        return "\n".join([*lines, DO])

    def described(self, name: str) -> str:
        """Return the description of the domain for prompts; ``name``: variable of the world."""
        lines = [f"{self.about}\n\nMethods of `{name}`:"]
        for action in self.actions:
            params = ", ".join(f"{param}: {kind}" for param, kind in action.params.items())
            lines += [f"- `{action.name}({params}) -> {action.answer}`: {action.about}"]
        caught = f"\n{', '.join(self.failures)} can be caught by these names; nothing has to be imported."
        return "\n".join([*lines, *([caught] if self.failures else [])])


DO = """
def _do(name, *args):
    failure, answer = _act(name, *args)
    if failure:
        raise _FAILURES.get(failure, TypeError)(answer)
    return answer
"""


@lru_cache(maxsize=16)
def domain_of(source: str) -> Domain:
    """Parse a domain's Python file.

    Raises:
        ValueError: the file does not parse, or World, ACTIONS, an action or a docstring is missing or invalid; says which.
    """
    try:
        tree = ast.parse(source)
        code = compile(source, "<world>", "exec", dont_inherit=True)
    except (SyntaxError, RecursionError) as error:
        raise ValueError(f"the file is not valid Python: {error}") from error
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    if "World" not in classes:
        raise ValueError("class World is missing; define it (docs/simulators.md)")
    methods = {node.name: node for node in classes["World"].body if isinstance(node, ast.FunctionDef)}
    for name in ("__init__", "state"):
        if name not in methods:
            raise ValueError(f"World has no method {name}; define it (docs/simulators.md)")
    description = ast.get_docstring(classes["World"])
    if not description:
        raise ValueError("World has no docstring; add one that describes the world in prompts")
    actions = tuple(action_of(name, methods) for name in names_of_actions(tree))
    failures = tuple(name for name, node in classes.items() if "Exception" in map(ast.unparse, node.bases))
    return Domain(code, " ".join(description.split()), actions, failures)


def names_of_actions(tree: ast.Module) -> Iterator[str]:
    """Yield the names in ACTIONS; raise ValueError if invalid."""
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    values = [node.value for node in assigned if [ast.unparse(target) for target in node.targets] == ["ACTIONS"]]
    if len(values) != 1:
        raise ValueError(f"ACTIONS is set {len(values)} times; set it once, to a tuple such as ('go_to',)")
    try:
        names = ast.literal_eval(values[0])
    except ValueError:
        names = None
    if not isinstance(names, tuple) or not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"ACTIONS is {ast.unparse(values[0])}; it must be a tuple of method names such as ('go_to',)")
    yield from names


def action_of(name: str, methods: Mapping[str, ast.FunctionDef]) -> Action:
    """Return the action that a method describes; ValueError if its signature or docstring is invalid."""
    if name not in methods or name.startswith("_"):
        raise ValueError(f"World has no public method {name!r}, which ACTIONS lists; define it, or remove it from ACTIONS")
    node = methods[name]
    description, rest = ast.get_docstring(node), node.args
    if not description:
        raise ValueError(f"World.{name} has no docstring; add one that describes the action in prompts")
    if rest.posonlyargs or rest.kwonlyargs or rest.vararg or rest.kwarg or rest.defaults or not rest.args:
        raise ValueError(f"World.{name}({ast.unparse(rest)}): an action takes self and positional arguments without defaults")
    params = {arg.arg: ast.unparse(arg.annotation) if arg.annotation else "" for arg in rest.args[1:]}
    if odd := [param for param, kind in params.items() if kind not in TYPES]:
        raise ValueError(
            f"World.{name}: the type of {odd[0]} must be one of {', '.join(TYPES)}; got {params[odd[0]] or 'none'}"
        )
    return Action(name, params, ast.unparse(node.returns) if node.returns else "None", " ".join(description.split()))
