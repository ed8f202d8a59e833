"""Reports of CI and a repository -> tasks, attempts and recorded verdicts (for the sources junit, pytest_json, github_log, gitlab_log)."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache
from json import JSONDecodeError
from pathlib import Path
from typing import Any
from xml.parsers.expat import ExpatError

from upsolve.errors import SourceError
from upsolve.importers.history.git import FORMS, crossed, lacking, run, with_packages, with_tests
from upsolve.importers.history.repository import (
    Change,
    Repository,
    bad_commit,
    changes_of,
    commit_units,
    prompt_of,
    repository_name,
)
from upsolve.importers.rows import ODD, BadRow, Row, reason_of
from upsolve.importers.source import Option, Source, Unit
from upsolve.types import Finding, Status, Task, Verdict

__all__ = [
    "MAX_KB",
    "Parse",
    "Report",
    "ci_source",
    "name_of",
    "rows_of",
]


HASH = re.compile(r"(?<![0-9a-zA-Z])[0-9a-f]{7,64}(?![0-9a-zA-Z])")
MACHINE = re.compile(
    r"No space left on device|\[Errno 28\]|Temporary failure in name resolution|Name or service not known|Could not resolve host|"
    r"Network is unreachable|Connection (?:refused|reset|aborted|timed out)|Max retries exceeded|Read timed out|ConnectTimeout"
)
"""Words in errors that are faults of the machine or the network."""


@dataclass(slots=True)
class Report:
    """One report of a run of tests."""

    file: str
    commits: tuple[str, ...] = ()
    """Candidates for the commit's hash, full or abbreviated, the likeliest first."""
    outcomes: dict[str, Set[Status]] = field(default_factory=dict[str, Set[Status]])
    """Test -> its outcomes in all of its runs: PASSED, FAILED, RUNTIME_ERROR, TIMEOUT; names as of ``name_of``, with parameters."""
    errors: dict[str, str] = field(default_factory=dict[str, str])
    """Test -> the first message of its failure, one line of at most 500 characters."""
    broken: str = ""
    """Why the run broke; empty if it did not break."""
    lost: set[str] = field(default_factory=set[str])
    """Tests that failed by a fault of the machine or the network; they have no outcome."""

    def add(self, name: str, statuses: Iterable[Status], message: str = "", text: str = "") -> None:
        """Add the outcomes of a test in one or more runs, with the message of a failure and its full text."""
        self.outcomes[name] = {*self.outcomes.get(name, ()), *statuses}
        if MACHINE.search(f"{message}\n{text}"):
            self.lost.add(name)
        elif reason := " ".join((message or text).split()):
            self.errors.setdefault(name, reason[:500])

    def settled(self, commits: Iterable[str] = ()) -> "Report":
        """Return the complete report. A test that passed but failed in its set-up or clean-up did not pass."""
        found = {name: statuses for name, statuses in self.outcomes.items() if name not in self.lost and statuses}
        found = {name: one - {Status.PASSED} if Status.RUNTIME_ERROR in one else one for name, one in found.items()}
        return Report(self.file, tuple(commits), found, self.errors, self.broken)


Parse = Callable[[Path], Report | BadRow]


@dataclass(frozen=True, slots=True)
class Results:
    """Outcomes of the tests at a commit, over all reports."""

    outcomes: Mapping[str, Status]
    """Test, without parameters -> outcome: PASSED if it passed with all parameters."""
    flaky: frozenset[str]
    """Tests that passed and failed."""
    errors: Mapping[str, str]
    """Test -> the message of its failure."""
    broken: str
    """Why the run broke, if it broke in every report; otherwise empty."""
    file: str = ""
    """The first of the reports."""


def name_of(text: str) -> str:
    """Return the name of a test as ``tests.test_text.TestSlug::test_case[1]``, from this form or from pytest's form with slashes."""
    whole, bracket, parameters = text.partition("[")
    parts = whole.split("::")
    if parts[0].endswith(".py"):
        parts[0] = parts[0].removesuffix(".py").replace("/", ".").replace("\\", ".")
    return f"{'.'.join(parts[:-1])}::{parts[-1]}{bracket}{parameters}"


def is_same_test(short: str, full: str) -> bool:
    """Return whether two names mean the same test: a report may omit leading folders."""
    return full == short or full.endswith(f".{short}")


