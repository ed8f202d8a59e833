"""Tests as Python code -> test cases: asserts with their setup, test functions, ``check(candidate)``, doctests, comparisons.

Statements are independent if they share no state: then each assertion is a test of its own, with the imports, functions and constants that it
reads. Assertions that share a variable which could change (``s = Stack()``) are one test, in their order.
"""

import ast
import doctest
import re
import sys
import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from dataclasses import replace
from itertools import compress
from typing import TypeGuard

from upsolve.importers.recogniser import suites
from upsolve.importers.recogniser.asserts import BUILTINS, call_test, constant, names_in, parsed
from upsolve.importers.recogniser.failing import About, Found, Module, asserts, is_shared, touches
from upsolve.importers.rows import data_in
from upsolve.types import TestCase, TestKind

__all__ = ["FENCE", "NEAR", "check_tests", "functions_of", "sound_suite", "sound_tests", "tests_in_code"]

SOLUTIONS = frozenset(
    "solution solutions main submission answer student program attempt candidate your_module your_code your_solution code module "  # noqa: SIM905
    "code_under_test implementation solution_module mymodule my_module my_solution".split()
)
"""Names of modules under which tests import the attempt."""
CANDIDATES = ("candidate", "func", "fn", "function", "solution", "f")
RUNNERS = frozenset({"unittest.main", "pytest.main", "doctest.testmod", "testmod", "sys.exit", "exit", "quit"})
SKIPS = frozenset({"skip", "xfail", "expectedFailure"})
"""Decorators of tests whose outcome does not count."""
JUDGING = frozenset("all any isinstance issubclass callable isclose allclose array_equal".split())  # noqa: SIM905
"""Functions whose value, as a statement of its own, is meant as a test."""
ARROW = re.compile(r"\s*(.+?)\s*(?:->|=>|-->|➞|→|⇒)\s*(.+?)\s*")
MOST_ARROW = 10_000
DEFINED = (ast.FunctionDef, ast.ClassDef)
FENCE = re.compile(r"\s*```\w*[ \t]*\n(.*)\n[ \t]*```\s*", re.DOTALL)
BULLET = re.compile(r"[ \t]*(?:[-*\u2022]|\d{1,6}[.)])[ \t]+(?=\S)")
"""Matches the mark that begins a line of a list, such as ``- f(1) == 2``."""


def tests_in_code(source: str, about: About, *, whole: bool = False) -> Found:
    """Return the tests in Python source; ``whole``: all statements are one test.

    Raises:
        ValueError: the text is not Python, or has nothing like a test; the message names the line.
    """
    body, source = statements(plain(source), about)
    if "pytest" in source:
        body = without_pytest(body)
        source = ast.unparse(ast.Module(body, []))
        body = ast.parse(source).body
    checks = [node for node in body if isinstance(node, ast.FunctionDef) and is_check(node, body)]
    if len(checks) == 1:
        return check_in(checks[0], body, source, about)
    uncalled = lone_function(body)
    if uncalled:
        body, source = statements(f"{source}\n\n{uncalled}()\n", about)
    module = Module(body, source, about)
    tested = [node for node in body if is_suite(node)]
    cases, refused, left_out = tuple[TestCase, ...](), list[tuple[str, str]](), tuple[str, ...]()
    if tested:
        head = [node for node in body if not is_suite(node) and not module.is_test(node)]
        suite = suites.pytest_tests(ast.unparse(ast.Module([*head, *tested], [])), module="")
        refused = [*empty_tests(tested, module)]
        skipped = {name for why, name in refused if why == "is skipped"}
        left_out = tuple(name for name in suite.left_out if name not in skipped)
        refused = [(why, name) for why, name in refused if name not in left_out]
        empty = {name for _, name in refused}
        cases = tuple(compress(suite.tests, (name not in empty for name in suite.names)))
        refused += [("needs fixtures, teardown or async, which only pytest runs", name) for name in left_out]
    others = module.tests(tested, whole=whole)
    kept = () if refused else (*(True for _ in cases), *others.kept)
    refused += [(why, text) for why, text in others.refused if not tested or why != "asserts nothing"]  # what tests share
    return Found((*cases, *others.tests), refused=tuple(refused), kept=kept, left_out=left_out)


