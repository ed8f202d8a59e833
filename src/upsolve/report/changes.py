"""Two models task by task: how many samples of each passed, at each temperature on its own."""

from collections.abc import Sequence
from dataclasses import dataclass

from upsolve.evaluate.scores import Evaluation, TaskScore
from upsolve.evaluate.sweep import Sweep, by_task_set, temperature_name

__all__ = ["Pairing", "TaskChange", "pairings_of", "task_changes"]


@dataclass(frozen=True, slots=True)
class TaskChange:
    """A task in two evaluations."""

    task_id: str
    """The task."""
    difficulty: str
    """Its label."""
    before: tuple[int, int]
    """Passed and scored samples of the first model."""
    after: tuple[int, int]
    """Passed and scored samples of the second model."""
    change: float
    """Share of the second model's scored samples that passed, minus that of the first model's, [-1, 1]."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """Two evaluations over the same tasks."""

    label: str
    """Task set and temperature."""
    before: Evaluation
    """Of the first model."""
    after: Evaluation
    """Of the second model."""


def task_changes(before: Evaluation, after: Evaluation) -> list[TaskChange]:
    """Return the tasks that both models have scored samples at: falls first, then rises, the largest of each first, then the others."""
    first, second = ({score.task_id: score for score in run.scores if score.samples} for run in (before, after))
    found = [
        TaskChange(
            name, first[name].difficulty, counts(first[name]), counts(second[name]), rate(second[name]) - rate(first[name])
        )
        for name in first
        if name in second
    ]
    return sorted(found, key=lambda one: (one.change == 0, one.change > 0, -abs(one.change), one.task_id))


def counts(score: TaskScore) -> tuple[int, int]:
    """Return passed and scored samples."""
    return score.passed, score.samples


def rate(score: TaskScore) -> float:
    """Return the share of scored samples that passed."""
    return score.passed / score.samples


def pairings_of(before: Sweep, after: Sweep) -> list[Pairing]:
    """Return the evaluations of two models: each at its best temperature, then of every task set at every temperature of both."""
    best = Pairing(f"{before.best.tasks}, each at its best temperature", before.best, after.best)
    found = [best] if before.best.temperature != after.best.temperature else []
    for first, second in ((before, after), *by_task_set([before, after]).values()):
        both = evaluations(first), evaluations(second)
        for temperature in sorted(both[0].keys() & both[1].keys(), key=lambda one: (one is None, one or 0.0)):
            one, other = both[0][temperature], both[1][temperature]
            found.append(Pairing(f"{one.tasks}, {temperature_name(temperature)}", one, other))
    chosen = (before.best.tasks, before.best.temperature)
    return sorted(found, key=lambda one: one is not best and (one.before.tasks, one.before.temperature) != chosen)


def evaluations(sweep: Sweep) -> dict[float | None, Evaluation]:
    """Return the evaluations of the test tasks by temperature, those with most samples."""
    known: Sequence[Evaluation] = [one for one in (sweep.greedy, sweep.hot, sweep.many, sweep.best) if one]
    by_temperature: dict[float | None, Evaluation] = {}
    for one in known:
        other = by_temperature.get(one.temperature)
        if other is None or sum(score.samples for score in one.scores) > sum(score.samples for score in other.scores):
            by_temperature[one.temperature] = one
    return by_temperature
