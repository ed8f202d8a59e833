"""How many tasks a difference needs, worked by hand."""

import math

import numpy as np
import pytest

from upsolve.evaluate.intervals import answer_deviation, detectable, mcnemar, mean_interval, paired_difference, tasks_needed


def test_power_by_hand():
    # t(102) sqrt((99 / 4 + 3) / 103 / 102) with t(102) = 1.98350, plus 0.84162 * 0.05
    assert detectable(100, 0.5) == pytest.approx(0.1019398 + 0.0420811, abs=1e-5)
    assert detectable(100, 0.5, power=0.5) == pytest.approx(0.1019398, abs=1e-5)
    found = tasks_needed(0.1, 0.5)
    assert detectable(found, 0.5) <= 0.1 < detectable(found - 1, 0.5) and tasks_needed(-0.1, 0.5) == found
    with pytest.raises(ValueError, match="difference of 0"):
        tasks_needed(0, 0.5)


def test_the_deviation_of_two_answers():
    # independent coins: Var(X - Y) = 2 * 1/4; the demo: half an interval of 7.4 points over 104 tasks
    assert answer_deviation(0.5, 0) == pytest.approx(math.sqrt(0.5))
    assert 1.96 * answer_deviation(0.298) / math.sqrt(104) == pytest.approx(0.074, abs=0.001)
    for wrong in ((0, 0.5), (1, 0.5), (0.5, 1)):
        with pytest.raises(ValueError, match="pass rate"):
            answer_deviation(*wrong)


def test_power_does_not_change():
    """Simulated: of 1,000 comparisons with the detectable difference, about 80 % have an interval above 0."""
    random, tasks = np.random.default_rng(0), 200
    found = random.normal(detectable(tasks, 0.2), 0.2, (1000, tasks))
    gains = [mean_interval(values, bounds=(-1.0, 1.0)).low > 0 for values in found]
    assert np.mean(gains) == pytest.approx(0.8, abs=0.04)


def test_mcnemar_by_hand():
    # gained 5, lost 1: 2 * (1 + 6) / 2**6
    assert mcnemar(5, 1) == mcnemar(1, 5) == 14 / 64
    assert mcnemar(0, 6) == 2 / 64 and mcnemar(0, 0) == mcnemar(3, 3) == 1.0


def test_the_deviation_of_a_paired_difference():
    found = paired_difference({"a": 0.0, "b": 0.5}, {"a": 1.0, "b": 0.5})
    assert found.deviation == pytest.approx(math.sqrt(0.5))
