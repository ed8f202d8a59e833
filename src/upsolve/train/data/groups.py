"""Groups to train on: whole groups of new samples, or groups drawn from the stored attempts of a task; and their advantages.

Legend: G attempts per group.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import overload

import numpy as np
from numpy.typing import NDArray

from upsolve.advantage.table import Needs, advantage
from upsolve.archive.groups import Lazy
from upsolve.archive.outline import Outline, outline_of
from upsolve.config import AdvantageConfig, DataConfig, ObjectiveConfig, RewardConfig, SelectConfig, VerifyConfig
from upsolve.languages.names import same_language
from upsolve.reward.formula import Rewarded, reference_seconds, reward
from upsolve.reward.judged import Part, group_of
from upsolve.reward.selection import HELD
from upsolve.types import Attempt, Group, Status, Verdict, content_id
from upsolve.verify.limits import judge_settings
from upsolve.verify.pool.pool import verify

__all__ = [
    "CachedRewards",
    "Formed",
    "TrainGroup",
    "decided_by_outcome",
    "draw_groups",
    "draw_tasks",
    "drawn_first",
    "failed",
    "keeps_zero",
    "passed",
    "rewards_of",
    "select",
    "whole_groups",
    "with_advantages",
]

TRIES = 32
"""Most rejected draws in a row before the remaining counts are summed again."""


class ListSampler:
    """Draws attempts of a group in proportion to their counts, each at most once; with ``repeats``, at most ``count`` times."""

    def __init__(self, group: Group, passed: Sequence[bool], random: np.random.Generator, *, repeats: bool) -> None:
        self.weights = [attempt.count for attempt in group.attempts]
        self.passed, self.repeats, self.random = passed, repeats, random

    def indices(self, passed: bool | None) -> list[int]:
        """Return the indices that can still be drawn."""
        return [i for i, weight in enumerate(self.weights) if weight and passed in (None, self.passed[i])]

    def remaining(self, passed: bool | None = None) -> int:
        """Return the number of attempts that can still be drawn; with ``passed``, only of this outcome."""
        indices = self.indices(passed)
        return sum(self.weights[i] for i in indices) if self.repeats else len(indices)

    def draw(self, passed: bool | None = None) -> int:
        """Draw the index of an attempt; with ``passed``, only of this outcome."""
        indices = self.indices(passed)
        weights = np.array([self.weights[i] for i in indices], dtype=np.float64)
        index = int(self.random.choice(np.array(indices), p=weights / weights.sum()))
        self.weights[index] = self.weights[index] - 1 if self.repeats else 0
        return index


class OutlineSampler:
    """Draws the scored attempts of an outline (``archive.outline``) in proportion to their counts, each at most once.

    The counts are summed once; a draw that repeats an earlier one is rejected.
    """

    def __init__(self, outline: Outline, data: DataConfig, random: np.random.Generator) -> None:
        usable_N, self.good_N, self.random = outline.scored_N & outline.usable(data), outline.passed_N, random
        parts = {True: usable_N & self.good_N, False: usable_N & ~self.good_N, None: usable_N}
        self.sums = {outcome: np.cumsum(outline.counts_N * some_N) for outcome, some_N in parts.items()}
        self.rest = {outcome: int(some_N.sum()) for outcome, some_N in parts.items()}
        self.used = set[int]()

    def remaining(self, passed: bool | None = None) -> int:
        """Return the number of attempts that can still be drawn; with ``passed``, only of this outcome."""
        return self.rest[passed]

    def draw(self, passed: bool | None = None) -> int:
        """Draw the index of an attempt; with ``passed``, only of this outcome."""
        sums = self.sums[passed]
        tries = (int(np.searchsorted(sums, self.random.integers(sums[-1]), side="right")) for _ in range(TRIES))
        place = next((place for place in tries if place not in self.used), -1)
        if place < 0:  # the attempts drawn before have most of the counts
            weights = np.diff(sums, prepend=0) * ~np.isin(np.arange(len(sums)), [*self.used])
            place = int(self.random.choice(len(weights), p=weights / weights.sum()))
        self.used.add(place)
        for outcome in (None, bool(self.good_N[place])):
            self.rest[outcome] -= 1
        return place


def draw_mixed(
    sampler: ListSampler | OutlineSampler, size: int, max_groups: int, random: np.random.Generator
) -> list[list[int]]:
    """Draw up to ``max_groups`` lists of ``size`` indices, each with a passed and a failed attempt (``size`` 1: a passed one).

    Returns fewer lists when the passed or the failed attempts run out.
    """
    drawn: list[list[int]] = []
    while (
        len(drawn) < max_groups
        and sampler.remaining() >= size
        and sampler.remaining(passed=True)
        and (size == 1 or sampler.remaining(passed=False))
    ):
        indices = [sampler.draw(passed=good) for good in (True, False)[:size]]
        indices += [sampler.draw() for _ in range(size - 2)]
        drawn.append([indices[i] for i in random.permutation(size)])
    return drawn


Floats = NDArray[np.float64]
Draw = Callable[[Rewarded, np.random.Generator], tuple[Sequence[Sequence[int]], str]]
"""Draws groups of a task's attempts, each as indices; returns a reason if it draws none."""


