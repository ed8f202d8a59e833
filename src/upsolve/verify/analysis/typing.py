"""Type errors of Python code by ty, for many programs in one run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from upsolve.types import Finding
from upsolve.verify.analysis.source import Source, in_folder, rows_of

__all__ = ["types"]

SETTINGS = '[analysis]\nrespect-type-ignore-comments = false\n[environment]\npython-version = "3.11"\n'


def types(sources: Sequence[Source]) -> list[tuple[Finding, ...]]:
    """Return the type errors of every program: kind ``types``, ty's rule. A program that does not parse has none.

    Raises:
        JudgeError: ty failed; the message has its output.
    """
    from ty import find_ty_bin

    with in_folder(sources) as folder:
        settings = folder / "settings.toml"
        settings.write_text(SETTINGS, encoding="utf-8")
        command = [find_ty_bin(), "check", f"--project={folder}", f"--config-file={settings}", "--output-format=gitlab"]
        rows = rows_of([*command, "--exit-zero", "--no-progress"], folder)
    by_program: dict[int, list[Finding]] = {}
    for row in rows:
        by_program.setdefault(int(Path(row["location"]["path"]).stem), []).append(finding(row))
    broken = {
        number for number, findings in by_program.items() if any(finding.rule == "invalid-syntax" for finding in findings)
    }
    return [() if number in broken else tuple(by_program.get(number, ())) for number in range(len(sources))]


def finding(row: dict[str, Any]) -> Finding:
    """Build a finding from a row of ty's output."""
    rule, spots = row["check_name"], row["location"]["positions"]
    message = row["description"].removeprefix(f"{rule}: ")[:500]
    start, end = spots["begin"], spots["end"]
    return Finding("types", rule, message, start["line"], start["column"], end["line"], end["column"])
