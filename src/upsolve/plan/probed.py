"""The part of a plan that needs the model: likelihood of attempts, pass rate before training, speed.

Legend: P prompt tokens, R completion tokens.
"""

import math
import random
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from upsolve.archive.split import Split
from upsolve.config import DataConfig, EvalConfig, Recipe, SampleConfig, VerifyConfig
from upsolve.evaluate.intervals import Estimate, mean_interval
from upsolve.evaluate.tasksets import task_sets
from upsolve.plan.findings import BasePass, Cost, Likelihood, Share, share
from upsolve.policy.decoding.sample import LocalModel, sample_each
from upsolve.policy.machine import available_bytes
from upsolve.policy.tokens import Codec
from upsolve.train.data.encode import EncodedAttempt, EncodedGroup
from upsolve.train.data.groups import passed, select
from upsolve.train.data.pack import PackedBatch, pack, tokens_of
from upsolve.train.run.memory import memory_of
from upsolve.train.update.logprobs import Scorer
from upsolve.train.update.reference_scorer import UNSUPPORTED, logps_of, packed_scorers, padded_scores
from upsolve.types import Attempt, OnProgress, Status, Task, Verdict, content_id, is_scored
from upsolve.verify.limits import judge_settings
from upsolve.verify.pool.pool import verify

__all__ = ["Samples", "Scores", "base_of", "cost_of", "likelihood_of", "sample_base", "score_attempts"]

LONGEST = 512
"""Largest number of tokens of prompt and attempt together that is scored; all logits of an attempt are in memory at once."""
DRAWS = 4
"""Samples per task at temperature 1."""
SEEN = 500
"""Number of training groups among which the largest determines the estimated memory."""
MEASURED = 100
"""Number of training groups whose prompts and attempts give the mean lengths."""
BACKWARD = 3.0
"""Cost of a forward and backward pass, in forward passes."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Log-probabilities of stored attempts."""

    passed: tuple[float, ...]
    """Mean log-probability per token of each attempt that passed, nats."""
    failed: tuple[float, ...]
    """Mean log-probability per token of each attempt that did not pass, nats."""
    tokens_per_second: float
    """Speed of a packed forward pass over all of them, prompt tokens included; nan if nothing was scored."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Judged samples of the model before training."""

    greedy: tuple[tuple[Task, Verdict], ...]
    """One answer for each task."""
    drawn: tuple[tuple[Task, Verdict], ...]
    """``DRAWS`` samples for each task at temperature 1."""
    logps: tuple[float, ...]
    """Mean log-probability per token of each sample at temperature 1, nats."""
    mean_tokens: float
    """Mean length of a sample at temperature 1, tokens; nan without samples."""
    tokens_per_second: float
    """Speed of sampling, completion tokens only; nan without samples."""


