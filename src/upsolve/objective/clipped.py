"""The inputs of a loss; losses weighted by the ratio pi/pi_old, with the clips and masks that bound them. One loss per token.

Legend: T tokens of all attempts of a batch, one after the other; S attempts; attempt_T [T] maps a token to its attempt;
logratio_T [T] = log pi(o_t) - log pi_old(o_t); r = pi/pi_old; sg = stop gradient. Log-ratios are ``bounded`` before exp.

pi_old is the policy that sampled the attempts or, where that is unknown, the policy before its first step on them (then all ratios start
at 1). If pi_old did not write the attempts, ratios leave the clip within a few updates, and tokens outside the clip have no gradient:
training stalls, and the loss does not show it. ``losses.clipped_tokens`` returns these tokens; their share is logged as ``clipped``.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from upsolve.objective.ratio import bounded, mean_by_attempt, sum_by_attempt, unknown_as_equal

__all__ = [
    "LossInputs",
    "cispo",
    "clipped_value_loss",
    "gspo",
    "m2po",
    "m2po_bound",
    "m2po_mask",
    "opsm_mask",
    "outside",
    "ppo_clip",
    "sequence_logratio",
]

ROUNDING = 1e-5
"""Difference of two |log r|, nats, that rounding in float32 may cause between equal tokens of attempts with a common beginning."""


def ppo_clip(logratio_T: Tensor, advantages_T: Tensor, *, low: float, high: float) -> Tensor:
    """loss_t = -min(r A, clip(r, 1 - low, 1 + high) A) (PPO, 1707.06347; GRPO, 2402.03300; high > low: DAPO, 2503.14476)."""
    ratio_T = bounded(logratio_T).exp()
    return -torch.minimum(ratio_T * advantages_T, ratio_T.clamp(1 - low, 1 + high) * advantages_T)


def outside(logratio_T: Tensor, advantages_T: Tensor, *, low: float, high: float) -> Tensor:
    """Return bool [T]: tokens for which ``ppo_clip`` has no gradient: r > 1 + high with A > 0, or r < 1 - low with A < 0."""
    ratio_T = bounded(logratio_T).exp()
    return ((ratio_T > 1 + high) & (advantages_T > 0)) | ((ratio_T < 1 - low) & (advantages_T < 0))


def sequence_logratio(logratio_T: Tensor, attempt_T: Tensor, attempts: int) -> Tensor:
    """Return [T]: the mean log-ratio of a token's attempt, log of (pi(o)/pi_old(o))^(1/|o|) (GSPO, 2507.18071)."""
    return mean_by_attempt(logratio_T, attempt_T, attempts)[attempt_T]


def gspo(sequence_logratio_T: Tensor, advantages_T: Tensor, *, low: float, high: float) -> Tensor:
    """loss_t = -min(s A, clip(s, 1 - low, 1 + high) A), s = (pi(o)/pi_old(o))^(1/|o|) at each token of o (GSPO, 2507.18071).

    ``ppo_clip`` with one ratio per attempt, from ``sequence_logratio``: all tokens of an attempt are clipped or none. These ratios
    stay near 1; the paper clips with low = 3e-4 and high = 4e-4.
    """
    return ppo_clip(sequence_logratio_T, advantages_T, low=low, high=high)


def cispo(logp_T: Tensor, logratio_T: Tensor, advantages_T: Tensor, *, cap: float) -> Tensor:
    """loss_t = -sg(min(r, cap)) A log pi(o_t) (CISPO, 2506.13585): weights are capped, and every token keeps its gradient."""
    return -bounded(logratio_T.detach()).exp().clamp(max=cap) * advantages_T * logp_T


def m2po_bound(logratio_T: Tensor, *, threshold: float, count_T: Tensor | None = None) -> Tensor:
    """Return the largest (log r)^2 such that tokens up to it have a mean (log r)^2 <= threshold (M2PO, 2510.01161), or
    -1.

    Values of |log r| within ``ROUNDING`` of each other are kept or masked together, so that the bound does not depend on how
    logits are computed. Tokens with log r = 0 are never masked. A token counts ``count_T`` times; None: once.
    """
    size_T, order_T = logratio_T.detach().double().abs().sort()
    count_T = torch.ones_like(size_T) if count_T is None else count_T[order_T]
    mean_T = (size_T.square() * count_T).cumsum(0) / count_T.cumsum(0)
    last_T = torch.searchsorted(size_T, size_T + ROUNDING, right=True) - 1
    unmasked_T = last_T[mean_T[last_T] <= threshold + ROUNDING**2]
    return (size_T[unmasked_T[-1]] + ROUNDING / 2).square() if len(unmasked_T) else size_T.new_tensor(-1.0)


def m2po_mask(logratio_T: Tensor, bound: Tensor) -> Tensor:
    """Return bool [T], kept tokens: (log r)^2 <= bound, for either sign of log r and of A (M2PO, 2510.01161)."""
    return logratio_T.detach().double().square() <= bound