def without_pytest(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Return a module of tests that depends less on pytest: fixtures become functions that tests call; ``raises`` and ``fail`` become unittest's.

    A fixture stays if it yields, has ``params``, needs a fixture that stays, or applies to every test.
    """
    taken = [node for node in body if isinstance(node, ast.ImportFrom) and node.module == "pytest"]
    names = {
        alias.asname or alias.name: ast.parse(f"pytest.{alias.name}", mode="eval").body
        for node in taken
        for alias in node.names
    }
    plain = [suites.Own(names).visit(node) for node in body if node not in taken]
    fixtures = {node.name: node for node in plain if isinstance(node, ast.FunctionDef) and is_plain_fixture(node)}
    while others := [name for name, node in fixtures.items() if any(one.arg not in fixtures for one in node.args.args)]:
        fixtures = {name: node for name, node in fixtures.items() if name not in others}
    for node in [part for one in plain for part in (one, *getattr(one, "body", ()))]:
        if isinstance(node, ast.FunctionDef) and (node.name.startswith("test") or node.name in fixtures):
            call_fixtures(node, fixtures)
    for name, node in fixtures.items():
        node.name, node.decorator_list = f"fixture_{name}", []
    found = Unittest()
    plain = [node if isinstance(node, ast.With) and node.items[0].optional_vars else found.visit(node) for node in plain]
    before = "import unittest\n" * found.used + NEAR * found.needs_near
    return [ast.fix_missing_locations(node) for node in [*ast.parse(before).body, *plain]]


def is_plain_fixture(node: ast.FunctionDef) -> bool:
    """Return whether a function is a fixture that returns a value."""
    marks = [ast.unparse(one) for one in node.decorator_list]
    return (
        len(marks) == 1
        and marks[0].split("(")[0] == "pytest.fixture"
        and not re.search(r"\b(autouse|params|name)=", marks[0])
        and not any(isinstance(part, ast.Yield) for part in ast.walk(node))
    )


def call_fixtures(node: ast.FunctionDef, fixtures: Collection[str]) -> None:
    """Replace the parameters of a test that are fixtures by calls at its beginning."""
    marked = " ".join(map(ast.unparse, node.decorator_list))
    used = [one for one in node.args.args if one.arg in fixtures and not re.search(rf"\b{one.arg}\b", marked)]
    node.args.args = [one for one in node.args.args if one not in used]
    node.body = [*(ast.parse(f"{one.arg} = fixture_{one.arg}()").body[0] for one in used), *node.body]


NEAR = data_in("programs.yaml")["is_near"]


class Unittest(ast.NodeTransformer):
    """Replaces ``pytest.raises`` and ``pytest.fail`` by unittest's equivalents, and ``== pytest.approx(NUMBER)`` by its tolerance.

    ``used``: whether unittest is needed; ``needs_near``: whether ``NEAR`` is.
    """

    used = needs_near = False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """Replace calls in a function, unless it reads more of a caught exception than its value."""
        parts = [*ast.walk(node)]
        caught = {
            part.optional_vars.id
            for part in parts
            if isinstance(part, ast.withitem)
            and isinstance(part.optional_vars, ast.Name)
            and is_of_pytest(part.context_expr, "raises")
        }
        read = [
            part
            for part in parts
            if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id in caught
        ]
        if all(part.attr == "value" for part in read):
            for part in read:
                part.attr = "exception"
            self.generic_visit(node)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """Replace ``x == approx(y, rel, abs)`` by a call of ``NEAR``."""
        self.generic_visit(node)
        sides = [node.left, *node.comparators]
        near = next((one for one in reversed(sides) if is_of_pytest(one, "approx")), None)
        if len(sides) != 2 or not isinstance(node.ops[0], ast.Eq | ast.NotEq) or near is None or not near.args:
            return node
        (other,) = (one for one in sides if one is not near)
        given = [*map(ast.unparse, (other, *near.args)), *(f"{one.arg}={ast.unparse(one.value)}" for one in near.keywords)]
        self.needs_near = True
        negated = "not " * isinstance(node.ops[0], ast.NotEq)
        return ast.parse(f"{negated}is_near({', '.join(given)})", mode="eval").body

    def visit_Call(self, node: ast.Call) -> ast.Call:
        """Replace a call."""
        self.generic_visit(node)
        keys = [one.arg for one in node.keywords]
        if is_of_pytest(node, "fail") and not keys:
            method = "fail"
        elif is_of_pytest(node, "raises") and (not keys or (keys == ["match"] and len(node.args) == 1)):
            method = "assertRaisesRegex" if keys else "assertRaises"
            node.args, node.keywords = [*node.args, *(one.value for one in node.keywords)], []
        else:
            return node
        self.used = True
        node.func = ast.parse(f"unittest.TestCase().{method}", mode="eval").body
        return node


def is_of_pytest(node: ast.expr, name: str) -> TypeGuard[ast.Call]:
    """Return whether an expression calls a function of pytest."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) == f"pytest.{name}"


def plain(source: str) -> str:
    """Return the text of tests as Python: without fences and list marks, doctests as asserts, lines ``f(1) -> 2`` as comparisons."""
    text = source.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    text = textwrap.dedent(fenced[1] if (fenced := FENCE.fullmatch(text)) else text)
    if re.search(r"^[ \t]*>>>", text, re.MULTILINE):
        tree = parsed(text)
        return "\n".join(asserts_of(text) if tree is None else in_docstrings(tree))
    lines = [line for line in text.split("\n") if line.strip()]
    if lines and all(map(BULLET.match, lines)):
        text = "\n".join(BULLET.sub("", line, count=1) for line in lines)
    if parsed(text) is not None:
        return text.strip("\n")
    others = (arrows(text), text.replace("\xa0", " "), "" if "\n" in text else text.replace("\\n", "\n"))
    return next((other for other in others if other != text and other and parsed(other) is not None), text.strip("\n"))


def in_docstrings(tree: ast.Module) -> Iterator[str]:
    """Yield the statements of a module; replaces documented functions and classes by the doctests in their docstrings."""
    for node in tree.body:
        text = ast.get_docstring(node) if isinstance(node, ast.FunctionDef | ast.ClassDef) else None
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            text = textwrap.dedent(value.value)
        if text and ">>>" in text:
            yield from asserts_of(text)
        else:
            yield ast.unparse(node)


def arrows(text: str) -> str:
    """Return lines of calls and values, ``f(1) -> 2``, as comparisons; empty for other text."""
    lines = [line for line in text.splitlines() if line.strip()]
    found = [ARROW.fullmatch(line) if len(line) < MOST_ARROW else None for line in lines]
    pairs = [f"({match[1]}) == ({match[2]})" for match in found if match]
    whole = "\n".join(pairs)
    return whole if pairs and len(pairs) == len(lines) and (tree := parsed(whole)) and len(tree.body) == len(pairs) else ""


def asserts_of(text: str) -> Iterator[str]:
    """Yield the statements of doctests; turns expected outputs into assertions."""
    for example in doctest.DocTestParser().get_examples(text):
        source, want = example.source.rstrip("\n"), example.want.rstrip("\n")
        tree = parsed(source)
        value = tree.body[0].value if tree and len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr) else None
        if example.exc_msg is not None:
            name, _, message = example.exc_msg.strip().partition(": ")
            handler = f"    assert str(error) == {message!r}" if message and "..." not in message else "    pass"
            tried = f"try:\n{textwrap.indent(source, '    ')}\nexcept {name.rpartition('.')[2]} as error:\n{handler}"
            yield f"{tried}\nelse:\n    raise AssertionError({want[-200:]!r})"
        elif not want or value is None or "..." in want:
            yield source
        elif isinstance(value, ast.Call) and ast.unparse(value.func) == "print" and len(value.args) == 1:
            yield f"assert str({ast.unparse(value.args[0])}) == {want!r}"
        else:
            shown = found.body[0] if (found := parsed(want)) and len(found.body) == 1 else None
            literal = isinstance(shown, ast.Expr) and constant(shown.value) is not None
            yield f"assert ({ast.unparse(value)}) == {want}" if literal else f"assert repr({ast.unparse(value)}) == {want!r}"


