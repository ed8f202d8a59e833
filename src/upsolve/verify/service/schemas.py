"""Schema of ``/verify`` requests: tasks, attempts, settings. An invalid record gets an unscored verdict; others are judged."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import BaseModel, Field

from upsolve.records import from_row
from upsolve.types import Attempt, Status, Task, Verdict, content_id
from upsolve.verify.judge.outcomes import JUDGE
from upsolve.verify.limits import Judging, Limits
from upsolve.verify.pool.pool import Numbered

__all__ = ["Asked", "judging_of", "pairs_of"]

MOST_REPEATS = 10
R = TypeVar("R", bound=Task | Attempt)


class LimitsAsked(BaseModel, extra="forbid"):
    """Limits of an attempt; None: the server's default."""

    wall_seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    cpu_seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    memory_bytes: int | None = Field(default=None, gt=0)
    output_bytes: int | None = Field(default=None, gt=0)
    processes: int | None = Field(default=None, gt=0)
    test_seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class Asked(BaseModel, extra="forbid"):
    """A request: records with the fields of types.py. An attempt may refer to its task by ``task``, an index into ``tasks``."""

    tasks: list[Any]
    attempts: list[Any]
    limits: LimitsAsked = LimitsAsked()
    analyses: list[str] | None = None
    repeats: int | None = Field(default=None, ge=1, le=MOST_REPEATS)
    lines: bool | None = None


def judging_of(asked: Asked, how: Judging, caps: Limits) -> Judging:
    """Return the settings of a request; ValueError names a setting that is unknown or above its cap."""
    given = asked.limits.model_dump(exclude_none=True)
    for name, value in given.items():
        if value > getattr(caps, name):
            raise ValueError(f"limits.{name}: {value} is more than this server allows: {getattr(caps, name)}")
    wants = asked.model_dump(include={"analyses", "repeats", "lines"}, exclude_none=True)
    changes: dict[str, Any] = {name: tuple(value) if name == "analyses" else value for name, value in wants.items()}
    return replace(how, limits=replace(how.limits, **given), **changes)


def pairs_of(asked: Asked) -> tuple[Numbered, list[tuple[int, Verdict]]]:
    """Return the pairs that can be judged, by index, and unscored verdicts for the others."""
    tasks = [built(Task, row) for row in asked.tasks]
    places = {task.task_id: place for place, task in enumerate(tasks) if isinstance(task, Task)}
    double = {name for name, times in Counter(t.task_id for t in tasks if isinstance(t, Task)).items() if times > 1}
    good: Numbered = []
    bad: list[tuple[int, Verdict]] = []
    for place, row in enumerate(asked.attempts):
        given = dict(row) if isinstance(row, dict) else row
        number = given.pop("task", None) if isinstance(given, dict) else None
        attempt = built(Attempt, given)
        if isinstance(attempt, str):
            bad.append((place, refused(row, f"attempt: {attempt}")))
            continue
        named = places.get(attempt.task_id) if number is None else number
        if number is None and attempt.task_id in double:
            bad.append((place, refused(row, f"two tasks are called {attempt.task_id}: say which by `task`")))
            continue
        task = task_at(tasks, named, attempt.task_id)
        if isinstance(task, str):
            bad.append((place, refused(row, f"task: {task}")))
        else:
            good.append((place, (task, attempt)))
    return good, bad


def task_at(tasks: Sequence[Any], place: Any, name: str) -> Task | str:
    """Return the task at an index, or why there is none."""
    if place is None:
        return f"no task of this request is called {name}"
    if not isinstance(place, int) or not 0 <= place < len(tasks):
        return f"{place!r} is no place among the {len(tasks)} tasks"
    return tasks[place]


def built(kind: type[R], row: Any) -> R | str:
    """Return the record of a row, or why the row is invalid."""
    if not isinstance(row, dict):
        return "is no object"
    try:
        return from_row(kind, {name: value for name, value in row.items() if name != "kind"})
    except ValueError as error:
        return str(error)[:300]


def refused(row: Any, problem: str) -> Verdict:
    """Return the unscored verdict for an invalid record."""
    given = row if isinstance(row, dict) else {}
    parts = [str(given.get(name, default)) for name, default in (("task_id", ""), ("language", "python"), ("code", ""))]
    return Verdict(content_id(*parts), Status.UNSCORED, judge=JUDGE, error_message=problem[:500])
