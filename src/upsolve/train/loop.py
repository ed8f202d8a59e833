"""The path: groups -> rewards -> advantages -> batches -> steps, with checkpoints and monitors."""

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator

from upsolve.config import MonitorConfig, Recipe, dump_recipe, load_recipe
from upsolve.errors import CollapseError, TrainingError
from upsolve.policy.attention import keep_memory
from upsolve.policy.model import load_codec, load_model, save_model, trainable, with_adapters
from upsolve.policy.tokens import Codec
from upsolve.train import checkpoint
from upsolve.train.groups import TrainGroup, cut_groups, passed
from upsolve.train.logprobs import Scorer
from upsolve.train.monitor import Log, check_health, held_out, read_log
from upsolve.train.pack import PackedBatch, encode_groups, plan_steps
from upsolve.train.padded import choose_scorer
from upsolve.train.reference import reference_logps
from upsolve.train.step import learning_rate, step_metrics, sum_gradients
from upsolve.types import Group

__all__ = ["Plan", "Trained", "claim", "make_plan", "train"]

SUMMARY = "summary.json"


@dataclass(frozen=True, slots=True)
class Plan:
    """All batches of a run, laid out before the first step."""

    steps: list[list[PackedBatch]]
    """Batches of every optimiser step."""
    heldout: list[PackedBatch]
    """Held-out attempts, advantage 1 for passed and -1 for the others."""
    groups: int
    """Groups over all epochs."""
    left_out: Counter[str]
    """What is not trained on, by reason, over all epochs."""


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


def heldout_groups(groups: Sequence[Group], config: MonitorConfig) -> list[TrainGroup]:
    """Pick up to ``heldout`` passed and as many failed attempts, one of each a task, in the archive's order."""
    picked: list[TrainGroup] = []
    for group in groups:
        good = [i for i, verdict in enumerate(group.verdicts) if passed(verdict)]
        bad = [i for i, verdict in enumerate(group.verdicts) if verdict is not None and not passed(verdict)]
        both = [*good[-1:], *bad[-1:]]
        if len(both) == 2 and len(picked) < config.heldout:
            pair = Group(group.task, tuple(group.attempts[i] for i in both), tuple(group.verdicts[i] for i in both))
            picked.append(TrainGroup(pair, np.array([1.0, -1.0]), np.array([1.0, -1.0])))
    return picked


def make_plan(groups: Sequence[Group], heldout: Sequence[Group], recipe: Recipe, codec: Codec) -> Plan:
    """Cut, reward, weigh, tokenise and pack everything.

    Raises:
        TrainingError: no group is left; says why.
    """
    steps: list[list[PackedBatch]] = []
    left_out: Counter[str] = Counter()
    count = 0
    for epoch in range(recipe.optim.epochs):
        cut, why = cut_groups(groups, recipe, epoch=epoch)
        encoded, too_long = encode_groups(cut, codec, recipe)
        steps += plan_steps(encoded, recipe.optim)
        left_out += why + too_long
        count += len(encoded)
    if not steps:
        raise TrainingError(f"no group to train on: {dict(left_out)}")
    steps = steps[: recipe.optim.max_steps or None]
    watched, _ = encode_groups(heldout_groups(heldout, recipe.monitor), codec, recipe)
    return Plan(steps, [b for part in plan_steps(watched, recipe.optim) for b in part], count, left_out)


class Run:
    """A run in progress: model, optimiser, log and place."""

    def __init__(self, recipe: Recipe, folder: Path, plan: Plan, codec: Codec) -> None:
        keep_memory()
        torch.manual_seed(recipe.seed)
        self.recipe, self.folder, self.plan, self.codec = recipe, folder, plan, codec
        precision = "bf16" if recipe.model.bf16 else "no"
        self.accelerator = Accelerator(mixed_precision=precision, cpu=not torch.cuda.is_available())
        self.autocast: Any = self.accelerator.autocast
        base = load_model(recipe.model.name, device=str(self.accelerator.device))
        scorer = choose_scorer(base, plan.steps[0][0])
        self.reference = self.frozen(base, scorer) if recipe.objective.needs_reference else None
        self.model = with_adapters(base, recipe.model, seed=recipe.seed)
        self.model.train()
        self.score = partial(scorer, self.model)
        optim = recipe.optim
        self.optimizer = torch.optim.AdamW(trainable(self.model), lr=optim.lr, weight_decay=optim.weight_decay)
        self.progress = checkpoint.restore(folder, self.model, self.optimizer)
        self.log = Log(folder, keep_steps=self.progress.step)

    def frozen(self, base: Any, scorer: Scorer) -> Any:
        """Return the reference log-probabilities of everything that will be trained on."""
        every = [batch for step in self.plan.steps for batch in step]
        name = "bf16" if self.recipe.model.bf16 else "fp32"
        base.eval()
        return reference_logps(base, every, score=partial(scorer, base), precision=name, autocast=self.autocast)

    def watch(self) -> dict[str, float]:
        """Measure the held-out attempts."""
        return held_out(self.score, self.plan.heldout, self.autocast)

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
            reference=self.reference,
            autocast=self.autocast,
            backward=self.accelerator.backward,
        )
        norm = float(torch.nn.utils.clip_grad_norm_(trainable(self.model), optim.clip_norm))
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.progress.step += 1
        metrics = step_metrics(tally, grad_norm=norm, seconds=time.monotonic() - started)
        return {"step": float(self.progress.step), "lr": rate, **metrics}

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
            if monitor.keep == "best":
                replace_folder(self.folder / "best", lambda path: save_model(self.model, self.codec, path))
        if last or progress.step % monitor.save_every == 0:
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
    run = Run(recipe, place, make_plan(groups, heldout, recipe, codec), codec)
    if run.progress.start is None:
        run.progress.start = run.watch()
    collapsed = ""
    try:
        while run.progress.step < len(run.plan.steps):
            row = run.step()
            run.after(row)
            if on_step:
                on_step(run.progress.step, len(run.plan.steps), row)
    except CollapseError as error:
        collapsed = str(error)
    return finish(run, place, collapsed)


def claim(folder: Path, recipe: Recipe) -> None:
    """Make the folder and write the resolved recipe into it.

    Raises:
        TrainingError: it holds a run of another recipe.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "recipe.yaml"
    if file.exists() and load_recipe(file) != recipe:
        raise TrainingError(f"{folder}: holds a run of another recipe (see {file}); choose another folder or remove it")
    dump_recipe(recipe, folder / "recipe.tmp")
    (folder / "recipe.tmp").replace(file)


def finish(run: Run, folder: Path, collapsed: str) -> Trained:
    """Put the weights to keep into model/."""
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
    trained = Trained(target, run.progress.step, kept, collapsed, plan.groups, dict(plan.left_out), run.log.rows)
    said = {name: value for name, value in asdict(trained).items() if name not in ("folder", "metrics")}
    (folder / "summary.tmp").write_text(json.dumps(said, indent=1), encoding="utf-8")
    (folder / "summary.tmp").replace(folder / SUMMARY)
    return trained


def load_trained(folder: Path) -> Trained | None:
    """Return what a finished run left in a folder; None while it is not finished."""
    file = folder / SUMMARY
    if not file.exists():
        return None
    said: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return Trained(folder=folder / "model", metrics=read_log(folder / "metrics.jsonl"), **said)
