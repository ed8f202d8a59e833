"""Log-ratios between the policy and a reference, KL estimates from them, and the reduction of token losses to one number.

Legend: T tokens of all attempts in a micro-batch, one after the other; S attempts; attempt_T maps a token to its attempt. ``attempts`` and
``tokens`` are counts over the whole optimiser step: denominators are arguments, so that micro-batches add up to one batch.
"""

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor

from upsolve.advantage.group import LOGRATIO_LIMIT
from upsolve.config import ObjectiveConfig

__all__ = ["KL", "REDUCTIONS", "bounded", "effective_sample_size", "k3", "mean_by_attempt", "sum_by_attempt"]


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
"""A recipe's name -> estimate."""


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
"""A recipe's name -> reduction with its settings."""
