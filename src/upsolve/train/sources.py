"""Where the groups of a round come from: the archive, the policy as it is now, earlier rounds.

Every sample is judged and kept in an archive of the run, ``rollouts``, before it is trained on: a run that is stopped finds it there,
and so does the next offline run.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from upsolve.archive.store import Archive
from upsolve.config import Recipe
from upsolve.config.online import Kind, SourceConfig
from upsolve.errors import ConfigError
from upsolve.train.groups import Cut, passed, weigh
from upsolve.train.pairs import cut_pairs, cut_stored
from upsolve.types import Attempt, Group, Task, Verdict

__all__ = ["Draw", "Drawn", "Judge", "Supply", "hinted", "shares"]

KINDS: tuple[Kind, ...] = ("archive", "policy", "replay")

Draw = Callable[[Sequence[Task], int], list[Attempt]]
"""Tasks and a seed -> G attempts of the policy at each, in the order of the tasks."""
Judge = Callable[[Sequence[tuple[Task, Attempt]]], list[Verdict]]
"""Judges attempts, in the order given."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """The groups of a round."""

    cut: Cut
    """Rewarded and weighed, in random order."""
    figures: Mapping[str, float]
    """About the new samples: ``sampled`` attempts, ``sampled_tokens``, ``sampled_passed`` (share)."""


def shares(config: SourceConfig, number: int) -> dict[Kind, int]:
    """Return how many groups of a round come from where: the mix of that round times ``groups``, rounded to the same sum.

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


def hinted(task: Task, share: float) -> Task:
    """Return the task with the first lines of its reference shown: that share of them, rounded down, never all.

    After the completion subtasks of StepCoder (2402.01391); there the policy goes on from these lines, here it writes them again, so
    that an attempt is a whole program as everywhere.
    """
    lines = task.reference.rstrip().split("\n")
    shown = min(int(share * len(lines)), len(lines) - 1)
    if not shown:
        return task
    begin = "\n".join(lines[:shown])
    prompt = f"{task.prompt.rstrip()}\n\nThe solution begins with these lines:\n```{task.language or 'python'}\n{begin}\n```"
    return replace(task, task_id=f"{task.task_id}#hint{shown}", prompt=prompt)


def pass_rate(group: Group) -> float | None:
    """Return the share of a group's judged attempts that passed, by count; None where none is judged."""
    counts = [
        (attempt.count, passed(verdict)) for attempt, verdict in zip(group.attempts, group.verdicts, strict=True) if verdict
    ]
    return sum(count for count, good in counts if good) / sum(count for count, _ in counts) if counts else None