@dataclass(frozen=True, slots=True)
class TrainGroup:
    """A group with rewards and advantages."""

    group: Group
    """G judged attempts; a group sampled from an archive has at least one passed and one failed attempt."""
    rewards_G: Floats
    """Rewards, float64 [G]."""
    passed_G: NDArray[np.bool_]
    """Which attempts passed (``Rewarded.passed``), bool [G]."""
    advantages_G: Floats
    """Advantages, float64 [G]; all 0 where the estimator gives each token its own (``gae``)."""
    parts: tuple[tuple[Part, ...], ...] = ()
    """The terms of each reward, [G]; () where no reward is assigned to single tokens."""


@dataclass(frozen=True, slots=True)
class Formed:
    """Groups to train on, before their advantages are computed, and counts of attempts and tasks left out."""

    groups: list[Rewarded]
    """The groups, in the order of training; a pair is a group of the chosen and the rejected attempt."""
    left_out: Counter[str]
    """Attempts and tasks left out, by reason."""
    flagged: Counter[str]
    """Scored attempts that are truncated or that a detector flagged, by its name."""

    def __add__(self, other: "Formed") -> "Formed":
        """Return the union of both, with their counts added."""
        return Formed(self.groups + other.groups, self.left_out + other.left_out, self.flagged + other.flagged)

    def shuffled(self, random: np.random.Generator) -> "Formed":
        """Return a copy with the groups in random order."""
        return replace(self, groups=[self.groups[i] for i in random.permutation(len(self.groups))])


def counting(rewarded: Iterable[Rewarded], result: Formed) -> Iterator[Rewarded]:
    """Yield rewarded groups, and add their attempts without a reward and their flagged ones to the counts of a result."""
    for item in rewarded:
        result.left_out.update({f"attempts: {reason}": count for reason, count in item.left_out.items()})
        result.flagged.update(item.flagged)
        yield item


def select(group: Group, data: DataConfig) -> Group:
    """Return the group with only the attempts of ``data.authors`` (all authors if none is named) in the language that the task asks for.

    A task of any language asks for Python, as its prompt does, unless ``data.language`` names another language.
    """
    keep = [
        index
        for index, attempt in enumerate(group.attempts)
        if (not data.authors or attempt.author in data.authors) and same_language(attempt.language, group.task.language)
    ]
    return group_of(group, keep)


def keeps_zero(advantage: AdvantageConfig, objective: ObjectiveConfig) -> bool:
    """Return whether attempts with advantage 0 are trained on by a recipe."""
    penalised = objective.kl.coefficient > 0 and not advantage.record.selects
    return advantage.needs_values or objective.record.keeps_zero or penalised


def decided_by_outcome(reward: RewardConfig, select: SelectConfig, data: DataConfig) -> bool:
    """Return whether the outcome of an attempt alone decides its reward, so that groups can be drawn before programs are read."""
    ruled = (reward.truncated, reward.hacked) != ("keep", "keep")
    as_judged = reward.verdicts == "as_judged" and reward.in_process == "drop" and not ruled
    valued = all(value is not None for status, value in reward.outcomes.items() if status is not Status.UNSCORED)
    return as_judged and valued and {*reward.components} == {"outcome"} and not select.is_on and data.group_size > 1


