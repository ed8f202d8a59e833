"""What a run, or a round of it, will do, laid out before its first step."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from upsolve.config import MonitorConfig, Recipe
from upsolve.errors import TrainingError
from upsolve.policy.tokens import Codec
from upsolve.train.encode import encode_groups
from upsolve.train.groups import TrainGroup, passed
from upsolve.train.pack import PackedBatch, plan_steps
from upsolve.train.pairs import cut_stored
from upsolve.types import Group

__all__ = ["Plan", "plan_epochs", "plan_heldout"]


@dataclass(frozen=True, slots=True)
class Plan:
    """Batches, laid out before the first step."""

    steps: list[list[PackedBatch]]
    """Batches of every optimiser step."""
    groups: int
    """Groups over all epochs."""
    left_out: Counter[str]
    """What is not trained on, by reason, over all epochs."""
    flagged: Counter[str]
    """Scored attempts that were cut short or that a detector of hacks caught, by its name, over all epochs."""


def heldout_groups(groups: Sequence[Group], config: MonitorConfig) -> list[TrainGroup]:
    """Pick up to ``heldout`` passed and as many failed attempts, one of each a task, in the archive's order."""
    picked: list[TrainGroup] = []
    for group in groups:
        good = [i for i, verdict in enumerate(group.verdicts) if passed(verdict)]
        bad = [i for i, verdict in enumerate(group.verdicts) if verdict is not None and not passed(verdict)]
        both = [*good[-1:], *bad[-1:]]
        if len(both) == 2 and len(picked) < config.heldout:
            pair = Group(group.task, tuple(group.attempts[i] for i in both), tuple(group.verdicts[i] for i in both))
            picked.append(TrainGroup(pair, np.array([1.0, -1.0]), np.array([1.0, -1.0])))
    return picked


def plan_heldout(groups: Sequence[Group], recipe: Recipe, codec: Codec) -> list[PackedBatch]:
    """Return batches of held-out attempts, advantage 1 for passed and -1 for the others."""
    plain = Recipe(data=recipe.data)
    watched, _ = encode_groups(heldout_groups(groups, recipe.monitor), codec, plain)
    return [batch for step in plan_steps(watched, recipe.optim) for batch in step]


def plan_epochs(groups: Sequence[Group], recipe: Recipe, codec: Codec, *, processes: int = 1) -> Plan:
    """Cut, reward, weigh, tokenise and pack all epochs of stored groups, so that every process has as much to do.

    Raises:
        TrainingError: no group is left; says why.
    """
    steps: list[list[PackedBatch]] = []
    left_out: Counter[str] = Counter()
    flagged: Counter[str] = Counter()
    count = 0
    for epoch in range(recipe.optim.epochs):
        cut = cut_stored(groups, recipe, epoch=epoch)
        encoded, too_long = encode_groups(cut.groups, codec, recipe)
        steps += plan_steps(encoded, recipe.optim, processes=processes)
        left_out += cut.left_out + too_long
        flagged += cut.flagged
        count += len(encoded)
    if not steps:
        raise TrainingError(f"no group to train on: {dict(left_out)}")
    return Plan(steps[: recipe.optim.max_steps or None], count, left_out, flagged)
