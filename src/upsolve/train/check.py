"""Rules for a recipe with the data of its archive, evaluated before a model is loaded."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property, partial
from typing import TYPE_CHECKING

from upsolve.advantage.table import NEEDED
from upsolve.archive.groups import Lazy
from upsolve.archive.info import missing_signal
from upsolve.config import Recipe, check_recipe
from upsolve.config.strict import Rule, broken
from upsolve.errors import ConfigError, TrainingError
from upsolve.extras import require
from upsolve.languages.names import language_in
from upsolve.reward.formula import Rewarded, check_rewards, reference_seconds, reward
from upsolve.train.data.groups import passed, select
from upsolve.train.data.sources import parts_of_epoch, rated_tasks, shares
from upsolve.types import Group, is_scored
from upsolve.verify.limits import judge_settings
from upsolve.verify.pool.pool import verify

if TYPE_CHECKING:
    from upsolve.train.run.processes import Processes  # which imports torch

__all__ = ["RULES", "WARNINGS", "Start", "check_run", "checked_rewarder"]

LOGGER = logging.getLogger("upsolve.train")
WIDE = 0.05
"""``objective.clip.high`` above which ``gspo`` clips almost no attempt."""


@dataclass(frozen=True)
class Start:
    """A recipe and the stored groups of its training tasks."""

    recipe: Recipe
    """All settings."""
    groups: Sequence[Group]
    """Judged groups of the training tasks; online, also tasks without attempts."""
    baselines: Mapping[str, float] | None = None
    """Processor times of references, seconds (``reference_seconds``); None: not measured yet."""

    @cached_property
    def selected(self) -> Sequence[Group]:
        """The groups with the attempts of ``data.authors`` in the language of the task."""
        return Lazy(self.groups, lambda group: select(group, self.recipe.data))

    @property
    def rounds(self) -> int:
        """Number of rounds (offline: epochs, or parts of epochs)."""
        return self.recipe.source.rounds or self.recipe.optim.epochs * parts_of_epoch(self.groups, self.recipe.data)

    @property
    def is_stored(self) -> bool:
        """Whether the run trains on stored attempts."""
        return not self.recipe.source.rounds or self.recipe.source.takes("archive")

    @property
    def is_grouped(self) -> bool:
        """Whether the run trains on groups of stored attempts, not on pairs."""
        return self.is_stored and self.recipe.objective.record.unit != "pair"

    @cached_property
    def tasks(self) -> int:
        """Number of tasks within ``source.solved``, which are sampled online."""
        solved = self.recipe.source.solved
        return len(self.groups) if solved == (0, 1) else len(rated_tasks(self.groups, solved))

    @property
    def requested(self) -> int:
        """Most groups of a round that are sampled."""
        source = self.recipe.source
        return max((shares(source, number)["policy"] for number in range(source.rounds)), default=0)

    @property
    def largest(self) -> int:
        """Most attempts of a task, copies included; counting stops at ``data.group_size``."""
        largest, size = 0, self.recipe.data.group_size
        for group in self.selected:
            if (largest := max(largest, group.occurrences)) >= size:
                break
        return largest


def no_task(start: Start) -> str:
    """Return the message for an empty training split; offline, with the commands that add attempts."""
    archive, advice = start.recipe.data.archive, "sample some with `upsolve sample` and judge them with `upsolve verify`"
    if start.recipe.source.rounds:
        return f"no group to train on: no task of {archive} is in the training split (data.train)"
    return f"no group to train on: no task of {archive} in the training split (data.train) has an attempt; {advice}"


def no_attempt(start: Start) -> str:
    """Return the message for an archive without attempts of ``data.authors``, or without attempts in the language of their task."""
    data, groups = start.recipe.data, start.groups
    if data.authors:
        authors = sorted({attempt.author for group in groups for attempt in group.attempts})
        close = get_close_matches(data.authors[0], authors, n=3) or authors[:5]
        return f"data.authors: no attempt of {', '.join(data.authors)} in {data.archive}; did you mean {', '.join(close)}?"
    found = Counter(language_in(attempt.language) or "python" for group in groups for attempt in group.attempts)
    shown = ", ".join(f"{count:,} in {name}" for name, count in found.most_common(5)) or "no attempts"
    return (
        f"data.language: no attempt of {data.archive} is in the language that its task asks for "
        f"({language_in(data.language) or 'python where it accepts any'}); there are {shown}"
    )


def missing_rewards(start: Start) -> str:
    """Return which data the rewards need and the archive lacks; "" if complete, or if references are not measured yet."""
    if start.baselines is None and start.recipe.reward.efficiency == "reference":
        return ""
    try:
        check_rewards(start.selected, start.recipe.reward, start.baselines)
    except ConfigError as error:
        return str(error)
    return ""


def missing_outcomes(start: Start) -> str:
    """Return why no group can be drawn (``draw_groups``); "" if one task has the attempts that the advantage needs.

    ``Advantage.needs`` says which attempts: ``contrast``, a passed and a failed one; ``pass``, a passed one; ``attempt``, a scored one.
    """
    reasons, needs = Counter[str](), start.recipe.advantage.record.needs
    for group in start.selected:
        scored = [verdict for verdict in group.verdicts if is_scored(verdict)]
        passes = sum(map(passed, scored))
        reason = missing_signal(len(group.attempts), len(scored), passes)
        if not reason or {"contrast": False, "pass": passes > 0, "attempt": len(scored) > 0}[needs]:
            return ""
        reasons[reason] += 1
    found = ", ".join(f"{reason} at {count:,}" for reason, count in reasons.most_common())
    archive = start.recipe.data.archive
    return f"no group to train on: no training task of {archive} has {NEEDED[needs]} ({found}); `upsolve plan` says what to do"


RULES: tuple[Rule, ...] = (
    Rule(lambda s: len(s.groups), no_task, TrainingError),
    Rule(
        lambda s: not s.recipe.advantage.options_end or s.rounds > 1,
        lambda s: (
            "advantage.options_end: the last round reaches these options, and this run has a single round; set "
            f"{'source.rounds' if s.recipe.source.rounds else 'optim.epochs'}: 2 or more"
        ),
    ),
    Rule(
        lambda s: not s.requested or s.tasks,
        lambda s: (
            f"source.solved {[*s.recipe.source.solved]}: none of the {len(s.groups)} training tasks has such a pass rate in the archive; widen the interval"
        ),
    ),
    Rule(lambda s: not s.is_stored or any(group.attempts for group in s.selected), no_attempt),
    Rule(lambda s: not s.is_stored or not missing_rewards(s), missing_rewards),
    Rule(
        lambda s: not s.is_grouped or s.largest >= s.recipe.data.group_size,
        (
            "data.group_size: {0.recipe.data.group_size} attempts requested, but no task of {0.recipe.data.archive} has more than "
            "{0.largest}; set data.group_size: {0.largest}"
        ),
    ),
    Rule(
        lambda s: (
            not s.is_grouped or s.recipe.source.rounds or s.recipe.reward.verdicts != "as_judged" or not missing_outcomes(s)
        ),
        missing_outcomes,
        TrainingError,
    ),
    Rule(
        lambda s: (
            s.recipe.source.rounds
            or not s.recipe.reward.mask_unexecuted
            or any(verdict and verdict.executed_lines is not None for group in s.selected for verdict in group.verdicts)
        ),
        "reward.mask_unexecuted: no verdict of {0.recipe.data.archive} has executed lines; record them by `upsolve verify --lines`",
    ),
    Rule(
        lambda s: (
            s.recipe.source.rounds
            or s.recipe.objective.correction.kind == "none"
            or any(attempt.token_logps for group in s.selected for attempt in group.attempts)
        ),
        (
            "objective.correction.kind: no attempt of {0.recipe.data.archive} has the log-probabilities of its tokens, which `upsolve sample` "
            "stores, so every weight is 1; set it to none"
        ),
    ),
)
"""Rules about the data of a run, in order: the first broken rule is raised, because later rules assume earlier ones."""
WARNINGS: tuple[Rule, ...] = (
    Rule(
        lambda s: s.recipe.objective.kind != "gspo" or s.recipe.objective.clip.high <= WIDE,
        (
            "objective.clip.high: {0.recipe.objective.clip.high:g}: the ratios of gspo stay near 1, so this bound clips almost no "
            "attempt; the paper of gspo sets 3e-4 and 4e-4"
        ),
    ),
    Rule(
        lambda s: s.recipe.reward.verdicts == "as_judged",
        "reward.verdicts: {0.recipe.reward.verdicts}: a control run, whose rewards are not the judge's",
    ),
    Rule(
        lambda s: s.recipe.source.rounds or not s.recipe.objective.needs_old,
        (
            "objective.kind {0.recipe.objective.kind} uses pi / pi_old, and the policy that wrote stored attempts is unknown: the "
            "frozen start is used for pi_old; watch the metric `clipped`, the share of tokens without a gradient"
        ),
    ),
    Rule(
        lambda s: s.requested <= s.tasks,
        "source.groups: a round samples each task once, so a round has {0.tasks} new groups, not {0.requested}; lower source.groups",
    ),
)
"""Rules whose messages are warnings."""


def checked_rewarder(recipe: Recipe, groups: Sequence[Group], processes: "Processes") -> Callable[[Group], Rewarded]:
    """Return the function that rewards a group, after ``check_run`` and its warnings. Judges references if rewards need their times."""
    judge = partial(verify, settings=judge_settings(recipe.verify))
    baselines = processes.from_main(lambda: reference_seconds(groups, recipe.reward, judge))
    check_run(recipe, groups, baselines)
    if processes.is_main:
        for message in broken(WARNINGS, Start(recipe, groups)):
            LOGGER.warning(message)
    return partial(reward, config=recipe.reward, baselines=baselines)


def check_run(recipe: Recipe, groups: Sequence[Group], baselines: Mapping[str, float] | None = None) -> None:
    """Check a recipe, and that the stored groups of its training tasks hold the data that it needs. Takes seconds.

    Raises:
        ConfigError: the recipe contradicts itself, or no stored attempt can be trained on; names the key and the fix.
        MissingExtraError: ``optim.moments: int8`` without torchao, or ``model.quantize`` without bitsandbytes.
        TrainingError: there is no task to train on, or offline none with a passed and a failed attempt (for imitation: a passed one).
    """
    check_recipe(recipe)
    if recipe.optim.moments == "int8":
        require("torchao")
    if recipe.model.quantize != "none":
        require("bitsandbytes")
    start = Start(recipe, groups, baselines)
    for rule in RULES:
        if not rule.holds(start):
            raise rule.error(rule.sentence(start))
