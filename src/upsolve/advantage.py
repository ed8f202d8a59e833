"""Rewards -> advantages: of the attempts of one group, or of the tokens of one attempt. Small pure functions; numpy only.

Legend: G attempts of a group; rewards_G, advantages_G float64 [G]. R tokens of an attempt, the last one ends it; rewards_R,
values_R, advantages_R float64 [R]; values_R[t] is what the value head expects of token t and all after it, before t is known.
T tokens of all attempts of a step.
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
    "gae",
    "leave_one_out",
    "less_kl",
    "passed",
    "standardised",
    "whiten",
]

Floats = NDArray[np.float64]


def check(rewards_G: Floats) -> Floats:
    """Return the rewards (or values) as float64 in one dimension; ValueError unless they are finite and there is one."""
    rewards = np.asarray(rewards_G, dtype=np.float64)
    if rewards.ndim != 1 or rewards.size == 0 or not np.isfinite(rewards).all():
        raise ValueError(f"rewards and values must be finite, in one dimension, at least one; got {rewards!r}")
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


def less_kl(rewards_R: Floats, logratio_R: Floats, *, beta: float) -> Floats:
    """r_t - beta KL_t, KL_t = ref/pi - 1 + log pi/ref (k3), log-ratios of the policy that made the attempt (2605.21180)."""
    return rewards_R - beta * (np.expm1(-logratio_R) + logratio_R)


def gae(rewards_R: Floats, values_R: Floats, *, gamma: float = 1.0, decay: float = 0.95) -> tuple[Floats, Floats]:
    """A_t = d_t + gamma decay A_{t+1}, d_t = r_t + gamma V_{t+1} - V_t, V and A zero after the end (GAE, 1506.02438).

    ``decay`` is lambda: 1 gives the discounted rewards to come less V_t, unbiased; 0 gives d_t, as good as the value head.

    Returns:
        Advantages [R], and returns A_t + V_t [R], which the value head is to predict.

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


def whiten(advantages_T: Floats, *, epsilon: float = 1e-8) -> Floats:
    """(A - mean A) / (std A + epsilon), population deviation (ddof 0), over all tokens of a step. Equal advantages give 0."""
    advantages = check(advantages_T)
    return (advantages - advantages.mean()) / (advantages.std() + epsilon)


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
"""A recipe's name -> the estimator with its settings, for those that read a group's rewards."""


def advantage(rewards_G: Floats, config: AdvantageConfig) -> Floats:
    """Apply the estimator a recipe names.

    Raises:
        ValueError: it is ``gae``, which reads the values of tokens.
    """
    if config.kind not in ADVANTAGES:
        raise ValueError(
            f"advantage.kind {config.kind} reads a value head's values and has none here; it is for online training"
        )
    return ADVANTAGES[config.kind](config)(rewards_G)
