"""Security findings of Python code by Bandit."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from upsolve.types import Finding
from upsolve.verify.analysis.source import Source, column_of, in_folder

__all__ = ["security"]

IGNORED = frozenset({"B101"})
"""Ignored rules: asserts are acceptable in small programs."""


def security(sources: Sequence[Source]) -> list[tuple[Finding, ...]]:
    """Return the findings of every program: kind ``security``, Bandit's rule, its severity and confidence in the message.

    A program that does not parse has none; one on which Bandit fails has a finding of the kind ``analysis``.
    """
    from bandit.core.config import BanditConfig
    from bandit.core.manager import BanditManager

    logging.getLogger("bandit").setLevel(logging.CRITICAL)  # the same information is in manager.skipped
    with in_folder(sources) as folder:
        manager: Any = BanditManager(BanditConfig(), "file", quiet=True)
        manager.discover_files([str(folder)], True)
        manager.run_tests()
    by_program: dict[int, list[Finding]] = {}
    for issue in manager.get_issue_list():
        number = int(Path(issue.fname).stem)
        if issue.test_id not in IGNORED:
            by_program.setdefault(number, []).append(finding(issue, sources[number].code))
    for file, reason in manager.skipped:
        if "syntax error" not in reason:
            by_program.setdefault(int(Path(file).stem), []).append(Finding("analysis", "security", reason[:500], 1))
    return [tuple(by_program.get(number, ())) for number in range(len(sources))]


def finding(issue: Any, code: str) -> Finding:
    """Build a finding from a Bandit issue, whose columns are byte offsets from 0; its end column refers to the last line."""
    first, last = issue.lineno, max(issue.linerange, default=issue.lineno)
    message = f"{issue.text} ({issue.severity.lower()} severity, {issue.confidence.lower()} confidence)"
    start = column_of(code, first, max(0, issue.col_offset))
    end = column_of(code, last, issue.end_col_offset) if issue.end_col_offset and last == first else None
    return Finding("security", issue.test_id, message[:500], first, start, last, end)
