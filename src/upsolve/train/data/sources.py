"""Sources of groups. Offline: stored attempts. Online: a mix of new samples of the policy, stored attempts and samples of earlier rounds.

A source selects the groups and tasks of a round; ``judging.py`` samples the tasks and judges the samples. Every sample is stored with
its verdict in ``rollouts``, an archive of the run, before it is trained on: a resumed run, and later offline runs, read it from there.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from upsolve.archive.groups import Lazy, pick
from upsolve.archive.store import Archive
from upsolve.config import DataConfig, SourceConfig
from upsolve.config.online import Kind
from upsolve.policy.prompt import share_of, starting_points, with_hint
from upsolve.train.data.groups import drawn_first, failed, passed, select
from upsolve.types import Attempt, Group, Task, Verdict

__all__ = [
    "OnlineSource",
    "RoundGroups",
    "Source",
    "StoredSource",
    "by_task",
    "parts_of_epoch",
    "rated_tasks",
    "round_tag",
    "shares",
]

KINDS: tuple[Kind, ...] = ("archive", "policy", "replay")


@dataclass(frozen=True, slots=True)
class RoundGroups:
    """The groups of a round, and the tasks that are still to be sampled."""

    number: int
    """Round, from 0 (offline: an epoch, or part of one)."""
    stored: Sequence[Group] = ()
    """All judged attempts of tasks, from which groups are sampled."""
    most_stored: int | None = None
    """Most groups sampled from ``stored``; None: no limit."""
    sampled: Sequence[Group] = ()
    """Judged samples of this round."""
    replayed: Sequence[Group] = ()
    """Judged samples of earlier rounds."""
    staleness: Sequence[int] = ()
    """Staleness of each group, first of ``sampled``, then of ``replayed``: rounds from the weights that sampled it to this round."""
    tasks: Sequence[Task] = ()
    """Tasks to sample, in order; () once ``sampled`` has the samples."""
    prefixes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Task id -> beginning of the task's reference that its samples continue; samples of other tasks start from nothing."""
    wanted: int = 0
    """Number of groups with unequal rewards wanted from ``tasks``."""
    repeats: bool = False
    """Whether ``stored`` is the same in every round."""