def m2po(logratio_T: Tensor, advantages_T: Tensor, bound: Tensor) -> Tensor:
    """loss_t = -M r A, M from ``m2po_mask`` (M2PO, 2510.01161): no clip; only the outliers of an off-policy batch are masked."""
    return -bounded(logratio_T).exp() * advantages_T * m2po_mask(logratio_T, bound)


def opsm_mask(sequence_logratio_T: Tensor, advantages_T: Tensor, *, threshold: float) -> Tensor:
    """Return bool [T], kept tokens: A >= 0, or mean log pi_old/pi over the attempt <= threshold (OPSM, 2512.02556).

    A failed attempt whose likelihood has already fallen is not pushed down further.
    """
    return (advantages_T >= 0) | (-sequence_logratio_T.detach() <= threshold)


def clipped_value_loss(values_T: Tensor, old_values_T: Tensor, returns_T: Tensor, *, clip: float) -> Tensor:
    """loss_t = max((V - R)^2, (clip(V, V_old - clip, V_old + clip) - R)^2) / 2 (the value clipping of PPO, 2005.12729).

    A value that has moved by more than ``clip`` (> 0, in units of the return R: 0.2 is usual, 2605.21180 uses 0.3) towards its return has no gradient
    until the next batch. V_old are the values at the start of the round, R the regression targets of ``advantage.gae``.
    """
    near_T = torch.clamp(values_T, old_values_T - clip, old_values_T + clip)
    return torch.maximum((values_T - returns_T).square(), (near_T - returns_T).square()) / 2


@dataclass(frozen=True, slots=True)
class LossInputs:
    """Inputs of a loss over one micro-batch, besides the log-probabilities of the policy."""

    attempt_T: Tensor
    """int64 [T], the attempt of each token, 0..S-1."""
    advantages_T: Tensor
    """float32 [T], advantage of each token: that of its attempt, unless GAE, blame or a mask gives tokens different ones."""
    values_S: Tensor
    """float32 [S], r_i - V, V the soft value (OAPL) of the attempt's group; within a group it rises with the reward."""
    reference_T: Tensor | None
    """float32 [T], nats, log-probabilities under the frozen start; None if the objective does not read them."""
    old_T: Tensor | None
    """float32 [T], nats, log-probabilities under pi_old: the policy that sampled the attempts or, where that is unknown, the policy
    before its first step on them; None when the objective needs none."""
    group_S: Tensor | None = None
    """int64 [S], index of each attempt's group in the batch, never decreasing; None: one group."""
    count_S: Tensor | None = None
    """float32 [S], occurrences of each attempt in its group (equal attempts are merged); None: 1 each. The training step
        multiplies losses by them, and statistics over several attempts weight each attempt by them."""
    sampler_T: Tensor | None = None
    """float32 [T], nats, log-probabilities that the sampler gave the tokens; nan where unknown. None: all are unknown."""
    statistic: Tensor | None = None
    """The objective's step statistic over all micro-batches of the step, if its record has a ``step_statistic``. None: this batch is
        the whole step."""

    @property
    def attempts(self) -> int:
        """Number of attempts of the batch, S."""
        return self.values_S.numel()

    @property
    def counts_S(self) -> Tensor:  # noqa: N802  S is its axis
        """Return the number of occurrences of each attempt in its group, [S]."""
        return torch.ones_like(self.values_S) if self.count_S is None else self.count_S

    def reference_logratio(self, logp_T: Tensor) -> Tensor:
        """Return [T]: log pi/ref; ValueError without reference log-probabilities."""
        if self.reference_T is None:
            raise ValueError("this objective needs log-probabilities under the reference model; pass reference_T")
        return logp_T - self.reference_T

    def old_logratio(self, logp_T: Tensor) -> Tensor:
        """Return [T]: log pi/pi_old; ValueError without the old policy's log-probabilities."""
        if self.old_T is None:
            raise ValueError("this objective needs log-probabilities under the old policy; pass old_T")
        return logp_T - self.old_T

    def old_sequence_logratio(self, logp_T: Tensor) -> Tensor:
        """Return [T]: the mean log pi/pi_old over the tokens of a token's attempt; ValueError without the old policy's log-probabilities."""
        return sequence_logratio(self.old_logratio(logp_T), self.attempt_T, self.attempts)

    def sampler_logratio(self) -> Tensor:
        """Return [T]: log pi_old/mu, 0 where the sampler mu is unknown; ValueError without the old policy's log-probabilities."""
        if self.old_T is None:
            raise ValueError("objective.correction needs log-probabilities under the old policy; pass old_T")
        return torch.zeros_like(self.old_T) if self.sampler_T is None else unknown_as_equal(self.old_T, self.sampler_T)

    def per_token(self, values_S: Tensor) -> Tensor:
        """Return [T]: each attempt's value divided evenly among its tokens."""
        length_S = sum_by_attempt(torch.ones_like(self.advantages_T), self.attempt_T, self.attempts)
        return (values_S / length_S.clamp(min=1))[self.attempt_T]
