"""Test functions in the styles of unittest and pytest -> CODE tests, one per test function, so that a program can pass some of them.

``read_tests`` reads the tests of a repository. Each becomes a list of statements: those that it needs, the test itself, and a call of the test.
Parameters of ``pytest.mark.parametrize`` become a loop. In tables, simple fixtures become functions, and ``pytest.raises`` becomes unittest's. A test
with other fixtures of pytest cannot be run this way, and has a ``problem``.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from copy import copy
from dataclasses import dataclass, replace
from typing import TypeGuard, TypeVar

from upsolve.importers.recogniser.asserts import imports_of, names_in, parsed
from upsolve.types import TestCase, TestKind

__all__ = [
    "Own",
    "Suite",
    "Test",
    "absolute",
    "across",
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
DEBUG = "__import__('unittest').TestSuite([{name}({method!r})]).debug()"
"""Code that runs one unittest test. ``RUN`` reports an error of the test as an AssertionError, ``DEBUG`` raises the error itself."""
PARAMETERS, HINDERING = "pytest.mark.parametrize", ("pytest.mark.skip", "pytest.mark.xfail", "pytest.mark.usefixtures")
"""pytest marks that parametrise a test, and marks of tests that cannot be called on their own."""
CLASS, METHOD = "setup_class", "setup_method"
"""Methods that pytest calls before the tests of a class, and before each test."""
Function = ast.FunctionDef | ast.AsyncFunctionDef
Marked = TypeVar("Marked", bound=ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests of a file."""

    tests: tuple[TestCase, ...]
    """One per test function."""
    names: tuple[str, ...] = ()
    """Name of the function of each, such as ``TestAdd.test_zero``."""
    left_out: tuple[str, ...] = ()
    """Names of test functions that cannot be called on their own, since they use fixtures."""


def unittest_tests(source: str) -> Suite:
    """Return the tests of classes derived from TestCase; ValueError if there are none, SyntaxError if the source is not Python."""
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    derived = [node for node in classes if any("TestCase" in ast.unparse(base) for base in node.bases)]
    found = [(node.name, part.name) for node in derived for part in node.body if is_test(part)]
    if not found:
        raise ValueError("no class derived from TestCase has a method whose name begins with test")
    texts = (source.rstrip() + "\n" + RUN.format(name=name, method=method) for name, method in found)
    return Suite(tuple(TestCase(TestKind.CODE, text, "", True) for text in texts), tuple(map(".".join, found)))


def pytest_tests(source: str, *, module: str = "solution") -> Suite:
    """Return the tests of a file for pytest; SyntaxError if the source is not Python.

    Imports from ``module`` are left out, since the attempt is there already. Tests with several ``parametrize`` are left out, too.
    """
    shared: list[ast.stmt] = []
    found: list[Variant] = []
    for node in ast.parse(source).body:
        if not (is_import_of(node, module) or is_import_of(node, "pytest") or is_main(node)):
            some = [*variants(node, RUN)]
            found += some
            shared += [] if some else [node]
    usable = [one for one in found if one.is_single]
    alone = by_name(one.function for one in found if one.name == one.function.name)
    texts = [f"{ast.unparse(ast.Module([*shared, *others_of(one, alone), *one.body], []))}\n" for one in usable]
    uses = [any(isinstance(part, ast.Name) and part.id == "pytest" for part in ast.walk(ast.parse(text))) for text in texts]
    texts = [f"import pytest\n{text}" if used else text for text, used in zip(texts, uses, strict=True)]
    names, left_out = (tuple(one.name for one in found if one.is_single is single) for single in (True, False))
    return Suite(tuple(TestCase(TestKind.CODE, text, "", True) for text in texts), names, left_out)


def is_test(node: ast.stmt) -> TypeGuard[Function]:
    """Return whether a statement is a test function."""
    return isinstance(node, Function) and node.name.startswith("test")


def is_import_of(node: ast.stmt, module: str) -> bool:
    """Return whether a statement imports a module or from it."""
    if isinstance(node, ast.ImportFrom):
        return node.module == module
    return isinstance(node, ast.Import) and [alias.name for alias in node.names] == [module]


