"""The main job: measure, train on the archive, measure again, report. What is done is not done again."""

import json
import os
import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import torch

from upsolve.archive.split import split_tasks
from upsolve.archive.store import Archive, open_archive
from upsolve.config import Recipe, recipe_yaml
from upsolve.errors import ConfigError
from upsolve.evaluate.benchmarks import evaluate
from upsolve.evaluate.runs import load_evaluation, save_evaluation
from upsolve.policy.engines import sampler
from upsolve.report.html import Example, ReportContent, write_report
from upsolve.reward.formula import reward
from upsolve.train.groups import select
from upsolve.train.loop import Trained, claim, train
from upsolve.train.rounds import Show, quiet
from upsolve.types import Attempt, Evaluation, Group, Task

__all__ = ["Split", "run_recipe", "sample_archive", "split_archive"]

PART = 50
"""Tasks sampled between two writes."""


@dataclass(frozen=True, slots=True)
class Split:
    """An archive split by task."""

    tasks: dict[str, list[Task]]
    """``train``, ``dev``, ``test``."""
    groups: dict[str, list[Group]]
    """The same with all attempts."""


def split_archive(archive: Archive, recipe: Recipe) -> Split:
    """Split an archive as a recipe says; online, tasks without attempts are there as well.

    Raises:
        ConfigError: the shares leave no task for the test split.
    """
    data = recipe.data
    shares = {"train": data.train, "dev": data.dev, "test": 1 - data.train - data.dev}
    if shares["test"] <= 0:
        raise ConfigError("data: train and dev together must be below 1, the rest is the test split")
    tasks = split_tasks(archive.tasks(), shares, seed=data.split_seed)
    names = {task.task_id: split for split, members in tasks.items() for task in members}
    groups: dict[str, list[Group]] = {split: [] for split in shares}
    for group in archive.groups():
        groups[names[group.task.task_id]].append(group)
    if recipe.source.rounds:
        tried = {group.task.task_id for group in groups["train"]}
        groups["train"] += [Group(task, (), ()) for task in tasks["train"] if task.task_id not in tried]
    return Split(tasks, groups)


def sample_archive(recipe: Recipe, archive: Archive, *, model: str, progress: Show = quiet) -> int:
    """Sample until every task of an archive has ``sample.samples`` attempts of the model; what came before a stop is kept.

    Returns:
        The number of attempts added.
    """
    have: Counter[str] = Counter()
    for attempt in archive.attempts():
        have[attempt.task_id] += attempt.count if attempt.author == model else 0
    wanted = recipe.sample.samples
    tasks = [task for task in archive.tasks() if have[task.task_id] < wanted]
    if not tasks:
        return 0
    total, done = sum(wanted - have[task.task_id] for task in tasks), 0
    draw = sampler(recipe, model)
    for start in range(0, len(tasks), PART):
        part = tasks[start : start + PART]
        for count in sorted({have[task.task_id] for task in part}):
            # no two requests of a task share a seed, however often the sampling was stopped
            config = recipe.sample.model_copy(
                update={"samples": wanted - count, "seed": recipe.sample.seed + start + count * 2**20}
            )
            short = [task for task in part if have[task.task_id] == count]
            found: list[Attempt] = []
            try:
                for attempt in draw(short, config=config, author=model):
                    found.append(attempt)
                    progress("sample", done + len(found), total)
            finally:
                archive.append(attempts=found)
            done += len(found)
    return done


def measure(recipe: Recipe, tasks: Sequence[Task], folder: Path, *, model: str, name: str, progress: Show) -> Evaluation:
    """Evaluate a model, or read back the evaluation that is there."""
    file = folder / f"{name}.json"
    if file.exists():
        return load_evaluation(file)
    evaluation, _, _ = evaluate(
        recipe,
        tasks,
        model=model,
        name=name,
        keep=folder / f"{name}.samples.jsonl",
        progress=lambda what, done, total: progress(f"{name}: {what}", done, total),
    )
    save_evaluation(evaluation, file)
    return evaluation


def run_recipe(recipe: Recipe, folder: str | Path, *, progress: Show | None = None) -> tuple[Evaluation, Evaluation, Trained]:
    """Measure the base, train, measure again, and write ``report.html``; a second call goes on where the first one stopped.

    Args:
        recipe: all settings.
        folder: where everything goes: base.json, trained.json, samples, training/, report.html.
        progress: called with what is being done, how much is done, and how much there is.
    """
    place = Path(folder)
    claim(place, recipe)
    report = progress or quiet
    split = split_archive(open_archive(recipe.data.archive), recipe)
    tasks = split.tasks[recipe.evaluate.split][: recipe.evaluate.tasks or None]
    before = measure(recipe, tasks, place, model=recipe.model.name, name="base", progress=report)
    trained = train(
        recipe,
        split.groups["train"],
        split.groups["dev"],
        place / "training",
        on_step=lambda done, total, row: report(f"train: entropy {row['entropy']:.2f}", done, total),
        show=report,
    )
    after = measure(recipe, tasks, place, model=str(trained.folder), name="trained", progress=report)
    content = content_of(recipe, (before, after), trained, (place, tasks))
    online = recipe.source.rounds > 0
    seen = Archive(place / "training" / "rollouts").groups() if online else split.groups["train"]
    authors = () if online else recipe.data.authors
    rewarded = tuple(reward(select(group, authors), recipe.reward) for group in seen)
    write_report(place / "report.html", replace(content, rewarded=rewarded))
    return before, after, trained


def content_of(
    recipe: Recipe, evaluations: tuple[Evaluation, Evaluation], trained: Trained, where: tuple[Path, Sequence[Task]]
) -> ReportContent:
    """Put a report together."""
    place, tasks = where
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
        ks=recipe.ks,
        training=tuple(trained.metrics),
        recipe_yaml=recipe_yaml(recipe),
        facts=facts,
        examples=tuple(pick_examples(place, tasks)),
    )


def pick_examples(place: Path, tasks: Sequence[Task], most: int = 6) -> list[Example]:
    """Return the first sample of each side for some tasks, those first where the status changed."""
    sides: list[dict[str, tuple[str, str]]] = []
    for name in ("base", "trained"):
        file = place / f"{name}.samples.jsonl"
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []
        sides.append({row["task_id"]: (row["code"], row["status"]) for row in reversed(rows)})
    both = [task for task in tasks if all(task.task_id in side for side in sides)]
    both.sort(key=lambda task: sides[0][task.task_id][1] == sides[1][task.task_id][1])
    return [Example(task.task_id, task.prompt, *sides[0][task.task_id], *sides[1][task.task_id]) for task in both[:most]]
