"""Components of a reward, which is their weighted sum. The value of a component is computed from a verdict; no code is run here."""

import ast
import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from upsolve.config import RewardConfig
from upsolve.config.reward import Severity
from upsolve.languages import PYTHON
from upsolve.plugins import find
from upsolve.reward.code import line_starts, lines_of, names_read, parse, valid_characters
from upsolve.reward.credit import EACH, FINDINGS, LAST, LINES, PREFIX, UNIFORM, Credit
from upsolve.reward.judged import Judged
from upsolve.types import Attempt, Status, Task, Verdict
from upsolve.verify.analysis import analysed, findings_of, lint_cost, unreadable
from upsolve.verify.analysis.syntax import normalise

__all__ = ["COMPONENTS", "Component", "answer_format", "seconds_of"]

CLOCK_SECONDS = 1e-3
"""Resolution of processor time, seconds: shorter times are rounded up to it."""
EXECUTED = (Status.PASSED, Status.FAILED)
"""Outcomes of a test in which the program ended normally."""
FENCE = re.compile(r"^[ \t]*(```|~~~)", re.MULTILINE)
Value = Callable[[Judged, RewardConfig], float | None]
GroupValue = Callable[[Sequence[Judged], RewardConfig], Sequence[float | None]]


Edge = tuple[int, str, tuple[int, ...]]
"""(variable, relation, variables in its value), each variable as its number in the order of first appearance."""
Bound = tuple[ast.AST, ast.AST]
"""Target of an assignment, and the expression that is assigned."""


def dataflow_similarity(code: str, reference: str) -> float | None:
    """Return |edges(code) & edges(reference)| / |edges(reference)| in [0, 1], as multisets.

    Code that does not parse gives 0; a reference without edges gives 1. None if the reference does not parse.
    CodeBLEU extracts edges with tree-sitter; here they are extracted from Python's ``ast``, by name and without control flow.
    """
    reference_edges = edges(reference)
    if reference_edges is None:
        return None
    code_edges = edges(code)
    if code_edges is None:
        return 0.0
    return (reference_edges & code_edges).total() / reference_edges.total() if reference_edges else 1.0


@lru_cache(maxsize=4096)
def edges(code: str) -> Counter[Edge] | None:
    """Return the data-flow edges with their counts, None if the program does not parse.

    Each assignment is an edge (variable, ``from``, variables in the value), each read an edge (variable, ``read``, ()). Variables are
    parameters and assigned names, numbered by order of first appearance.
    """
    tree = parse(code)
    if tree is None:
        return None
    number = {name: index for index, name in enumerate(variables(tree))}
    counts: Counter[Edge] = Counter((number[name.id], "read", ()) for name in names_read(tree) if name.id in number)
    for target, value in bound(tree):
        sources = tuple(sorted({number[name.id] for name in names_read(value) if name.id in number}))
        counts.update((number[name], "from", sources) for name in stored(target))
    return counts


def variables(tree: ast.Module) -> list[str]:
    """Return the names of all variables in the order of first appearance in the text."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.arg | ast.Name)]
    assigned = set(stored(tree))
    nodes.sort(key=lambda node: (node.lineno, node.col_offset))
    names = (node.arg if isinstance(node, ast.arg) else node.id for node in nodes)
    return [name for name in dict.fromkeys(names) if name in assigned]


def stored(target: ast.AST) -> Iterator[str]:
    """Yield the names that an assignment to this target sets; for ``a[i]`` and ``a.b``, ``a``."""
    for node in ast.walk(target):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield from (name.id for name in [root(node)] if isinstance(name, ast.Name))


def root(node: ast.AST) -> ast.AST:
    """Return the innermost expression: ``a`` of ``a[i].b``."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node


