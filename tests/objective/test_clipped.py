import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from upsolve.config import ObjectiveConfig
from upsolve.objective.clipped import (
    LossInputs,
    cispo,
    m2po,
    m2po_bound,
    m2po_mask,
    opsm_mask,
    outside,
    ppo_clip,
    sequence_logratio,
)
from upsolve.objective.losses import clipped_tokens, token_losses

RATIOS = torch.tensor([2.0, 2.0, 0.5, 0.5, 1.1])
SIGNS = torch.tensor([1.0, -1.0, 1.0, -1.0, -3.0])
ATTEMPT = torch.tensor([0, 0, 0, 1, 1])


def batch(logratio, advantages, attempt=ATTEMPT):
    """Log-probabilities with gradient, and a batch whose old policy lies the log-ratio away."""
    logp = torch.linspace(-2, -1, len(attempt)).requires_grad_()
    return logp, LossInputs(
        attempt, torch.as_tensor(advantages), torch.zeros(int(attempt.max()) + 1), None, logp.detach() - logratio
    )


def config_of(kind, **clip):
    return ObjectiveConfig.model_validate({"kind": kind, "clip": clip})


def test_ppo_clips_only_what_goes_on_moving_away():
    # up at 2: clipped to 1.3; down at 2: in full, it pulls back; up at 0.5: in full; down at 0.5: clipped to 0.8; 1.1: inside
    loss = ppo_clip(RATIOS.log(), SIGNS, low=0.2, high=0.3)
    assert loss.tolist() == pytest.approx([-1.3, 2.0, -0.5, 0.8, 3.3])
    assert outside(RATIOS.log(), SIGNS, low=0.2, high=0.3).tolist() == [True, False, False, True, False]
    assert not outside(torch.zeros(2), torch.tensor([1.0, -1.0]), low=0.0, high=0.0).any(), "the bounds are inside"
    assert not outside(torch.tensor([1.0, -1.0]), torch.zeros(2), low=0.2, high=0.3).any()


def test_what_is_outside_is_without_gradient_and_nothing_else():
    logratio = RATIOS.log().requires_grad_()
    ppo_clip(logratio, SIGNS, low=0.2, high=0.3).sum().backward()
    assert (logratio.grad == 0).tolist() == outside(RATIOS.log(), SIGNS, low=0.2, high=0.3).tolist()


def test_gspo_has_one_ratio_an_attempt():
    # mean log-ratio of 0: log(2 * 2 / 2) / 3 = 0.2310491, ratio 1.2599210; of 1: log(0.5 * 1.1) / 2, ratio 0.7416198
    assert sequence_logratio(RATIOS.log(), ATTEMPT, 2).exp().tolist() == pytest.approx([1.2599210] * 3 + [0.7416198] * 2)
    advantages = [1.0, 1.0, 1.0, -1.0, -1.0]
    logp, data = batch(RATIOS.log(), advantages)
    loss = token_losses(logp, data, config_of("gspo", low=0.1, high=0.5))
    assert loss.tolist() == pytest.approx([-1.2599210] * 3 + [0.9] * 2)
    assert clipped_tokens(logp, data, config_of("gspo", low=0.1, high=0.5)).tolist() == [False] * 3 + [True] * 2


def test_cispo_caps_weights_and_keeps_every_gradient():
    logp = torch.full((5,), -2.0).requires_grad_()
    loss = cispo(logp, RATIOS.log(), SIGNS, cap=1.5)
    # weights 1.5, 1.5, 0.5, 0.5, 1.1
    assert loss.tolist() == pytest.approx([3.0, -3.0, 1.0, -1.0, -6.6])
    loss.sum().backward()
    assert logp.grad.tolist() == pytest.approx([-1.5, 1.5, -0.5, 0.5, 3.3])


def test_m2po_drops_the_outliers_until_the_second_moment_fits():
    logratio = torch.tensor([0.1, -0.5, 0.0, 0.2])
    # squares 0.01, 0.25, 0, 0.04: all average 0.075; without the largest 0.0166667; of the two least 0.005
    for threshold, kept in ((0.08, [True] * 4), (0.02, [True, False, True, True]), (0.01, [True, False, True, False])):
        assert m2po_mask(logratio, m2po_bound(logratio, threshold=threshold)).tolist() == kept
    assert m2po_mask(logratio, m2po_bound(logratio, threshold=0.0)).tolist() == [False, False, True, False]
    assert m2po_bound(logratio[:2], threshold=0.001) == -1, "nothing is kept"
    # 0.1 occurs 24 times: (24 * 0.01 + 0.04) / 26 = 0.0107692, with 0.25 once 0.0196296; once each 0.0166667 and 0.075
    for threshold, kept in ((0.02, [True] * 4), (0.011, [True, False, True, True])):
        bound = m2po_bound(logratio, threshold=threshold, count_T=torch.tensor([24.0, 1.0, 1.0, 1.0]))
        assert m2po_mask(logratio, bound).tolist() == kept
    assert m2po_mask(torch.tensor([0.5, 0.6]), torch.tensor(0.25)).tolist() == [True, False]
    loss = m2po(logratio, torch.tensor([1.0, 1.0, 2.0, -1.0]), m2po_bound(logratio, threshold=0.02))
    assert loss.tolist() == pytest.approx([-math.exp(0.1), 0.0, -2.0, math.exp(0.2)])


