"""Rewards of tokens -> advantages of tokens (GAE), and whitening over a round. Small pure functions; numpy only.

Legend: R tokens of an attempt, in order; rewards_R, values_R, advantages_R float64 [R]; values_R[t] is the value head's expectation of
the rewards from token t on, before t is known. T tokens of all attempts of a round.
"""

import numpy as np

from upsolve.advantage.group import Floats, check

__all__ = ["LOGRATIO_LIMIT", "gae", "subtract_kl", "whiten"]

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


def whiten(advantages_T: Floats, weights_T: Floats | None = None, *, epsilon: float = 1e-8) -> Floats:
    """(A - mean A) / (std A + epsilon), population deviation (ddof 0), over the tokens of a round. Equal advantages give 0.

    Args:
        advantages_T: [T].
        weights_T: [T], >= 0, how much each token counts in mean and deviation: the number of equal attempts it stands for, 0 where it
            is masked; None: 1. If all are 0, the advantages are returned unchanged.
        epsilon: added to the deviation.
    """
    advantages = check(advantages_T)
    weights = np.ones_like(advantages) if weights_T is None else weights_T
    if not weights.any():
        return advantages
    centred_T = advantages - np.average(advantages, weights=weights)
    return centred_T / (np.sqrt(np.average(centred_T**2, weights=weights)) + epsilon)