def statements(source: str, about: About) -> tuple[list[ast.stmt], str]:
    """Return the statements of a module of tests and its text, without statements that only a runner needs."""
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise ValueError(f"tests: line {error.lineno}: {error.msg}: {str(error.text or '').strip()[:60]!r}") from None
    except (RecursionError, MemoryError) as error:
        raise ValueError(f"tests: nested too deeply: {error}") from None
    flat = [part for node in tree.body for part in (node.body if suites.is_main(node) and isinstance(node, ast.If) else [node])]
    aliases = [alias for node in flat if isinstance(node, ast.ImportFrom) and node.module == "unittest" for alias in node.names]
    runners = RUNNERS | {alias.asname or alias.name for alias in aliases if alias.name == "main"}
    kept = [
        node for node in flat if not is_runner(node, runners) and not (isinstance(node, DEFINED) and node.name in about.own)
    ]
    changed = len(kept) < len(tree.body) or len(flat) != len(tree.body)
    renamed, modules, body = dict[str, ast.expr](), set[str](), list[ast.stmt]()
    for node in kept:
        if isinstance(node, ast.ImportFrom) and (
            node.level
            or stands_for_attempt(node.module or "", about)
            or names_of_attempt(node, {one.name for one in node.names}, about)
        ):
            renamed |= {alias.asname: ast.Name(alias.name, ast.Load()) for alias in node.names if alias.asname}
        elif isinstance(node, ast.Import) and all(
            stands_for_attempt(alias.name, about) or names_of_attempt(node, attributes(tree, alias), about)
            for alias in node.names
        ):
            modules |= {alias.asname or alias.name for alias in node.names}
        else:
            body.append(node)
    changed |= len(body) < len(kept)
    if renamed or modules:
        own = suites.Own(renamed, modules)
        body = [own.visit(node) for node in body]
    if "self" in source and any("self" in reads - binds for binds, reads in map(names_in, body)):
        body = [*ast.parse("import unittest\nself = unittest.TestCase()").body, *body]
        changed = True
    compared = [as_assert(node) for node in body]
    if changed or compared != body:
        source = ast.unparse(ast.fix_missing_locations(ast.Module(compared, [])))
        return ast.parse(source).body, source
    return body, source


