"""Confidence intervals, paired tests and power over tasks: a task, not a sample, is the unit of observation (clustered by task).

Every interval of upsolve is Student's t interval of the task values and of three added tasks, half of their weight at each bound: 0 and 1
for pass rates, -1 and 1 for differences, as Agresti and Coull (1998) add two successes and two failures to a count. Without the added tasks
0 of 200 would give [0, 0]; with them [0, 0.019], where the exact interval ends at 0.018. For independent tasks the coverage is at least 94 %,
from 20 tasks and at rates from 0.005 to 0.995, for one or several samples a task (tests/evaluate/test_intervals.py).

Power follows from the paired interval: difference = margin + z_power sd / sqrt(n), where sd is the standard deviation over tasks of the
difference of two models in pass@1, and margin the half-width of the interval.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CORRELATION",
    "Estimate",
    "Paired",
    "answer_deviation",
    "detectable",
    "margin",
    "mcnemar",
    "mean_interval",
    "over_seeds",
    "paired_difference",
    "share_interval",
    "tasks_needed",
]

PERMUTATIONS = 10_000
Z = 1.959964
"""Quantile of the normal distribution for two-sided 95 % intervals."""
ADDED = 3
"""Further tasks that an interval counts, half of their weight at each bound."""
Bounds = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over tasks with its 95 % interval."""

    mean: float
    """Mean over tasks."""
    low: float
    """Lower end of the interval."""
    high: float
    """Upper end of the interval."""
    tasks: int
    """Number of tasks."""


@dataclass(frozen=True, slots=True)
class Paired:
    """The difference of two runs over the same tasks."""

    difference: Estimate
    """Mean over tasks of after - before, with its interval over tasks."""
    better: int
    """Number of tasks whose value rose."""
    worse: int
    """Number of tasks whose value fell."""
    p_value: float
    """Two-sided p-value of the sign-flip permutation test of no difference, Monte Carlo with 10,000 permutations."""
    deviation: float
    """Sample standard deviation of the differences over tasks; nan for one task."""


def mean_interval(values: Sequence[float] | NDArray[np.float64], *, bounds: Bounds | None = (0.0, 1.0)) -> Estimate:
    """Return the mean over tasks of one value each and its 95 % interval, for one task (nan, nan); without bounds Student's t interval.

    Raises:
        ValueError: ``values`` is empty, or a value is out of bounds.
    """
    data = np.asarray(values, dtype=np.float64)
    if data.size == 0:
        raise ValueError("a mean needs at least one task")
    if bounds and not (bounds[0] - 1e-9 <= data.min() and data.max() <= bounds[1] + 1e-9):
        raise ValueError(f"values from {data.min()} to {data.max()} are out of the bounds {bounds}")
    mean = float(data.mean())
    if data.size == 1:
        return Estimate(mean, float("nan"), float("nan"), 1)
    low, high = ends(data.size, mean, float(np.square(data - mean).sum()), bounds)
    return Estimate(mean, low, high, data.size)


def share_interval(count: int, of: int) -> tuple[float, float]:
    """Return the 95 % interval of the share count / of, of independent members; (0, 1) for ``of`` 0."""
    if not 0 <= count <= of:
        raise ValueError(f"a share needs 0 <= count <= of, got {count} of {of}")
    return ends(of, count / of, count * (of - count) / of, (0.0, 1.0)) if of else (0.0, 1.0)


def ends(count: int, mean: float, squares: float, bounds: Bounds | None) -> Bounds:
    """Return the ends of the interval of a mean, clipped to the bounds.

    With N = n + a values and their mean m' = (n m + a (low + high) / 2) / N the interval is m' +- t(N - 1) sqrt(S' / (N (N - 1))), where
    S' = S + n (m - m')^2 + a / 2 ((low - m')^2 + (high - m')^2) and a = ``ADDED``.
    n is ``count``, m ``mean``, S ``squares``, the sum of squared deviations from the mean; without bounds a = 0.
    """
    if bounds is None:
        half = t_quantile(count - 1) * math.sqrt(squares / (count - 1) / count)
        return mean - half, mean + half
    total = count + ADDED
    center = (count * mean + ADDED * sum(bounds) / 2) / total
    spread = squares + count * (mean - center) ** 2 + ADDED / 2 * sum((bound - center) ** 2 for bound in bounds)
    half = t_quantile(total - 1) * math.sqrt(spread / total / (total - 1))
    return max(center - half, bounds[0]), min(center + half, bounds[1])


