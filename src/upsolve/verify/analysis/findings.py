"""Queries on the findings of a verdict: whether an analysis was run, whether it could read the code, what it found."""

from upsolve.types import Finding, Status, Verdict

__all__ = ["FILE_END", "analysed", "findings_of", "unreadable"]

FILE_END = frozenset({"W292", "W391"})
"""Ruff's rules on how a file ends. Trailing blanks of a completion are stripped, so a policy cannot follow them."""


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
