"""A training run in progress: rounds, learning-rate schedule, order of steps, checkpoints, clean stop on signals."""

import json
import logging
import math
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

import numpy as np

from upsolve.config import DataConfig, MonitorConfig, OptimConfig, Recipe, SourceConfig
from upsolve.config.rules import few_steps
from upsolve.errors import TrainingError
from upsolve.files import write_text
from upsolve.objective.losses import formula_id
from upsolve.policy.tokens import Codec
from upsolve.reward.judged import group_of
from upsolve.train.data.encode import EncodedAttempt, EncodedGroup, prompts_of
from upsolve.train.data.groups import failed, passed, select
from upsolve.train.data.pack import PackedBatch, plan_scoring
from upsolve.train.run.folder import (
    BEST,
    MODEL,
    SUMMARY,
    Trained,
    link_or_copy,
    listed,
    load_trained,
    remove_leftovers,
    replace_folder,
)
from upsolve.train.run.monitor import Log, advice_after, check_health, warn_of
from upsolve.train.run.nodes import leave_disks
from upsolve.train.update.checkpoint import Progress
from upsolve.train.update.learner import Learner
from upsolve.train.update.step import FrozenScores
from upsolve.types import Group

__all__ = ["OnStep", "Round", "StopSignals", "start_run"]


@dataclass(frozen=True, slots=True)
class Round:
    """A round, ready to train on."""

    number: int
    """From 0 (offline: the epoch)."""
    steps: list[list[PackedBatch]]
    """Micro-batches of every optimizer step."""
    scores: FrozenScores
    """Scores of other policies that the loss needs."""
    groups: int
    """Number of groups of all its steps; a group counts once, even with several passes."""
    left_out: Counter[str]
    """Attempts and tasks that are not trained on, by reason."""
    flagged: Counter[str]
    """Scored attempts that are truncated or that a detector flagged, by its name."""
    metrics: Mapping[str, float]
    """Metrics of the round's new samples and values, for the log."""

    def groups_in(self, steps: int) -> int:
        """Return the number of groups in the first steps of the round."""
        return min(self.groups, sum(len({*batch.group_S.tolist()}) for step in self.steps[:steps] for batch in step))


@dataclass(frozen=True, slots=True)
class Schedule:
    """The learning rate over a run."""

    optim: OptimConfig
    """Peak learning rate, decay and warm-up."""
    rounds: int
    """Rounds of the run (offline: epochs, or parts of epochs)."""
    total_steps: int | None
    """Steps of the run before ``optim.max_steps``; None where they are unknown in advance (online, and where an epoch has several rounds):
    all rounds are assumed as long as the current one."""

    def position(self, step: int, number: int, in_round: int, steps: int) -> tuple[int, int]:
        """Return the index of the next step, from 0, and the total number of steps.

        ``step``: steps done; ``in_round``: those of round ``number``, which has ``steps`` steps.
        """
        known, most = self.total_steps is not None, self.optim.max_steps
        total = self.rounds * steps if self.total_steps is None else self.total_steps
        return (step, min(total, most or total)) if known or 0 < most < total else (number * steps + in_round, total)


def learning_rate(step: int, steps: int, optim: OptimConfig) -> float:
    """Return the learning rate of a step, from 0: linear warm-up, then constant, or linear or cosine decay towards zero."""
    warmup = math.ceil(optim.warmup * steps)
    if step < warmup:
        return optim.lr * (step + 1) / (warmup + 1)
    done = (step - warmup) / max(1, steps - warmup)
    factor = {"constant": 1.0, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}[optim.schedule]
    return optim.lr * factor


def expected_tokens(ahead: Sequence[Round], source: SourceConfig, optim: OptimConfig, *, group_size: int) -> float:
    """Return the expected number of tokens of a run; infinity if an epoch has several rounds and ``optim.max_steps`` is 0.

    Online, completions are assumed half as long as ``source.rollout.max_tokens``.
    """
    if ahead:
        sizes = [sum(batch.ids_BL.size for batch in step) for now in ahead for step in now.steps]
        return sum(sizes[: optim.max_steps or None])
    if not source.rounds:
        return optim.max_steps * optim.tokens_per_batch or math.inf
    return source.rounds * source.groups * optim.epochs * group_size * source.rollout.max_tokens / 2