def drawn_first(groups: Sequence[Group], data: DataConfig, *, epoch: int) -> Sequence[Group]:
    """Return the groups of an epoch: of a task with an outline (``archive.outline``) drawn groups, of other tasks all attempts.

    ``draw_groups`` uses drawn groups unchanged. Only drawn attempts are rewarded, and counted if they have no reward.
    """
    indices: list[int] = []
    places: list[Sequence[int]] = []
    for index in range(len(groups)):
        outline = outline_of(groups, index)
        drawn = sample_outline(outline, data, np.random.default_rng([data.seed, epoch, 5, index])) if outline else []
        places += drawn or [()]
        indices += [index] * (len(drawn) or 1)

    def read(number: int) -> Group:
        outline = outline_of(groups, indices[number]) if places[number] else None
        return outline.read(places[number]) if outline else select(groups[indices[number]], data)

    return Lazy(range(len(indices)), read)


def rewards_of(groups: Sequence[Group], config: RewardConfig, verification: VerifyConfig) -> Sequence[Rewarded]:
    """Return groups with the rewards of their attempts. Judges references without a recorded time, if the rewards need it."""
    baselines = reference_seconds(groups, config, partial(verify, settings=judge_settings(verification)))
    return Lazy(groups, lambda group: reward(group, config, baselines))


class CachedRewards(Lazy[Group, Rewarded]):
    """Groups with the rewards of their attempts, computed when read; up to ``HELD`` attempts stay in memory and are rewarded once."""

    def __init__(self, groups: Sequence[Group], function: Callable[[Group], Rewarded]) -> None:
        super().__init__(groups, function)
        self.cached, self.room = dict[int, Rewarded](), HELD

    @overload
    def __getitem__(self, index: int) -> Rewarded: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Rewarded]: ...
    def __getitem__(self, index: int | slice) -> Rewarded | Sequence[Rewarded]:
        if isinstance(index, slice) or index in self.cached:
            return self.cached[index] if isinstance(index, int) else super().__getitem__(index)
        item = super().__getitem__(index)
        if (size := len(item.group.attempts)) <= self.room:
            self.cached[index] = item
            self.room -= size
        return item

    def __iter__(self) -> Iterator[Rewarded]:
        return map(self.__getitem__, range(len(self)))


def group_seed(group: Group, seed: int) -> int:
    """Return a seed in [0, 2^32) for a group, determined by ``seed``, the task id and the attempt ids."""
    return int(content_id(str(seed), group.task.task_id, *(attempt.attempt_id for attempt in group.attempts))[:8], 16)


def behavior_logps(attempts: Sequence[Attempt]) -> Floats:
    """Return log-probabilities [G], nats, that the authors gave their attempts; nan where unknown."""
    return np.array(
        [np.nan if attempt.behavior_logp is None else attempt.behavior_logp for attempt in attempts], dtype=np.float64
    )


def with_advantages(item: Rewarded, config: AdvantageConfig, *, seed: int, pair: bool = False) -> TrainGroup:
    """Return a group with advantages [G], each times the selection weight of its attempt. ``pair``: (chosen, rejected) get 1 and -1.

    Advantages depend on all attempts of the group, so the group holds only attempts that are trained on.
    """
    group, rewards_G, passed_G = item.group, item.rewards_G, item.passed
    if pair:
        return TrainGroup(group, rewards_G, passed_G, np.array([1.0, -1.0]), item.parts)
    if config.needs_values:
        return TrainGroup(group, rewards_G, passed_G, np.zeros_like(rewards_G), item.parts)
    logp_G, own_seed = behavior_logps(group.attempts), group_seed(group, seed)
    advantages_G = advantage(rewards_G, config, passed_G=passed_G, logp_G=logp_G, seed=own_seed)
    weights_G = 1.0 if item.weights_G is None else item.weights_G
    return TrainGroup(group, rewards_G, passed_G, advantages_G * weights_G, item.parts)


def whole_groups(rewarded: Iterable[Rewarded]) -> Formed:
    """Return groups as sampled; groups without a reward are left out."""
    result = Formed([], Counter(), Counter())
    result.groups.extend(item for item in counting(rewarded, result) if len(item.rewards_G))
    return result


