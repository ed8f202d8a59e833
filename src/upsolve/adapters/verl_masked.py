"""verl: a reward manager and advantage estimators that leave unscored attempts out, for ``compute_score`` of ``upsolve.adapters.verl``.

A score of verl is a number, so an attempt that cannot be judged gets ``nan``, which the estimators ``upsolve_grpo`` and ``upsolve_rloo``
keep out of its group. Importing this module, as the trainer does for the manager, registers them.
"""
# pyright: reportMissingImports=false, reportUntypedBaseClass=false, reportUntypedFunctionDecorator=false

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager
from verl.trainer.ppo import core_algos

from upsolve.errors import JudgeError

__all__ = ["MaskingRewardManager", "upsolve_grpo", "upsolve_rloo"]

Advantages = tuple[torch.Tensor, torch.Tensor]


class MaskingRewardManager(NaiveRewardManager):
    """verl's naive manager, except that an attempt that cannot be judged gets the score ``nan`` instead of stopping the run.

    Every answer also has ``unscored`` (1.0 or 0.0), which verl logs beside ``acc`` and ``share``.
    """

    def __init__(self, config: Any, tokenizer: Any, compute_score: Callable[..., dict[str, float]], **options: Any) -> None:
        """Set up the manager; verl passes all arguments."""
        super().__init__(config, tokenizer, partial(scored_or_nan, compute_score), **options)


def scored_or_nan(compute_score: Callable[..., dict[str, float]], **row: Any) -> dict[str, float]:
    """Return the scores of an answer, or ``nan`` for each if it cannot be judged; and ``unscored``."""
    try:
        return {**compute_score(**row), "unscored": 0.0}
    except JudgeError:
        return {**dict.fromkeys(("score", "acc", "share"), math.nan), "unscored": 1.0}


def scored_alone(
    estimator: Callable[..., Advantages], rewards_BR: torch.Tensor, mask_BR: torch.Tensor, index: Any, **rest: Any
) -> Advantages:
    """Return advantages and returns [B, R] of an estimator over attempts with a score (no ``nan``); all others get 0."""
    known_B = ~rewards_BR.sum(-1).isnan()
    advantages_BR, returns_BR = torch.zeros_like(rewards_BR), torch.zeros_like(rewards_BR)
    if known_B.any():
        groups = index[known_B.cpu().numpy()]
        found = estimator(token_level_rewards=rewards_BR[known_B], response_mask=mask_BR[known_B], index=groups, **rest)
        advantages_BR[known_B], returns_BR[known_B] = found
    return advantages_BR, returns_BR


@core_algos.register_adv_est("upsolve_grpo")
def upsolve_grpo(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: Any, config: Any = None, **_: Any
) -> Advantages:
    """Return the advantages of ``grpo`` (2402.03300) without unscored attempts; ``norm_adv_by_std_in_grpo`` is read from ``config``."""
    divides = True if config is None else config.get("norm_adv_by_std_in_grpo", True)
    grpo = partial(core_algos.compute_grpo_outcome_advantage, norm_adv_by_std_in_grpo=divides)
    return scored_alone(grpo, token_level_rewards, response_mask, index)


@core_algos.register_adv_est("upsolve_rloo")
def upsolve_rloo(token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: Any, **_: Any) -> Advantages:
    """Return the advantages of ``rloo`` (2402.14740) without unscored attempts."""
    return scored_alone(core_algos.compute_rloo_outcome_advantage, token_level_rewards, response_mask, index)
