"""Strength of the tests of an archive, from the stored matrix attempts x tests (``Verdict.outcomes``)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

from upsolve.archive.groups import task_ids
from upsolve.archive.preference import is_judge
from upsolve.archive.store import Archive
from upsolve.errors import ConfigError
from upsolve.types import Group, Status, Task, Verdict, is_scored

__all__ = ["Grade", "Totals", "cover", "failed_tests", "grade_archive", "grade_group", "judged_groups", "totals"]


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts of one task, or summed over tasks. Attempts without a scored verdict count nowhere."""

    tests: int = 0
    """Tests."""
    visible: int = 0
    """Tests that are not hidden."""
    attempts: int = 0
    """Scored attempts."""
    failed: int = 0
    """Scored attempts that did not pass."""
    recorded: int = 0
    """Attempts whose outcome of each test is stored; counts of tests are based on these."""
    redundant: int = 0
    """Tests that fail no stored attempt, of tasks with a recorded attempt."""
    least: int = 0
    """Number of tests that suffice to fail every attempt that fails any test (greedy set cover)."""
    visible_passed: int = 0
    """Recorded attempts that reached and passed every visible test, of tasks with visible and hidden tests."""
    visible_false: int = 0
    """Attempts among ``visible_passed`` that fail a hidden test: false passes of the visible tests."""
    visible_caught: int = 0
    """Recorded attempts that fail a visible test, of tasks with visible and hidden tests."""
    compared: int = 0
    """Attempts that another judge has also scored."""
    false_passes: int = 0
    """Attempts among ``compared`` that passed here and failed with another judge."""
    false_failures: int = 0
    """Attempts among ``compared`` that failed here and passed with every other judge."""
    wrong: int = 0
    """Attempts that failed here or with another judge."""
    caught: int = 0
    """Attempts among ``wrong`` that failed here."""

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(Totals)))


@dataclass(frozen=True, slots=True)
class Grade:
    """The tests of a task against its stored attempts."""

    task_id: str
    """Id of the task."""
    totals: Totals
    """Counts."""
    redundant: tuple[int, ...]
    """Tests that fail no stored attempt, by index; () without a recorded attempt."""
    least: tuple[int, ...]
    """Tests, by index, that together fail every attempt that fails any test."""

    @property
    def discerning(self) -> bool | None:
        """Whether the tests fail at least one attempt; None without a scored attempt."""
        return self.totals.failed > 0 if self.totals.attempts else None


def failed_tests(task: Task, verdict: Verdict | None) -> frozenset[int] | None:
    """Return the tests that an attempt fails, by index; None if the outcome of each test is not stored.

    A test that was not reached (``UNSCORED``) is not failed.
    """
    if not is_scored(verdict) or not verdict.outcomes or len(verdict.outcomes) != len(task.tests):
        return None
    return frozenset(index for index, outcome in enumerate(verdict.outcomes) if outcome not in (Status.PASSED, Status.UNSCORED))


def cover(
    failures: Iterable[frozenset[int]], chosen: Sequence[int] = (), costs: Mapping[int, float] | None = None
) -> list[int]:
    """Return tests, in order, such that each set contains one: the ``chosen`` tests, then greedily the test that is in most uncovered sets.

    Ties go to the test of least cost (0 by default), then to the first. Empty sets are ignored. The result has at most 1 + ln(n)
    times the tests of the smallest cover of n sets (Chvatal 1979).
    """
    found = [*chosen]
    left = [failed for failed in failures if failed and not failed.intersection(found)]
    while left:
        counts: dict[int, int] = {}
        for failed in left:
            for test in failed:
                counts[test] = counts.get(test, 0) + 1
        best = max(counts, key=lambda test: (counts[test], -(costs or {}).get(test, 0), -test))
        found.append(best)
        left = [failed for failed in left if best not in failed]
    return sorted(found)


def grade_group(group: Group, others: Sequence[Group] = ()) -> Grade:
    """Grade the tests of a task by its attempts; ``others``: the same attempts with the verdicts of other judges."""
    task, tests = group.task, range(len(group.task.tests))
    scored = [verdict for verdict in group.verdicts if is_scored(verdict)]
    matrix = [(verdict, failed) for verdict in scored if (failed := failed_tests(task, verdict)) is not None]
    recorded, hidden = [failed for _, failed in matrix], frozenset(index for index in tests if task.tests[index].hidden)
    rows, visible = matrix if 0 < len(hidden) < len(tests) else [], {*tests} - hidden
    shown = [failed for verdict, failed in rows if all(verdict.outcomes[index] is Status.PASSED for index in visible)]
    redundant = tuple(index for index in tests if not any(index in failed for failed in recorded)) if recorded else ()
    least = tuple(cover(recorded))
    known = Totals(
        tests=len(tests),
        visible=len(visible),
        attempts=len(scored),
        failed=sum(verdict.status is not Status.PASSED for verdict in scored),
        recorded=len(recorded),
        redundant=len(redundant),
        least=len(least),
        visible_passed=len(shown),
        visible_false=sum(bool(failed) for failed in shown),
        visible_caught=sum(not failed <= hidden for _, failed in rows),
    )
    return Grade(task.task_id, known + compared(group, others), redundant, least)


def compared(group: Group, others: Sequence[Group]) -> Totals:
    """Return the counts of a task that compare its judge with other judges."""
    total = Totals()
    for index, verdict in enumerate(group.verdicts):
        if not is_scored(verdict):
            continue
        beside = [one for other in others if is_scored(one := other.verdicts[index])]
        beside = [one for one in beside if one.judge != verdict.judge]
        failed = verdict.status is not Status.PASSED
        elsewhere = [one.status is not Status.PASSED for one in beside]
        wrong = failed or any(elsewhere)
        total += Totals(
            compared=bool(beside),
            false_passes=not failed and any(elsewhere),
            false_failures=failed and bool(beside) and not any(elsewhere),
            wrong=wrong,
            caught=failed,
        )
    return total


def judged_groups(archive: Archive, judge: str = "") -> Iterator[tuple[Group, list[Group]]]:
    """Yield each task twice: with its attempts and preferred verdicts (of ``judge``, or by ``archive.preference``), and with the verdicts of each
    judge if there are several. ConfigError if ``judge`` has no verdict there."""
    names = sorted({*archive.column("verdicts", "judge")})
    if judge and not any(is_judge(name, judge) for name in names):
        raise ConfigError(
            f"--judge {judge}: {archive.path} has no verdict by it; name one of its judges: {', '.join(names) or 'none'}"
        )
    preferred = archive.groups(judge=judge)
    others = [archive.groups(judge=name) for name in names] if len(names) > 1 else []
    places = {task_id: place for place, task_id in enumerate(task_ids(preferred))}
    for task in archive.tasks():
        place = places.get(task.task_id)
        if place is None:
            yield Group(task, (), ()), []
        else:
            yield preferred[place], [groups[place] for groups in others]


def grade_archive(archive: Archive, judge: str = "") -> Iterator[Grade]:
    """Yield the grade of each task (``judged_groups``)."""
    return (grade_group(group, others) for group, others in judged_groups(archive, judge))


def totals(grades: Iterable[Grade]) -> Totals:
    """Return the counts of several tasks."""
    return sum((grade.totals for grade in grades), Totals())