class Supply:
    """The sources of a run. Several processes do the same at the same time; one of them writes."""

    def __init__(self, recipe: Recipe, groups: Sequence[Group], folder: Path, judge: Judge, *, writes: bool = True) -> None:
        """Take the tasks to train on with their stored attempts; ``folder`` is where the run lives."""
        self.recipe, self.groups, self.judge, self.writes = recipe, groups, judge, writes
        self.rollouts = Archive.create(folder / "rollouts")
        rates = {group.task.task_id: pass_rate(group) for group in groups}
        low, high = recipe.source.solved
        self.tasks = [g.task for g in groups if (rate := rates[g.task.task_id]) is None or low <= rate <= high]
        sign = -1 if recipe.source.order == "easy_first" else 1
        self.by_rate = sorted(self.tasks, key=lambda task: sign * (0.5 if (r := rates[task.task_id]) is None else r))

    def check(self) -> None:
        """Warn where a round is to have more groups than there are tasks to sample at.

        Raises:
            ConfigError: there is none.
        """
        source = self.recipe.source
        wanted = max(shares(source, number)["policy"] for number in range(source.rounds))
        if wanted and not self.tasks:
            raise ConfigError(
                f"source.solved {[*source.solved]}: of the {len(self.groups)} tasks to train on none has such a pass rate in the archive"
            )
        if wanted > len(self.tasks):
            warnings.warn(
                f"source.groups: a round takes a task once, so it has {len(self.tasks)} groups of new samples, not {wanted}",
                stacklevel=2,
            )

    def round(self, number: int, draw: Draw) -> Drawn:
        """Return the groups of a round; what is stored already is not sampled again."""
        recipe, wanted = self.recipe, shares(self.recipe.source, number)
        fresh = self.sampled(number, wanted["policy"], draw) if wanted["policy"] else []
        taken = [*fresh, *self.replayed(number, wanted["replay"])]
        cut = cut_pairs(taken, recipe, epoch=number) if recipe.objective.record.unit == "pair" else weigh(taken, recipe)
        if wanted["archive"]:
            stored = cut_stored(self.groups, recipe, epoch=number)
            cut = Cut(
                [*cut.groups, *stored.groups[: wanted["archive"]]],
                cut.left_out + stored.left_out,
                cut.flagged + stored.flagged,
            )
        return Drawn(cut.shuffled(np.random.default_rng([recipe.data.seed, number, 2])), figures(fresh))

    def pool(self, number: int) -> list[Task]:
        """Return the tasks of a round in the order in which they are tried, each with its hint."""
        source, tasks = self.recipe.source, self.tasks
        if source.order != "random":
            most = max(source.groups, math.ceil(len(tasks) * (number + 1) / source.rounds))
            tasks = self.by_rate[:most]
        order = np.random.default_rng([self.recipe.data.seed, number, 1]).permutation(len(tasks))
        share = source.hints * (1 - number / max(1, source.rounds - 1))
        return [hinted(tasks[i], share) for i in order]

    def sampled(self, number: int, wanted: int, draw: Draw) -> list[Group]:
        """Sample and judge groups, and keep them; where they are kept already, read them."""
        tag = f"{number:08x}"
        if kept := self.kept(number):
            return kept
        if self.writes:
            self.rollouts.drop(tag)
        groups: list[Group] = []
        pool, tried, short = self.pool(number), 0, wanted
        most = min(len(pool), math.ceil(wanted * self.recipe.source.oversample))
        while tried < most and short > 0:
            tasks = pool[tried : min(most, tried + short)]
            more = self.tried(tasks, draw(tasks, self.recipe.source.rollout.seed + 1_000_003 * number + tried))
            groups += more
            short -= sum(map(self.useful, more))
            tried += len(tasks)
        if self.writes:
            self.keep(groups, tag)
        return groups

    def keep(self, groups: Sequence[Group], tag: str) -> None:
        """Write down the groups of a round."""
        self.rollouts.append(
            tasks=[group.task for group in groups],
            attempts=[attempt for group in groups for attempt in group.attempts],
            verdicts=[verdict for group in groups for verdict in group.verdicts if verdict],
            tag=tag,
        )

    def tried(self, tasks: Sequence[Task], attempts: Sequence[Attempt]) -> list[Group]:
        """Judge attempts and put them together by task."""
        by_id = {task.task_id: task for task in tasks}
        verdicts = self.judge([(by_id[attempt.task_id], attempt) for attempt in attempts])
        return together(tasks, attempts, verdicts)

    def useful(self, group: Group) -> bool:
        """Return whether a group has unequal rewards."""
        return any(float(np.ptp(one.rewards_G)) > 0 for one in weigh([group], self.recipe).groups)

    def kept(self, number: int) -> list[Group]:
        """Return the groups sampled in a round, as they were; none where the round has not been judged to its end."""
        tag = f"{number:08x}"
        verdicts = self.rollouts.tagged("verdicts", tag)
        if not verdicts:
            return []
        tasks = {task.task_id: task for task in self.rollouts.tasks()}
        attempts = self.rollouts.tagged("attempts", tag)
        return together([tasks[name] for name in dict.fromkeys(a.task_id for a in attempts)], attempts, verdicts)

    def replayed(self, number: int, wanted: int) -> list[Group]:
        """Return groups of earlier rounds, drawn without replacement."""
        source = self.recipe.source
        earlier = (
            [group for n in range(max(0, number - source.replay_rounds), number) for group in self.kept(n)] if wanted else []
        )
        low, high = source.replay_solved
        fit = [group for group in earlier if (rate := pass_rate(group)) is not None and low <= rate <= high]
        order = np.random.default_rng([self.recipe.data.seed, number, 3]).permutation(len(fit))
        return [fit[i] for i in order[:wanted]]


def together(tasks: Sequence[Task], attempts: Sequence[Attempt], verdicts: Sequence[Verdict]) -> list[Group]:
    """Return attempts and verdicts, both in one order, by task."""
    mine: dict[str, list[tuple[Attempt, Verdict]]] = {task.task_id: [] for task in tasks}
    for attempt, verdict in zip(attempts, verdicts, strict=True):
        mine[attempt.task_id].append((attempt, verdict))
    return [
        Group(task, tuple(a for a, _ in mine[task.task_id]), tuple(v for _, v in mine[task.task_id]))
        for task in tasks
        if mine[task.task_id]
    ]


def figures(groups: Sequence[Group]) -> dict[str, float]:
    """Return what a log says of new samples."""
    attempts = [attempt for group in groups for attempt in group.attempts]
    if not attempts:
        return {}
    good = sum(passed(verdict) for group in groups for verdict in group.verdicts)
    tokens = sum(attempt.tokens or 0 for attempt in attempts)
    return {"sampled": float(len(attempts)), "sampled_tokens": float(tokens), "sampled_passed": good / len(attempts)}
