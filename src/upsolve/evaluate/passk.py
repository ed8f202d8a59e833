"""The unbiased estimators of pass@k (one of k samples passes) and of pass^k (all of k samples pass)."""

from collections.abc import Sequence

import numpy as np

from upsolve.evaluate.records import TaskScore

__all__ = ["all_pass_at_k", "pass_at_k", "task_all_pass_at_k", "task_pass_at_k"]


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """Return 1 - C(n - c, k) / C(n, k), the probability that k samples, taken from n without replacement, contain one of the c passed ones.

    The unbiased estimator of pass@k (2107.03374), in [0, 1]. Returns None for n < k, where it is undefined.

    Raises:
        ValueError: not 0 <= c <= n, or k < 1.
    """
    if not 0 <= c <= n or k < 1:
        raise ValueError(f"pass@k needs 0 <= c <= n and k >= 1, got n={n}, c={c}, k={k}")
    if n < k:
        return None
    return 1.0 if n - c < k else float(1.0 - np.prod(1.0 - k / np.arange(n - c + 1, n + 1)))


def all_pass_at_k(n: int, c: int, k: int) -> float | None:
    """Return C(c, k) / C(n, k), the probability that k samples, taken from n without replacement, are all among the c passed ones.

    The unbiased estimator of pass^k (2406.12045), in [0, 1]; for k = 1 it is pass@1. Returns None for n < k, where it is undefined.

    Raises:
        ValueError: not 0 <= c <= n, or k < 1.
    """
    missed = pass_at_k(n, n - c, k) if c <= n else pass_at_k(n, c, k)
    return None if missed is None else 1.0 - missed


def task_pass_at_k(scores: Sequence[TaskScore], k: int) -> dict[str, float]:
    """Return pass@k of every task for which it is defined, by task id."""
    values = {score.task_id: pass_at_k(score.samples, score.passed, k) for score in scores}
    return {name: value for name, value in values.items() if value is not None}


def task_all_pass_at_k(scores: Sequence[TaskScore], k: int) -> dict[str, float]:
    """Return pass^k of every task for which it is defined, by task id."""
    values = {score.task_id: all_pass_at_k(score.samples, score.passed, k) for score in scores}
    return {name: value for name, value in values.items() if value is not None}
