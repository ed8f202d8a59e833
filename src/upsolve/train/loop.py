"""The path: groups -> rewards -> advantages -> batches -> steps, with checkpoints and monitors."""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upsolve.config import Recipe, dump_recipe, load_recipe
from upsolve.errors import CollapseError, TrainingError
from upsolve.files import write_text
from upsolve.progress import OnProgress, no_progress
from upsolve.train.checkpoint import Progress
from upsolve.train.learner import Learner
from upsolve.train.monitor import Log, check_health, read_log, warn_of_clipping
from upsolve.train.pack import PackedBatch
from upsolve.train.rounds import Round, rounds_of
from upsolve.train.schedule import plan_heldout
from upsolve.train.step import learning_rate
from upsolve.types import Group

__all__ = ["Trained", "claim", "train"]

SUMMARY = "summary.json"
EQUAL = (
    "where all rewards of a group are equal, begin with a policy that passes now and then (sft), with hints "
    "(source.hints), or with a reward of more levels (reward.preset)"
)
"""What to do about rounds without a signal."""


@dataclass(frozen=True, slots=True)
class Trained:
    """What a run left behind."""

    folder: Path
    """Folder of the model to use."""
    steps: int
    """Steps done."""
    kept_step: int
    """Step whose weights were kept."""
    collapsed: str
    """Why the run was stopped; empty if it was not."""
    groups: int
    """Groups trained on, over all epochs."""
    left_out: dict[str, int]
    """What was not trained on, by reason, over all epochs."""
    flagged: dict[str, int]
    """Scored attempts that were cut short or that a detector of hacks caught, by its name, over all epochs."""
    metrics: list[dict[str, float]]
    """One mapping a step."""

    def text(self) -> str:
        """Say what was done, for a person."""
        left_out = ", ".join(f"{count} {reason}" for reason, count in self.left_out.items()) or "nothing"
        flagged = ", ".join(f"{count} {name}" for name, count in self.flagged.items())
        stopped = f"; stopped: {self.collapsed}" if self.collapsed else ""
        done = f"{self.steps} steps on {self.groups} groups, weights of step {self.kept_step}"
        return f"{done}{stopped}; left out: {left_out}" + (f"; flagged: {flagged}" if flagged else "")


OnStep = Callable[[int, int, dict[str, float]], None]


def silent(_done: int, _all: int, _row: dict[str, float]) -> None:
    """Show nothing."""


class Run:
    """A run in progress: what learns, how far it is, its log and its place."""

    def __init__(self, learner: Learner, progress: Progress, folder: Path, heldout: list[PackedBatch]) -> None:
        self.learner, self.progress, self.folder, self.heldout = learner, progress, folder, heldout
        self.recipe = learner.recipe
        self.log = Log(folder, keep_steps=progress.step, keep_rounds=progress.round, writes=learner.leads)
        if progress.start is None:
            progress.start = learner.watch(heldout)

    def do(self, now: Round, total: int, on_step: OnStep) -> None:
        """Do the steps of a round that are not done yet."""
        progress, steps = self.progress, now.plan.steps
        self.plan = now.plan
        if not steps:  # every group had equal rewards: what that has cost is told
            self.log.write({"step": float(progress.step), "round": float(progress.round), **now.figures})
        while progress.in_round < len(steps) and not self.enough:
            place = progress.round * len(steps) + progress.in_round
            rate = learning_rate(place, total * len(steps), self.recipe.optim)
            figures = now.figures if progress.in_round == 0 else {}
            row = {**self.learner.step(steps[progress.in_round], now.known, rate), **figures}
            progress.step += 1
            progress.in_round += 1
            row = {"step": float(progress.step), "round": float(progress.round), **row}
            self.after(row, last=self.enough or (progress.round == total - 1 and progress.in_round == len(steps)))
            if self.learner.leads:
                on_step(place + 1, total * len(steps), row)
        self.count()
        progress.round, progress.in_round = progress.round + 1, 0
        self.learner.keep(self.folder, progress)

    @property
    def enough(self) -> bool:
        """Return whether ``optim.max_steps`` are done."""
        return 0 < self.recipe.optim.max_steps <= self.progress.step

    def count(self) -> None:
        """Add the round to what the summary says."""
        progress, plan = self.progress, self.plan
        progress.groups += plan.groups
        progress.left_out = dict(Counter(progress.left_out) + plan.left_out)
        progress.flagged = dict(Counter(progress.flagged) + plan.flagged)

    def after(self, row: dict[str, float], *, last: bool) -> None:
        """Watch, log, judge the run's health, keep the best weights, write a checkpoint when it is time."""
        monitor, progress, learner = self.recipe.monitor, self.progress, self.learner
        if self.heldout and (last or progress.step % monitor.eval_every == 0):
            row |= learner.watch(self.heldout)
        self.log.write(row)
        warn_of_clipping(row)
        if monitor.stop_on_collapse:
            check_health(row, progress.start or {}, monitor)
        score = row.get("heldout_margin")
        if score is not None and score > progress.best:
            progress.best, progress.best_step = score, progress.step
            if monitor.keep == "best":
                self.save(self.folder / "best")
        if monitor.snapshot_every and progress.step % monitor.snapshot_every == 0:
            self.save(self.folder / "snapshots" / f"{progress.step:06d}")
        if progress.step % monitor.save_every == 0:
            learner.keep(self.folder, progress)

    def save(self, folder: Path) -> None:
        """Write the policy into a folder; all processes together, the first one writes."""
        policy = self.learner.gathered()
        if self.learner.leads:
            replace_folder(folder, lambda place: self.learner.save(policy, place))


