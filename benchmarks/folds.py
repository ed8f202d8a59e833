"""Five folds over all tasks of a small archive: python benchmarks/folds.py WORK [--domain python] [--seed 0] [--folds 5] [--methods NAME ...]

Trains a method of leaderboard.py with its settings once for each fold (`upsolve run --folds`), so that every task is a test task once, and writes the
paired differences to the base model over all of them to results/folds.json, with their intervals over tasks; then those between the methods and the first
of them. The temperature of each fold is chosen on its dev tasks. Finished folds in WORK are not repeated.
"""

import argparse
import json
from pathlib import Path

from leaderboard import METHODS, ROOT, Work, settings_of, slug
from machine import machine
from rounding import percent

from upsolve.evaluate.capability import capability
from upsolve.experiment import run_folds

FILE = ROOT / "benchmarks" / "results" / "folds.json"


def differences(before, after):
    """Return the paired differences of two pooled sweeps in percent, and the conclusion."""
    change = capability(before, after)
    comparisons = {
        "best temperature": change.best,
        "beside the strongest": change.strongest,
        "greedy": change.greedy,
        "T 1": change.hot,
    }
    rows = {name: percent(comparison.paired.difference) for name, comparison in comparisons.items()}
    return rows | {"conclusion": change.conclusion, "detectable": round(100 * change.best.detectable, 1)}


def main(job):
    """Cross-fit every method, and write the table as far as it is known."""
    work = Work(job.domain, job.seed, job.work.resolve())
    results = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    rows = results.setdefault(job.domain, {}).setdefault(f"seed {job.seed}, {job.folds} folds", {})
    first = None
    for name in job.methods:
        recipe = work.recipe(METHODS[name].recipe, *settings_of(work, name))
        folder = work.folder / "folds" / slug(work.domain) / f"{slug(name)}-{work.seed}-{job.folds}"
        base, trained = run_folds(recipe, folder, job.folds)
        rows[name] = {"tasks": len(trained.hot.scores), "- base": differences(base, trained), "machine": machine()}
        first = first or trained
        if trained is not first:
            rows[job.methods[0]][f"- {name}"] = differences(trained, first)
        FILE.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        print(name, json.dumps(rows), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--domain", default="python")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--methods", nargs="*", default=["sft", "sft, verdicts shuffled"])
    main(parser.parse_args())
