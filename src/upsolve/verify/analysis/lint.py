"""Lint and security findings of Python code by Ruff, for many programs in one run.

Ruff has no severities; ``severity`` is defined here, by the longest prefix of the rule in ``SEVERITY``:

    error       likely a bug, or does not parse
    security    flake8-bandit's rules
    warning     correct, but bad practice
    convention  style only
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from upsolve.types import Finding
from upsolve.verify.analysis.source import Source, in_folder, rows_of

__all__ = ["SEVERITY", "lint", "lint_cost", "severity"]

SEVERITY: Mapping[str, str] = {
    "": "warning",
    "A": "warning",
    "B": "error",
    "C4": "convention",
    "C90": "warning",
    "E": "convention",
    "E7": "warning",
    "E9": "error",
    "F": "error",
    "F401": "warning",
    "F541": "warning",
    "F841": "warning",
    "N": "convention",
    "PERF": "warning",
    "PLC": "convention",
    "PLE": "error",
    "PLR": "convention",
    "PLW": "warning",
    "RET": "convention",
    "S": "security",
    "SIM": "convention",
    "UP": "convention",
    "W": "convention",
}
"""Prefix of a rule -> severity."""
RULES = ("A", "B", "C4", "C90", "E", "F", "N", "PERF", "PLC", "PLE", "PLR", "PLW", "RET", "S", "SIM", "UP", "W")
"""Selected rules; asserts (S101) and magic values (PLR2004) are acceptable in small programs."""
IGNORED = ("S101", "PLR2004")


def severity(rule: str) -> str:
    """Return the severity of a rule, by its longest prefix in ``SEVERITY``."""
    return next(SEVERITY[rule[:size]] for size in range(len(rule), -1, -1) if rule[:size] in SEVERITY)


def lint_cost(rule: str, costs: Mapping[Any, float]) -> float:
    """Return the cost of a rule's severity; 0 if ``costs`` lacks it."""
    return costs.get(severity(rule), 0.0)


def lint(sources: Sequence[Source]) -> list[tuple[Finding, ...]]:
    """Return the findings of every program, by position in the code.

    Kinds: ``syntax`` for syntax errors, ``security`` for rules of that severity, else ``lint``. Columns count characters from
    1; the end column is exclusive.

    Raises:
        JudgeError: Ruff failed; the message has its output.
    """
    from ruff import find_ruff_bin

    with in_folder(sources) as folder:
        command = [find_ruff_bin(), "check", "--isolated", "--no-cache", "--exit-zero", "--ignore-noqa", "--output-format=json"]
        command += [f"--select={','.join(RULES)}", f"--ignore={','.join(IGNORED)}", "--target-version=py311", str(folder)]
        rows = rows_of(command, folder)
    by_program: dict[int, list[Finding]] = {}
    for row in rows:
        by_program.setdefault(int(Path(row["filename"]).stem), []).append(finding(row))
    return [tuple(by_program.get(number, ())) for number in range(len(sources))]


def finding(row: dict[str, Any]) -> Finding:
    """Build a finding from a row of Ruff's output."""
    rule = row["code"] or "invalid-syntax"
    syntax = rule in ("invalid-syntax", "E999")
    kind = "syntax" if syntax else "security" if severity(rule) == "security" else "lint"
    start, end = row["location"], row["end_location"]
    return Finding(kind, rule, row["message"][:500], start["row"], start["column"], end["row"], end["column"])
