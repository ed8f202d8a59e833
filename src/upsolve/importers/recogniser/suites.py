"""Test functions in the styles of unittest and pytest -> CODE tests, one per test function, so that a program can pass some of them.

``read_tests`` reads those of a repository: each becomes one statement list, what it needs of its file, the test itself, and a call of it.
Parameters of ``pytest.mark.parametrize`` become a loop. A test that needs fixtures of pytest cannot be run this way, and says so.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence, Set
from copy import copy
from dataclasses import dataclass

from upsolve.importers.recogniser.asserts import imports_of, parsed
from upsolve.types import TestCase, TestKind

__all__ = [
    "Suite",
    "Test",
    "absolute",
    "across",
    "calls_of",
    "inside",
    "is_test_file",
    "module_name",
    "package_of",
    "prefixes",
    "pytest_tests",
    "read_tests",
    "unittest_tests",
]

RUN = """
import unittest
result = unittest.TestResult()
unittest.TestSuite([{name}({method!r})]).run(result)
for _, trace in [*result.failures, *result.errors]:
    raise AssertionError(trace)
"""
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests of a file."""

    tests: tuple[TestCase, ...]
    """One per test function."""
    names: tuple[str, ...] = ()
    """Name of the function of each, such as ``TestAdd.test_zero``."""
    left_out: tuple[str, ...] = ()
    """Names of test functions that cannot be called alone: they use fixtures."""


def unittest_tests(source: str) -> Suite:
    """Return the tests of classes derived from TestCase; ValueError if there are none, SyntaxError if the source is not Python."""
    found = [
        (node.name, function.name)
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and any("TestCase" in ast.unparse(base) for base in node.bases)
        for function in node.body
        if isinstance(function, Function) and function.name.startswith("test")
    ]
    if not found:
        raise ValueError("has no test methods")
    texts = (source.rstrip() + "\n" + RUN.format(name=name, method=method) for name, method in found)
    return Suite(tuple(TestCase(TestKind.CODE, text, "", True) for text in texts), tuple(map(".".join, found)))


def pytest_tests(source: str, *, module: str = "solution") -> Suite:
    """Return the tests of a file for pytest; SyntaxError if the source is not Python.

    Imports from ``module`` are left out: the attempt is there already. ``parametrize`` becomes a loop over its cases.
    """
    shared: list[ast.stmt] = []
    found: list[tuple[str, ast.stmt, str]] = []
    left_out: list[str] = []
    for node in ast.parse(source).body:
        if is_import_of(node, module) or is_import_of(node, "pytest") or is_main(node):
            continue
        calls = list(calls_of(node))
        if not calls:
            shared.append(node)
        for name, call in calls:
            found += [(name, node, call)] if call else []
            left_out += [] if call else [name]
    head = ast.unparse(ast.Module(shared, []))
    bodies = [f"{head}\n{ast.unparse(undecorated(node))}\n{call}\n".lstrip("\n") for _, node, call in found]
    uses = [any(isinstance(one, ast.Name) and one.id == "pytest" for one in ast.walk(ast.parse(body))) for body in bodies]
    texts = (f"import pytest\n{body}" if used else body for body, used in zip(bodies, uses, strict=True))
    tests = tuple(TestCase(TestKind.CODE, text, "", True) for text in texts)
    return Suite(tests, tuple(name for name, _, _ in found), tuple(left_out))


def is_import_of(node: ast.stmt, module: str) -> bool:
    """Return whether a statement imports a module or from it."""
    if isinstance(node, ast.ImportFrom):
        return node.module == module
    return isinstance(node, ast.Import) and [alias.name for alias in node.names] == [module]


