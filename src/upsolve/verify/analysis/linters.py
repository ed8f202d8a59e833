"""Findings of external tools: Ruff, Bandit and ty (Python only, from files, many programs in one run) and Lizard."""

import logging
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from upsolve.languages import languages
from upsolve.types import Finding
from upsolve.verify.analysis import Source, column_of, in_folder, rows_of, severity

__all__ = ["complexity", "lint", "security", "types"]

RULES = ("A", "B", "C4", "C90", "E", "F", "N", "PERF", "PLC", "PLE", "PLR", "PLW", "RET", "S", "SIM", "UP", "W")
"""Selected rules; asserts (S101) and magic values (PLR2004) are acceptable in small programs."""
RUFF_IGNORED = ("S101", "PLR2004")


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
        command += [f"--select={','.join(RULES)}", f"--ignore={','.join(RUFF_IGNORED)}", "--target-version=py311", str(folder)]
        rows = rows_of(command, folder)
    return by_program([(row["filename"], ruff_finding(row)) for row in rows], len(sources))


def by_program(found: Sequence[tuple[str, Finding]], count: int) -> list[tuple[Finding, ...]]:
    """Return the findings of every program, given findings with the names of their files (``source.in_folder``)."""
    findings: list[list[Finding]] = [[] for _ in range(count)]
    for file, finding in found:
        findings[int(Path(file).stem)].append(finding)
    return [*map(tuple, findings)]


def ruff_finding(row: dict[str, Any]) -> Finding:
    """Build a finding from a row of Ruff's output."""
    rule = row["code"] or "invalid-syntax"
    syntax = rule in ("invalid-syntax", "E999")
    kind = "syntax" if syntax else "security" if severity(rule) == "security" else "lint"
    start, end = row["location"], row["end_location"]
    return Finding(kind, rule, row["message"][:500], start["row"], start["column"], end["row"], end["column"])


BANDIT_IGNORED = frozenset({"B101"})
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
    issues = [issue for issue in manager.get_issue_list() if issue.test_id not in BANDIT_IGNORED]
    found = [(issue.fname, bandit_finding(issue, sources[int(Path(issue.fname).stem)].code)) for issue in issues]
    skipped = [(file, reason) for file, reason in manager.skipped if "syntax error" not in reason]
    found += [(file, Finding("analysis", "security", reason[:500], 1)) for file, reason in skipped]
    return by_program(found, len(sources))


def bandit_finding(issue: Any, code: str) -> Finding:
    """Build a finding from a Bandit issue, whose columns are byte offsets from 0; its end column refers to the last line."""
    first, last = issue.lineno, max(issue.linerange, default=issue.lineno)
    message = f"{issue.text} ({issue.severity.lower()} severity, {issue.confidence.lower()} confidence)"
    start = column_of(code, first, max(0, issue.col_offset))
    end = column_of(code, last, issue.end_col_offset) if issue.end_col_offset and last == first else None
    return Finding("security", issue.test_id, message[:500], first, start, last, end)


TY_SETTINGS = '[analysis]\nrespect-type-ignore-comments = false\n[environment]\npython-version = "3.11"\n'


def types(sources: Sequence[Source]) -> list[tuple[Finding, ...]]:
    """Return the type errors of every program: kind ``types``, ty's rule. A program that does not parse has none.

    Raises:
        JudgeError: ty failed; the message has its output.
    """
    from ty import find_ty_bin

    with in_folder(sources) as folder:
        settings = folder / "settings.toml"
        settings.write_text(TY_SETTINGS, encoding="utf-8")
        command = [find_ty_bin(), "check", f"--project={folder}", f"--config-file={settings}", "--output-format=gitlab"]
        rows = rows_of([*command, "--exit-zero", "--no-progress"], folder)
    found = by_program([(row["location"]["path"], ty_finding(row)) for row in rows], len(sources))
    return [() if any(finding.rule == "invalid-syntax" for finding in findings) else findings for findings in found]


def ty_finding(row: dict[str, Any]) -> Finding:
    """Build a finding from a row of ty's output."""
    rule, spots = row["check_name"], row["location"]["positions"]
    message = row["description"].removeprefix(f"{rule}: ")[:500]
    start, end = spots["begin"], spots["end"]
    return Finding("types", rule, message, start["line"], start["column"], end["line"], end["column"])


OUTSIDE = "*global*"


@cache
def analyzer() -> Any:
    """Return Lizard's analyzer, with code outside functions counted as a function."""
    import lizard

    return lizard.FileAnalyzer(lizard.get_extensions(["outside"]))


def complexity(sources: Sequence[Source]) -> list[tuple[Finding, ...]]:
    """Return one finding per function: kind ``complexity``, ``value`` its cyclomatic complexity, 1 + decisions (McCabe 1976).

    Decisions are branches, loops, handlers, conditional expressions, and the operators ``and`` and ``or`` in them. Code outside
    functions counts as a function ``<module>`` if it has a decision. Of code that does not parse, the readable part is counted.
    """
    return [functions_of(source) for source in sources]


def functions_of(source: Source) -> tuple[Finding, ...]:
    """Return the findings of one program; none if Lizard does not support its language."""
    from lizard_languages import get_reader_for

    file = "0.py" if source.language == "python" else languages()[source.language].file
    if get_reader_for(file) is None:
        return ()
    functions = analyzer().analyze_source_code(f"0{Path(file).suffix}", source.code).function_list
    return tuple(lizard_finding(one) for one in functions if one.name != OUTSIDE or one.cyclomatic_complexity > 1)


def lizard_finding(function: Any) -> Finding:
    """Build a finding from a Lizard function record."""
    name = "<module>" if function.name == OUTSIDE else function.name
    figure = function.cyclomatic_complexity
    first = max(1, function.start_line)
    message = f"{name}: cyclomatic complexity {figure}"
    return Finding("complexity", "cyclomatic", message[:500], first, end_line=max(first, function.end_line), value=figure)
