"""Importer for SARIF 2.1.0, the findings of CodeQL, Semgrep, Bandit, Ruff and others: they are added to the attempts at a commit."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from upsolve.importers.history.changes import Change, changes_of, repository_name
from upsolve.importers.history.ci import MAX_KB, REPOSITORY, open_repository, reports_by_commit, units_with_reports
from upsolve.importers.history.reports import Report
from upsolve.importers.rows import Row
from upsolve.importers.source import Option, Source, Unit
from upsolve.types import Attempt, Finding, Status, Verdict

__all__ = ["SOURCE", "parse", "read"]

JUDGE = "recorded:sarif"
PATTERNS = ("*.sarif", "*.sarif.json")


@dataclass(frozen=True, slots=True)
class Findings(Report):
    """A report of analyses."""

    by_path: Mapping[str, tuple[Finding, ...]] = ()  # type: ignore[assignment]
    """Path in the repository -> findings."""
    tools: tuple[str, ...] = ()
    """Tools with their versions."""


def parse(file: Path) -> Findings:
    """Return the findings of a file; suppressed results are left out."""
    runs: list[Mapping[str, Any]] = json.loads(file.read_text(encoding="utf-8-sig"))["runs"]
    found: dict[str, list[Finding]] = {}
    for run in runs:
        for result in run.get("results") or ():
            for path, finding in findings_of(run, result):
                found.setdefault(path, []).append(finding)
    commits = [
        str(one["revisionId"]) for run in runs for one in run.get("versionControlProvenance") or () if "revisionId" in one
    ]
    drivers = [run["tool"]["driver"] for run in runs]
    tools = tuple(f"sarif: {one['name']} {one.get('semanticVersion') or one.get('version') or ''}".strip() for one in drivers)
    return Findings(str(file), tuple(commits), by_path={path: tuple(all_of) for path, all_of in found.items()}, tools=tools)


def findings_of(run: Mapping[str, Any], result: Mapping[str, Any]) -> Iterator[tuple[str, Finding]]:
    """Yield path and finding for each location of a result, unless it is suppressed or no defect (``kind`` other than ``fail``)."""
    if result.get("suppressions") or result.get("kind", "fail") != "fail":
        return
    rules = run["tool"]["driver"].get("rules") or []
    index = result.get("ruleIndex", (result.get("rule") or {}).get("index", -1))
    rule: Mapping[str, Any] = rules[index] if 0 <= index < len(rules) else {}
    name = str(result.get("ruleId") or (result.get("rule") or {}).get("id") or rule.get("id") or "")
    about = rule.get("properties") or {}
    kind = "security" if "security" in (about.get("tags") or ()) or "security-severity" in about else "lint"
    message = " ".join(str((result.get("message") or {}).get("text") or name).split())[:500]
    for location in result.get("locations") or ():
        place = location.get("physicalLocation") or {}
        region = place.get("region") or {}
        path = unquote(str((place.get("artifactLocation") or {}).get("uri") or "")).removeprefix("./")
        end, last = region.get("endLine"), region.get("endColumn")
        yield (
            path,
            Finding(kind, name, message, int(region.get("startLine") or 1), int(region.get("startColumn") or 1), end, last),
        )


def read(
    path: Path,
    *,
    repository: str = "",
    commit: str = "",
    tasks: str = "git",
    name: str = "",
    first: bool = True,
    **changes: Any,
) -> Iterator[Row]:
    """Yield an unscored verdict with findings for each attempt, of the sources ``git`` or ``ci``, at a commit with a report.

    Args:
        path: a file, or a folder with ``*.sarif`` and ``*.sarif.json``.
        repository: the repository.
        commit: commit of all files; default: what a file, or its path, says.
        tasks: ``git``, or ``ci`` for attempts that came with reports on tests.
        name: name of the repository in task ids.
        first: whether to yield the files that cannot be used (``split``).
        changes: ``revision`` and ``max_kb`` of the import of the attempts, and ``only`` (``changes_of``).

    Raises:
        SourceError: there is no file, or no repository is given.
    """
    with open_repository(repository) as history:
        bad, by_commit = reports_by_commit(history, path, PATTERNS, parse=parse, commit=commit)
        if first:
            yield from bad
        options: dict[str, Any] = {"revision": "HEAD", "max_kb": MAX_KB, **changes}
        for change in changes_of(history, name=name or repository_name(history.path), source=tasks, **options):
            if isinstance(change, Change):
                for attempt, at in zip(change.attempts, (change.commit.parent, change.commit.name), strict=True):
                    if at in by_commit:
                        yield verdict_of(attempt, change.path, by_commit[at])


def split(path: Path, *, repository: str = "", commit: str = "", revision: str = "HEAD", **_options: Any) -> list[Unit]:
    """Return units of the commits with a file on them or on their parents."""
    with open_repository(repository) as history:
        _, by_commit = reports_by_commit(history, path, PATTERNS, parse=parse, commit=commit)
        names = [one.name for one in history.commits(revision) if not by_commit.keys().isdisjoint((one.name, one.parent))]
        return units_with_reports(path, names)


def verdict_of(attempt: Attempt, path: str, reports: list[Findings]) -> Verdict:
    """Return the findings on an attempt as an unscored verdict: an analysis decides no outcome."""
    lines = attempt.code.count("\n") + 1
    found = dict.fromkeys(finding for report in reports for finding in report.by_path.get(path, ()) if finding.line <= lines)
    tools = dict.fromkeys(tool for report in reports for tool in report.tools)
    said = "findings of an analysis, no outcome"
    return Verdict(
        attempt.attempt_id, Status.UNSCORED, judge=JUDGE, error_message=said, findings=tuple(found), analyses=tuple(tools)
    )


SOURCE = Source(
    read,
    "a SARIF file, or a folder with such",
    (*REPOSITORY, Option("tasks", str, "attempts of which source: git (default), or ci")),
    max_rejected=1.0,
    split=split,
)
