"""Values of the value head -> token advantages, and the regression targets of the value head.

Legend: R tokens of one attempt, T tokens of all attempts of a round.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from upsolve.advantage.tokens import gae, subtract_kl, whiten
from upsolve.config import GaeConfig, KlConfig
from upsolve.train.data.encode import EncodedAttempt, EncodedGroup
from upsolve.train.update.step import ByAttempt, FrozenScores

__all__ = ["value_metrics", "with_gae"]

Floats = NDArray[np.float32]


def with_gae(
    groups: Sequence[EncodedGroup], scores: FrozenScores, *, config: GaeConfig, kl: KlConfig
) -> tuple[list[EncodedGroup], ByAttempt]:
    """Give every token its advantage by ``upsolve.advantage.tokens.gae``, whitened over the round if ``config.whiten``.

    With ``kl.place: reward`` the KL term is subtracted from the rewards first. Masked tokens have advantage 0 and are
    left out of mean and deviation; a merged attempt counts as often as it occurs.

    Args:
        groups: encoded with rewards for every token.
        scores: ``old`` and ``values``, and ``reference`` for the KL term.
        config: discount, lambda and whitening.
        kl: the KL term.

    Returns:
        The groups with advantages, and the returns [R] of every attempt: the regression targets of the value head.
    """
    assert scores.old is not None and scores.values is not None, "scored under the policy"
    advantages: list[NDArray[np.float64]] = []
    weights: list[NDArray[np.float64]] = []
    returns: dict[str, Floats] = {}
    for key, encoded in keyed(groups):
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


def keyed(groups: Sequence[EncodedGroup]) -> list[tuple[str, EncodedAttempt]]:
    """Return every attempt with its content key."""
    return [pair for group in groups for pair in zip(group.attempt_keys(), group.attempts, strict=True)]


def masked(attempt: EncodedAttempt, advantages_R: NDArray[np.float64]) -> EncodedAttempt:
    """Return an attempt with new advantages, 0 for masked tokens."""
    kept = advantages_R if attempt.mask_R is None else advantages_R * attempt.mask_R
    return replace(attempt, advantages_R=kept.astype(np.float32))


def value_metrics(scores: FrozenScores) -> dict[str, float]:
    """Return means of a round's values V and returns R, and the explained variance 1 - Var(R - V) / Var(R); {} without a value head."""
    if scores.values is None or scores.returns is None:
        return {}
    values_T, returns_T = (np.concatenate([arrays[key] for key in scores.values]) for arrays in (scores.values, scores.returns))
    metrics = {"value_mean": float(values_T.mean()), "return_mean": float(returns_T.mean())}
    variance = float(returns_T.var())
    return {**metrics, "value_explained": 1 - float((returns_T - values_T).var()) / variance} if variance else metrics