def is_main(node: ast.stmt) -> bool:
    """Return whether a statement is ``if __name__ == "__main__"``."""
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def calls_of(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """Yield the name of each test function of a statement and the code that calls it, empty if it uses fixtures or setup methods."""
    if isinstance(node, Function) and node.name.startswith("test"):
        yield node.name, call_of(node, node.name, 0)
    elif isinstance(node, ast.ClassDef):
        methods = [function for function in node.body if isinstance(function, Function)]
        prepared = any(function.name.startswith(("setup", "teardown")) for function in methods)
        in_unittest = any("TestCase" in ast.unparse(base) for base in node.bases)
        for function in methods if in_unittest or node.name.startswith("Test") else ():
            if function.name.startswith("test"):
                call = "" if prepared else call_of(function, f"{node.name}().{function.name}", 1)
                run = RUN.format(name=node.name, method=function.name).strip("\n")
                yield f"{node.name}.{function.name}", run if in_unittest else call


def required(function: Function) -> list[str]:
    """Return the names of a function's parameters that have no default."""
    given = function.args
    return [one.arg for one in given.args[: len(given.args) - len(given.defaults)]]


def call_of(function: Function, callee: str, given: int) -> str:
    """Return the code that calls a test function, in a loop over the cases of ``parametrize``; empty if it is async or uses fixtures.

    ``given``: number of its arguments that the call binds itself (``self``).
    """
    if isinstance(function, ast.AsyncFunctionDef):
        return ""
    names = required(function)[given:]
    marks = [node for node in function.decorator_list if isinstance(node, ast.Call) and "parametrize" in ast.unparse(node.func)]
    if not marks:
        return "" if names else f"{callee}()"
    if len(marks) > 1 or len(marks[0].args) < 2:
        return ""
    listed, cases = marks[0].args[:2]
    if isinstance(listed, ast.Constant):
        given_names = [name.strip() for name in str(listed.value).split(",")]
    else:
        given_names = [str(ast.literal_eval(item)) for item in getattr(listed, "elts", [])]
    if set(given_names) < set(names) or "pytest.param" in ast.unparse(cases):
        return ""
    values = f"**dict(zip({given_names!r}, case))" if len(given_names) > 1 else f"**{{{given_names[0]!r}: case}}"
    return f"for case in {ast.unparse(cases)}:\n    {callee}({values})"


def undecorated(node: ast.stmt) -> ast.stmt:
    """Return a definition without pytest's marks on it and on its methods."""
    for part in ast.walk(node):
        if isinstance(part, Function | ast.ClassDef):
            part.decorator_list = [mark for mark in part.decorator_list if not ast.unparse(mark).startswith("pytest.mark.")]
    return node


ROOTS = ("src", "lib")
"""Folders, at the top of a repository, that are no packages themselves but hold them."""


@dataclass(frozen=True, slots=True)
class Test:
    """A test of a file."""

    __test__ = False

    name: str
    """Name as pytest writes it, without parameters: ``tests/test_text.py::TestSlug::test_case``."""
    code: str = ""
    """Statements that raise an exception on failure; imports are absolute."""
    problem: str = ""
    """Why it cannot be run; empty if it can."""
    requires: tuple[str, ...] = ()
    """Packages outside of the standard library that it imports."""


def module_name(path: str) -> str:
    """Return the name under which a file is imported: ``pkg.text`` for ``src/pkg/text.py``."""
    parts = path.removesuffix(".py").split("/")
    parts = parts[1:] if parts[0] in ROOTS and len(parts) > 1 else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def package_of(path: str) -> str:
    """Return the package of a file: itself for an ``__init__.py``."""
    name = module_name(path)
    return name if path.endswith("__init__.py") else name.rpartition(".")[0]


def absolute(node: ast.ImportFrom, package: str) -> str:
    """Return the name of the module from which an import takes names, without leading dots."""
    if not node.level:
        return node.module or ""
    parts = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*parts, *([node.module] if node.module else [])])


def prefixes(name: str) -> list[str]:
    """Return ``a``, ``a.b``, ``a.b.c`` for ``a.b.c``."""
    parts = name.split(".")
    return [".".join(parts[: count + 1]) for count in range(len(parts))]


def is_test_file(path: str) -> bool:
    """Return whether a path is a test file, as pytest finds them: ``test_*.py`` or ``*_test.py``; benchmarks are none."""
    folder, _, name = path.rpartition("/")
    if any(part.startswith("bench") for part in folder.split("/")):
        return False
    return name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py") or name in ("test.py", "tests.py"))


def read_tests(path: str, source: str) -> list[Test]:
    """Return the tests of a file, in order; empty if it is not Python."""
    tree = parsed(source)
    if tree is None:
        return []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            node.module, node.level = absolute(node, package_of(path)), 0
    tests = {node: [*variants(node)] for node in tree.body}
    shared = [node for node in tree.body if not tests[node] and not isinstance(node, ast.Expr) and not is_main(node)]
    marks = [ast.unparse(one) for node in shared if isinstance(node, ast.FunctionDef) for one in node.decorator_list]
    automatic = any("fixture" in mark and "autouse=True" in mark for mark in marks)
    problem = "its file has fixtures that apply to every test" if automatic else ""
    return [
        Test(f"{path}::{name}", "" if problem or fault else needed(shared, body), problem or fault)
        for found in tests.values()
        for name, body, fault in found
    ]


