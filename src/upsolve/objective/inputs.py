"""The record that a loss takes.

Legend: T tokens of all attempts of a batch, one after the other; S attempts.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from upsolve.objective.clipped import sequence_logratio
from upsolve.objective.ratio import sum_by_attempt, unknown_as_equal

__all__ = ["LossInputs"]


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
    """float32 [S], how often each attempt occurs in its group (equal ones are merged); None: once. Only step statistics read it:
    the training step multiplies the losses by it."""
    sampler_T: Tensor | None = None
    """float32 [T], nats, log-probabilities that the sampler gave the tokens; nan where unknown. None: all are unknown."""
    statistic: Tensor | None = None
    """The objective's step statistic, over all micro-batches of the step; losses are given it if their record has a ``step_statistic``. None
    before: this batch is the whole step."""

    @property
    def attempts(self) -> int:
        """S."""
        return self.values_S.numel()

    @property
    def counts_S(self) -> Tensor:  # noqa: N802  S is its axis
        """Return how often each attempt occurs in its group, [S]."""
        return torch.ones_like(self.values_S) if self.count_S is None else self.count_S

    def reference_logratio(self, logp_T: Tensor) -> Tensor:
        """Return [T]: log pi/ref; ValueError without reference log-probabilities."""
        if self.reference_T is None:
            raise ValueError("this objective needs reference log-probabilities (reference_T), and the batch has none")
        return logp_T - self.reference_T

    def old_logratio(self, logp_T: Tensor) -> Tensor:
        """Return [T]: log pi/pi_old; ValueError without the old policy's log-probabilities."""
        if self.old_T is None:
            raise ValueError("this objective needs log-probabilities of the old policy (old_T), and the batch has none")
        return logp_T - self.old_T

    def old_sequence_logratio(self, logp_T: Tensor) -> Tensor:
        """Return [T]: the mean log pi/pi_old over the tokens of a token's attempt; ValueError as above."""
        return sequence_logratio(self.old_logratio(logp_T), self.attempt_T, self.attempts)

    def sampler_logratio(self) -> Tensor:
        """Return [T]: log pi_old/mu, 0 where the sampler mu is unknown; ValueError without the old policy's log-probabilities."""
        if self.old_T is None:
            raise ValueError("objective.correction needs log-probabilities of the old policy (old_T), and the batch has none")
        return torch.zeros_like(self.old_T) if self.sampler_T is None else unknown_as_equal(self.old_T, self.sampler_T)

    def per_token(self, values_S: Tensor) -> Tensor:
        """Return [T]: each attempt's value divided evenly among its tokens."""
        length_S = sum_by_attempt(torch.ones_like(self.advantages_T), self.attempt_T, self.attempts)
        return (values_S / length_S.clamp(min=1))[self.attempt_T]
