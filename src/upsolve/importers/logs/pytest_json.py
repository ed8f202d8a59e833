"""Importer for the JSON of pytest: pytest-json-report (one object) and pytest-reportlog (one line per report)."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from upsolve.importers.history.ci import ci_source
from upsolve.importers.history.reports import Collected, Report, name_of
from upsolve.importers.rows import BadRow, json_lines
from upsolve.types import Status

__all__ = ["SOURCE", "parse"]

STATUSES = {"passed": Status.PASSED, "failed": Status.FAILED, "error": Status.RUNTIME_ERROR, "rerun": Status.FAILED}
"""Outcome of pytest -> status; skipped tests, and those expected to fail, have none."""
BROKEN = {2: "pytest was interrupted", 3: "pytest had an internal error", 4: "pytest was called with wrong options"}
"""Exit status of pytest -> why the run broke."""
COMMIT = "commit"


def parse(file: Path) -> Report | BadRow:
    """Return the report of a file of either plugin; a BadRow with the first line that is no JSON, in a file of lines."""
    rows = [row for _, row in json_lines(file)]
    if len(rows) < 2 or isinstance(rows[0], BadRow):  # not a file of lines
        whole = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(whole, dict) and "tests" in whole:
            return of_object(file, whole)
    lines = [row for row in rows if not isinstance(row, BadRow)]
    if len(lines) < len(rows):
        return next(row for row in rows if isinstance(row, BadRow))
    if not any("$report_type" in line for line in lines):
        raise ValueError("it has neither `tests` (pytest-json-report) nor `$report_type` (pytest-reportlog)")
    return of_lines(file, lines)


def of_object(file: Path, whole: Mapping[str, Any]) -> Report:
    """Return the report of pytest-json-report."""
    parts = [(test["nodeid"], test.get("outcome"), longrepr(test)) for test in whole["tests"]]
    failed = [one["nodeid"] for one in whole.get("collectors") or () if one.get("outcome") == "failed"]
    commits = [str(value) for key, value in (whole.get("environment") or {}).items() if COMMIT in key.lower()]
    return report_of(file, parts, failed=failed, exit_status=whole.get("exitcode"), commits=commits)


def longrepr(test: Mapping[str, Any]) -> str:
    """Return the message of the first phase of a test that has one."""
    phases = [test.get(phase) or {} for phase in ("setup", "call", "teardown")]
    return next((str((one.get("crash") or {}).get("message") or one["longrepr"]) for one in phases if one.get("longrepr")), "")


def of_lines(file: Path, lines: Iterable[Mapping[str, Any]]) -> Report:
    """Return the report of pytest-reportlog: a test has a line for each of its phases."""
    parts: list[Any] = []
    failed: list[str] = []
    status: Any = None
    for line in lines:
        kind, outcome = line.get("$report_type"), line.get("outcome")
        if kind == "SessionFinish":
            status = line.get("exitstatus")
        elif kind == "CollectReport" and outcome == "failed":
            failed.append(str(line.get("nodeid")))
        elif kind == "TestReport":
            phase, expected = line.get("when"), "wasxfail" in line
            outcome = "error" if outcome == "failed" and phase != "call" else outcome
            if (phase == "call" or outcome != "passed") and not expected:
                parts.append((line["nodeid"], outcome, message_of(line.get("longrepr"))))
    return report_of(file, parts, failed=failed, exit_status=status if status is not None else 2)


def message_of(said: Any) -> str:
    """Return the message of a failure, in one of pytest's forms."""
    crash = said.get("reprcrash") if isinstance(said, dict) else None
    return str(crash.get("message")) if isinstance(crash, dict) else str(said or "")


def report_of(
    file: Path, parts: Iterable[Any], *, failed: Iterable[str], exit_status: Any, commits: Iterable[str] = ()
) -> Report:
    """Return a report from the tests (name, outcome, message), files that could not be collected, and pytest's exit status."""
    found = Collected(broken=next((f"{one} could not be collected" for one in failed), "") or BROKEN.get(exit_status, ""))
    for node, outcome, message in parts:
        if outcome in STATUSES:
            found.add(name_of(node), {STATUSES[outcome]}, message)
    return found.report(file, commits)


SOURCE = ci_source(
    "pytest_json", "a report of pytest-json-report or pytest-reportlog, or a folder with such", ("*.json", "*.jsonl"), parse
)
