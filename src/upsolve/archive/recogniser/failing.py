"""Whether a test can fail: an assertion, and something of the attempt that decides it."""

import ast
import builtins
import re
import symtable
from collections.abc import Collection, Iterable

__all__ = ["asserts", "is_vacuous", "names_in", "touches"]

BUILTINS = frozenset(dir(builtins))
ASSERTING = re.compile(r"_*(?:assert|fail|expect|verify|check|should|raises|exit$)", re.IGNORECASE)
"""How names of functions begin whose calls are assertions: ``self.assertEqual``, ``np.testing.assert_allclose``, ``pytest.raises``."""
DYNAMIC = frozenset("eval exec globals locals vars getattr __import__ compile open input".split())  # noqa: SIM905
"""Builtins by which a test may reach the attempt without naming it."""
SCOPES = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.MatchAs,
    ast.MatchStar,
    ast.MatchMapping,
)
"""Parts of code with names of their own, or that bind names otherwise than by assignment."""
CATCHING = frozenset({"AssertionError", "Exception", "BaseException"})


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
        case _:
            return False


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
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)) if name in helpers or (
            name not in local and ASSERTING.match(name)
        ):
            return True
        case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=finalbody):
            swallowed = any(catches(handler) and not any_asserts(handler.body, helpers, local) for handler in handlers)
            rest = [*orelse, *finalbody, *(part for handler in handlers if not swallowed for part in handler.body)]
            return any_asserts(rest, helpers, local) or (not swallowed and any_asserts(body, helpers, local))
        case _:
            return any_asserts(ast.iter_child_nodes(node), helpers, local)


def any_asserts(nodes: Iterable[ast.AST], helpers: Collection[str], local: Collection[str]) -> bool:
    """Return whether one of several parts asserts."""
    return any(asserts(node, helpers, local) for node in nodes)


def catches(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler catches a failed assertion."""
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(one is None or (isinstance(one, ast.Name) and one.id in CATCHING) for one in caught)


def names_in(node: ast.AST | str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names that code binds at its top level, and the global names that it reads, in it and in what it defines; ``*`` for ``import *``."""
    nodes = list(ast.walk(ast.parse(node) if isinstance(node, str) else node))
    binds = {"*" for part in nodes if isinstance(part, ast.ImportFrom) and part.names[0].name == "*"}
    reads = {part.target.id for part in nodes if isinstance(part, ast.AugAssign) and isinstance(part.target, ast.Name)}
    if not any(isinstance(part, SCOPES) for part in nodes):
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
    return bool(free or DYNAMIC & {*reads} or {*own} & {*reads} or (not own and called) or "*" in bound)