def merged(reports: Iterable[Report]) -> Results:
    """Return the merged results of at least one report on a commit; reports of broken runs count only if all runs are broken."""
    every = list(reports)
    whole = [report for report in every if not report.broken]
    seen: dict[str, set[Status]] = {}
    errors: dict[str, str] = {}
    for report in whole:
        for name, statuses in report.outcomes.items():
            seen.setdefault(name, set()).update(statuses)
        errors.update({name.partition("[")[0]: text for name, text in report.errors.items()})
    both = (name for name, statuses in seen.items() if len(statuses) > 1 and Status.PASSED in statuses)
    flaky = frozenset(name.partition("[")[0] for name in both)
    outcomes: dict[str, Status] = {}
    for name, statuses in seen.items():
        base, worst = name.partition("[")[0], next((one for one in sorted(statuses) if one is not Status.PASSED), Status.PASSED)
        if outcomes.get(base, Status.PASSED) is Status.PASSED:
            outcomes[base] = worst
    return Results(outcomes, flaky, errors, "" if whole else every[0].broken, every[0].file)


@lru_cache(maxsize=4096)
def parsed(file: Path, parse: Parse, _changed: int) -> Report | BadRow:
    """Return the report of a file, or a ``BadRow`` if it cannot be read; cached, since the shares of an import read the same files."""
    try:
        return parse(file)
    except (*ODD, OSError, ExpatError) as error:
        line = error.lineno if isinstance(error, ExpatError | JSONDecodeError) else 0
        form = "not XML: " if isinstance(error, ExpatError) else "not JSON: " if isinstance(error, JSONDecodeError) else ""
        return BadRow(str(file), line, f"{form}{error if form else reason_of(error)}", "")


MAX_KB = 20
REPOSITORY = (
    Option("repository", str, "git repository whose tests the reports are about"),
    Option("commit", str, "commit of all reports (default: the one that a report, or its path, names)"),
    Option("revision", str, "branch, tag or commit whose history is read (default: HEAD)"),
    Option("name", str, "name of the repository in task ids (default: that of its folder)"),
    Option("max_kb", int, f"largest size of the file, kB (default: {MAX_KB})"),
)
"""Options of the sources that read reports."""


def ci_source(path: str, patterns: Sequence[str], parse: Parse, rows: Callable[..., Iterator[Row]], *more: Option) -> Source:
    """Return the source of a format of reports.

    Args:
        path: description of the path.
        patterns: names of the files in a folder.
        parse: returns the report in a file.
        rows: ``rows(history, reports by commit, **options)`` yields the records.
        more: options besides the common ones.
    """

    def read(path: Path, *, repository: str = "", commit: str = "", first: bool = True, **options: Any) -> Iterator[Row]:
        with open_repository(repository) as history:
            bad, by_commit = reports_by_commit(history, path, patterns, parse=parse, commit=commit)
            if first:
                yield from bad
            yield from rows(history, by_commit, **options)

    def split(path: Path, *, repository: str = "", commit: str = "", revision: str = "HEAD", **_options: Any) -> list[Unit]:
        """Return units of the commits with a report on them or on their parents; the first one also has the reports that cannot be used."""
        with open_repository(repository) as history:
            _, by_commit = reports_by_commit(history, path, patterns, parse=parse, commit=commit)
            names = [one.name for one in history.commits(revision) if not by_commit.keys().isdisjoint((one.name, one.parent))]
        units = commit_units(path, names)
        return [replace(unit, options={**unit.options, "first": number == 0}) for number, unit in enumerate(units)]

    return Source(read, path, (*REPOSITORY, *more), max_rejected=1.0, split=split)


def open_repository(path: str) -> Repository:
    """Return the repository; SourceError if none is given."""
    if not path:
        raise SourceError("--repository is needed: reports hold no code, which is read from the commits of the repository")
    return Repository(Path(path))


def reports_by_commit(
    history: Repository, path: Path, patterns: Sequence[str], *, parse: Parse, commit: str
) -> tuple[list[BadRow], dict[str, list[Any]]]:
    """Return the reports of a file or folder that cannot be used, and the others by the full hash of their commit."""
    files = [path] if path.is_file() else sorted({file for one in patterns for file in path.rglob(one) if file.is_file()})
    if not files:
        raise SourceError(f"{path}: contains no report: {', '.join(patterns)}")
    bad: list[BadRow] = []
    by_commit: dict[str, list[Any]] = {}
    for file in files:
        report = parsed(file, parse, file.stat().st_mtime_ns)
        if isinstance(report, BadRow):
            bad.append(report)
            continue
        named = [text for text in map(str.lower, report.commits) if HASH.fullmatch(text)]
        inside = file.relative_to(path.parent).as_posix()
        commits = [commit] if commit else [*named, *reversed(HASH.findall(inside))]
        if known := [name for name in history.names(commits) if name] if commits else []:
            by_commit.setdefault(known[0], []).append(report)
        else:
            names = ", ".join(commits)
            problem = f"commit {names} is not in the repository" if names else "it names no commit (--commit)"
            bad.append(BadRow(report.file, 0, problem, ""))
    return bad, by_commit


