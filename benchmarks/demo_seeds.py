"""The demo with three seeds: python benchmarks/demo_seeds.py WORK [--recipe demo] [--out results/demo.json]

Each seed has its own order of training and its own samples, base included. Writes pass@1 greedily, at each model's best temperature and at the
highest temperature, the sentence of the report, seconds and peak memory of the command, and, from the first seed, docs/RECIPE.svg. An interrupted run resumes.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from machine import machine

from upsolve.evaluate.capability import capability
from upsolve.evaluate.intervals import mean_interval, over_seeds, paired_difference
from upsolve.evaluate.runs import load_sweep
from upsolve.evaluate.scores import task_pass_at_k
from upsolve.report.plots import pass_by_difficulty
from upsolve.train.run.folder import load_trained

ROOT = Path(__file__).parents[1]
SEEDS = (0, 1, 2)
PARTS = ("greedy", "best", "hot")


def interval(estimate):
    """Return an estimate in percent."""
    return [round(100 * x, 1) for x in (estimate.mean, estimate.low, estimate.high)]


def compare(before, after):
    """Return pass@1 before, after, and the paired difference, in percent."""
    change = paired_difference(before, after)
    means = {"base": before, "trained": after}
    return {
        **{name: interval(mean_interval([*values.values()])) for name, values in means.items()},
        "difference": interval(change.difference),
        "better": change.better,
        "worse": change.worse,
    }


def scores(sweep, part):
    """Return pass@1 of every task."""
    return task_pass_at_k(getattr(sweep, part).scores, 1)


def run_seed(name, seed, folder):
    """Run the recipe with a seed by the command line; return its two sweeps and its row of the table."""
    resumed, started = folder.exists(), time.monotonic()
    command = ("-m", "upsolve", "run", name, "--seed", str(seed), "--out", str(folder))
    _, status, used = os.wait4(subprocess.Popen((sys.executable, *command)).pid, 0)
    if status:
        raise SystemExit(os.waitstatus_to_exitcode(status))
    cost = folder / "cost.json"
    if not resumed:
        whole = {"seconds": round(time.monotonic() - started), "memory_gb": round(used.ru_maxrss * 1024 / 1e9, 2)}
        cost.write_text(json.dumps(whole))
    sweeps = [load_sweep(folder / f"{part}.json") for part in ("base", "trained")]
    trained = load_trained(folder / "training")
    row = {
        "seed": seed,
        "sentence": capability(*sweeps).sentence,
        "steps": trained.steps,
        "formula": trained.formula,
        "training_seconds": round(sum(step["seconds"] for step in trained.metrics)),
        **(json.loads(cost.read_text()) if cost.exists() else {}),
        "temperatures": [sweep.best.temperature for sweep in sweeps],
    }
    return sweeps, row | {part: compare(*(scores(sweep, part) for sweep in sweeps)) for part in PARTS}


def main():
    """Run the seeds and write the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--recipe", default="demo")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    out = options.out or ROOT / "benchmarks" / "results" / f"{options.recipe}.json"
    runs, rows = [], []
    for seed in SEEDS:
        sweeps, row = run_seed(options.recipe, seed, options.work / f"seed-{seed}")
        runs.append(sweeps)
        rows.append(row)
        print(json.dumps(row), flush=True)
    pooled = {part: compare(*(over_seeds([scores(pair[i], part) for pair in runs]) for i in (0, 1))) for part in PARTS}
    result = {"machine": machine(), "held_out_tasks": len(runs[0][0].best.scores), "seeds": rows, "pooled": pooled}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    best = [sweep.best for sweep in runs[0]]
    (ROOT / "docs" / f"{options.recipe}.svg").write_text(pass_by_difficulty(best) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
