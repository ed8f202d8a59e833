import math

import numpy as np
import pytest
import torch

from upsolve.advantage.group import leave_one_out
from upsolve.config import ObjectiveConfig
from upsolve.objective.clipped import LossInputs
from upsolve.objective.losses import clipped_tokens, dft, dro, oapl, reinforce, token_losses, topr, unlikelihood
from upsolve.objective.table import OBJECTIVES

LOGP = torch.tensor([-1.0, -2.0, -0.5])
ATTEMPT = torch.tensor([0, 0, 1])


def inputs(advantages, values=(0.0, 0.0), reference=None):
    return LossInputs(ATTEMPT, torch.tensor(advantages)[ATTEMPT], torch.tensor(values), reference, None)


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
    assert topr(torch.tensor([-1.0]), torch.tensor([0.5]), torch.tensor([-3.0])).tolist() == [0.5], "any advantage above 0"


def test_topr_on_policy_is_reinforce():
    config = ObjectiveConfig(kind="topr")
    data = inputs([1.0, -1.0], reference=LOGP.clone())
    assert OBJECTIVES["topr"].loss(LOGP, data, config).tolist() == OBJECTIVES["reinforce"].loss(LOGP, data, config).tolist()


def test_oapl_is_a_regression_spread_over_tokens():
    assert oapl(torch.tensor([2.0]), torch.tensor([0.5]), beta=0.1).tolist() == pytest.approx([0.09])
    reference = torch.tensor([-1.5, -2.5, -0.5])
    config = ObjectiveConfig(kind="oapl", beta_policy=0.5)
    # attempt 0: log-ratio 1.0, (0.5 - 0.3)^2 = 0.04 over two tokens; attempt 1: log-ratio 0, (0 + 0.1)^2 = 0.01
    got = OBJECTIVES["oapl"].loss(LOGP, inputs([1.0, -1.0], (0.3, -0.1), reference), config)
    assert got.tolist() == pytest.approx([0.02, 0.02, 0.01])


def test_objectives_that_need_a_reference_say_so():
    with pytest.raises(ValueError, match="reference"):
        OBJECTIVES["topr"].loss(LOGP, inputs([1.0, -1.0]), ObjectiveConfig(kind="topr"))


def test_dro_is_reinforce_held_by_a_square():
    # attempt 0: log pi -3, log-ratio 1, A 2: 6 + 0.5 / 2 * 1 = 6.25 over two tokens; attempt 1: log pi -0.5, ratio 1: -0.5
    data = inputs([2.0, -1.0], reference=torch.tensor([-1.5, -2.5, -0.5]))
    config = ObjectiveConfig(kind="dro", beta_dro=0.5)
    assert OBJECTIVES["dro"].loss(LOGP, data, config).tolist() == pytest.approx([3.125, 3.125, -0.5])


def test_dro_rests_where_the_log_ratio_is_advantage_over_beta():
    logp = torch.tensor([-7.0], requires_grad=True)
    dro(logp, torch.tensor([-2.0]), logp - torch.tensor([-3.0]), beta=0.5).sum().backward()  # log-ratio -4 = -2 / 0.5
    assert logp.grad.tolist() == [0.0]


def test_a_kl_term_adds_to_any_objective():
    data = inputs([1.0, -1.0], reference=torch.tensor([-2.0, -2.0, -1.0]))
    plain = token_losses(LOGP, data, ObjectiveConfig())
    # log-ratios 1, 0, 0.5. k1: themselves; k2: 0.5, 0, 0.125; k3: e^-1 - 1 + 1 = 0.3678794, 0, e^-0.5 - 1 + 0.5 = 0.1065307
    for name, terms in {"k1": [1, 0, 0.5], "k2": [0.5, 0, 0.125], "k3": [0.3678794, 0, 0.1065307]}.items():
        config = ObjectiveConfig.model_validate({"kl": {"coefficient": 2.0, "estimator": name}})
        assert config.needs_reference
        assert (token_losses(LOGP, data, config) - plain).tolist() == pytest.approx([2 * term for term in terms], abs=1e-6)


def test_a_group_of_one_gives_zero():
    one = torch.from_numpy(leave_one_out(np.array([0.7]))).float()
    data = LossInputs(torch.tensor([0, 0]), one[[0, 0]], torch.zeros(1), None, LOGP[:2] + 0.3)
    for kind in ("reinforce", "dft", "ppo_clip", "gspo", "cispo", "m2po"):
        logp = LOGP[:2].clone().requires_grad_()
        loss = token_losses(logp, data, ObjectiveConfig(kind=kind))
        loss.sum().backward()
        assert not loss.any() and not logp.grad.any(), kind


