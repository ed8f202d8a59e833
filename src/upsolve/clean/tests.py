"""Weak and superfluous tests, from the stored outcomes of each test."""

from collections.abc import Iterator, Mapping
from typing import Any

from upsolve.clean.check import Action, Check, Contents, Fault
from upsolve.suites.grade import grade_archive

__all__ = ["TESTS"]


def find_weak(contents: Contents, options: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield tasks whose visible tests pass a wrong attempt, and tasks with tests that fail no attempt beside others that do."""
    del options
    places = {task.task_id: place for place, task in contents.tasks()}
    for grade in grade_archive(contents.archive):
        place, counts = places.get(grade.task_id), grade.totals
        if place is None:
            continue
        if counts.visible_false:
            reason = (
                f"{counts.visible_false:,} of {counts.visible_passed:,} attempts that pass every visible test fail a hidden one"
            )
            yield Fault("tasks", place, grade.task_id, reason, "visible tests that pass wrong attempts", Action.REPORT)
        if grade.redundant and counts.failed:
            reason = f"{counts.redundant} of {counts.tests} tests, {len(grade.least)} suffice"
            yield Fault("tasks", place, grade.task_id, reason, "tests that fail no attempt", Action.REPORT)


TESTS = Check(
    find_weak,
    "tasks whose visible tests pass wrong attempts, and tasks with tests that fail no attempt",
    "wrong attempts are chosen or rewarded where visible tests decide (`upsolve tests grow`); judging takes longer (`upsolve tests shrink`)",
)
