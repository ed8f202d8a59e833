"""Test functions of pytest and unittest -> statements that raise an exception on failure, which the judge runs.

Each test becomes one statement list: what it needs of its file, the test itself, and a call of it. Parameters of
``pytest.mark.parametrize`` become a loop. A test that needs fixtures of pytest cannot be run this way, and says so.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence, Set
from copy import copy
from dataclasses import dataclass

from upsolve.importers.history.modules import absolute, package_of
from upsolve.importers.recogniser.asserts import parsed

__all__ = ["Test", "across", "functions_of", "inside", "is_test_file", "read_tests"]

PREFIX = "test"


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
    make_absolute(tree, package_of(path))
    shared = [node for node in tree.body if not is_test(node) and not is_guard(node)]
    problem = "its file has fixtures that apply to every test" if any(map(is_automatic, shared)) else ""
    return [
        Test(f"{path}::{name}", problem=problem or fault) if problem or fault else Test(f"{path}::{name}", needed(shared, body))
        for node in tree.body
        if is_test(node)
        for name, body, fault in variants(node)
    ]


def make_absolute(tree: ast.Module, package: str) -> None:
    """Replace relative imports by absolute ones."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            node.module, node.level = absolute(node, package), 0


def is_test(node: ast.stmt) -> bool:
    """Return whether a statement of a test file defines tests."""
    if isinstance(node, ast.ClassDef):
        return any(methods_of(node))
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith(PREFIX)


def methods_of(node: ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the test methods of a class; none if pytest would not collect the class."""
    if node.name.startswith("Test") or is_unittest(node):
        for part in node.body:
            if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) and part.name.startswith(PREFIX):
                yield part


def is_unittest(node: ast.ClassDef) -> bool:
    """Return whether a class is a test case of unittest, by the name of a base."""
    return any(ast.unparse(base).endswith(("TestCase", "Test", "Tests", "Base")) for base in node.bases)


def is_guard(node: ast.stmt) -> bool:
    """Return whether a statement is an expression, such as a docstring, or ``if __name__ == "__main__"``."""
    return isinstance(node, ast.Expr) or (isinstance(node, ast.If) and "__name__" in ast.unparse(node.test))


def is_automatic(node: ast.stmt) -> bool:
    """Return whether a function is a fixture that pytest uses without being asked."""
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return any("fixture" in (text := ast.unparse(one)) and "autouse=True" in text for one in decorators)


def variants(node: ast.stmt) -> Iterator[tuple[str, list[ast.stmt], str]]:  # pyright: ignore[reportReturnType]
    """Yield name, statements and problem of each test that a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        plain, call, problem = called(node, node.name)
        yield node.name, [plain, *call], problem
    elif isinstance(node, ast.ClassDef):
        for method in methods_of(node):
            yield f"{node.name}::{method.name}", *of_class(node, method)


def of_class(node: ast.ClassDef, method: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[list[ast.stmt], str]:
    """Return the statements of one test of a class, and its problem."""
    others = {one for one in methods_of(node) if one is not method}
    plain, call, problem = called(method, f"{node.name}().{method.name}")
    parts = [plain if part is method else part for part in node.body if part not in others]
    decorators = [one for one in node.decorator_list if not ast.unparse(one).startswith("pytest.")]
    kept = copy(node)
    kept.body, kept.decorator_list = parts, decorators
    if is_unittest(node):
        run = f"__import__('unittest').TestSuite([{node.name}({method.name!r})]).debug()"
        return [kept, *ast.parse(run).body], problem
    ready = [part.name for part in parts if isinstance(part, ast.FunctionDef) and part.name.startswith(("setup", "teardown"))]
    marked = "its class has marks of pytest" if len(decorators) < len(node.decorator_list) else ""
    return [kept, *call], problem or marked or (f"its class has {ready[0]}" if ready else "")


def called(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> tuple[ast.stmt, list[ast.stmt], str]:
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
    given = {one for names, _ in loops for one in names}
    left = [
        one.arg for one in node.args.args[: len(node.args.args) - len(node.args.defaults)] if one.arg not in {*given, "self"}
    ]
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
    kept: set[int] = set()
    names = used_names(body)
    while True:
        more = [i for i, node in enumerate(shared) if i not in kept and ("*" in (bound := bound_by(node)) or bound & names)]
        if not more:
            parts = [used_part(node, names) for index, node in enumerate(shared) if index in kept]
            return ast.unparse(ast.Module([*parts, *body], []))
        kept |= {*more}
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
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    parts = [*ast.walk(node)]
    stored = {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    defined = {part.name for part in parts if isinstance(part, ast.FunctionDef | ast.ClassDef)}
    aliases = [alias for part in parts if isinstance(part, ast.Import | ast.ImportFrom) for alias in part.names]
    return stored | defined | {alias.asname or alias.name.partition(".")[0] for alias in aliases}


def functions_of(tree: ast.Module | None) -> frozenset[str]:
    """Return the functions that a module defines at its top level."""
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef)) if tree else frozenset()


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

    Args:
        test: the test.
        attempted: module that the attempt replaces; packages that contain it may offer its functions, too.
        functions: its functions.
    """
    rewriter = Rewriter(attempted, functions)
    tree = ast.parse(test.code)
    for node in ast.walk(tree):
        rewriter.note(node)
    text = ast.unparse(ast.fix_missing_locations(rewriter.visit(tree)))
    rewritten = parsed(text)
    return "" if rewriter.blocked or rewritten is None or uses(rewritten, attempted) else text


def uses(tree: ast.AST, attempted: str) -> bool:
    """Return whether a module, or a package that contains it, is imported."""
    homes = {attempted, *homes_of(attempted)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in homes:
            return True
        if isinstance(node, ast.Import) and any(alias.name in homes for alias in node.names):
            return True
    return False


def homes_of(attempted: str) -> Sequence[str]:
    """Return the packages that contain a module."""
    parts = attempted.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


class Rewriter(ast.NodeTransformer):
    """Replaces what imports of the attempt bind by the names of its functions."""

    def __init__(self, attempted: str, functions: frozenset[str]) -> None:
        """Set the module and its functions."""
        self.attempted, self.functions = attempted, functions
        self.homes = {attempted, *homes_of(attempted)}
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
                    self.modules |= {alias.asname} if alias.asname else {alias.name, *homes_of(alias.name)}

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
