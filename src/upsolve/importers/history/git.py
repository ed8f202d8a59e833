"""Importer for the history of a repository in Python: the file before a fix failed, the file after it passed.

A task is a commit that changes one file; its tests are those that failed before the commit and pass after it, run in the judge's sandbox.
The repository is read through the program ``git``; nothing is checked out, and no hook runs.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from upsolve.importers.history.repository import (
    Change,
    Repository,
    bad_commit,
    changes_of,
    commit_units,
    outside,
    prompt_of,
    repository_name,
)
from upsolve.importers.recogniser.asserts import parsed
from upsolve.importers.recogniser.suites import Test, across, inside, module_name
from upsolve.importers.rows import BadRow, Row
from upsolve.importers.source import Option, Source, Unit
from upsolve.languages import missing_packages
from upsolve.types import Attempt, Finding, OnProgress, Status, Task, TestCase, TestKind, Verdict, no_progress
from upsolve.verify.judge.plans import judge_all
from upsolve.verify.judge.tested import called_names
from upsolve.verify.limits import JudgeSettings, Limits

__all__ = ["FORMS", "SOURCE", "crossed", "lacking", "run", "with_packages", "with_tests"]

LIMITS = Limits(wall_seconds=5.0, cpu_seconds=4.0, test_seconds=1.0)
"""Limits of a run of all tests of a commit, and of one test; low, since an import runs the tests of every commit."""


@dataclass(frozen=True, slots=True)
class Runs:
    """Outcomes of tests on the file before and after a commit, in several runs."""

    before: tuple[Verdict, ...]
    """Verdicts on the file before."""
    after: tuple[Verdict, ...]
    """Verdicts on the file after."""

    def __add__(self, other: "Runs") -> "Runs":
        """Return both together."""
        return Runs((*self.before, *other.before), (*self.after, *other.after))

    def flipped(self) -> bool:
        """Return whether some test failed before and passed after."""
        return any(self.kind(index) == "flipped" for index in range(self.after[0].total))

    def kind(self, index: int) -> str:
        """Return the kind of a test: ``flipped`` (failed before, passed after), ``kept`` (passed both times), ``flaky``, or empty."""
        before, after = (  # UNSCORED where a run did not reach the test
            {one.outcomes[index] if one.outcomes else Status.UNSCORED for one in runs} for runs in (self.before, self.after)
        )
        if len(before) > 1 or len(after) > 1:
            return "flaky"
        if after != {Status.PASSED} or before == {Status.UNSCORED}:
            return ""
        return "kept" if before == {Status.PASSED} else "flipped"


def lacking(packages: Sequence[str]) -> str:
    """Return the message for packages that are not installed for attempts, with the remedy; "" if all are installed."""
    if missing := " ".join(missing_packages(packages)):
        names = missing.replace(" ", ", ")
        return f"requires {names}: run `upsolve packages {missing}` and import it again, into a new archive"
    return ""


def with_packages(test: Test, change: Change) -> Test:
    """Return a test with its required packages, and with a problem if one is not installed."""
    packages = outside([test.code], change.modules)
    return replace(test, problem=test.problem or lacking(packages), requires=packages)


def across_form(task: Task, change: Change, tests: Sequence[Test]) -> dict[str, Test]:
    """Return the tests that can run across processes, by name."""
    body = tree.body if (tree := parsed(change.after)) else []
    functions = frozenset(node.name for node in body if isinstance(node, ast.FunctionDef))
    texts = {test.name: across(test, module_name(change.path), functions) for test in tests}
    forms = {test.name: replace(test, code=texts[test.name]) for test in tests if texts[test.name]}
    return {name: test for name, test in forms.items() if called_names(with_tests(task, forms, [name]))}


def inside_form(_task: Task, _change: Change, tests: Sequence[Test]) -> dict[str, Test]:
    """Return all tests, to run in the attempt's process, by name."""
    return {test.name: replace(test, code=inside(test)) for test in tests}


def with_tests(task: Task, tests: Mapping[str, Test], names: Sequence[str]) -> Task:
    """Return a task with some tests, which are hidden, and the packages that they require."""
    cases = tuple(TestCase(TestKind.CODE, tests[name].code, hidden=True) for name in names)
    packages = {package for name in names for package in tests[name].requires}
    return replace(task, tests=cases, requires=tuple(sorted({*task.requires, *packages})))


def run(task: Task, attempts: Sequence[Attempt], repeats: int) -> Runs:
    """Run the tests on the file before and after, several times, in the sandbox; ValueError says why the judge could not run them."""
    settings = JudgeSettings(LIMITS)
    verdicts = judge_all([(task, one) for one in attempts for _ in range(repeats)], settings)
    if broken := [one.error_message for one in verdicts if one.status is Status.UNSCORED and not one.outcomes]:
        raise ValueError(f"the judge cannot run the tests: {broken[0]}")
    return Runs(tuple(verdicts[:repeats]), tuple(verdicts[repeats:]))


def crossed(runs: Runs) -> bool:
    """Return whether the tests ran across processes."""
    return all("across" in verdict.isolation for verdict in (*runs.before, *runs.after))


FORMS = (across_form, inside_form)
"""The forms in which tests run, the better form first."""