def margin(tasks: int, deviation: float) -> float:
    """Return the half-width of a paired interval for a mean near 0, given the standard deviation of the differences over tasks."""
    return ends(tasks, 0.0, (tasks - 1) * deviation**2, (-1.0, 1.0))[1]


def t_quantile(freedom: int) -> float:
    """Return the 0.975 quantile of Student's t distribution, within 0.2 %, by its expansion in 1 / freedom (Fisher and Cornish, 1960)."""
    if freedom < 5:
        return (12.706205, 4.302653, 3.182446, 2.776445)[freedom - 1]
    z2 = Z * Z
    terms = (1.0, (z2 + 1) / 4, ((5 * z2 + 16) * z2 + 3) / 96, (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384)
    return Z * sum(term / freedom**power for power, term in enumerate(terms))


def paired_difference(before: Mapping[str, float], after: Mapping[str, float], *, seed: int = 0) -> Paired:
    """Compare the values of two runs task by task; a run may itself be a difference. ``seed``: seed of the permutations.

    Raises:
        ValueError: the runs are over different tasks; the message names some.
    """
    if odd := before.keys() ^ after.keys():
        raise ValueError(
            f"the runs were measured on different tasks, such as {sorted(odd)[:5]}; evaluate both on the same tasks"
        )
    change = np.array([after[name] - before[name] for name in before], dtype=np.float64)
    random = np.random.default_rng(seed)
    signs = random.choice(np.array([-1.0, 1.0]), (PERMUTATIONS, change.size))
    extreme = np.abs((signs * change).mean(1)) >= abs(change.mean()) - 1e-12
    most = 1.0 if np.abs(change).max(initial=0.0) <= 1 + 1e-9 else 2.0
    return Paired(
        difference=mean_interval(change, bounds=(-most, most)),
        better=int((change > 0).sum()),
        worse=int((change < 0).sum()),
        p_value=float((extreme.sum() + 1) / (PERMUTATIONS + 1)),
        deviation=float(change.std(ddof=1)) if change.size > 1 else float("nan"),
    )


def mcnemar(gained: int, lost: int) -> float:
    """Return the p-value of McNemar's exact test: min(1, 2 P(X <= min(gained, lost))), X ~ Binomial(gained + lost, 1/2)."""
    tried = gained + lost
    return min(1.0, 2 * sum(math.comb(tried, count) for count in range(min(gained, lost) + 1)) / 2**tried)


def over_seeds(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean over runs of each task's value, so that intervals are over tasks; ValueError if tasks differ."""
    if not runs or any(run.keys() != runs[0].keys() for run in runs):
        raise ValueError(
            "the runs were measured on different tasks; evaluate all on the same tasks"
            if runs
            else "a mean over seeds needs at least one run"
        )
    return {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}


POWER = 0.8
MOST_TASKS = 10**9
"""Upper bound on the number of tasks of an evaluation."""
CORRELATION = 0.65
"""Correlation over tasks between the greedy answers before and after training, as observed in the demo, whose 104 tasks at a pass rate of
29.8 % give an interval of +-7.4 points (benchmarks/LOG.md)."""


def answer_deviation(rate: float, correlation: float = CORRELATION) -> float:
    """Return sqrt(2 p (1 - p) (1 - rho)), the deviation over tasks of the difference of two models with one answer per task."""
    if not 0 < rate < 1 or not -1 <= correlation < 1:
        raise ValueError(f"the pass rate must be in (0, 1) and the correlation in [-1, 1), got {rate} and {correlation}")
    return math.sqrt(2 * rate * (1 - rate) * (1 - correlation))


def detectable(tasks: int, deviation: float, power: float = POWER) -> float:
    """Return the smallest difference, a share, whose 95 % interval over n tasks excludes 0 with this power, in (0, 1)."""
    return margin(tasks, deviation) + NormalDist().inv_cdf(power) * deviation / math.sqrt(tasks)


def tasks_needed(difference: float, deviation: float, power: float = POWER) -> int:
    """Return the number of tasks needed to detect a difference, a share, with this power; ValueError for 0."""
    if not difference:
        raise ValueError("a difference of 0 cannot be detected; give a larger one")
    return bisect_left(
        range(MOST_TASKS), True, key=lambda tasks: detectable(max(1, tasks), deviation, power) <= abs(difference)
    )
