"""Token losses -> one number. The denominator is an argument, so that the micro-batches of a step add up to one batch.

Legend: T tokens, S attempts of this micro-batch; ``attempts`` and ``tokens`` are counts over the whole optimiser step.
"""

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor

from upsolve.config import ObjectiveConfig
from upsolve.objective.ratio import sum_by_attempt

__all__ = ["REDUCTIONS", "constant_length", "sequence_mean", "sequence_sum", "token_mean"]


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
    """sum_t loss_t / (attempts length): every token has the same weight in every batch (Dr. GRPO, 2503.20783).

    ``length`` is fixed for the run, such as the longest completion, in tokens. ``tokens`` is unused.
    """
    del tokens
    return loss_T.sum() / (attempts * length)


REDUCTIONS: Mapping[str, Callable[[ObjectiveConfig], Callable[..., Tensor]]] = {
    "constant_length": lambda c: partial(constant_length, length=c.length),
    "sequence_mean": lambda _: sequence_mean,
    "sequence_sum": lambda _: sequence_sum,
    "token_mean": lambda _: token_mean,
}
"""A recipe's name -> reduction with its settings."""
