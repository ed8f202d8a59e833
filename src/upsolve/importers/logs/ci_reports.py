"""Importers of reports and logs of CI on a repository: JUnit XML, the JSON of pytest, logs of GitHub Actions and GitLab CI, and SARIF 2.1.0."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers.expat import ParserCreate

from upsolve.importers.formats import member_of
from upsolve.importers.formats.texts import line_rows
from upsolve.importers.history.ci import MAX_KB, Parse, Report, ci_source, name_of, rows_of
from upsolve.importers.history.repository import Change, Repository, changes_of, repository_name
from upsolve.importers.rows import BadRow, Row
from upsolve.importers.source import Option, Source
from upsolve.types import Attempt, Finding, Status, Verdict

__all__ = ["GITHUB", "GITLAB", "JUNIT", "PYTEST_JSON", "SARIF", "parse_xml"]

FAILURES = {"failure": Status.FAILED, "error": Status.RUNTIME_ERROR}
AGAIN = ("flakyFailure", "flakyError", "rerunFailure", "rerunError")
"""Elements in which Maven reports earlier runs of a retried test."""
PROPERTY = re.compile(r"(?:^|[._ -])(?:commit|sha|revision)(?:[._ -]?(?:id|sha|hash))?$", re.IGNORECASE)
"""Names of properties that hold a commit: ``git.commit``, ``GIT_COMMIT``, ``sha``."""


def with_outcomes(name: str, path: str, patterns: Sequence[str], parse: Parse) -> Source:
    """Return the source of reports with outcomes of tests, given its name and the arguments of ``ci_source``."""
    return ci_source(path, patterns, parse, partial(rows_of, judge=f"recorded:{name}"))


def parse_xml(file: Path) -> Element:
    """Return the root of an XML file; ExpatError if it is not well formed, ValueError if it has a document type.

    A document type is refused: entities can be declared nowhere else, and neither expanded (billion laughs) nor fetched.
    """
    builder, parser = TreeBuilder(), ParserCreate()

    def refuse(*_declared: object) -> None:
        raise ValueError("a document type (<!DOCTYPE>) is refused: it can declare entities")

    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    with file.open("rb") as data:
        parser.ParseFile(data)
    return builder.close()


def parse_junit(file: Path) -> Report:
    """Return the report of a file. Skipped tests, and errors of the network or the machine, have no outcome."""
    root, found = parse_xml(file), Report(str(file))
    if root.tag not in ("testsuites", "testsuite"):
        raise ValueError(f"the root element is <{root.tag}>, not <testsuites> or <testsuite>")
    for case in root.iter("testcase"):
        failed = [one for one in case if one.tag in (*FAILURES, *AGAIN)]
        message, text = (failed[0].get("message") or "", failed[0].text or "") if failed else ("", "")
        if "collection failure" in message:
            found.broken = found.broken or f"{case.get('name', '')} could not be collected"
            continue
        last = {FAILURES[one.tag] for one in failed if one.tag in FAILURES} or {Status.PASSED}
        statuses = last | {Status.FAILED for one in failed if one.tag in AGAIN}
        skipped = case.find("skipped") is not None
        name = name_of(f"{case.get('classname', '')}::{case.get('name', '')}")
        found.add(name, () if skipped else statuses, message, text)
    properties = [one for one in root.iter("property") if PROPERTY.search(one.get("name", ""))]
    return found.settled((one.get("value") or one.text or "").strip() for one in properties)


JUNIT = with_outcomes("junit", "a JUnit XML file, or a folder with such", ("*.xml",), parse_junit)


STATUSES = {"passed": Status.PASSED, "failed": Status.FAILED, "error": Status.RUNTIME_ERROR, "rerun": Status.FAILED}
"""Outcome of pytest -> status; skipped tests, and tests that are expected to fail, have no status."""
BROKEN = {2: "pytest was interrupted", 3: "pytest had an internal error", 4: "pytest was called with wrong options"}
"""Exit status of pytest -> why the run broke."""


def parse_pytest(file: Path) -> Report | BadRow:
    """Return the report of a file of either plugin; for a file of lines that is not JSON, a BadRow with the first bad line."""
    rows = [row for _, row in line_rows(member_of(file))]
    if len(rows) < 2 or isinstance(rows[0], BadRow):  # not a file of lines
        whole = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(whole, dict) and "tests" in whole:
            return of_object(file, whole)
    lines = [row for row in rows if not isinstance(row, BadRow)]
    if len(lines) < len(rows):
        return next(row for row in rows if isinstance(row, BadRow))
    if not any("$report_type" in line for line in lines):
        raise ValueError("the report has neither `tests` (pytest-json-report) nor `$report_type` (pytest-reportlog)")
    return of_lines(file, lines)


def of_object(file: Path, whole: Mapping[str, Any]) -> Report:
    """Return the report of pytest-json-report."""
    uncollected = [one["nodeid"] for one in whole.get("collectors") or () if one.get("outcome") == "failed"]
    found = Report(str(file), broken=broken_by(uncollected, whole.get("exitcode")))
    for test in whole["tests"]:
        phases = [one for phase in ("setup", "call", "teardown") if (one := test.get(phase) or {}).get("longrepr")]
        failure = str((phases[0].get("crash") or {}).get("message") or phases[0]["longrepr"]) if phases else ""
        if test.get("outcome") in STATUSES:
            found.add(name_of(test["nodeid"]), {STATUSES[test["outcome"]]}, failure)
    return found.settled(str(value) for key, value in (whole.get("environment") or {}).items() if "commit" in key.lower())


def of_lines(file: Path, lines: Iterable[Mapping[str, Any]]) -> Report:
    """Return the report of pytest-reportlog, which has a line for each phase of a test."""
    found, uncollected, status = Report(str(file)), list[str](), None
    for line in lines:
        kind, outcome = line.get("$report_type"), line.get("outcome")
        if kind == "SessionFinish":
            status = line.get("exitstatus")
        elif kind == "CollectReport" and outcome == "failed":
            uncollected.append(str(line.get("nodeid")))
        elif kind == "TestReport" and "wasxfail" not in line:
            in_call, failure = line.get("when") == "call", line.get("longrepr")
            crash = failure.get("reprcrash") if isinstance(failure, dict) else None
            message = str(crash.get("message") if isinstance(crash, dict) else failure or "")
            outcome = "error" if outcome == "failed" and not in_call else outcome
            if outcome in STATUSES and (in_call or outcome != "passed"):
                found.add(name_of(line["nodeid"]), {STATUSES[outcome]}, message)
    found.broken = broken_by(uncollected, 2 if status is None else status)
    return found.settled()


def broken_by(uncollected: Sequence[str], exit_status: Any) -> str:
    """Return why a run broke, given files that could not be collected and pytest's exit status; empty if it did not break."""
    return f"{uncollected[0]} could not be collected" if uncollected else BROKEN.get(exit_status, "")


