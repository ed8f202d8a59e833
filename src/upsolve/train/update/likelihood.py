"""Likelihood of stored attempts under the frozen start, for the columns ``start_logp`` and ``start_min_logp`` of ``select``."""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np

from upsolve.config import OptimConfig
from upsolve.reward.formula import Rewarded
from upsolve.reward.selection import Likelihood
from upsolve.train.data.encode import EncodedAttempt, EncodedGroup, Encoding, prompts_of
from upsolve.train.data.pack import plan_scoring
from upsolve.train.update.learner import Learner

__all__ = ["start_likelihoods"]

Pair = tuple[tuple[int, ...], tuple[int, ...]]
"""Token ids of a prompt and of an attempt."""


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
    codec, groups, ids = encoding.codec, list[EncodedGroup](), list[list[Pair]]()
    for item in rewarded:
        pairs = [*zip(prompts_of([item.group], codec)[0], map(codec.ids_of, item.group.attempts), strict=True)]
        fits = {(prompt, ids_R) for prompt, ids_R in pairs if ids_R and len(prompt) + len(ids_R) <= encoding.max_tokens}
        for prompt, same in groupby(sorted(fits), key=itemgetter(0)):
            attempts = tuple(EncodedAttempt(ids_R, np.zeros(len(ids_R), np.float32)) for _, ids_R in same)
            groups.append(EncodedGroup(prompt, attempts))
        ids.append(pairs)
    logps = learner.frozen_logps(plan_scoring(groups, optim))
    found = {
        (group.prompt_P, attempt.ids_R): Likelihood(float(logps[key].mean()), float(logps[key].min()))
        for group in groups
        for attempt, key in zip(group.attempts, group.attempt_keys(), strict=True)
    }
    return [[found.get(pair) for pair in pairs] for pairs in ids]
