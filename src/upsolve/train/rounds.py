"""What a round trains on, from groups with advantages to packed steps, with the frozen scores that the loss reads."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from upsolve.config import AdvantageConfig, DataConfig, ObjectiveConfig, OptimConfig, SelectConfig
from upsolve.reward.formula import Rewarded
from upsolve.reward.selection import choose
from upsolve.train.encode import EncodedGroup
from upsolve.train.groups import TrainGroups, draw_groups, whole_groups
from upsolve.train.judging import sample_metrics
from upsolve.train.learner import Learner
from upsolve.train.pack import PackedBatch, plan_steps
from upsolve.train.pairs import draw_pairs
from upsolve.train.reference import save_arrays
from upsolve.train.sources import RoundGroups
from upsolve.train.step import ByAttempt, FrozenScores
from upsolve.train.values import value_metrics, with_gae
from upsolve.types import Group

__all__ = ["Round", "advantages_of", "pack_round", "round_metrics", "score_now", "score_start"]


@dataclass(frozen=True, slots=True)
class Round:
    """A round, ready to train on."""

    number: int
    """From 0 (offline: the epoch)."""
    steps: list[list[PackedBatch]]
    """Micro-batches of every optimizer step."""
    scores: FrozenScores
    """What the loss reads besides the policy."""
    groups: int
    """Groups among its steps."""
    left_out: Counter[str]
    """Attempts and tasks that are not trained on, by reason."""
    flagged: Counter[str]
    """Scored attempts that are truncated or that a detector flagged, by its name."""
    metrics: Mapping[str, float]
    """Of its new samples and values, for the log."""


def advantages_of(
    fresh: Sequence[Rewarded],
    stored: Sequence[Rewarded],
    taken: RoundGroups,
    *,
    data: DataConfig,
    advantage: AdvantageConfig,
    objective: ObjectiveConfig,
    select: SelectConfig | None = None,
) -> TrainGroups:
    """Select from the groups of a round, and give those that stay advantages.

    Args:
        fresh: samples of the policy: trained on as the groups that they are; pairs are drawn from them if the objective compares pairs.
        stored: all attempts of tasks: groups or pairs are drawn from them.
        taken: the round's number (another one draws other groups), and the most groups of ``stored``; None: all that are drawn.
        data: group size, groups a task, seed.
        advantage: the estimator.
        objective: what it compares.
        select: which groups and attempts stay, with which weights and in which order; None: all.
    """
    number, most, ordered = taken.number, taken.most_stored, bool(select and select.order)
    pairs, kind = objective.record.unit == "pair", objective.preference.pairs
    new, old = (choose(some, select or SelectConfig(), number=number, seed=data.seed) for some in (fresh, stored))
    made = (
        draw_pairs(new.rewarded, data, kind, epoch=number) if pairs else whole_groups(new.rewarded, advantage, seed=data.seed)
    )
    drawn = (
        draw_pairs(old.rewarded, data, kind, epoch=number)
        if pairs
        else draw_groups(old.rewarded, data, advantage, epoch=number, in_order=ordered)
    )
    made, drawn = (replace(one, left_out=one.left_out + part.left_out) for one, part in ((made, new), (drawn, old)))
    if most is None:
        return drawn
    both = made + replace(drawn, groups=drawn.groups[:most])
    return both.shuffled(np.random.default_rng([data.seed, number, 2]))


def pack_round(
    groups: Sequence[EncodedGroup], optim: OptimConfig, *, orders: tuple[int, int] | None, processes: int
) -> list[list[PackedBatch]]:
    """Return the steps of a round.

    Args:
        groups: encoded.
        optim: token budgets, and ``epochs``.
        orders: online, a seed and the round: ``epochs`` passes over the groups, each in another random order; None: one pass, in order.
        processes: each gets as many micro-batches, of similar length.
    """
    if orders is None:
        return plan_steps(groups, optim, processes=processes)
    steps: list[list[PackedBatch]] = []
    for epoch in range(optim.epochs):
        order = np.random.default_rng([*orders, 4, epoch]).permutation(len(groups))
        steps += plan_steps([groups[i] for i in order], optim, processes=processes)
    return steps


def round_metrics(sampled: Sequence[Group], scores: FrozenScores, *, seconds: float) -> dict[str, float]:
    """Return what the log says of a round: its new samples, its values, and how long it took to prepare."""
    return {**sample_metrics(sampled), **value_metrics(scores), "preparing_seconds": seconds}


def score_start(learner: Learner, batches: Sequence[PackedBatch], objective: ObjectiveConfig) -> FrozenScores:
    """Return what an offline objective reads: the frozen start stands in for pi_old, since nobody knows who wrote stored attempts."""
    if not batches or not (objective.needs_reference or objective.needs_old):
        return FrozenScores()
    logps = learner.start_logps(batches)
    return FrozenScores(
        reference=logps if objective.needs_reference else None,
        old=logps if objective.needs_old else None,
    )


def score_now(
    learner: Learner, groups: list[EncodedGroup], file: Path, *, objective: ObjectiveConfig, advantage: AdvantageConfig
) -> tuple[list[EncodedGroup], FrozenScores]:
    """Score a round's attempts under the policy before it learns from them; compute token advantages if they come from values. Collective.

    Args:
        learner: the policy, in training.
        groups: encoded.
        file: where log-probabilities and values are kept: a run that is resumed in the middle of the round has other weights.
        objective: what the loss reads.
        advantage: whether advantages come from values.
    """
    if not groups:
        return groups, FrozenScores()
    batches = [batch for step in plan_steps(groups, learner.optim) for batch in step]
    reference = learner.read(batches, frozen=True)[0] if objective.needs_reference else None
    if not advantage.needs_values and not objective.needs_old:
        return groups, FrozenScores(reference=reference)
    logps, values = stored_scores(file, lambda: learner.read(batches), writes=learner.processes.is_main)
    scores = FrozenScores(reference=reference, old=logps, values=values or None)
    if not advantage.needs_values:
        return groups, scores
    groups, returns = with_gae(groups, scores, config=advantage.gae, kl=objective.kl)
    return groups, replace(scores, returns=returns)


def stored_scores(
    file: Path, read: Callable[[], tuple[dict[str, Any], dict[str, Any]]], *, writes: bool
) -> tuple[ByAttempt, ByAttempt]:
    """Return log-probabilities and values by attempt: from the file, or computed now and written there."""
    if file.exists():
        with np.load(file) as stored:
            logps = {key[1:]: stored[key] for key in stored.files if key[0] == "p"}
            return logps, {key[1:]: stored[key] for key in stored.files if key[0] == "v"}
    logps, values = read()
    if writes:
        both = {f"p{key}": logp for key, logp in logps.items()} | {f"v{key}": value for key, value in values.items()}
        save_arrays(file, both)
    return logps, values
