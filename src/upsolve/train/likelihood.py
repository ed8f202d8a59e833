"""Likelihood of stored attempts under the frozen start, for the columns ``start_logp`` and ``start_min_logp`` of ``select``."""

from collections.abc import Sequence

import numpy as np

from upsolve.config import OptimConfig
from upsolve.reward.formula import Rewarded
from upsolve.reward.selection import Likelihood
from upsolve.train.encode import EncodedAttempt, EncodedGroup, Encoding
from upsolve.train.learner import Learner
from upsolve.train.pack import plan_steps

__all__ = ["start_likelihoods"]


def start_likelihoods(
    learner: Learner, encoding: Encoding, optim: OptimConfig, rewarded: Sequence[Rewarded]
) -> list[list[Likelihood | None]]:
    """Return the mean and the smallest log-probability of each attempt's tokens under the frozen start, nats.

    Those that are computed before the first step are cached by content.

    Args:
        learner: the policy.
        encoding: tokenizer, and the token limit of prompt and attempt together.
        optim: token budget of a micro-batch.
        rewarded: groups of attempts.

    Returns:
        One list per group with one entry per attempt; None for attempts that are empty or too long to be trained on.
    """
    codec, groups, ids = encoding.codec, list[EncodedGroup](), list[list[tuple[int, ...]]]()
    for item in rewarded:
        prompt, ids_G = codec.prompt(item.group.task).ids_P, [codec.ids_of(attempt) for attempt in item.group.attempts]
        fits = {ids_R for ids_R in ids_G if ids_R and len(prompt) + len(ids_R) <= encoding.max_tokens}
        attempts = tuple(EncodedAttempt(ids_R, np.zeros(len(ids_R), np.float32)) for ids_R in sorted(fits))
        groups.append(EncodedGroup(prompt, attempts))
        ids.append(ids_G)
    logps = learner.frozen_logps([batch for step in plan_steps([g for g in groups if g.attempts], optim) for batch in step])
    logps_by_group = [
        {attempt.ids_R: logps[key] for attempt, key in zip(group.attempts, group.attempt_keys(), strict=True)}
        for group in groups
    ]
    return [
        [
            Likelihood(float(group_logps[ids_R].mean()), float(group_logps[ids_R].min())) if ids_R in group_logps else None
            for ids_R in ids_G
        ]
        for group_logps, ids_G in zip(logps_by_group, ids, strict=True)
    ]