def test_opsm_drops_failed_attempts_that_were_left():
    # mean log pi_old/pi: 0.3 and 0.1; only a negative advantage above the threshold goes
    logratio = sequence_logratio(torch.tensor([-0.2, -0.4, -0.3, -0.1, -0.1]), ATTEMPT, 2)
    assert opsm_mask(logratio, torch.tensor([-1.0] * 5), threshold=0.2).tolist() == [False] * 3 + [True] * 2
    assert opsm_mask(logratio, torch.tensor([1.0] * 3 + [-1.0] * 2), threshold=0.05).tolist() == [True] * 3 + [False] * 2
    assert opsm_mask(logratio, torch.tensor([0.0] * 3 + [0.5] * 2), threshold=0.05).all()
    assert opsm_mask(torch.tensor([-0.25]), torch.tensor([-1.0]), threshold=0.25).all()


def test_opsm_masks_any_objective_and_says_so():
    logp, data = batch(torch.tensor([-0.2, -0.4, -0.3, -0.1, -0.1]), [-1.0] * 5)
    config = config_of("reinforce", sequence_kl=0.2)
    assert config.needs_old
    assert token_losses(logp, data, config).tolist() == [0.0, 0.0, 0.0, *logp[3:].tolist()]
    assert clipped_tokens(logp, data, config).tolist() == [True, True, True, False, False]


def test_what_each_bound_touches():
    logp, data = batch(RATIOS.log(), SIGNS)
    touched = {
        "ppo_clip": [True, False, False, True, False],  # up at 2, down at 0.5
        "cispo": [True, True, False, False, False],  # above 1.5, either way
        "m2po": [True, True, True, True, False],  # squares 0.48, 0.48, 0.48, 0.48, 0.009
        "reinforce": [False] * 5,
    }
    for kind, expected in touched.items():
        assert clipped_tokens(logp, data, config_of(kind, cap=1.5, second_moment=0.1)).tolist() == expected, kind
    logp, data = batch(torch.zeros(5), SIGNS)
    assert not clipped_tokens(logp, data, config_of("cispo", cap=1.0)).any()


def test_a_guessed_old_policy_leaves_nothing_to_learn():
    # the first policy stands in for an unknown author: a few updates on, all that is pushed has left the clip
    logp = torch.tensor([-1.0, -1.0, -1.0, -1.0], requires_grad=True)
    data = LossInputs(torch.arange(4), torch.tensor([1.0, 1.0, -1.0, -1.0]), torch.zeros(4), None, logp.detach().clone())
    config, shares, lengths = config_of("ppo_clip"), [], []
    for _ in range(4):
        shares.append(float(clipped_tokens(logp, data, config).float().mean()))
        (gradient,) = torch.autograd.grad(token_losses(logp, data, config).sum(), logp)
        lengths.append(float(gradient.abs().sum()))
        logp = (logp - 0.1 * gradient).detach().requires_grad_()
    # ratios after a step: e^0.1 = 1.105, e^-0.1 = 0.905; after two: e^0.2105 = 1.234, e^-0.1905 = 0.827; then one more down
    assert shares == [0.0, 0.0, 0.5, 1.0]
    assert lengths[0] == 4.0 and lengths[-1] == 0.0


@pytest.mark.parametrize("kind", ["ppo_clip", "gspo", "cispo", "m2po"])
def test_the_old_policy_must_be_known(kind):
    data = LossInputs(ATTEMPT, SIGNS, torch.zeros(2), None, None)
    assert config_of(kind).needs_old and not config_of("topr").needs_old
    for function in (token_losses, clipped_tokens):
        with pytest.raises(ValueError, match="old policy"):
            function(SIGNS, data, config_of(kind))


