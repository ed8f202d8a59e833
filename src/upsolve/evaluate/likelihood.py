"""Likelihood of held-out passed programs under a model: a measure that does not depend on a sampling temperature."""

from collections.abc import Sequence
from itertools import islice

import numpy as np
import torch

from upsolve.evaluate.samples import SampledModel
from upsolve.policy.decoding.sample import LocalModel
from upsolve.train.data.encode import EncodedAttempt, EncodedGroup
from upsolve.train.data.groups import passed
from upsolve.train.data.pack import pack
from upsolve.train.update.reference_scorer import padded_scores
from upsolve.types import Attempt, Group

__all__ = ["heldout_likelihood"]

LONGEST = 2048
"""Largest number of tokens of prompt and program together; longer ones are left out."""


def heldout_likelihood(groups: Sequence[Group], sampled: SampledModel, *, max_tasks: int) -> tuple[float | None, int]:
    """Return the mean over tasks q of log pi(o | q) / |o| at temperature 1, nats per token, for one stored passed attempt o per task.

    Args:
        groups: judged attempts at held-out tasks; the first passed attempt of each group is scored.
        sampled: the model; where it is loaded already, it is not loaded again.
        max_tasks: largest number of tasks; 0: none.

    Returns:
        The mean (None if no attempt passed, or the model is not in this process), and the number of tasks it is over.

    Raises:
        ModelError: the model or its tokenizer cannot be loaded.
    """
    passing = ((group.task, attempt) for group in groups if (attempt := first_passed(group)) is not None)
    programs = [*islice(passing, max_tasks)]
    if not programs:
        return None, 0
    local = sampled.sampler
    if not isinstance(local, LocalModel):
        return None, 0
    policy, codec = local.model.eval(), local.codec
    means: list[float] = []
    for task, attempt in programs:
        prompt, ids = codec.prompt(task).ids_P, codec.ids_of(attempt)
        if ids and len(prompt) + len(ids) <= LONGEST:
            encoded = EncodedGroup(prompt, (EncodedAttempt(ids, np.zeros(len(ids), dtype=np.float32)),))
            with torch.inference_mode():
                means.append(float(padded_scores(policy, pack([[encoded]])).logp_T.mean()))
    return (float(np.mean(means)) if means else None), len(means)


def first_passed(group: Group) -> Attempt | None:
    """Return the first attempt of a group that passed; None if none did."""
    return next((attempt for attempt, verdict in zip(group.attempts, group.verdicts, strict=True) if passed(verdict)), None)
