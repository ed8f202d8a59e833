"""Log-ratios between policies: KL estimates, importance weights, and the reduction of token losses to one number.

Legend: T tokens of all attempts in a micro-batch, one after the other; S attempts; attempt_T maps a token to its attempt. ``attempts`` and
``tokens`` are counts over the whole optimiser step: denominators are arguments, so that micro-batches add up to one batch.

mu is the policy that sampled the attempts (vLLM in bfloat16, the policy of an earlier round, a stored author), pi_old the policy at the start of the
round under the trainer's own forward pass. k_t = pi_old(o_t)/mu(o_t), with the log-ratio ``bounded``; 1 where log mu is unknown (nan).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from upsolve.advantage.group import LOGRATIO_LIMIT
from upsolve.config import ObjectiveConfig

__all__ = [
    "KL",
    "REDUCTIONS",
    "Drift",
    "bounded",
    "drift",
    "effective_sample_size",
    "icepop",
    "k3",
    "mean_by_attempt",
    "sum_by_attempt",
    "tis",
    "unknown_as_equal",
]


def bounded(logratio: Tensor) -> Tensor:
    """Return the log-ratio clamped to +-``LOGRATIO_LIMIT`` (20 nats), so that its exp is finite: at most 4.9e8 (float32 and bfloat16; float16 overflows).

    Beyond the limit there is no gradient. verl and TRL clamp at the same place; an infinite ratio times an advantage of 0 is NaN.
    """
    return logratio.clamp(-LOGRATIO_LIMIT, LOGRATIO_LIMIT)


def sum_by_attempt(values_T: Tensor, attempt_T: Tensor, attempts: int) -> Tensor:
    """Return [S]: the sum of the values over each attempt's tokens."""
    return torch.zeros(attempts, dtype=values_T.dtype, device=values_T.device).index_add(0, attempt_T, values_T)


def mean_by_attempt(values_T: Tensor, attempt_T: Tensor, attempts: int) -> Tensor:
    """Return [S]: the mean of the values over each attempt's tokens; 0 for an attempt without any."""
    length_S = sum_by_attempt(torch.ones_like(values_T), attempt_T, attempts)
    return sum_by_attempt(values_T, attempt_T, attempts) / length_S.clamp(min=1)


def k1(logratio: Tensor) -> Tensor:
    """KL(pi || ref) estimate k1 = log pi/ref: unbiased on samples of pi, may be negative (joschu.net/blog/kl-approx).

    Useless as a loss: its gradient is that of log pi, with mean zero on samples of pi.
    """
    return logratio


def k2(logratio: Tensor) -> Tensor:
    """KL estimate k2 = (log pi/ref)^2 / 2: biased, low variance, >= 0; as a loss on samples of pi it has the gradient of the KL."""
    return logratio.square() / 2


def k3(logratio: Tensor) -> Tensor:
    """KL estimate k3 = ref/pi - 1 + log pi/ref: unbiased on samples of pi, >= 0. The log-ratio is ``bounded``."""
    limited = bounded(logratio)
    return torch.expm1(-limited) + limited


KL: Mapping[str, Callable[[Tensor], Tensor]] = {"k1": k1, "k2": k2, "k3": k3}
"""Name in a recipe (``kl.estimator``) -> estimate."""


def effective_sample_size(logratio_S: Tensor) -> Tensor:
    """(sum w)^2 / (S sum w^2) with w = exp(log-ratio of an attempt), in (0, 1]: 1 when all attempts weigh the same."""
    log_w = logratio_S.double()
    return torch.exp(2 * log_w.logsumexp(0) - (2 * log_w).logsumexp(0)) / log_w.numel()


def sequence_sum(loss_T: Tensor, _attempt_T: Tensor, *, attempts: int, tokens: int) -> Tensor:
    """sum_t loss_t / attempts: the log-probability of a whole attempt; long attempts weigh more. ``tokens`` is unused."""
    del tokens
    return loss_T.sum() / attempts


def token_mean(loss_T: Tensor, _attempt_T: Tensor, *, attempts: int, tokens: int) -> Tensor:
    """sum_t loss_t / tokens: every token of the step weighs the same (DAPO, 2503.14476). ``attempts`` is unused."""
    del attempts
    return loss_T.sum() / tokens


def sequence_mean(loss_T: Tensor, attempt_T: Tensor, *, attempts: int, tokens: int) -> Tensor:
    """sum_s (1/|o_s|) sum_t loss_t / attempts: every attempt weighs the same (GRPO, 2402.03300). ``tokens`` is unused."""
    del tokens
    count = int(attempt_T.max()) + 1 if attempt_T.numel() else 0
    length_S = sum_by_attempt(torch.ones_like(loss_T), attempt_T, count)
    return (loss_T / length_S[attempt_T]).sum() / attempts


def constant_length(loss_T: Tensor, _attempt_T: Tensor, *, attempts: int, tokens: int, length: int) -> Tensor:
    """sum_t loss_t / (attempts length), ``length`` fixed for the run: every token weighs the same in every batch (Dr. GRPO,
    2503.20783)."""
    del tokens
    return loss_T.sum() / (attempts * length)


REDUCTIONS: Mapping[str, Callable[[ObjectiveConfig], Callable[..., Tensor]]] = {
    "constant_length": lambda c: partial(constant_length, length=c.length),
    "sequence_mean": lambda _: sequence_mean,
    "sequence_sum": lambda _: sequence_sum,
    "token_mean": lambda _: token_mean,
}
"""Name in a recipe (``objective.reduce``) -> reduction with its settings."""


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
    """Return log pi_old/mu [T], nats, ``bounded``; 0 for tokens whose log mu is unknown (nan)."""
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
