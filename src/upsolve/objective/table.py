"""A recipe's objective over a batch: log-probabilities [T] to losses [T].

Legend: T tokens of all attempts of a batch, one after the other; S attempts.
A loss that belongs to a whole attempt is spread evenly over its tokens, so that the sum over tokens is the attempt's loss.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from upsolve.config import ObjectiveConfig
from upsolve.objective.clipped import cispo, gspo, m2po, m2po_bound, m2po_mask, opsm_mask, outside, ppo_clip, sequence_logratio
from upsolve.objective.preference import batch_kl, dpo, kto, rank, weighted_sum
from upsolve.objective.ratio import KL, mean_by_attempt, sum_by_attempt
from upsolve.objective.surrogate import dft, dro, oapl, reinforce, topr

__all__ = ["OBJECTIVES", "LossInputs", "clipped_tokens", "level_of", "token_losses"]


@dataclass(frozen=True, slots=True)
class LossInputs:
    """What a loss may read beside the policy's log-probabilities."""

    attempt_T: Tensor
    """int64 [T], the attempt of each token, 0..S-1."""
    advantages_T: Tensor
    """float32 [T], at each token: its attempt's advantage, or its own (GAE)."""
    values_S: Tensor
    """float32 [S], r_i - V of the attempt's group under the objective's own V; its values are read by ``oapl`` and ``rank`` only."""
    reference_T: Tensor | None
    """float32 [T], log-probabilities under the frozen start; None when the objective needs none."""
    old_T: Tensor | None
    """float32 [T], log-probabilities under pi_old, the policy that made the attempts or that first saw this batch; None when
    the objective needs none."""
    group_S: Tensor | None = None
    """int64 [S], the group of each attempt within the batch, rising; None: all are of one. Read by ``rank`` only."""
    count_S: Tensor | None = None
    """float [S], how many equal attempts each stands for; None: one. Read by ``level_of`` only: losses are multiplied later."""
    level: Tensor | None = None
    """``level_of`` the whole step that the batch is a part of; None: the batch is all of it."""

    @property
    def attempts(self) -> int:
        """S."""
        return self.values_S.numel()

    @property
    def counts_S(self) -> Tensor:  # noqa: N802  S is its axis
        """Return how many equal attempts each stands for, [S]."""
        return torch.ones_like(self.values_S) if self.count_S is None else self.count_S

    def reference_logratio(self, logp_T: Tensor) -> Tensor:
        """Return [T]: log pi/ref; ValueError without reference log-probabilities."""
        if self.reference_T is None:
            raise ValueError("this objective reads the reference log-probabilities, and the batch has none")
        return logp_T - self.reference_T

    def old_logratio(self, logp_T: Tensor) -> Tensor:
        """Return [T]: log pi/pi_old; ValueError without the old policy's log-probabilities."""
        if self.old_T is None:
            raise ValueError("this objective reads the log-probabilities of the old policy, and the batch has none")
        return logp_T - self.old_T

    def old_sequence_logratio(self, logp_T: Tensor) -> Tensor:
        """Return [T]: the mean log pi/pi_old of a token's attempt; ValueError as above."""
        return sequence_logratio(self.old_logratio(logp_T), self.attempt_T, self.attempts)

    def spread(self, values_S: Tensor) -> Tensor:
        """Return [T]: each attempt's value divided evenly among its tokens."""
        length_S = sum_by_attempt(torch.ones_like(self.advantages_T), self.attempt_T, self.attempts)
        return (values_S / length_S.clamp(min=1))[self.attempt_T]


Loss = Callable[[Tensor, LossInputs, ObjectiveConfig], Tensor]
Part = tuple[Tensor, LossInputs]


def level_of(parts: Sequence[Part], config: ObjectiveConfig) -> Tensor:
    """Return the number that ``kto`` (z) and ``m2po`` (the largest square kept) take from all attempts of a step together.

    Args:
        parts: log-probabilities [T] without gradient, and what a loss reads, of each of the step's batches.
        config: the objective.

    Raises:
        KeyError: the objective takes none.
    """
    return LEVELS[config.kind](parts, config)


def kto_level(parts: Sequence[Part], _config: ObjectiveConfig) -> Tensor:
    """Adapt ``batch_kl`` to batches."""
    x_S = torch.cat([sum_by_attempt(i.reference_logratio(logp), i.attempt_T, i.attempts) for logp, i in parts])
    return batch_kl(x_S, torch.cat([i.counts_S for _, i in parts]))


