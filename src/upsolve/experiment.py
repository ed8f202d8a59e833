"""The main job: measure, train on the archive, measure again, report. What is done is not done again."""

import os
import platform
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from upsolve.archive.split import split_archive
from upsolve.archive.store import Archive, open_archive
from upsolve.config import Recipe, recipe_yaml
from upsolve.evaluate.benchmarks import evaluate_model
from upsolve.evaluate.runs import load_evaluation, save_evaluation
from upsolve.progress import OnProgress, no_progress
from upsolve.report.examples import pick_examples
from upsolve.report.html import ReportContent, write_report
from upsolve.reward.formula import reward
from upsolve.reward.reference import reference_seconds
from upsolve.train.check import check_run
from upsolve.train.groups import select
from upsolve.train.loop import train
from upsolve.train.processes import Processes
from upsolve.train.run_folder import Trained, claim, load_trained, within
from upsolve.types import Evaluation, Task
from upsolve.verify.limits import judging_of
from upsolve.verify.pool.pool import verify

__all__ = ["run_recipe"]

MEASURED = (
    *("model.name", "model.bf16", "data.archive", "data.train", "data.dev", "sample"),
    *("data.split", "data.split_by", "data.split_seed"),
    *("verify.wall_seconds", "verify.cpu_seconds", "verify.memory_bytes", "verify.output_bytes", "verify.test_seconds"),
    *("evaluate.split", "evaluate.tasks"),
)
"""Keys that decide what ``base.json`` says: once it is there, they may not change."""


def measure(recipe: Recipe, tasks: Sequence[Task], folder: Path, *, model: str, name: str, progress: OnProgress) -> Evaluation:
    """Evaluate a model, or read back the evaluation that is there."""
    file = folder / f"{name}.json"
    if file.exists():
        return load_evaluation(file)
    evaluation, _, _ = evaluate_model(
        recipe,
        tasks,
        model=model,
        name=name,
        keep=folder / f"{name}.samples.jsonl",
        progress=lambda what, done, total: progress(f"{name}: {what}", done, total),
    )
    save_evaluation(evaluation, file)
    return evaluation


def is_not_measured(key: str, _old: Any, _new: Any) -> bool:
    """Return whether a key may change once the base is measured."""
    return not within(key, MEASURED)


def run_recipe(
    recipe: Recipe, folder: str | Path, *, progress: OnProgress | None = None, fresh: bool = False
) -> tuple[Evaluation, Evaluation, Trained]:
    """Measure the base, train, measure again, and write ``report.html``; a second call resumes where the first one stopped.

    Started in several processes (``torchrun``), rank 0 measures and writes while the others wait.

    Args:
        recipe: all settings.
        folder: where everything goes: base.json, trained.json, samples, training/, report.html.
        progress: called with what is being done, how much is done, and how much there is.
        fresh: remove an earlier run in the folder first.

    Raises:
        TrainingError: the folder holds results that another recipe gave.
    """
    place, processes = Path(folder), Processes()
    report = progress if progress and processes.is_main else no_progress
    processes.from_main(lambda: claim(place, recipe, started=("base.json",), allowed=is_not_measured, fresh=fresh))
    split = split_archive(open_archive(recipe.data.archive), recipe.data, untried=recipe.source.rounds > 0)
    check_run(recipe, split.groups["train"])
    tasks = split.tasks[recipe.evaluate.split][: recipe.evaluate.tasks or None]

    def measured(model: str, name: str) -> Evaluation:
        return processes.from_main(lambda: measure(recipe, tasks, place, model=model, name=name, progress=report))

    before = measured(recipe.model.name, "base")
    trained_before = load_trained(place / "training")
    trained = train(
        recipe,
        split.groups["train"],
        split.groups["dev"],
        place / "training",
        on_step=lambda done, total, row: report(f"train: entropy {row['entropy']:.2f}", done, total),
        show=report,
    )
    if processes.is_main and trained != trained_before:  # the run was made longer
        for name in ("trained.json", "trained.samples.jsonl"):
            (place / name).unlink(missing_ok=True)
    after = measured(str(trained.folder), "trained")
    if processes.is_main:
        online = recipe.source.rounds > 0
        seen = Archive(place / "training" / "rollouts").groups() if online else split.groups["train"]
        authors = () if online else recipe.data.authors
        baselines = reference_seconds(seen, recipe.reward, partial(verify, how=judging_of(recipe.verify)))
        rewarded = tuple(reward(select(group, authors), recipe.reward, baselines) for group in seen)
        content = content_of(recipe, (before, after), trained=trained, folder=place, tasks=tasks)
        write_report(place / "report.html", replace(content, rewarded=rewarded))
    processes.wait()
    return before, after, trained


def content_of(
    recipe: Recipe, evaluations: tuple[Evaluation, Evaluation], *, trained: Trained, folder: Path, tasks: Sequence[Task]
) -> ReportContent:
    """Collect what the report of a run shows, except the rewards."""
    facts = {
        "model": recipe.model.name,
        "training": trained.text(),
        "held-out tasks": str(len(tasks)),
        "sampling": f"{recipe.sample.samples} a task, temperature {recipe.sample.temperature}, top-p {recipe.sample.top_p}, "
        f"seed {recipe.sample.seed}",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, "
        + (torch.cuda.get_device_name(0) if torch.cuda.is_available() else "no GPU"),
        "versions": ", ".join(f"{name} {version(name)}" for name in ("upsolve", "torch", "transformers")),
    }
    return ReportContent(
        title=f"{recipe.name}: before and after training on judged attempts",
        evaluations=evaluations,
        ks=recipe.ks or (1,),
        training=tuple(trained.metrics),
        recipe_yaml=recipe_yaml(recipe),
        facts=facts,
        examples=pick_examples(folder / "base.samples.jsonl", folder / "trained.samples.jsonl", tasks),
    )
