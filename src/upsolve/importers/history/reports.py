"""Reports of CI on tests: what each test gave at a commit, and whether the run broke for a reason other than the code."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from json import JSONDecodeError
from pathlib import Path
from xml.parsers.expat import ExpatError

from upsolve.errors import SourceError
from upsolve.importers.rows import ODD, BadRow, reason_of
from upsolve.types import Status

__all__ = ["Collected", "Report", "Results", "is_same_test", "merged", "name_of", "read_reports"]

HASH = re.compile(r"(?<![0-9a-zA-Z])[0-9a-f]{7,64}(?![0-9a-zA-Z])")
MACHINE = re.compile(
    r"No space left on device|\[Errno 28\]|Temporary failure in name resolution|Name or service not known|Could not resolve host|"
    r"Network is unreachable|Connection (?:refused|reset|aborted|timed out)|Max retries exceeded|Read timed out|ConnectTimeout"
)
"""Words of errors of the machine or the network."""


@dataclass(frozen=True, slots=True)
class Report:
    """One report of a run of tests."""

    file: str
    """Its file."""
    commits: tuple[str, ...] = ()
    """What may be the commit's hash, whole or abbreviated, the likeliest first."""
    outcomes: Mapping[str, frozenset[Status]] = field(default_factory=dict[str, frozenset[Status]])
    """Test -> what it gave, in all of its runs: PASSED, FAILED, RUNTIME_ERROR, TIMEOUT; names as of ``name_of``, with parameters."""
    errors: Mapping[str, str] = field(default_factory=dict[str, str])
    """Test -> the message of its failure."""
    broken: str = ""
    """Why the run broke; empty if it did not."""


@dataclass(slots=True)
class Collected:
    """What has been read of one report."""

    outcomes: dict[str, set[Status]] = field(default_factory=dict[str, set[Status]])
    """Test -> what it gave."""
    errors: dict[str, str] = field(default_factory=dict[str, str])
    """Test -> the first message of a failure, one line of at most 500 characters."""
    lost: set[str] = field(default_factory=set[str])
    """Tests that failed for a fault of the machine or the network: they have no outcome."""
    broken: str = ""
    """Why the run broke."""

    def add(self, name: str, statuses: Iterable[Status], message: str = "", text: str = "") -> None:
        """Add what a test gave in one or more runs, with the message of a failure and its full text."""
        self.outcomes.setdefault(name, set()).update(statuses)
        if MACHINE.search(f"{message}\n{text}"):
            self.lost.add(name)
        elif said := " ".join((message or text).split()):
            self.errors.setdefault(name, said[:500])

    def report(self, file: Path, commits: Iterable[str] = ()) -> Report:
        """Return the report. A test that passed, and failed to set up or to clean up after itself, did not pass."""
        found = {
            name: frozenset(statuses - {Status.PASSED} if Status.RUNTIME_ERROR in statuses else statuses)
            for name, statuses in self.outcomes.items()
            if name not in self.lost and statuses
        }
        return Report(str(file), tuple(commits), found, self.errors, self.broken)


@dataclass(frozen=True, slots=True)
class Results:
    """What the tests gave at a commit, over all reports."""

    outcomes: Mapping[str, Status]
    """Test, without parameters -> outcome: PASSED if it passed with all parameters."""
    flaky: frozenset[str]
    """Tests that passed and failed."""
    errors: Mapping[str, str]
    """Test -> the message of its failure."""
    broken: str
    """Why the run broke, if every report says that it did."""
    file: str = ""
    """The first of the reports."""


def name_of(text: str) -> str:
    """Return the name of a test as ``tests.test_text.TestSlug::test_case[1]``, from that or from pytest's notation with slashes."""
    whole, bracket, parameters = text.partition("[")
    parts = whole.split("::")
    if parts[0].endswith(".py"):
        parts[0] = parts[0].removesuffix(".py").replace("/", ".").replace("\\", ".")
    return f"{'.'.join(parts[:-1])}::{parts[-1]}{bracket}{parameters}"


def is_same_test(short: str, full: str) -> bool:
    """Return whether two names mean one test: a report may leave out leading folders."""
    return full == short or full.endswith(f".{short}")


def merged(reports: Iterable[Report]) -> Results:
    """Return the results of the reports on one commit, at least one; reports of broken runs count only if there are no others."""
    every = list(reports)
    whole = [report for report in every if not report.broken]
    seen: dict[str, set[Status]] = {}
    errors: dict[str, str] = {}
    for report in whole:
        for name, statuses in report.outcomes.items():
            seen.setdefault(name, set()).update(statuses)
        errors.update({name.partition("[")[0]: text for name, text in report.errors.items()})
    flaky = frozenset(
        name.partition("[")[0] for name, statuses in seen.items() if len(statuses) > 1 and Status.PASSED in statuses
    )
    outcomes: dict[str, Status] = {}
    for name, statuses in seen.items():
        base, worst = name.partition("[")[0], next((one for one in sorted(statuses) if one is not Status.PASSED), Status.PASSED)
        if outcomes.get(base, Status.PASSED) is Status.PASSED:
            outcomes[base] = worst
    return Results(outcomes, flaky, errors, "" if whole else every[0].broken, every[0].file)


@lru_cache(maxsize=4096)
def parsed(file: Path, parse: Callable[[Path], Report | BadRow], _changed: int) -> Report | BadRow:
    """Return the report of a file; the shares of an import read the same ones."""
    return parse(file)


def read_reports(
    path: Path, patterns: Iterable[str], parse: Callable[[Path], Report | BadRow], commit: str = ""
) -> Iterator[Report | BadRow]:
    """Yield the reports of a file, or of all files in a folder; one that cannot be read is a ``BadRow``.

    Args:
        path: file or folder.
        patterns: names of reports in a folder, such as ``*.xml``.
        parse: reads one file; a ``BadRow``, or an exception of ``rows.ODD`` or of the parser of XML, sets it aside.
        commit: commit of all reports; default: what a report says, else what looks like a hash in its path.

    Raises:
        SourceError: the folder has no report.
    """
    files = (
        [path] if path.is_file() else sorted({file for pattern in patterns for file in path.rglob(pattern) if file.is_file()})
    )
    if not files:
        raise SourceError(f"{path}: contains no report: {', '.join(patterns)}")
    for file in files:
        try:
            report = parsed(file, parse, file.stat().st_mtime_ns)
        except (*ODD, OSError, ExpatError) as error:
            line = error.lineno if isinstance(error, ExpatError | JSONDecodeError) else 0
            form = "not XML: " if isinstance(error, ExpatError) else "not JSON: " if isinstance(error, JSONDecodeError) else ""
            yield BadRow(str(file), line, f"{form}{error if form else reason_of(error)}", "")
            continue
        if isinstance(report, BadRow):
            yield report
            continue
        inside = file.relative_to(path.parent).as_posix()
        said = [text for text in map(str.lower, report.commits) if HASH.fullmatch(text)]
        commits = [commit] if commit else [*said, *reversed(HASH.findall(inside))]
        yield replace(report, commits=tuple(commits))
