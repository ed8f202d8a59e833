"""Importers for the logs of jobs of GitHub Actions and GitLab CI: the lines about single tests, and failures of the runner.

The end of a log is not read as an outcome: a job fails for many reasons, and may pass though tests failed.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from upsolve.importers.history.ci import ci_source
from upsolve.importers.history.reports import Collected, Report, name_of
from upsolve.types import Status

__all__ = ["GITHUB", "GITLAB", "parse"]

WORDS = {
    "PASSED": Status.PASSED,
    "FAILED": Status.FAILED,
    "ERROR": Status.RUNTIME_ERROR,
    "RERUN": Status.FAILED,
    "ok": Status.PASSED,
    "FAIL": Status.FAILED,
}
NOISE = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+Z (?:\d\d[OE][ +]?)?|\x1b\[[0-9;]*[A-Za-z]|section_(?:start|end):\d+:\S+?\r|\r")
"""Times before each line, colours, and marks of sections."""
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
COMMIT = re.compile(
    r"HEAD is now at (?P<short>[0-9a-f]{7,64})(?: Merge (?P<head>[0-9a-f]{40}) into)?|"
    r"^'?(?P<whole>[0-9a-f]{40})'?$|Checking out (?P<gitlab>[0-9a-f]{7,64}) as"
)


def lines_of(file: Path) -> Iterator[str]:
    """Yield the lines of a log without times, colours and marks."""
    with file.open(encoding="utf-8", errors="replace") as text:
        for line in text:
            yield NOISE.sub("", line.lstrip("\ufeff").rstrip("\n"))


def parse(file: Path) -> Report:
    """Return the report of a log.

    Raises:
        ValueError: it has no line about a single test, and no failure of the runner.
    """
    found, commits = Collected(), dict[str, None]()
    for line in lines_of(file):
        if said := COMMIT.search(line):
            commits |= dict.fromkeys(text for text in (said["head"], said["short"], said["whole"], said["gitlab"]) if text)
        if said := RUNNER.search(line):
            found.broken = found.broken or next(text for text in said.groups() if text).strip()
        elif said := COLLECTION.match(line):
            found.broken = found.broken or f"{said['name']} could not be collected"
        elif test := test_of(line):
            name, word, error = test
            found.add(name, {WORDS[word]}, error)
    if not found.outcomes and not found.broken:
        raise ValueError("it has no line about a single test (run pytest with -v, or with -rA)")
    return found.report(file, commits)


def test_of(line: str) -> tuple[str, str, str] | None:
    """Return name, outcome and error of the test that a line is about; None for any other line."""
    for pattern in TEST:
        if found := pattern.match(line):
            return name_of(found["name"]), found["word"], found.groupdict().get("error") or ""
    if found := UNITTEST.match(line):
        home = found["home"].removesuffix(f".{found['test']}")
        return f"{home}::{found['test']}", found["word"], ""
    return None


GITHUB = ci_source("github_log", "the log of a job of GitHub Actions, or a folder with such", ("*.txt", "*.log"), parse)
GITLAB = ci_source("gitlab_log", "the log of a job of GitLab CI, or a folder with such", ("*.log", "*.txt"), parse)
