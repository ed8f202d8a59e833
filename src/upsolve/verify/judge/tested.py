"""Decides which names of tests are the attempt's and under test, and which tests the attempt's process may evaluate (docs/judge.md).

Every other name belongs to the tests, the setup or Python, even if the attempt defines it: it may decide an outcome.
"""

import ast
import builtins
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

from upsolve.types import Task, TestKind
from upsolve.verify.judge.compare import memo, with_short_integers
from upsolve.verify.judge.scopes import Globals, global_names, imported, names_bound_by
from upsolve.verify.sandbox.inside.values import QUESTIONS

__all__ = ["called_names", "changes_process", "is_direct_call", "literal_call", "rebinds", "required_names", "variables_read"]

BUILTINS = frozenset(dir(builtins))
REFLECTIVE = frozenset(("eval", "exec", "globals", "locals", "vars", "compile", "__import__"))
"""Builtins by which code can read names that it does not mention."""
OWN_MODULES = ("attempt", "__main__")
"""Modules under whose names tests import the attempt."""
CAPITALISED = re.compile(r"^def ([A-Z]\w*)", re.MULTILINE)
SOLUTION = "Solution"
"""The class whose methods tests call as functions."""


@dataclass(frozen=True, slots=True)
class Setup:
    """Names of a task's setup."""

    bound: frozenset[str]
    """Names that the setup binds, except starters."""
    pure: frozenset[str]
    """Imports, and functions that use only builtins and other pure names. Called with literals, they return values that the attempt cannot influence."""
    variables: frozenset[str]
    """Names that the setup binds neither by an import nor as a function or class."""
    uses: Mapping[str, Sequence[ast.Name]]
    """Name -> global names that its functions read when they are called."""
    handed: frozenset[int]
    """Ids of callees and arguments (``handed_on``)."""


class Parts(NamedTuple):
    """Inputs that decide which names of a task are under test."""

    setup: str
    entry_point: str
    functions: tuple[str, ...]
    """Functions of the reference with capitalised names."""
    calls: tuple[str, ...]
    """The CALL tests."""
    codes: tuple[str, ...]
    """The CODE tests."""


def parts_of(task: Task) -> Parts:
    """Return the inputs that decide the names under test of a task."""
    calls, codes = (tuple(test.input for test in task.tests if test.kind is kind) for kind in (TestKind.CALL, TestKind.CODE))
    return Parts(task.setup, task.entry_point, tuple(CAPITALISED.findall(task.reference)), calls, codes)