def is_main(node: ast.stmt) -> bool:
    """Return whether a statement is ``if __name__ == "__main__"``."""
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


ROOTS = ("src", "lib")
"""Folders at the top of a repository that hold packages, but are not packages."""


@dataclass(frozen=True, slots=True)
class Test:
    """A test of a file."""

    __test__ = False

    name: str
    """Name as pytest writes it, without parameters: ``tests/test_text.py::TestSlug::test_case``."""
    code: str = ""
    """Statements that raise an exception on failure; imports are absolute."""
    problem: str = ""
    """Why the test cannot be run; empty if it can."""
    requires: tuple[str, ...] = ()
    """Packages outside of the standard library that the test imports."""


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
    """Return whether a path is a test file, as pytest finds them: ``test_*.py`` or ``*_test.py``; benchmarks are not test files."""
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
    tests = {node: [*variants(node, DEBUG)] for node in tree.body}
    shared = [node for node in tree.body if not tests[node] and not isinstance(node, ast.Expr) and not is_main(node)]
    marks = [ast.unparse(one) for node in shared if isinstance(node, ast.FunctionDef) for one in node.decorator_list]
    alone = by_name(node for node in tree.body if is_test(node))
    automatic = any("fixture" in mark and "autouse=True" in mark for mark in marks)
    problem = "its file has fixtures that apply to every test" if automatic else ""
    return [
        Test(
            f"{path}::{one.name.replace('.', '::')}",
            "" if problem or one.problem else needed([*shared, *others_of(one, alone)], one.body),
            problem or one.problem,
        )
        for found in tests.values()
        for one in found
    ]


@dataclass(frozen=True, slots=True)
class Variant:
    """A test function, separated from its file."""

    name: str
    """Name of the test, with its class: ``TestSlug.test_case``."""
    function: Function
    """The unchanged function."""
    body: list[ast.stmt]
    """Definition of the test, without marks of pytest and other tests of its class, and a call of the test."""
    problem: str = ""
    """Why the test cannot be called on its own; empty if it can."""
    loops: int = 0
    """Number of marks ``parametrize`` of the test."""

    @property
    def is_single(self) -> bool:
        """Whether the test can be called on its own, in at most one loop."""
        return not self.problem and self.loops < 2


def variants(node: ast.stmt, run: str) -> Iterator[Variant]:
    """Yield the tests that a statement defines; ``run`` is code that runs ``{method}`` of a class ``{name}`` of unittest."""
    if is_test(node):
        yield called(node, node.name)
    elif isinstance(node, ast.ClassDef):
        in_unittest = any(ast.unparse(base).endswith(("TestCase", "Test", "Tests", "Base")) for base in node.bases)
        methods, rest = by_name(part for part in node.body if is_test(part)), [part for part in node.body if not is_test(part)]
        for method in (one for one in node.body if is_test(one)) if in_unittest or node.name.startswith("Test") else ():
            yield of_class(node, method, methods, rest, run if in_unittest else "")


def by_name(functions: Iterable[Function]) -> dict[str, list[Function]]:
    """Return functions by their name."""
    found: dict[str, list[Function]] = {}
    for one in functions:
        found.setdefault(one.name, []).append(one)
    return found


def of_class(
    node: ast.ClassDef, method: Function, methods: Mapping[str, Sequence[Function]], rest: Sequence[ast.stmt], run: str
) -> Variant:
    """Return one test of a class, without the class's other tests.

    ``methods``: its tests by name; ``rest``: its other statements; ``run``: code for a class of unittest, empty for another class.
    """
    alone, name = called(method, f"{node.name}().{method.name}"), f"{node.name}.{method.name}"
    used = tests_named([*rest, method], methods) - {method}
    parts = [*rest, alone.body[0], *(without_marks(one)[0] for one in used)]
    definition, marks = without_marks(node)
    definition.body = sorted(parts, key=lambda one: (one.lineno, one.col_offset))
    if run:
        return Variant(name, method, [definition, *ast.parse(run.format(name=node.name, method=method.name)).body])
    marked = "its class has marks of pytest" if any(mark.split("(")[0] in (*HINDERING, PARAMETERS) for mark in marks) else ""
    ready, other = prepared(definition, method)
    problem = alone.problem or marked or (f"its class has {other}" if other else "")
    return replace(alone, name=name, body=[definition, *ready, *alone.body[1:]], problem=problem)


