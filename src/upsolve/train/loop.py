"""The path: groups -> rewards -> advantages -> batches -> steps, with checkpoints and monitors."""

import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, PartialState
from accelerate.utils import gather_object

from upsolve.config import Recipe, dump_recipe, load_recipe
from upsolve.errors import CollapseError, TrainingError
from upsolve.policy.attention import keep_memory
from upsolve.policy.model import load_codec, load_model, save_model, trainable, with_adapters
from upsolve.policy.tokens import Codec
from upsolve.train import checkpoint
from upsolve.train.logprobs import Scorer, TokenScores
from upsolve.train.monitor import Log, check_health, held_out, read_log
from upsolve.train.pack import PackedBatch
from upsolve.train.padded import choose_scorer
from upsolve.train.plan import Plan, make_plan
from upsolve.train.reference import reference_logps
from upsolve.train.step import Known, learning_rate, sum_gradients
from upsolve.train.tally import Tally, merged, step_metrics
from upsolve.types import Group

__all__ = ["Trained", "claim", "train"]

SUMMARY = "summary.json"


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
    metrics: list[dict[str, float]]
    """One mapping a step."""

    def text(self) -> str:
        """Say what was done, for a person."""
        left_out = ", ".join(f"{count} {reason}" for reason, count in self.left_out.items()) or "nothing"
        stopped = f"; stopped: {self.collapsed}" if self.collapsed else ""
        return f"{self.steps} steps on {self.groups} groups, weights of step {self.kept_step}{stopped}; left out: {left_out}"


class Run:
    """A run in progress: model, optimiser, log and place."""

    def __init__(self, recipe: Recipe, folder: Path, plan: Plan, codec: Codec) -> None:
        keep_memory()
        torch.manual_seed(recipe.seed)
        self.recipe, self.folder, self.plan, self.codec = recipe, folder, plan, codec
        precision = "bf16" if recipe.model.bf16 else "no"
        self.accelerator = Accelerator(mixed_precision=precision, cpu=not torch.cuda.is_available())
        base = load_model(recipe.model.name, device=str(self.accelerator.device))
        scorer = choose_scorer(base, plan.steps[0][0])
        self.reference = self.frozen(base, scorer) if recipe.objective.needs_reference else None
        self.model = with_adapters(base, recipe.model, seed=recipe.seed)
        self.model.train()
        self.score = self.scoring(scorer, self.model)
        optim = recipe.optim
        self.optimizer = torch.optim.AdamW(trainable(self.model), lr=optim.lr, weight_decay=optim.weight_decay)
        self.progress = checkpoint.restore(folder, self.model, self.optimizer)
        self.log = Log(folder, keep_steps=self.progress.step, writes=self.leads)

    def frozen(self, base: Any, scorer: Scorer) -> Any:
        """Return the reference log-probabilities of everything that will be trained on: one process computes, the others read."""
        every = [batch for step in self.plan.steps for batch in step]
        name = "bf16" if self.recipe.model.bf16 else "fp32"
        base.eval()
        with self.accelerator.main_process_first():
            return reference_logps(base, every, score=self.scoring(scorer, base), precision=name)

    def scoring(self, scorer: Scorer, model: Any) -> Callable[[PackedBatch], TokenScores]:
        """Return how a batch is scored, in the precision of the run."""

        def score(batch: PackedBatch) -> TokenScores:
            with self.accelerator.autocast():
                return scorer(model, batch)

        return score

    @property
    def leads(self) -> bool:
        """Return whether this process writes."""
        return self.accelerator.is_main_process

    def watch(self) -> dict[str, float]:
        """Measure the held-out attempts."""
        return held_out(self.score, self.plan.heldout)

    def step(self) -> dict[str, float]:
        """Do one optimiser step and return its figures."""
        started = time.monotonic()
        index, optim = self.progress.step, self.recipe.optim
        rate = learning_rate(index, len(self.plan.steps), optim)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        tally = sum_gradients(
            self.score,
            self.plan.steps[index],
            self.recipe.objective,
            known=Known(reference=self.reference),
            backward=self.accelerator.backward,
            share=(self.accelerator.process_index, self.accelerator.num_processes),
        )
        tally = self.shared(tally)
        norm = float(torch.nn.utils.clip_grad_norm_(trainable(self.model), optim.clip_norm))
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.progress.step += 1
        metrics = step_metrics(tally, grad_norm=norm, seconds=time.monotonic() - started)
        return {"step": float(self.progress.step), "lr": rate, **metrics}

    def shared(self, tally: Tally) -> Tally:
        """Add up gradients and figures over all processes."""
        if self.accelerator.num_processes == 1:
            return tally
        for parameter in trainable(self.model):
            grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            parameter.grad = self.accelerator.reduce(grad, "sum")  # type: ignore[assignment]
        return merged(gather_object([tally]))

    def after(self, row: dict[str, float]) -> None:
        """Watch, log, judge the run's health, keep the best weights, write a checkpoint when it is time."""
        monitor, progress = self.recipe.monitor, self.progress
        last = progress.step == len(self.plan.steps)
        if self.plan.heldout and (last or progress.step % monitor.eval_every == 0):
            row |= self.watch()
        self.log.write(row)
        if monitor.stop_on_collapse:
            check_health(row, progress.start or {}, monitor)
        score = row.get("heldout_margin")
        if score is not None and score > progress.best:
            progress.best, progress.best_step = score, progress.step
            if monitor.keep == "best" and self.leads:
                replace_folder(self.folder / "best", lambda path: save_model(self.model, self.codec, path))
        if self.leads and (last or progress.step % monitor.save_every == 0):
            checkpoint.save(self.folder, self.model, self.optimizer, progress)


