"""Checks of a recipe against its archive, before a model is loaded."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial

from upsolve.archive.groups import Lazy
from upsolve.archive.info import missing_signal
from upsolve.config import DataConfig, Recipe, check_recipe
from upsolve.errors import ConfigError, TrainingError
from upsolve.extras import require
from upsolve.languages.names import language_in
from upsolve.reward.formula import Rewarded, check_rewards, reward
from upsolve.reward.reference import reference_seconds
from upsolve.train.data.groups import passed, select
from upsolve.train.data.sources import parts_of_epoch
from upsolve.train.run.processes import Processes
from upsolve.types import Group, Status
from upsolve.verify.limits import judge_settings
from upsolve.verify.pool.pool import verify

__all__ = ["check_run", "checked_rewarder"]

LOGGER = logging.getLogger("upsolve.train")
WIDE = 0.05
"""Clip of ``gspo`` above which nearly no attempt is clipped."""


def checked_rewarder(recipe: Recipe, groups: Sequence[Group], processes: Processes) -> Callable[[Group], Rewarded]:
    """Return the function that rewards a group, after ``check_run``; references are judged where the reward needs their times.

    Raises:
        ConfigError: as ``check_run``.
        TrainingError: as ``check_run``.
    """
    clip = recipe.objective.clip
    if recipe.objective.kind == "gspo" and clip.high > WIDE and processes.is_main:
        LOGGER.warning(
            "objective.clip.high: %g: ratios of gspo stay near 1, so this clips hardly any; its paper has 3e-4 and 4e-4",
            clip.high,
        )
    if recipe.reward.verdicts != "as_judged" and processes.is_main:
        LOGGER.warning("reward.verdicts: %s: a control run, whose rewards are not the judge's", recipe.reward.verdicts)
    judge = partial(verify, settings=judge_settings(recipe.verify))
    baselines = processes.from_main(lambda: reference_seconds(groups, recipe.reward, judge))
    check_run(recipe, groups, baselines)
    return partial(reward, config=recipe.reward, baselines=baselines)


def check_run(recipe: Recipe, groups: Sequence[Group], baselines: Mapping[str, float] | None = None) -> None:
    """Check a recipe, and that the stored groups of its training tasks hold the data that it needs. Takes seconds.

    Args:
        recipe: all settings.
        groups: judged groups of the training tasks; online, also tasks without attempts.
        baselines: processor times of references, seconds (``reference_seconds``); None: not measured yet.

    Raises:
        ConfigError: the recipe contradicts itself, or no stored attempt can be trained on; names the key and the fix.
        MissingExtraError: ``optim.moments: int8`` without torchao.
        TrainingError: there is no task to train on, or offline none with a passed and a failed attempt (for imitation: a passed one).
    """
    check_recipe(recipe)
    if recipe.optim.moments == "int8":
        require("torchao")
    source = recipe.source
    if not groups:
        nothing = "has an attempt; sample some with `upsolve sample` and judge them with `upsolve verify`"
        raise TrainingError(
            f"no group to train on: no task of {recipe.data.archive} "
            f"{'is in the training split (data.train)' if source.rounds else f'in the training split (data.train) {nothing}'}"
        )
    rounds = source.rounds or recipe.optim.epochs * parts_of_epoch(groups, recipe.data)
    if recipe.advantage.options_end and rounds == 1:
        key = "source.rounds" if source.rounds else "optim.epochs"
        raise ConfigError(
            f"advantage.options_end is reached in the last round, and this run has a single one: {key}: 2 or more"
        )
    stored = not source.rounds or source.mix.get("archive", 0) > 0 or source.mix_end.get("archive", 0) > 0
    if not stored:
        return
    selected = Lazy(groups, lambda group: select(group, recipe.data))
    check_authors(groups, selected, recipe.data)
    if baselines is not None or recipe.reward.efficiency != "reference":
        check_rewards(selected, recipe.reward, baselines)
    if recipe.objective.record.unit != "pair":
        check_group_size(selected, recipe.data)
        if not source.rounds and recipe.reward.verdicts == "as_judged":
            check_outcomes(selected, recipe.data.archive, imitates=recipe.advantage.record.selects)
    verdicts = (verdict for group in selected for verdict in group.verdicts if verdict is not None)
    if recipe.reward.mask_unexecuted and not source.rounds and all(verdict.executed_lines is None for verdict in verdicts):
        raise ConfigError(
            f"reward.mask_unexecuted: no verdict of {recipe.data.archive} has executed lines; record them by `upsolve verify --lines`"
        )


def check_authors(groups: Sequence[Group], selected: Sequence[Group], data: DataConfig) -> None:
    """Refuse ``data.authors`` that have no attempt, and tasks without an attempt in the language that they ask for."""
    if any(group.attempts for group in selected):
        return
    if not data.authors:
        found = Counter(language_in(attempt.language) or "python" for group in groups for attempt in group.attempts)
        shown = ", ".join(f"{count:,} in {name}" for name, count in found.most_common(5)) or "no attempts"
        raise ConfigError(
            f"data.language: no attempt of {data.archive} is in the language that its task asks for "
            f"({language_in(data.language) or 'python where it accepts any'}); there are {shown}"
        )
    authors = sorted({attempt.author for group in groups for attempt in group.attempts})
    close = get_close_matches(data.authors[0], authors, n=3) or authors[:5]
    raise ConfigError(
        f"data.authors: no attempt of {', '.join(data.authors)} in {data.archive}; did you mean {', '.join(close)}?"
    )


def check_group_size(groups: Sequence[Group], data: DataConfig) -> None:
    """Refuse a group size above the largest number of attempts of a task, each counted as often as it occurs."""
    largest = 0
    for group in groups:
        largest = max(largest, group.occurrences)
        if largest >= data.group_size:
            return
    if groups:
        raise ConfigError(
            f"data.group_size: {data.group_size} attempts requested, but no task of {data.archive} has more than {largest}; set data.group_size: {largest}"
        )


def check_outcomes(groups: Sequence[Group], archive: str, *, imitates: bool) -> None:
    """Refuse stored attempts of which no group can be drawn (``draw_groups``): no task has a passed and a failed one, or a passed one."""
    reasons = Counter[str]()
    for group in groups:
        scored = [verdict for verdict in group.verdicts if verdict is not None and verdict.status is not Status.UNSCORED]
        passes = sum(map(passed, scored))
        reason = missing_signal(len(group.attempts), len(scored), passes)
        if not reason or (imitates and passes):
            return
        reasons[reason] += 1
    found = ", ".join(f"{reason} at {count:,}" for reason, count in reasons.most_common())
    needed = "a passed attempt" if imitates else "a passed and a failed attempt"
    raise TrainingError(
        f"no group to train on: no training task of {archive} has {needed} ({found}); `upsolve plan` says what to do"
    )
