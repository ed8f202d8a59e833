"""Surrogate losses: one small pure function each, a loss a token, nothing summed.

Legend: T tokens of all attempts of a batch, one after the other; S attempts; attempt_T [T] maps a token to its attempt.
A loss that belongs to a whole attempt is spread evenly over its tokens, so that the sum over tokens is the attempt's loss.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from upsolve.config import ObjectiveConfig
from upsolve.objective.ratio import sum_by_attempt

__all__ = ["OBJECTIVES", "LossInputs", "dft", "oapl", "reinforce", "soft_value", "topr"]


@dataclass(frozen=True, slots=True)
class LossInputs:
    """What a loss may read beside the policy's log-probabilities."""

    attempt_T: Tensor
    """int64 [T], the attempt of each token, 0..S-1."""
    advantages_S: Tensor
    """float32 [S]."""
    values_S: Tensor
    """float32 [S], r_i - V of the attempt's group under the objective's own V; read by ``oapl`` only."""
    reference_T: Tensor | None
    """float32 [T], log-probabilities under the frozen start; None when the objective needs none."""


def reinforce(logp_T: Tensor, advantages_T: Tensor) -> Tensor:
    """loss_t = -A log pi(o_t). Summed over an attempt: the policy gradient without a ratio (2605.28409).

    Off policy it is biased, and unbounded below for A < 0: a failed attempt can be pushed down for ever.
    """
    return -advantages_T * logp_T


def dft(logp_T: Tensor, advantages_T: Tensor) -> Tensor:
    """loss_t = -A sg(pi(o_t)) log pi(o_t) (DFT, 2508.05629): rare tokens of strangers pull less. sg = no gradient."""
    return -advantages_T * logp_T.detach().exp() * logp_T


def topr(logp_T: Tensor, advantages_T: Tensor, logratio_T: Tensor) -> Tensor:
    """loss_t = -w A log pi(o_t), w = 1 for A >= 0, else min(1, sg(pi(o) / ref(o))) over the whole attempt (TOPR, 2503.14286).

    The author's mu is unknown, so the frozen start stands in for it: what the policy has already dropped is not pushed on.

    Args:
        logp_T: [T] with gradient.
        advantages_T: [T], the attempt's advantage at each token.
        logratio_T: [T], the attempt's log pi(o)/ref(o), summed over its tokens, at each token.
    """
    weight = torch.where(advantages_T >= 0, torch.ones_like(logp_T), logratio_T.detach().clamp(max=0).exp())
    return -weight * advantages_T * logp_T


def soft_value(rewards_G: Tensor, *, beta: float) -> Tensor:
    """V = beta log mean exp(r / beta) over a group (OAPL, 2602.19362): between the mean and the best reward."""
    return beta * (torch.logsumexp(rewards_G / beta, 0) - math.log(rewards_G.numel()))


def oapl(logratio_S: Tensor, values_S: Tensor, *, beta: float) -> Tensor:
    """loss_s = (beta log pi(o)/ref(o) - (r - V))^2 (OAPL, 2602.19362): a regression, bounded below, no ratio needed."""
    return (beta * logratio_S - values_S).square()


def reinforce_tokens(logp_T: Tensor, inputs: LossInputs, _config: ObjectiveConfig) -> Tensor:
    """Adapt ``reinforce`` to a batch."""
    return reinforce(logp_T, inputs.advantages_S[inputs.attempt_T])


def dft_tokens(logp_T: Tensor, inputs: LossInputs, _config: ObjectiveConfig) -> Tensor:
    """Adapt ``dft`` to a batch."""
    return dft(logp_T, inputs.advantages_S[inputs.attempt_T])


def logratio_of_attempts(logp_T: Tensor, inputs: LossInputs) -> Tensor:
    """Return [S]: log pi(o)/ref(o) of each attempt; ValueError without reference log-probabilities."""
    if inputs.reference_T is None:
        raise ValueError("this objective reads the reference log-probabilities, and the batch has none")
    return sum_by_attempt(logp_T - inputs.reference_T, inputs.attempt_T, inputs.advantages_S.numel())


def topr_tokens(logp_T: Tensor, inputs: LossInputs, _config: ObjectiveConfig) -> Tensor:
    """Adapt ``topr`` to a batch."""
    logratio_S = logratio_of_attempts(logp_T.detach(), inputs)
    return topr(logp_T, inputs.advantages_S[inputs.attempt_T], logratio_S[inputs.attempt_T])


def oapl_tokens(logp_T: Tensor, inputs: LossInputs, config: ObjectiveConfig) -> Tensor:
    """Adapt ``oapl`` to a batch."""
    loss_S = oapl(logratio_of_attempts(logp_T, inputs), inputs.values_S, beta=config.beta_policy)
    length_S = sum_by_attempt(torch.ones_like(logp_T), inputs.attempt_T, loss_S.numel())
    return (loss_S / length_S.clamp(min=1)).index_select(0, inputs.attempt_T)


OBJECTIVES: Mapping[str, Callable[[Tensor, LossInputs, ObjectiveConfig], Tensor]] = {
    "dft": dft_tokens,
    "oapl": oapl_tokens,
    "reinforce": reinforce_tokens,
    "topr": topr_tokens,
}
"""A recipe's name -> log-probabilities [T] to losses [T]."""
