"""Whether a test can fail: it needs an assertion that depends on the attempt. Also: tests that share no state."""

import ast
import operator
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Any

from upsolve.importers.recogniser.asserts import BUILTINS, call_test, constant, names_bound, names_in, names_read, parsed
from upsolve.types import TestCase, TestKind

__all__ = ["About", "Compare", "Found", "Module", "asserts", "touches"]

ASSERTING = re.compile(r"_*(?:assert|fail|expect|verify|check|should|raises|exit$)", re.IGNORECASE)
"""Prefixes of functions whose calls are assertions: ``self.assertEqual``, ``np.testing.assert_allclose``, ``pytest.raises``."""
DYNAMIC = frozenset("eval exec globals locals vars getattr __import__ compile open input".split())  # noqa: SIM905
"""Builtins by which a test may use the attempt without naming it."""
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
"""Comparisons that are true for equal operands."""
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
    plain = ast.Constant | ast.BinOp | ast.List | ast.Tuple
    values = [constant(one) if isinstance(one, plain) else None for one in (left, right)]
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
    """Return whether code raises if a result is wrong: by an assertion that can fail, ``raise``, or a call of an asserting function.

    ``helpers``: functions of the tests that assert; ``local``: all functions of the tests, whose names do not show whether they assert.
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
    """Yield the statements of a function up to a return, without inner functions that nothing reads."""
    read = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    for part in node.body:
        if not isinstance(part, Function) or part.name in read or part.decorator_list:
            yield part
        if isinstance(part, ast.Return):
            return


def suppresses(item: ast.withitem) -> bool:
    """Return whether a context swallows a failed assertion: ``suppress(Exception)``."""
    call = item.context_expr
    if not isinstance(call, ast.Call) or ast.unparse(call.func).rpartition(".")[2] != "suppress":
        return False
    return any(isinstance(one, ast.Name) and one.id in CATCHING for one in call.args)


def catches(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler catches a failed assertion."""
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(one is None or (isinstance(one, ast.Name) and one.id in CATCHING) for one in caught)


def touches(reads: Collection[str], bound: Collection[str], own: Collection[str], called: Collection[str] = ()) -> bool:
    """Return whether a test that reads some names, also in the functions that it uses, uses the attempt.

    ``bound``: names that the tests and their setup bind; ``own``: functions that the attempt must define; ``called``: builtins whose calls decide the
    test. If ``own`` is empty, these builtins may be the attempt's functions (``sum``).
    """
    free = {name for name in reads if name not in bound and name not in BUILTINS}
    needed = {*own} - {*bound}
    return bool(free or DYNAMIC & {*reads} or needed & {*reads} or (not own and called) or "*" in bound)


class Compare(StrEnum):
    """Who decides whether an output is right."""

    PUBLISHER = "publisher"
    """The grader that the set was published with."""
    CONTEST = "contest"
    """Tokens must be equal; numbers may differ within a tolerance if an expected output has a decimal fraction."""
    EXACT = "exact"
    """Output must be equal, character by character."""


@dataclass(frozen=True, slots=True)
class About:
    """Facts about the task of the tests."""

    entry_point: str = ""
    """Function that the tests call, or an expression such as ``Solution().add``; empty if unknown."""
    setup: str = ""
    language: str = "python"
    codes: tuple[str, ...] = ()
    """A correct program, statement or starter code, and an attempt; each may be empty. The first that defines the function shows its form."""
    compare: Compare = Compare.CONTEST
    """Who compares values."""
    hidden: bool = False
    """Whether prompts must not show asserts, as in published sets; their tasks are kept even if none of their tests can fail."""
    published: bool = False
    """Whether tests stay as their publisher wrote them, and only accept programs of the form that they call."""
    lenient: bool = False
    """Whether a call that only must not raise is a test, as in upsolve's own files, which state the kind of each test."""

    asked: list[bool] = field(default_factory=list[bool])
    """Not empty once ``programs`` was called: the tests then depend on ``codes``."""

    def programs(self) -> Iterator[str]:
        """Yield the non-empty codes, and record in ``asked`` that they were used."""
        self.asked.append(True)
        yield from filter(None, self.codes)

    @property
    def own(self) -> frozenset[str]:
        """Names that the attempt must define."""
        return own_names(self.entry_point)


@lru_cache(maxsize=64)
def own_names(entry_point: str) -> frozenset[str]:
    """Return the names in an entry point."""
    return names_in(tree)[1] if (tree := parsed(entry_point)) else frozenset({entry_point})


