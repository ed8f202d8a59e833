"""Ten epochs on one archive, and which limits stop before the collapse: python benchmarks/collapse.py WORK [--seed N] [--epochs N] [--set KEY=VALUE]

WORK is the folder of leaderboard.py. `rloo` starts from the model of `sft half` and trains on its judged samples at questions over some of the
schemas for many epochs, with a learning rate three times that of the leaderboard's `own rloo`, held-out metrics every second step and about one snapshot
per epoch, whose greedy pass rate is measured on test tasks. The limits do not stop this run, so that the steps after a limit are measured as well; the
table says at which step each limit would have stopped it. Further runs have limits that stop them, and are measured at their end. An
interrupted run resumes.
"""

import argparse
import json
from pathlib import Path

from leaderboard import ROOT, Work, own_samples, trained
from machine import machine
from rounding import percent

from upsolve.archive.split import split_archive
from upsolve.archive.store import open_archive
from upsolve.config import MonitorConfig
from upsolve.errors import CollapseError
from upsolve.evaluate.benchmarks import evaluate_model
from upsolve.evaluate.intervals import mean_interval, paired_difference
from upsolve.evaluate.runs import load_evaluation, save_evaluation
from upsolve.evaluate.scores import task_pass_at_k
from upsolve.train.loop import train
from upsolve.train.run.monitor import check_health

TASKS = 200
LIMITS = {
    "max_logit_variance": (1.05, 1.1, 1.25, 1.5, 2.0),
    "max_negative_gap": (0.1, 0.25, 0.5, 1.0, 2.0),
    "max_likelihood_drop": (0.25, 0.5, 1.0),
}
HALTED = (
    ("monitor.max_negative_gap=0.25",),
    ("monitor.max_logit_variance=1.1",),
    ("monitor.max_negative_gap=0.1",),
    ("monitor.max_negative_gap=0.25", "monitor.keep=best"),
)
"""Settings of the runs that are stopped."""
UNLIMITED = ("monitor.stop_on_collapse=true", "monitor.max_likelihood_drop=1e9")
"""Settings by which no limit stops a run that is not among its own."""
SETTINGS = (
    *("data.authors=[own]", "select.groups=task_extra->>'schema' < 'm'", "optim.max_steps=0"),
    *("optim.lr=3e-5", "optim.schedule=constant", "optim.tokens_per_step=2048", "optim.tokens_per_batch=2048"),
    *("monitor.eval_every=2", "monitor.heldout=24", "monitor.stop_on_collapse=false", "monitor.save_every=10"),
    *("sample.samples=1", "sample.temperature=0"),
)


def measured(recipe, tasks, model, file):
    """Return whether a model solves each task greedily, measured once."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        stages = {"model": recipe.model.at(str(model)), "sample": recipe.sample, "verify": recipe.verify}
        save_evaluation(evaluate_model(tasks, **stages, name=file.stem)[0], file)
    return task_pass_at_k(load_evaluation(file).scores, 1)


def stopped_at(run, config):
    """Return the first step at which a limit would have stopped a run; None if none would."""
    for row in run.metrics:
        try:
            if "loss" in row:
                check_health({**row, "entropy": 1.0}, run.start, config)
        except CollapseError:
            return int(row["step"])
    return None


def halted(recipe_of, split, path, before):
    """Return, for each way to stop a run, the step at which it stopped, that of its weights, and their greedy pass@1."""
    rows = {}
    for limits in HALTED:
        folder, recipe = path / ",".join(limits), recipe_of(*UNLIMITED, *limits)
        done = train(recipe, split.groups["train"], split.groups["dev"], folder / "training")
        after = measured(recipe, split.tasks["test"][:TASKS], done.folder, folder / "greedy.json")
        rows[", ".join(limit.removeprefix("monitor.") for limit in limits)] = {
            "step": done.steps,
            "weights of step": done.kept_step,
            "greedy": percent(mean_interval([*after.values()])),
            "difference to the start": percent(paired_difference(before, after).difference),
        }
    return rows


def main(job):
    """Train, measure the snapshots, and write the table."""
    work = Work("sql", job.seed, job.work.resolve())
    start = [f"model.name={trained(work, 'sft half').folder}", f"data.archive={own_samples(work, 'sft half')}"]

    def recipe_of(*settings):
        return work.recipe("rloo", *SETTINGS, *start, f"optim.epochs={job.epochs}", *settings, *job.given)

    recipe = recipe_of(f"monitor.snapshot_every={job.every}")
    split = split_archive(open_archive(recipe.data.archive), recipe.data)
    tasks, path = split.tasks["test"][:TASKS], job.work / "collapse" / str(job.seed)
    done = train(recipe, split.groups["train"], split.groups["dev"], path / "training")
    folders = {0: recipe.model.name}
    folders |= {int(folder.name): folder for folder in sorted((path / "training" / "snapshots").iterdir())}
    solved = {step: measured(recipe, tasks, folder, path / "greedy" / f"{step:06d}.json") for step, folder in folders.items()}
    greedy = {step: percent(mean_interval([*values.values()])) for step, values in solved.items()}
    change = {step: percent(paired_difference(solved[0], values).difference) for step, values in solved.items() if step}
    signals = ("heldout_logit_variance", "heldout_margin", "heldout_passed_logp", "heldout_failed_logp", "entropy")
    rows = [
        {"step": int(row["step"]), **{name: round(row[name], 4) for name in signals}}
        for row in done.metrics
        if "heldout_margin" in row and "loss" in row
    ]
    stops = {
        f"{name} {limit}": stopped_at(done, MonitorConfig(**{"max_likelihood_drop": 1e9, "min_entropy": 0, name: limit}))
        for name, limits in LIMITS.items()
        for limit in limits
    }
    results = {"machine": machine(), "seed": job.seed, "epochs": job.epochs, "steps": done.steps, "tasks": len(tasks)}
    results |= {
        "greedy pass@1 by step, %": greedy,
        "difference to the start": change,
        "would stop at step": stops,
        "stopped": halted(recipe_of, split, path, solved[0]),
        "signals": rows,
    }
    file = ROOT / "benchmarks" / "results" / "collapse.json"
    file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({name: results[name] for name in results if name != "signals"}, indent=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--every", type=int, default=8, help="steps between snapshots")
    parser.add_argument("--set", dest="given", action="append", default=[], metavar="KEY=VALUE", help="changes the recipe")
    main(parser.parse_args())