@memo
def names_of(setup: str) -> Setup:
    """Return the names of a setup; SyntaxError if it does not parse."""
    body = ast.parse(setup).body
    names = [global_names([statement]) for statement in body]
    bound = frozenset(name for one in names for name in one.bound)
    functions = [one for one in body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
    starters = {one.name for one in functions if is_starter(one)}
    uses: dict[str, list[ast.Name]] = {}
    for one in names:
        for name in one.bound:
            uses.setdefault(name, []).extend(read.node for read in one.reads if read.deferred)
    handed = frozenset(id(node) for statement in body for node in handed_on(statement))
    pure = {name for one, part in zip(names, body, strict=True) if isinstance(part, SIMPLE) for name in one.bound} - starters
    while impure := {name for name in pure if any(node.id not in (BUILTINS - REFLECTIVE) | pure for node in uses[name])}:
        pure -= impure
    defined = {name for one, part in zip(names, body, strict=True) if isinstance(part, DEFINITIONS) for name in one.bound}
    return Setup(bound - starters, frozenset(pure), bound - defined, uses, handed)


DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
SIMPLE = (ast.FunctionDef, ast.Import, ast.ImportFrom)
"""Kinds of statements that may bind ``Setup.pure`` names."""


def is_starter(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Return whether a function has no body yet, or a class has methods without bodies: the attempt is to define it."""
    if isinstance(node, ast.ClassDef):
        methods = [part for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
        return not node.bases and bool(methods) and all(is_starter(one) and not one.decorator_list for one in methods)
    return all(is_empty(statement) for statement in node.body)


def is_empty(statement: ast.stmt) -> bool:
    """Return whether a statement does nothing, or says that something is not implemented."""
    match statement:
        case ast.Pass() | ast.Expr(value=ast.Constant()) | ast.Return(value=None | ast.Constant(value=None)):
            return True
        case ast.Raise(exc=ast.Name(id=name) | ast.Call(func=ast.Name(id=name))):
            return name == "NotImplementedError"
        case _:
            return False


def called_names(task: Task) -> tuple[str, ...] | None:
    """Return the attempt's functions that the tests call, decorate with or pass as arguments; None if tests use the attempt in another way.

    These are names that neither tests, setup nor Python bind, the entry point, starters of the setup, and functions of which every call
    is compared with a literal (``checked``). Tests may give a function another name (``renamed``) and create a ``Solution()``. Other ways
    are: an attribute, another class (a capitalised name, unless the reference defines a function of that name, or ``Find_Min(2)`` is compared
    with a literal), an import of the attempt; and tests that do not parse, use ``eval`` and the like or ``import *``, or whose names are all bound by setup or Python.
    """
    return names_under_test(parts_of(task))


def required_names(task: Task) -> tuple[str, ...]:
    """Return the names under test that are builtins and that the attempt must define; otherwise Python's own function would be tested."""
    names = called_names(task) or ()
    own = {name for name in names if name in BUILTINS and name not in names_of(task.setup).bound}
    return tuple(name for name in names if name in own and (name == task.entry_point or own.issuperset(names)))


def rebinds(task: Task) -> bool:
    """Return whether a name under test is also bound by Python, by the setup, or in a scope of the tests."""
    return has_names_bound_again(parts_of(task))


@memo
def has_names_bound_again(parts: Parts) -> bool:
    """Compute ``rebinds`` from the inputs that decide it, cached."""
    try:
        given, names = ast.parse(parts.setup), {*(names_under_test(parts) or ())}
        trees = [given, *(ast.parse(source.strip()) for source in (*parts.calls, *parts.codes))]
        bound = {name for tree in trees for node in ast.walk(tree) for name in names_bound_by(node)}
        return not names.isdisjoint(BUILTINS | bound) or not names_of(parts.setup).bound.issuperset(global_names([given]).bound)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def variables_read(task: Task) -> tuple[str, ...]:
    """Return the setup's variables that are read by tests, or by functions of the setup that tests use; the tests must parse."""
    return variables_in(parts_of(task)) if task.setup else ()


@memo
def variables_in(parts: Parts) -> tuple[str, ...]:
    """Compute ``variables_read`` from the inputs that decide it, cached."""
    given = names_of(parts.setup)
    sources = (*parts.calls, *parts.codes) if given.variables else ()
    found = global_names(ast.parse(source.strip()) for source in sources)
    nodes = [*found.outside(), *used_by_setup(given, (), found)]
    return tuple(sorted(given.variables.intersection(node.id for node in nodes)))


@memo
def names_under_test(parts: Parts) -> tuple[str, ...] | None:
    """Compute ``called_names`` from the inputs that decide it, cached."""
    setup, entry_point, functions, calls, codes = parts
    literal = {call[0] for source in calls if (call := literal_call(source))}
    try:
        given = names_of(setup)
        parsed = [ast.parse(source.strip(), mode="eval") for source in calls if not literal_call(source)]
        trees = [*parsed, *map(ast.parse, codes)]
        found = global_names(trees)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if "*" in found.bound | given.bound or any(imports_attempt(node) for tree in trees for node in ast.walk(tree)):
        return None
    own, reads = found.outside(), used_by_setup(given, literal, found)
    known = given.bound | BUILTINS
    free = [node for node in (*own, *reads) if node.id not in known or node.id == entry_point]
    handed = given.handed.union(id(node) for tree in trees for node in handed_on(tree))
    if any(id(node) not in handed for node in free):
        handed |= renamed(trees, handed)
    if any(node.id in REFLECTIVE for node in (*own, *reads)) or any(id(node) not in handed for node in free):
        return None
    compared = checked(trees)
    classes = {id(node) for node in free if node.id[0].isupper() and node.id not in functions}
    classes -= {id(node) for node in free if "_" in node.id and id(node) in compared}
    calls_in_trees = [node.func for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)] if classes else []
    if not classes <= {id(name) for name in calls_in_trees if isinstance(name, ast.Name) and name.id == SOLUTION}:
        return None
    unsafe = {node.id for node in reads}.union(node.id for node in own if id(node) not in compared)
    names = {node.id for node in free} | {name for name in literal if name not in known or name == entry_point}
    simple = {node.id for node in own if is_checkable(node.id, given)} | {name for name in literal if is_checkable(name, given)}
    names |= simple - unsafe
    return tuple(sorted(names)) if names or not (own or literal) else None


def is_checkable(name: str, given: Setup) -> bool:
    """Return whether a function of the setup or of Python, called with literals, returns a value that the attempt cannot influence."""
    return name in given.pure or (name in BUILTINS - REFLECTIVE - given.bound and not name[0].isupper())


def imports_attempt(node: ast.AST) -> bool:
    """Return whether a part of a test imports the attempt as a module."""
    match node:
        case ast.Import(names=names):
            return any(alias.name.partition(".")[0] in OWN_MODULES for alias in names)
        case ast.ImportFrom(module=str(module), level=0):
            return module in OWN_MODULES
        case _:
            return False


def used_by_setup(given: Setup, called: Iterable[str], found: Globals) -> list[ast.Name]:
    """Return the global names that functions of the setup read, for functions that tests use, and functions that these use."""
    waiting = [*called, *(node.id for node in found.outside())]
    seen: set[str] = set()
    nodes: list[ast.Name] = []
    while waiting:
        name = waiting.pop()
        if name in given.bound and name not in seen:
            seen.add(name)
            nodes += given.uses.get(name, ())
            waiting += [node.id for node in given.uses.get(name, ())]
    return nodes


def checked(trees: Iterable[ast.AST]) -> set[int]:
    """Return the ids of callees whose calls have only literal arguments and are only compared with literals, by ``assert`` or ``assert...`` methods.

    The outcome of such a comparison depends on the callee alone.
    """
    tests: list[ast.expr] = []
    for node in (node for tree in trees for node in ast.walk(tree)):
        match node:
            case ast.Assert(test=test):
                tests.append(test)
            case ast.Expression(body=body):
                tests.append(body)
            case ast.Call(func=ast.Attribute(attr=name), args=args) if name.startswith("assert"):
                tests += args if sum(not is_literal(part) for part in args) == 1 else []
            case _:
                pass
    found: set[int] = set()
    while tests:
        match tests.pop():
            case ast.BoolOp(values=parts):
                tests += parts
            case ast.UnaryOp(op=ast.Not(), operand=part):
                tests.append(part)
            case ast.Compare(left=left, comparators=others):
                sides = [side for side in (left, *others) if not is_literal(side)]
                tests += sides if len(sides) == 1 else []
            case ast.Call(func=ast.Name() as callee, args=args, keywords=named):
                if all(map(is_literal, [*args, *(one.value for one in named)])):
                    found.add(id(callee))
            case _:
                pass
    return found


def is_literal(node: ast.AST) -> bool:
    """Return whether an expression consists of constants, or of lists, tuples, sets and dicts of constants."""
    return not any(isinstance(part, ast.Name | ast.Call | ast.Attribute | ast.Await) for part in ast.walk(node))


@memo
def literal_call(source: str) -> tuple[str, list[Any]] | None:
    """Return function and arguments of a call of a name with literal positional arguments; None for any other expression."""
    try:
        match ast.parse(with_short_integers(source), mode="eval").body:
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
                return name, [ast.literal_eval(argument) for argument in args]
            case _:
                return None
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return None


@memo
def is_direct_call(source: str, setup: str, entry_point: str = "") -> bool:
    """Return whether an expression is only a call of an attempt's function with arguments that the attempt cannot influence.

    Only direct calls may be evaluated in the attempt's process: they contain no expected answer, and the result is compared
    outside without passing through a name that the attempt could replace (``bool``, ``all``, a helper of the setup). ``f(2)``,
    ``f(set([1]))``, ``Solution().f(2)`` and, of a builtin with literals, ``sum([1, 2])`` are direct; ``bool(f(2))``, ``f(2)[0]``,
    ``same(f(2), 4)`` and ``f(2).startswith('4')`` are not (QUESTIONS).
    """
    try:
        given = names_of(setup)
        known = (BUILTINS | given.bound) - {entry_point}
        if call := literal_call(source):
            return call[0] not in known or is_checkable(call[0], given)
        node: ast.expr = ast.parse(source.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    if not isinstance(node, ast.Call):
        return False
    passed: list[ast.AST] = []
    methods: list[str] = []
    while isinstance(node, ast.Call | ast.Attribute):
        if isinstance(node, ast.Call):
            passed += [*node.args, *node.keywords]
        else:
            methods.insert(0, node.attr)
        node = node.func if isinstance(node, ast.Call) else node.value
    if not isinstance(node, ast.Name) or QUESTIONS.intersection(methods[node.id[0].isupper() :]):
        return False
    names = {part.id for part in global_names(passed).outside()}
    return names <= known and (node.id not in known or (is_checkable(node.id, given) and all(map(is_literal, passed))))


def handed_on(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the callees and arguments of all calls; decorators count as callees."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from node.decorator_list
        if isinstance(node, ast.Call):
            yield node.func
            yield from node.args
            yield from (keyword.value for keyword in node.keywords)


def renamed(trees: Sequence[ast.AST], handed: Set[int]) -> set[int]:
    """Return the ids of names that get another name, as in ``candidate = f`` or ``for g in (f, h)``, if that is only called or ``handed`` on."""
    reads: dict[str, list[int]] = {}
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            reads.setdefault(node.id, []).append(id(node))
    pairs = [(id(value), name) for tree in trees for value, name in other_names(tree)]
    found = {value for value, _ in pairs}
    while wrong := {one for one, name in pairs if one in found and not found.union(handed).issuperset(reads.get(name, ()))}:
        found -= wrong
    return found


def other_names(tree: ast.AST) -> Iterator[tuple[ast.Name, str]]:
    """Yield pairs of a name and the other name that it gets. Skips ``try`` blocks, which may test whether the attempt defines a name."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Try | ast.TryStar):
            continue
        waiting += ast.iter_child_nodes(node)
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name() as value):
                yield value, name
            case (
                ast.For(target=ast.Name(id=name), iter=ast.Tuple(elts=values) | ast.List(elts=values))
                | ast.comprehension(target=ast.Name(id=name), iter=ast.Tuple(elts=values) | ast.List(elts=values))
            ):
                yield from ((value, name) for value in values if isinstance(value, ast.Name))
            case _:
                pass


PROCESS = frozenset(
    "patch redirect_stdout redirect_stderr assertLogs assertNoLogs assertWarns assertWarnsRegex catch_warnings environ putenv chdir "  # noqa: SIM905
    "tempfile TemporaryDirectory TemporaryFile NamedTemporaryFile mkdtemp mkstemp throw __cause__ __context__ "
    "makedirs mkdir rmdir rmtree write_text write_bytes unlink multiprocessing ProcessPoolExecutor addHandler "
    "CancelledError getcontext setcontext localcontext setprofile settrace getfullargspec getsource isgeneratorfunction iscoroutinefunction".split()
)
"""Names whose use means that a test must run in the attempt's process: process, file and exception hooks."""
OF_MODULE = frozenset(
    {("os", "remove"), ("os", "rename"), ("os", "replace"), ("inspect", "signature")}
    | {("asyncio", name) for name in ("as_completed", "timeout", "wait", "wait_for")}
    | {("dataclasses", name) for name in ("asdict", "astuple", "fields", "is_dataclass", "replace")}
)
"""Names of ``PROCESS`` that are common words -> the module to which each belongs."""
CROSSING = "array collections collections.abc typing numbers decimal fractions datetime pathlib uuid ipaddress numpy".split()  # noqa: SIM905
"""Modules whose types represent the same value in both processes."""
OF_PACKAGES = ("pandas", "sympy")
"""Packages whose objects stay in the attempt's process: their functions and operators cannot compare these objects with objects of the tests."""
TYPE_SUFFIXES = ("GeneratorType", "CoroutineType")
"""Suffixes of the names of further types that exist in both processes."""
UNSENT = ("type", "slice", "memoryview")
"""Builtin types whose instances stay in the attempt's process."""
WRITING = re.compile(r"[wax][bt+]*|r[bt]*\+[bt]*")
"""Modes of ``open`` that write to a file."""


def changes_process(task: Task) -> bool:
    """Return whether parsed tests change or watch state that only code of the same process shares: streams, patched names, warnings, files.

    Such state is: names in ``PROCESS``, attributes and items of imports that are assigned (``sys.stdin``, ``random.random``), and files that the
    tests write.
    """
    nodes = [node for source in (task.setup, *(test.input for test in task.tests)) for node in ast.walk(ast.parse(source))]
    modules: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            modules |= dict.fromkeys(imported(node.names), node.module or "")
        elif isinstance(node, ast.Import):
            modules |= zip(imported(node.names), (alias.name for alias in node.names), strict=True)
    return any(is_of_process(node, modules) for node in nodes)


def is_of_process(node: ast.AST, modules: Mapping[str, str]) -> bool:
    """Return whether a part of a test changes or watches its process (``changes_process``); ``modules``: imported names -> modules."""
    match node:
        case ast.Name(id=name) | ast.alias(name=name):
            of_package = isinstance(node, ast.Name) and modules.get(name, "").partition(".")[0] in OF_PACKAGES
            return name in PROCESS or of_package
        case ast.ImportFrom(module=str(module), names=names):
            return module in PROCESS or any((module, alias.name) in OF_MODULE for alias in names)
        case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
            return root(node) in modules or (isinstance(node, ast.Attribute) and node.attr in PROCESS)
        case ast.Attribute(value=value, attr=name):
            return name in PROCESS or (root(value), name) in OF_MODULE
        case ast.TryStar():
            return True
        case ast.With(body=body) | ast.AsyncWith(body=body):
            calls = [item.context_expr for item in node.items]  # assertRaises and the like only catch what the body raises
            expected = all(isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) for call in calls)
            return not expected and any(fails(part) for statement in body for part in ast.walk(statement))
        case ast.Call():
            return is_call_of_process(node, modules)
        case ast.Compare():
            made = [side.func for side in (node.left, *node.comparators) if isinstance(side, ast.Call)]
            return any(stays(kind, modules) and ast.unparse(kind).rpartition(".")[2][:1].isupper() for kind in made)
        case _:
            return False


def is_call_of_process(node: ast.Call, modules: Mapping[str, str]) -> bool:
    """Return whether a call opens a file to write, sets an attribute of an import, turns warnings into errors, or asks for a type that stays in the
    attempt's process."""
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
    """Return whether an expression names a type whose instances stay in the attempt's process. Exceptions, and types of CROSSING, do not."""
    name = kind.id if isinstance(kind, ast.Name) else kind.attr if isinstance(kind, ast.Attribute) else ""
    if name in UNSENT:
        return True
    module = modules.get(root(kind), "")
    if not module or module in CROSSING or (isinstance(kind, ast.Name) and name == module):
        return False
    return bool(name) and not name.endswith(("Error", "Exception", *TYPE_SUFFIXES))


def root(node: ast.AST) -> str:
    """Return the name at the root of an attribute or item expression; empty for other expressions."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def fails(node: ast.AST) -> bool:
    """Return whether a part of a test exists to raise an exception: ``raise``, or a division by zero."""
    match node:
        case ast.Raise() | ast.BinOp(op=ast.Div() | ast.FloorDiv() | ast.Mod(), right=ast.Constant(value=0)):
            return True
        case _:
            return False
