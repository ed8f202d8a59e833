import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upsolve.advantage.group import (
    asymre,
    awr,
    centred,
    exponential,
    gae,
    leave_one_out,
    soft_values,
    standardised,
    subtract_kl,
    whiten,
)
from upsolve.advantage.table import ADVANTAGES, Advantage, advantage
from upsolve.config import AdvantageConfig, load_recipe

rewards = st.lists(st.floats(-10, 10).map(lambda x: round(x, 3)), min_size=2, max_size=12).map(np.array)
ONE_IN_FOUR = np.array([1.0, 0.0, 0.0, 0.0])
TABLE = np.array([1.0, -0.1, -0.6, -0.1])


def test_leave_one_out_by_hand():
    # the first against the mean of the others (-0.1 - 0.6 - 0.1) / 3 = -0.26667; the second against (1 - 0.6 - 0.1) / 3 = 0.1
    assert leave_one_out(TABLE) == pytest.approx([1.2666667, -0.2, -0.8666667, -0.2])


@pytest.mark.parametrize("equal", [[0.1] * 3, [0.7] * 7, [-0.1] * 6, [1 / 3] * 6])
def test_equal_rewards_give_exactly_zero(equal):
    for estimate in (centred, leave_one_out, standardised, lambda r: standardised(r, ddof=0, epsilon=0)):
        assert estimate(np.array(equal)).tolist() == [0.0] * len(equal)


def test_standardised_names_its_deviation():
    # mean 0.25; sample deviation 0.5, population deviation 0.4330127
    assert standardised(ONE_IN_FOUR, ddof=1, epsilon=0) == pytest.approx([1.5, -0.5, -0.5, -0.5])
    assert standardised(ONE_IN_FOUR, ddof=0, epsilon=0)[0] == pytest.approx(1.7320508)
    assert standardised(ONE_IN_FOUR, epsilon=0.25) == pytest.approx([1.0, -1 / 3, -1 / 3, -1 / 3])


def test_exponential_by_hand_and_clipped():
    # normalised 1.5 and -0.5; clipped to 1 and -0.5: e, e^-0.5; not clipped: e^1.5
    assert exponential(ONE_IN_FOUR, epsilon=0) == pytest.approx([2.7182818, 0.6065307, 0.6065307, 0.6065307])
    assert exponential(ONE_IN_FOUR, epsilon=0, clip=None)[0] == pytest.approx(4.4816891)
    assert exponential(ONE_IN_FOUR, epsilon=0, clip=None, max_weight=2.0)[0] == pytest.approx(2.0)
    assert exponential(ONE_IN_FOUR, epsilon=0, beta=2.0)[1] == pytest.approx(0.3678794)
    assert exponential(np.array([0.7])).tolist() == [1.0]
    # deviation 0.4330127 of the population: -0.5773503; deviation 0.5 + 1.5: -0.125
    assert exponential(ONE_IN_FOUR, epsilon=0, ddof=0)[1] == pytest.approx(0.5613839)
    assert exponential(ONE_IN_FOUR, epsilon=1.5)[1] == pytest.approx(0.8824969)
    assert exponential(ONE_IN_FOUR)[1] == pytest.approx(0.6065307, abs=1e-5)


def test_exponentials_do_not_overflow():
    assert exponential(np.array([1e4, 0.0]), beta=1e4, clip=None)[0] == pytest.approx(20.0)
    assert awr(np.array([1e4, 0.0]), beta=1e-3) == pytest.approx([2.0, 0.0])
    assert np.isfinite(subtract_kl(np.zeros(2), np.array([-1000.0, 1000.0]), beta=1.0)).all()


@given(rewards)
def test_exponential_lies_within_its_published_range(r):
    assert (exponential(r) >= np.exp(-1) - 1e-12).all() and (exponential(r) <= np.e + 1e-12).all()


def test_awr_weights_average_one():
    # centred 0.75 and -0.25; at temperature 0.5: e^1.5 = 4.4816891, e^-0.5 = 0.6065307, mean 1.5753203
    assert awr(ONE_IN_FOUR, beta=0.5) == pytest.approx([2.8449383, 0.3850206, 0.3850206, 0.3850206])
    assert awr(ONE_IN_FOUR) == pytest.approx(awr(ONE_IN_FOUR, beta=1.0))
    # e^5 capped at 20, e^-5 = 0.0067379: 2 * 20 / 20.0067379
    assert awr(np.array([10.0, 0.0]))[0] == pytest.approx(1.9993264)


def test_asymre_lowers_the_baseline():
    assert asymre(ONE_IN_FOUR, delta=-0.1) == pytest.approx([0.85, -0.15, -0.15, -0.15])