def prepared(definition: ast.ClassDef, method: Function) -> tuple[list[ast.stmt], str]:
    """Let a pytest class set itself up: ``setup_method`` when it is created, ``setup_class`` by the returned statements.

    Also returns the name of a method that cannot run this way, such as a teardown, since it may assert.
    """
    named = {part.name: part for part in definition.body if isinstance(part, ast.FunctionDef)}
    other = next((name for name in named if name.startswith(("setup", "teardown")) and name not in (CLASS, METHOD)), "")
    ready = list[ast.stmt]()
    if CLASS in named:
        given = "" if named[CLASS].decorator_list else definition.name
        ready = ast.parse(f"{definition.name}.{CLASS}({given})").body
    if METHOD in named:
        given = f"self.{method.name}" if len(named[METHOD].args.args) > 1 else ""
        start = ast.parse(f"def __init__(self):\n    self.{METHOD}({given})").body
        definition.body = [*start, *definition.body]
    return ready, other


def tests_named(body: Iterable[ast.AST], tests: Mapping[str, Sequence[Function]]) -> set[Function]:
    """Return the tests whose names occur in code, directly or through other tests: the code may call them."""
    found, waiting = set[Function](), [*body]
    while waiting:
        parts = [part for node in waiting for part in ast.walk(node)]
        names = {part.id for part in parts if isinstance(part, ast.Name)} | {
            part.attr for part in parts if isinstance(part, ast.Attribute)
        }
        waiting = [one for name in names for one in tests.get(name, ()) if one not in found]
        found |= {*waiting}
    return found


def others_of(test: Variant, functions: Mapping[str, Sequence[Function]]) -> list[Function]:
    """Return the other test functions of a file that a test names, by name, in order, without pytest's marks."""
    used = tests_named(test.body, functions) - {test.function}
    return [without_marks(one)[0] for one in sorted(used, key=lambda one: one.lineno)]


def without_marks(node: Marked) -> tuple[Marked, dict[str, ast.expr]]:
    """Return a copy of a test function or class without the marks of pytest, and these marks by their text."""
    texts = {ast.unparse(one): one for one in node.decorator_list}
    marks = {text: one for text, one in texts.items() if text.startswith("pytest.mark.")}
    plain = copy(node)
    plain.decorator_list = [one for one in node.decorator_list if one not in marks.values()]
    return plain, marks


