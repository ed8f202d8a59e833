"""Expected answers of tests that have none, from the tasks' reference programs."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from upsolve.archive.store import Archive, copy_archive
from upsolve.types import Task, TestKind
from upsolve.verify.judge.references import expected_answers

__all__ = ["Filled", "fill_expected"]

BATCH = 1000
"""Tasks that are written together."""


@dataclass
class Filled:
    """Result of filling in expected answers."""

    tests: int = 0
    """Tests that got an expected answer."""
    tasks: int = 0
    """Tasks with such tests."""
    left: Counter[str] = field(default_factory=Counter[str])
    """Tasks that keep tests without an expected answer, by reason."""
    examples: dict[str, str] = field(default_factory=dict[str, str])
    """Reason -> a task."""


def fill_expected(
    archive: Archive, out: str | Path, *, overwrite: bool = False, on_done: Callable[[int, int], None] | None = None
) -> Filled:
    """Copy an archive, and fill in the expected answers that CALL and STDIO tests lack, by running the tasks' references in the sandbox.

    Args:
        archive: the archive; it is not changed.
        out: folder of the new archive.
        overwrite: replace the expected answers that tests have, too.
        on_done: called with the number of tasks done and of all tasks.

    Raises:
        ArchiveError: the folder is not empty or cannot be written.
        JudgeError: the sandbox broke, or a layer is missing.
    """
    filled, tasks = Filled(), archive.tasks()
    new = copy_archive(archive, out)
    old_parts = new.parts("tasks")
    for start in range(0, len(tasks), BATCH):
        batch: list[Task] = []
        for task in tasks[start : start + BATCH]:
            batch.append(with_expected(task, filled, overwrite=overwrite))
            if on_done:
                on_done(start + len(batch), len(tasks))
        new.write(batch, (), ())
    for part in old_parts:
        part.unlink()
    return filled


def with_expected(task: Task, filled: Filled, *, overwrite: bool) -> Task:
    """Return a task with its expected answers filled in; the task itself if none is missing or its reference gives none."""
    lacking = [test.kind in (TestKind.CALL, TestKind.STDIO) and (overwrite or not test.expected) for test in task.tests]
    if not any(lacking):
        return task
    try:
        answers = expected_answers(task)
    except ValueError as error:
        reason = str(error).partition(":")[0]
        filled.left[reason] += 1
        filled.examples.setdefault(reason, f"{task.task_id}: {error}")
        return task
    filled.tests += sum(lacking)
    filled.tasks += 1
    tests = tuple(
        replace(test, expected=answer) if lacks else test
        for test, answer, lacks in zip(task.tests, answers, lacking, strict=True)
    )
    return replace(task, tests=tests)
