"""Advantages for pass@k: by hand, against all subsets, and the laws that their papers state."""

from functools import partial
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upsolve.advantage.group import leave_one_out, max_at_k, maxrl, pass_at_k, pkpo, rho, standardised, unlikeliness
from upsolve.advantage.table import advantage
from upsolve.config import AdvantageConfig

ONE_IN_FOUR = np.array([1.0, 0.0, 0.0, 0.0])
passes = st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=8).map(np.array)
mixed = passes.filter(lambda r: 0 < r.sum() < len(r))


def test_rho_counts_subsets():
    for n, c, k in ((4, 1, 2), (6, 3, 3), (5, 0, 2), (5, 5, 1), (3, 1, 0)):
        subsets = [*combinations([1] * c + [0] * (n - c), k)]
        assert rho(n, c, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))
    with pytest.raises(ValueError, match="within"):
        rho(3, 4, 1)


def test_maxrl_by_hand():
    # p = 1/4: (1 - 1/4) / (1/4) = 3 and -1; p = 3/4: 1/3 and -1
    assert maxrl(ONE_IN_FOUR) == pytest.approx([3, -1, -1, -1])
    assert maxrl(np.array([True, True, True, False])) == pytest.approx([1 / 3, 1 / 3, 1 / 3, -1])
    assert maxrl(np.array([False, False])).tolist() == [0, 0]
    assert maxrl(np.array([True])).tolist() == [0]


@pytest.mark.parametrize("estimate", [maxrl, partial(pkpo, k=2), partial(pass_at_k, k=2)])
def test_rewards_are_no_passes(estimate):
    with pytest.raises(ValueError, match="passes must be booleans"):
        estimate(np.array([0.98, -0.1]))


def test_pkpo_by_hand():
    # k = 2, n = 4, c = 1. The pass: r = 2, without it nobody passes: baseline 0. A failure: r = 2 rho(3, 1, 1) = 2/3; without it
    # n = 3, c = 1: r = 2 for the pass and 2 rho(2, 1, 1) = 1 for the other two, mean 4/3
    assert pkpo(ONE_IN_FOUR, k=2) == pytest.approx([2, -2 / 3, -2 / 3, -2 / 3])
    assert pkpo(np.ones(1), k=2).tolist() == max_at_k(np.ones(1), k=2).tolist() == [0.0]


@given(passes)
def test_pkpo_at_one_is_leave_one_out(r):
    assert pkpo(r, k=1) == pytest.approx(leave_one_out(r), abs=1e-12)


@given(st.integers(2, 8), st.integers(1, 10))
def test_pkpo_of_equal_attempts_is_zero(size, k):
    assert pkpo(np.ones(size), k=k) == pytest.approx(np.zeros(size), abs=1e-12)
    assert pkpo(np.zeros(size), k=k).tolist() == [0] * size


def expected_gradient(estimate, probability, size):
    """E[mean of A_i d log pi(o_i) / dp] over groups of independent attempts that pass with ``probability``, by enumeration."""
    total = 0.0
    for bits in range(2**size):
        r = np.array([bits >> i & 1 for i in range(size)], dtype=float)
        weight = np.prod(np.where(r > 0, probability, 1 - probability))
        total += weight * np.mean(estimate(r) * np.where(r > 0, 1 / probability, -1 / (1 - probability)))
    return total


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("probability", [0.1, 0.5])
def test_pkpo_and_max_at_k_are_unbiased_for_pass_at_k(k, probability):
    # d/dp (1 - (1 - p)^k) = k (1 - p)^(k - 1)
    slope = k * (1 - probability) ** (k - 1)
    assert expected_gradient(lambda r: pkpo(r, k=k), probability, 5) == pytest.approx(slope)
    assert expected_gradient(lambda r: max_at_k(r, k=k), probability, 5) == pytest.approx(slope)


