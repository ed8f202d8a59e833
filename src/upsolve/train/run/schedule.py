"""Rounds ready to train on, learning-rate schedule, total steps and tokens of a run; held-out batches."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from upsolve.config import OptimConfig, SourceConfig
from upsolve.policy.tokens import Codec
from upsolve.reward.judged import group_of
from upsolve.train.data.encode import EncodedAttempt, EncodedGroup, prompts_of
from upsolve.train.data.groups import failed, passed
from upsolve.train.data.pack import PackedBatch, plan_scoring
from upsolve.train.update.step import FrozenScores
from upsolve.types import Group

__all__ = ["Round", "Schedule", "expected_tokens", "heldout_batches", "learning_rate"]


@dataclass(frozen=True, slots=True)
class Round:
    """A round, ready to train on."""

    number: int
    """From 0 (offline: the epoch)."""
    steps: list[list[PackedBatch]]
    """Micro-batches of every optimizer step."""
    scores: FrozenScores
    """Scores of other policies that the loss needs."""
    groups: int
    """Number of groups trained on."""
    left_out: Counter[str]
    """Attempts and tasks that are not trained on, by reason."""
    flagged: Counter[str]
    """Scored attempts that are truncated or that a detector flagged, by its name."""
    metrics: Mapping[str, float]
    """Metrics of its new samples and values, for the log."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The learning rate over a run."""

    optim: OptimConfig
    """Peak learning rate, decay and warm-up."""
    rounds: int
    """Rounds of the run (offline: epochs, or parts of epochs)."""
    total_steps: int | None
    """Steps of the run before ``optim.max_steps``; None where they are unknown in advance (online, and where an epoch has several rounds):
    all rounds are assumed as long as the current one."""

    def position(self, step: int, number: int, in_round: int, steps: int) -> tuple[int, int]:
        """Return the index of the next step, from 0, and the total number of steps.

        Args:
            step: steps done.
            number: the current round, from 0.
            in_round: steps done in it.
            steps: steps of the round.
        """
        known, most = self.total_steps is not None, self.optim.max_steps
        total = self.rounds * steps if self.total_steps is None else self.total_steps
        return (step, min(total, most or total)) if known or 0 < most < total else (number * steps + in_round, total)


def learning_rate(step: int, steps: int, optim: OptimConfig) -> float:
    """Return the learning rate of a step, from 0: linear warm-up, then constant, or linear or cosine decay towards zero."""
    warmup = math.ceil(optim.warmup * steps)
    if step < warmup:
        return optim.lr * (step + 1) / (warmup + 1)
    done = (step - warmup) / max(1, steps - warmup)
    factor = {"constant": 1.0, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}[optim.schedule]
    return optim.lr * factor


def expected_tokens(ahead: Sequence[Round], source: SourceConfig, optim: OptimConfig, *, group_size: int) -> float:
    """Return the expected number of tokens of a run; online, half of the longest completions of all rounds.

    Infinity where an epoch has several rounds: such an archive is large.
    """
    if ahead:
        sizes = [sum(batch.ids_BL.size for batch in step) for now in ahead for step in now.steps]
        return sum(sizes[: optim.max_steps or None])
    if not source.rounds:
        return optim.max_steps * optim.tokens_per_batch or math.inf
    return source.rounds * source.groups * optim.epochs * group_size * source.rollout.max_tokens / 2


def heldout_batches(
    groups: Sequence[Group], codec: Codec, optim: OptimConfig, *, max_pairs: int, max_tokens: int
) -> list[PackedBatch]:
    """Pack up to ``max_pairs`` held-out pairs, a passed and a failed attempt of a task, with advantages 1 and -1.

    Attempts over ``max_tokens`` (prompt and attempt) are left out.
    """
    encoded: list[EncodedGroup] = []
    pairs = 0
    for group in groups:
        good = [i for i, verdict in enumerate(group.verdicts) if passed(verdict)]
        bad = [i for i, verdict in enumerate(group.verdicts) if failed(verdict)]
        if pairs == max_pairs:
            break
        if not good or not bad:
            continue
        pairs += 1
        pair = group_of(group, (good[-1], bad[-1]))
        by_prompt: dict[tuple[int, ...], list[EncodedAttempt]] = {}
        for prompt, attempt, sign in zip(prompts_of([pair], codec)[0], pair.attempts, (1, -1), strict=True):
            ids = codec.ids_of(attempt)
            if ids and len(prompt) + len(ids) <= max_tokens:
                by_prompt.setdefault(prompt, []).append(EncodedAttempt(ids, np.full(len(ids), sign, dtype=np.float32)))
        encoded += [EncodedGroup(prompt, tuple(attempts)) for prompt, attempts in by_prompt.items()]
    return plan_scoring(encoded, optim)
