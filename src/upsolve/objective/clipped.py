"""Losses that weigh by pi/pi_old, and what bounds them: clips and masks. A loss a token, nothing summed.

Legend: T tokens of all attempts of a batch, one after the other; S attempts; attempt_T [T] maps a token to its attempt;
logratio_T [T] = log pi(o_t) - log pi_old(o_t); r = pi/pi_old; sg = no gradient.

pi_old is the policy that made the attempts, or the policy when this batch was first seen. All ratios are 1 at first. When
pi_old is a guess (the author's mu is unknown), ratios leave the clip within a few updates, and every token outside is without
gradient: training stops in silence. ``table.clipped_tokens`` says which they are, and the log has their share.
"""

import torch
from torch import Tensor

from upsolve.objective.ratio import mean_by_attempt

__all__ = ["cispo", "gspo", "m2po", "m2po_mask", "opsm_mask", "outside", "ppo_clip", "sequence_logratio"]


def ppo_clip(logratio_T: Tensor, advantages_T: Tensor, *, low: float, high: float) -> Tensor:
    """loss_t = -min(r A, clip(r, 1 - low, 1 + high) A) (PPO, 1707.06347; GRPO, 2402.03300; high > low: DAPO, 2503.14476)."""
    ratio_T = logratio_T.exp()
    return -torch.minimum(ratio_T * advantages_T, ratio_T.clamp(1 - low, 1 + high) * advantages_T)


def outside(logratio_T: Tensor, advantages_T: Tensor, *, low: float, high: float) -> Tensor:
    """Return bool [T]: tokens that ``ppo_clip`` leaves without gradient: r > 1 + high with A > 0, or r < 1 - low with A < 0."""
    ratio_T = logratio_T.exp()
    return ((ratio_T > 1 + high) & (advantages_T > 0)) | ((ratio_T < 1 - low) & (advantages_T < 0))


def sequence_logratio(logratio_T: Tensor, attempt_T: Tensor, attempts: int) -> Tensor:
    """Return [T]: the mean log-ratio of a token's attempt, log of (pi(o)/pi_old(o))^(1/|o|) (GSPO, 2507.18071)."""
    return mean_by_attempt(logratio_T, attempt_T, attempts)[attempt_T]


def gspo(sequence_logratio_T: Tensor, advantages_T: Tensor, *, low: float, high: float) -> Tensor:
    """loss_t = -min(s A, clip(s, 1 - low, 1 + high) A), s = (pi(o)/pi_old(o))^(1/|o|) at each token of o (GSPO, 2507.18071).

    ``ppo_clip`` on one ratio an attempt, from ``sequence_logratio``: an attempt is clipped whole or not at all. Such ratios
    stay near 1; the source clips at 3e-4 and 4e-4.
    """
    return ppo_clip(sequence_logratio_T, advantages_T, low=low, high=high)


def cispo(logp_T: Tensor, logratio_T: Tensor, advantages_T: Tensor, *, cap: float) -> Tensor:
    """loss_t = -sg(min(r, cap)) A log pi(o_t) (CISPO, 2506.13585): weights are capped, no token loses its gradient."""
    return -logratio_T.detach().exp().clamp(max=cap) * advantages_T * logp_T


def m2po_mask(logratio_T: Tensor, *, threshold: float) -> Tensor:
    """Return bool [T], tokens kept: the largest (log r)^2 go until the mean over the rest is <= threshold (M2PO, 2510.01161).

    Either sign of log r and of A may go; log r = 0 always stays. The mean is over the tokens given: a micro-batch is masked on
    its own, so that here, unlike elsewhere, many small batches are not one large one.
    """
    square_T, order_T = logratio_T.detach().square().sort()
    mean_T = square_T.cumsum(0) / torch.arange(1, square_T.numel() + 1, device=square_T.device)
    return torch.zeros_like(mean_T, dtype=torch.bool).scatter(0, order_T, mean_T <= threshold)


def m2po(logratio_T: Tensor, advantages_T: Tensor, *, threshold: float) -> Tensor:
    """loss_t = -M r A, M from ``m2po_mask`` (M2PO, 2510.01161): no clip, only the outliers of a stale batch are dropped."""
    return -logratio_T.exp() * advantages_T * m2po_mask(logratio_T, threshold=threshold)


def opsm_mask(sequence_logratio_T: Tensor, advantages_T: Tensor, *, threshold: float) -> Tensor:
    """Return bool [T], tokens kept: A >= 0, or mean log pi_old/pi over the attempt <= threshold (OPSM, 2512.02556).

    A failed attempt that the policy has already left is not pushed away any further.
    """
    return (advantages_T >= 0) | (-sequence_logratio_T.detach() <= threshold)
