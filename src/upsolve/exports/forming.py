"""Archive -> the items of a format: records, tasks, attempts, groups or pairs, by split, with the rewards and advantages of a recipe."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from upsolve.archive.groups import Lazy
from upsolve.archive.split import report_languages, split_archive
from upsolve.archive.store import Archive
from upsolve.config import AdvantageConfig, DataConfig, Recipe, RewardConfig, SelectConfig, VerifyConfig
from upsolve.errors import ConfigError
from upsolve.exports.record import Export
from upsolve.reward.formula import Rewarded
from upsolve.reward.selection import choose
from upsolve.train.data.groups import (
    Formed,
    TrainGroup,
    decided_by_outcome,
    draw_groups,
    drawn_first,
    rewards_of,
    select,
    whole_groups,
    with_advantages,
)
from upsolve.train.data.pairs import draw_pairs
from upsolve.types import Group, Task

__all__ = ["Items", "Part", "Stages", "check_format", "items_of", "parts_of", "stages_of"]

SPLITS = ("train", "dev", "test")


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages of a recipe that an export reads."""

    name: str
    """Name of the recipe."""
    data: DataConfig
    """Splits, authors, judge; size and number of groups, number of pairs."""
    reward: RewardConfig
    """Rewards."""
    select: SelectConfig
    """Groups and attempts to keep, weights, order."""
    advantage: AdvantageConfig
    """Estimator."""
    pairs: str
    """Kind of pairs (``objective.preference.pairs``)."""
    verify: VerifyConfig
    """Limits for references, if the rewards need their times."""


@dataclass(frozen=True, slots=True)
class Part:
    """A split of an archive."""

    split: str
    """``train``, ``dev`` or ``test``."""
    tasks: Sequence[Task]
    """All tasks of the split."""
    groups: Sequence[Group]
    """The tasks with attempts, judged or not."""


@dataclass(frozen=True, slots=True)
class Items:
    """Items from which the rows of a split are made."""

    items: Iterable[Any]
    """Items of the format's unit (``Export.unit``), in the order of the rows."""
    left_out: Counter[str]
    """Attempts and tasks that are in no item, by reason; complete once all items are read."""
    flagged: Counter[str]
    """Attempts that are truncated or that a detector flags, by name, and replaced verdicts of a control."""


def stages_of(recipe: Recipe) -> Stages:
    """Return the stages that an export reads."""
    pairs = recipe.objective.preference.pairs
    return Stages(recipe.name, recipe.data, recipe.reward, recipe.select, recipe.advantage, pairs, recipe.verify)


def check_format(record: Export, stages: Stages, *, given: bool, split: str, epoch: int | None) -> None:
    """Refuse settings that a format does not read: ConfigError names the setting and the fix."""
    formed, values = record.unit in ("group", "pair"), stages.advantage
    with_recipe = f"one of {', '.join(SPLITS)}, with a --recipe whose `data` section splits the archive"
    turns = "a pair has one prompt, and each attempt its own conversation: leave it out, or choose another format"
    start = "start_logp and start_min_logp need the model that training starts from: leave them out of an export"
    problems = (
        (
            record.unit == "record" and (given or split),
            "--as: this format holds the whole archive: leave out --recipe, --set and --split",
        ),
        (split and (split not in SPLITS or not given), f"--split {split}: {with_recipe}"),
        (epoch is not None and not formed, "--epoch samples groups or pairs, and this format has neither: leave it out"),
        (record.unit == "pair" and stages.data.turns, f"data.turns: {turns}"),
        (formed and stages.select.reads_start, f"select: {start}"),
        (
            record.unit == "group" and values.needs_values,
            f"advantage.kind: {values.kind} computes advantages from a value head in training: choose another recipe",
        ),
    )
    if problem := next((text for is_wrong, text in problems if is_wrong), ""):
        raise ConfigError(problem)


def parts_of(archive: Archive, data: DataConfig | None, split: str = "", *, formed: bool = False) -> list[Part]:
    """Return the splits of an archive, or one; ``formed``: for groups or pairs, in the language of the prompt."""
    if data is None:
        groups = archive.groups(labels=formed)
        if formed:
            report_languages(archive, "")
            groups = Lazy(groups, lambda group: select(group, DataConfig()))
        return [Part("train", archive.tasks(), groups)]
    found, chosen = split_archive(archive, data, labels=formed), data
    return [
        Part(name, found.tasks[name], Lazy(found.groups[name], lambda group: select(group, chosen)))
        for name in SPLITS
        if split in ("", name)
    ]


def items_of(part: Part, record: Export, stages: Stages, *, epoch: int | None) -> Items:
    """Return the items of a split, as training forms them in an epoch; None: all attempts of a task in one group."""
    if record.unit in ("task", "attempts"):
        return Items(part.tasks if record.unit == "task" else part.groups, Counter(), Counter())
    groups = part.groups
    if record.unit == "group" and epoch is not None and decided_by_outcome(stages.reward, stages.select, stages.data):
        groups = drawn_first(groups, stages.data, epoch=epoch)
    rewarded = rewards_of(groups, stages.reward, stages.verify)
    if record.unit == "group" and epoch is None and not stages.select.is_on:
        left_out, flagged = Counter[str](), Counter[str]()
        return Items(one_by_one(rewarded, stages, left_out, flagged), left_out, flagged)
    pairs = record.unit == "pair"
    formed = form_groups(rewarded, stages, epoch=epoch, pairs=pairs)
    items = [with_advantages(item, stages.advantage, seed=stages.data.seed, pair=pairs) for item in formed.groups]
    return Items(items, formed.left_out, formed.flagged)


def one_by_one(
    rewarded: Iterable[Rewarded], stages: Stages, left_out: Counter[str], flagged: Counter[str]
) -> Iterator[TrainGroup]:
    """Yield whole groups with advantages, holding one in memory, and count what is left out and flagged."""
    for item in rewarded:
        formed = whole_groups([item])
        left_out.update(formed.left_out)
        flagged.update(formed.flagged)
        yield from (with_advantages(one, stages.advantage, seed=stages.data.seed) for one in formed.groups)


def form_groups(rewarded: Sequence[Rewarded], stages: Stages, *, epoch: int | None, pairs: bool) -> Formed:
    """Return selected groups, or pairs."""
    data, number = stages.data, epoch or 0
    chosen = choose(rewarded, stages.select, number=number, seed=data.seed)
    if pairs:
        formed = draw_pairs(chosen.rewarded, data, stages.pairs, epoch=number)
    elif epoch is None:
        formed = whole_groups(chosen.rewarded)
    else:
        imitates, ordered = stages.advantage.record.selects, bool(stages.select.order)
        formed = draw_groups(chosen.rewarded, data, imitates=imitates, epoch=number, in_order=ordered)
    return replace(formed, left_out=formed.left_out + chosen.left_out)
