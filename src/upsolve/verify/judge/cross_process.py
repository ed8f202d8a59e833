"""Decide whether tests change or watch their own process, so that they must run in the attempt's process."""

import ast
import re
from collections.abc import Mapping

from upsolve.types import Task
from upsolve.verify.judge.scopes import imported

__all__ = ["changes_process"]

PROCESS = frozenset(
    "patch redirect_stdout redirect_stderr assertLogs assertNoLogs assertWarns assertWarnsRegex catch_warnings environ putenv chdir "  # noqa: SIM905
    "tempfile TemporaryDirectory TemporaryFile NamedTemporaryFile mkdtemp mkstemp throw __cause__ __context__ "
    "makedirs mkdir rmdir rmtree write_text write_bytes unlink multiprocessing ProcessPoolExecutor addHandler "
    "getcontext setcontext localcontext setprofile settrace getfullargspec getsource isgeneratorfunction iscoroutinefunction".split()
)
"""Names whose use means that a test must run in the attempt's process: process, file and exception hooks."""
OF_MODULE = frozenset({("os", "remove"), ("os", "rename"), ("os", "replace"), ("inspect", "signature")})
"""Names of ``PROCESS`` that are common words, each with its module."""
CROSSING = "collections collections.abc typing numbers decimal fractions datetime pathlib uuid ipaddress numpy".split()  # noqa: SIM905
"""Modules whose types both processes have for the same value."""
TYPE_SUFFIXES = ("GeneratorType", "CoroutineType")
"""Suffixes of the names of further types that both processes have."""
UNSENT = ("type", "slice", "memoryview")
"""Builtin types whose instances stay in the process of the attempt."""
WRITING = re.compile(r"[wax][bt+]*|r[bt]*\+[bt]*")
"""Modes in which files are opened to write."""


def changes_process(task: Task) -> bool:
    """Return whether tests, which parse, change or watch what only code of the same process shares: streams, patched names, warnings, files.

    Such are ``PROCESS``, assignment to attributes and items of what they import (``sys.stdin``, ``random.random``), and files that the tests write.
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
    if name in UNSENT:
        return True
    module = modules.get(root(kind), "")
    if not module or module in CROSSING or (isinstance(kind, ast.Name) and name == module):
        return False
    return bool(name) and not name.endswith(("Error", "Exception", *TYPE_SUFFIXES))


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