def stands_for_attempt(module: str, about: About) -> bool:
    """Return whether an imported module stands for the attempt."""
    return module.split(".")[-1] in SOLUTIONS or module.split(".")[0] in SOLUTIONS or (module != "" and module in about.own)


def names_of_attempt(node: ast.Import | ast.ImportFrom, names: Set[str], about: About) -> bool:
    """Return whether imported names are the attempt's: they are in its entry point, or a program defines them and no standard module does."""
    if names & about.own and isinstance(node, ast.ImportFrom):
        return True
    modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    if not names or any(module.partition(".")[0] in sys.stdlib_module_names for module in modules):
        return False
    return any(names <= names_defined(code) for code in about.programs())


def names_defined(code: str) -> frozenset[str]:
    """Return the names that a program binds at its top level, without those that it imports itself."""
    body = tree.body if (tree := parsed(code)) else []
    return names_in(ast.Module([node for node in body if not isinstance(node, ast.Import | ast.ImportFrom)], []))[0]


def attributes(tree: ast.AST, alias: ast.alias) -> set[str]:
    """Return the attributes of an imported module that code names."""
    name = alias.asname or alias.name
    parts = (part for part in ast.walk(tree) if isinstance(part, ast.Attribute))
    return {part.attr for part in parts if isinstance(part.value, ast.Name) and part.value.id == name}


