"""The parts a reward is made of, each with its range. They read what a judge has found out; nothing is run here."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from upsolve.config import RewardConfig
from upsolve.config.learning import Severity
from upsolve.reward.dataflow import dataflow_similarity
from upsolve.reward.spans import line_starts, lines_of, valid_characters
from upsolve.reward.tree import parsed
from upsolve.types import Attempt, Finding, Status, Task, Verdict
from upsolve.verify.analysis.lint import severity
from upsolve.verify.languages import PYTHON

__all__ = [
    "CLOCK_SECONDS",
    "COMPONENTS",
    "Component",
    "Judged",
    "Part",
    "analysed",
    "clean_lines",
    "closed_to",
    "complexity",
    "dataflow",
    "efficiency",
    "findings_of",
    "form",
    "fraction_passed",
    "functional",
    "length",
    "lint",
    "lint_cost",
    "outcome",
    "penalty",
    "security",
    "syntax",
    "types",
]

CLOCK_SECONDS = 1e-3
"""Processor time below this is noise; it counts as this much."""
FILE_END = frozenset({"W292", "W391"})
"""Ruff's rules on how a file ends: completions are cut there, so no policy can heed them."""
FENCE = re.compile(r"^[ \t]*(```|~~~)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Judged:
    """One judged attempt, and what its group says about it."""

    task: Task
    """The task."""
    attempt: Attempt
    """The attempt."""
    verdict: Verdict
    """Its verdict, not ``UNSCORED``."""
    usual_seconds: float | None = None
    """Processor time that its own is compared with, > 0; None if unknown."""


@dataclass(frozen=True, slots=True)
class Part:
    """One summand of a reward."""

    name: str
    """The component; ``truncated`` or ``hacked`` where a rule sets the whole reward."""
    value: float
    """Its value, before the weight."""
    weight: float
    """The weight; a reward is the sum of weight times value."""


@dataclass(frozen=True, slots=True)
class Component:
    """A part that a reward can have."""

    value: Callable[[Judged, RewardConfig], float | None]
    """The value, None where what it reads is not there."""
    low: float
    """Smallest value."""
    high: float
    """Largest value."""
    missing: str
    """Why there is no value, and what to do."""


def outcome(verdict: Verdict, table: Mapping[Status, float]) -> float | None:
    """Return the table's value for the verdict's status, or None where it has none or the attempt is unscored.

    The default table (2605.28409, CodeNet): passed 1.0, failed -0.1, timeout -0.5, runtime error -0.6, compile error -1.0;
    memory and output limit -0.5 are our choice, the source is silent.
    """
    return None if verdict.status is Status.UNSCORED else table.get(verdict.status)


def fraction_passed(verdict: Verdict) -> float | None:
    """Return passed / total in [0, 1], or None when unscored or when the tests were not counted."""
    if verdict.status is Status.UNSCORED or verdict.total == 0:
        return None
    return verdict.passed / verdict.total


def functional(verdict: Verdict, *, none_passed: float) -> float | None:
    """Return passed / total in (0, 1], ``none_passed`` where none did, None as in ``fraction_passed`` (2605.21180)."""
    share = fraction_passed(verdict)
    return none_passed if share == 0 else share


def analysed(verdict: Verdict, *names: str) -> bool:
    """Return whether one of these analyses has looked at the code."""
    return any(done.partition(":")[0] in names for done in verdict.analyses)


def findings_of(verdict: Verdict, *kinds: str) -> list[Finding]:
    """Return the findings of some kinds, without those on how the file ends."""
    return [one for one in verdict.findings if one.kind in kinds and one.rule not in FILE_END]


def closed_to(verdict: Verdict, *names: str) -> bool:
    """Return whether these analyses could not see all: it does not parse, they broke on it, or there was too much to keep."""
    broke = any(one.kind == "analysis" and one.rule in names for one in verdict.findings)
    return broke or verdict.status is Status.COMPILE_ERROR or bool(findings_of(verdict, "syntax"))


def penalty(verdict: Verdict, *, names: tuple[str, ...], kind: str, cost: Callable[[str], float]) -> float | None:
    """Return -min(1, sum of the cost of every finding) in [-1, 0], or None where no analysis of these names was done.

    Code that the analysis could not see all of gets -1: what does not parse has few findings.

    Args:
        verdict: its findings and analyses are read.
        names: analyses, one of which must have been done.
        kind: kind of the findings.
        cost: from a rule to what one finding of it costs, >= 0.
    """
    if not analysed(verdict, *names):
        return None
    if closed_to(verdict, *names):
        return -1.0
    return 0.0 - min(1.0, math.fsum(cost(one.rule) for one in findings_of(verdict, kind)))


def lint(verdict: Verdict, costs: Mapping[Severity, float]) -> float | None:
    """Return the ``penalty`` of Ruff's findings by the severity of their rules, in [-1, 0] (the idea: 2605.30478)."""
    return penalty(verdict, names=("lint",), kind="lint", cost=lambda rule: lint_cost(rule, costs))


def lint_cost(rule: str, costs: Mapping[Severity, float]) -> float:
    """Return the cost of the severity of a rule of Ruff's, 0 where it has none."""
    return next((cost for name, cost in costs.items() if name == severity(rule)), 0.0)


def syntax(code: str, verdict: Verdict) -> float | None:
    """Return 2 v / n - 1 in [-1, 1], v of n characters before the first syntax error; None without that analysis.

    It is the mean over characters of +1 in the valid prefix and -1 behind it (2605.21180). Empty code is valid.
    """
    if not analysed(verdict, "syntax"):
        return None
    size = len(code.rstrip())
    return 2 * valid_characters(code, verdict) / size - 1 if size else 1.0


def clean_lines(code: str, verdict: Verdict) -> float | None:
    """Return the mean over lines of -1 where a finding of lint, security or syntax is and +1 elsewhere, in [-1, 1] (2605.21180).

    Blank lines without a finding do not count; code without lines gives -1. None without lint.
    """
    if not analysed(verdict, "lint"):
        return None
    starts = line_starts(code)
    full = {line for line, (a, b) in enumerate(pairwise(starts), 1) if not code[a:b].isspace() and b > a}
    bad = {line for one in findings_of(verdict, "lint", "security", "syntax") for line in lines_of(one)} & {
        *range(1, len(starts))
    }
    every = full | bad
    return 1 - 2 * len(bad) / len(every) if every else -1.0


def complexity(verdict: Verdict, free: int) -> float | None:
    """Return -clip((c - free) / free, 0, 1) in [-1, 0], c the largest cyclomatic complexity of a function; -1 where nothing parses."""
    if not analysed(verdict, "complexity"):
        return None
    if closed_to(verdict, "complexity"):
        return -1.0
    largest = max((one.value or 1.0 for one in findings_of(verdict, "complexity")), default=1.0)
    return 0.0 - min(1.0, max(0.0, (largest - free) / free))


def efficiency(verdict: Verdict, usual_seconds: float | None) -> float | None:
    """Return clip(log2(usual / own processor time), -1, 1) of what passed: half the time 1, twice the time -1.

    What did not pass gets -1 however quick it was. None where a time is unknown.
    """
    if verdict.status is not Status.PASSED:
        return -1.0
    if verdict.cpu_seconds is None or usual_seconds is None:
        return None
    return min(1.0, max(-1.0, math.log2(usual_seconds / max(verdict.cpu_seconds, CLOCK_SECONDS))))


def dataflow(attempt: Attempt, task: Task) -> float | None:
    """Return ``dataflow_similarity`` to the task's reference in [0, 1]; None without one, or where either is not Python."""
    if not task.reference or attempt.language not in PYTHON or task.language not in PYTHON:
        return None
    return dataflow_similarity(attempt.code, task.reference)


def length(code: str, free: int, most: int) -> float:
    """Return -clip((n - free) / (most - free), 0, 1) in [-1, 0], n characters (the soft punishment of DAPO, 2503.14476, on code)."""
    return 0.0 - min(1.0, max(0.0, (len(code.rstrip()) - free) / (most - free)))


def form(attempt: Attempt, task: Task) -> float:
    """Return 0 for an answer in the form asked for, else -1.

    It is not empty, was not cut, is code alone (a fence may stand in a string of Python) and names the function asked for.
    """
    python = attempt.language in PYTHON
    fenced = FENCE.search(attempt.code) is not None and not (python and parsed(attempt.code))
    named = re.search(rf"(?<!\w){re.escape(task.entry_point)}(?!\w)", attempt.code) is not None
    return 0.0 if attempt.code.strip() and not attempt.truncated and not fenced and named else -1.0


def of_python(value: Callable[[Judged, RewardConfig], float | None]) -> Callable[[Judged, RewardConfig], float | None]:
    """Return the component for Python, None for other languages: a tool that did not look has found nothing."""
    return lambda judged, config: value(judged, config) if judged.attempt.language in PYTHON else None


def security(judged: Judged, config: RewardConfig) -> float | None:
    """Return the ``penalty`` of security findings, by Bandit or Ruff."""
    cost = config.severity.get("security", 0.0)
    return penalty(judged.verdict, names=("security", "lint"), kind="security", cost=lambda _: cost)


def types(judged: Judged, config: RewardConfig) -> float | None:
    """Return the ``penalty`` of type errors."""
    cost = config.severity.get("types", 0.0)
    return penalty(judged.verdict, names=("types",), kind="types", cost=lambda _: cost)


def unanalysed(name: str, analysis: str, language: str = "") -> str:
    """Say that a component lacks an analysis, and how to get it."""
    return f"{name}: no {language}analysis (upsolve verify --analysis {analysis})"


UNCOUNTED = "tests were not counted (upsolve verify)"
UNTIMED = "efficiency: no processor time of its own or of what it is compared with (upsolve verify)"
COMPONENTS: Mapping[str, Component] = {
    "outcome": Component(lambda j, c: outcome(j.verdict, c.outcomes), -math.inf, math.inf, "no reward for {status}"),
    "fraction": Component(lambda j, _: fraction_passed(j.verdict), 0, 1, UNCOUNTED),
    "functional": Component(lambda j, _: functional(j.verdict, none_passed=-0.3), -0.3, 1, UNCOUNTED),
    "simulator": Component(lambda j, _: functional(j.verdict, none_passed=-0.1), -0.1, 1, UNCOUNTED),
    "syntax": Component(lambda j, _: syntax(j.attempt.code, j.verdict), -1, 1, unanalysed("syntax", "syntax")),
    "lint": Component(of_python(lambda j, c: lint(j.verdict, c.severity)), -1, 0, unanalysed("lint", "lint", "Python ")),
    "clean_lines": Component(
        of_python(lambda j, _: clean_lines(j.attempt.code, j.verdict)), -1, 1, unanalysed("clean_lines", "lint", "Python ")
    ),
    "security": Component(of_python(security), -1, 0, unanalysed("security", "security", "Python ")),
    "types": Component(of_python(types), -1, 0, unanalysed("types", "types", "Python ")),
    "complexity": Component(lambda j, c: complexity(j.verdict, c.complexity), -1, 0, unanalysed("complexity", "complexity")),
    "efficiency": Component(lambda j, _: efficiency(j.verdict, j.usual_seconds), -1, 1, UNTIMED),
    "dataflow": Component(
        lambda j, _: dataflow(j.attempt, j.task), 0, 1, "dataflow: the task has no Python reference that parses"
    ),
    "length": Component(lambda j, c: length(j.attempt.code, *c.length), -1, 0, ""),
    "format": Component(lambda j, _: form(j.attempt, j.task), -1, 0, ""),
}
