"""Offline methods on MBPP: python benchmarks/mbpp_offline.py DATA WORK [OUT.json]

Trains SmolLM2-135M-Instruct on other models' attempts (published with LDB, judged by us) at one part of MBPP's tasks, and measures pass@1 and pass@8 on tasks of the other part: base, sft, rloo, group_norm, exp_advantage and topr, three seeds each.
All results are kept in WORK; an interrupted run resumes. OUT is written after every arm.
"""

import json
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from machine import machine

from upsolve.archive.split import split_archive
from upsolve.archive.store import Archive
from upsolve.config import Recipe, load_recipe
from upsolve.evaluate.benchmarks import evaluate_model
from upsolve.evaluate.intervals import mean_interval, over_seeds, paired_difference
from upsolve.evaluate.runs import load_evaluation, save_evaluation
from upsolve.evaluate.scores import task_pass_at_k, weighted_mean
from upsolve.importers.ingest import ingest
from upsolve.plugins import find
from upsolve.train.loop import train
from upsolve.train.run.folder import load_trained
from upsolve.train.run.monitor import read_steps
from upsolve.types import Task
from upsolve.verify.pool.pool import verify

METHODS = ("sft", "rloo", "group_norm", "exp_advantage", "topr")
SEEDS = (0, 1, 2)
TASKS = 40
SETTINGS = [
    "data.train=0.8",
    "data.dev=0.08",
    "data.groups_per_task=1",
    "optim.tokens_per_step=2048",
    "optim.tokens_per_batch=2048",
    "optim.max_steps=6",
    "monitor.eval_every=6",
    "monitor.heldout=4",
    "monitor.keep=last",
    "sample.samples=8",
    "sample.max_tokens=160",
    "sample.batch=128",
]


def prepare(data, work):
    """Assign LDB's attempts to the tasks of MBPP, whose prompts show the tests, and judge them, once."""
    if (work / "archive" / "ready").exists():
        return Archive(work / "archive")
    shutil.rmtree(work / "archive", ignore_errors=True)
    imported, archive = Archive.create(work / "ldb"), Archive.create(work / "archive")
    ingest(imported, "ldb", data / "ldb" / "mbpp")
    attempts = [replace(attempt, task_id=attempt.task_id.removeprefix("ldb/")) for attempt in imported.attempts()]
    tried = {attempt.task_id for attempt in attempts}
    tasks = {
        row.task_id: row
        for row in find("source", "mbpp").read(data / "mbpp" / "mbpp.jsonl")
        if isinstance(row, Task) and row.task_id in tried
    }
    attempts = [replace(attempt, parent_id="") for attempt in attempts if attempt.task_id in tasks]
    verdicts = verify([(tasks[attempt.task_id], attempt) for attempt in attempts])
    archive.append(tasks=tasks.values(), attempts=attempts, verdicts=verdicts)
    (archive.path / "ready").touch()
    return archive


def recipe_of(method, seed, work):
    """Return the settings of one run."""
    file = method if method != "base" else None
    own = [f"data.archive={work / 'archive'}", *(f"{key}={seed}" for key in ("seed", "data.seed", "sample.seed"))]
    return load_recipe(file, [*SETTINGS, *own])


def run(method, seed, split, work):
    """Train (unless base) and measure one seed; finished results are loaded."""
    recipe: Recipe = recipe_of(method, seed, work)
    path, file = work / f"{method}-{seed}", work / f"{method}-{seed}.json"
    if not file.exists():
        started, model = time.monotonic(), recipe.model.name
        if method != "base":
            model = str(train(recipe, split.groups["train"], split.groups["dev"], path).folder)
        trained = time.monotonic() - started
        stages = {"model": recipe.model.at(model), "sample": recipe.sample, "verify": recipe.verify}
        evaluation, _, _ = evaluate_model(split.tasks["test"][:TASKS], **stages, name=method)
        (work / f"{method}-{seed}.seconds").write_text(str(trained))
        save_evaluation(evaluation, file)
    rows = read_steps(path / "metrics.jsonl")
    made = load_trained(path).formula if rows else ""
    return load_evaluation(file), float((work / f"{method}-{seed}.seconds").read_text()), rows, made


def interval(estimate):
    """Return an estimate in percent."""
    return [round(100 * x, 2) for x in (estimate.mean, estimate.low, estimate.high)]


def summary(method, runs, base):
    """Combine the seeds of a method, task by task."""
    evaluations, seconds, logs, formulas = zip(*runs, strict=True)
    row = {"method": method, "seeds": len(runs), "train_seconds": [round(s) for s in seconds]}
    for k in (1, 8):
        values = over_seeds([task_pass_at_k(e.scores, k) for e in evaluations])
        row[f"pass@{k}"] = interval(mean_interval(list(values.values())))
        row[f"pass@{k} of each seed"] = [
            round(100 * float(np.mean(list(task_pass_at_k(e.scores, k).values()))), 2) for e in evaluations
        ]
        row[f"pass@{k} - base"] = interval(
            paired_difference(over_seeds([task_pass_at_k(e.scores, k) for e in base]), values).difference
        )
    row["mean length, tokens"] = round(float(np.mean([weighted_mean(e.scores, "mean_tokens") for e in evaluations])), 1)
    row["mean entropy, nats"] = round(float(np.mean([weighted_mean(e.scores, "mean_entropy") for e in evaluations])), 3)
    if logs[0]:
        row["formulas"] = sorted({*formulas})
        row["steps"] = len(logs[0])
        row["tokens_per_second"] = round(float(np.mean([step["tokens_per_second"] for rows in logs for step in rows])))
        row["held-out passed, nats per token, last"] = round(
            float(np.mean([rows[-1]["heldout_passed_logp"] for rows in logs])), 3
        )
    return row


def main(data, work, out):
    """Run everything, seed by seed, and write the table."""
    work.mkdir(parents=True, exist_ok=True)
    archive = prepare(data, work)
    split = split_archive(archive, recipe_of("base", 0, work).data)
    info = {name: len(tasks) for name, tasks in split.tasks.items()}
    done = {}
    for seed in SEEDS:
        for method in ("base", *METHODS):
            done.setdefault(method, []).append(run(method, seed, split, work))
            base = [evaluation for evaluation, *_ in done["base"]]
            rows = [summary(name, runs, base[: len(runs)]) for name, runs in done.items()]
            result = {"machine": machine(), "tasks": info | {"measured": TASKS}, "settings": SETTINGS, "methods": rows}
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
            print(json.dumps(rows[list(done).index(method)]), flush=True)


if __name__ == "__main__":
    place = Path(sys.argv[3]) if len(sys.argv) > 3 else Path(__file__).parent / "results" / "mbpp_offline.json"
    main(Path(sys.argv[1]), Path(sys.argv[2]), place)
