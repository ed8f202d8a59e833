"""Forms the groups of a round: selects groups and attempts, and samples groups or pairs from them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from upsolve.config import AdvantageConfig, DataConfig, ObjectiveConfig, SelectConfig
from upsolve.reward.formula import Rewarded
from upsolve.reward.selection import Likelihoods, choose
from upsolve.train.data.groups import Formed, draw_groups, whole_groups
from upsolve.train.data.pairs import draw_pairs
from upsolve.train.data.sources import RoundGroups

__all__ = ["form_groups"]


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