@dataclass(frozen=True, slots=True)
class Found:
    """The recognised tests, and those that cannot fail."""

    tests: tuple[TestCase, ...]
    entry_point: str = ""
    """Function that the tests call, if the tests name it and it was not known."""
    refused: tuple[tuple[str, str], ...] = ()
    """Reason and text of each test that is left out."""
    kept: tuple[bool, ...] = ()
    """Whether each test, in their order, is kept; empty if all are kept, or the positions are unknown."""
    setup: str = ""
    """Code that the tests need before the attempt."""
    compare: str = ""
    """How the tests compare values; empty: as usual."""
    left_out: tuple[str, ...] = ()
    """Names of tests that only pytest can run."""


SHARED = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
"""Statements that bind immutable values."""
USUAL = frozenset(
    "print range str int float list dict tuple set bool type all any isinstance issubclass callable repr enumerate zip map filter".split()  # noqa: SIM905
)
"""Builtins that a test uses and that no attempt defines."""
ALL = ""
"""Name of the state that all statements share if one of them may change state inside the attempt."""


class Module:
    """The statements of a module of tests."""

    def __init__(self, body: Sequence[ast.stmt], source: str, about: About) -> None:
        """Find the names that each statement binds and reads."""
        self.body, self.about = body, about
        lines = source.encode().split(b"\n")
        self.texts = [text_of(lines, node) for node in body]
        names = [*map(names_in, body)]
        self.binds, self.reads = [binds for binds, _ in names], [reads for _, reads in names]
        times = Counter(name for binds in self.binds for name in binds)
        self.shared = {at for at, node in enumerate(body) if is_shared(node) or is_constant(node, times)}
        self.binders: dict[str, list[int]] = {}
        for at in self.shared:
            for name in self.binds[at]:
                self.binders.setdefault(name, []).append(at)
        self.helpers = self.asserting()

    def asserting(self) -> frozenset[str]:
        """Return the names of functions of the module that assert, also by calling one another."""
        defined = [node for node in self.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
        self.local = frozenset(node.name for node in defined)
        found = frozenset[str]()
        while (more := frozenset(node.name for node in defined if asserts(node, found, self.local))) != found:
            found = more
        return found

    def agreeing(self) -> frozenset[str]:
        """Return the names of functions of the module that assert nothing, and return a true constant for any arguments."""
        defined = [node for node in self.body if isinstance(node, ast.FunctionDef) and node.name not in self.helpers]
        ending = [node for node in defined if isinstance(node.body[-1], ast.Return)]
        found = [(node.name, [part.value for part in ast.walk(node) if isinstance(part, ast.Return)]) for node in ending]
        return frozenset(name for name, values in found if all(isinstance(one, ast.Constant) and one.value for one in values))

    def is_test(self, node: ast.stmt) -> bool:
        """Return whether running a statement asserts something."""
        return not is_shared(node) and asserts(node, self.helpers, self.local)

    @cached_property
    def outside(self) -> frozenset[str]:
        """Names that the task's setup binds; empty if the setup uses the attempt."""
        return frozenset() if names_read(self.about.setup) else names_bound(self.about.setup)

    def needed(self, names: Iterable[str]) -> tuple[set[int], frozenset[str]]:
        """Return the shared statements that bind some names, and all names that these statements read in turn."""
        needed, known = set[int](), {*names}
        waiting = known
        while waiting:
            found = {at for name in (*waiting, "*") for at in self.binders.get(name, ())} - needed
            needed |= found
            waiting = {name for at in found for name in self.reads[at]} - known
            known |= waiting
        return needed, frozenset(known)

    def reaches(self, at: Collection[int], reads: Collection[str] | None = None) -> bool:
        """Return whether statements use the attempt, directly or by the names that they read."""
        needed, reads = self.needed(reads if reads is not None else (name for one in at for name in self.reads[one]))
        bound = {name for one in {*at, *needed} for name in self.binds[one]} | (self.outside - self.about.own)
        called = {name for name in reads if name in BUILTINS and name.islower() and name not in USUAL}
        return touches(reads, bound, self.about.own, called)

    def tests(self, without: Collection[ast.stmt], *, whole: bool = False) -> Found:
        """Return the tests among the statements except ``without`` (a single test if ``whole``), and why the other statements are not tests."""
        items = [at for at, node in enumerate(self.body) if at not in self.shared and node not in without]
        tested = {at for at in items if self.is_test(self.body[at])}
        idle = [at for at in items if at not in tested and is_idle(self.body[at])]
        refused = [("is no test", self.texts[at]) for at in idle if not is_print(self.body[at]) or self.reaches([at])]
        items = [at for at in items if at in tested or not is_idle(self.body[at])]
        states, setups = self.states(items, tested)
        found = list[TestCase]()
        kept = {at: False for at in idle if isinstance(self.body[at], ast.Assert)}
        for group in sorted(map(sorted, [items] if whole and items else joined(items, states))):
            sound = bool(tested & {*group}) and self.reaches(group)
            if sound or any(isinstance(self.body[at], ast.Assert) for at in group):
                kept[min(group)] = sound
            if not tested & {*group}:
                refused += [("asserts nothing", self.texts[at]) for at in group if at not in setups]
            elif not sound:
                refused.append(("uses nothing of the attempt", self.text(group, setups)))
            else:
                found.append(self.test(group, setups))
        return Found(tuple(found), refused=tuple(refused), kept=tuple(kept[at] for at in sorted(kept)))

    def states(self, items: Sequence[int], tested: Collection[int]) -> tuple[dict[int, set[str]], set[int]]:
        """Return the names of the states that each statement uses, and the statements that set up modules, such as ``random.seed(0)``."""
        bound = {name for at in items for name in self.binds[at]}
        reads = {at: self.needed(self.reads[at])[1] for at in items}
        setups, used = set[int](), set[str]()
        for at in items:
            if at in tested or self.binds[at] or reads[at] & bound:
                continue
            if self.reaches([at]):
                used.add(ALL)
            else:
                setups.add(at)
                used |= {name for name in reads[at] if name not in BUILTINS}
        known = bound | used
        return {at: {*self.binds[at], *reads[at], ALL} & known for at in items}, setups

    def text(self, group: Collection[int], setups: Collection[int]) -> str:
        """Return the code of a test: its statements and the statements that they need, in their order."""
        before = {at for at in setups if at < max(group)}
        needed, _ = self.needed(name for at in {*group, *before} for name in self.reads[at])
        return "\n".join(self.texts[at] for at in sorted({*group, *before, *needed}))

    def test(self, group: Sequence[int], setups: Collection[int]) -> TestCase:
        """Return the test of statements that share a state."""
        text = self.text(group, setups)
        alone = text == self.texts[group[0]]
        about, setup = self.about, names_bound(self.about.setup)
        found = call_test(self.body[group[0]], about.own, setup, hidden=about.hidden) if alone else None
        return found or TestCase(TestKind.CODE, text.strip() if alone else text, "", about.hidden)


def joined(items: Sequence[int], states: dict[int, set[str]]) -> list[list[int]]:
    """Return the statements in groups that share no state."""
    group_of: dict[int, list[int]] = {at: [at] for at in items}
    first: dict[str, int] = {}
    for at in items:
        for name in sorted(states[at]):
            one, other = group_of[first.setdefault(name, at)], group_of[at]
            if one is not other:
                one += other
                group_of |= dict.fromkeys(other, one)
    return [*{id(group): group for group in group_of.values()}.values()]


def text_of(lines: Sequence[bytes], node: ast.stmt) -> str:
    """Return the text of a statement, with its decorators, given the lines of its module."""
    marks = getattr(node, "decorator_list", [])
    first, last = min([node.lineno, *(mark.lineno for mark in marks)]) - 1, int(node.end_lineno or node.lineno)
    part = [*lines[first:last]]
    part[-1] = part[-1][: node.end_col_offset]
    part[0] = part[0] if marks else part[0][node.col_offset :]
    return b"\n".join(part).decode()


def is_shared(node: ast.stmt) -> bool:
    """Return whether a statement only imports or defines names; it may also catch a missing module."""
    return isinstance(node, SHARED) or (isinstance(node, ast.Try) and all(isinstance(part, SHARED) for part in node.body))


def is_constant(node: ast.stmt, times: Counter[str]) -> bool:
    """Return whether a statement binds a name, once in the module, to an immutable value."""
    target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
    if not isinstance(node, ast.Assign) or not isinstance(target, ast.Name) or times[target.id] > 1:
        return False
    mutable = any(isinstance(part, ast.List | ast.Dict | ast.Set | ast.Call) for part in ast.walk(node.value))
    return not mutable and constant(node.value) is not None


def is_idle(node: ast.stmt) -> bool:
    """Return whether a statement has no effect on later ones: a lone value, an assert that cannot fail, ``print(...)``."""
    if isinstance(node, ast.Assert):
        return not asserts(node)
    value = node.value if isinstance(node, ast.Expr) else None
    acts = value is None or any(isinstance(part, ast.Call | ast.Await | ast.NamedExpr) for part in ast.walk(value))
    return is_print(node) or not acts


def is_print(node: ast.stmt) -> bool:
    """Return whether a statement prints."""
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "print"