def variants(node: ast.stmt) -> Iterator[tuple[str, list[ast.stmt], str]]:
    """Yield name, statements and problem of each test that a statement defines."""
    if isinstance(node, Function) and node.name.startswith("test"):
        plain, call, problem = called(node, node.name)
        yield node.name, [plain, *call], problem
    elif isinstance(node, ast.ClassDef):
        in_unittest = any(ast.unparse(base).endswith(("TestCase", "Test", "Tests", "Base")) for base in node.bases)
        methods = [part for part in node.body if isinstance(part, Function) and part.name.startswith("test")]
        for method in methods if in_unittest or node.name.startswith("Test") else ():
            body, problem = of_class(node, method, {*methods} - {method}, in_unittest=in_unittest)
            yield f"{node.name}::{method.name}", body, problem


def of_class(node: ast.ClassDef, method: Function, others: Set[Function], *, in_unittest: bool) -> tuple[list[ast.stmt], str]:
    """Return the statements of one test of a class, without its other tests, and its problem."""
    plain, call, problem = called(method, f"{node.name}().{method.name}")
    parts = [plain if part is method else part for part in node.body if part not in others]
    decorators = [one for one in node.decorator_list if not ast.unparse(one).startswith("pytest.")]
    definition = copy(node)
    definition.body, definition.decorator_list = parts, decorators
    if in_unittest:
        run = f"__import__('unittest').TestSuite([{node.name}({method.name!r})]).debug()"
        return [definition, *ast.parse(run).body], problem
    ready = [part.name for part in parts if isinstance(part, ast.FunctionDef) and part.name.startswith(("setup", "teardown"))]
    marked = "its class has marks of pytest" if len(decorators) < len(node.decorator_list) else ""
    return [definition, *call], problem or marked or (f"its class has {ready[0]}" if ready else "")


def called(node: Function, name: str) -> tuple[ast.stmt, list[ast.stmt], str]:
    """Return a test function without the marks of pytest, the statements that call it, and its problem."""
    if isinstance(node, ast.AsyncFunctionDef):
        return node, [], "it is asynchronous"
    marks = [one for one in node.decorator_list if ast.unparse(one).startswith("pytest.mark.")]
    others = [one for one in node.decorator_list if one not in marks]
    loops: list[tuple[list[str], ast.expr]] = []
    for mark in marks:
        text = ast.unparse(mark)
        if text.startswith(("pytest.mark.skip", "pytest.mark.xfail", "pytest.mark.usefixtures")):
            return node, [], f"it has the mark {text[12:40]}"
        if text.startswith("pytest.mark.parametrize"):
            if (loop := loop_of(mark)) is None:
                return node, [], "its parameters are not written in its file"
            loops.append(loop)
    given = {"self", *(one for names, _ in loops for one in names)}
    left = [name for name in required(node) if name not in given]
    if left and not others:
        return node, [], f"it needs the fixture {left[0]}"
    plain = copy(node)
    plain.decorator_list = others
    return plain, calls(name, loops), ""


def loop_of(mark: ast.expr) -> tuple[list[str], ast.expr] | None:
    """Return the names and the values of a mark ``parametrize``; None if they cannot be read."""
    if not isinstance(mark, ast.Call) or len(mark.args) < 2 or any(one.arg == "indirect" for one in mark.keywords):
        return None
    try:
        names = ast.literal_eval(mark.args[0])
    except ValueError:
        return None
    words = [word.strip() for word in names.split(",")] if isinstance(names, str) else [str(word) for word in names]
    values = mark.args[1]
    if isinstance(values, ast.List | ast.Tuple):
        values = ast.List([value_of(one, single=len(words) == 1) for one in values.elts], ast.Load())
    return None if "pytest." in ast.unparse(values) else (words, values)


def value_of(node: ast.expr, *, single: bool) -> ast.expr:
    """Return the values of ``pytest.param(...)`` without its id; any other expression as it is."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.param" and {one.arg for one in node.keywords} <= {"id"}:
        return node.args[0] if single else ast.Tuple(node.args, ast.Load())
    return node


def calls(name: str, loops: Sequence[tuple[list[str], ast.expr]]) -> list[ast.stmt]:
    """Return statements that call a test with all of its parameters."""
    text, given = "", list[str]()
    for depth, (names, values) in enumerate(loops):
        text += f"{'    ' * depth}for values_{depth} in {ast.unparse(values)}:\n"
        given += [f"{names[0]}=values_{depth}"] if len(names) == 1 else [f"**dict(zip({names!r}, values_{depth}))"]
    return ast.parse(f"{text}{'    ' * len(loops)}{name}({', '.join(given)})").body


def needed(shared: Sequence[ast.stmt], body: Sequence[ast.stmt]) -> str:
    """Return the statements of a file that a test needs, directly or not, in order, and the test's own, as text."""
    used: set[int] = set()
    names = used_names(body)
    while True:
        more = [i for i, node in enumerate(shared) if i not in used and ("*" in (bound := bound_by(node)) or bound & names)]
        if not more:
            parts = [used_part(node, names) for index, node in enumerate(shared) if index in used]
            return ast.unparse(ast.Module([*parts, *body], []))
        used |= {*more}
        names |= used_names(shared[index] for index in more)