def called(node: Function, name: str) -> Variant:
    """Return a test function without pytest's marks, and the statements that call it by a name."""
    plain, marks = without_marks(node)
    if isinstance(node, ast.AsyncFunctionDef):
        return Variant(node.name, node, [plain], "it is asynchronous")
    if found := next((text for text in marks if text.split("(")[0] in HINDERING), ""):
        return Variant(node.name, node, [plain], f"it has the mark {found[12:40]}")
    loops = [loop_of(mark) for text, mark in marks.items() if text.startswith(PARAMETERS)]
    known = [*filter(None, loops)]
    if len(known) < len(loops):
        return Variant(node.name, node, [plain], "its parameters are not written in its file")
    given = {"self", *(one for names, _ in known for one in names)}
    needed = node.args.args[: len(node.args.args) - len(node.args.defaults)]
    left = [one.arg for one in needed if one.arg not in given]
    if left and not plain.decorator_list:
        return Variant(node.name, node, [plain], f"it needs the fixture {left[0]}")
    return Variant(node.name, node, [plain, *calls(name, known)], loops=len(known))


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
    """Return the values of ``pytest.param(...)`` without its id; any other expression unchanged."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.param" and {one.arg for one in node.keywords} <= {"id"}:
        return node.args[0] if single else ast.Tuple(node.args, ast.Load())
    return node


def calls(name: str, loops: Sequence[tuple[list[str], ast.expr]]) -> list[ast.stmt]:
    """Return statements that call a test with each of its sets of parameters."""
    text, given = "", list[str]()
    for depth, (names, values) in enumerate(loops):
        case = f"case_{depth}" if depth else "case"
        text += f"{'    ' * depth}for {case} in {ast.unparse(values)}:\n"
        given += [f"{names[0]}={case}"] if len(names) == 1 else [f"**dict(zip({names!r}, {case}))"]
    return ast.parse(f"{text}{'    ' * len(loops)}{name}({', '.join(given)})").body


def needed(shared: Sequence[ast.stmt], body: Sequence[ast.stmt]) -> str:
    """Return the statements of a file that a test needs, directly or indirectly, in order, and the test's own statements, as text."""
    used: set[int] = set()
    names = names_in(ast.Module([*body], []))[1]
    while more := [at for at, node in enumerate(shared) if at not in used and names_in(node)[0] & {"*", *names}]:
        used |= {*more}
        names = names.union(*(names_in(shared[at])[1] for at in more))
    parts = [used_part(node, names) for at, node in enumerate(shared) if at in used]
    return ast.unparse(ast.Module([*parts, *body], []))


def used_part(node: ast.stmt, names: Set[str]) -> ast.stmt:
    """Return an import with only its used names; any other statement unchanged."""
    if not isinstance(node, ast.Import | ast.ImportFrom):
        return node
    part = copy(node)
    part.names = [one for one in node.names if one.name == "*" or (one.asname or one.name.partition(".")[0]) in names]
    return part


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
    """Return a test that uses functions of the attempt without importing them; empty if it uses other parts of the attempt.

    Packages that contain the module ``attempted``, which the attempt replaces, may offer its functions, too.
    """
    tree, homes = ast.parse(test.code), {*prefixes(attempted)}
    names, modules = dict[str, ast.expr](), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in homes:
            inside = {one.name for one in node.names if f"{node.module}.{one.name}" in homes}
            if node.module == attempted and any(one.name not in {*functions, *inside} for one in node.names):
                return ""
            modules |= {one.asname or one.name for one in node.names if one.name in inside - functions}
            names |= {one.asname or one.name: ast.Name(one.name, ast.Load()) for one in node.names if one.name in functions}
            node.names = [one for one in node.names if one.name not in {*functions, *inside}]
        elif isinstance(node, ast.Import):
            own = [one for one in node.names if one.name in homes]
            modules |= {name for one in own for name in ([one.asname] if one.asname else prefixes(one.name))}
            node.names = [one for one in node.names if one not in own]
    text = ast.unparse(ast.fix_missing_locations(Own(names, modules).visit(tree)))
    return "" if parsed(text) is None or homes & {*imports_of([text])} else text


class Own(ast.NodeTransformer):
    """Replaces aliases of the attempt's names, attributes of modules that alias the attempt, and calls that always return a true value."""

    def __init__(self, names: Mapping[str, ast.expr], modules: Iterable[str] = (), agreeing: Iterable[str] = ()) -> None:
        self.names, self.modules, self.agreeing = names, frozenset(modules), frozenset(agreeing)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace a name."""
        return self.names.get(node.id, node) if isinstance(node.ctx, ast.Load) else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Replace ``module.f`` by ``f``."""
        if self.modules and ast.unparse(node.value) in self.modules:
            return ast.Name(node.attr, node.ctx)
        self.generic_visit(node)
        return node

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> ast.AST | None:
        """Remove an import without names."""
        return node if node.names else None

    visit_ImportFrom = visit_Import

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Replace a call by ``True``."""
        if isinstance(node.func, ast.Name) and node.func.id in self.agreeing:
            return ast.copy_location(ast.Constant(True), node)
        self.generic_visit(node)
        return node