def bound(tree: ast.Module) -> Iterator[Bound]:
    """Yield every assignment: target and value."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                yield from ((target, value) for target in targets)
            case ast.AugAssign(target=target, value=value):
                both = ast.Tuple([ast.Name(name, ast.Load()) for name in stored(target)] + [value], ast.Load())
                yield target, both
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
                yield target, value
            case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
                yield target, value
            case ast.comprehension(target=target, iter=value):
                yield target, value
            case ast.withitem(optional_vars=ast.expr() as target, context_expr=value):
                yield target, value
            case _:
                pass


@dataclass(frozen=True, slots=True)
class Component:
    """A term that a reward may have (``docs/extending.md`` adds one)."""

    value: Value | GroupValue
    """Value of a judged attempt, in [low, high]; None if data for it is missing: the attempt is then left out and counted, not given 0.
    With ``group``: the values of all judged attempts of a group, in their order."""
    low: float = -math.inf
    """Smallest value that the component can have."""
    high: float = math.inf
    """Largest value that the component can have."""
    missing: str = ""
    """Message, with the fix, for an attempt without a value; ``{name}`` and ``{status}`` are filled in. Empty: a message about ``analysis``."""
    analysis: str = ""
    """Analysis whose findings the value needs (docs/analysis.md), so that runs ask the judge for it; empty if none."""
    credit: Credit = LAST
    """How the value is assigned to tokens, unless a recipe says otherwise (``reward.credit``)."""
    group: bool = False
    """Whether ``value`` takes the judged attempts of the whole group, without those that a rule for truncated or hacked attempts decides."""

    def value_of(self, judged: Judged, config: RewardConfig) -> float | None:
        """Return the value of an attempt, by a component without ``group``."""
        value: Any = self.value
        return value(judged, config)

    def values_of(self, members: Sequence[Judged], config: RewardConfig) -> Sequence[float | None]:
        """Return the values of the attempts of a group, by a component with ``group``."""
        value: Any = self.value
        return value(members, config)

    def why_missing(self, name: str, status: Status) -> str:
        """Return the reason why an attempt has no value, for counts and messages."""
        needed = f"not analysed (upsolve verify --analysis {self.analysis})" if self.analysis else "no value"
        return self.missing.format(name=name, status=status) if self.missing else f"{name}: {needed}"


def outcome(verdict: Verdict, table: Mapping[Status, float | None]) -> float | None:
    """Return the reward of the verdict's status (docs/rewards.md), or None if the table has none or the attempt is unscored."""
    return None if verdict.status is Status.UNSCORED else table.get(verdict.status)


def fraction_passed(verdict: Verdict) -> float | None:
    """Return passed / total in [0, 1], or None if unscored, or if the judge recorded a status but not the number of tests."""
    if verdict.status is Status.UNSCORED or verdict.total == 0:
        return None
    return verdict.passed / verdict.total


def points(verdict: Verdict, task: Task) -> float | None:
    """Return sum_t w_t p_t / sum_t w_t in [0, 1], p_t the share of points and w_t the weight (``Task.weights``, else 1) of test t.

    A recorded share of all tests together replaces the sum. Tests without an outcome give 0 points.
    None if unscored, if the judge recorded no number of tests, or if the number of weights differs from the number of tests.
    """
    if verdict.status is Status.UNSCORED or verdict.overall_points is not None:
        return None if verdict.status is Status.UNSCORED else verdict.overall_points
    shares, weights = verdict.points, task.weights
    if not shares and not (weights and 0 < verdict.passed < verdict.total):
        return fraction_passed(verdict)
    total = max(verdict.total, len(shares))
    if not shares or (weights and len(weights) != total):
        return None
    used = weights or (1.0,) * total
    return math.fsum(weight * share for weight, share in zip(used, shares, strict=False)) / math.fsum(used)


def functional(verdict: Verdict, *, none_passed: float) -> float | None:
    """Return passed / total in (0, 1], or ``none_passed`` if no test passed (2605.21180). None if unscored, or without a number of tests."""
    share = fraction_passed(verdict)
    return none_passed if share == 0 else share


def penalty(verdict: Verdict, *, names: tuple[str, ...], kind: str, cost: Callable[[str], float]) -> float | None:
    """Return -min(1, sum over findings of cost(rule)) in [-1, 0], or None if none of the analyses ``names`` was run.

    Code that the analysis could not parse gets -1, although it has few findings.
    """
    if not analysed(verdict, *names):
        return None
    if unreadable(verdict, *names):
        return -1.0
    return 0.0 - min(1.0, math.fsum(cost(finding.rule) for finding in findings_of(verdict, kind)))


def syntax(code: str, verdict: Verdict) -> float | None:
    """Return 2 v / n - 1 in [-1, 1], where v of the n characters lie before the first syntax error; None if that analysis was not run.

    The mean over characters of +1 in the valid prefix and -1 after it (2605.21180). Empty code is valid.
    """
    if not analysed(verdict, "syntax"):
        return None
    size = len(code.rstrip())
    return 2 * valid_characters(code, verdict) / size - 1 if size else 1.0


def clean_lines(code: str, verdict: Verdict) -> float | None:
    """Return the mean over lines, in [-1, 1], of -1 for a line with a finding of lint, security or syntax and +1 for others (2605.21180).

    Blank lines without a finding do not count; empty code gives -1. None if the lint analysis was not run.
    """
    if not analysed(verdict, "lint"):
        return None
    starts = line_starts(code)
    full = {line for line, (a, b) in enumerate(pairwise(starts), 1) if not code[a:b].isspace() and b > a}
    bad = {line for finding in findings_of(verdict, "lint", "security", "syntax") for line in lines_of(finding)} & {
        *range(1, len(starts))
    }
    lines = full | bad
    return 1 - 2 * len(bad) / len(lines) if lines else -1.0


