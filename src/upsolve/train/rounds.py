"""Rounds: forming groups, scoring them before training, and packing them into optimizer steps."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from upsolve.config import AdvantageConfig, DataConfig, ObjectiveConfig, OptimConfig, SelectConfig
from upsolve.reward.formula import Rewarded
from upsolve.reward.selection import Likelihoods, choose
from upsolve.train.data.encode import EncodedGroup
from upsolve.train.data.groups import Formed, draw_groups, whole_groups
from upsolve.train.data.judging import sample_metrics
from upsolve.train.data.pack import PackedBatch, plan_scoring, plan_steps
from upsolve.train.data.pairs import draw_pairs
from upsolve.train.data.sources import RoundGroups
from upsolve.train.update.learner import Learner
from upsolve.train.update.reference import load_arrays, save_arrays
from upsolve.train.update.step import ByAttempt, FrozenScores
from upsolve.train.update.values import value_metrics, with_gae
from upsolve.types import Group

__all__ = ["Round", "form_groups", "pack_round", "prepare_epochs", "round_metrics", "score_now", "score_start"]


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


def form_groups(
    fresh: Sequence[Rewarded],
    stored: Sequence[Rewarded],
    taken: RoundGroups,
    *,
    data: DataConfig,
    advantage: AdvantageConfig,
    objective: ObjectiveConfig,
    select: SelectConfig,
    likelihoods: Likelihoods | None = None,
) -> Formed:
    """Select and sample the groups of a round. Advantages come later (``encode_groups``): the token limit may take attempts from a group.

    Args:
        fresh: samples of the policy, in groups; for an objective on pairs, pairs are sampled from them.
        stored: all attempts of tasks; groups or pairs are sampled from them.
        taken: number of the round (seeds the sampling), and the most groups of ``stored``; None: no limit.
        data: group size, groups per task, seed.
        advantage: says whether it imitates.
        objective: says whether it takes pairs.
        select: which groups and attempts to keep, their weights and their order.
        likelihoods: computes those of stored attempts under the frozen start, for ``select``; None: unknown.
    """
    number, max_stored, ordered = taken.number, taken.most_stored, bool(select.order)
    imitates = advantage.record.selects
    pairs, kind = objective.record.unit == "pair", objective.preference.pairs
    new, old = (choose(part, select, number=number, seed=data.seed, likelihoods=likelihoods) for part in (fresh, stored))
    sampled = draw_pairs(new.rewarded, data, kind, epoch=number) if pairs else whole_groups(new.rewarded)
    of_archive = (
        draw_pairs(old.rewarded, data, kind, epoch=number, most=max_stored)
        if pairs
        else draw_groups(old.rewarded, data, imitates=imitates, epoch=number, in_order=ordered, most=max_stored)
    )
    sampled, of_archive = (
        replace(chosen_groups, left_out=chosen_groups.left_out + part.left_out)
        for chosen_groups, part in ((sampled, new), (of_archive, old))
    )
    if max_stored is None:
        return of_archive
    return (sampled + of_archive).shuffled(np.random.default_rng([data.seed, number, 2]))


def pack_round(
    groups: Sequence[EncodedGroup], optim: OptimConfig, *, orders: tuple[int, int] | None, processes: int
) -> list[list[PackedBatch]]:
    """Return the steps of a round.

    Args:
        groups: encoded.
        optim: token budgets, and ``epochs``.
        orders: online, a seed and the round: ``epochs`` passes over the groups, each in random order; None: one pass, in order.
        processes: the number of micro-batches is a multiple of it.
    """
    if orders is None:
        return plan_steps(groups, optim, processes=processes)
    steps: list[list[PackedBatch]] = []
    for epoch in range(optim.epochs):
        order = np.random.default_rng([*orders, 4, epoch]).permutation(len(groups))
        steps += plan_steps([groups[i] for i in order], optim, processes=processes)
    return steps


def prepare_epochs(prepared: Callable[[int], Round], epochs: int, max_steps: int) -> list[Round]:
    """Return the epochs of an offline run, ready to train on; with ``max_steps`` > 0, those that are reached."""
    ahead: list[Round] = []
    for number in range(epochs):
        if 0 < max_steps <= sum(len(now.steps) for now in ahead):
            break
        ahead.append(prepared(number))
    return ahead


def round_metrics(sampled: Sequence[Group], scores: FrozenScores, *, seconds: float) -> dict[str, float]:
    """Return the metrics of a round: new samples, values, and seconds of preparation."""
    return {**sample_metrics(sampled), **value_metrics(scores), "preparing_seconds": seconds}


def score_start(learner: Learner, batches: Sequence[PackedBatch], objective: ObjectiveConfig) -> FrozenScores:
    """Return the scores of stored attempts for an offline objective; the frozen start is pi_old, since their policy is unknown."""
    if not batches:
        return FrozenScores()
    logps = learner.frozen_logps(batches)
    return FrozenScores(
        reference=logps if objective.needs_reference else None,
        old=logps if objective.needs_old else None,
    )


def score_now(
    learner: Learner, groups: list[EncodedGroup], file: Path, *, objective: ObjectiveConfig, advantage: AdvantageConfig
) -> tuple[list[EncodedGroup], FrozenScores]:
    """Score the attempts of a round before training on them, and compute token advantages from values (``gae``). Collective.

    Args:
        learner: the policy, in training.
        groups: encoded.
        file: stores log-probabilities and values, since a run resumed within the round has other weights.
        objective: the scores that the loss needs.
        advantage: the estimator.
    """
    if not groups:
        return groups, FrozenScores()
    batches = plan_scoring(groups, learner.optim)
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
    """Return log-probabilities and values by attempt: from the file, or computed by ``read`` and written to it."""
    if file.exists():
        stored = load_arrays(file)
        logps = {key[1:]: stored[key] for key in stored if key[0] == "p"}
        return logps, {key[1:]: stored[key] for key in stored if key[0] == "v"}
    logps, values = read()
    if writes:
        both = {f"p{key}": logp for key, logp in logps.items()} | {f"v{key}": value for key, value in values.items()}
        save_arrays(file, both)
    return logps, values
