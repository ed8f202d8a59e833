import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from upsolve.config import ObjectiveConfig
from upsolve.objective.clipped import LossInputs
from upsolve.objective.losses import batch_kl, dpo, kto, rank, token_losses, weighted_sum
from upsolve.objective.ratio import sequence_sum


def test_dpo_by_hand():
    # beta 0.5, margins 2 and 0: log(1 + e^-1) = 0.3132617, log 2 = 0.6931472
    chosen, rejected = torch.tensor([1.0, 3.0]), torch.tensor([-1.0, 3.0])
    assert dpo(chosen, rejected, beta=0.5).tolist() == pytest.approx([0.3132617, 0.6931472])
    # one label in ten wrong: 0.9 * 0.3132617 + 0.1 * 1.3132617
    assert dpo(chosen, rejected, beta=0.5, label_smoothing=0.1).tolist() == pytest.approx([0.4132617, 0.6931472])


def test_dpo_pulls_hardest_where_the_order_is_wrong():
    chosen = torch.tensor([-2.0, 0.0, 2.0], requires_grad=True)
    dpo(chosen, torch.zeros(3), beta=1.0).sum().backward()
    # -sigma(-margin): -0.8807971, -0.5, -0.1192029
    assert chosen.grad.tolist() == pytest.approx([-0.8807971, -0.5, -0.1192029])


def test_focal_dpo_sees_the_weighted_tokens_only():
    logratio = torch.tensor([0.5, -1.0, 2.0, 4.0], requires_grad=True)
    sums = weighted_sum(logratio, torch.tensor([0.0, 1.0, 1.0, 0.5]), torch.tensor([0, 0, 1, 1]), 2)
    assert sums.tolist() == [-1.0, 4.0]
    dpo(sums[:1], sums[1:], beta=1.0).sum().backward()
    # margin -5: -sigma(5) = -0.9933071 on the chosen, its opposite on the rejected, times the weights
    assert logratio.grad.tolist() == pytest.approx([0.0, -0.9933071, 0.9933071, 0.4966536])


def test_kto_by_hand():
    logratio, desirable = torch.tensor([2.0, -1.0, 0.0]), torch.tensor([True, False, True])
    kl = batch_kl(logratio)
    assert float(kl) == pytest.approx(1 / 3)
    # beta 1: sigma(-(2 - 1/3)) = 0.1588691; sigma(-(1/3 + 1)) = 0.2086086; sigma(1/3) = 0.5825702
    assert kto(logratio, desirable, kl, beta=1.0).tolist() == pytest.approx([0.1588691, 0.2086086, 0.5825702])
    # beta is 0.1: sigma(-(2 - 1/3) / 10), sigma(-(1/3 + 1) / 10), sigma(1/30)
    assert kto(logratio, desirable, kl).tolist() == pytest.approx([0.4584295, 0.4667159, 0.5083326])
    halved = kto(logratio, desirable, kl, beta=1.0, weights=(1.0, 0.5))
    assert halved.tolist() == pytest.approx([0.1588691, 0.1043043, 0.5825702])


def test_the_reference_point_is_never_negative_and_has_no_gradient():
    logratio = torch.tensor([-2.0, 1.0], requires_grad=True)
    assert float(batch_kl(logratio)) == 0.0 and not batch_kl(logratio).requires_grad
    assert float(batch_kl(logratio, torch.tensor([1.0, 6.0]))) == pytest.approx(4 / 7)


def test_rank_by_hand():
    # scores 1, 0, 2 with rewards 3, 2, 1: -log(e/(e + 1 + e^2)) - log(1/(1 + e^2)) - log 1 = 1.4076060 + 2.1269280
    assert float(rank(torch.tensor([1.0, 0.0, 2.0]), torch.tensor([3.0, 2.0, 1.0]), beta=1.0)) == pytest.approx(3.5345340)
    # equal rewards are not compared: each of the two good ones against the bad one, log(1 + e^-1) + log(1 + e^-2)
    tied = rank(torch.tensor([1.0, 2.0, 0.0]), torch.tensor([1.0, 1.0, 0.0]), beta=1.0)
    assert float(tied) == pytest.approx(math.log1p(math.exp(-1)) + math.log1p(math.exp(-2)))


