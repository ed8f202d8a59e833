"""Weak and superfluous tests, from the stored outcomes of each test, and tests that fail a sanity check."""

from collections.abc import Iterator, Mapping
from typing import Any

from upsolve.clean.check import Action, Check, Contents, Fault
from upsolve.files import cache_folder
from upsolve.suites.grade import grade_archive
from upsolve.suites.sanity import FOUND, check_sanity
from upsolve.verify.limits import JudgeSettings

__all__ = ["SANITY", "TESTS"]


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


def find_insane(contents: Contents, options: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield tasks that an empty or a constant program passes, that their own reference fails, and that could not be judged."""
    del options
    places = {task.task_id: place for place, task in contents.tasks()}
    cached = JudgeSettings(cache=cache_folder() / "verdicts.sqlite")
    checked = check_sanity(contents.archive, cached, progress=contents.progress)
    for program, (about, _) in FOUND.items():
        action = Action.REMOVE if program == "empty" else Action.REPORT
        for task_id in checked.found(program):
            if task_id in places:
                outcome = checked.rows[task_id][program]
                yield Fault("tasks", places[task_id], task_id, str(outcome), about, action)
    for task_id, reason in checked.reasons.items():
        if task_id in places:
            yield Fault("tasks", places[task_id], task_id, reason, "not checked", Action.REPORT)


SANITY = Check(
    find_insane,
    "tasks that an empty or a constant program passes, and tasks that their own reference fails",
    "every attempt is rewarded, or the right ones are not",
)