@given(mixed, st.integers(1, 4))
def test_pass_at_k_averages_the_whitened_rewards_of_subsets(r, k):
    size = min(k, len(r))
    subsets = [*combinations(range(len(r)), size)]
    best = np.array([r[list(subset)].max() for subset in subsets])
    if best.std() == 0:
        assert pass_at_k(r, k=k).tolist() == [0] * len(r)
        return
    white = (best - best.mean()) / best.std()
    wanted = [np.mean([w for w, subset in zip(white, subsets, strict=True) if i in subset]) for i in range(len(r))]
    assert pass_at_k(r, k=k) == pytest.approx(wanted, abs=1e-9)


@given(mixed)
def test_pass_at_one_is_standardised_by_the_population(r):
    assert pass_at_k(r, k=1) == pytest.approx(standardised(r, ddof=0, epsilon=0.0), abs=1e-9)


@given(st.lists(st.integers(-5, 5), min_size=2, max_size=7).map(lambda r: np.array(r, dtype=float)), st.integers(2, 4))
def test_max_at_k_is_the_gain_over_the_best_of_the_others(r, k):
    size = min(k, len(r)) - 1
    wanted = []
    for i in range(len(r)):
        others = [*combinations(np.delete(r, i), size)]
        wanted.append(min(k, len(r)) * np.mean([max(0.0, r[i] - max(subset)) for subset in others]))
    assert max_at_k(r, k=k) == pytest.approx(wanted, abs=1e-9)


def test_max_at_k_takes_no_more_than_the_group_and_no_less_than_two():
    assert max_at_k([1.0, 0.0], k=4).tolist() == max_at_k([1.0, 0.0], k=2).tolist() == [2.0, 0.0]
    with pytest.raises(ValueError, match="k must be at least 2, not 1"):
        max_at_k([1.0, 0.0], k=1)


def test_unlikeliness_pays_the_rare_pass_best():
    # of four passes and a failure the ranks are 2, 0, 1, 3, 4: 1 - 0.25 * (2, 0, 1, 3) / 5 = 0.9, 1, 0.95, 0.85, and 0
    got = unlikeliness(np.array([1.0, 1, 1, 1, 0]), np.array([-5.0, -9, -7, -3, -1]), beta=0.25)
    assert got == pytest.approx(standardised(np.array([0.9, 1, 0.95, 0.85, 0])))
    # 1 and 1 - 0.25 / 2: mean 0.9375, deviation of the population 0.0625, to which 0.0625 is added
    assert unlikeliness(np.ones(2), np.array([-2.0, -1.0]), ddof=0, epsilon=0.0625) == pytest.approx([0.5, -0.5])
    ordered = unlikeliness(np.ones(40), np.full(40, -1.0))
    assert (np.diff(ordered) < 0).all(), "attempts of equal likelihood rank in their order"
    with pytest.raises(ValueError, match="log-probability of every attempt"):
        unlikeliness(np.ones(2), np.array([-1.0, np.nan]))


def test_recipes_name_them_with_their_k():
    passed_G = ONE_IN_FOUR > 0
    for kind, function in (("pkpo", pkpo), ("pass_at_k", pass_at_k), ("max_at_k", max_at_k)):
        assert advantage(ONE_IN_FOUR, AdvantageConfig(kind=kind), passed_G=passed_G) == pytest.approx(
            function(ONE_IN_FOUR, k=4)
        )
        two = AdvantageConfig(kind=kind, options={"k": 2})
        assert advantage(ONE_IN_FOUR, two, passed_G=passed_G) == pytest.approx(function(ONE_IN_FOUR, k=2))
    logps = np.array([-1.0, -2, -3, -4])
    given = {"beta": 0.5, "ddof": 0, "epsilon": 0.5}
    config = AdvantageConfig(kind="unlikeliness", options={"beta": 0.5}, ddof=0, epsilon=0.5)
    two = np.array([1.0, 1.0, 0.0, 0.0])
    assert advantage(two, config, passed_G=two > 0, logp_G=logps) == pytest.approx(unlikeliness(two, logps, **given))
    assert advantage(ONE_IN_FOUR, AdvantageConfig(kind="unlikeliness"), passed_G=passed_G, logp_G=logps) == pytest.approx(
        unlikeliness(ONE_IN_FOUR, logps)
    )