def parts_of_epoch(groups: Sequence[Group], data: DataConfig) -> int:
    """Return the number of rounds of an offline epoch, each of at most ``data.tasks_at_once`` tasks."""
    return -(-len(groups) // data.tasks_at_once)


class StoredSource:
    """Offline: the judged attempts of an archive; every epoch samples different groups from them."""

    is_online = False
    """Whether the policy in training samples: pi_old is the policy at the start of a round, not the frozen start."""

    def __init__(self, groups: Sequence[Group], data: DataConfig, *, epochs: int, drawn: bool = False) -> None:
        """Set the groups; ``drawn``: groups of large tasks are drawn before their programs are read (``drawn_first``)."""
        self.given, self.data, self.drawn = groups, data, drawn
        self.seed, self.parts = data.seed, parts_of_epoch(groups, data)
        self.rounds, self.is_ahead = epochs * self.parts, self.parts == 1
        """Number of rounds; whether all rounds are prepared before the first step, which needs that each round is a whole epoch."""
        self.stored = Lazy(groups, lambda group: select(group, data))

    def groups(self, number: int) -> RoundGroups:
        """Return the stored attempts of all tasks or, if an epoch has several rounds, of a random part of the tasks.

        The parts of an epoch are disjoint and differ by at most one task; each is in the order of the archive.
        """
        if self.parts == 1:
            stored = drawn_first(self.given, self.data, epoch=number) if self.drawn else self.stored
            return RoundGroups(number, stored)
        epoch, part = divmod(number, self.parts)
        order = np.random.default_rng([self.seed, epoch, 4]).permutation(len(self.stored))
        chosen = [int(i) for i in sorted(order[part :: self.parts])]
        if self.drawn:
            stored = drawn_first(pick(self.given, chosen), self.data, epoch=number)
        else:
            stored = Lazy(chosen, self.stored.__getitem__)
        return RoundGroups(number, stored)


def shares(config: SourceConfig, number: int) -> dict[Kind, int]:
    """Return the number of groups of a round from each source: the mix of the round times ``groups``, rounded to the same sum.

    The largest remainders are rounded up.
    """
    done = number / max(1, config.rounds - 1)
    end = config.mix_end or config.mix
    mix: dict[Kind, float] = {}
    for kind in KINDS:
        first, last = config.mix.get(kind, 0) / sum(config.mix.values()), end.get(kind, 0) / sum(end.values())
        mix[kind] = config.groups * (first + done * (last - first))
    counts: dict[Kind, int] = {kind: math.floor(value + 1e-9) for kind, value in mix.items()}
    by_rest = sorted(mix, key=lambda kind: counts[kind] - mix[kind])
    for kind in by_rest[: config.groups - sum(counts.values())]:
        counts[kind] += 1
    return counts


def pass_rate(group: Group) -> float | None:
    """Return the share of passed attempts among the scored ones of a group, weighted by ``count``; None if none is scored."""
    judged = [*zip(group.attempts, group.verdicts, strict=True)]
    good = sum(attempt.count for attempt, verdict in judged if passed(verdict))
    bad = sum(attempt.count for attempt, verdict in judged if failed(verdict))
    return good / (good + bad) if good + bad else None


def rated_tasks(groups: Sequence[Group], solved: tuple[float, float]) -> list[tuple[Task, float | None]]:
    """Return the tasks whose pass rate in the archive is within ``solved`` or unknown, with their pass rates."""
    tried = ((group.task, pass_rate(group)) for group in groups)
    return [(task, rate) for task, rate in tried if rate is None or solved[0] <= rate <= solved[1]]


class OnlineSource:
    """Online: every round mixes new samples of the policy, stored attempts and samples of earlier rounds (``source.mix``)."""

    is_online, is_ahead = True, False

    def __init__(
        self,
        groups: Sequence[Group],
        rollouts: Archive,
        source: SourceConfig,
        *,
        data: DataConfig,
        answers: bool = False,
        weights: Callable[[], Mapping[int, int]] = dict,
    ) -> None:
        """Make the source from the training tasks with their stored attempts, if any, and the archive of the run's samples.

        ``answers``: the policy writes whole answers (``model.completion``). ``weights``: returns a map from each round
        sampled ahead to the round whose start weights sample it; other rounds are sampled with their own start weights.
        """
        self.weights = weights
        self.answers, self.reached, self.read = answers, dict[str, str](), 0
        self.source, self.data, self.rollouts, self.rounds = source, data, rollouts, source.rounds
        self.stored = Lazy(groups, lambda group: select(group, data))
        rated = rated_tasks(groups, source.solved)
        self.tasks = [task for task, _ in rated]
        sign = -1 if source.order == "easy_first" else 1
        self.by_rate = [task for task, _ in sorted(rated, key=lambda pair: sign * (0.5 if pair[1] is None else pair[1]))]

    def groups(self, number: int) -> RoundGroups:
        """Return the groups of a round and the tasks to sample; a round that is judged already is not sampled again."""
        counts = shares(self.source, number)
        sampled = self.judged_samples(number) if counts["policy"] else []
        replayed = self.replayed(number, counts["replay"])
        asked = RoundGroups(number) if sampled else self.to_sample(number)
        return replace(
            asked,
            stored=self.stored if counts["archive"] else (),
            most_stored=counts["archive"],
            repeats=counts["archive"] > 0,
            sampled=sampled,
            replayed=[group for _, group in replayed],
            staleness=[*(len(sampled) * [number - self.weights().get(number, number)]), *(age for age, _ in replayed)],
        )

    def to_sample(self, number: int) -> RoundGroups:
        """Return the tasks of a round, without its groups."""
        wanted = shares(self.source, number)["policy"]
        tasks = self.candidates(number)[: math.ceil(wanted * self.source.oversample)] if wanted else []
        return RoundGroups(number, tasks=tasks, prefixes=self.prefixes(number, tasks), wanted=wanted)

    def candidates(self, number: int) -> list[Task]:
        """Return the tasks of a round in the order of sampling, with hints in their prompts if the policy writes whole answers."""
        source, tasks = self.source, self.tasks
        if source.order != "random":
            count = max(source.groups, math.ceil(len(tasks) * (number + 1) / source.rounds))
            tasks = self.by_rate[:count]
        order = np.random.default_rng([self.data.seed, number, 1]).permutation(len(tasks))
        return [with_hint(tasks[i], self.hinted(number)) if self.answers else tasks[i] for i in order]

    def hinted(self, number: int) -> float:
        """Return the share of each reference that is given to the samples of a round as a hint."""
        return self.source.hints * (1 - number / max(1, self.source.rounds - 1))

    def prefixes(self, number: int, tasks: Sequence[Task]) -> dict[str, str]:
        """Return the prefix of each task's reference that the samples of a round continue; its length follows the round or earlier passes."""
        source = self.source
        if self.answers or not source.hints:
            return {}
        if source.hints_passed is None:
            return {task.task_id: share_of(task.reference, self.hinted(number)) for task in tasks}
        for earlier in range(self.read, number):
            self.reached |= {one.task.task_id: self.next_prefix(one) for one in self.judged_samples(earlier)}
        self.read = max(self.read, number)
        return {task.task_id: self.reached.get(task.task_id, self.last_start(task)) for task in tasks}

    def last_start(self, task: Task, before: int | None = None) -> str:
        """Return the longest beginning of a reference, or the longest of fewer characters than ``before``; empty if there is none."""
        starts = starting_points(task.reference, self.source.hints)
        return next((text for text in reversed(starts) if before is None or len(text) < before), "")

    def next_prefix(self, group: Group) -> str:
        """Return the prefix of a task's next samples: a shorter one if a share of more than ``hints_passed`` of this group passed."""
        given, rate = group.attempts[0].prefix, pass_rate(group)
        return self.last_start(group.task, len(given)) if (rate or 0.0) > (self.source.hints_passed or 0.0) else given

    def judged_samples(self, number: int) -> list[Group]:
        """Return the stored samples of a round with their verdicts; [] if the round was not finished."""
        tag = round_tag(number)
        verdicts = self.rollouts.tagged("verdicts", tag)
        if not verdicts:
            return []
        tasks = {task.task_id: task for task in self.rollouts.tasks()}
        attempts = self.rollouts.tagged("attempts", tag)
        return by_task([tasks[name] for name in dict.fromkeys(a.task_id for a in attempts)], attempts, verdicts)

    def replayed(self, number: int, count: int) -> list[tuple[int, Group]]:
        """Return (staleness in rounds, group) for ``count`` groups of earlier rounds, sampled without replacement."""
        source, weights = self.source, self.weights()
        rounds = range(max(0, number - source.replay_rounds), number) if count else ()
        ages = {n: number - weights.get(n, n) for n in rounds}
        oldest = max(ages.values(), default=0) if source.max_staleness is None else source.max_staleness
        earlier = [(age, group) for n, age in ages.items() if age <= oldest for group in self.judged_samples(n)]
        low, high = source.replay_solved
        fit = [(age, group) for age, group in earlier if (rate := pass_rate(group)) is not None and low <= rate <= high]
        order = np.random.default_rng([self.data.seed, number, 3]).permutation(len(fit))
        return [fit[i] for i in order[:count]]


Source = StoredSource | OnlineSource


def round_tag(number: int) -> str:
    """Return the tag of a round in ``rollouts``."""
    return f"{number:08x}"


def by_task(tasks: Sequence[Task], attempts: Sequence[Attempt], verdicts: Sequence[Verdict]) -> list[Group]:
    """Group attempts and their verdicts by task."""
    results: dict[str, list[tuple[Attempt, Verdict]]] = {task.task_id: [] for task in tasks}
    for attempt, verdict in zip(attempts, verdicts, strict=True):
        results[attempt.task_id].append((attempt, verdict))
    return [
        Group(task, tuple(a for a, _ in results[task.task_id]), tuple(v for _, v in results[task.task_id]))
        for task in tasks
        if results[task.task_id]
    ]
