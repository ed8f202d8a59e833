"""Rewards of a group -> advantages of its attempts. Small pure functions; numpy only.

Legend: G attempts of a group; rewards_G, advantages_G float64 [G].
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Floats",
    "asymre",
    "awr",
    "centred",
    "check",
    "exponential",
    "leave_one_out",
    "soft_values",
    "standardised",
]

Floats = NDArray[np.float64]


def check(rewards_G: NDArray[Any]) -> Floats:
    """Return the rewards (or values) as float64 in one dimension; ValueError unless they are finite and there is one."""
    rewards = np.asarray(rewards_G, dtype=np.float64)
    if rewards.ndim != 1 or rewards.size == 0 or not np.isfinite(rewards).all():
        raise ValueError(f"rewards and values must be finite, in one dimension, at least one; got {rewards!r}")
    return rewards


def are_equal(rewards: Floats) -> bool:
    """Return whether all rewards are equal; their advantages are then set to 0, since those computed would be rounding errors."""
    return bool((rewards == rewards[0]).all())


def centred(rewards_G: Floats) -> Floats:
    """A_i = r_i - mean(r) (Dr. GRPO, 2503.20783). A group of one, or of equal rewards, gives exactly 0."""
    rewards = check(rewards_G)
    return np.zeros_like(rewards) if are_equal(rewards) else rewards - rewards.mean()


def leave_one_out(rewards_G: Floats) -> Floats:
    """A_i = r_i - mean_{j != i} r_j = G / (G - 1) (r_i - mean(r)) (RLOO, 2402.14740). A group of one, or of equal rewards,
    gives exactly 0.

    Unbiased when the attempts are independent samples of the policy; on an archive they are not.
    """
    rewards = check(rewards_G)
    if are_equal(rewards):
        return np.zeros_like(rewards)
    return rewards - (rewards.sum() - rewards) / (rewards.size - 1)


def standardised(rewards_G: Floats, *, ddof: int = 1, epsilon: float = 1e-6) -> Floats:
    """A_i = (r_i - mean(r)) / (std(r) + epsilon) (GRPO, 2402.03300).

    ``ddof`` 1 is the sample deviation (TRL), 0 the population deviation: one success in four gives 1.50 or 1.73. A group of
    one, or of equal rewards, gives exactly 0 (verl gives a group of one its raw reward).
    """
    rewards = check(rewards_G)
    if are_equal(rewards):
        return np.zeros_like(rewards)
    return (rewards - rewards.mean()) / (rewards.std(ddof=ddof) + epsilon)


def exponential(
    rewards_G: Floats,
    *,
    beta: float = 1.0,
    clip: float | None = 1.0,
    max_weight: float = 20.0,
    ddof: int = 1,
    epsilon: float = 1e-6,
) -> Floats:
    """A_i = min(exp(beta clip(a_i, -c, c)), max_weight), a_i from ``standardised`` (2605.28409, after AWAC 2006.09359).

    Always positive, in [0.37, 2.72] for beta 1 and c 1: a failed attempt is imitated too, only less. A group of one gives 1.
    ``clip`` is c; None: a_i is not clipped.
    """
    normalised = standardised(rewards_G, ddof=ddof, epsilon=epsilon)
    if clip is not None:
        normalised = np.clip(normalised, -clip, clip)
    return capped_exp(beta * normalised, max_weight)


def capped_exp(exponents: Floats, cap: float) -> Floats:
    """Return min(exp(x), cap) without overflow."""
    return np.minimum(np.exp(np.minimum(exponents, np.log(cap))), cap)


def awr(rewards_G: Floats, *, beta: float = 1.0, max_weight: float = 20.0) -> Floats:
    """A_i = min(exp((r_i - mean(r)) / beta), max_weight) / mean of the same (AWR, 1910.00177).

    Unlike ``exponential``, rewards are centred but not divided by their deviation, and the weights of every group average 1.
    """
    weights = capped_exp(centred(rewards_G) / beta, max_weight)
    return weights / weights.mean()


def asymre(rewards_G: Floats, *, delta: float = -0.1) -> Floats:
    """A_i = r_i - (mean(r) + delta) (AsymRE, 2506.20520).

    A baseline below the behaviour's mean stresses what passed; at or above it (delta >= 0) training off policy is known to
    collapse. A group of one gives 0.
    """
    rewards = check(rewards_G)
    return np.zeros(1) if rewards.size == 1 else rewards - (rewards.mean() + delta)


def soft_values(rewards_G: Floats, *, beta: float) -> Floats:
    """r_i - V, V = beta log mean exp(r / beta) over the group (OAPL, 2602.19362): V lies between the mean and the best reward."""
    rewards = check(rewards_G)
    return rewards - beta * (np.logaddexp.reduce(rewards / beta) - np.log(rewards.size))