def m2po_level(parts: Sequence[Part], config: ObjectiveConfig) -> Tensor:
    """Adapt ``m2po_bound`` to batches."""
    logratio_T = torch.cat([i.old_logratio(logp) for logp, i in parts])
    count_T = torch.cat([i.counts_S[i.attempt_T] for _, i in parts])
    return m2po_bound(logratio_T, threshold=config.clip.second_moment, count_T=count_T)


LEVELS: Mapping[str, Callable[[Sequence[Part], ObjectiveConfig], Tensor]] = {"kto": kto_level, "m2po": m2po_level}
"""A recipe's name -> what it takes from all attempts together; what is not here takes nothing."""


def level(logp_T: Tensor, inputs: LossInputs, config: ObjectiveConfig) -> Tensor:
    """Return the step's ``level_of``, of a batch that is all of it from the batch."""
    return level_of([(logp_T.detach(), inputs)], config) if inputs.level is None else inputs.level


def topr_tokens(logp_T: Tensor, inputs: LossInputs, _config: ObjectiveConfig) -> Tensor:
    """Adapt ``topr`` to a batch."""
    logratio_S = sum_by_attempt(inputs.reference_logratio(logp_T.detach()), inputs.attempt_T, inputs.attempts)
    return topr(logp_T, inputs.advantages_T, logratio_S[inputs.attempt_T])


def oapl_tokens(logp_T: Tensor, inputs: LossInputs, config: ObjectiveConfig) -> Tensor:
    """Adapt ``oapl`` to a batch."""
    logratio_S = sum_by_attempt(inputs.reference_logratio(logp_T), inputs.attempt_T, inputs.attempts)
    return inputs.spread(oapl(logratio_S, inputs.values_S, beta=config.beta_policy))


def dro_tokens(logp_T: Tensor, inputs: LossInputs, config: ObjectiveConfig) -> Tensor:
    """Adapt ``dro`` to a batch; advantages that differ within an attempt count by their mean."""
    logratio_S = sum_by_attempt(inputs.reference_logratio(logp_T), inputs.attempt_T, inputs.attempts)
    logp_S = sum_by_attempt(logp_T, inputs.attempt_T, inputs.attempts)
    advantages_S = mean_by_attempt(inputs.advantages_T, inputs.attempt_T, inputs.attempts)
    return inputs.spread(dro(logp_S, advantages_S, logratio_S, beta=config.beta_dro))


def ppo_tokens(logp_T: Tensor, inputs: LossInputs, config: ObjectiveConfig) -> Tensor:
    """Adapt ``ppo_clip`` to a batch."""
    clip = config.clip
    return ppo_clip(inputs.old_logratio(logp_T), inputs.advantages_T, low=clip.low, high=clip.high)


def gspo_tokens(logp_T: Tensor, inputs: LossInputs, config: ObjectiveConfig) -> Tensor:
    """Adapt ``gspo`` to a batch."""
    clip = config.clip
    return gspo(inputs.old_sequence_logratio(logp_T), inputs.advantages_T, low=clip.low, high=clip.high)


def dpo_tokens(logp_T: Tensor, inputs: LossInputs, config: ObjectiveConfig) -> Tensor:
    """Adapt ``dpo`` to a batch of groups of two: the chosen has positive advantages, the rejected negative ones.

    The absolute advantages weigh the tokens. Both attempts of a pair carry its loss, so that ``sequence_sum`` is the mean over pairs.
    """
    settings = config.preference
    x_S = weighted_sum(inputs.reference_logratio(logp_T), inputs.advantages_T.abs(), inputs.attempt_T, inputs.attempts)
    sign_S = sum_by_attempt(inputs.advantages_T, inputs.attempt_T, inputs.attempts)
    chosen_K, rejected_K = (sign_S > 0).nonzero()[:, 0], (sign_S < 0).nonzero()[:, 0]
    loss_K = dpo(x_S[chosen_K], x_S[rejected_K], beta=settings.beta, label_smoothing=settings.label_smoothing)
    return inputs.spread(torch.zeros_like(x_S).index_add(0, chosen_K, loss_K).index_add(0, rejected_K, loss_K))


def kto_tokens(logp_T: Tensor, inputs: LossInputs, config: ObjectiveConfig) -> Tensor:
    """Adapt ``kto`` to a batch; desirable is what has a positive advantage."""
    settings = config.preference
    x_S = sum_by_attempt(inputs.reference_logratio(logp_T), inputs.attempt_T, inputs.attempts)
    desirable_S = sum_by_attempt(inputs.advantages_T, inputs.attempt_T, inputs.attempts) > 0
    weights = (settings.desirable, settings.undesirable)
    return inputs.spread(kto(x_S, desirable_S, level(logp_T, inputs, config), beta=settings.beta, weights=weights))


