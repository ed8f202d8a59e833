"""Power of a paired comparison over n tasks: the difference that n tasks can show, and the n that a difference needs.

Both follow from the paired interval: difference = margin + z_power sd / sqrt(n), where sd is the standard deviation over tasks of the
difference of two models in pass@1, and margin the half-width of the interval (``intervals.margin``).
"""

import math
from bisect import bisect_left
from statistics import NormalDist

from upsolve.evaluate.intervals import margin

__all__ = ["CORRELATION", "answer_deviation", "detectable", "tasks_needed"]

POWER = 0.8
MOST_TASKS = 10**9
"""No evaluation has more tasks."""
CORRELATION = 0.65
"""Correlation over tasks between the greedy answers before and after training, as observed in the demo, whose 104 tasks at a pass rate of
29.8 % give an interval of +-7.4 points (benchmarks/LOG.md)."""


def answer_deviation(rate: float, correlation: float = CORRELATION) -> float:
    """Return sqrt(2 p (1 - p) (1 - rho)), the standard deviation over tasks of the difference of two models with one answer per task.

    More samples per task reduce the deviation, down to that of the difference of the tasks' true pass rates.

    Args:
        rate: p, pass rate of both models, in (0, 1).
        correlation: rho, correlation over tasks between the answers of the two models, in [-1, 1).

    Raises:
        ValueError: ``rate`` or ``correlation`` is out of its range.
    """
    if not 0 < rate < 1 or not -1 <= correlation < 1:
        raise ValueError(f"the pass rate must be in (0, 1) and the correlation in [-1, 1), got {rate} and {correlation}")
    return math.sqrt(2 * rate * (1 - rate) * (1 - correlation))


def detectable(tasks: int, deviation: float, power: float = POWER) -> float:
    """Return the smallest difference, as a share, whose 95 % interval over n tasks excludes 0 with this power.

    Args:
        tasks: n >= 1.
        deviation: standard deviation over tasks of the paired difference, >= 0.
        power: probability of detecting the difference, in (0, 1).
    """
    return margin(tasks, deviation) + NormalDist().inv_cdf(power) * deviation / math.sqrt(tasks)


def tasks_needed(difference: float, deviation: float, power: float = POWER) -> int:
    """Return the number of tasks needed to detect a difference (a share) with this power; other arguments as for ``detectable``.

    Raises:
        ValueError: the difference is 0.
    """
    if not difference:
        raise ValueError("no number of tasks shows a difference of 0")
    return bisect_left(
        range(MOST_TASKS), True, key=lambda tasks: detectable(max(1, tasks), deviation, power) <= abs(difference)
    )
