"""Which names of the global scope a piece of Python code reads and binds, by Python's rules of scopes."""

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

__all__ = ["Globals", "Read", "global_names", "imported", "names_bound_by"]

FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(frozen=True, slots=True)
class Read:
    """A use of a name that no inner scope binds."""

    node: ast.Name
    deferred: bool
    """True for a read in the body of a function, which is executed when the function is called."""
    unbound: bool
    """True if no statement before it binds the name in the global scope."""


@dataclass(slots=True)
class Globals:
    """Names of the global scope, in order of execution."""

    reads: list[Read] = field(default_factory=list[Read])
    bound: set[str] = field(default_factory=set[str])

    def outside(self) -> list[ast.Name]:
        """Return the reads of names that the code does not bind, or that it reads before binding them."""
        return [read.node for read in self.reads if read.node.id not in self.bound or (read.unbound and not read.deferred)]


@dataclass(slots=True)
class Scope:
    """A function, class or comprehension."""

    bound: set[str]
    declared: set[str]
    """Names declared ``global``."""
    is_class: bool = False


def global_names(trees: Iterable[ast.AST]) -> Globals:
    """Return the global names of trees that are executed one after the other in one namespace."""
    visitor = Visitor()
    for tree in trees:
        visitor.visit(tree)
    return visitor.found


class Visitor(ast.NodeVisitor):
    """Visits the parts of a tree in order of execution."""

    def __init__(self) -> None:
        self.found = Globals()
        self.scopes: list[Scope] = []
        self.functions = 0

    def is_global(self, name: str) -> bool:
        """Return whether a name in the current scope is one of the global scope."""
        for depth, scope in enumerate(reversed(self.scopes)):
            if name in scope.declared:
                return True
            if name in scope.bound and not (scope.is_class and depth):
                return False
        return True

    def bind(self, name: str) -> None:
        """Record that the current scope binds a name."""
        if self.is_global(name):
            self.found.bound.add(name)

    def visit_Name(self, node: ast.Name) -> None:
        if not self.is_global(node.id):
            return
        if isinstance(node.ctx, ast.Load):
            self.read(node)
        else:
            self.found.bound.add(node.id)

    def read(self, node: ast.Name) -> None:
        """Record that a global name is read."""
        self.found.reads.append(Read(node, self.functions > 0, node.id not in self.found.bound))

    def each(self, *parts: ast.AST | Sequence[ast.AST] | None) -> None:
        """Visit these parts in order."""
        for part in parts:
            for node in part if isinstance(part, Sequence) else [part] if part is not None else ():
                self.visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Skip a constant: tests may hold very many."""

    def visit_Assign(self, node: ast.Assign) -> None:
        self.each(node.value, node.targets)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.each(node.annotation, node.value, node.target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name) and self.is_global(node.target.id):
            self.read(node.target)
        self.each(node.value, node.target)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.each(node.value, node.target)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.each(node.iter, node.target, node.body, node.orelse)

    visit_AsyncFor = visit_For

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for name in imported(node.names):
            self.bind(name)

    visit_ImportFrom = visit_Import

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self.each(node.type)
        if node.name:
            self.bind(node.name)
        self.each(node.body)

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar | ast.MatchMapping) -> None:
        self.generic_visit(node)
        if name := pattern_name(node):
            self.bind(name)

    visit_MatchStar = visit_MatchMapping = visit_MatchAs

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        arguments = [*node.args.posonlyargs, *node.args.args, node.args.vararg, *node.args.kwonlyargs, node.args.kwarg]
        annotations = [one.annotation for one in arguments if one and one.annotation]
        self.each(node.decorator_list, node.args.defaults, [one for one in node.args.kw_defaults if one])
        self.typed(node, [*annotations, *([node.returns] if node.returns else [])])
        self.bind(node.name)
        self.function(node, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.each(node.args.defaults, [one for one in node.args.kw_defaults if one])
        self.function(node, [node.body])

    def function(self, node: FUNCTIONS, body: Sequence[ast.AST]) -> None:
        """Visit the body of a function in a scope of its own."""
        parameters = {one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)}
        self.functions += 1
        self.inside(scope_of(body, parameters), body)
        self.functions -= 1

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.each(node.decorator_list)
        self.typed(node, [*node.bases, *node.keywords])
        self.inside(scope_of(node.body, is_class=True), node.body)
        self.bind(node.name)

    def typed(self, node: ast.AST, parts: Sequence[ast.AST]) -> None:
        """Visit annotations or bases, in the scope of the type parameters of a function or class if there are any."""
        if parameters := {one.name for one in getattr(node, "type_params", ())}:
            self.inside(Scope(parameters, set()), parts)
        else:
            self.each(parts)

    def visit_ListComp(self, node: COMPREHENSIONS) -> None:
        first = node.generators[0]
        self.each(first.iter)
        bound = {part.id for each in node.generators for part in ast.walk(each.target) if isinstance(part, ast.Name)}
        rest = [part for each in node.generators[1:] for part in (each.iter, *each.ifs)]
        values = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        targets = [each.target for each in node.generators]
        self.inside(Scope(bound, set()), [*targets, *first.ifs, *rest, *values])

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp

    def inside(self, scope: Scope, parts: Sequence[ast.AST]) -> None:
        """Visit parts in an inner scope."""
        self.scopes.append(scope)
        self.each(parts)
        self.scopes.pop()


def scope_of(body: Sequence[ast.AST], parameters: Iterable[str] = (), *, is_class: bool = False) -> Scope:
    """Return the scope of a function or class with this body."""
    parts = [part for statement in body for part in own_parts(statement)]
    declared = {name for part in parts if isinstance(part, ast.Global) for name in part.names}
    outer = {name for part in parts if isinstance(part, ast.Nonlocal) for name in part.names}
    bound = {name for part in parts for name in names_bound_by(part)}
    return Scope({*parameters, *bound} - declared - outer, declared, is_class)


def own_parts(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a statement that belong to its scope; in a comprehension, only targets of ``:=``."""
    yield node
    if isinstance(node, FUNCTIONS | ast.ClassDef):
        return
    if isinstance(node, COMPREHENSIONS):
        yield from (part.target for part in ast.walk(node) if isinstance(part, ast.NamedExpr))
        return
    for child in ast.iter_child_nodes(node):
        yield from own_parts(child)


def names_bound_by(node: ast.AST) -> Iterator[str]:
    """Yield the names that a part of a tree binds in its own scope."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.arg(arg=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from imported(names)
        case ast.MatchAs() | ast.MatchStar() | ast.MatchMapping():
            if name := pattern_name(node):
                yield name
        case _:
            pass


def pattern_name(node: ast.MatchAs | ast.MatchStar | ast.MatchMapping) -> str | None:
    """Return the name that a pattern captures."""
    return node.rest if isinstance(node, ast.MatchMapping) else node.name


def imported(names: Iterable[ast.alias]) -> Iterator[str]:
    """Yield the names that an import binds."""
    for alias in names:
        yield alias.asname or alias.name.partition(".")[0]