def rank_tokens(logp_T: Tensor, inputs: LossInputs, config: ObjectiveConfig) -> Tensor:
    """Adapt ``rank`` to a batch: a group's loss is divided evenly among its attempts; ``values_S`` are in the order of the rewards."""
    x_S = sum_by_attempt(inputs.reference_logratio(logp_T), inputs.attempt_T, inputs.attempts)
    group_S = torch.zeros(inputs.attempts, dtype=torch.int64) if inputs.group_S is None else inputs.group_S
    sizes: list[int] = group_S.unique_consecutive(return_counts=True)[1].tolist()
    parts = zip(x_S.split(sizes), inputs.values_S.split(sizes), strict=True)
    loss_S = [rank(x_G, values_G, beta=config.preference.beta).expand(len(x_G)) / len(x_G) for x_G, values_G in parts]
    return inputs.spread(torch.cat(loss_S))


OBJECTIVES: Mapping[str, Loss] = {
    "cispo": lambda logp, i, c: cispo(logp, i.old_logratio(logp), i.advantages_T, cap=c.clip.cap),
    "dft": lambda logp, i, _: dft(logp, i.advantages_T),
    "dpo": dpo_tokens,
    "dro": dro_tokens,
    "gspo": gspo_tokens,
    "kto": kto_tokens,
    "m2po": lambda logp, i, c: m2po(i.old_logratio(logp), i.advantages_T, level(logp, i, c)),
    "oapl": oapl_tokens,
    "ppo_clip": ppo_tokens,
    "rank": rank_tokens,
    "reinforce": lambda logp, i, _: reinforce(logp, i.advantages_T),
    "topr": topr_tokens,
}
"""A recipe's name -> log-probabilities [T] to losses [T]."""


def token_losses(logp_T: Tensor, inputs: LossInputs, config: ObjectiveConfig) -> Tensor:
    """Return [T]: the objective a recipe names, masked by OPSM and with the KL term where the recipe asks for them.

    loss_t = M_t objective_t + coefficient KL_t. The mask leaves the KL term alone.

    Raises:
        ValueError: the batch lacks the log-probabilities that ``needs_reference`` or ``needs_old`` asks for.
    """
    loss_T = OBJECTIVES[config.kind](logp_T, inputs, config)
    if config.clip.sequence_kl is not None:
        loss_T = loss_T * kept_by_opsm(logp_T, inputs, config.clip.sequence_kl)
    if config.kl.coefficient and config.kl.place == "loss":
        loss_T = loss_T + config.kl.coefficient * KL[config.kl.estimator](inputs.reference_logratio(logp_T))
    return loss_T


def kept_by_opsm(logp_T: Tensor, inputs: LossInputs, threshold: float) -> Tensor:
    """Adapt ``opsm_mask`` to a batch."""
    return opsm_mask(inputs.old_sequence_logratio(logp_T), inputs.advantages_T, threshold=threshold)


def capped(logp_T: Tensor, inputs: LossInputs, config: ObjectiveConfig) -> Tensor:
    """Return bool [T]: tokens whose weight ``cispo`` caps; they keep their gradient."""
    return inputs.old_logratio(logp_T) > math.log(config.clip.cap)


def outside_of_clip(logratio_T: Tensor, inputs: LossInputs, config: ObjectiveConfig) -> Tensor:
    """Adapt ``outside`` to a batch."""
    return outside(logratio_T, inputs.advantages_T, low=config.clip.low, high=config.clip.high)


CLIPPED: Mapping[str, Loss] = {
    "cispo": capped,
    "gspo": lambda logp, i, c: outside_of_clip(i.old_sequence_logratio(logp), i, c),
    "m2po": lambda logp, i, c: ~m2po_mask(i.old_logratio(logp), level(logp, i, c)),
    "ppo_clip": lambda logp, i, c: outside_of_clip(i.old_logratio(logp), i, c),
}
"""A recipe's name -> which tokens its bound touches; what is not here has no bound."""


def clipped_tokens(logp_T: Tensor, inputs: LossInputs, config: ObjectiveConfig) -> Tensor:
    """Return bool [T]: tokens that a clip or a mask of the objective touches; but for those of ``cispo`` they have no gradient.

    A share that grows towards 1 means that pi_old is too far away, or was a guess.
    """
    with torch.no_grad():
        touched_T = torch.zeros_like(logp_T, dtype=torch.bool)
        if config.kind in CLIPPED:
            touched_T = CLIPPED[config.kind](logp_T, inputs, config)
        if config.clip.sequence_kl is not None:
            touched_T = touched_T | ~kept_by_opsm(logp_T, inputs, config.clip.sequence_kl)
    return touched_T
