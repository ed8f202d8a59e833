"""Sample tasks with the policy, and judge the attempts while the next ones are sampled."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from queue import SimpleQueue

import numpy as np

from upsolve.archive.store import Archive
from upsolve.config import RewardConfig, SampleConfig, VerifyConfig
from upsolve.policy.request import Sampler, request_sampler, requests
from upsolve.reward.formula import Rewarded, analyses_needed
from upsolve.train.data.groups import failed, passed
from upsolve.train.data.sources import RoundGroups, by_task, round_tag
from upsolve.train.run.nodes import spread
from upsolve.train.run.processes import Processes
from upsolve.types import Attempt, Group, OnProgress, Task, Verdict
from upsolve.verify.limits import JudgeSettings, judge_settings
from upsolve.verify.pool.pool import judged, worker_count

__all__ = ["Rollouts", "judge_while_sampling", "sample_metrics", "staleness_metrics"]

Pair = tuple[Task, Attempt]
STRIDE = 1_000_003
"""Difference between the seeds of two rounds: a prime above any number of tasks of a round."""


class Cancelled(Exception):  # noqa: N818  never leaves this file
    """The sampler failed; judging stops."""


def judge_while_sampling(
    samples: Iterable[Pair], settings: JudgeSettings, *, on_judged: Callable[[int], None]
) -> list[Verdict]:
    """Judge attempts while sampling, the sampler in this thread, the judge in another; return verdicts in the order of the
    samples.

    The verdicts equal those of judging all samples at once; equal attempts are judged once. ``on_judged`` gets the number
    judged so far.
    """
    queue: SimpleQueue[Pair | Cancelled | None] = SimpleQueue()
    verdicts: dict[int, Verdict] = {}
    first: dict[str, int] = {}
    order: list[int] = []

    def fresh() -> Iterator[Pair]:
        while (pair := queue.get()) is not None:
            if isinstance(pair, Cancelled):
                raise pair
            yield pair

    with ThreadPoolExecutor(1, "judge") as thread:
        judging = thread.submit(lambda: verdicts.update(judged(fresh(), settings)))  # one by one
        try:
            for task, attempt in samples:
                if attempt.attempt_id not in first:
                    first[attempt.attempt_id] = len(first)
                    queue.put((task, attempt))
                order.append(first[attempt.attempt_id])
                on_judged(len(verdicts))
                if judging.done():  # before the last sample: it raised
                    break
            queue.put(None)
            while not judging.done():
                time.sleep(0.01)
                on_judged(len(verdicts))
        except BaseException:
            queue.put(Cancelled())
            raise
        judging.result()
    return [verdicts[index] for index in order]


@dataclass(frozen=True)
class Rollouts:
    """Samples of the policy in training, judged and stored in an archive. Several processes share the tasks."""

    processes: Processes
    """Each rank samples and judges its share; rank 0 writes."""
    archive: Archive
    """Stores samples and verdicts, tagged by round."""
    config: SampleConfig
    """How the policy is sampled; ``samples`` attempts per task."""
    settings: JudgeSettings
    """How attempts are judged."""
    reward: Callable[[Group], Rewarded]
    """Decides which groups have unequal rewards (dynamic sampling)."""
    author: str
    """Author of the samples."""
    on_progress: OnProgress
    """Reports the stages ``sample`` and ``verify``."""

    def judge(self, groups: RoundGroups, sampler: Callable[[], Sampler | None]) -> RoundGroups:
        """Sample the tasks of a round, judge and store the attempts; without ``tasks`` return the groups unchanged. Collective.

        Dynamic sampling (DAPO, 2503.14476): while fewer than ``wanted`` groups have unequal rewards, further tasks are sampled.
        ``sampler`` is called once; it returns the policy, ready to be sampled, or None on a rank that does not sample.
        """
        if not groups.tasks:
            return groups
        if self.processes.is_main:
            self.archive.drop(round_tag(groups.number))  # of an interrupted run
        policy, sampled = sampler(), list[Group]()
        tried, short = 0, groups.wanted
        while tried < len(groups.tasks) and short > 0:
            tasks = groups.tasks[tried : tried + short]
            seed = self.config.seed + STRIDE * groups.number + tried
            sampled += self.sample(policy, tasks, seed=seed, prefixes=groups.prefixes)
            rewards = [self.reward(group).rewards_G for group in sampled]
            short = groups.wanted - sum(len(rewards_G) > 0 and float(np.ptp(rewards_G)) > 0 for rewards_G in rewards)
            tried += len(tasks)
        if self.processes.is_main:
            self.store(sampled, round_tag(groups.number))
        spread(self.archive.path, self.processes)
        return replace(groups, sampled=sampled, tasks=(), staleness=[*(len(sampled) * [0]), *groups.staleness])

    def sample(
        self, policy: Sampler | None, tasks: Sequence[Task], *, seed: int, prefixes: Mapping[str, str] | None = None
    ) -> list[Group]:
        """Sample and judge tasks, in their order; ``prefixes``: task id -> beginning of a program that its samples continue. Collective.

        Each attempt has its own random numbers, so samples do not depend on the number of ranks, up to rounding. Attempts of a task
        are sorted by ``attempt_id``, because the order in which they end depends on the batch that is decoded.
        """
        share, config = self.share(policy is not None), self.config.model_copy(update={"seed": seed})
        own_tasks = tasks[share.start :: share.step] if policy is not None else []
        total, by_id = len(own_tasks) * config.samples, {task.task_id: task for task in own_tasks}
        done: list[Attempt] = []

        def samples() -> Iterator[Pair]:
            if policy is None or not own_tasks:
                return
            for attempt in self.draw(policy, own_tasks, config, prefixes or {}):
                done.append(attempt)
                self.on_progress("sample", len(done), total)
                yield by_id[attempt.task_id], attempt

        verdicts = judge_while_sampling(
            samples(), self.settings, on_judged=lambda n: self.on_progress("verify", n, total) if n else None
        )
        order = {task.task_id: number for number, task in enumerate(tasks)}
        pairs = self.processes.gather([*zip(done, verdicts, strict=True)])
        pairs.sort(key=lambda pair: (order[pair[0].task_id], pair[0].attempt_id))
        return by_task(tasks, [attempt for attempt, _ in pairs], [verdict for _, verdict in pairs])

    def draw(
        self, policy: Sampler, tasks: Sequence[Task], config: SampleConfig, prefixes: Mapping[str, str]
    ) -> Iterator[Attempt]:
        """Yield samples of tasks, as continuations of their prefixes."""
        if not any(prefixes.get(task.task_id) for task in tasks):
            yield from policy(tasks, config=config, author=self.author)
            return
        prefixed = [replace(one, prefix=prefixes.get(one.task.task_id, "")) for one in requests(tasks, config)]
        for _, attempt in request_sampler(policy, "source.hints").sample_requests(prefixed, config=config, author=self.author):
            yield attempt

    def share(self, samples: bool) -> slice:
        """Return the slice of tasks that this rank samples: every n-th if n ranks sample."""
        ranks = [rank for rank, does in enumerate(self.processes.gather([samples])) if does]
        return slice(ranks.index(self.processes.index), None, len(ranks)) if samples else slice(0, 0, 1)

    def store(self, groups: Sequence[Group], tag: str) -> None:
        """Store the groups of a round in the archive of the run."""
        self.archive.append(
            tasks=[group.task for group in groups],
            attempts=[attempt for group in groups for attempt in group.attempts],
            verdicts=[verdict for group in groups for verdict in group.verdicts if verdict],
            tag=tag,
        )


def judging_for(config: VerifyConfig, rewards: RewardConfig, processes: Processes) -> JudgeSettings:
    """Return the judge's settings: with the analyses that the reward needs, and this rank's share of the machine's workers."""
    judging = judge_settings(config, lines=rewards.mask_unexecuted).with_analyses(analyses_needed(rewards))
    return replace(judging, workers=max(1, worker_count(judging) // processes.per_node))


def staleness_metrics(found: RoundGroups) -> dict[str, float]:
    """Return ``staleness`` and ``staleness_max``, the mean and the maximum over the groups that the policy sampled, in rounds; {} without such groups."""
    ages = found.staleness
    return {"staleness": float(np.mean(ages)), "staleness_max": float(max(ages))} if ages else {}


def sample_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Return ``sampled`` attempts, ``sampled_tokens`` and ``sampled_passed`` (share of the scored ones) of new samples; {} without new samples."""
    attempts = [attempt for group in groups for attempt in group.attempts]
    if not attempts:
        return {}
    verdicts = [verdict for group in groups for verdict in group.verdicts]
    good, bad = sum(map(passed, verdicts)), sum(map(failed, verdicts))
    tokens = sum(attempt.tokens or 0 for attempt in attempts)
    share = {"sampled_passed": good / (good + bad)} if good + bad else {}
    return {"sampled": float(len(attempts)), "sampled_tokens": float(tokens), **share}