def is_runner(node: ast.stmt, runners: Collection[str]) -> bool:
    """Return whether a statement only starts tests, or is a string or an ellipsis."""
    if not isinstance(node, ast.Expr):
        return isinstance(node, ast.Pass)
    if isinstance(node.value, ast.Constant):
        return isinstance(node.value.value, str) or node.value.value is ...
    return isinstance(node.value, ast.Call) and ast.unparse(node.value.func) in runners


def as_assert(node: ast.stmt) -> ast.stmt:
    """Return a comparison that is a statement of its own, such as ``f(1) == 2``, as an assert; other statements unchanged."""
    value = node.value if isinstance(node, ast.Expr) else None
    judges = isinstance(value, ast.Compare | ast.BoolOp) or (isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not))
    if isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] in JUDGING:
        judges = True
    return ast.copy_location(ast.Assert(value, None), node) if judges and value else node


def is_suite(node: ast.stmt) -> bool:
    """Return whether a statement is a test function, or a class of tests."""
    bases = " ".join(map(ast.unparse, node.bases)) if isinstance(node, ast.ClassDef) else ""
    return suites.is_test(node) or (isinstance(node, ast.ClassDef) and (node.name.startswith("Test") or "TestCase" in bases))


def is_check(node: ast.FunctionDef, body: Sequence[ast.stmt]) -> bool:
    """Return whether a function takes the attempt's function and tests it, as ``check`` of HumanEval does."""
    needed = node.args.args[: len(node.args.args) - len(node.args.defaults)]
    if len(needed) != 1 or node.decorator_list or not asserts(node):
        return False
    called = any(is_call_of(other, node.name) for other in body)
    return node.name == "check" or (called and needed[0].arg in CANDIDATES) or needed[0].arg == "candidate"


def is_call_of(node: ast.stmt, name: str) -> bool:
    """Return whether a statement calls a function of the tests with one argument."""
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == name and len(call.args) == 1


def lone_function(body: Sequence[ast.stmt]) -> str:
    """Return the name of the only test function, without parameters, that nothing calls; empty if there are other functions or tests."""
    defined = [node for node in body if isinstance(node, ast.FunctionDef) and not node.args.args and asserts(node)]
    others = any(is_suite(node) or isinstance(node, ast.Assert) for node in body)
    if not defined or others:
        return ""
    read = {name for node in body if node not in defined for name in names_in(node)[1]}
    free = [node.name for node in defined if node.name not in read]
    return free[0] if len(free) == 1 else ""


def check_in(check: ast.FunctionDef, body: Sequence[ast.stmt], source: str, about: About) -> Found:
    """Return the tests of a module with ``def check(candidate)``."""
    calls = [node for node in body if is_call_of(node, check.name)]
    called = ast.unparse(calls[0].value.args[0]) if calls else ""  # type: ignore[attr-defined]
    entry = about.entry_point or called
    if not entry:
        defined = [name for code in about.programs() for name in functions_of(code)]
        entry = defined[0] if len(defined) == 1 else ""
    if not entry:
        raise ValueError(
            f"tests: {check.name}({check.args.args[0].arg}) takes a function; name the function with --entry_point COLUMN"
        )
    if calls:
        source = ast.unparse(ast.Module([node for node in body if node not in calls], []))
    found = sound_tests(check_tests(source, entry, name=check.name), replace(about, entry_point=entry, hidden=True))
    return found if about.entry_point else replace(found, entry_point=entry)


def functions_of(code: str, *, methods: bool = False) -> list[str]:
    """Return the names of the functions of a program (``methods``: also of its classes' methods), without helpers that others call."""
    body = tree.body if (tree := parsed(code)) else []
    body = [*body, *(part for node in body if methods and isinstance(node, ast.ClassDef) for part in node.body)]
    return [node.name for node in body if isinstance(node, ast.FunctionDef) and node.name[0] != "_"]


