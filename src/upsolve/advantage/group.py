"""Rewards -> advantages: of the attempts of a group, and of the tokens of an attempt (GAE). Small pure functions; numpy only.

Legend: G attempts of a group, c of them passed, p = c / G; passed_G bool [G]; rewards_G, advantages_G float64 [G].
rho(n, c, k) = 1 - C(n - c, k) / C(n, k): share of the subsets of k attempts that hold one that passed, an unbiased estimate of pass@k.
R tokens of an attempt, in order; rewards_R, values_R, advantages_R float64 [R]; values_R[t] is the value head's expectation of the
rewards from token t on, before t is known. T tokens of a round.
"""

from math import comb, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "LOGRATIO_LIMIT",
    "Bools",
    "Floats",
    "asymre",
    "awr",
    "centred",
    "check",
    "exponential",
    "gae",
    "leave_one_out",
    "max_at_k",
    "maxrl",
    "pass_at_k",
    "pkpo",
    "rho",
    "soft_values",
    "standardised",
    "subtract_kl",
    "unlikeliness",
    "whiten",
]

Floats = NDArray[np.float64]


def check(rewards_G: NDArray[Any]) -> Floats:
    """Return the rewards (or values) as float64 in one dimension; ValueError if there is none, or one is not finite."""
    rewards = np.asarray(rewards_G, dtype=np.float64)
    if rewards.ndim != 1 or rewards.size == 0 or not np.isfinite(rewards).all():
        raise ValueError(f"rewards and values must be finite, one-dimensional and not empty; got {rewards!r}")
    return rewards


def are_equal(rewards: Floats) -> bool:
    """Return whether all rewards are equal; estimators then return exactly 0 instead of rounding errors."""
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

    A baseline below the mean reward of the behaviour policy stresses passed attempts; with delta >= 0, training off policy is known to collapse. A
    group of one gives 0.
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
        raise ValueError(f"{rewards.size} rewards and {values.size} values; give one of each for each token")
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


Bools = NDArray[np.bool_]


def check_passes(passed_G: Bools) -> Floats:
    """Return passes as float64 [G]: 1 if passed, else 0; ValueError for any other value, such as a reward."""
    passes = check(passed_G)
    if not np.isin(passes, (0.0, 1.0)).all():
        raise ValueError(f"passes must be booleans (or 0 and 1), one for each attempt; got {passed_G!r}")
    return passes


def rho(n: int, c: int, k: int) -> float:
    """Return 1 - C(n - c, k) / C(n, k), the share of subsets of k of n attempts with at least one of the c that passed
    (ValueError: not within 0..n)."""
    if not (0 <= c <= n and 0 <= k <= n):
        raise ValueError(f"rho({n}, {c}, {k}): c and k must lie within 0..n")
    return 1.0 - comb(n - c, k) / comb(n, k)


def maxrl(passed_G: Bools) -> Floats:
    """A_i = (pass_i - p) / p; 0 where p = 0 (MaxRL, 2602.02710): the gradient of log p, so that rare passes count most.

    A group of one gives 0.
    """
    passes_G = check_passes(passed_G)
    rate = passes_G.mean()
    return (passes_G - rate) / rate if rate else np.zeros_like(passes_G)


def transformed(passes_G: Floats, k: int) -> Floats:
    """Return k if attempt i passed, else k rho(n - 1, c, k - 1): k times the share of its subsets of k that contain a passed attempt."""
    n, c = passes_G.size, int(passes_G.sum())
    failed = rho(n - 1, c, k - 1) if c < n else 0.0
    return k * np.where(passes_G > 0, 1.0, failed)