def draw_groups(
    rewarded: Sequence[Rewarded],
    data: DataConfig,
    *,
    needs: Needs,
    epoch: int,
    in_order: bool = False,
    most: int | None = None,
) -> Formed:
    """Sample groups of ``data.group_size`` attempts from each task, each with a passed and a failed attempt, anew in every epoch.

    A group of size 1 is a passed attempt. Attempts are drawn without replacement, with probabilities proportional to ``count``. If a task has fewer
    distinct attempts than a group takes, an attempt can be drawn ``count`` times. ``needs`` is ``Advantage.needs`` of the estimator: a task without
    such a group still gives a group if an attempt passed (``pass``), or always (``attempt``). Groups come in random order, or in the order of the
    tasks (``in_order``); ``most`` draws a random sample of this many groups.
    """

    def draw(item: Rewarded, random: np.random.Generator) -> tuple[Sequence[Sequence[int]], str]:
        drawn = sample_mixed(item, data.group_size, data.groups_per_task, random)
        if not drawn and len(item.passed) and (needs == "attempt" or (needs == "pass" and item.passed.any())):
            sampler = ListSampler(item.group, item.passed.tolist(), random, repeats=False)
            drawn = [[sampler.draw(passed=True if needs == "pass" else None)]]
            while len(drawn[0]) < data.group_size and sampler.remaining():
                drawn[0].append(sampler.draw())
        if drawn:
            return drawn, ""
        if item.group.occurrences < data.group_size:
            return drawn, f"fewer than {data.group_size} attempts"
        return drawn, "all passed" if item.has_passed(0) else "none passed"

    return draw_tasks(rewarded, draw, data, epoch=epoch, most=most, in_order=in_order)


def draw_tasks(
    rewarded: Sequence[Rewarded], draw: Draw, data: DataConfig, *, epoch: int, most: int | None = None, in_order: bool = False
) -> Formed:
    """Draw the groups of all tasks, in random order or ``in_order``, or ``most`` of them."""
    random = np.random.default_rng([data.seed, epoch])
    if most is not None:
        return draw_most(rewarded, draw, data, epoch=epoch, most=most)
    result = draw_all(rewarded, draw, random)
    return result if in_order else result.shuffled(random)


def draw_all(rewarded: Iterable[Rewarded], draw: Draw, random: np.random.Generator) -> Formed:
    """Draw the groups of all tasks, in the order of the tasks."""
    result = Formed([], Counter(), Counter())
    for item in counting(rewarded, result):
        drawn, reason = draw(item, random)
        result.left_out.update([f"tasks: {reason}"] if reason else [])
        result.groups.extend(map(item.part, drawn))
    return result


def draw_most(rewarded: Sequence[Rewarded], draw: Draw, data: DataConfig, *, epoch: int, most: int) -> Formed:
    """Draw ``most`` groups, a random sample of the groups of all tasks; only sampled tasks are read, rewarded and counted.

    Each task has ``data.groups_per_task`` places. The places of all tasks are visited in random order; a place without a group is skipped.
    """
    result, drawn = Formed([], Counter(), Counter()), dict[int, list[Rewarded]]()
    for place in np.random.default_rng([data.seed, epoch, 6]).permutation(len(rewarded) * data.groups_per_task):
        if len(result.groups) >= most:
            break
        index, number = divmod(int(place), data.groups_per_task)
        if index not in drawn:
            task = draw_all([rewarded[index]], draw, np.random.default_rng([data.seed, epoch, 6, index]))
            drawn[index] = task.groups
            result.left_out.update(task.left_out)
            result.flagged.update(task.flagged)
        result.groups.extend(drawn[index][number : number + 1])
    return result


def passed(verdict: Verdict | None) -> bool:
    """Return whether an attempt passed all tests."""
    return verdict is not None and verdict.status is Status.PASSED


def failed(verdict: Verdict | None) -> bool:
    """Return whether an attempt was judged and did not pass; an unscored attempt neither passed nor failed."""
    return verdict is not None and verdict.status not in (Status.PASSED, Status.UNSCORED)


def sample_mixed(scored: Rewarded, size: int, max_groups: int, random: np.random.Generator) -> list[list[int]]:
    """Sample up to ``max_groups`` index lists, each with a passed and a failed attempt (``draw_mixed``)."""
    repeats = len(scored.group.attempts) < size
    return draw_mixed(ListSampler(scored.group, scored.passed.tolist(), random, repeats=repeats), size, max_groups, random)


def sample_outline(outline: Outline, data: DataConfig, random: np.random.Generator) -> list[list[int]]:
    """Sample groups of ``data.group_size`` attempts as ``sample_mixed`` does, of scored attempts by ``data.authors``, in less than 1 ms."""
    return draw_mixed(OutlineSampler(outline, data, random), data.group_size, data.groups_per_task, random)
