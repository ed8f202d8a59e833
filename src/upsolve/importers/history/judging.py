"""Runs the tests of a repository on the file before and after a commit, in the judge's sandbox."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from upsolve.importers.history.across import across, functions_of, inside
from upsolve.importers.history.changes import Change
from upsolve.importers.history.modules import module_name, outside, parse
from upsolve.importers.history.statements import Test
from upsolve.languages.packages import missing_packages
from upsolve.types import Attempt, Status, Task, TestCase, TestKind, Verdict
from upsolve.verify.judge.plans import judge_all
from upsolve.verify.judge.tested import called_names
from upsolve.verify.limits import JudgeSettings, Limits

__all__ = ["FORMS", "Runs", "crossed", "require", "run", "with_packages", "with_tests"]

LIMITS = Limits(wall_seconds=5.0, cpu_seconds=4.0, test_seconds=1.0)
"""Limits of a run of all tests of a commit, and of one test: an import runs the tests of every commit."""


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

    def outcomes(self, index: int) -> tuple[Set[Status], Set[Status]]:
        """Return what a test gave before and after; UNSCORED where it was not reached."""
        before, after = (
            frozenset(one.outcomes[index] if one.outcomes else Status.UNSCORED for one in runs)
            for runs in (self.before, self.after)
        )
        return before, after

    def kind(self, index: int) -> str:
        """Return what a test is good for: ``flipped``, ``kept`` (passed both times), ``flaky``, or empty."""
        before, after = self.outcomes(index)
        if len(before) > 1 or len(after) > 1:
            return "flaky"
        if after != {Status.PASSED} or before == {Status.UNSCORED}:
            return ""
        return "kept" if before == {Status.PASSED} else "flipped"


def require(packages: Sequence[str]) -> None:
    """Check that packages are installed for attempts.

    Raises:
        ValueError: some are not; says how to install them.
    """
    if missing := missing_packages(packages):
        raise ValueError(
            f"requires {', '.join(missing)}: run `upsolve packages {' '.join(missing)}` and import it again, into a new archive"
        )


def with_packages(test: Test, change: Change) -> Test:
    """Return a test with the packages that it requires; with a problem if one is not installed."""
    packages = tuple(outside([test.code], change.modules))
    try:
        require(packages)
    except ValueError as error:
        return replace(test, problem=test.problem or str(error))
    return replace(test, requires=packages)


def across_form(task: Task, change: Change, tests: Sequence[Test]) -> dict[str, Test]:
    """Return the tests that can run across processes, by name."""
    functions = functions_of(parse(change.after))
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
    """Run the tests on the file before and after, several times, in the sandbox.

    Raises:
        ValueError: the judge could not run them; says why.
    """
    settings = JudgeSettings(LIMITS)
    verdicts = judge_all([(task, one) for one in attempts for _ in range(repeats)], settings)
    if broken := [one.error_message for one in verdicts if one.status is Status.UNSCORED and not one.outcomes]:
        raise ValueError(f"the judge cannot run its tests: {broken[0]}")
    return Runs(tuple(verdicts[:repeats]), tuple(verdicts[repeats:]))


def crossed(runs: Runs) -> bool:
    """Return whether the tests ran across processes."""
    return all("across" in verdict.isolation for verdict in (*runs.before, *runs.after))


FORMS = (across_form, inside_form)
"""The forms in which tests run, the better one first."""