def pkpo(passed_G: Bools, *, k: int) -> Floats:
    """A_i = r_i - mean over j != i of r_j computed without attempt i (PKPO, 2505.15201).

    r_i = k if passed, else k rho(G - 1, c, k - 1): G times the paper's, which sums over a group where ``objective.reduce`` averages. An
    attempt that failed is rewarded for the passed attempts of its subsets; the baseline, computed without attempt i, compensates for that.
    The gradient of pass@k is unbiased if attempts are independent samples of the policy. k is at most G - 1 (a larger one counts as
    G - 1); k = 1 is ``leave_one_out`` of the passes. A group of one gives 0.
    """
    passes_G = check_passes(passed_G)
    if passes_G.size == 1:
        return np.zeros(1)
    most = min(k, passes_G.size - 1)
    baseline_G = np.array([transformed(np.delete(passes_G, i), most).mean() for i in range(passes_G.size)])
    return transformed(passes_G, most) - baseline_G


def pass_at_k(passed_G: Bools, *, k: int) -> Floats:
    """A_i = mean, over the subsets of k attempts that hold i, of the subset's whitened reward (pass@k training, 2508.10751).

    The reward of a subset is 1 if one of its attempts passed, else 0.
    With rho = rho(G, c, k) and sigma = sqrt(rho (1 - rho)): A_i = (1 - rho) / sigma if passed, else
    (1 - rho - C(G - c - 1, k - 1) / C(G - 1, k - 1)) / sigma; 0 where sigma = 0: no attempt passed, or every subset has one that did.
    k is at most G (a larger one counts as G).
    """
    passes_G = check_passes(passed_G)
    n, c = passes_G.size, int(passes_G.sum())
    size = min(k, n)
    rate = rho(n, c, size)
    sigma = sqrt(rate * (1 - rate))
    if not sigma:
        return np.zeros(n)
    alone = comb(n - c - 1, size - 1) / comb(n - 1, size - 1)
    return np.where(passes_G > 0, 1 - rate, 1 - rate - alone) / sigma


def max_at_k(rewards_G: Floats, *, k: int) -> Floats:
    """A_i = k E[max(0, r_i - max of S)], S a subset of k - 1 of the other attempts (RSPO, 2508.01174; 2505.15201).

    The gradient of max@k, of pass@k for rewards 0 and 1: there a pass gets k C(G - c, k - 1) / C(G - 1, k - 1), an estimate of
    k (1 - p)^(k - 1), and the other attempts of its subset get 0. Never below 0. k is in 2..G (a larger one counts as G):
    for k = 1 there is no other attempt to compare with. A group of one gives 0.

    Raises:
        ValueError: k is below 2.
    """
    rewards = check(rewards_G)
    if k < 2:
        raise ValueError(
            f"max_at_k compares an attempt with the best of k - 1 other attempts, so k must be at least 2, not {k}"
        )
    others = rewards.size - 1
    if others == 0:
        return np.zeros(1)
    most = min(k, rewards.size)
    size = most - 1
    # chance that the t-th smallest is the largest of S
    chance = np.array([comb(t, size - 1) / comb(others, size) for t in range(others)])
    gains = [chance @ np.maximum(reward - np.sort(np.delete(rewards, i)), 0.0) for i, reward in enumerate(rewards)]
    return most * np.array(gains)


def unlikeliness(rewards_G: Floats, logp_G: Floats, *, beta: float = 0.25, ddof: int = 1, epsilon: float = 1e-6) -> Floats:
    """``standardised`` of r_i (1 - beta rank_i / G), rank 0 for the least likely attempt, for rewards above 0 (2506.02355).

    Passed attempts that were unlikely under their author get the highest reward. This counters a policy that only sharpens its distribution.
    ``beta``, in [0, 1), is the share of its reward that the most likely attempt of a large group loses; ``logp_G`` are the log-probabilities of the
    attempts under their author, nats.

    Raises:
        ValueError: a log-probability is unknown (nan).
    """
    rewards = check(rewards_G)
    if np.isnan(logp_G).any():
        raise ValueError(
            "advantage.kind unlikeliness reads the author's log-probability of every attempt, and the archive has none for some: "
            "train online, or sample the archive with upsolve sample"
        )
    rank_G = np.argsort(np.argsort(logp_G, kind="stable"), kind="stable")
    lessened_G = np.where(rewards > 0, rewards * (1 - beta * rank_G / rewards.size), rewards)
    return standardised(lessened_G, ddof=ddof, epsilon=epsilon)
