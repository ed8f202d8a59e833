"""What an attempt gives at the tests that it failed: the tests are run again in the sandbox, each on its own, and shown in full."""

from dataclasses import replace
from typing import Any

from upsolve.archive.preference import preferred
from upsolve.report.programs import reason_of
from upsolve.types import Status, with_tests
from upsolve.view.browse import entry_at, read_tasks, records_of
from upsolve.view.index import Index

__all__ = ["outputs_of"]

MOST_TESTS = 20
"""Failed tests that are run again; of an attempt with more, the first ones."""


def outputs_of(index: Index, place: int) -> list[dict[str, Any]]:
    """Return number, outcome, input, what the attempt gave and what was expected of each test that it does not pass.

    Raises:
        ArchiveError: no attempt is stored at this place.
        IsolationError: this machine lacks a layer of the sandbox.
    """
    from upsolve.verify.limits import JudgeSettings
    from upsolve.verify.pool.pool import verify

    ((attempt, judged),) = records_of(index, [entry_at(index, place)])
    task = read_tasks(index, [attempt.task_id]).get(attempt.task_id)
    if task is None or not task.tests:
        return []
    verdict = preferred(judged, task, index.judge)
    outcomes = verdict.outcomes if verdict and len(verdict.outcomes) == len(task.tests) else ()
    failed = [at for at in range(len(task.tests)) if not outcomes or outcomes[at] is not Status.PASSED][:MOST_TESTS]
    shown = replace(task, tests=tuple(replace(test, hidden=False) for test in task.tests))
    verdicts = verify([(with_tests(shown, [at]), attempt) for at in failed], JudgeSettings(workers=1))
    rows: list[dict[str, Any]] = []
    for at, found in zip(failed, verdicts, strict=True):
        reason, test = reason_of(found.error_type, found.error_message, None), shown.tests[at]
        got = reason.got or (found.error_message if found.status is not Status.PASSED else "as expected")
        rows.append({"test": at + 1, "status": found.status, "input": test.input, "got": got, "expected": test.expected})
    return rows
