"""One optimiser step over packed batches.

Legend: T tokens, S attempts of a batch.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from upsolve.config import ObjectiveConfig, OptimConfig
from upsolve.objective.ratio import effective_sample_size, sum_by_attempt
from upsolve.objective.reduce import REDUCTIONS
from upsolve.objective.table import LossInputs, clipped_tokens, token_losses
from upsolve.train.logprobs import TokenScores
from upsolve.train.pack import PackedBatch

__all__ = ["Tally", "learning_rate", "loss_of", "merged", "step_metrics", "sum_gradients"]


def learning_rate(step: int, steps: int, optim: OptimConfig) -> float:
    """Return the rate of a step (counted from 0): linear warm-up, then constant, linear or cosine decay towards zero."""
    warmup = math.ceil(optim.warmup * steps)
    if step < warmup:
        return optim.lr * (step + 1) / (warmup + 1)
    done = (step - warmup) / max(1, steps - warmup)
    factor = {"constant": 1.0, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}[optim.schedule]
    return optim.lr * factor


@dataclass(slots=True)
class Tally:
    """Sums over the batches of a step, for the log."""

    loss: float = 0.0
    entropy: float = 0.0
    logit_variance: float = 0.0
    tokens: int = 0
    read: int = 0
    clipped: int = 0
    mass_up: float = 0.0
    mass_down: float = 0.0
    logp_up: list[float] = field(default_factory=list[float])
    logp_down: list[float] = field(default_factory=list[float])
    ratios: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    malformed: list[bool] = field(default_factory=list[bool])


def inputs_of(batch: PackedBatch, reference: Mapping[str, NDArray[np.float32]] | None, device: torch.device) -> LossInputs:
    """Return what the loss reads, as tensors."""
    known = None if reference is None else np.concatenate([reference[key] for key in batch.keys])
    return LossInputs(
        attempt_T=torch.from_numpy(batch.attempt_T).to(device),
        advantages_T=torch.from_numpy(batch.advantages_S[batch.attempt_T]).to(device),
        values_S=torch.from_numpy(batch.values_S).to(device),
        reference_T=None if known is None else torch.from_numpy(known).to(device),
        old_T=None,
    )


def loss_of(scores: TokenScores, inputs: LossInputs, config: ObjectiveConfig, sizes: tuple[int, int]) -> Tensor:
    """Return the loss of a batch as its share of the step: ``sizes`` are the step's attempts and tokens."""
    loss_T = token_losses(scores.logp_T, inputs, config)
    return REDUCTIONS[config.reduce](config)(loss_T, inputs.attempt_T, attempts=sizes[0], tokens=sizes[1])


def sum_gradients(
    score: Callable[[PackedBatch], TokenScores],
    batches: Sequence[PackedBatch],
    config: ObjectiveConfig,
    *,
    reference: Mapping[str, NDArray[np.float32]] | None,
    backward: Callable[[Tensor], None],
    share: tuple[int, int] = (0, 1),
) -> Tally:
    """Accumulate the gradients of a step; the same for one batch as for many, and for one process as for many together.

    Args:
        score: how the policy scores a batch.
        batches: all of the step.
        config: the objective.
        reference: log-probabilities of the frozen start by attempt, where the objective reads them.
        backward: called with each batch's share of the loss.
        share: number of this process, and how many there are: it takes every so-manyth batch.
    """
    sizes = (sum(len(b.keys) for b in batches), sum(len(b.target_T) for b in batches))
    tally = Tally()
    for batch in batches[share[0] :: share[1]]:
        scores = score(batch)
        inputs = inputs_of(batch, reference, scores.logp_T.device)
        loss = loss_of(scores, inputs, config, sizes)
        backward(loss)
        count(tally, batch, scores, inputs, float(loss.detach()))
        tally.clipped += int(clipped_tokens(scores.logp_T, inputs, config).sum())
    return tally


def merged(tallies: Sequence[Tally]) -> Tally:
    """Return the sums of several processes as one."""
    whole = Tally()
    for tally in tallies:
        for name in (part.name for part in fields(Tally)):
            setattr(whole, name, getattr(whole, name) + getattr(tally, name))
    return whole


def count(tally: Tally, batch: PackedBatch, scores: TokenScores, inputs: LossInputs, loss: float) -> None:
    """Add a batch to the tally."""
    attempts = len(batch.keys)
    logp_S = sum_by_attempt(scores.logp_T.detach(), inputs.attempt_T, attempts).cpu().numpy()
    size_S = np.bincount(batch.attempt_T, minlength=attempts)
    up = batch.advantages_S > 0
    tally.loss += loss
    tally.entropy += float(scores.entropy_T.sum())
    tally.logit_variance += float(scores.logit_variance_T.sum())
    tally.tokens += len(batch.target_T)
    tally.read += int((batch.group_BL >= 0).sum())
    tally.mass_up += float((batch.advantages_S * size_S)[up].sum())
    tally.mass_down -= float((batch.advantages_S * size_S)[~up].sum())
    tally.logp_up += (logp_S / size_S)[up].tolist()
    tally.logp_down += (logp_S / size_S)[~up].tolist()
    tally.malformed += batch.malformed_S.tolist()
    base_S = batch.behavior_S
    if inputs.reference_T is not None:
        base_S = sum_by_attempt(inputs.reference_T, inputs.attempt_T, attempts).cpu().numpy()
    known = np.isfinite(base_S)
    tally.ratios += zip((logp_S - base_S)[known].tolist(), size_S[known].tolist(), strict=True)


def step_metrics(tally: Tally, *, grad_norm: float, seconds: float) -> dict[str, float]:
    """Turn a tally into the figures of METHODS D, one flat mapping.

    ``ess`` and ``ratio_second_moment`` compare the policy with the frozen start, or with the attempts' own authors where their
    log-probabilities are known; they are missing where neither is.
    """
    mass = tally.mass_up + tally.mass_down
    row = {
        "loss": tally.loss,
        "grad_norm": grad_norm,
        "entropy": tally.entropy / tally.tokens,
        "logit_variance": tally.logit_variance / tally.tokens,
        "mass_up": tally.mass_up / mass if mass else 0.0,
        "clipped": tally.clipped / tally.tokens,
        "attempt_tokens": float(tally.tokens),
        "tokens_per_second": tally.read / seconds,
        "malformed": float(np.mean(tally.malformed)),
        "seconds": seconds,
    }
    for name, values in (("logp_up", tally.logp_up), ("logp_down", tally.logp_down)):
        if values:
            row[name] = float(np.mean(values))
    if tally.ratios:
        ratio_S, size_S = (np.array(column, dtype=np.float64) for column in zip(*tally.ratios, strict=True))
        row["ess"] = float(effective_sample_size(torch.from_numpy(ratio_S)))
        row["ratio_second_moment"] = float(np.average((ratio_S / size_S) ** 2, weights=size_S))
    return row