def heldout_batches(
    groups: Sequence[Group], codec: Codec, optim: OptimConfig, *, max_pairs: int, max_tokens: int
) -> list[PackedBatch]:
    """Pack up to ``max_pairs`` held-out pairs, a passed and a failed attempt in the language of a task that fit ``max_tokens``, with
    advantages 1 and -1."""
    encoded: list[EncodedGroup] = []
    pairs = 0
    for group in (select(group, DataConfig()) for group in groups):
        good = [i for i, verdict in enumerate(group.verdicts) if passed(verdict)]
        bad = [i for i, verdict in enumerate(group.verdicts) if failed(verdict)]
        if pairs == max_pairs:
            break
        if not good or not bad:
            continue
        pairs += 1
        pair = group_of(group, (good[-1], bad[-1]))
        by_prompt: dict[tuple[int, ...], list[EncodedAttempt]] = {}
        for prompt, attempt, sign in zip(prompts_of([pair], codec)[0], pair.attempts, (1, -1), strict=True):
            ids = codec.ids_of(attempt)
            if ids and len(prompt) + len(ids) <= max_tokens:
                by_prompt.setdefault(prompt, []).append(EncodedAttempt(ids, np.full(len(ids), sign, dtype=np.float32)))
        encoded += [EncodedGroup(prompt, tuple(attempts)) for prompt, attempts in by_prompt.items()]
    return plan_scoring(encoded, optim)


OnStep = Callable[[int, int, dict[str, float]], None]
"""Called as ``on_step(done, total, row)``: steps done, steps in all, metrics of the step."""
EQUAL = (
    "groups whose rewards are all equal have no gradient: start from a policy that sometimes passes (sft), show hints "
    "(source.hints), or use a finer reward (reward.preset)"
)
"""Advice for a run in which no round had a gradient."""
LOGGER = logging.getLogger("upsolve.train")


