"""Confidence intervals and tests over tasks: tasks, not samples, are resampled (clustered by task)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Estimate", "Paired", "mcnemar", "mean_interval", "over_seeds", "paired_difference"]

RESAMPLES = 10_000
LEVEL = 0.95


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
    """Mean of after - before over tasks; interval by the percentile bootstrap over tasks."""
    better: int
    """Number of tasks whose value rose."""
    worse: int
    """Number of tasks whose value fell."""
    p_value: float
    """Two-sided p-value of the sign-flip permutation test of no difference, Monte Carlo with 10,000 permutations."""
    deviation: float
    """Sample standard deviation of the differences over tasks; nan for one task."""


def mean_interval(values: Sequence[float] | NDArray[np.float64], *, seed: int = 0) -> Estimate:
    """Return the mean over tasks and its percentile-bootstrap interval (10,000 resamples of tasks, seeded).

    The interval of a single task is (nan, nan): one value says nothing about the variance over tasks.

    Raises:
        ValueError: ``values`` is empty.
    """
    data = np.asarray(values, dtype=np.float64)
    if data.size == 0:
        raise ValueError("no tasks to take a mean over")
    if data.size == 1:
        return Estimate(float(data[0]), float("nan"), float("nan"), 1)
    random = np.random.default_rng(seed)
    means = np.concatenate([data[random.integers(0, data.size, (500, data.size))].mean(1) for _ in range(RESAMPLES // 500)])
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(data.mean()), float(low), float(high), int(data.size))


def paired_difference(before: Mapping[str, float], after: Mapping[str, float], *, seed: int = 0) -> Paired:
    """Compare two runs task by task.

    Raises:
        ValueError: the runs are over different tasks; the message names some.
    """
    if odd := before.keys() ^ after.keys():
        raise ValueError(f"the runs are over different tasks: {sorted(odd)[:5]}")
    change = np.array([after[name] - before[name] for name in before], dtype=np.float64)
    random = np.random.default_rng(seed)
    signs = random.choice(np.array([-1.0, 1.0]), (RESAMPLES, change.size))
    extreme = np.abs((signs * change).mean(1)) >= abs(change.mean()) - 1e-12
    return Paired(
        difference=mean_interval(change, seed=seed),
        better=int((change > 0).sum()),
        worse=int((change < 0).sum()),
        p_value=float((extreme.sum() + 1) / (RESAMPLES + 1)),
        deviation=float(change.std(ddof=1)) if change.size > 1 else float("nan"),
    )


def mcnemar(gained: int, lost: int) -> float:
    """Return the two-sided p-value of McNemar's exact test: min(1, 2 P(X <= min(gained, lost))), X ~ Binomial(gained + lost, 1/2).

    Args:
        gained: tasks that only the second model solves, >= 0.
        lost: tasks that only the first model solves, >= 0.
    """
    tried = gained + lost
    return min(1.0, 2 * sum(math.comb(tried, count) for count in range(min(gained, lost) + 1)) / 2**tried)


def over_seeds(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean over runs of each task's value, so that intervals are still over tasks.

    Raises:
        ValueError: there are no runs, or they are over different tasks.
    """
    if not runs or any(run.keys() != runs[0].keys() for run in runs):
        raise ValueError("the runs are over different tasks" if runs else "no runs")
    return {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
