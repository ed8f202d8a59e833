"""Processor times of references, which ``reward.efficiency: reference`` compares attempts with."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from upsolve.config import RewardConfig
from upsolve.reward.components import CLOCK_SECONDS
from upsolve.types import Attempt, Group, Status, Task, Verdict

__all__ = ["Judge", "reference_seconds"]

Judge = Callable[[Sequence[tuple[Task, Attempt]]], Sequence[Verdict]]
"""The judge of a run: (task, attempt) pairs -> their verdicts, in order."""


def reference_seconds(groups: Sequence[Group], config: RewardConfig, judge: Judge) -> Mapping[str, float]:
    """Return the processor time of each task's reference by its code, seconds; {} if the recipe's rewards do not read it.

    The time of a reference is the median over the group's passed attempts with the same code. References without such attempts are judged,
    once each. A task without a reference, or whose reference does not pass, is missing in the result.

    Args:
        groups: judged groups, or tasks without attempts.
        config: components of the reward.
        judge: runs the references that have no recorded time.
    """
    if config.efficiency != "reference" or "efficiency" not in config.components:
        return {}
    recorded = {group.task.reference: times for group in groups if (times := recorded_seconds(group))}
    tasks = {task.reference: task for group in groups if (task := group.task).reference.strip()}
    pairs = [
        (task, Attempt(task.task_id, code, task.language or "python", "reference"))
        for code, task in tasks.items()
        if code not in recorded
    ]
    verdicts = judge(pairs) if pairs else ()
    for (task, _), verdict in zip(pairs, verdicts, strict=True):
        if verdict.status is Status.PASSED and verdict.cpu_seconds is not None:
            recorded[task.reference] = [verdict.cpu_seconds]
    return {code: max(CLOCK_SECONDS, float(np.median(seconds))) for code, seconds in recorded.items()}


def recorded_seconds(group: Group) -> list[float]:
    """Return the processor times of the passed attempts that equal the reference."""
    return [
        verdict.cpu_seconds
        for attempt, verdict in zip(group.attempts, group.verdicts, strict=True)
        if verdict is not None and verdict.status is Status.PASSED and verdict.cpu_seconds is not None
        if attempt.code.strip() == group.task.reference.strip()
    ]