def score_attempts(loaded: LocalModel, split: Split, data: DataConfig, *, max_attempts: int) -> Scores:
    """Score up to ``max_attempts`` passed and ``max_attempts`` failed attempts of training tasks, at most one of each per task."""
    texts: dict[bool, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {True: [], False: []}
    for task, attempt, good in choose_attempts(split, data):
        if min(map(len, texts.values())) >= max_attempts:
            break
        codec = loaded.codec
        prompt_P, ids_R = codec.prompt(task, (), codec.prefix_of(attempt)).ids_P, codec.ids_of(attempt)
        if len(texts[good]) < max_attempts and 0 < len(ids_R) <= LONGEST - len(prompt_P):
            texts[good].append((prompt_P, ids_R))
    means = {
        good: tuple(float(np.mean(logps)) for logps in logps_of(loaded.model.eval(), some, most=LONGEST))
        for good, some in texts.items()
    }
    groups = [
        EncodedGroup(prompt_P, (EncodedAttempt(ids_R, np.zeros(len(ids_R), dtype=np.float32)),))
        for prompt_P, ids_R in (*texts[True], *texts[False])
    ]
    return Scores(means[True], means[False], scoring_speed(loaded.model, groups))


def scoring_speed(model: Any, groups: Sequence[EncodedGroup]) -> float:
    """Return the tokens per second of a forward pass over groups that are packed as in training; nan without groups."""
    if not groups:
        return math.nan
    batch, before, seconds = pack([groups]), model.config._attn_implementation, [math.nan]
    for attention, scorer in [*packed_scorers(model), (before, padded_scores)]:
        model.set_attn_implementation(attention)
        try:
            seconds = [seconds_of(scorer, model, batch) for _ in range(2)]  # the first pass takes longer
        except UNSUPPORTED:
            continue
        break
    model.set_attn_implementation(before)
    return sum(map(tokens_of, groups)) / seconds[-1]


@torch.no_grad()
def seconds_of(scorer: Scorer, model: Any, batch: PackedBatch) -> float:
    """Return how long a forward pass takes."""
    started = time.monotonic()
    scorer(model, batch).logp_T.sum().item()
    return time.monotonic() - started


def choose_attempts(split: Split, data: DataConfig) -> Iterable[tuple[Task, Attempt, bool]]:
    """Yield (task, attempt, passed) for one passed and one failed attempt, chosen at random, of each training task, in random order."""
    groups = split.groups["train"]
    chance = random.Random(data.seed)
    for index in chance.sample(range(len(groups)), len(groups)):
        group = select(groups[index], data)
        for good in (True, False):
            fit = [
                attempt
                for attempt, verdict in zip(group.attempts, group.verdicts, strict=True)
                if is_scored(verdict) and passed(verdict) is good
            ]
            if fit:
                yield group.task, chance.choice(fit), good


def spread_tasks(tasks: Sequence[Task], max_tasks: int) -> list[Task]:
    """Return up to ``max_tasks`` tasks that have tests, evenly over the difficulties; within a difficulty, in the order of a hash of the id."""
    turn = Counter[str]()
    ranked: list[tuple[int, str, Task]] = []
    for task in sorted((task for task in tasks if task.tests), key=lambda task: content_id(task.task_id)):
        ranked.append((turn[task.difficulty], task.difficulty, task))
        turn[task.difficulty] += 1
    return [task for _, _, task in sorted(ranked, key=lambda entry: entry[:2])[:max_tasks]]


def sample_base(
    loaded: LocalModel, tasks: Sequence[Task], config: SampleConfig, *, judge: VerifyConfig, progress: OnProgress
) -> Samples:
    """Sample tasks greedily and at temperature 1, at once, and judge the samples."""
    greedy = config.model_copy(update={"samples": 1, "temperature": 0.0, "top_p": 1.0})
    drawn = greedy.model_copy(update={"samples": DRAWS, "temperature": 1.0})
    attempts: tuple[list[Attempt], list[Attempt]] = ([], [])
    total, started = len(tasks) * (1 + DRAWS), time.monotonic()
    for part, attempt in sample_each(
        loaded.model, loaded.codec, tasks, configs=(greedy, drawn), on_done=lambda done: progress("sample", done, total)
    ):
        attempts[part].append(attempt)
    seconds = time.monotonic() - started
    by_id = {task.task_id: task for task in tasks}
    pairs = [(by_id[attempt.task_id], attempt) for samples in attempts for attempt in samples]
    judged = [(task, verdict) for (task, _), verdict in zip(pairs, verify(pairs, judge_settings(judge)), strict=True)]
    lengths = [attempt.tokens or 0 for attempt in attempts[1]]
    tokens = sum(lengths) + sum(attempt.tokens or 0 for attempt in attempts[0])
    return Samples(
        greedy=tuple(judged[: len(attempts[0])]),
        drawn=tuple(judged[len(attempts[0]) :]),
        logps=tuple(a.behavior_logp / a.tokens for a in attempts[1] if a.behavior_logp is not None and a.tokens),
        mean_tokens=float(np.mean(lengths)) if lengths else math.nan,
        tokens_per_second=tokens / seconds if tokens else math.nan,
    )


def base_of(samples: Samples) -> tuple[BasePass, ...]:
    """Return the pass rates by difficulty; the last is over all tasks."""
    labels = sorted({task.difficulty for task, _ in samples.greedy})
    rows: list[tuple[str, set[str]]] = [(label or "(none)", {label}) for label in labels] if len(labels) > 1 else []
    return tuple(
        BasePass(
            name,
            len({task.task_id for task, _ in samples.greedy if task.difficulty in among}),
            share_passed([(task, verdict) for task, verdict in samples.greedy if task.difficulty in among]),
            share_passed([(task, verdict) for task, verdict in samples.drawn if task.difficulty in among]),
        )
        for name, among in [*rows, ("all", {*labels})]
    )


def share_passed(samples: Sequence[tuple[Task, Verdict]]) -> Share:
    """Return the share of scored samples that passed, with the interval over tasks."""
    by_task: dict[str, list[bool]] = {}
    for task, verdict in samples:
        if verdict.status is not Status.UNSCORED:
            by_task.setdefault(task.task_id, []).append(passed(verdict))
    found = share(sum(map(sum, by_task.values())), sum(map(len, by_task.values())))
    if len(by_task) < 2:
        return replace(found, low=0.0, high=1.0)
    interval = mean_interval([sum(passes) / len(passes) for passes in by_task.values()])
    return replace(found, low=interval.low, high=interval.high)


def estimate(values: Sequence[float]) -> Estimate | None:
    """Return the mean of the values with its interval; None without values."""
    return mean_interval(values, bounds=None) if values else None


def likelihood_of(scores: Scores, samples: Samples, split: Split, model: str) -> Likelihood:
    """Return the likelihoods of stored attempts and of the model's own samples."""
    authors = Counter(attempt.author for groups in split.groups.values() for group in groups for attempt in group.attempts)
    by_model = share(authors[model], authors.total())
    return Likelihood(estimate(scores.passed), estimate(scores.failed), estimate(samples.logps), by_model)


def cost_of(loaded: LocalModel, split: Split, recipe: Recipe, *, usable: int, scores: Scores, samples: Samples) -> Cost:
    """Estimate memory and time of a run from the measured speeds.

    Offline, each of the ``usable`` groups is trained on once an epoch: T = epochs x usable x (P + G R), with P and R averaged over the
    training tasks and their attempts, at most ``optim.max_steps`` steps of ``optim.tokens_per_step`` or of ``optim.attempts_per_step``. Online,
    each of ``source.rounds`` rounds samples ``source.groups`` groups of G = ``data.group_size`` attempts and trains on them. An objective on
    pairs trains on ``data.groups_per_task`` pairs of each task, G = 2.
    """
    prompt, attempt = mean_lengths(loaded.codec, split)
    online = recipe.source.rounds > 0
    pairs, length = recipe.objective.record.unit == "pair", samples.mean_tokens if online else attempt
    size = recipe.group_attempts
    tasks = recipe.source.rounds * recipe.source.groups if online else usable
    groups = tasks if online and not pairs else tasks * recipe.data.groups_per_task
    optim, group_tokens = recipe.optim, prompt + size * length
    tokens = whole(optim.epochs * groups * group_tokens)
    by_attempts = whole(max(1, optim.attempts_per_step // size) * group_tokens)
    step = by_attempts if optim.attempts_per_step else optim.tokens_per_step
    if optim.max_steps:
        tokens = min(tokens, optim.max_steps * step)
    others = task_sets(recipe.evaluate, recipe.data, ())
    measured = evaluation_samples(
        recipe.evaluate, split, each=recipe.sample.samples, others=sum(len(one.tasks) for one in others)
    )
    rolled = tasks * recipe.data.group_size * recipe.source.oversample if online else 0
    seconds_each = samples.mean_tokens / samples.tokens_per_second
    return Cost(
        peak_bytes=memory_of(recipe, split.groups["train"][:SEEN]).peak_bytes,
        available_bytes=available_bytes(),
        score_tokens_per_second=scores.tokens_per_second,
        sample_tokens_per_second=samples.tokens_per_second,
        training_tokens=tokens,
        training_seconds=BACKWARD * tokens / scores.tokens_per_second,
        rollout_seconds=rolled * seconds_each if rolled else 0.0,
        evaluation_seconds=2 * measured * seconds_each,
        steps=math.ceil(tokens / step) if step else 0,
    )


def evaluation_samples(config: EvalConfig, split: Split, *, each: int, others: int = 0) -> int:
    """Return the number of samples of one evaluation; ``others``: number of tasks of ``evaluate.archives``."""
    tasks, dev = len(split.tasks[config.split][: config.tasks or None]), len(split.tasks["dev"][: config.dev_tasks or None])
    measured, chosen = (sum(n if temperature else 1 for temperature in config.temperatures) for n in (each, config.dev_samples))
    measured += max(0, config.many_samples - each)  # at one of the temperatures
    return (tasks + others) * measured + (dev * chosen if len(config.temperatures) > 1 else 0)


def whole(tokens: float) -> int:
    """Return a number of tokens as an integer, 0 if it is unknown (nan)."""
    return 0 if math.isnan(tokens) else round(tokens)


def mean_lengths(codec: Codec, split: Split) -> tuple[float, float]:
    """Return the mean number of tokens of prompts and of attempts, over up to ``MEASURED`` training groups; 0 without groups."""
    groups = split.groups["train"][:MEASURED]
    prompts = [len(codec.prompt(group.task).ids_P) for group in groups]
    attempts = [len(codec.ids_of(attempt)) for group in groups for attempt in group.attempts[:4]]
    return float(np.mean(prompts or [0])), float(np.mean(attempts or [0]))
