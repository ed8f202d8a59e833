"""Rewards of one group -> advantages. One small pure function an estimator; numpy only.

Legend: G attempts of a group; rewards_G, advantages_G float64 [G].
"""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from upsolve.config import AdvantageConfig

__all__ = [
    "ADVANTAGES",
    "advantage",
    "asymre",
    "awr",
    "centred",
    "exponential",
    "leave_one_out",
    "passed",
    "standardised",
]

Floats = NDArray[np.float64]


def check(rewards_G: Floats) -> Floats:
    """Return the rewards as float64 [G]; ValueError unless they are finite and G >= 1."""
    rewards = np.asarray(rewards_G, dtype=np.float64)
    if rewards.ndim != 1 or rewards.size == 0 or not np.isfinite(rewards).all():
        raise ValueError(f"rewards must be finite and of shape [G], G >= 1; got {rewards!r}")
    return rewards


def passed(rewards_G: Floats, *, threshold: float = 1.0) -> Floats:
    """A_i = 1 if r_i >= threshold else 0: imitate what passed (SFT), ignore the rest."""
    return (check(rewards_G) >= threshold).astype(np.float64)


def centred(rewards_G: Floats) -> Floats:
    """A_i = r_i - mean(r) (Dr. GRPO, 2503.20783). A group of one gives 0."""
    rewards = check(rewards_G)
    return rewards - rewards.mean()


def leave_one_out(rewards_G: Floats) -> Floats:
    """A_i = r_i - mean_{j != i} r_j = G / (G - 1) (r_i - mean(r)) (RLOO, 2402.14740). A group of one gives 0.

    Unbiased when the attempts are independent draws from the policy; on an archive they are not.
    """
    rewards = check(rewards_G)
    if rewards.size == 1:
        return np.zeros(1)
    return rewards - (rewards.sum() - rewards) / (rewards.size - 1)


def standardised(rewards_G: Floats, *, ddof: int = 1, epsilon: float = 1e-6) -> Floats:
    """A_i = (r_i - mean(r)) / (std(r) + epsilon) (GRPO, 2402.03300).

    ``ddof`` 1 is the sample deviation (TRL), 0 the population deviation: one success in four gives 1.50 or 1.73. A group of
    one, or of equal rewards, gives 0 (verl gives a group of one its raw reward).
    """
    rewards = check(rewards_G)
    if rewards.size == 1:
        return np.zeros(1)
    return (rewards - rewards.mean()) / (rewards.std(ddof=ddof) + epsilon)


def exponential(rewards_G: Floats, *, beta: float = 1.0, max_weight: float = 20.0) -> Floats:
    """A_i = min(exp(beta (r_i - mean(r))), max_weight) (2605.28409, after AWAC 2006.09359): always positive.

    Advantage-weighted likelihood: a failed attempt is imitated too, only less.
    """
    return np.minimum(np.exp(beta * centred(rewards_G)), max_weight)


def awr(rewards_G: Floats, *, beta: float = 1.0, max_weight: float = 20.0) -> Floats:
    """A_i = min(exp((r_i - mean(r)) / beta), max_weight) / mean of the same (AWR, 1910.00177).

    Differs from ``exponential`` by the temperature's place and by weights that average one in every group.
    """
    weights = np.minimum(np.exp(centred(rewards_G) / beta), max_weight)
    return weights / weights.mean()


def asymre(rewards_G: Floats, *, delta: float = -0.1) -> Floats:
    """A_i = r_i - (mean(r) + delta) (AsymRE, 2506.20520).

    A baseline below the behaviour's mean stresses what passed; at or above it (delta >= 0) training off policy is known to
    collapse. A group of one gives 0.
    """
    rewards = check(rewards_G)
    return np.zeros(1) if rewards.size == 1 else rewards - (rewards.mean() + delta)


Estimator = Callable[[Floats], Floats]

ADVANTAGES: Mapping[str, Callable[[AdvantageConfig], Estimator]] = {
    "asymre": lambda c: partial(asymre, delta=c.delta),
    "awr": lambda c: partial(awr, beta=c.beta, max_weight=c.max_weight),
    "centred": lambda _: centred,
    "exponential": lambda c: partial(exponential, beta=c.beta, max_weight=c.max_weight),
    "leave_one_out": lambda _: leave_one_out,
    "passed": lambda _: passed,
    "standardised": lambda c: partial(standardised, ddof=c.ddof, epsilon=c.epsilon),
}
"""A recipe's name -> the estimator with its settings."""


def advantage(rewards_G: Floats, config: AdvantageConfig) -> Floats:
    """Apply the estimator a recipe names."""
    return ADVANTAGES[config.kind](config)(rewards_G)