@given(st.floats(-5, 5), st.floats(-5, 5))
def test_rank_of_two_is_dpo(good, bad):
    scores = torch.tensor([good, bad], dtype=torch.float64)
    assert float(rank(scores, torch.tensor([1.0, 0.0]))) == pytest.approx(float(dpo(scores[:1], scores[1:])[0]), abs=1e-6)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=6))
def test_rank_of_equal_rewards_is_zero(scores):
    logratio = torch.tensor(scores, requires_grad=True)
    loss = rank(logratio, torch.ones(len(scores)))
    loss.backward()
    assert float(loss.detach()) == pytest.approx(0, abs=1e-6) and logratio.grad.abs().max() < 1e-6


def batch(advantages_T, attempt_T, values=None, group=None):
    """Log-probabilities with a gradient, and what a loss reads of attempts under a reference of -1 a token."""
    logp = torch.tensor([-0.5, -1.5, -1.0, -2.0, -0.25], requires_grad=True)
    attempts = max(attempt_T) + 1
    return logp, LossInputs(
        torch.tensor(attempt_T),
        torch.tensor(advantages_T),
        torch.zeros(attempts) if values is None else torch.tensor(values),
        torch.full((5,), -1.0),
        None,
        None if group is None else torch.tensor(group),
    )


def mean_over_attempts(kind, logp, inputs, **preference):
    config = ObjectiveConfig.model_validate({"kind": kind, "preference": {"beta": 1.0, **preference}})
    loss_T = token_losses(logp, inputs, config)
    return sequence_sum(loss_T, inputs.attempt_T, attempts=inputs.attempts, tokens=5)


def test_dpo_of_a_batch_is_the_mean_over_its_pairs():
    # two pairs, the second with the rejected first; log-ratios by token 0.5 -0.5 | 0 || -1 | 0.75: margins 0 - 0 and 0.75 + 1
    logp, inputs = batch([1.0, 1.0, -1.0, -1.0, 1.0], [0, 0, 1, 2, 3])
    assert mean_over_attempts("dpo", logp, inputs).item() == pytest.approx((math.log(2) + math.log1p(math.exp(-1.75))) / 2)
    # half of the first token of the first pair counts: margin 0.25 - 0.5
    logp, inputs = batch([0.5, 1.0, -1.0, -1.0, 1.0], [0, 0, 1, 2, 3])
    wanted = (math.log1p(math.exp(0.25)) + math.log1p(math.exp(-1.75))) / 2
    assert mean_over_attempts("dpo", logp, inputs).item() == pytest.approx(wanted)
    # one label in four wrong: margins 0 and 1.75, -1.75 for those
    logp, inputs = batch([1.0, 1.0, -1.0, -1.0, 1.0], [0, 0, 1, 2, 3])
    wanted = (math.log(2) + 0.75 * math.log1p(math.exp(-1.75)) + 0.25 * math.log1p(math.exp(1.75))) / 2
    assert mean_over_attempts("dpo", logp, inputs, label_smoothing=0.25).item() == pytest.approx(wanted)


def test_dpo_of_pairs_in_which_one_side_weighs_nothing():
    """Focal weights of an attempt that is the other one without some lines are all 0."""
    # log-ratios by token 0.5 | -0.5 0 || -1 | 0.75: margins 0 + 0.5 of a chosen one, and 0.3 * 0.75 - 0 against a rejected one, without weight
    logp, inputs = batch([0.0, -1.0, -1.0, 0.0, 0.3], [0, 1, 1, 2, 3])
    loss = mean_over_attempts("dpo", logp, inputs)
    assert loss.item() == pytest.approx((math.log1p(math.exp(-0.5)) + math.log1p(math.exp(-0.225))) / 2)
    loss.backward()
    # (1 - sigma(margin)) times the weights, over two pairs
    pull = 1 / (1 + math.exp(0.5)) / 2
    assert logp.grad.tolist() == pytest.approx([0.0, pull, pull, 0.0, -0.3 / (1 + math.exp(0.225)) / 2])