def refusal(test: TestCase, about: About) -> str:
    """Return why a test cannot fail; empty if it can."""
    if test.kind is not TestKind.CODE or not (tree := parsed(test.input)):
        return ""
    bound, reads = names_in(tree)
    module = Module(tree.body, test.input, about)
    if agreeing := module.agreeing():
        tree = suites.Own({}, agreeing=agreeing).visit(tree)
        module = Module(tree.body, test.input, about)
    run = (part for node in tree.body if about.lenient and not is_shared(node) for part in ast.walk(node))
    acts = any(isinstance(part, ast.Call) and ast.unparse(part.func) != "print" for part in run)
    if not acts and not any(map(module.is_test, tree.body)):
        return "asserts nothing"
    return "" if touches(reads, bound, about.own, reads & BUILTINS) else "uses nothing of the attempt"


def sound_suite(source: str, about: About) -> Found:
    """Return the tests of a unittest file that can fail; tests that cannot fail are only listed by name."""
    suite = suites.unittest_tests(source)
    body = [node for node in ast.parse(source).body if not suites.is_import_of(node, "solution")]
    whys = {name: why for why, name in empty_tests(filter(is_suite, body), Module(body, source, about))}
    return without_refused(suite.tests, [whys.get(name, "") for name in suite.names], suite.names)


def sound_tests(tests: Sequence[TestCase], about: About) -> Found:
    """Return tests of an importer, except those that cannot fail whatever the attempt does."""
    return without_refused(tests, [refusal(test, about) for test in tests], [test.input for test in tests])


def without_refused(tests: Sequence[TestCase], whys: Sequence[str], names: Sequence[str]) -> Found:
    """Return the tests without a reason against them; the others are refused under their names."""
    kept = tuple(not why for why in whys)
    refused = tuple((why, name) for why, name in zip(whys, names, strict=True) if why)
    return Found(tuple(compress(tests, kept)), refused=refused, kept=kept)


def check_tests(source: str, entry: str, *, name: str = "check") -> tuple[TestCase, ...]:
    """Unroll ``def check(candidate)`` into one test per assert; a body with other statements becomes one CODE test.

    ``entry``: the tested function, or an expression for it; ``name``: the name of the testing function.
    """
    whole_body = TestCase(TestKind.CODE, f"{source}\n{name}({entry})", "", True)
    checks = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == name]
    if len(checks) != 1:
        return (whole_body,)
    callee = ast.parse(entry, mode="eval").body
    body = [node for node in checks[0].body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
    rename = suites.Own({checks[0].args.args[0].arg if checks[0].args.args else "candidate": callee})
    body = [rename.visit(node) for node in body]
    own, (bound, read) = names_in(callee)[1], names_in(ast.Module(body, []))
    if not body or not all(isinstance(node, ast.Assert) for node in body) or not read <= own | bound | BUILTINS:
        return (whole_body,)
    found = ((node, call_test(node, own, hidden=True)) for node in body)
    return tuple(test or TestCase(TestKind.CODE, ast.unparse(node), "", True) for node, test in found)


def empty_tests(tested: Iterable[ast.stmt], module: Module) -> Iterator[tuple[str, str]]:
    """Yield the reasons and names of the tests in test functions and classes that cannot fail."""
    places = {node: at for at, node in enumerate(module.body)}
    for node in tested:
        others = [part for part in getattr(node, "body", ()) if isinstance(part, suites.Function) and not suites.is_test(part)]
        others = others if isinstance(node, ast.ClassDef) else []
        helpers = {*module.helpers, *(part.name for part in others if asserts(part, module.helpers, module.local))}
        for one in suites.variants(node, suites.RUN):
            bound, read = names_in(ast.Module(one.body, []))
            if is_skipped(node) or is_skipped(one.function):
                yield "is skipped", one.name
            elif not asserts(one.function, helpers - {one.name}, module.local):
                yield "asserts nothing", one.name
            elif not module.reaches([places[node]], read - bound):
                yield "uses nothing of the attempt", one.name


def is_skipped(node: ast.stmt) -> bool:
    """Return whether a test or a class of tests is marked as skipped or as expected to fail."""
    marks = [mark.func if isinstance(mark, ast.Call) else mark for mark in getattr(node, "decorator_list", [])]
    return any(ast.unparse(mark).rpartition(".")[2] in SKIPS for mark in marks)
