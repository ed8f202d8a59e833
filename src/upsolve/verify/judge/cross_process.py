"""Decides whether CODE tests can run in a separate process, with the attempt's process answering calls only.

They can if they use nothing of the attempt but functions, with plain data as arguments and results.
"""

import ast
import builtins
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from upsolve.types import Task
from upsolve.verify.judge.memo import memo

__all__ = ["BUILTINS", "called_names", "changes_process", "is_direct_call", "literal_call"]

BUILTINS = frozenset(dir(builtins))
PROCESS = frozenset(
    "patch redirect_stdout redirect_stderr assertLogs assertNoLogs assertWarns assertWarnsRegex catch_warnings environ putenv chdir "  # noqa: SIM905
    "tempfile TemporaryDirectory TemporaryFile NamedTemporaryFile mkdtemp mkstemp throw __cause__ __context__ "
    "makedirs mkdir rmdir rmtree write_text write_bytes unlink multiprocessing ProcessPoolExecutor addHandler "
    "getcontext setcontext localcontext setprofile settrace getfullargspec getsource isgeneratorfunction iscoroutinefunction".split()
)
"""Names with which tests change or watch their own process or files, or the way of an exception, to see what a function of the attempt does there."""
OF_MODULE = frozenset({("os", "remove"), ("os", "rename"), ("os", "replace"), ("inspect", "signature")})
"""Such names that are common words, each with its module."""
CROSSING = "collections collections.abc typing numbers decimal fractions datetime pathlib uuid ipaddress numpy".split()  # noqa: SIM905
"""Modules whose types both processes have for the same value."""
AS_THEY_ARE = ("GeneratorType", "CoroutineType")
"""How the names of other such types end."""
KEPT = ("type", "slice", "memoryview")
"""Builtin types whose instances stay in the process of the attempt."""
WRITING = re.compile(r"[wax][bt+]*|r[bt]*\+[bt]*")
"""Modes in which files are opened to write."""