def rows_of(
    history: Repository,
    by_commit: Mapping[str, Sequence[Report]],
    *,
    judge: str,
    revision: str = "HEAD",
    name: str = "",
    max_kb: int = MAX_KB,
    only: Set[str] | None = None,
) -> Iterator[Row]:
    """Yield the records of each change with reports before and after it; only commits in ``only`` (None: all)."""
    results = {place: merged(reports) for place, reports in by_commit.items()}
    commits = results.keys() if only is None else results.keys() & only
    label = name or repository_name(history.path)
    for change in changes_of(history, revision=revision, name=label, max_kb=max_kb, source="ci", only=commits):
        if isinstance(change, BadRow):
            yield change
            continue
        after = results[change.commit.name]
        try:
            if change.commit.parent not in results:
                raise ValueError(f"its parent commit {change.commit.parent[:12]} has no report; add one")
            yield from pair(history, change, results[change.commit.parent], after, judge=judge)
        except ValueError as error:
            yield replace(bad_commit(history.path, change, f"commit {change.commit.name[:12]}: {error}"), file=after.file)


def pair(history: Repository, change: Change, before: Results, after: Results, *, judge: str) -> list[Row]:
    """Return the records of a change."""
    flaky = sorted(before.flaky | after.flaky)
    passing = [name for name, status in after.outcomes.items() if status is Status.PASSED and name not in flaky]
    flipped = [name for name in passing if before.outcomes.get(name, Status.PASSED) is not Status.PASSED]
    names = [*flipped, *(name for name in passing if before.outcomes.get(name) is Status.PASSED)]
    broken = before.broken or after.broken
    if not flipped and not broken:
        raise ValueError("no test that failed before it passes after it")
    task = change.task(history)
    if flipped:
        task, names = runnable(history, change, task, names, flipped)
    first, last = (
        verdict_of(attempt.attempt_id, judge, result, names, flaky=flaky, broken=broken)
        for attempt, result in zip(change.attempts, (before, after), strict=True)
    )
    error = next((before.errors[name] for name in flipped if before.errors.get(name)), "")
    task = replace(task, prompt=prompt_of(change, flipped, error), extra=change.facts(flipped, flaky), official=False)
    return [task, change.attempts[0], first, change.attempts[1], last]


def verdict_of(
    attempt_id: str, judge: str, result: Results, names: Sequence[str], *, flaky: Sequence[str], broken: str
) -> Verdict:
    """Return the recorded verdict on one file: UNSCORED if the run before or after broke."""
    marks = tuple(Finding("flaky", "outcome", f"{name}: passed and failed on one commit", 1) for name in flaky)
    if broken:
        return Verdict(attempt_id, Status.UNSCORED, judge=judge, error_message=f"the run broke: {broken}"[:500], findings=marks)
    outcomes = tuple(result.outcomes[name] for name in names)
    status = next((one for one in outcomes if one is not Status.PASSED), Status.PASSED)
    failed = next((result.errors.get(name, "") for name in names if result.outcomes[name] is not Status.PASSED), "")
    passed = outcomes.count(Status.PASSED)
    return Verdict(attempt_id, status, passed, len(names), outcomes, judge, error_message=failed[:500], findings=marks)


def runnable(
    history: Repository, change: Change, task: Task, names: Sequence[str], flipped: Sequence[str]
) -> tuple[Task, Sequence[str]]:
    """Return the task with the tests whose outcome in the sandbox equals the recorded outcome, and their names in CI."""
    ci_names = {
        with_packages(test, change): name
        for test in change.tests(history)
        if (name := next((name for name in names if is_same_test(name, name_of(test.name))), ""))
    }
    usable = [test for test in ci_names if not test.problem] if not lacking(task.requires) else []
    known = {test.name: ci_names[test] for test in usable}
    wanted = {name for name, known_as in known.items() if known_as in flipped}
    for form in FORMS if wanted else ():
        try:
            texts = form(task, change, usable)
            order = sorted(texts, key=lambda name: name not in wanted)
            runs = run(with_tests(task, texts, order), change.attempts, 1)
        except ValueError:
            continue
        kinds = zip(order, map(runs.kind, range(len(order))), strict=True)
        agreed = [name for name, kind in kinds if kind == ("flipped" if name in wanted else "kept")]
        if wanted & {*agreed} and (form is FORMS[-1] or crossed(runs)):
            return with_tests(task, texts, agreed), [known[name] for name in agreed]
    return task, names
