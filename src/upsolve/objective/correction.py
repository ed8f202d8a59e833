"""Importance weights for samples whose sampler differs from the trainer: another engine, another precision, an older policy.

Legend: T tokens of all attempts of a batch. mu is what sampled the attempts (vLLM in bfloat16, the policy of an earlier round, a
stored author), pi_old the policy at the start of the round under the trainer's own forward pass. k_t = pi_old(o_t)/mu(o_t), with the
log-ratio ``bounded``. If log mu is unknown (nan), the weight is 1.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from upsolve.objective.ratio import bounded, k3

__all__ = ["Drift", "drift", "icepop", "tis", "unknown_as_equal"]


@dataclass(frozen=True, slots=True)
class Drift:
    """Difference between sampler and trainer, over the tokens of a batch with known sampler log-probabilities."""

    tokens: int
    """Number of tokens whose log mu is known."""
    absolute: float
    """Sum of |log pi_old/mu|, nats."""
    k3: float
    """Sum of k3(log mu/pi_old), nats: estimates KL(mu || pi_old)."""
    most: float
    """Largest |log pi_old/mu|, nats; 0 if no token is known."""


def unknown_as_equal(old_T: Tensor, sampler_T: Tensor) -> Tensor:
    """Return log pi_old/mu [T], bounded; 0 where log mu is nan."""
    return bounded(torch.where(sampler_T.isnan(), 0.0, old_T - sampler_T.nan_to_num()))


def tis(logratio_T: Tensor, *, cap: float) -> Tensor:
    """w_t = min(k_t, cap): truncated importance sampling (the truncated weights of IMPALA, 1802.01561), from log pi_old/mu.

    Unbiased for an infinite ``cap``; a finite one bounds the variance and adds bias.
    """
    return bounded(logratio_T).exp().clamp(max=cap)


def icepop(logratio_T: Tensor, *, low: float, high: float) -> Tensor:
    """w_t = k_t where low <= k_t <= high, else 0 (IcePop, 2510.18855): tokens on which the engines disagree are masked."""
    ratio_T = bounded(logratio_T).exp()
    return ratio_T * ((ratio_T >= low) & (ratio_T <= high))


def drift(old_T: Tensor, sampler_T: Tensor) -> Drift:
    """Return the difference between sampler and trainer, log pi_old and log mu [T], nats, over the tokens whose log mu is
    known."""
    known = ~sampler_T.isnan()
    logratio_K = (old_T - sampler_T)[known].double()
    most = float(logratio_K.abs().max()) if len(logratio_K) else 0.0
    return Drift(len(logratio_K), float(logratio_K.abs().sum()), float(k3(-logratio_K).sum()), most)