@pytest.mark.parametrize(("kind", "options"), [("passed", {}), ("maxrl", {}), ("pkpo", {"k": 2}), ("pass_at_k", {"k": 2})])
def test_estimators_of_passes_read_no_reward(kind, options):
    """A pass with a finding of Ruff has 0.98, a failure may have more."""
    config, passed_G = AdvantageConfig(kind=kind, options=options), np.array([True, False, False, False])
    found = advantage(np.array([0.98, 1.5, -0.1, 0.3]), config, passed_G=passed_G)
    assert found.tolist() == advantage(ONE_IN_FOUR, config, passed_G=passed_G).tolist()
    assert found[0] > 0 and len({*found[1:].tolist()}) == 1
    with pytest.raises(ValueError, match=r"4 rewards and passes of shape \(3,\)"):
        advantage(ONE_IN_FOUR, config, passed_G=passed_G[1:])


def test_passed_is_an_indicator():
    found = advantage(TABLE, AdvantageConfig(kind="passed"), passed_G=np.array([True, False, True, False]))
    assert found.tolist() == [1.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize("estimator", [centred, leave_one_out, standardised, asymre])
def test_a_group_of_one_gives_zero(estimator):
    assert estimator(np.array([0.7])).tolist() == [0.0]


@pytest.mark.parametrize("bad", [[], [np.nan], [[1.0]]])
def test_bad_rewards_are_refused(bad):
    with pytest.raises(ValueError, match="rewards"):
        centred(np.array(bad))


@given(rewards)
def test_baselines_sum_to_zero(r):
    for estimator in (centred, leave_one_out, standardised):
        assert estimator(r).sum() == pytest.approx(0, abs=1e-6)


@given(rewards, st.randoms(use_true_random=False))
def test_order_does_not_matter(r, random):
    order, logps, passed_G = list(range(len(r))), -np.arange(len(r), dtype=float), r > 0
    random.shuffle(order)
    for config in (AdvantageConfig(kind=kind) for kind, record in ADVANTAGES.items() if record.reads == "rewards"):
        plain = advantage(r, config, passed_G=passed_G, logp_G=logps)
        other = advantage(r[order], config, passed_G=passed_G[order], logp_G=logps[order])
        assert other == pytest.approx(plain[order])


@given(rewards)
def test_leave_one_out_is_centred_scaled(r):
    assert leave_one_out(r) == pytest.approx(centred(r) * len(r) / (len(r) - 1), abs=1e-9)


def test_gae_by_hand():
    # d = (0.6 - 0.5, 0.7 - 0.6, 1 - 0.7) = (0.1, 0.1, 0.3); A = 0.3; 0.1 + 0.95 * 0.3 = 0.385; 0.1 + 0.95 * 0.385 = 0.46575
    advantages, returns = gae(np.array([0.0, 0.0, 1.0]), np.array([0.5, 0.6, 0.7]), gamma=1.0, decay=0.95)
    assert advantages == pytest.approx([0.46575, 0.385, 0.3])
    assert returns == pytest.approx([0.96575, 0.985, 1.0])
    assert gae(np.array([0.0, 0.0, 1.0]), np.array([0.5, 0.6, 0.7]))[0].tolist() == advantages.tolist()


def test_gae_discounts():
    # gamma 0.5, lambda 0.5: d = (1 + 0.5 * 4 - 2, 3 - 4) = (1, -1); A = -1; 1 + 0.25 * -1 = 0.75
    assert gae(np.array([1.0, 3.0]), np.array([2.0, 4.0]), gamma=0.5, decay=0.5)[0] == pytest.approx([0.75, -1.0])


def test_less_kl_by_hand():
    # k3 of log 2: 1/2 - 1 + 0.6931472 = 0.1931472; of 0: 0
    got = subtract_kl(np.array([0.5, 1.0]), np.array([np.log(2), 0.0]), beta=0.1)
    assert got == pytest.approx([0.4806853, 1.0])
    # at the limits of 20 and -20 nats: e^-20 - 1 + 20, e^20 - 1 - 20
    assert -subtract_kl(np.zeros(2), np.array([30.0, -30.0]), beta=1.0) == pytest.approx([19.0, 485165174.4])


def test_whitened_by_hand():
    # mean 2, population deviation sqrt(8 / 3) = 1.6329932
    assert whiten(np.array([0.0, 2.0, 4.0])) == pytest.approx([-1.2247449, 0.0, 1.2247449])
    assert whiten(np.array([0.7, 0.7])).tolist() == [0.0, 0.0]
    # 0 counts three times, 9 not at all: mean 1, deviation sqrt((3 * 1 + 9) / 4) = 1.7320508
    weighted = np.array([0.0, 4.0, 9.0]), np.array([3.0, 1.0, 0.0])
    assert whiten(*weighted) == pytest.approx([-0.5773503, 1.7320508, 4.6188022])
    assert whiten(*weighted, epsilon=1.7320508)[0] == pytest.approx(-0.2886751)
    assert whiten(np.array([1.0, 2.0]), np.zeros(2)).tolist() == [1.0, 2.0]


def test_gae_is_refused_where_it_does_not_fit():
    with pytest.raises(ValueError, match="2 rewards and 1 values"):
        gae(np.zeros(2), np.zeros(1))
    with pytest.raises(ValueError, match="value head"):
        advantage(TABLE, AdvantageConfig(kind="gae"), passed_G=TABLE > 0)


tokens = st.lists(st.tuples(st.floats(-10, 10), st.floats(-10, 10)), min_size=1, max_size=12).map(lambda rows: np.array(rows).T)


@given(tokens)
def test_gae_at_lambda_one_is_the_reward_to_go_less_the_value(rows):
    advantages, returns = gae(rows[0], rows[1], gamma=1.0, decay=1.0)
    to_go = rows[0][::-1].cumsum()[::-1]
    assert returns == pytest.approx(to_go, abs=1e-9)
    assert advantages == pytest.approx(to_go - rows[1], abs=1e-9)


@given(tokens)
def test_gae_at_lambda_zero_looks_one_token_ahead(rows):
    _, returns = gae(rows[0], rows[1], gamma=1.0, decay=0.0)
    assert returns[:-1] == pytest.approx(rows[0][:-1] + rows[1][1:], abs=1e-9)
    assert returns[-1] == pytest.approx(rows[0][-1], abs=1e-9)


@given(tokens)
def test_a_head_that_knows_the_rewards_to_come_leaves_nothing(rows):
    to_go = rows[0][::-1].cumsum()[::-1]
    for decay in (0.0, 0.5, 1.0):
        assert gae(rows[0], to_go, decay=decay)[0] == pytest.approx(np.zeros_like(to_go), abs=1e-9)


@given(rewards.filter(lambda r: r.std() > 1e-3))
def test_whitened_has_mean_zero_and_deviation_one(r):
    assert whiten(r).mean() == pytest.approx(0, abs=1e-9) and whiten(r).std() == pytest.approx(1, abs=1e-4)
    assert whiten(3 * r + 7) == pytest.approx(whiten(r), abs=1e-4)


def test_soft_values_by_hand():
    # beta 1: log((e^1 + e^0) / 2) = log(1.8591409) = 0.6201145
    assert soft_values(np.array([1.0, 0.0]), beta=1.0) == pytest.approx([0.3798855, -0.6201145])
    assert soft_values(np.array([1.0, 0.0]), beta=100.0) == pytest.approx([0.5, -0.5], abs=2e-3)


def test_the_sign_says_to_nft_which_attempts_passed():
    """``centred`` took 0.75 for a pass where nothing passed, and left out failed attempts at the mean."""
    config = load_recipe("nft").advantage
    nobody, one = np.zeros(4, dtype=bool), np.array([True, False, False, False])
    assert advantage(np.array([0.75, 0, 0, 0]), config, passed_G=nobody).tolist() == [0, 0, 0, 0]
    assert np.sign(advantage(np.array([1, 0.5, 0.5, 0]), config, passed_G=one)).tolist() == [1, -1, -1, -1]


@pytest.mark.parametrize(
    ("changed", "first"),
    [
        # 1.5 of the sample, clipped to 1: e; not clipped: e^1.5 = 4.4816891; population 1.7320508; 0.75 / (0.5 + 0.25) = 1
        ({}, 2.7182818),
        ({"clip": 1.25}, 3.4903430),
        ({"clip": None}, 4.4816891),
        ({"clip": None, "beta": 2.0, "max_weight": 30.0}, 20.0855369),
        ({"clip": None, "beta": 2.0}, 20.0),
        ({"clip": None, "max_weight": 3.0}, 3.0),
        ({"clip": None, "ddof": 0}, 5.6522337),
        ({"clip": None, "epsilon": 0.25}, 2.7182818),
    ],
)
def test_exponential_follows_the_settings_of_a_recipe(changed, first):
    config = AdvantageConfig(kind="exponential", **{"epsilon": 0.0, **changed})
    assert advantage(ONE_IN_FOUR, config, passed_G=ONE_IN_FOUR > 0)[0] == pytest.approx(first)


def test_estimators_are_given_float64_and_what_is_not_known():
    got = []

    def estimate(inputs, _config):
        got.append(inputs)
        return [1, 2]

    config = AdvantageConfig(kind=Advantage(estimate))
    found = advantage([1, 0], config, passed_G=[1, 0])
    assert found.dtype == np.float64 and found.tolist() == [1.0, 2.0]
    (inputs,) = got
    assert (inputs.rewards_G.dtype, inputs.logp_G.dtype, inputs.passed_G.dtype) == (np.float64, np.float64, np.bool_)
    assert np.isnan(inputs.logp_G).tolist() == [True, True] and inputs.seed == 0
    advantage([1, 0], config, passed_G=[1, 0], logp_G=np.array([-1.0, -2.0]), seed=7)
    assert got[1].logp_G.tolist() == [-1.0, -2.0] and got[1].seed == 7


@pytest.mark.parametrize(("field", "words"), [("reads", ("rewards", "values")), ("failed", ("negative", "zero", "any"))])
def test_the_words_of_an_estimator(field, words):
    for word in words:
        assert getattr(Advantage(lambda i, _: i.rewards_G, **{field: word}), field) == word
    with pytest.raises(ValueError, match=f"^{field}: .*must be of {', '.join(words)}"):
        Advantage(lambda i, _: i.rewards_G, **{field: "wrong"})
