"""Sums over the micro-batches of an optimiser step, and the metrics computed from them.

Legend: T tokens, S attempts of a batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import numpy as np
import torch

from upsolve.objective.correction import Drift, drift
from upsolve.objective.inputs import LossInputs
from upsolve.objective.ratio import effective_sample_size, sum_by_attempt
from upsolve.train.data.pack import PackedBatch
from upsolve.train.update.logprobs import TokenScores

__all__ = ["Tally", "count", "merged", "step_metrics"]


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
    """Tokens of the packed rows, prompts included, padding not."""
    clipped: int = 0
    """Tokens changed by a clip or mask of the objective."""
    corrected: int = 0
    """Tokens whose importance weight was truncated or masked."""
    mass_up: float = 0.0
    """Sum of the positive advantages over tokens."""
    mass_down: float = 0.0
    """Minus the sum of the negative advantages over tokens."""
    logp_up: list[float] = field(default_factory=list[float])
    """Mean log-probability per token of each attempt with a positive sum of advantages, nats."""
    logp_down: list[float] = field(default_factory=list[float])
    """The same for all other attempts."""
    ratios: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    """Log-ratio of each attempt to the reference or to its author, nats, and its tokens."""
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
    row |= drift_metrics(tally)
    if tally.ratios:
        ratio_S, size_S = (np.array(column, dtype=np.float64) for column in zip(*tally.ratios, strict=True))
        row["ess"] = float(effective_sample_size(torch.from_numpy(ratio_S)))
        row["ratio_second_moment"] = float(np.average((ratio_S / size_S) ** 2, weights=size_S))
    return row


def drift_metrics(tally: Tally) -> dict[str, float]:
    """Return the drift of sampler and trainer at the start of the round, over tokens with the sampler's log-probability; {} without any.

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