PYTEST_JSON = with_outcomes(
    "pytest_json",
    "a report of pytest-json-report or pytest-reportlog, or a folder with such",
    ("*.json", "*.jsonl"),
    parse_pytest,
)


WORDS = {**{word.upper(): status for word, status in STATUSES.items()}, "ok": Status.PASSED, "FAIL": Status.FAILED}
NOISE = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+Z (?:\d\d[OE][ +]?)?|\x1b\[[0-9;]*[A-Za-z]|section_(?:start|end):\d+:\S+?\r|\r")
"""Times before each line, colours, and marks of sections, which are removed."""
TEST = (
    re.compile(r"^(?P<name>\S+\.py::\S.*?) (?P<word>PASSED|FAILED|ERROR|RERUN)(?:\s+\[\s*\d+%\])?\s*$"),
    re.compile(r"^\[gw\d+\] (?:\[\s*\d+%\] )?(?P<word>PASSED|FAILED|ERROR|RERUN) (?P<name>\S+\.py::\S.*?)\s*$"),
    re.compile(r"^(?P<word>PASSED|FAILED|ERROR) (?P<name>\S+\.py::\S.*?)(?: - (?P<error>.*))?$"),
)
"""Lines of pytest: `-v`, `-v` of pytest-xdist, and the short summary (`-r`)."""
UNITTEST = re.compile(r"^(?P<test>test\w*) \((?P<home>[\w.]+)\)(?:.*) \.\.\. (?P<word>ok|FAIL|ERROR)\s*$")
COLLECTION = re.compile(r"^ERROR (?:collecting )?(?P<name>\S+\.py)(?: - (?P<error>.*))?$")
RUNNER = re.compile(
    r"^##\[error\](?P<github>.*(?:shutdown signal|operation was cancell?ed|lost communication|maximum execution time|"
    r"exceeded the maximum|hosted runner|runner .*(?:lost|error)|timed? ?out|No space left).*)|"
    r"^(?:ERROR|WARNING): (?P<gitlab>(?:Job failed.*(?:system failure|execution took longer|timed? ?out|canceled)|"
    r"Preparation failed|Failed to pull image|Job failed: pod .*(?:not found|disrupted)).*)|"
    r"^(?P<shell>(?:fatal: unable to access|curl: \(|E: Failed to fetch|ERROR: Could not install packages due to an OSError).*)"
)
COMMIT_LINE = re.compile(
    r"HEAD is now at (?P<short>[0-9a-f]{7,64})(?: Merge (?P<head>[0-9a-f]{40}) into)?|"
    r"^'?(?P<whole>[0-9a-f]{40})'?$|Checking out (?P<gitlab>[0-9a-f]{7,64}) as"
)


def parse_log(file: Path) -> Report:
    """Return the report of a log."""
    found, commits = Report(str(file)), dict[str, None]()
    with file.open(encoding="utf-8", errors="replace") as text:
        for line in (NOISE.sub("", line.lstrip("\ufeff").rstrip("\n")) for line in text):
            if line_match := COMMIT_LINE.search(line):
                commits |= dict.fromkeys(
                    filter(None, (line_match["head"], line_match["short"], line_match["whole"], line_match["gitlab"]))
                )
            if line_match := RUNNER.search(line):
                found.broken = found.broken or next(filter(None, line_match.groups())).strip()
            elif line_match := COLLECTION.match(line):
                found.broken = found.broken or f"{line_match['name']} could not be collected"
            elif test := test_of(line):
                name, word, error = test
                found.add(name, {WORDS[word]}, error)
    if not found.outcomes and not found.broken:
        raise ValueError("the log has no line about a single test; run pytest with -v, or with -rA")
    return found.settled(commits)


def test_of(line: str) -> tuple[str, str, str] | None:
    """Return name, outcome and error of the test that a line reports; None for any other line."""
    for pattern in TEST:
        if found := pattern.match(line):
            return name_of(found["name"]), found["word"], found.groupdict().get("error") or ""
    if found := UNITTEST.match(line):
        home = found["home"].removesuffix(f".{found['test']}")
        return f"{home}::{found['test']}", found["word"], ""
    return None


GITHUB = with_outcomes("github_log", "the log of a job of GitHub Actions, or a folder with such", ("*.txt", "*.log"), parse_log)
GITLAB = with_outcomes("gitlab_log", "the log of a job of GitLab CI, or a folder with such", ("*.log", "*.txt"), parse_log)


JUDGE = "recorded:sarif"


@dataclass(slots=True)
class Findings(Report):
    """A report of analyses."""

    by_path: Mapping[str, tuple[Finding, ...]] = ()  # type: ignore[assignment]
    """Path in the repository -> findings."""
    tools: tuple[str, ...] = ()
    """Tools with their versions."""


def parse_sarif(file: Path) -> Findings:
    """Return the findings of a file; suppressed results are left out."""
    runs: list[Mapping[str, Any]] = json.loads(file.read_text(encoding="utf-8-sig"))["runs"]
    found: dict[str, list[Finding]] = {}
    for run in runs:
        for result in run.get("results") or ():
            for path, finding in findings_of(run, result):
                found.setdefault(path, []).append(finding)
    places = [one for run in runs for one in run.get("versionControlProvenance") or ()]
    commits = [str(one["revisionId"]) for one in places if "revisionId" in one]
    drivers = [run["tool"]["driver"] for run in runs]
    tools = tuple(f"sarif: {one['name']} {one.get('semanticVersion') or one.get('version') or ''}".strip() for one in drivers)
    return Findings(str(file), tuple(commits), by_path={path: tuple(all_of) for path, all_of in found.items()}, tools=tools)


def findings_of(run: Mapping[str, Any], result: Mapping[str, Any]) -> Iterator[tuple[str, Finding]]:
    """Yield path and finding for each location of a result, unless it is suppressed or not a defect (``kind`` other than ``fail``)."""
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
        start, first = (int(region.get(key) or 1) for key in ("startLine", "startColumn"))
        yield path, Finding(kind, name, message, start, first, end, last)


def findings_by_commit(
    history: Repository, by_commit: Mapping[str, Sequence[Findings]], *, tasks: str = "git", name: str = "", **changes: Any
) -> Iterator[Row]:
    """Yield an unscored verdict with findings for each attempt of the sources ``git`` and ``ci`` at a commit with a report."""
    options: dict[str, Any] = {"revision": "HEAD", "max_kb": MAX_KB, **changes}
    for change in changes_of(history, name=name or repository_name(history.path), source=tasks, **options):
        if isinstance(change, Change):
            for attempt, at in zip(change.attempts, (change.commit.parent, change.commit.name), strict=True):
                if at in by_commit:
                    yield verdict_of(attempt, change.path, by_commit[at])


def verdict_of(attempt: Attempt, path: str, reports: Sequence[Findings]) -> Verdict:
    """Return the findings on an attempt as an unscored verdict, since an analysis decides no outcome."""
    lines = attempt.code.count("\n") + 1
    found = dict.fromkeys(finding for report in reports for finding in report.by_path.get(path, ()) if finding.line <= lines)
    tools = dict.fromkeys(tool for report in reports for tool in report.tools)
    reason = "findings of an analysis, no outcome"
    return Verdict(
        attempt.attempt_id, Status.UNSCORED, judge=JUDGE, error_message=reason, findings=tuple(found), analyses=tuple(tools)
    )


SARIF = ci_source(
    "a SARIF file, or a folder with such",
    ("*.sarif", "*.sarif.json"),
    parse_sarif,
    findings_by_commit,
    Option("tasks", str, "source of the attempts: git (default), or ci"),
)
