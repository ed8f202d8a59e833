"""How likely stored attempts are under the frozen start: columns of ``select`` that tell the policy's own words from strangers'."""

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
    """Return mean and least log-probability of the tokens of every attempt under the frozen start, nats.

    They are computed once and cached by content, before the first step.

    Args:
        learner: the policy, before ``start_training``.
        encoding: tokenizer, and the longest prompt and attempt together.
        optim: token budget of a batch.
        rewarded: groups of attempts.

    Returns:
        One list a group, one entry an attempt: None where it is empty or too long to be trained on.
    """
    codec, groups, ids = encoding.codec, list[EncodedGroup](), list[list[tuple[int, ...]]]()
    for one in rewarded:
        prompt, ids_G = codec.prompt(one.group.task).ids_P, [codec.ids_of(attempt) for attempt in one.group.attempts]
        fits = {ids_R for ids_R in ids_G if ids_R and len(prompt) + len(ids_R) <= encoding.max_tokens}
        attempts = tuple(EncodedAttempt(ids_R, np.zeros(len(ids_R), np.float32)) for ids_R in sorted(fits))
        groups.append(EncodedGroup(prompt, attempts))
        ids.append(ids_G)
    logps = learner.start_logps([batch for step in plan_steps([g for g in groups if g.attempts], optim) for batch in step])
    known = [
        {attempt.ids_R: logps[key] for attempt, key in zip(group.attempts, group.attempt_keys(), strict=True)}
        for group in groups
    ]
    return [
        [Likelihood(float(of[ids_R].mean()), float(of[ids_R].min())) if ids_R in of else None for ids_R in ids_G]
        for of, ids_G in zip(known, ids, strict=True)
    ]