def complexity(verdict: Verdict, free: int) -> float | None:
    """Return -clip((c - free) / free, 0, 1) in [-1, 0], c the largest cyclomatic complexity of a function; -1 if the code does not parse."""
    if not analysed(verdict, "complexity"):
        return None
    if unreadable(verdict, "complexity"):
        return -1.0
    largest = max((finding.value or 1.0 for finding in findings_of(verdict, "complexity")), default=1.0)
    return 0.0 - min(1.0, max(0.0, (largest - free) / free))


def seconds_of(cpu_seconds: float, *, exact: bool) -> float:
    """Return a processor time, rounded up to ``CLOCK_SECONDS`` unless it is ``exact``: measured in rounds."""
    return max(cpu_seconds, 1e-9 if exact else CLOCK_SECONDS)


def efficiency(verdict: Verdict, baseline_seconds: float | None) -> float | None:
    """Return clip(log2(baseline / cpu_seconds), -1, 1) of an attempt that passed: half the time gives 1, twice the time -1.

    An attempt that did not pass gets -1, whatever its time. None if one of the times is unknown.
    """
    if verdict.status is not Status.PASSED:
        return -1.0
    if verdict.cpu_seconds is None or baseline_seconds is None:
        return None
    return min(1.0, max(-1.0, math.log2(baseline_seconds / seconds_of(verdict.cpu_seconds, exact=verdict.has_cost))))


def dataflow(attempt: Attempt, task: Task, threshold: float) -> float | None:
    """Return max(0, s - threshold) in [0, 1], s the ``dataflow_similarity`` to the task's reference (2605.21180: threshold 0.5).

    None without a reference, or if either is not Python.
    """
    if not task.reference or attempt.language not in PYTHON or task.language not in PYTHON:
        return None
    similarity = dataflow_similarity(attempt.code, task.reference)
    return None if similarity is None else max(0.0, similarity - threshold)


def execution(verdict: Verdict) -> float | None:
    """Return executed / total in (0, 1], -0.1 if the program executed in no test (2605.21180, its robot domain).

    A program executes in a test if it ends normally there, whether it reaches the goal (``passed``) or not (``failed``). None if the outcomes
    of the tests were not recorded, and the status does not tell them.
    """
    outcomes = verdict.outcomes or ((verdict.status,) if verdict.status in (Status.PASSED, Status.COMPILE_ERROR) else ())
    return (sum(outcome in EXECUTED for outcome in outcomes) / len(outcomes) or -0.1) if outcomes else None


def score(verdict: Verdict, config: RewardConfig) -> float | None:
    """Return (s - center) / scale for the attempt's score s of the name that a recipe gives; None without such a score."""
    found = verdict.scores.get(config.score)
    return None if found is None else (found - config.score_center) / config.score_scale


def length(code: str, free: int, limit: int) -> float:
    """Return -clip((n - free) / (limit - free), 0, 1) in [-1, 0], n characters of code (the soft overlong penalty of DAPO, 2503.14476)."""
    return 0.0 - min(1.0, max(0.0, (len(code.rstrip()) - free) / (limit - free)))


def answer_format(attempt: Attempt, task: Task) -> float:
    """Return 0 for an answer in the requested format, else -1.

    The answer must not be empty or truncated, must consist of code only (a fence inside a Python string is allowed), and must name the
    entry point.
    """
    python = attempt.language in PYTHON
    fenced = FENCE.search(attempt.code) is not None and not (python and parse(attempt.code))
    named = re.search(rf"(?<!\w){re.escape(task.entry_point)}(?!\w)", attempt.code) is not None
    return 0.0 if attempt.code.strip() and not attempt.truncated and not fenced and named else -1.0


def penalised(kind: Severity, *names: str) -> Value:
    """Return the value function of the ``penalty`` of a kind of findings that all cost the same (``reward.severity``)."""
    return lambda judged, config: penalty(judged.verdict, names=names, kind=kind, cost=lambda _: config.severity.get(kind, 0.0))


def lint(judged: Judged, config: RewardConfig) -> float | None:
    """Return the ``penalty`` of Ruff's findings by the severity of their rules, in [-1, 0] (the idea: 2605.30478)."""
    return penalty(judged.verdict, names=("lint",), kind="lint", cost=lambda rule: lint_cost(rule, config.severity))


def analysed_python(value: Value, low: float, high: float, analysis: str, *, credit: Credit = FINDINGS) -> Component:
    """Return a component that needs an analysis of Python code; attempts in other languages have no value."""
    missing = f"{{name}}: no Python analysis (upsolve verify --analysis {analysis})"
    return Component(lambda j, c: value(j, c) if j.attempt.language in PYTHON else None, low, high, missing, analysis, credit)