def called_names(task: Task) -> tuple[str, ...] | None:
    """Return the attempt's functions that the tests call, decorate with or pass as arguments; None if they use the attempt in another way.

    Other ways are: an attribute, a class (a capitalised name), assignment to one of the attempt's names; and tests that do not
    parse, or that use ``eval``, ``exec``, ``globals``, ``locals``, ``vars`` or ``import *``.
    """
    try:
        trees = [ast.parse(source) for source in (task.setup, *(test.input for test in task.tests))]
    except (SyntaxError, ValueError, RecursionError):
        return None
    bound = {name for tree in trees for name in bound_names(tree)}
    free: set[str] = set()
    for tree in trees[1:]:
        handed = {id(node) for node in handed_on(tree)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id in ("eval", "exec", "globals", "locals", "vars"):
                return None
            if isinstance(node, ast.Name) and node.id not in bound and (node.id not in BUILTINS or node.id == task.entry_point):
                if id(node) not in handed or node.id[0].isupper():
                    return None
                free.add(node.id)
    return None if "*" in bound else tuple(sorted(free))


def changes_process(task: Task) -> bool:
    """Return whether tests, which parse, change or watch what only code of the same process shares: streams, patched names, warnings, files.

    Such are ``PROCESS``, assignment to attributes and items of what they import (``sys.stdin``, ``random.random``), and files that the tests write.
    """
    nodes = [node for source in (task.setup, *(test.input for test in task.tests)) for node in ast.walk(ast.parse(source))]
    modules = {name: module for node in nodes for name, module in origins(node)}
    return any(is_of_process(node, modules) for node in nodes)


def origins(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the names that an import binds, with their module."""
    if isinstance(node, ast.ImportFrom):
        yield from ((name, node.module or "") for name in imported(node.names))
    elif isinstance(node, ast.Import):
        yield from zip(imported(node.names), (alias.name for alias in node.names), strict=True)


def is_of_process(node: ast.AST, modules: Mapping[str, str]) -> bool:
    """Return whether a part of a test changes or watches its process (``changes_process``).

    Args:
        node: the part.
        modules: names that the tests import, with their modules.
    """
    match node:
        case ast.Name(id=name) | ast.alias(name=name):
            return name in PROCESS
        case ast.ImportFrom(module=str(module), names=names):
            return module in PROCESS or any((module, alias.name) in OF_MODULE for alias in names)
        case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
            return root(node) in modules or (isinstance(node, ast.Attribute) and node.attr in PROCESS)
        case ast.Attribute(value=value, attr=name):
            return name in PROCESS or (root(value), name) in OF_MODULE
        case ast.TryStar():
            return True
        case ast.With(body=body) | ast.AsyncWith(body=body):
            return not is_expected(node) and any(fails(part) for statement in body for part in ast.walk(statement))
        case ast.Call():
            return is_call_of_process(node, modules)
        case ast.Compare():
            made = [side.func for side in (node.left, *node.comparators) if isinstance(side, ast.Call)]
            return any(stays(kind, modules) and ast.unparse(kind).rpartition(".")[2][:1].isupper() for kind in made)
        case _:
            return False


def is_call_of_process(node: ast.Call, modules: Mapping[str, str]) -> bool:
    """Return whether a call opens a file to write, sets an attribute of something imported, turns warnings into errors, or asks for a type
    that stays in the attempt's process."""
    named = [keyword.value for keyword in node.keywords if keyword.arg == "mode"]
    texts = [part.value for part in (*node.args[:2], *named) if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    match node.func:
        case ast.Name(id="open") | ast.Attribute(attr="open"):
            return any(map(WRITING.fullmatch, texts))
        case ast.Name(id="setattr" | "delattr"):
            return bool(node.args) and root(node.args[0]) in modules
        case ast.Name(id="simplefilter" | "filterwarnings") | ast.Attribute(attr="simplefilter" | "filterwarnings"):
            return texts[:1] == ["error"]
        case ast.Name(id="isinstance") | ast.Attribute(attr="assertIsInstance" | "assertNotIsInstance"):
            return any(stays(part, modules) for kind in node.args[1:2] for part in ast.walk(kind))
        case _:
            return False


def stays(kind: ast.AST, modules: Mapping[str, str]) -> bool:
    """Return whether an expression names a type whose instances stay in the attempt's process; exceptions cross, and so do CROSSING."""
    name = kind.id if isinstance(kind, ast.Name) else kind.attr if isinstance(kind, ast.Attribute) else ""
    if name in KEPT:
        return True
    module = modules.get(root(kind), "")
    if not module or module in CROSSING or (isinstance(kind, ast.Name) and name == module):
        return False
    return bool(name) and not name.endswith(("Error", "Exception", *AS_THEY_ARE))


def root(node: ast.AST) -> str:
    """Return the name whose attribute or item an expression is; empty if it is neither."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def fails(node: ast.AST) -> bool:
    """Return whether a part of a test is there to raise an exception: ``raise``, or a division by zero."""
    match node:
        case ast.Raise() | ast.BinOp(op=ast.Div() | ast.FloorDiv() | ast.Mod(), right=ast.Constant(value=0)):
            return True
        case _:
            return False


def is_expected(node: ast.With | ast.AsyncWith) -> bool:
    """Return whether a ``with`` only catches what its body raises: ``assertRaises`` and the like."""
    return all(
        isinstance(item.context_expr, ast.Call) and isinstance(item.context_expr.func, ast.Attribute) for item in node.items
    )


@memo
def literal_call(source: str) -> tuple[str, list[Any]] | None:
    """Return function and arguments of a call of a name with literal positional arguments; None for every other expression."""
    try:
        match ast.parse(source, mode="eval").body:
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
                return name, [ast.literal_eval(argument) for argument in args]
            case _:
                return None
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return None


@memo
def given_names(setup: str) -> frozenset[str]:
    """Return the builtins and the names that a setup binds; SyntaxError if it does not parse."""
    return BUILTINS.union(bound_names(ast.parse(setup)))


@memo
def is_direct_call(source: str, setup: str, entry_point: str = "") -> bool:
    """Return whether an expression is only a call of an attempt's function with arguments that the attempt cannot influence.

    Only direct calls may be evaluated in the attempt's process: they contain no expected answer, and the result is compared
    outside without passing through a name that the attempt could replace (``bool``, ``all``, a helper of the setup). ``f(2)``,
    ``f(set([1]))`` and ``Solution().f(2)`` are direct; ``bool(f(2))``, ``f(2)[0]`` and ``same(f(2), 4)`` are not. A builtin's
    name counts as the attempt's function if it is the entry point.
    """
    try:
        names_given = given_names(setup) - {entry_point}
        if call := literal_call(source):
            return call[0] not in names_given
        node: ast.expr = ast.parse(source.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    passed: list[ast.AST] = []
    if not isinstance(node, ast.Call):
        return False
    while isinstance(node, ast.Call | ast.Attribute):
        if isinstance(node, ast.Call):
            passed += [*node.args, *node.keywords]
        node = node.func if isinstance(node, ast.Call) else node.value
    given_here = names_given.union(*map(bound_names, passed))
    names = {part.id for tree in passed for part in ast.walk(tree) if isinstance(part, ast.Name)}
    return isinstance(node, ast.Name) and node.id not in names_given and names <= given_here


def handed_on(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the callees and the arguments of all calls, and decorators, which are called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from node.decorator_list
        if isinstance(node, ast.Call):
            yield node.func
            yield from node.args
            yield from (keyword.value for keyword in node.keywords)


def bound_names(tree: ast.AST) -> Iterator[str]:
    """Yield every name that a syntax tree binds, in any scope."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from imported(node.names)


def imported(names: Sequence[ast.alias]) -> Iterator[str]:
    """Yield the names that an import binds."""
    for alias in names:
        yield alias.asname or alias.name.partition(".")[0]
