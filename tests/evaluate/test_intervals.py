"""Intervals hold what they promise: worked by hand, and covered by simulation."""

import math

import numpy as np
import pytest

from upsolve.evaluate.intervals import margin, mean_interval, paired_difference, share_interval

LEAST = 0.93
RATES = np.array([0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.98, 0.99, 0.995])


def test_no_success_is_no_certainty():
    # 0 of 200 and 1.5 of 3: m' = 1.5 / 203, S' = 1.5 - 203 m'^2 = 1.488916, t(202) = 1.97178: m' + t sqrt(S' / 203 / 202)
    assert share_interval(0, 200) == pytest.approx((0, 0.019271), abs=1e-5)
    # 20 of 20 and 1.5 of 3: m' = 21.5 / 23, S' = 21.5 - 23 m'^2 = 1.402174, t(22) = 2.07387
    assert share_interval(20, 20) == pytest.approx((0.825618, 1), abs=1e-4)
    assert mean_interval([0.0] * 200).high == share_interval(0, 200)[1]
    assert share_interval(0, 0) == (0.0, 1.0) and share_interval(1, 1)[1] == 1.0
    with pytest.raises(ValueError, match="0 <= count <= of"):
        share_interval(3, 2)


def test_no_difference_in_any_task_is_no_certainty():
    same = {str(number): 0.5 for number in range(200)}
    found = paired_difference(same, same).difference
    # S' = 3: t(202) sqrt(3 / 203 / 202)
    assert (found.low, found.high) == pytest.approx((-0.016865, 0.016865), abs=1e-5)
    assert margin(200, 0.0) == pytest.approx(0.016865, abs=1e-5)


def test_an_interval_without_bounds_is_students():
    # mean 2, standard deviation 1, t(2) = 4.30265: 4.30265 / sqrt(3)
    found = mean_interval([1.0, 2.0, 3.0], bounds=None)
    assert (found.low, found.high) == pytest.approx((2 - 2.48414, 2 + 2.48414), abs=1e-4)
    assert mean_interval([-5.0, -7.0], bounds=None).low == pytest.approx(-6 - 12.7062, abs=1e-3)


@pytest.mark.parametrize(
    ("tasks", "quantile"), [(2, 12.7062), (3, 4.3027), (4, 3.1824), (5, 2.7764), (6, 2.5706), (31, 2.0423)]
)
def test_quantiles_are_those_of_tables(tasks, quantile):
    """The half-width of an interval without bounds, in standard errors of the mean."""
    values = np.arange(tasks, dtype=float)
    half = mean_interval(values, bounds=None).high - values.mean()
    assert half * math.sqrt(tasks) / values.std(ddof=1) == pytest.approx(quantile, rel=0.002)


def test_intervals_mirror_and_grow_with_the_spread():
    values = np.array([0.0, 0.25, 0.25, 1.0, 0.0, 0.5])
    found, mirrored = mean_interval(values), mean_interval(1 - values)
    assert (found.low, found.high) == pytest.approx((1 - mirrored.high, 1 - mirrored.low))
    assert found.low <= found.mean <= found.high
    with pytest.raises(ValueError, match="out of the bounds"):
        mean_interval([1.5, 0.5])


@pytest.mark.parametrize("tasks", [20, 50, 104, 200, 500])
def test_the_coverage_of_shares(tasks):
    """Exact: the probabilities of all counts whose interval holds the rate."""
    counts = np.arange(tasks + 1)
    low, high = np.array([share_interval(int(count), tasks) for count in counts]).T
    choose = np.array([math.lgamma(tasks + 1) - math.lgamma(c + 1) - math.lgamma(tasks - c + 1) for c in counts])
    rates = np.concatenate([RATES, np.linspace(0.005, 0.995, 199)])[:, None]
    chances = np.exp(choose + counts * np.log(rates) + (tasks - counts) * np.log1p(-rates))
    covered = (chances * ((low <= rates) & (rates <= high))).sum(1)
    assert covered.min() >= LEAST and covered.mean() < 0.98, "neither too narrow nor too wide"


def task_rates(random, rate, correlation, shape):
    """Pass rates of tasks: a beta distribution whose variance is correlation * rate * (1 - rate)."""
    size = (1 - correlation) / correlation
    return random.beta(rate * size, (1 - rate) * size, shape)


@pytest.mark.parametrize("tasks", [20, 100, 500])
@pytest.mark.parametrize(("samples", "correlation"), [(4, 0.05), (8, 0.3), (16, 0.7)])
def test_the_coverage_of_means_over_tasks_with_several_samples(tasks, samples, correlation):
    random = np.random.default_rng(0)
    for rate in RATES[::2]:
        draws = random.binomial(samples, task_rates(random, rate, correlation, (250, tasks))) / samples
        found = [mean_interval(values) for values in draws]
        assert np.mean([one.low <= rate <= one.high for one in found]) >= LEAST, rate


@pytest.mark.parametrize("tasks", [20, 100, 500])
@pytest.mark.parametrize("samples", [1, 8])
@pytest.mark.parametrize(("rate", "gain"), [(0.005, 0.0), (0.005, 0.005), (0.05, 0.02), (0.3, 0.0), (0.3, 0.05)])
@pytest.mark.parametrize("kind", ["every task gains", "some tasks become solved"])
def test_the_coverage_of_paired_differences(tasks, samples, rate, gain, kind):
    random = np.random.default_rng(1)
    before = task_rates(random, rate, 0.5, (250, tasks))
    share = gain / (1 - rate)
    solved = random.random(before.shape) < share
    after = before + (1 - before) * share if kind == "every task gains" else np.where(solved, 1.0, before)
    changes = (random.binomial(samples, after) - random.binomial(samples, before)) / samples
    found = [mean_interval(values, bounds=(-1.0, 1.0)) for values in changes]
    assert np.mean([one.low <= gain <= one.high for one in found]) >= LEAST
