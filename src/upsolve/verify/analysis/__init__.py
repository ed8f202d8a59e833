"""Static analysis: code -> findings with spans; queries on the findings of a verdict.

Ruff has no severities; ``severity`` is defined here, by the longest prefix of the rule in ``PREFIXES``.
"""

from collections.abc import Mapping
from typing import Any

from upsolve.types import Finding, Status, Verdict

__all__ = ["FILE_END", "SEVERITY", "analysed", "findings_of", "lint_cost", "severity", "unreadable"]

FILE_END = frozenset({"W292", "W391"})
"""Ruff's rules on how a file ends. Trailing blanks of a completion are stripped, so a policy cannot follow them."""
PREFIXES: Mapping[str, tuple[str, ...]] = {
    "error": ("B", "E9", "F", "PLE"),  # likely a bug, or does not parse
    "security": ("S",),  # flake8-bandit's rules
    "warning": ("", "A", "C90", "E7", "F401", "F541", "F841", "PERF", "PLW", "RET"),  # correct, but bad practice
    "convention": ("C4", "E", "N", "PLC", "PLR", "SIM", "UP", "W"),  # style only
}
SEVERITY: Mapping[str, str] = {prefix: name for name, prefixes in PREFIXES.items() for prefix in prefixes}
"""Prefix of a rule -> severity."""


def analysed(verdict: Verdict, *names: str) -> bool:
    """Return True if at least one of these analyses was run on the code."""
    return any(done.partition(":")[0] in names for done in verdict.analyses)


def findings_of(verdict: Verdict, *kinds: str) -> list[Finding]:
    """Return the findings of these kinds, without Ruff's rules on how a file ends."""
    return [finding for finding in verdict.findings if finding.kind in kinds and finding.rule not in FILE_END]


def unreadable(verdict: Verdict, *names: str) -> bool:
    """Return True if the findings may be incomplete: the code does not parse, an analysis crashed, or findings were dropped."""
    crashed = any(finding.kind == "analysis" and finding.rule in names for finding in verdict.findings)
    return crashed or verdict.status is Status.COMPILE_ERROR or bool(findings_of(verdict, "syntax"))


def severity(rule: str) -> str:
    """Return the severity of a rule, by its longest prefix in ``SEVERITY``."""
    return next(SEVERITY[rule[:size]] for size in range(len(rule), -1, -1) if rule[:size] in SEVERITY)


def lint_cost(rule: str, costs: Mapping[Any, float]) -> float:
    """Return the cost of a rule's severity; 0 if ``costs`` lacks it."""
    return costs.get(severity(rule), 0.0)
