"""The demo with three seeds: python benchmarks/demo_seeds.py WORK [OUT.json]

Each seed has its own grouping, training and sampling, base included. Writes the table, at temperature 1 with the sentence over all
temperatures, and, from the first seed, docs/demo.svg.
An interrupted run resumes.
"""

import json
import sys
from pathlib import Path

from machine import machine

from upsolve.config import load_recipe
from upsolve.evaluate.capability import capability
from upsolve.evaluate.diagnostics import weighted_mean
from upsolve.evaluate.intervals import mean_interval, over_seeds, paired_difference
from upsolve.evaluate.passk import task_pass_at_k
from upsolve.experiment import run_recipe
from upsolve.report.plots import pass_by_difficulty

ROOT = Path(__file__).parents[1]
SEEDS = (0, 1, 2)
KS = (1, 4, 8)


def interval(estimate):
    """Return an estimate in percent."""
    return [round(100 * x, 1) for x in (estimate.mean, estimate.low, estimate.high)]


def compare(before, after, k):
    """Return pass@k before, after, and the paired difference, in percent."""
    change = paired_difference(before, after)
    return {
        f"pass@{k} base": interval(mean_interval(list(before.values()))),
        f"pass@{k} trained": interval(mean_interval(list(after.values()))),
        f"pass@{k} difference": interval(change.difference),
        "better": change.better,
        "worse": change.worse,
        "p": round(change.p_value, 4),
    }


def main(work, out):
    """Run the seeds and write the results."""
    runs, rows = [], []
    for seed in SEEDS:
        recipe = load_recipe("demo", [f"{key}={seed}" for key in ("seed", "data.seed", "sample.seed")])
        *sweeps, trained = run_recipe(recipe, work / f"seed-{seed}", progress=show)
        change = capability(*sweeps, max(KS))
        before, after = (sweep.hot for sweep in sweeps)  # temperature 1
        runs.append((before, after))
        row = {"seed": seed, "sentence": change.sentence, "steps": trained.steps, "kept_step": trained.kept_step}
        row["training_seconds"] = round(sum(step["seconds"] for step in trained.metrics))
        row["sampling_and_judging_seconds"] = [round(before.wall_seconds), round(after.wall_seconds)]  # at temperature 1
        for k in KS:
            row |= {f"k={k}": compare(task_pass_at_k(before.scores, k), task_pass_at_k(after.scores, k), k)}
        row["length, tokens"] = [round(weighted_mean(e.scores, "mean_tokens"), 1) for e in (before, after)]
        row["entropy, nats"] = [round(weighted_mean(e.scores, "mean_entropy"), 3) for e in (before, after)]
        rows.append(row)
        print(json.dumps(row), flush=True)
    pooled = {f"k={k}": compare(*(over_seeds([task_pass_at_k(r[i].scores, k) for r in runs]) for i in (0, 1)), k) for k in KS}
    result = {"machine": machine(), "held_out_tasks": len(runs[0][0].scores), "seeds": rows, "pooled": pooled}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    (ROOT / "docs/demo.svg").write_text(pass_by_difficulty(runs[0]) + "\n", encoding="utf-8")


def show(what, done, total):
    """Say when a part is done."""
    if done == total:
        print(f"{what} {done}/{total}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "benchmarks/results/demo.json"))