JUDGE = "recorded:git"
MAX_KB, MAX_TESTS, REPEATS = 20, 40, 3


def read(
    path: Path,
    *,
    revision: str = "HEAD",
    name: str = "",
    max_kb: int = MAX_KB,
    max_tests: int = MAX_TESTS,
    repeats: int = REPEATS,
    only: Set[str] | None = None,
    on_progress: OnProgress = no_progress,
) -> Iterator[Row]:
    """Yield task, attempts and verdicts of each commit that repairs one file; other commits that change Python are rejected."""
    with Repository(path) as repository:
        label = name or repository_name(path)
        for change in changes_of(repository, revision=revision, name=label, max_kb=max_kb, only=only, on_progress=on_progress):
            if isinstance(change, BadRow):
                yield change
                continue
            try:
                yield from rows_of(repository, change, max_tests=max_tests, repeats=max(1, repeats))
            except ValueError as error:
                yield bad_commit(path, change, str(error))


def split(path: Path, *, revision: str = "HEAD", **_options: Any) -> list[Unit]:
    """Return units of consecutive commits."""
    with Repository(path) as repository:
        return commit_units(path, [commit.name for commit in repository.commits(revision)])


def rows_of(repository: Repository, change: Change, *, max_tests: int, repeats: int) -> list[Row]:
    """Return task, attempts and verdicts of a change."""
    task = change.task(repository)
    if problem := lacking(task.requires):
        raise ValueError(problem)
    tests = [with_packages(test, change) for test in change.tests(repository)]
    usable = [test for test in tests if not test.problem]
    if not usable:
        raise ValueError(
            f"no test can be run: {tests[0].name}: {tests[0].problem}" if tests else "no test file names its module"
        )
    runs, kinds = Runs((), ()), dict[str, str]()
    for form in FORMS:
        texts = form(task, change, usable)
        if not (names := [*texts]):
            continue
        draft = with_tests(task, texts, names)
        runs = run(draft, change.attempts, 1)
        if repeats > 1 and runs.flipped():
            runs += run(draft, change.attempts, repeats - 1)
        kinds = {name: runs.kind(index) for index, name in enumerate(names)}
        chosen = [name for kind in ("flipped", "kept") for name in names if kinds[name] == kind][:max_tests]
        if "flipped" in kinds.values() and (form is FORMS[-1] or crossed(runs)):
            flaky = [name for name in names if kinds[name] == "flaky"]
            flipped = [name for name in chosen if kinds[name] == "flipped"]
            return finished(change, with_tests(task, texts, chosen), flipped, flaky)
    raise ValueError(why_not(runs, kinds))


def why_not(runs: Runs, kinds: dict[str, str]) -> str:
    """Return why no test shows that a commit is a repair."""
    if flaky := [name for name, kind in kinds.items() if kind == "flaky"]:
        return f"the tests that it repairs are flaky: {', '.join(flaky)}"[:500]
    if all(not kind for kind in kinds.values()):
        error = next((f": {error_of(one)}" for one in runs.after if one.error_message), "")
        return f"no test passes after it{error}"[:500]
    return "no test that failed before it passes after it"


def finished(change: Change, task: Task, flipped: Sequence[str], flaky: Sequence[str]) -> list[Row]:
    """Return the records of a change, judged once more with only the chosen tests."""
    ((first,), (last,)) = (runs := run(task, change.attempts, 1)).before, runs.after
    if first.status is Status.PASSED or last.status is not Status.PASSED:
        error = f": {error_of(last)}" if last.error_message else ""
        raise ValueError(f"its tests give {first.status} before it and {last.status} after it when they run alone{error}"[:500])
    before, after = change.attempts
    whole = replace(task, prompt=prompt_of(change, flipped, error_of(first)), extra=change.facts(flipped, flaky))
    return [whole, before, recorded(first, flaky), after, recorded(last, flaky)]


def recorded(verdict: Verdict, flaky: Sequence[str]) -> Verdict:
    """Return the verdict of the history, with a finding for each flaky test."""
    messages = (f"{name}: outcomes differ between runs of the same commit" for name in flaky)
    findings = (*verdict.findings, *(Finding("flaky", "outcome", text, 1) for text in messages))
    return replace(verdict, judge=JUDGE, findings=findings)


def error_of(verdict: Verdict) -> str:
    """Return the first error of a verdict, without the number of the test."""
    message = re.sub(r"^hidden test \d+: ", "", verdict.error_message)
    return f"{verdict.error_type}: {message}" if verdict.error_type else message


SOURCE = Source(
    read,
    "a repository of git with pure Python",
    (
        Option("revision", str, "branch, tag, commit or range (v1..v2) whose history is read (default: HEAD)"),
        Option("name", str, "name of the repository in task ids (default: that of its folder)"),
        Option("max_kb", int, f"largest size of the file, kB (default: {MAX_KB})"),
        Option("max_tests", int, f"most tests of a task (default: {MAX_TESTS})"),
        Option("repeats", int, f"runs of the tests on each file, to find flaky ones (default: {REPEATS})"),
    ),
    max_rejected=1.0,
    reports=True,
    split=split,
    marks=(".git",),
)