def counts_of_equals(keys: Sequence[Hashable], members: Sequence[Judged]) -> list[int]:
    """Return for each attempt the number of samples with the same key; an attempt that occurs n times counts n times."""
    counts = Counter[Hashable]()
    for key, one in zip(keys, members, strict=True):
        counts[key] += one.attempt.count
    return [counts[key] for key in keys]


def program_of(one: Judged) -> Hashable:
    """Return a key that is equal for programs that differ only in comments and white space."""
    return normalise(one.attempt.code, one.attempt.language)


def majority(members: Sequence[Judged], _config: RewardConfig) -> list[float]:
    """Return the share in (0, 1] of the group's samples with the same output or, of a program without output, with an equal program.

    The output is what the run of the last test printed, as far as the verdict holds it. This reward works without correct tests.
    """
    keys = [one.verdict.stdout_head if one.verdict.status in EXECUTED else "" for one in members]
    counts = counts_of_equals([key or (program_of(one),) for key, one in zip(keys, members, strict=True)], members)
    total = sum(one.attempt.count for one in members)
    return [count / total for count in counts]


def distinct(members: Sequence[Judged], _config: RewardConfig) -> list[float]:
    """Return 1 / n in (0, 1], where n is the number of samples of the group with an equal program."""
    return [1 / count for count in counts_of_equals([*map(program_of, members)], members)]


def rank(members: Sequence[Judged], config: RewardConfig) -> list[float | None]:
    """Return (below + equal / 2) / others in [0, 1], counts of the other attempts with a lower and an equal value of the component ``config.rank``.

    An attempt alone has rank 1/2. None if the component has no value.
    """
    component: Component = find("component", config.rank)
    values = [component.value_of(one, config) for one in members]
    known = sorted(value for value in values if value is not None)

    def place(value: float) -> float:
        below, equal = bisect_left(known, value), bisect_right(known, value) - bisect_left(known, value) - 1
        return (below + equal / 2) / (len(known) - 1) if len(known) > 1 else 0.5

    return [None if value is None else place(value) for value in values]


UNCOUNTED = "tests were not counted (upsolve verify)"
UNTIMED = (
    "efficiency: the attempt, or the reference or group that it is compared with, has no processor time, or the two were measured "
    "with different verify.cost (judge again: upsolve verify --all)"
)
NO_SCORE = "score: the attempt has no score of the name in reward.score (add scores: upsolve archive score)"
NO_REFERENCE = "dataflow: the task has no Python reference that parses"
COMPONENTS: Mapping[str, Component] = {
    "outcome": Component(lambda j, c: outcome(j.verdict, c.outcomes), missing="no reward for {status}"),
    "fraction": Component(lambda j, _: fraction_passed(j.verdict), 0, 1, UNCOUNTED),
    "points": Component(lambda j, _: points(j.verdict, j.task), 0, 1, UNCOUNTED),
    "functional": Component(lambda j, _: functional(j.verdict, none_passed=-0.3), -0.3, 1, UNCOUNTED, credit=EACH),
    "simulator": Component(lambda j, _: functional(j.verdict, none_passed=-0.1), -0.1, 1, UNCOUNTED, credit=EACH),
    "execution": Component(lambda j, _: execution(j.verdict), -0.1, 1, UNCOUNTED, credit=EACH),
    "syntax": Component(lambda j, _: syntax(j.attempt.code, j.verdict), -1, 1, analysis="syntax", credit=PREFIX),
    "lint": analysed_python(lint, -1, 0, "lint"),
    "clean_lines": analysed_python(lambda j, _: clean_lines(j.attempt.code, j.verdict), -1, 1, "lint", credit=LINES),
    "security": analysed_python(penalised("security", "security", "lint"), -1, 0, "security"),
    "types": analysed_python(penalised("types", "types"), -1, 0, "types"),
    "complexity": Component(lambda j, c: complexity(j.verdict, c.complexity), -1, 0, analysis="complexity", credit=FINDINGS),
    "efficiency": Component(lambda j, _: efficiency(j.verdict, j.baseline_seconds), -1, 1, UNTIMED, credit=UNIFORM),
    "dataflow": Component(lambda j, c: dataflow(j.attempt, j.task, c.dataflow_threshold), 0, 1, NO_REFERENCE, credit=EACH),
    "majority": Component(majority, 0, 1, group=True),
    "distinct": Component(distinct, 0, 1, group=True),
    "rank": Component(rank, 0, 1, "rank: the component in reward.rank has no value for the attempt", group=True),
    "length": Component(lambda j, c: length(j.attempt.code, *c.length), -1, 0, credit=UNIFORM),
    "score": Component(lambda j, c: score(j.verdict, c), missing=NO_SCORE),
    "format": Component(lambda j, _: answer_format(j.attempt, j.task), -1, 0),
}
"""Components by the name that a recipe uses (``reward.weights``)."""