def used_part(node: ast.stmt, names: Set[str]) -> ast.stmt:
    """Return an import with those of its names that are used; any other statement as it is."""
    if not isinstance(node, ast.Import | ast.ImportFrom):
        return node
    part = copy(node)
    part.names = [one for one in node.names if one.name == "*" or (one.asname or one.name.partition(".")[0]) in names]
    return part


def used_names(nodes: Iterable[ast.stmt]) -> set[str]:
    """Return the names that statements use."""
    return {part.id for node in nodes for part in ast.walk(node) if isinstance(part, ast.Name)}


def bound_by(node: ast.stmt) -> set[str]:
    """Return the names that a statement of a module binds."""
    if isinstance(node, Function | ast.ClassDef):
        return {node.name}
    parts = [*ast.walk(node)]
    stored = {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    defined = {part.name for part in parts if isinstance(part, ast.FunctionDef | ast.ClassDef)}
    aliases = [alias for part in parts if isinstance(part, ast.Import | ast.ImportFrom) for alias in part.names]
    return stored | defined | {alias.asname or alias.name.partition(".")[0] for alias in aliases}


def inside(test: Test) -> str:
    """Return a statement that executes a test in a new module, registered in ``sys.modules`` under the name of the test's file."""
    path = test.name.partition("::")[0]
    name = path.rpartition("/")[2].removesuffix(".py")  # as pytest names it where its folder is no package
    made = f"__import__('types').ModuleType({name!r})"
    space = (
        f"(lambda names, module: names.update({{{name!r}: module}}) or vars(module).update(__file__={path!r}) or vars(module))"
    )
    return f"exec(compile({test.code!r}, '<test>', 'exec'), {space}(__import__('sys').modules, {made}))"


def across(test: Test, attempted: str, functions: frozenset[str]) -> str:
    """Return a test that uses functions of the attempt without importing them; empty if it uses anything else of the attempt.

    Packages that contain the module ``attempted``, which the attempt replaces, may offer its functions, too.
    """
    rewriter = Rewriter(attempted, functions)
    tree = ast.parse(test.code)
    for node in ast.walk(tree):
        rewriter.note(node)
    text = ast.unparse(ast.fix_missing_locations(rewriter.visit(tree)))
    return "" if rewriter.blocked or parsed(text) is None or rewriter.homes & {*imports_of([text])} else text


class Rewriter(ast.NodeTransformer):
    """Replaces what imports of the attempt bind by the names of its functions."""

    def __init__(self, attempted: str, functions: frozenset[str]) -> None:
        """Set the module and its functions."""
        self.attempted, self.functions = attempted, functions
        self.homes = {*prefixes(attempted)}
        self.names: dict[str, str] = {}
        self.modules: set[str] = set()
        self.blocked = False

    def note(self, node: ast.AST) -> None:
        """Note what an import binds: functions by their names here, and the modules that offer them."""
        if isinstance(node, ast.ImportFrom) and node.module in self.homes:
            for alias in node.names:
                if alias.name in self.functions:
                    self.names[alias.asname or alias.name] = alias.name
                elif f"{node.module}.{alias.name}" in self.homes:
                    self.modules.add(alias.asname or alias.name)
                else:
                    self.blocked |= node.module == self.attempted
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in self.homes:
                    self.modules |= {alias.asname} if alias.asname else {*prefixes(alias.name)}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        """Remove the attempt's functions and modules from an import."""
        if node.module in self.homes:
            node.names = [
                one for one in node.names if one.name not in self.functions and f"{node.module}.{one.name}" not in self.homes
            ]
        return node if node.names else None

    def visit_Import(self, node: ast.Import) -> ast.AST | None:
        """Remove the attempt's module, and packages that contain it, from an import."""
        node.names = [one for one in node.names if one.name not in self.homes]
        return node if node.names else None

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Replace another name of a function by its own."""
        return ast.Name(self.names[node.id], node.ctx) if node.id in self.names else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Replace ``module.function`` by ``function``."""
        if node.attr in self.functions and ast.unparse(node.value) in self.modules:
            return ast.Name(node.attr, node.ctx)
        return self.generic_visit(node)
