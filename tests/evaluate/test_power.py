"""How many tasks a difference needs, worked by hand."""

import math

import numpy as np
import pytest

from upsolve.evaluate.intervals import mcnemar, paired_difference
from upsolve.evaluate.power import answer_deviation, detectable, tasks_needed


def test_power_by_hand():
    # z_0.975 + z_0.8 = 1.95996 + 0.84162 = 2.80159; sd 0.5 over 100 tasks: 2.80159 * 0.05
    assert detectable(100, 0.5) == pytest.approx(0.1400793, abs=1e-6)
    assert tasks_needed(0.1400793, 0.5) == 100 and tasks_needed(-0.07, 0.5) == 401
    assert detectable(100, 0.5, power=0.5) == pytest.approx(1.959964 * 0.05)
    with pytest.raises(ValueError, match="difference of 0"):
        tasks_needed(0, 0.5)


def test_the_deviation_of_two_answers():
    # independent coins: Var(X - Y) = 2 * 1/4; the demo: half an interval of 7.4 points over 104 tasks
    assert answer_deviation(0.5, 0) == pytest.approx(math.sqrt(0.5))
    assert 1.96 * answer_deviation(0.298) / math.sqrt(104) == pytest.approx(0.074, abs=0.001)
    for wrong in ((0, 0.5), (1, 0.5), (0.5, 1)):
        with pytest.raises(ValueError, match="pass rate"):
            answer_deviation(*wrong)


def test_the_power_is_kept():
    """Simulated: of 400 comparisons with the detectable difference, about 80 % have p < 0.05."""
    random, tasks = np.random.default_rng(0), 200
    true = detectable(tasks, 0.4)
    found = random.normal(true, 0.4, (400, tasks))
    z = found.mean(1) / (found.std(1, ddof=1) / math.sqrt(tasks))
    assert np.mean(np.abs(z) > 1.96) == pytest.approx(0.8, abs=0.05)


def test_mcnemar_by_hand():
    # gained 5, lost 1: 2 * (1 + 6) / 2**6
    assert mcnemar(5, 1) == mcnemar(1, 5) == 14 / 64
    assert mcnemar(0, 6) == 2 / 64 and mcnemar(0, 0) == mcnemar(3, 3) == 1.0


def test_the_deviation_of_a_paired_difference():
    found = paired_difference({"a": 0.0, "b": 0.5}, {"a": 1.0, "b": 0.5})
    assert found.deviation == pytest.approx(math.sqrt(0.5))
