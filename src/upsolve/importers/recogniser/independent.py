"""Statements of tests -> tests that share no state."""

import ast
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property

from upsolve.importers.recogniser.asserts import BUILTINS, call_test, constant, names_bound, names_read
from upsolve.importers.recogniser.failing import About, Found, asserts, names_in, touches
from upsolve.types import TestCase, TestKind

__all__ = ["Module"]

SHARED = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
"""Statements that bind what does not change."""
USUAL = frozenset(
    "print range str int float list dict tuple set bool type all any isinstance issubclass callable repr enumerate zip map filter".split()  # noqa: SIM905
)
"""Builtins that a test uses and no attempt defines."""
ALL = ""
"""Name of the state that all statements share where one of them may change the attempt's."""


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
        """Return the names of functions of the module that return a true constant whatever they are given, and assert nothing."""
        defined = [node for node in self.body if isinstance(node, ast.FunctionDef) and node.name not in self.helpers]
        return frozenset(node.name for node in defined if is_agreeing(node))

    def is_test(self, node: ast.stmt) -> bool:
        """Return whether a statement, when it is run, asserts something."""
        return not is_shared(node) and asserts(node, self.helpers, self.local)

    @cached_property
    def outside(self) -> frozenset[str]:
        """Names that the task's setup binds, if it uses nothing of the attempt."""
        return frozenset() if names_read(self.about.setup) else names_bound(self.about.setup)

    def needed(self, names: Iterable[str]) -> tuple[set[int], frozenset[str]]:
        """Return the shared statements that names need, and all names that these read, too."""
        needed, known = set[int](), {*names}
        waiting = known
        while waiting:
            found = {at for at in self.shared - needed if self.binds[at] & waiting or "*" in self.binds[at]}
            needed |= found
            waiting = {name for at in found for name in self.reads[at]} - known
            known |= waiting
        return needed, frozenset(known)

    def reaches(self, at: Collection[int], reads: Collection[str] | None = None) -> bool:
        """Return whether statements use the attempt, or a part of them that reads some names does."""
        needed, reads = self.needed(reads if reads is not None else (name for one in at for name in self.reads[one]))
        bound = {name for one in {*at, *needed} for name in self.binds[one]} | (self.outside - self.about.own)
        called = {name for name in reads if name in BUILTINS and name.islower() and name not in USUAL}
        return touches(reads, bound, self.about.own, called)

    def tests(self, without: Collection[ast.stmt], *, whole: bool = False) -> Found:
        """Return the tests among the statements, and why others test nothing, with their text.

        Args:
            without: statements that are no part of them.
            whole: whether all are one test.
        """
        items = [at for at, node in enumerate(self.body) if at not in self.shared and node not in without]
        tested = {at for at in items if self.is_test(self.body[at])}
        idle = [at for at in items if at not in tested and is_idle(self.body[at])]
        refused = [("is no test", self.texts[at]) for at in idle if not is_print(self.body[at]) or self.reaches([at])]
        items = [at for at in items if at in tested or not is_idle(self.body[at])]
        states, setups = self.states(items, tested)
        found = list[TestCase]()
        kept = {at: False for at in idle if isinstance(self.body[at], ast.Assert)}
        for group in groups([items] if whole and items else joined(items, states)):
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
        """Return the states that each statement uses, by name, and the statements that set up modules, such as ``random.seed(0)``."""
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
        return {at: {*self.binds[at], *reads[at], ALL} & (bound | used) for at in items}, setups

    def text(self, group: Collection[int], setups: Collection[int]) -> str:
        """Return the code of a test: its statements, and those that they need, in their order."""
        before = {at for at in setups if at < max(group)}
        needed, _ = self.needed(name for at in {*group, *before} for name in self.reads[at])
        return "\n".join(self.texts[at] for at in sorted({*group, *before, *needed}))

    def test(self, group: Sequence[int], setups: Collection[int]) -> TestCase:
        """Return the test of statements that share a state."""
        text = self.text(group, setups)
        alone = text == self.texts[group[0]]
        found = call_test(self.body[group[0]], hidden=self.about.hidden, names=self.about.names) if alone else None
        return found or TestCase(TestKind.CODE, text.strip() if alone else text, "", self.about.hidden)


def groups(found: Iterable[Sequence[int]]) -> list[list[int]]:
    """Return groups of statements in the order of their first ones."""
    return sorted(map(sorted, found))


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


def is_agreeing(node: ast.FunctionDef) -> bool:
    """Return whether a function, unless it raises, returns a true constant."""
    returns = [part.value for part in ast.walk(node) if isinstance(part, ast.Return)]
    agree = [isinstance(value, ast.Constant) and bool(value.value) for value in returns]
    return isinstance(node.body[-1], ast.Return) and all(agree)


def is_shared(node: ast.stmt) -> bool:
    """Return whether a statement only imports or defines, also if it catches that a module is missing."""
    return isinstance(node, SHARED) or (isinstance(node, ast.Try) and all(isinstance(part, SHARED) for part in node.body))


def is_constant(node: ast.stmt, times: Counter[str]) -> bool:
    """Return whether a statement binds a name, once in the module, to a value that cannot change."""
    target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
    if not isinstance(node, ast.Assign) or not isinstance(target, ast.Name) or times[target.id] > 1:
        return False
    mutable = any(isinstance(part, ast.List | ast.Dict | ast.Set | ast.Call) for part in ast.walk(node.value))
    return not mutable and constant(node.value) is not None


def is_idle(node: ast.stmt) -> bool:
    """Return whether a statement does nothing that a later one could see: a value alone, an assert that cannot fail, ``print(...)``."""
    if isinstance(node, ast.Assert):
        return not asserts(node)
    value = node.value if isinstance(node, ast.Expr) else None
    acts = value is None or any(isinstance(part, ast.Call | ast.Await | ast.NamedExpr) for part in ast.walk(value))
    return is_print(node) or not acts


def is_print(node: ast.stmt) -> bool:
    """Return whether a statement prints."""
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "print"
