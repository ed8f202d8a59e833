import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upsolve.advantage import ADVANTAGES, advantage, asymre, awr, centred, exponential, leave_one_out, passed, standardised
from upsolve.config import AdvantageConfig

ONE_IN_FOUR = np.array([1.0, 0.0, 0.0, 0.0])
TABLE = np.array([1.0, -0.1, -0.6, -0.1])


def test_leave_one_out_by_hand():
    # the first against the mean of the others (-0.1 - 0.6 - 0.1) / 3 = -0.26667; the second against (1 - 0.6 - 0.1) / 3 = 0.1
    assert leave_one_out(TABLE) == pytest.approx([1.2666667, -0.2, -0.8666667, -0.2])


def test_standardised_names_its_deviation():
    # mean 0.25; sample deviation 0.5, population deviation 0.4330127
    assert standardised(ONE_IN_FOUR, ddof=1, epsilon=0) == pytest.approx([1.5, -0.5, -0.5, -0.5])
    assert standardised(ONE_IN_FOUR, ddof=0, epsilon=0)[0] == pytest.approx(1.7320508)


def test_exponential_by_hand_and_clipped():
    assert exponential(ONE_IN_FOUR) == pytest.approx([2.1170000, 0.7788008, 0.7788008, 0.7788008])  # e^0.75, e^-0.25
    assert exponential(np.array([100.0, 0.0]), max_weight=5.0)[0] == 5.0


def test_awr_weights_average_one():
    # centred 0.75 and -0.25; at temperature 0.5: e^1.5 = 4.4816891, e^-0.5 = 0.6065307, mean 1.5753203
    assert awr(ONE_IN_FOUR, beta=0.5) == pytest.approx([2.8449383, 0.3850206, 0.3850206, 0.3850206])


def test_asymre_lowers_the_baseline():
    assert asymre(ONE_IN_FOUR, delta=-0.1) == pytest.approx([0.85, -0.15, -0.15, -0.15])


def test_passed_is_an_indicator():
    assert passed(TABLE).tolist() == [1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("estimator", [centred, leave_one_out, standardised, asymre])
def test_a_group_of_one_gives_zero(estimator):
    assert estimator(np.array([0.7])).tolist() == [0.0]


@pytest.mark.parametrize("bad", [[], [np.nan], [[1.0]]])
def test_bad_rewards_are_refused(bad):
    with pytest.raises(ValueError, match="rewards"):
        centred(np.array(bad))


rewards = st.lists(st.floats(-10, 10).map(lambda x: round(x, 3)), min_size=2, max_size=12).map(np.array)


@given(rewards)
def test_baselines_sum_to_zero(r):
    for estimator in (centred, leave_one_out, standardised):
        assert estimator(r).sum() == pytest.approx(0, abs=1e-6)


@given(rewards, st.randoms(use_true_random=False))
def test_order_does_not_matter(r, random):
    order = list(range(len(r)))
    random.shuffle(order)
    for kind in ADVANTAGES:
        config = AdvantageConfig(kind=kind)
        assert advantage(r[order], config) == pytest.approx(advantage(r, config)[order])


@given(rewards)
def test_leave_one_out_is_centred_scaled(r):
    assert leave_one_out(r) == pytest.approx(centred(r) * len(r) / (len(r) - 1), abs=1e-9)
