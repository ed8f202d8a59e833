"""One optimiser step over packed batches.

Legend: T tokens, S attempts of a batch.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from upsolve.config import ObjectiveConfig, OptimConfig
from upsolve.objective.inputs import LossInputs
from upsolve.objective.losses import clipped_tokens, step_statistic, token_losses
from upsolve.objective.reduce import REDUCTIONS
from upsolve.objective.value import clipped_value_loss
from upsolve.train.logprobs import TokenScores
from upsolve.train.pack import PackedBatch
from upsolve.train.step_metrics import Tally, count

__all__ = ["ByAttempt", "Known", "learning_rate", "loss_of", "statistic_of", "sum_gradients"]

Floats = NDArray[np.float32]
ByAttempt = Mapping[str, Floats]
"""Content key of an attempt after its prompt -> one number a token."""


@dataclass(frozen=True, slots=True)
class Known:
    """What was found out about attempts before the step, each where the recipe asks for it, else None."""

    reference: ByAttempt | None = None
    """Log-probabilities under the frozen start."""
    old: ByAttempt | None = None
    """Log-probabilities under the policy at the start of the round."""
    values: ByAttempt | None = None
    """The value head's values at the start of the round."""
    returns: ByAttempt | None = None
    """What these are to become."""
    statistic: Tensor | None = None
    """The objective's step statistic, from all attempts of the step."""


def learning_rate(step: int, steps: int, optim: OptimConfig) -> float:
    """Return the rate of a step (counted from 0): linear warm-up, then constant, linear or cosine decay towards zero."""
    warmup = math.ceil(optim.warmup * steps)
    if step < warmup:
        return optim.lr * (step + 1) / (warmup + 1)
    done = (step - warmup) / max(1, steps - warmup)
    factor = {"constant": 1.0, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}[optim.schedule]
    return optim.lr * factor


def tokens_of(batch: PackedBatch, known: ByAttempt | None, device: torch.device) -> Tensor | None:
    """Return [T] of what is known of a batch's attempts; None where it is not."""
    return None if known is None else torch.from_numpy(np.concatenate([known[key] for key in batch.keys])).to(device)


def inputs_of(batch: PackedBatch, known: Known, device: torch.device) -> LossInputs:
    """Return what the loss reads, as tensors."""
    return LossInputs(
        attempt_T=torch.from_numpy(batch.attempt_T).to(device),
        advantages_T=torch.from_numpy(batch.advantages_T).to(device),
        values_S=torch.from_numpy(batch.values_S).to(device),
        group_S=torch.from_numpy(batch.group_S).to(device),
        reference_T=tokens_of(batch, known.reference, device),
        old_T=tokens_of(batch, known.old, device),
        count_S=torch.from_numpy(batch.count_S).to(device),
        statistic=known.statistic,
    )


def statistic_of(batches: Sequence[PackedBatch], known: Known, now: ByAttempt, config: ObjectiveConfig) -> Tensor:
    """Return the objective's step statistic, from the log-probabilities of the step's attempts before the step."""
    parts = [(torch.from_numpy(np.concatenate([now[key] for key in batch.keys])), batch) for batch in batches]
    return step_statistic([(logp_T, inputs_of(batch, known, logp_T.device)) for logp_T, batch in parts], config)


def loss_of(
    scores: TokenScores, batch: PackedBatch, known: Known, config: ObjectiveConfig, sizes: tuple[int, int]
) -> tuple[Tensor, LossInputs]:
    """Return the loss of a batch as its share of the step, and what it read: ``sizes`` are the step's attempts and tokens.

    An attempt that stands for several equal ones counts as many. With a value head, its loss is added with its coefficient.
    """
    device = scores.logp_T.device
    inputs = inputs_of(batch, known, device)
    loss_T = token_losses(scores.logp_T, inputs, config)
    values_T, returns_T = tokens_of(batch, known.values, device), tokens_of(batch, known.returns, device)
    if scores.values_T is not None and values_T is not None and returns_T is not None:
        value = config.value
        loss_T = loss_T + value.coefficient * clipped_value_loss(scores.values_T, values_T, returns_T, clip=value.clip)
    if (batch.count_S != 1).any():
        loss_T = loss_T * torch.from_numpy(batch.count_S).to(device)[inputs.attempt_T]
    return REDUCTIONS[config.reduce](config)(loss_T, inputs.attempt_T, attempts=sizes[0], tokens=sizes[1]), inputs


def sum_gradients(
    score: Callable[[PackedBatch], TokenScores],
    batches: Sequence[PackedBatch],
    config: ObjectiveConfig,
    *,
    backward: Callable[[Tensor], None],
    known: Known | None = None,
    share: tuple[int, int] = (0, 1),
) -> Tally:
    """Accumulate the gradients of a step; the same for one batch as for many, and for one process as for many together.

    Args:
        score: how the policy scores a batch.
        batches: all of the step.
        config: the objective.
        backward: called with each batch's share of the loss.
        known: what the objective reads of the attempts beside their tokens.
        share: number of this process, and how many there are: it takes every so-manyth batch.
    """
    sizes = (sum(int(b.count_S.sum()) for b in batches), sum(int(b.count_S[b.attempt_T].sum()) for b in batches))
    tally = Tally()
    for batch in batches[share[0] :: share[1]]:
        scores = score(batch)
        loss, inputs = loss_of(scores, batch, known or Known(), config, sizes)
        backward(loss)
        count(tally, batch, scores, inputs, float(loss.detach()))
        tally.clipped += int(clipped_tokens(scores.logp_T, inputs, config).sum())
    return tally
