"""Reports of CI and a repository -> tasks, attempts and recorded verdicts (for the sources junit, pytest_json, github_log, gitlab_log)."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.history.changes import Change, bad_commit, changes_of, commit_units, repository_name
from upsolve.importers.history.judging import FORMS, crossed, require, run, with_packages, with_tests
from upsolve.importers.history.prompts import prompt_of
from upsolve.importers.history.reports import Report, Results, is_same_test, merged, name_of, read_reports
from upsolve.importers.history.repository import Repository
from upsolve.importers.rows import BadRow, Row
from upsolve.importers.source import Option, Source, Unit
from upsolve.types import Finding, Status, Task, Verdict

__all__ = ["MAX_KB", "REPOSITORY", "ci_source", "open_repository", "reports_by_commit", "units_with_reports"]

MAX_KB = 20
REPOSITORY = (
    Option("repository", str, "the repository of git whose tests the reports are on"),
    Option("commit", str, "commit of all reports (default: what a report, or its path, says)"),
    Option("revision", str, "branch, tag or commit whose history is read (default: HEAD)"),
    Option("name", str, "name of the repository in task ids (default: that of its folder)"),
    Option("max_kb", int, f"largest size of the file, kB (default: {MAX_KB})"),
)
"""Options of the sources that read reports."""


def ci_source(name: str, path: str, patterns: Sequence[str], parse: Callable[[Path], Report | BadRow]) -> Source:
    """Return the source of one format of reports.

    Args:
        name: name of the format, in the judge's name ``recorded:<name>``.
        path: what the path is.
        patterns: names of reports in a folder.
        parse: reads one file (``read_reports``).
    """

    def read_format(path: Path, **options: Any) -> Iterator[Row]:
        return read(path, judge=f"recorded:{name}", patterns=patterns, parse=parse, **options)

    def split_format(
        path: Path, *, repository: str = "", commit: str = "", revision: str = "HEAD", **_options: Any
    ) -> list[Unit]:
        with open_repository(repository) as history:
            _, by_commit = reports_by_commit(history, path, patterns, parse=parse, commit=commit)
            return units_with_reports(path, [one.name for one in history.commits(revision) if one.name in by_commit])

    return Source(read_format, path, REPOSITORY, max_rejected=1.0, split=split_format)


def units_with_reports(path: Path, names: Sequence[str]) -> list[Unit]:
    """Return units of commits with reports; the first one also has the reports that cannot be used."""
    units = commit_units(path, names)
    return [replace(unit, options={**unit.options, "first": number == 0}) for number, unit in enumerate(units)]


def read(
    path: Path,
    *,
    judge: str,
    patterns: Sequence[str],
    parse: Callable[[Path], Report | BadRow],
    repository: str = "",
    commit: str = "",
    first: bool = True,
    **options: Any,
) -> Iterator[Row]:
    """Yield task, attempts and recorded verdicts for each commit that repairs a test, by the reports on it and on its parent.

    Args:
        path: a file, or a folder.
        judge: name of the judge of the verdicts.
        patterns: names of reports in a folder.
        parse: reads one file (``read_reports``).
        repository: the repository.
        commit: commit of all reports; default: what a report, or its path, says.
        first: whether to yield the reports that cannot be used (``units_with_reports``).
        options: of ``rows_of``.

    Raises:
        SourceError: there is no report, or no repository is given.
    """
    with open_repository(repository) as history:
        bad, by_commit = reports_by_commit(history, path, patterns, parse=parse, commit=commit)
        if first:
            yield from bad
        results = {place: merged(reports) for place, reports in by_commit.items()}
        yield from rows_of(history, results, judge=judge, **options)


def reports_by_commit(
    history: Repository, path: Path, patterns: Sequence[str], *, parse: Callable[[Path], Report | BadRow], commit: str
) -> tuple[list[BadRow], dict[str, list[Any]]]:
    """Return the reports that cannot be used, and the others by the full hash of their commit (``read_reports``)."""
    bad: list[BadRow] = []
    by_commit: dict[str, list[Any]] = {}
    for report in read_reports(path, patterns, parse, commit):
        place = resolved(history, report)
        if isinstance(place, BadRow):
            bad.append(place)
        else:
            by_commit.setdefault(place, []).append(report)
    return bad, by_commit


def open_repository(path: str) -> Repository:
    """Return the repository; SourceError if none is given."""
    if not path:
        raise SourceError("give --repository: reports hold no code, and an attempt is a file at a commit")
    return Repository(Path(path))


def resolved(history: Repository, report: Report | BadRow) -> str | BadRow:
    """Return the full hash of a report's commit; a BadRow if it has none that is in the repository."""
    if isinstance(report, BadRow):
        return report
    known = [name for name in history.names(report.commits) if name] if report.commits else []
    said = f"commit {', '.join(report.commits)} is not in the repository" if report.commits else "it names no commit (--commit)"
    return known[0] if known else BadRow(report.file, 0, said, "")