def test_nft_by_hand():
    # a group of four with one pass, p = 1/4, weight 3/4. The pass at log R 0.4: -0.3. A failure at R = 2: (1 - 0.5) / 0.75 = 2/3, floored
    # at 1: loss 0, gradient (3/4) * (p R / (1 - p)) = 0.5; at R = 1/2: -0.75 log(0.875 / 0.75), gradient 0.75 * (0.125 / 0.75) / (0.875 / 0.75)
    logp = torch.tensor([0.4, math.log(2.0), math.log(0.5), 0.0], requires_grad=True)
    data = LossInputs(torch.arange(4), torch.tensor([0.75, -0.25, -0.25, -0.25]), torch.zeros(4), None, torch.zeros(4))
    loss = token_losses(logp, data, ObjectiveConfig(kind="nft"))
    assert loss.tolist() == pytest.approx([-0.3, 0.0, -0.75 * math.log(7 / 6), 0.0], abs=1e-6)
    loss.sum().backward()
    assert logp.grad.tolist() == pytest.approx([-0.75, 0.5, 0.75 * 0.125 / 0.875, 0.25])


def test_nft_on_policy_is_a_policy_gradient():
    # at R = 1 the gradient of log pi is -(1 - p) for a pass and p for a failure: -A of ``centred``; here of two groups, one with counts
    logp = torch.zeros(5, requires_grad=True)
    groups, counts = torch.tensor([0, 0, 0, 1, 1]), torch.tensor([1.0, 1.0, 1.0, 3.0, 1.0])
    signs = torch.tensor([1.0, -1.0, -1.0, 1.0, -1.0])
    data = LossInputs(torch.arange(5), signs, torch.zeros(5), None, torch.zeros(5), group_S=groups, count_S=counts)
    token_losses(logp, data, ObjectiveConfig(kind="nft")).sum().backward()
    assert logp.grad.tolist() == pytest.approx([-2 / 3, 1 / 3, 1 / 3, -1 / 4, 3 / 4])


def test_nft_of_a_group_without_a_pass_or_without_a_failure():
    # p = 0.98: -0.02 * 0.4; p = 0.02 at R = 1/2: -0.98 log((1 - 0.01) / 0.98); an advantage of 0 is a failure, p = 1/2
    def loss(logratios, advantages):
        size = len(logratios)
        data = LossInputs(torch.arange(size), torch.tensor(advantages), torch.zeros(size), None, torch.zeros(size))
        return token_losses(torch.tensor(logratios), data, ObjectiveConfig(kind="nft")).tolist()

    assert loss([0.4, 0.4], [1.0, 1.0]) == pytest.approx([-0.008, -0.008])
    assert loss([math.log(0.5)] * 2, [-1.0, -1.0]) == pytest.approx([-0.98 * math.log(0.99 / 0.98)] * 2, abs=1e-6)
    assert loss([0.4, math.log(0.5)], [1.0, 0.0]) == pytest.approx([-0.2, -0.5 * math.log(1.5)], abs=1e-6)


def test_unlikelihood_by_hand():
    logp = torch.tensor([0.5, 0.8, 0.1, 1.0]).log()
    got = unlikelihood(logp, torch.tensor([2.0, -1.0, -3.0, -1.0]), floor=0.2)
    # 2 log 2; -log(1 - 0.8 * 0.8) = -log 0.36; below the floor: -3 log(1 - 0.8 * 0.2); at p = 1 the bound, log(1 / 0.2)
    assert got.tolist() == pytest.approx([2 * math.log(2), -math.log(0.36), -3 * math.log(0.84), math.log(5)])


def test_gradients_of_unlikelihood_are_those_of_finite_differences_and_zero_below_the_floor():
    advantages = torch.tensor([1.0, -1.0, -2.0, -1.0], dtype=torch.float64)
    logp = torch.tensor([-0.5, -0.2, -1.0, -4.0], dtype=torch.float64, requires_grad=True)
    unlikelihood(logp, advantages, floor=0.05).sum().backward()
    step = 1e-6
    up, down = (unlikelihood(logp.detach() + sign * step, advantages, floor=0.05) for sign in (1, -1))
    assert logp.grad.tolist() == pytest.approx(((up - down) / (2 * step)).tolist(), abs=1e-8)
    assert logp.grad[0] == -1 and logp.grad[3] == 0 and (logp.grad[1:3] > 0).all()
    config = ObjectiveConfig(kind="unlikelihood")
    batch = LossInputs(torch.tensor([0, 1, 2, 3]), advantages, torch.zeros(4), None, None)
    assert clipped_tokens(logp.detach(), batch, config).tolist() == [False, False, False, True]
