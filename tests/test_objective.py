import math

import pytest
import torch

from upsolve.config import ObjectiveConfig
from upsolve.objective.ratio import effective_sample_size, k1, k2, k3, second_moment, sum_by_attempt
from upsolve.objective.reduce import sequence_mean, sequence_sum, token_mean
from upsolve.objective.surrogate import OBJECTIVES, LossInputs, dft, oapl, reinforce, soft_value, topr

LOGP = torch.tensor([-1.0, -2.0, -0.5])
ATTEMPT = torch.tensor([0, 0, 1])


def inputs(advantages, values=(0.0, 0.0), reference=None):
    return LossInputs(ATTEMPT, torch.tensor(advantages), torch.tensor(values), reference)


def test_reinforce_by_hand():
    assert reinforce(LOGP, torch.tensor([2.0, 2.0, -1.0])).tolist() == [2.0, 4.0, -0.5]


def test_dft_weighs_by_probability_without_gradient():
    logp = LOGP.clone().requires_grad_()
    loss = dft(logp, torch.ones(3))
    assert loss.tolist() == pytest.approx([math.exp(-1), 2 * math.exp(-2), 0.5 * math.exp(-0.5)])
    loss.sum().backward()
    assert logp.grad.tolist() == pytest.approx([-math.exp(-1), -math.exp(-2), -math.exp(-0.5)])


def test_topr_truncates_only_what_is_pushed_down():
    ratio = torch.tensor([5.0, -math.log(4.0), math.log(3.0)])
    got = topr(torch.tensor([-1.0, -1.0, -1.0]), torch.tensor([2.0, -2.0, -2.0]), ratio)
    # up: weight 1 whatever the ratio; down at ratio 1/4: weight 1/4; down at ratio 3: capped at 1
    assert got.tolist() == pytest.approx([2.0, -0.5, -2.0])


def test_topr_on_policy_is_reinforce():
    config = ObjectiveConfig(kind="topr")
    data = inputs([1.0, -1.0], reference=LOGP.clone())
    assert OBJECTIVES["topr"](LOGP, data, config).tolist() == OBJECTIVES["reinforce"](LOGP, data, config).tolist()


def test_soft_value_by_hand():
    # beta 1: log((e^1 + e^0) / 2) = log(1.8591409) = 0.6201145
    assert float(soft_value(torch.tensor([1.0, 0.0]), beta=1.0)) == pytest.approx(0.6201145)
    assert float(soft_value(torch.tensor([1.0, 0.0]), beta=100.0)) == pytest.approx(0.5, abs=2e-3)


def test_oapl_is_a_regression_spread_over_tokens():
    assert oapl(torch.tensor([2.0]), torch.tensor([0.5]), beta=0.1).tolist() == pytest.approx([0.09])
    reference = torch.tensor([-1.5, -2.5, -0.5])
    config = ObjectiveConfig(kind="oapl", beta_policy=0.5)
    # attempt 0: log-ratio 1.0, (0.5 - 0.3)^2 = 0.04 over two tokens; attempt 1: log-ratio 0, (0 + 0.1)^2 = 0.01
    got = OBJECTIVES["oapl"](LOGP, inputs([1.0, -1.0], (0.3, -0.1), reference), config)
    assert got.tolist() == pytest.approx([0.02, 0.02, 0.01])


def test_objectives_that_need_a_reference_say_so():
    with pytest.raises(ValueError, match="reference"):
        OBJECTIVES["topr"](LOGP, inputs([1.0, -1.0]), ObjectiveConfig(kind="topr"))


def test_reductions_by_hand():
    loss = torch.tensor([1.0, 3.0, 5.0])
    assert float(sequence_sum(loss, ATTEMPT, attempts=2, tokens=3)) == 4.5
    assert float(token_mean(loss, ATTEMPT, attempts=2, tokens=3)) == 3.0
    assert float(sequence_mean(loss, ATTEMPT, attempts=2, tokens=3)) == 3.5  # (2 + 5) / 2


@pytest.mark.parametrize("reduction", [sequence_sum, token_mean, sequence_mean])
def test_parts_add_up_to_the_whole(reduction):
    loss = torch.tensor([1.0, 3.0, 5.0])
    parts = reduction(loss[:2], ATTEMPT[:2], attempts=2, tokens=3) + reduction(
        loss[2:], torch.tensor([0]), attempts=2, tokens=3
    )
    assert float(parts) == pytest.approx(float(reduction(loss, ATTEMPT, attempts=2, tokens=3)))


def test_kl_estimates_by_hand():
    x = torch.tensor([math.log(2.0)])
    assert float(k1(x)) == pytest.approx(0.6931472)
    assert float(k2(x)) == pytest.approx(0.2402265)
    assert float(k3(x)) == pytest.approx(0.5 - 1 + 0.6931472)


def test_ratio_statistics_by_hand():
    assert sum_by_attempt(LOGP, ATTEMPT, 2).tolist() == [-3.0, -0.5]
    assert float(second_moment(torch.tensor([1.0, -3.0]))) == 5.0
    assert float(effective_sample_size(torch.zeros(4))) == pytest.approx(1.0)
    # weights 1 and 3: 16 / (2 * 10)
    assert float(effective_sample_size(torch.tensor([0.0, math.log(3.0)]))) == pytest.approx(0.8)