def replace_folder(folder: Path, write: Callable[[Path], object]) -> None:
    """Write a folder anew under a temporary name, then put it in its place."""
    temporary = folder.with_name(folder.name + ".tmp")
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(temporary, ignore_errors=True)
    write(temporary)
    shutil.rmtree(folder, ignore_errors=True)
    temporary.replace(folder)


def train(
    recipe: Recipe,
    groups: Sequence[Group],
    heldout: Sequence[Group],
    folder: str | Path,
    *,
    on_step: OnStep | None = None,
    show: OnProgress | None = None,
) -> Trained:
    """Train a policy on judged groups; a run that was stopped goes on where it was, bit by bit on one processor kind.

    Started in several processes (``torchrun``, ``accelerate launch``), each takes its share of every step's batches; the first one writes.

    Args:
        recipe: all settings.
        groups: judged groups of the training tasks.
        heldout: judged groups of other tasks, for the monitors.
        folder: where model/, checkpoint, metrics.jsonl, TensorBoard's files and the resolved recipe go.
        on_step: called with steps done, steps in all, and the step's figures.
        show: called while a round is sampled and judged, with what is done, how much of it, and how much there is.

    Raises:
        TrainingError: nothing to train on, or the folder belongs to another recipe.
    """
    place = Path(folder)
    claim(place, recipe)
    if done := load_trained(place):
        return done
    if not groups:
        raise TrainingError(f"no group to train on: nothing of {recipe.data.archive} is in the training split (data.train)")
    learner = Learner(recipe)
    rounds = rounds_of(learner, groups, place, show or no_progress)
    progress = learner.begin(place, keep_start=recipe.objective.needs_reference and recipe.source.rounds > 0)
    run = Run(learner, progress, place, plan_heldout(heldout, recipe, learner.codec))
    collapsed = ""
    try:
        while progress.round < rounds.total and not run.enough:
            run.do(rounds.next(progress.round), rounds.total, on_step or silent)
    except CollapseError as error:
        collapsed = str(error)
        run.count()
    if not progress.step:
        raise TrainingError(f"no group to train on: {progress.left_out}; {EQUAL}")
    policy = learner.gathered()
    if learner.leads:
        finish(run, policy, collapsed)
    learner.accelerator.wait_for_everyone()
    if not (done := load_trained(place)):
        raise TrainingError(f"{place}: the first process has left no {SUMMARY}")
    return done


def claim(folder: Path, recipe: Recipe) -> None:
    """Make the folder and write the resolved recipe into it.

    Raises:
        TrainingError: it holds a run of another recipe.
    """
    file = folder / "recipe.yaml"
    if file.exists() and load_recipe(file) != recipe:
        raise TrainingError(f"{folder}: holds a run of another recipe (see {file}); choose another folder or remove it")
    dump_recipe(recipe, file)


def finish(run: Run, policy: Any, collapsed: str) -> None:
    """Put the weights to keep, the best or those of the policy, into model/, and what was done into summary.json."""
    folder, best = run.folder, run.folder / "best"
    keep_best = best.exists() and (run.recipe.monitor.keep == "best" or bool(collapsed))
    target = folder / "model"
    if keep_best:
        replace_folder(target, lambda path: shutil.copytree(best, path))
    elif collapsed:
        raise TrainingError(f"{collapsed}; no good checkpoint was kept before")
    else:
        replace_folder(target, lambda path: run.learner.save(policy, path))
    run.log.close()
    progress = run.progress
    kept = progress.best_step if keep_best else progress.step
    counts = {"groups": progress.groups, "left_out": progress.left_out, "flagged": progress.flagged}
    said = {"steps": progress.step, "kept_step": kept, "collapsed": collapsed, **counts}
    write_text(folder / SUMMARY, json.dumps(said, indent=1))


def load_trained(folder: Path) -> Trained | None:
    """Return what a finished run left in a folder; None while it is not finished."""
    file = folder / SUMMARY
    if not file.exists():
        return None
    said: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return Trained(folder=folder / "model", metrics=read_log(folder / "metrics.jsonl"), **said)