def replace_folder(folder: Path, write: Callable[[Path], object]) -> None:
    """Write a folder anew under a temporary name, then put it in its place."""
    temporary = folder.with_name(folder.name + ".tmp")
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
    on_step: Callable[[int, int, dict[str, float]], None] | None = None,
) -> Trained:
    """Train a policy on judged groups; a run that was stopped goes on where it was, bit by bit on one processor kind.

    Started by ``accelerate launch`` in several processes, each takes its share of every step's batches; the first one writes.

    Args:
        recipe: all settings.
        groups: judged groups of the training tasks.
        heldout: judged groups of other tasks, for the monitors.
        folder: where model/, checkpoint, metrics.jsonl, TensorBoard's files and the resolved recipe go.
        on_step: called with steps done, steps in all, and the step's figures.

    Raises:
        TrainingError: nothing to train on, or the folder belongs to another recipe.
    """
    place = Path(folder)
    claim(place, recipe)
    if done := load_trained(place):
        return done
    codec = load_codec(recipe.model.name)
    run = Run(recipe, place, make_plan(groups, heldout, recipe, codec, processes=PartialState().num_processes), codec)
    if run.progress.start is None:
        run.progress.start = run.watch()
    collapsed = ""
    try:
        while run.progress.step < len(run.plan.steps):
            row = run.step()
            run.after(row)
            if on_step and run.leads:
                on_step(run.progress.step, len(run.plan.steps), row)
    except CollapseError as error:
        collapsed = str(error)
    if run.leads:
        finish(run, place, collapsed)
    run.accelerator.wait_for_everyone()
    if not (done := load_trained(place)):
        raise TrainingError(f"{place}: the first process has left no {SUMMARY}")
    return done


def claim(folder: Path, recipe: Recipe) -> None:
    """Make the folder and write the resolved recipe into it.

    Raises:
        TrainingError: it holds a run of another recipe.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "recipe.yaml"
    if file.exists() and load_recipe(file) != recipe:
        raise TrainingError(f"{folder}: holds a run of another recipe (see {file}); choose another folder or remove it")
    temporary = folder / f"recipe.{os.getpid()}.tmp"
    dump_recipe(recipe, temporary)
    temporary.replace(file)


def finish(run: Run, folder: Path, collapsed: str) -> None:
    """Put the weights to keep into model/, and what was done into summary.json."""
    best = folder / "best"
    keep_best = best.exists() and (run.recipe.monitor.keep == "best" or bool(collapsed))
    target = folder / "model"
    if keep_best:
        replace_folder(target, lambda path: shutil.copytree(best, path))
    elif collapsed:
        raise TrainingError(f"{collapsed}; no good checkpoint was kept before")
    else:
        replace_folder(target, lambda path: save_model(run.model, run.codec, path))
    run.log.close()
    kept = run.progress.best_step if keep_best else run.progress.step
    plan = run.plan
    done = {"steps": run.progress.step, "kept_step": kept, "collapsed": collapsed}
    said = {**done, "groups": plan.groups, "left_out": dict(plan.left_out)}
    (folder / "summary.tmp").write_text(json.dumps(said, indent=1), encoding="utf-8")
    (folder / "summary.tmp").replace(folder / SUMMARY)


def load_trained(folder: Path) -> Trained | None:
    """Return what a finished run left in a folder; None while it is not finished."""
    file = folder / SUMMARY
    if not file.exists():
        return None
    said: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return Trained(folder=folder / "model", metrics=read_log(folder / "metrics.jsonl"), **said)
