"""One optimiser step over packed batches.

Legend: T tokens, S attempts of a batch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from upsolve.config import ObjectiveConfig
from upsolve.objective.inputs import LossInputs
from upsolve.objective.losses import clipped_tokens, corrected_tokens, step_statistic, token_losses
from upsolve.objective.reduce import REDUCTIONS
from upsolve.objective.value import clipped_value_loss
from upsolve.train.data.pack import PackedBatch
from upsolve.train.update.logprobs import TokenScores
from upsolve.train.update.step_metrics import Tally, count

__all__ = ["ByAttempt", "FrozenScores", "loss_of", "statistic_of", "sum_gradients"]

Floats = NDArray[np.float32]
ByAttempt = Mapping[str, Floats]
"""Content key of an attempt and its prompt -> one number per token, float32 [R]."""


@dataclass(frozen=True, slots=True)
class FrozenScores:
    """Scores of attempts that are constants in the loss, computed before the step; None if the objective does not need them.

    Each maps the content key of an attempt to one number per token, float32 [R].
    """

    reference: ByAttempt | None = None
    """Log-probabilities under the frozen start, nats."""
    old: ByAttempt | None = None
    """Log-probabilities under the policy at the start of the round (pi_old), nats."""
    values: ByAttempt | None = None
    """The value head's values at the start of the round."""
    returns: ByAttempt | None = None
    """Regression targets of the value head (GAE returns)."""
    statistic: Tensor | None = None
    """The objective's step statistic, from all attempts of the step."""


def tokens_of(batch: PackedBatch, scores: ByAttempt | None, device: torch.device) -> Tensor | None:
    """Return the scores of a batch's tokens, [T]; None where there are none."""
    return None if scores is None else torch.from_numpy(np.concatenate([scores[key] for key in batch.keys])).to(device)


def inputs_of(batch: PackedBatch, frozen: FrozenScores, device: torch.device) -> LossInputs:
    """Return the inputs of the loss, as tensors."""
    return LossInputs(
        attempt_T=torch.from_numpy(batch.attempt_T).to(device),
        advantages_T=torch.from_numpy(batch.advantages_T).to(device),
        values_S=torch.from_numpy(batch.values_S).to(device),
        group_S=torch.from_numpy(batch.group_S).to(device),
        reference_T=tokens_of(batch, frozen.reference, device),
        old_T=tokens_of(batch, frozen.old, device),
        count_S=torch.from_numpy(batch.count_S).to(device),
        sampler_T=torch.from_numpy(batch.sampler_logp_T).to(device),
        statistic=frozen.statistic,
    )


def statistic_of(batches: Sequence[PackedBatch], frozen: FrozenScores, now: ByAttempt, config: ObjectiveConfig) -> Tensor:
    """Return the objective's step statistic, from the log-probabilities of the step's attempts before the step."""
    parts = [(torch.from_numpy(np.concatenate([now[key] for key in batch.keys])), batch) for batch in batches]
    return step_statistic([(logp_T, inputs_of(batch, frozen, logp_T.device)) for logp_T, batch in parts], config)


def loss_of(
    scores: TokenScores, batch: PackedBatch, frozen: FrozenScores, *, config: ObjectiveConfig, sizes: tuple[int, int]
) -> tuple[Tensor, LossInputs]:
    """Return a batch's share of the loss of the step, and the inputs of the loss; ``sizes`` are attempts and tokens of the step.

    A merged attempt counts as often as it occurs. The loss of the value head, if any, is added with its coefficient.
    """
    device = scores.logp_T.device
    inputs = inputs_of(batch, frozen, device)
    loss_T = token_losses(scores.logp_T, inputs, config)
    values_T, returns_T = tokens_of(batch, frozen.values, device), tokens_of(batch, frozen.returns, device)
    if scores.values_T is not None and values_T is not None and returns_T is not None:
        value = config.value
        loss_T = loss_T + value.coefficient * clipped_value_loss(scores.values_T, values_T, returns_T, clip=value.clip)
    if (batch.count_S != 1).any():
        loss_T = loss_T * torch.from_numpy(batch.count_S).to(device)[inputs.attempt_T]
    return REDUCTIONS[config.reduce](config)(loss_T, inputs.attempt_T, attempts=sizes[0], tokens=sizes[1]), inputs


def denominators(batches: Sequence[PackedBatch]) -> tuple[int, int]:
    """Return the numbers of attempts and attempt tokens of a step, counting merged attempts and those with advantage 0 (not packed)."""
    attempts = sum(int(batch.count_S.sum()) + batch.zero_attempts for batch in batches)
    return attempts, sum(int(batch.count_S[batch.attempt_T].sum()) + batch.zero_tokens for batch in batches)


def sum_gradients(
    score: Callable[[PackedBatch], TokenScores],
    batches: Sequence[PackedBatch],
    config: ObjectiveConfig,
    *,
    backward: Callable[[Tensor], None],
    frozen: FrozenScores | None = None,
    share: tuple[int, int] = (0, 1),
) -> Tally:
    """Accumulate the gradients of a step; the sum does not depend on the number of batches or processes.

    Args:
        score: how the policy scores a batch.
        batches: all of the step.
        config: the objective.
        backward: called with each batch's share of the loss.
        frozen: scores that the loss takes as constants.
        share: rank of this process and the world size: it takes the batches rank, rank + size, ...
    """
    sizes = denominators(batches)
    tally = Tally()
    for batch in batches[share[0] :: share[1]]:
        scores = score(batch)
        loss, inputs = loss_of(scores, batch, frozen or FrozenScores(), config=config, sizes=sizes)
        backward(loss)
        count(tally, batch, scores=scores, inputs=inputs, loss=float(loss.detach()))
        tally.clipped += int(clipped_tokens(scores.logp_T, inputs, config).sum())
        tally.corrected += int(corrected_tokens(inputs, config.correction).sum())
    return tally
