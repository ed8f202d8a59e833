"""Static analysis: code -> findings with spans. Here: the input of an analysis, and queries on the findings of a verdict.

Ruff has no severities; ``severity`` is defined here, by the longest prefix of the rule in ``PREFIXES``.
"""

import json
import re
import subprocess
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from upsolve.errors import JudgeError
from upsolve.languages import PYTHON
from upsolve.types import Attempt, Finding, Status, Task, Verdict

__all__ = [
    "FILE_END",
    "SEVERITY",
    "Source",
    "analysed",
    "column_of",
    "findings_of",
    "in_folder",
    "lint_cost",
    "rows_of",
    "severity",
    "source_of",
    "unreadable",
]

COMMENT = re.compile(r"#[^\n]*")
SUPPRESSION = re.compile(r"\b(?:noqa|nosec|ignore|forgives?)\b", re.IGNORECASE)
NAME = re.compile(r"[^\W\d]\w*")
SECONDS = 20
"""Time limit of a tool for one batch of programs, seconds."""


@dataclass(frozen=True, slots=True)
class Source:
    """One program."""

    code: str
    """Source code. Comments that suppress findings are disabled without changing the length; otherwise a policy could learn to write them."""
    language: str = "python"
    """Language; ``python`` for all names of Python."""
    names: frozenset[str] = frozenset()
    """Names that the tests of the task use."""
    executed: tuple[int, ...] | None = None
    """Executed lines, from 1; None if unknown."""


def source_of(task: Task, attempt: Attempt, verdict: Verdict) -> Source:
    """Return the analysis input of an attempt."""
    used = frozenset(NAME.findall(" ".join([task.entry_point, *(test.input for test in task.tests)])))
    code = COMMENT.sub(lambda comment: SUPPRESSION.sub(lambda word: "-" * len(word[0]), comment[0]), attempt.code)
    language = "python" if attempt.language in PYTHON else attempt.language
    return Source(code, language, used, verdict.executed_lines)


@contextmanager
def in_folder(sources: Sequence[Source]) -> Generator[Path]:
    """Context manager: write each program to a temporary folder named by a number, so that no program can import another."""
    with tempfile.TemporaryDirectory(prefix="upsolve-analysis-") as folder:
        for number, source in enumerate(sources):
            (Path(folder) / f"{number}.py").write_text(source.code, encoding="utf-8", errors="replace", newline="")
        yield Path(folder)


def rows_of(command: Sequence[str], folder: Path) -> list[dict[str, Any]]:
    """Run a tool in a folder and return the JSON rows of its output.

    Raises:
        JudgeError: the output is not JSON rows; says what the tool printed to standard error.
    """
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=SECONDS)
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        raise JudgeError(f"{Path(command[0]).name}: {done.stderr.decode('utf-8', 'replace')[:300]}") from error


@lru_cache(maxsize=4)
def split(code: str) -> list[str]:
    """Return the lines of a program that has many findings."""
    return code.split("\n")


def column_of(code: str, line: int, offset: int) -> int:
    """Return the column (from 1, in characters) of a position given as line (from 1) and byte offset in that line (from 0)."""
    lines = split(code)
    text = lines[line - 1] if line <= len(lines) else ""
    return len(text.encode("utf-8", "replace")[:offset].decode("utf-8", "replace")) + 1


FILE_END = frozenset({"W292", "W391"})
"""Ruff's rules on how a file ends. Trailing blanks of a completion are stripped, so a policy cannot follow these rules."""
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
