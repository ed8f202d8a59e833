"""Schema of ``/verify`` requests: tasks, attempts, settings. An invalid record gets an unscored verdict; others are judged."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from upsolve.records import from_row
from upsolve.types import Attempt, Task, Verdict, content_id
from upsolve.verify.judge.outcomes import unjudged
from upsolve.verify.pool.pool import Numbered

__all__ = ["VerifyRequest", "pairs_of"]

R = TypeVar("R", bound=Task | Attempt)


class VerifyRequest(BaseModel, extra="allow"):
    """A request: records with the fields of types.py, and settings (``service.settings``).

    An attempt may refer to its task by ``task``, an index into ``tasks``.
    """

    tasks: list[Any]
    attempts: list[Any]

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that the request holds."""
        return self.model_extra or {}


def pairs_of(request: VerifyRequest) -> tuple[Numbered, list[tuple[int, Verdict]]]:
    """Return the pairs that can be judged, by index, and unscored verdicts for the others."""
    tasks = [build_record(Task, row) for row in request.tasks]
    indices = {task.task_id: index for index, task in enumerate(tasks) if isinstance(task, Task)}
    double = {name for name, times in Counter(t.task_id for t in tasks if isinstance(t, Task)).items() if times > 1}
    good: Numbered = []
    bad: list[tuple[int, Verdict]] = []
    for index, row in enumerate(request.attempts):
        fields = dict(row) if isinstance(row, dict) else row
        number = fields.pop("task", None) if isinstance(fields, dict) else None
        attempt = build_record(Attempt, fields)
        if isinstance(attempt, str):
            bad.append((index, refuse_record(row, f"attempt: {attempt}")))
            continue
        named = indices.get(attempt.task_id) if number is None else number
        if number is None and attempt.task_id in double:
            bad.append((index, refuse_record(row, f"two tasks are called {attempt.task_id}: say which by `task`")))
            continue
        task = task_at(tasks, named, attempt.task_id)
        if isinstance(task, str):
            bad.append((index, refuse_record(row, f"task: {task}")))
        else:
            good.append((index, (task, attempt)))
    return good, bad


def task_at(tasks: Sequence[Any], index: Any, name: str) -> Task | str:
    """Return the task at an index, or why there is none."""
    if index is None:
        return f"no task of this request is called {name}"
    if not isinstance(index, int) or not 0 <= index < len(tasks):
        return f"{index!r} is not an index into `tasks`, which has {len(tasks)} items"
    return tasks[index]


def build_record(kind: type[R], row: Any) -> R | str:
    """Return the record of a row, or why the row is invalid."""
    if not isinstance(row, dict):
        return "is not an object"
    try:
        return from_row(kind, {name: value for name, value in row.items() if name != "kind"})
    except ValueError as error:
        return str(error)[:300]


def refuse_record(row: Any, problem: str) -> Verdict:
    """Return the unscored verdict for an invalid record."""
    fields = row if isinstance(row, dict) else {}
    parts = [str(fields.get(name, default)) for name, default in (("task_id", ""), ("language", "python"), ("code", ""))]
    return unjudged(content_id(*parts), problem)
