"""Advantages for pass@k, and for rare passes. Small pure functions; numpy only.

Legend: G attempts of a group, c of them passed, p = c / G; passed_G bool [G]; rewards_G, advantages_G float64 [G].
rho(n, c, k) = 1 - C(n - c, k) / C(n, k): share of the subsets of k attempts that hold one that passed, an unbiased estimate of pass@k.
"""

from math import comb, sqrt

import numpy as np
from numpy.typing import NDArray

from upsolve.advantage.group import Floats, check, standardised

__all__ = ["Bools", "max_at_k", "maxrl", "pass_at_k", "pkpo", "rho", "unlikeliness"]


Bools = NDArray[np.bool_]


def check_passes(passed_G: Bools) -> Floats:
    """Return passes as float64 [G]: 1 if passed, else 0; ValueError if some are neither, such as rewards."""
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
    """Advantages of subsets of k, as whitened rewards 0 or 1, averaged over the subsets that hold attempt i (pass@k training, 2508.10751).

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
    chance = np.array(
        [comb(t, size - 1) / comb(others, size) for t in range(others)]
    )  # that the t-th smallest is the largest of S
    gains = [chance @ np.maximum(reward - np.sort(np.delete(rewards, i)), 0.0) for i, reward in enumerate(rewards)]
    return most * np.array(gains)


def unlikeliness(rewards_G: Floats, logp_G: Floats, *, beta: float = 0.25, ddof: int = 1, epsilon: float = 1e-6) -> Floats:
    """``standardised`` of r_i (1 - beta rank_i / G), rank 0 for the least likely attempt, for rewards above 0 (2506.02355).

    Passed attempts that were unlikely under their author get the highest reward, which counters a policy that only becomes more
    certain of what it already does. ``beta``, in [0, 1), is the share of its reward that the most likely attempt of a large
    group loses; ``logp_G`` are the log-probabilities of the attempts under their author, nats.

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