class StopSignals:
    """Turns SIGTERM (Slurm, Docker, ``timeout``) and SIGINT (Ctrl-C) into ``KeyboardInterrupt`` between two steps.

    While ``deferred`` is True a first signal is only recorded; a second one stops at once. Has no effect outside the main thread,
    where Python cannot handle signals.
    """

    def __init__(self) -> None:
        self.deferred = self.received = False
        self.before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        """Install the handlers."""
        if threading.current_thread() is threading.main_thread():
            self.before = {number: signal.signal(number, self.catch) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Restore the previous handlers."""
        for number, handler in self.before.items():
            signal.signal(number, handler)
        if self.received and kind is None:
            raise KeyboardInterrupt("stopped after the last step: the run is finished")

    def release(self, *, done: bool) -> None:
        """End deferring; raise ``KeyboardInterrupt`` for a signal that came too late for the last step, unless the run is ``done``."""
        self.deferred = False
        if self.received and not done:
            raise KeyboardInterrupt

    def catch(self, _number: int, _frame: FrameType | None) -> None:
        """Record the signal, or raise ``KeyboardInterrupt``."""
        if not self.deferred or self.received:
            raise KeyboardInterrupt
        self.received = True


class Run:
    """A run in progress."""

    def __init__(
        self,
        learner: Learner,
        folder: Path,
        progress: Progress,
        *,
        schedule: Schedule,
        monitor: MonitorConfig,
        heldout: Sequence[PackedBatch],
        signals: StopSignals,
        on_step: OnStep,
    ) -> None:
        """Open the log and measure the held-out attempts before the first step."""
        self.learner, self.folder, self.progress = learner, folder, progress
        self.schedule, self.monitor, self.heldout = schedule, monitor, heldout
        self.signals, self.on_step = signals, on_step
        self.max_steps = schedule.optim.max_steps
        self.formula = ""
        self.now: Round | None = None
        if progress.start is None:
            progress.start = self.agreed(learner.measure(heldout))
        last_written = {"keep_steps": progress.step, "keep_rounds": progress.round}
        self.log = Log(folder, monitor, progress.start, **last_written, writes=learner.processes.is_main)
        self.log.note("scoring", learner.scoring)
        LOGGER.info("scoring: %s", learner.scoring)

    @property
    def is_done(self) -> bool:
        """Whether all rounds, or ``optim.max_steps`` steps, are done."""
        return self.progress.round >= self.schedule.rounds or 0 < self.max_steps <= self.progress.step

    def agreed(self, row: dict[str, float]) -> dict[str, float]:
        """Return the row of rank 0, so that all ranks decide alike: a different decision would deadlock them. Collective."""
        return self.learner.processes.from_main(lambda: row)

    def remaining(self, now: Round) -> Iterator[tuple[list[PackedBatch], float]]:
        """Yield the micro-batches and the learning rate of every remaining step of a round; signals are deferred meanwhile."""
        progress, self.now = self.progress, now
        if not now.steps:  # no group had a gradient: the log still shows the time it took
            self.log.write({"step": float(progress.step), "round": float(now.number), **now.metrics})
        self.signals.deferred = True
        while progress.in_round < len(now.steps) and not self.is_done:
            index, total = self.schedule.position(progress.step, now.number, progress.in_round, len(now.steps))
            yield now.steps[progress.in_round], learning_rate(index, total, self.schedule.optim)
        if progress.in_round >= len(now.steps):
            progress.groups, progress.left_out, progress.flagged = self.counts(now)
            progress.round, progress.in_round, self.now = progress.round + 1, 0, None
            if self.schedule.total_steps is None and not self.is_done:  # the next round can take long to prepare
                self.learner.save_checkpoint(self.folder, progress)
        if not self.is_done:
            self.stop_if_requested()
        # an epoch of a fixed number of steps writes no checkpoint, and the next one begins at once
        if self.is_done or self.schedule.total_steps is None:
            self.signals.release(done=self.is_done)

    def record(self, row: dict[str, float]) -> None:
        """Log a step, evaluate, check for collapse, and save best weights and checkpoint when due; stop if a signal was
        received. Collective."""
        progress, monitor, now = self.progress, self.monitor, self.now
        assert now is not None, "a step of a round"
        done, total = self.schedule.position(progress.step, now.number, progress.in_round, len(now.steps))
        first = now.metrics if progress.in_round == 0 else {}
        progress.step += 1
        progress.in_round += 1
        last = self.is_done or (now.number == self.schedule.rounds - 1 and progress.in_round == len(now.steps))
        if self.heldout and (last or progress.step % monitor.eval_every == 0):
            row = row | self.learner.measure(self.heldout)
        row = self.agreed({"step": float(progress.step), "round": float(now.number), **row, **first})
        progress.skipped += not math.isfinite(row["grad_norm"])
        self.log.write(row | {"skipped_steps": float(progress.skipped)} if progress.skipped else row)
        warn_of(row, monitor, self.learner.objective)
        if monitor.stop_on_collapse:
            check_health(row, progress.start or {}, monitor)
        self.save_due(row, written_next=last or (self.schedule.total_steps is None and progress.in_round == len(now.steps)))
        if self.learner.processes.is_main:
            self.on_step(done + 1, total, row)
        self.stop_if_requested()

    def save_due(self, row: dict[str, float], *, written_next: bool) -> None:
        """Save best weights, snapshot and checkpoint, each when due; no checkpoint if the model or the next checkpoint follows at once. Collective."""
        monitor, progress = self.monitor, self.progress
        score = row.get("heldout_passed_logp")
        if score is not None and score > progress.best:
            progress.best, progress.best_step = score, progress.step
            if monitor.keep == "best":
                self.save(self.folder / BEST)
        if monitor.snapshot_every and progress.step % monitor.snapshot_every == 0:
            self.save(self.folder / "snapshots" / f"{progress.step:06d}")
        if progress.step % monitor.save_every == 0 and not written_next:
            self.learner.save_checkpoint(self.folder, progress)

    def stop_if_requested(self) -> None:
        """Write a checkpoint and raise KeyboardInterrupt if a rank has received a signal. Collective."""
        if not any(self.learner.processes.gather([self.signals.received])):
            return
        self.learner.save_checkpoint(self.folder, self.progress)
        self.learner.processes.wait()  # a launcher kills the rank that writes if another one has ended
        self.log.close()
        raise KeyboardInterrupt(f"stopped after step {self.progress.step}; run the same command to resume")

    def counts(self, now: Round | None) -> tuple[int, dict[str, int], dict[str, int]]:
        """Return the counts (groups, left out, flagged) over the finished rounds and the finished steps of ``now``."""
        progress = self.progress
        if now is None:
            return progress.groups, progress.left_out, progress.flagged
        left_out = dict(Counter(progress.left_out) + now.left_out)
        groups = progress.groups + now.groups_in(progress.in_round)
        return groups, left_out, dict(Counter(progress.flagged) + now.flagged)

    def save(self, folder: Path) -> None:
        """Write the policy into a folder. Collective."""
        self.learner.save(folder)

    def finish(self, collapsed: str, *, usable: bool) -> Trained:
        """Write the last or the best weights to model/, write summary.json, and remove checkpoint and best weights. Collective.

        ``collapsed`` is why the run was stopped early, ``usable`` whether its last weights are good. TrainingError: no step was
        done, or the run collapsed and no earlier weights were kept.
        """
        if not self.progress.step:
            raise TrainingError(f"no group to train on; left out: {listed(self.counts(self.now)[1]) or 'nothing'}; {EQUAL}")
        monitor, progress, processes, best = self.monitor, self.progress, self.learner.processes, self.folder / BEST
        keep_best = processes.from_main(lambda: best.exists() and (monitor.keep == "best" or not usable))
        if keep_best and processes.is_main:
            replace_folder(self.folder / MODEL, lambda path: shutil.copytree(best, path, copy_function=link_or_copy))
        elif not usable and not keep_best:
            raise TrainingError(
                f"{collapsed}; there are no earlier weights to end with: {advice_after(collapsed, monitor.keep)}"
            )
        elif not keep_best:
            self.save(self.folder / MODEL)
        if monitor.keep_checkpoints:
            self.learner.save_checkpoint(self.folder, progress)
        self.log.close()
        if processes.is_main:
            groups, left_out, flagged = self.counts(self.now)
            kept_step = progress.best_step if keep_best else progress.step
            counts = {"groups": groups, "left_out": left_out, "flagged": flagged}
            summary: dict[str, Any] = {"steps": progress.step, "kept_step": kept_step, "collapsed": collapsed, **counts}
            summary |= {"scoring": self.learner.scoring, "start": progress.start or {}, "formula": self.formula}
            write_text(self.folder / SUMMARY, json.dumps(summary, indent=1))
            if not monitor.keep_checkpoints:
                remove_leftovers(self.folder)
        leave_disks(self.folder, processes)
        done = processes.from_main(lambda: load_trained(self.folder))
        assert done is not None, "rank 0 has written it"
        return done


def start_run(
    recipe: Recipe,
    learner: Learner,
    folder: Path,
    *,
    heldout: Sequence[Group],
    rounds: int,
    ahead: Sequence[Round],
    signals: StopSignals,
    on_step: OnStep | None = None,
) -> Run:
    """Start training, or resume from the checkpoint in the folder; TrainingError if no group of an offline run has a gradient.
    Collective.

    ``ahead``: all rounds, where they are prepared before the first step; otherwise empty.
    """
    if ahead and not any(now.steps for now in ahead):
        raise TrainingError(f"no group to train on; left out: {listed(sum((now.left_out for now in ahead), Counter[str]()))}")
    online, monitor = recipe.source.rounds > 0, recipe.monitor
    tokens = expected_tokens(ahead, recipe.source, recipe.optim, group_size=recipe.data.group_size)
    reads_start = recipe.objective.needs_reference or (not online and (recipe.objective.needs_old or recipe.select.reads_start))
    progress = learner.start_training(folder, keep_start=reads_start and not ahead, tokens=tokens)
    total = sum(len(now.steps) for now in ahead) if ahead else None
    if learner.processes.is_main and (warning := few_steps(total or 0, recipe.optim)):
        LOGGER.warning(warning)
    batches = heldout_batches(
        heldout, learner.codec, recipe.optim, max_pairs=monitor.heldout, max_tokens=recipe.data.max_tokens
    )
    schedule = Schedule(recipe.optim, rounds, total)
    run = Run(
        learner,
        folder,
        progress,
        schedule=schedule,
        monitor=monitor,
        heldout=batches,
        signals=signals,
        on_step=on_step or (lambda _done, _total, _row: None),
    )
    run.formula = formula_id(recipe.advantage, recipe.objective)
    return run
