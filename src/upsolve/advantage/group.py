"""Rewards -> advantages: of the attempts of a group, and of the tokens of an attempt (GAE). Small pure functions; numpy only.

Legend: G attempts of a group; rewards_G, advantages_G float64 [G]. R tokens of an attempt, in order; rewards_R, values_R, advantages_R
float64 [R]; values_R[t] is the value head's expectation of the rewards from token t on, before t is known. T tokens of a round.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "LOGRATIO_LIMIT",
    "Floats",
    "asymre",
    "awr",
    "centred",
    "check",
    "exponential",
    "gae",
    "leave_one_out",
    "soft_values",
    "standardised",
    "subtract_kl",
    "whiten",
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


LOGRATIO_LIMIT = 20.0
"""Log-ratios are clamped to +-20 nats before exp (e^20 = 4.9e8), as in ``objective.ratio``, so that no ratio is infinite."""


def subtract_kl(rewards_R: Floats, logratio_R: Floats, *, beta: float) -> Floats:
    """r_t - beta KL_t, KL_t = ref/pi - 1 + log pi/ref (k3), log-ratios of the policy that made the attempt (2605.21180).

    Log-ratios beyond +-``LOGRATIO_LIMIT`` count as the limit.
    """
    bounded_R = np.clip(logratio_R, -LOGRATIO_LIMIT, LOGRATIO_LIMIT)
    return rewards_R - beta * (np.expm1(-bounded_R) + bounded_R)


def gae(rewards_R: Floats, values_R: Floats, *, gamma: float = 1.0, decay: float = 0.95) -> tuple[Floats, Floats]:
    """A_t = d_t + gamma decay A_{t+1}, d_t = r_t + gamma V_{t+1} - V_t, V and A zero after the end (GAE, 1506.02438).

    ``decay`` is lambda: 1 gives the discounted future rewards minus V_t, unbiased; 0 gives d_t, as accurate as the value head.
    Returns advantages [R], and returns A_t + V_t [R], which the value head is to predict.

    Raises:
        ValueError: rewards and values differ in shape, or are not finite.
    """
    rewards, values = check(rewards_R), check(values_R)
    if rewards.shape != values.shape:
        raise ValueError(f"{rewards.size} rewards and {values.size} values; each token has one of each")
    delta_R = rewards + gamma * np.append(values[1:], 0.0) - values
    advantages_R, after = np.empty_like(delta_R), 0.0
    for t in range(delta_R.size - 1, -1, -1):
        after = advantages_R[t] = delta_R[t] + gamma * decay * after
    return advantages_R, advantages_R + values


def whiten(advantages_T: Floats, weights_T: Floats | None = None, *, epsilon: float = 1e-8) -> Floats:
    """(A - mean A) / (std A + epsilon), population deviation (ddof 0), over the tokens of a round. Equal advantages give 0.

    ``weights_T``, >= 0, is how much each token counts in mean and deviation: the number of equal attempts it stands for, 0
    where it is masked; None: 1. If all are 0, the advantages are returned unchanged.
    """
    advantages = check(advantages_T)
    weights = np.ones_like(advantages) if weights_T is None else weights_T
    if not weights.any():
        return advantages
    centred_T = advantages - np.average(advantages, weights=weights)
    return centred_T / (np.sqrt(np.average(centred_T**2, weights=weights)) + epsilon)
