"""Losses without a clipped ratio: pure functions that return one loss per token or attempt, not summed over the batch.

Legend: T tokens of all attempts of a batch, one after the other; S attempts.
"""

import torch
from torch import Tensor

from upsolve.objective.ratio import bounded

__all__ = ["dft", "dro", "nft", "oapl", "reinforce", "topr"]


def reinforce(logp_T: Tensor, advantages_T: Tensor) -> Tensor:
    """loss_t = -A log pi(o_t). Summed over an attempt: the policy gradient without a ratio (2605.28409).

    Off policy it is biased, and for A < 0 unbounded below: the log-probability of a failed attempt can fall without end.
    """
    return -advantages_T * logp_T


def dft(logp_T: Tensor, advantages_T: Tensor) -> Tensor:
    """loss_t = -A sg(pi(o_t)) log pi(o_t) (DFT, 2508.05629); sg = stop gradient: unlikely tokens get small gradients."""
    return -advantages_T * logp_T.detach().exp() * logp_T


def topr(logp_T: Tensor, advantages_T: Tensor, logratio_T: Tensor) -> Tensor:
    """loss_t = -w A log pi(o_t), w = 1 for A >= 0, else min(1, sg(pi(o) / ref(o))) over the whole attempt (TOPR, 2503.14286).

    The reference stands in for the unknown policy mu that wrote the attempt: a failed attempt that the policy already avoids has a
    small weight.

    Args:
        logp_T: [T] with gradient.
        advantages_T: [T], the attempt's advantage at each token.
        logratio_T: [T], the attempt's log pi(o)/ref(o), summed over its tokens, at each token.
    """
    weight = torch.where(advantages_T >= 0, torch.ones_like(logp_T), logratio_T.detach().clamp(max=0).exp())
    return -weight * advantages_T * logp_T


def oapl(logratio_S: Tensor, values_S: Tensor, *, beta: float) -> Tensor:
    """loss_s = (beta log pi(o)/ref(o) - (r - V))^2 (OAPL, 2602.19362): a regression, bounded below."""
    return (beta * logratio_S - values_S).square()


def dro(logp_S: Tensor, advantages_S: Tensor, logratio_S: Tensor, *, beta: float) -> Tensor:
    """loss_s = -A log pi(o) + beta / 2 (log pi(o)/ref(o))^2 (DRO, 2405.19107).

    REINFORCE with a quadratic penalty towards the reference: bounded below, minimal where log pi/ref = A / beta. The paper learns a
    value function as the baseline of A; here A comes from the group.
    """
    return -advantages_S * logp_S + beta / 2 * logratio_S.square()


def nft(logratio_T: Tensor, passed_T: Tensor, rate_T: Tensor, *, floor: float) -> Tensor:
    """loss_t = -(1 - p) log R_t if the attempt passed, else -(1 - p) log max(floor, (1 - p R_t) / (1 - p)) (NFT, 2505.18116).

    R = pi/pi_old. A failed attempt is treated as a sample of the negative policy (pi_old - p pi) / (1 - p), whose likelihood is maximised;
    its gradient fades as R falls. ``floor`` bounds the value but not the gradient, which below the floor is that of the fraction / floor.

    Args:
        logratio_T: [T], log pi/pi_old, with gradient.
        passed_T: bool [T].
        rate_T: [T], p: share of the group's attempts that passed; clamped to [0.02, 0.98].
        floor: > 0; 1 in the authors' runs.
    """
    limited_T, rate_T = bounded(logratio_T), rate_T.clamp(0.02, 0.98)
    negative_T = (1 - rate_T * limited_T.exp()) / (1 - rate_T)
    negative_T = negative_T + (negative_T.clamp(min=floor) - negative_T).detach()
    return -(1 - rate_T) * torch.where(passed_T, limited_T, negative_T.log())
