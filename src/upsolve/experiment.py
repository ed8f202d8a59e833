"""Experiments: evaluate the base model, train, evaluate the trained model, report. Finished stages are not repeated.

Started in several processes (``torchrun``), rank 0 evaluates and writes while the others wait.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from upsolve.archive.split import Split, split_archive
from upsolve.archive.store import open_filled
from upsolve.config import DataConfig, EvalConfig, ModelConfig, OwnConfig, Recipe, recipe_yaml
from upsolve.config.rules import few_dev_tasks, few_tasks
from upsolve.errors import ConfigError, TrainingError
from upsolve.evaluate.benchmarks import HeldOut, held_out, labelled, step_reports, sweep_model
from upsolve.evaluate.own import run_rounds
from upsolve.evaluate.runs import load_sweep, save_sweep
from upsolve.evaluate.scores import Sweep, pooled, renamed
from upsolve.extras import require
from upsolve.train.check import check_run
from upsolve.train.loop import train
from upsolve.train.run.folder import MEASURED, Trained, claim, is_unmeasured, load_trained
from upsolve.train.run.nodes import watched
from upsolve.train.run.processes import Processes
from upsolve.types import OnProgress, no_progress

__all__ = ["run_folds", "run_recipe"]

LOGGER = logging.getLogger("upsolve")


def measure(file: Path, model: ModelConfig, evaluated: Callable[..., Sweep]) -> Sweep:
    """Evaluate a model at several temperatures, or load the result of an earlier call."""
    if file.exists():
        return load_sweep(file)
    sweep = evaluated(model=model, name=file.stem, keep=file.with_name(f"{file.stem}.samples.jsonl"))
    save_sweep(sweep, file)
    return sweep


def measured_tasks(split: Split, data: DataConfig, evaluate: EvalConfig, *, warns: bool) -> HeldOut:
    """Return the tasks to measure on; warns if these or the dev tasks are few."""
    tasks = held_out(split, data.archive, evaluate, data)
    found = few_tasks(len(tasks.test), evaluate), few_dev_tasks(len(tasks.dev), evaluate, data)
    for warning in filter(None, found if warns else ()):
        LOGGER.warning(warning)
    return tasks


def check_temperatures(before: Sweep, config: EvalConfig, folder: Path) -> None:
    """Raise TrainingError if several temperatures are to be measured, but an earlier version measured the base model at one only."""
    old = not before.dev and before.hot.temperature != config.temperatures[0]
    if old and len(config.temperatures) > 1 and not (folder / "trained.json").exists():
        raise TrainingError(
            f"{folder / 'base.json'}: measured at temperature {before.hot.temperature:g} alone, by an earlier version; measure it again "
            f"in another folder (or --fresh), or set evaluate.temperatures=[{before.hot.temperature:g}]"
        )


def run_recipe(
    recipe: Recipe, folder: str | Path, *, progress: OnProgress | None = None, fresh: bool = False, split: Split | None = None
) -> tuple[Sweep, Sweep, Trained]:
    """Evaluate the base, train, evaluate again, and write ``report.html``; a second call resumes where the first one stopped.

    Args:
        recipe: all settings.
        folder: for all results: base.json, trained.json, samples, training/, report.html.
        progress: called with the stage, units done, and units in all.
        fresh: remove an earlier run in the folder first.
        split: the split of the archive, if it is known and checked (``check_run``).

    Returns:
        The base and the trained model at several temperatures, and the training run.

    Raises:
        MissingExtraError: the extra `report` is not installed.
        ArchiveError: no such archive, or the archive has no tasks.
        TrainingError: the folder holds results of another recipe.
    """
    require("jinja2", "matplotlib")  # for the report, imported when it is written: that would delay the first sample
    path, processes, archive = Path(folder), Processes(), open_filled(recipe.data.archive)  # before the folder is made
    report = progress if progress and processes.is_main else no_progress
    with watched(processes, recipe_yaml(recipe), recipe.data.archive, recipe.model):
        recipe = processes.from_main(lambda: claim(path, recipe, started=MEASURED, allowed=is_unmeasured, fresh=fresh))
        if split is None:
            split = split_archive(archive, recipe.data, untried=recipe.source.rounds > 0, labels=recipe.select.reads_labels)
            check_run(recipe, split.groups["train"])
        tasks = measured_tasks(split, recipe.data, recipe.evaluate, warns=processes.is_main)
        check_rounds(recipe.own, tasks, processes)
        sweep = partial(
            sweep_model, tasks, sample=recipe.sample, verify=recipe.verify, evaluate=recipe.evaluate, progress=report
        )

        def measured(model: ModelConfig, name: str) -> Sweep:
            return processes.from_main(lambda: measure(path / f"{name}.json", model, sweep))

        before = measured(recipe.model, "base")
        check_temperatures(before, recipe.evaluate, path)
        after, trained = trained_model(recipe, path, split, measured=measured, report=report)
        if processes.is_main:
            from upsolve.report.card import write_card
            from upsolve.report.run import facts_of, run_content, write_run_report

            facts = facts_of(recipe.model, recipe.sample, tasks=tasks, trained=trained)
            content = run_content(recipe, path, sweeps=(before, after), trained=trained, split=split, facts=facts)
            write_run_report(path, content)
            write_card(Path(trained.folder), recipe.name)
        processes.wait()
        return before, after, trained


def check_rounds(own: OwnConfig, tasks: HeldOut, processes: Processes) -> None:
    """Raise an error if a run with rounds of own samples has several processes, or no dev task."""
    if own.rounds and processes.count > 1:
        raise ConfigError(
            "own.rounds: rounds of own samples run in one process; start it without torchrun, or set own.rounds=0"
        )
    if own.rounds and not tasks.dev:
        raise TrainingError(
            "own.rounds: no dev task with tests can show whether a round gains; raise data.dev or evaluate.dev_tasks"
        )


def trained_model(
    recipe: Recipe, path: Path, split: Split, *, measured: Callable[[ModelConfig, str], Sweep], report: OnProgress
) -> tuple[Sweep, Trained]:
    """Train, with rounds of own samples if the recipe has some, and measure the model that results."""
    if recipe.own.rounds:
        stages = run_rounds(recipe, path, split, measured=measured, progress=report)
        best = next(stage for stage in reversed(stages) if stage.kept)
        after = renamed(best.sweep, "trained")
        save_sweep(after, path / "trained.json")
        return after, replace(best.trained, folder=path / "training" / "model")
    finished = load_trained(path / "training")
    groups, on_step = split.groups, step_reports(report)
    trained = train(recipe, groups["train"], groups["dev"], path / "training", on_step=on_step, show=report)
    for name in ("trained.json", "trained.samples.jsonl") if trained != finished and Processes().is_main else ():
        (path / name).unlink(missing_ok=True)  # the run was made longer: they are of an earlier model
    return measured(recipe.model.at(str(trained.folder)), "trained"), trained


def run_folds(
    recipe: Recipe, folder: str | Path, folds: int, *, progress: OnProgress | None = None, fresh: bool = False
) -> tuple[Sweep, Sweep]:
    """Cross-fit: run a recipe once for each fold of the archive's tasks, and pool the folds' test tasks, so that each task is measured once.

    Args:
        recipe: all settings.
        folder: for a folder ``fold-I`` of every run, and base.json, trained.json and report.html of all.
        folds: number of folds, >= 2.
        progress: called with fold and stage, units done, and units in all.
        fresh: remove earlier runs in the folder first.

    Returns:
        The base and the trained models over all tasks.

    Raises:
        ConfigError: fewer than two folds.
        TrainingError: a fold's folder holds results of another recipe.
    """
    if folds < 2:
        raise ConfigError(f"--folds: must be at least 2, got {folds}")
    path, sweeps = Path(folder), list[tuple[Sweep, Sweep]]()
    for fold in range(folds):
        data = recipe.data.model_copy(update={"folds": folds, "fold": fold})
        report = labelled(progress or no_progress, f"fold {fold + 1} of {folds}")
        before, after, _ = run_recipe(
            recipe.model_copy(update={"data": data}), path / f"fold-{fold}", progress=report, fresh=fresh
        )
        sweeps.append((before, after))
    pooled_sweeps = pooled([before for before, _ in sweeps]), pooled([after for _, after in sweeps])
    if Processes().is_main:
        from upsolve.report.content import ReportContent
        from upsolve.report.run import write_run_report

        for sweep in pooled_sweeps:
            save_sweep(sweep, path / f"{sweep.name}.json")
        title = f"{recipe.name}: before and after training, {folds} folds"
        write_run_report(path, ReportContent(title, pooled_sweeps, recipe.evaluate.ks, recipe_yaml=recipe_yaml(recipe)))
    return pooled_sweeps
