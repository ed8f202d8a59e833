"""Scores of attempts before training on them: constants in the loss, token advantages from values, likelihoods for ``select``.

Legend: R tokens of one attempt, T tokens of all attempts of a round.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upsolve.advantage.group import gae, subtract_kl, whiten
from upsolve.config import GaeConfig, KlConfig, OptimConfig
from upsolve.reward.formula import Rewarded
from upsolve.reward.selection import Likelihood
from upsolve.train.data.encode import EncodedAttempt, EncodedGroup, Encoding, prompts_of
from upsolve.train.data.pack import PackedBatch, plan_scoring
from upsolve.train.update.learner import Learner
from upsolve.train.update.reference import load_arrays, save_arrays
from upsolve.train.update.step import ByAttempt, FrozenScores

__all__ = ["score_now", "score_start", "start_likelihoods", "stored_scores", "value_metrics", "with_gae"]

Floats = NDArray[np.float32]


def score_start(learner: Learner, batches: Sequence[PackedBatch]) -> FrozenScores:
    """Return the scores of stored attempts for an offline run; the frozen start is pi_old, since their policy is unknown. Collective."""
    objective = learner.objective
    if not batches or not (objective.needs_reference or objective.needs_old):
        return FrozenScores()
    logps = learner.frozen_logps(batches)
    return FrozenScores(
        reference=logps if objective.needs_reference else None,
        old=logps if objective.needs_old else None,
    )


def score_now(learner: Learner, groups: Sequence[EncodedGroup], file: Path) -> FrozenScores:
    """Return the scores of the attempts of a round under the policy before its first step on them. Collective.

    ``file`` stores log-probabilities and values, since a run resumed within the round has other weights.
    """
    if not groups:
        return FrozenScores()
    batches = plan_scoring(groups, learner.optim)
    reference = learner.frozen_logps(batches) if learner.objective.needs_reference else None
    if not (learner.values or learner.objective.needs_old):
        return FrozenScores(reference=reference)
    logps, values = stored_scores(file, lambda: learner.read(batches), writes=learner.processes.is_main)
    return FrozenScores(reference=reference, old=logps, values=values or None)


def stored_scores(
    file: Path, read: Callable[[], tuple[dict[str, Any], dict[str, Any]]], *, writes: bool
) -> tuple[ByAttempt, ByAttempt]:
    """Return log-probabilities and values by attempt: from the file, or computed by ``read`` and written to it."""
    if file.exists():
        stored = load_arrays(file)
        logps = {key[1:]: stored[key] for key in stored if key[0] == "p"}
        return logps, {key[1:]: stored[key] for key in stored if key[0] == "v"}
    logps, values = read()
    if writes:
        both = {f"p{key}": logp for key, logp in logps.items()} | {f"v{key}": value for key, value in values.items()}
        save_arrays(file, both)
    return logps, values


def with_gae(
    groups: Sequence[EncodedGroup], scores: FrozenScores, *, config: GaeConfig, kl: KlConfig
) -> tuple[list[EncodedGroup], ByAttempt]:
    """Give every token its advantage by ``upsolve.advantage.group.gae``, whitened over the round if ``config.whiten``.

    With ``kl.place: reward`` the KL term is subtracted from the rewards first. Masked tokens have advantage 0 and are left out
    of mean and deviation; a merged attempt counts as often as it occurs. ``scores`` has ``old`` and ``values``, and
    ``reference`` for the KL term.

    Returns:
        The groups with advantages, and the returns [R] of every attempt: the regression targets of the value head.
    """
    assert scores.old is not None and scores.values is not None, "scored under the policy"
    advantages: list[NDArray[np.float64]] = []
    weights: list[NDArray[np.float64]] = []
    returns: dict[str, Floats] = {}
    for key, encoded in (pair for group in groups for pair in zip(group.attempt_keys(), group.attempts, strict=True)):
        assert encoded.rewards_R is not None, "encoded for gae"
        rewards_R = encoded.rewards_R.astype(np.float64)
        if kl.coefficient and kl.place == "reward" and scores.reference is not None:
            rewards_R = subtract_kl(
                rewards_R, (scores.old[key] - scores.reference[key]).astype(np.float64), beta=kl.coefficient
            )
        token_advantages, token_returns = gae(
            rewards_R, scores.values[key].astype(np.float64), gamma=config.gamma, decay=config.decay
        )
        advantages.append(token_advantages)
        weights.append(
            encoded.count * (np.ones(len(token_advantages)) if encoded.mask_R is None else encoded.mask_R.astype(np.float64))
        )
        returns[key] = token_returns.astype(np.float32)
    ends = np.cumsum([len(token_advantages) for token_advantages in advantages])[:-1]
    advantages_T, weights_T = np.concatenate(advantages), np.concatenate(weights)
    if config.whiten:
        advantages_T = whiten(advantages_T, weights_T)
    parts = iter(np.split(advantages_T, ends))
    return [
        replace(group, attempts=tuple(masked(attempt, next(parts)) for attempt in group.attempts)) for group in groups
    ], returns


def masked(attempt: EncodedAttempt, advantages_R: NDArray[np.float64]) -> EncodedAttempt:
    """Return an attempt with new advantages, 0 for masked tokens."""
    masked_R = advantages_R if attempt.mask_R is None else advantages_R * attempt.mask_R
    return replace(attempt, advantages_R=masked_R.astype(np.float32))


def value_metrics(scores: FrozenScores) -> dict[str, float]:
    """Return means of a round's values V and returns R, and the explained variance 1 - Var(R - V) / Var(R); {} without a value head."""
    if scores.values is None or scores.returns is None:
        return {}
    values_T, returns_T = (np.concatenate([arrays[key] for key in scores.values]) for arrays in (scores.values, scores.returns))
    metrics = {"value_mean": float(values_T.mean()), "return_mean": float(returns_T.mean())}
    variance = float(returns_T.var())
    return {**metrics, "value_explained": 1 - float((returns_T - values_T).var()) / variance} if variance else metrics


Pair = tuple[tuple[int, ...], tuple[int, ...]]
"""Token ids of a prompt and of an attempt."""


def start_likelihoods(
    learner: Learner, encoding: Encoding, optim: OptimConfig, rewarded: Sequence[Rewarded]
) -> list[list[Likelihood | None]]:
    """Return the mean and the smallest log-probability of each attempt's tokens under the frozen start, nats, by group.

    Results that are computed before the first step are cached by content. None for attempts that are empty or too long to be trained on.
    """
    codec, groups, ids = encoding.codec, list[EncodedGroup](), list[list[Pair]]()
    for item in rewarded:
        pairs = [*zip(prompts_of([item.group], codec)[0], map(codec.ids_of, item.group.attempts), strict=True)]
        fits = {(prompt, ids_R) for prompt, ids_R in pairs if ids_R and len(prompt) + len(ids_R) <= encoding.max_tokens}
        for prompt, same in groupby(sorted(fits), key=itemgetter(0)):
            attempts = tuple(EncodedAttempt(ids_R, np.zeros(len(ids_R), np.float32)) for _, ids_R in same)
            groups.append(EncodedGroup(prompt, attempts))
        ids.append(pairs)
    logps = learner.frozen_logps(plan_scoring(groups, optim))
    found = {
        (group.prompt_P, attempt.ids_R): Likelihood(float(logps[key].mean()), float(logps[key].min()))
        for group in groups
        for attempt, key in zip(group.attempts, group.attempt_keys(), strict=True)
    }
    return [[found.get(pair) for pair in pairs] for pairs in ids]