def rows_of(
    history: Repository,
    results: Mapping[str, Results],
    *,
    judge: str,
    revision: str = "HEAD",
    name: str = "",
    max_kb: int = MAX_KB,
    only: Set[str] | None = None,
) -> Iterator[Row]:
    """Yield the records of each change with reports before and after it; of the commits in ``only``, None for all."""
    commits = results.keys() if only is None else results.keys() & only
    label = name or repository_name(history.path)
    for change in changes_of(history, revision=revision, name=label, max_kb=max_kb, source="ci", only=commits):
        if isinstance(change, BadRow):
            yield change
            continue
        after = results[change.commit.name]
        try:
            if change.commit.parent not in results:
                raise ValueError(f"there is no report on its parent {change.commit.parent[:12]}")
            yield from pair(history, change, results[change.commit.parent], after, judge=judge)
        except ValueError as error:
            yield replace(bad_commit(history.path, change, f"commit {change.commit.name[:12]}: {error}"), file=after.file)


def pair(history: Repository, change: Change, before: Results, after: Results, *, judge: str) -> list[Row]:
    """Return the records of a change.

    Raises:
        ValueError: no test failed before it and passes after it.
    """
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
    facts: dict[str, Any] = {"repository": change.repository, "path": change.path, "commit": change.commit.name}
    facts |= {"parent": change.commit.parent, "repaired": flipped, "flaky": flaky}
    error = next((before.errors[name] for name in flipped if before.errors.get(name)), "")
    task = replace(task, prompt=prompt_of(change, flipped, error), extra=json.dumps(facts), official=False)
    return [task, change.attempts[0], first, change.attempts[1], last]


def verdict_of(
    attempt_id: str, judge: str, result: Results, names: Sequence[str], *, flaky: Sequence[str], broken: str
) -> Verdict:
    """Return the recorded verdict on one file: UNSCORED where the run before or after broke."""
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
    """Return the task with those of the tests that the sandbox runs with the recorded outcome, and CI's names of them.

    Without such tests, it is returned without tests, with all names.

    Tests that need more than the sandbox has stay with CI: then the recorded verdicts are all there is.
    """
    tests = [
        (test, next((name for name in names if is_same_test(name, name_of(test.name))), "")) for test in change.tests(history)
    ]
    usable = [with_packages(test, change) for test, name in tests if name]
    usable = [test for test in usable if not test.problem]
    wanted = {test.name for test, name in tests if name in flipped}
    for form in FORMS:
        try:
            require(task.requires)
            texts = form(task, change, usable)
            order = sorted(texts, key=lambda name: name not in wanted)
            runs = run(with_tests(task, texts, order), change.attempts, 1)
        except ValueError:
            continue
        kinds = [runs.kind(index) for index in range(len(order))]
        agreed = [name for name, kind in zip(order, kinds, strict=True) if kind == ("flipped" if name in wanted else "kept")]
        if wanted & {*agreed} and (form is FORMS[-1] or crossed(runs)):
            ci_names = {test.name: name for test, name in tests}
            return with_tests(task, texts, agreed), [ci_names[name] for name in agreed]
    return task, names