def test_kto_of_a_batch_takes_signs_and_its_own_mean():
    # log-ratios of attempts 0, 0, -0.25; z = max(0, -0.083) = 0; two desirable: sigma(0) twice, one not: sigma(-0.25), weighed 2
    logp, inputs = batch([1.0, 1.0, 1.0, 0.0, 0.0], [0, 0, 1, 2, 2])
    wanted = (0.5 + 0.5 + 2 / (1 + math.exp(0.25))) / 3
    assert mean_over_attempts("kto", logp, inputs, undesirable=2.0).item() == pytest.approx(wanted)


def test_kto_of_a_batch_counts_equal_attempts():
    # log-ratios 0.5, -0.5, 0, -1, 0.75, the last of which occurs 5 times: z = (-1 + 3.75) / 9
    logp, inputs = batch([1.0] * 5, [0, 1, 2, 3, 4])
    inputs, z = replace(inputs, count_S=torch.tensor([1.0, 1.0, 1.0, 1.0, 5.0])), 2.75 / 9
    config = ObjectiveConfig.model_validate({"kind": "kto", "preference": {"beta": 1.0}})
    wanted = [1 / (1 + math.exp(x - z)) for x in (0.5, -0.5, 0, -1, 0.75)]
    assert token_losses(logp, inputs, config).tolist() == pytest.approx(wanted)
    assert config.record.loss(logp, inputs, config).tolist() == pytest.approx(wanted), "a batch is its step"


@pytest.mark.parametrize("counts", [(3, 1, 1), (1, 2, 4)])
def test_rank_counts_equal_attempts_as_often_as_they_occur(counts):
    """Loss and gradient of merged attempts, weighed as the training step does, are those of all attempts one by one."""

    def step(indices, count):
        logp = torch.tensor([0.7, -0.3, 0.2])[indices].requires_grad_()
        rewards, size = torch.tensor([1.0, 0.0, 0.5])[indices], len(indices)
        inputs = LossInputs(torch.arange(size), torch.ones(size), rewards, torch.zeros(size), None, count_S=count)
        config = ObjectiveConfig.model_validate({"kind": "rank", "preference": {"beta": 1.0}})
        loss = (token_losses(logp, inputs, config) * inputs.counts_S).sum() / sum(counts)
        loss.backward()
        return [loss.item(), *torch.zeros(3).index_add(0, torch.tensor(indices), logp.grad).tolist()]

    every = [index for index, count in enumerate(counts) for _ in range(count)]
    assert step([0, 1, 2], torch.tensor(counts).float()) == pytest.approx(step(every, None), abs=1e-6)


def test_rank_of_a_batch_is_group_by_group():
    # groups of two and two: each is dpo, whatever the order; the same by two calls
    logp, inputs = batch([0.0] * 5, [0, 0, 1, 2, 3], values=[0.5, -0.5, -1.0, 1.0], group=[0, 0, 1, 1])
    loss = mean_over_attempts("rank", logp, inputs)
    assert loss.item() == pytest.approx((math.log(2) + math.log1p(math.exp(-1.75))) / 4)
    loss.backward()
    one, inputs = batch([0.0] * 5, [0, 0, 1, 1, 1], values=[0.5, -0.5])
    # one group: log-ratios 0 and -0.25, a margin of 0.25, divided between two attempts
    assert mean_over_attempts("rank", one, inputs).item() == pytest.approx(math.log1p(math.exp(-0.25)) / 2)
    ranked = logp.grad.clone()
    pairs, inputs = batch([1.0, 1.0, -1.0, -1.0, 1.0], [0, 0, 1, 2, 3])
    (mean_over_attempts("dpo", pairs, inputs) / 2).backward()
    assert ranked.tolist() == pytest.approx(pairs.grad.tolist())
