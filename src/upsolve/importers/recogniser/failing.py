"""Whether a test can fail: an assertion, and something of the attempt that decides it."""

import ast
import operator
import re
import symtable
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from upsolve.importers.recogniser.asserts import BUILTINS, Names, constant, names_bound, walk
from upsolve.types import TestCase

__all__ = ["About", "Found", "asserts", "names_in", "touches"]

ASSERTING = re.compile(r"_*(?:assert|fail|expect|verify|check|should|raises|exit$)", re.IGNORECASE)
"""How names of functions begin whose calls are assertions: ``self.assertEqual``, ``np.testing.assert_allclose``, ``pytest.raises``."""
DYNAMIC = frozenset("eval exec globals locals vars getattr __import__ compile open input".split())  # noqa: SIM905
"""Builtins by which a test may reach the attempt without naming it."""
SCOPES = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp),
    *(ast.GeneratorExp, ast.MatchAs, ast.MatchStar, ast.MatchMapping),
)
"""Parts of code with names of their own, or that bind names otherwise than by assignment."""
PLAIN = frozenset(
    {ast.Module, ast.Assert, ast.Expr, ast.Compare, ast.Call, ast.Name, ast.Load, ast.Constant, ast.Attribute, ast.keyword}
    | {ast.List, ast.Tuple, ast.Dict, ast.Set, ast.UnaryOp, ast.BinOp, ast.BoolOp}
    | {*ast.cmpop.__subclasses__(), *ast.unaryop.__subclasses__(), *ast.operator.__subclasses__(), *ast.boolop.__subclasses__()}
)
"""Parts of code that bind no name."""
CATCHING = frozenset({"AssertionError", "Exception", "BaseException"})
COMPARE: dict[type[ast.cmpop], Any] = {
    ast.Eq: operator.eq,
    ast.Is: operator.eq,
    ast.NotEq: operator.ne,
    ast.IsNot: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
EQUAL = (ast.Eq, ast.Is, ast.LtE, ast.GtE)
"""Comparisons of a value with itself that are true."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


def is_vacuous(test: ast.expr) -> bool:
    """Return whether a condition is true whatever the attempt does: ``True``, ``(f(1) == 2, "message")``, ``f(1) or True``."""
    match test:
        case ast.Constant(value=value):
            return bool(value)
        case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
            return bool(items)
        case ast.Dict(keys=keys):
            return bool(keys)
        case ast.Lambda() | ast.GeneratorExp():
            return True
        case ast.BoolOp(op=ast.Or(), values=values):
            return any(map(is_vacuous, values))
        case ast.BoolOp(op=ast.And(), values=values):
            return all(map(is_vacuous, values))
        case ast.UnaryOp(op=ast.Not(), operand=ast.Constant(value=value)):
            return not value
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, ast.Name(id="object")]):
            return True
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return is_true(left, op, right)
        case _:
            return False


def is_true(left: ast.expr, op: ast.cmpop, right: ast.expr) -> bool:
    """Return whether a comparison is true whatever the attempt does: ``1 == 1``, ``x == x``, ``len(x) >= 0``."""
    if isinstance(left, ast.Call) and isinstance(op, ast.GtE):
        return ast.unparse(left.func) == "len" and ast.unparse(right) == "0"
    if isinstance(left, ast.Name) and isinstance(right, ast.Name):
        return left.id == right.id and isinstance(op, EQUAL)
    values = [
        constant(one) if isinstance(one, ast.Constant | ast.BinOp | ast.List | ast.Tuple) else None for one in (left, right)
    ]
    if None in values or type(op) not in COMPARE:
        return False
    try:
        return bool(COMPARE[type(op)](*(ast.literal_eval(str(value)) for value in values)))
    except TypeError:
        return False


def is_vacuous_call(name: str, args: Sequence[ast.expr]) -> bool:
    """Return whether an assertion by a call is true whatever the attempt does: ``assertTrue(True)``, ``assertEqual(1, 1)``."""
    if name in ("assertTrue", "assert_", "assertIsNotNone") and args:
        return is_vacuous(args[0])
    return name in ("assertEqual", "assertEquals", "assertIs") and len(args) > 1 and is_true(args[0], ast.Eq(), args[1])


def asserts(node: ast.AST, helpers: Collection[str] = (), local: Collection[str] = ()) -> bool:
    """Return whether code raises if something is wrong: an assertion that can fail, ``raise``, or a call of an asserting function.

    Args:
        node: the code.
        helpers: names of functions of the tests that assert.
        local: names of all functions of the tests, whose names do not say whether they assert.
    """
    match node:
        case ast.Assert(test=test):
            return not is_vacuous(test)
        case ast.Raise():
            return True
        case ast.Call(func=ast.Name(id=name), args=args) | ast.Call(func=ast.Attribute(attr=name), args=args) if (
            name in helpers or (name not in local and ASSERTING.match(name))
        ) and not is_vacuous_call(name, args):
            return True
        case ast.If(test=ast.Constant(value=value), body=body, orelse=orelse):
            return any_asserts(body if value else orelse, helpers, local)
        case ast.For(iter=ast.List(elts=[]) | ast.Tuple(elts=[]), orelse=orelse):
            return any_asserts(orelse, helpers, local)
        case ast.With(items=items) if any(map(suppresses, items)):
            return False
        case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=finalbody):
            swallowed = any(catches(handler) and not any_asserts(handler.body, helpers, local) for handler in handlers)
            rest = [*orelse, *finalbody, *(part for handler in handlers if not swallowed for part in handler.body)]
            return any_asserts(rest, helpers, local) or (not swallowed and any_asserts(body, helpers, local))
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return any_asserts(executed(node), helpers, local)
        case _:
            return any_asserts(ast.iter_child_nodes(node), helpers, local)


def any_asserts(nodes: Iterable[ast.AST], helpers: Collection[str], local: Collection[str]) -> bool:
    """Return whether one of several parts asserts."""
    return any(asserts(node, helpers, local) for node in nodes)


def executed(node: Function) -> Iterator[ast.stmt]:
    """Yield the statements of a function up to a return, without functions in it that nothing reads."""
    read = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    for part in node.body:
        if not isinstance(part, Function) or part.name in read or part.decorator_list:
            yield part
        if isinstance(part, ast.Return):
            return


def suppresses(item: ast.withitem) -> bool:
    """Return whether a context swallows a failed assertion: ``suppress(Exception)``."""
    call = item.context_expr
    return (
        isinstance(call, ast.Call)
        and ast.unparse(call.func).rpartition(".")[2] == "suppress"
        and any(isinstance(one, ast.Name) and one.id in CATCHING for one in call.args)
    )


def catches(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler catches a failed assertion."""
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(one is None or (isinstance(one, ast.Name) and one.id in CATCHING) for one in caught)


def names_in(node: ast.AST | str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names that code binds at its top level, and the global names that it reads, in it and in what it defines; ``*`` for ``import *``."""
    nodes = list(walk(ast.parse(node) if isinstance(node, str) else node))
    kinds = {*map(type, nodes)}
    if kinds <= PLAIN:
        return frozenset(), frozenset(part.id for part in nodes if type(part) is ast.Name)
    binds = {"*" for part in nodes if isinstance(part, ast.ImportFrom) and part.names[0].name == "*"}
    reads = {part.target.id for part in nodes if isinstance(part, ast.AugAssign) and isinstance(part.target, ast.Name)}
    if kinds.isdisjoint(SCOPES):
        return frozenset(binds | bound_in(nodes)), frozenset(reads | read_in(nodes))
    text = node if isinstance(node, str) else ast.unparse(node)
    try:
        top = symtable.symtable(text, "<tests>", "exec")
    except SyntaxError:  # a return outside of a function, and the like
        return frozenset(binds | bound_in(nodes)), frozenset(reads | read_in(nodes))
    binds |= {symbol.get_name() for symbol in top.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    reads |= {symbol.get_name() for symbol in top.get_symbols() if symbol.is_referenced()}
    waiting = [*top.get_children()]
    while waiting:
        table = waiting.pop()
        waiting += table.get_children()
        reads |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
    return frozenset(binds), frozenset(reads)


def bound_in(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that parts of one scope bind."""
    found = set[str]()
    for part in nodes:
        if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load):
            found.add(part.id)
        elif isinstance(part, ast.alias):
            found.add(part.asname or part.name.partition(".")[0])
        elif isinstance(part, ast.ExceptHandler) and part.name:
            found.add(part.name)
    return found


def read_in(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that parts of one scope read."""
    return {part.id for part in nodes if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}


def touches(reads: Collection[str], bound: Collection[str], own: Collection[str], called: Collection[str] = ()) -> bool:
    """Return whether a test that reads some names reaches the attempt.

    Args:
        reads: names that it reads, also in the functions that it uses.
        bound: names that the tests and their setup bind.
        own: functions that the attempt must define.
        called: builtins that it calls to decide, which may be functions of the attempt where ``own`` is empty (``sum``).
    """
    free = {name for name in reads if name not in bound and name not in BUILTINS}
    needed = {*own} - {*bound}
    return bool(free or DYNAMIC & {*reads} or needed & {*reads} or (not own and called) or "*" in bound)


@dataclass(frozen=True, slots=True)
class About:
    """What is known of the task of some tests."""

    entry_point: str = ""
    """Function that the tests call, or an expression such as ``Solution().add``; empty if unknown."""
    setup: str = ""
    """The task's setup."""
    language: str = "python"
    """Language of the attempts."""
    codes: tuple[str, ...] = ()
    """Code to start from, and programs: the first that is not empty shows whether the function is a method of ``Solution``."""
    hidden: bool = False
    """Whether a prompt may not show asserts."""
    lenient: bool = False
    """Whether a call that only must not raise is a test, as in upsolve's own files, where each test says its kind."""

    @property
    def own(self) -> frozenset[str]:
        """Names that the attempt must define."""
        return names_of(self.entry_point, "").own

    @property
    def names(self) -> Names:
        """Names that tests may use."""
        return names_of(self.entry_point, self.setup)


@lru_cache(maxsize=64)
def names_of(entry_point: str, setup: str) -> Names:
    """Return the names in the entry point, which the attempt defines, and those that the setup binds."""
    try:
        own = names_in(entry_point)[1]
    except (SyntaxError, ValueError, RecursionError):
        own = frozenset({entry_point})
    return Names(own, names_bound(setup))


@dataclass(frozen=True, slots=True)
class Found:
    """Tests that were found, and those that cannot fail."""

    tests: tuple[TestCase, ...]
    entry_point: str = ""
    """Function that they call, if they say so and it was not known."""
    refused: tuple[tuple[str, str], ...] = ()
    """Reason and text of each test that is left out."""
    kept: tuple[bool, ...] = ()
    """Whether each test is kept, of all in their order; empty if none was left out, or the places of those are unknown."""
    setup: str = ""
    """Code that they need before the attempt."""
    compare: str = ""
    """How their values are compared; empty: as usual."""
    by_code: bool = False
    """Whether the form of a program decided what they call."""
