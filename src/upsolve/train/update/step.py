"""One optimizer step over packed batches: the loss, its gradients, and the metrics of the step.

Legend: T tokens, S attempts of a batch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from upsolve.config import ObjectiveConfig
from upsolve.objective.clipped import LossInputs, clipped_value_loss
from upsolve.objective.losses import clipped_tokens, corrected_tokens, step_statistic, token_losses
from upsolve.objective.ratio import REDUCTIONS, Drift, drift, effective_sample_size, sum_by_attempt
from upsolve.train.data.pack import PackedBatch
from upsolve.train.update.logprobs import TokenScores

__all__ = ["ByAttempt", "FrozenScores", "Tally", "count", "loss_of", "merged", "statistic_of", "step_metrics", "sum_gradients"]


@dataclass(slots=True)
class Tally:
    """Sums over the batches of a step, for the log."""

    loss: float = 0.0
    """Loss of the step."""
    entropy: float = 0.0
    """Sum over attempt tokens, nats."""
    logit_variance: float = 0.0
    """Sum over attempt tokens."""
    tokens: int = 0
    """Attempt tokens."""
    read: int = 0
    """Tokens of the packed rows: with prompts, without padding."""
    clipped: int = 0
    """Tokens changed by a clip or mask of the objective."""
    corrected: int = 0
    """Tokens whose importance weight was truncated or masked."""
    mass_up: float = 0.0
    """Sum of the positive advantages over tokens."""
    mass_down: float = 0.0
    """Sum of the absolute values of the negative advantages over tokens."""
    logp_up: list[float] = field(default_factory=list[float])
    """Mean log-probability per token of each attempt with a positive sum of advantages, nats."""
    logp_down: list[float] = field(default_factory=list[float])
    """Mean log-probability per token of each other attempt, nats."""
    ratios: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    """For each attempt, its log-ratio to the reference or to its author, nats, and its number of tokens."""
    malformed: list[bool] = field(default_factory=list[bool])
    """For each attempt, whether its code does not compile."""
    drifts: list[Drift] = field(default_factory=list[Drift])
    """Difference between sampler and trainer, one per batch."""


def merged(tallies: Sequence[Tally]) -> Tally:
    """Add up the sums of several ranks."""
    total = Tally()
    for tally in tallies:
        for name in (part.name for part in fields(Tally)):
            setattr(total, name, getattr(total, name) + getattr(tally, name))
    return total


def count(tally: Tally, batch: PackedBatch, *, scores: TokenScores, inputs: LossInputs, loss: float) -> None:
    """Add a batch to the tally."""
    attempts = len(batch.keys)
    logp_S = sum_by_attempt(scores.logp_T.detach(), inputs.attempt_T, attempts).cpu().numpy()
    size_S = np.bincount(batch.attempt_T, minlength=attempts)
    mass_T = batch.advantages_T * batch.count_S[batch.attempt_T]
    up = np.bincount(batch.attempt_T, weights=mass_T, minlength=attempts) > 0
    tally.loss += loss
    tally.entropy += float(scores.entropy_T.sum())
    tally.logit_variance += float(scores.logit_variance_T.sum())
    tally.tokens += len(batch.target_T)
    tally.read += int((batch.group_BL >= 0).sum())
    tally.mass_up += float(mass_T.clip(min=0).sum())
    tally.mass_down -= float(mass_T.clip(max=0).sum())
    tally.logp_up += (logp_S / size_S)[up].tolist()
    tally.logp_down += (logp_S / size_S)[~up].tolist()
    tally.malformed += batch.malformed_S.tolist()
    if inputs.old_T is not None and inputs.sampler_T is not None:
        tally.drifts.append(drift(inputs.old_T, inputs.sampler_T))
    base_S = batch.behavior_S
    if inputs.reference_T is not None:
        base_S = sum_by_attempt(inputs.reference_T, inputs.attempt_T, attempts).cpu().numpy()
    known = np.isfinite(base_S)
    tally.ratios += zip((logp_S - base_S)[known].tolist(), size_S[known].tolist(), strict=True)


def step_metrics(tally: Tally, *, grad_norm: float, seconds: float) -> dict[str, float]:
    """Return the metrics of a step as one flat mapping.

    ``ess`` and ``ratio_second_moment`` compare the policy with the frozen start, or with the attempts' own authors where their log-probabilities are
    known; the metrics are missing if neither is known. The second moment is that of each attempt's mean log-ratio, weighted by its tokens.
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
    row |= drift_metrics(tally)
    if tally.ratios:
        ratio_S, size_S = (np.array(column, dtype=np.float64) for column in zip(*tally.ratios, strict=True))
        row["ess"] = float(effective_sample_size(torch.from_numpy(ratio_S)))
        row["ratio_second_moment"] = float(np.average((ratio_S / size_S) ** 2, weights=size_S))
    return row


def drift_metrics(tally: Tally) -> dict[str, float]:
    """Return the drift of sampler and trainer at the start of the round, over tokens with known sampler log-probability; {} if there are none.

    ``drift``: mean |log pi_old/mu|, nats; ``drift_k3``: estimate of KL(mu || pi_old), nats per token; ``drift_max``: the largest
    |log pi_old/mu|; ``sampler_known``: share of tokens; ``corrected``: share of all tokens whose weight was truncated or masked.
    """
    known = sum(drift.tokens for drift in tally.drifts)
    if not known:
        return {}
    return {
        "drift": sum(drift.absolute for drift in tally.drifts) / known,
        "drift_k3": sum(drift.k3 for drift in tally.drifts) / known,
        "drift_max": max(drift.most for drift in tally.drifts),
        "sampler_known": known / tally.tokens,
        "corrected": tally.corrected / tally.tokens,
    }


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
    """Return the scores of a batch's tokens, [T]; None if there are no scores."""
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

    ``score`` scores a batch under the policy, ``backward`` gets each batch's share of the loss, ``frozen`` are constants in the
    loss. ``share`` is (rank, world size): this process computes batches rank, rank + size, ...
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