def test_huge_log_ratios_give_finite_losses_and_gradients():
    advantages = [0.0, 1.0, -1.0, 0.0, 1.0]
    for kind in ("ppo_clip", "gspo", "cispo", "m2po"):
        for far in (1000.0, -1000.0):
            logp, data = batch(torch.full((5,), far), advantages)
            loss = token_losses(logp, data, config_of(kind, second_moment=0.0))
            loss.sum().backward()
            assert loss.isfinite().all() and logp.grad.isfinite().all(), (kind, far)
    # at the limit of 20 nats: A = 0 gives 0, and -A e^20 is not clipped where A < 0
    assert ppo_clip(torch.tensor([100.0, 100.0]), torch.tensor([0.0, -1.0]), low=0.2, high=0.2).tolist() == pytest.approx(
        [0.0, 485165195.4], rel=1e-6
    )


batches = st.lists(st.floats(-3, 3), min_size=5, max_size=5)


@given(batches)
def test_on_policy_all_have_the_gradient_of_reinforce(advantages):
    given_per_attempt = torch.tensor([advantages[0]] * 3 + [advantages[1]] * 2)
    gradients = {}
    for kind in ("reinforce", "ppo_clip", "gspo", "cispo", "m2po"):
        logp, data = batch(torch.zeros(5), given_per_attempt)
        token_losses(logp, data, config_of(kind)).sum().backward()
        gradients[kind] = logp.grad
    for kind, gradient in gradients.items():
        assert torch.allclose(gradient, gradients["reinforce"], atol=1e-6), kind


@given(batches)
def test_on_policy_gspo_is_grpo(advantages):
    per_attempt = torch.tensor([advantages[0]] * 3 + [advantages[1]] * 2)
    logp, data = batch(torch.zeros(5), per_attempt)
    assert torch.equal(token_losses(logp, data, config_of("gspo")), token_losses(logp, data, config_of("ppo_clip")))


@given(batches, st.permutations(range(5)))
def test_the_order_of_tokens_does_not_matter(logratios, order):
    logp, data = batch(torch.tensor(logratios), SIGNS)
    mixed = LossInputs(data.attempt_T[order], data.advantages_T[order], data.values_S, None, data.old_T[order])
    for kind in ("ppo_clip", "gspo", "cispo"):
        loss = token_losses(logp, data, config_of(kind, sequence_kl=0.1))
        assert torch.allclose(token_losses(logp[order], mixed, config_of(kind, sequence_kl=0.1)), loss[order], atol=1e-6)


def test_m2po_treats_tokens_that_differ_by_rounding_alike():
    """Attempts with a common beginning have equal tokens; some kernels compute them in one batch, others one by one."""
    equal, rounded = torch.tensor([0.1, 0.3, 0.3, 0.3]), torch.tensor([0.1, 0.3, 0.3 - 1e-7, 0.3 + 1e-7])
    for threshold, kept in ((0.04, [True, False, False, False]), (0.08, [True] * 4)):
        for logratio in (equal, rounded):
            assert m2po_mask(logratio, m2po_bound(logratio, threshold=threshold)).tolist() == kept
    assert m2po_mask(torch.tensor([0.0, 1e-6, 0.5]), m2po_bound(torch.tensor([0.0, 1e-6, 0.5]), threshold=0.0)).tolist() == [
        *(True, True, False)
    ]
    # the bound lies half of 1e-5 above the last that is kept; with a mean of 0.0001 that is the threshold, 0.01 is kept
    assert float(m2po_bound(torch.tensor([0.01, 0.5]), threshold=1e-4)) == pytest.approx(0.010005**2, rel=1e-6)
    assert m2po_bound(torch.tensor([0.01, 0.5]), threshold=0.9e-4) == -1, (
        "1e-5 is the rounding of a log-ratio, not of its square"
    )


@pytest.mark.parametrize("function", ["loss", "touched"])
def test_m2po_of_a_batch_that_is_the_whole_step_bounds_itself(function):
    # squares 0.01, 0.25, 0, 0.04, 0.04, the first in an attempt that occurs twice: without 0.25 (2 * 0.01 + 0.08) / 5 = 0.02
    logp, data = batch(torch.tensor([0.1, -0.5, 0.0, 0.2, -0.2]), [1.0] * 5, torch.tensor([0, 1, 2, 3, 3]))
    data = replace(data, count_S=torch.tensor([2.0, 1.0, 1.0, 1.0]))
    for threshold, kept in ((0.0201, [True, False, True, True, True]), (0.0199, [True, False, True, False, False])):
        config = config_of("m2po", second_moment=threshold)
        found = getattr(config.record, function)(logp, data, config)
        assert ((found != 0) if function == "loss" else ~found).tolist() == kept
    # the bound of a step of several batches is given
    found = getattr(config.record, function)(logp, replace(data, statistic=torch.tensor(0.005)), config)
    assert ((found != 0) if function == "loss" else ~found).tolist() == [False, False, True, False, False]
