"""Training of this version beside an older one, in turn on one machine: python benchmarks/before.py WORK [--old COMMIT] [--rounds N] [--steps N] [--out FILE.json]

WORK gets a checkout of the older commit (by default the one before work on speed began) and the runs. Both versions train the same recipe from their
command lines, that of `demo_python`: tokens per second (median of the second half of the steps), seconds from the command to the end of the first step, peak memory of
the process, and size of the finished run's folder. Rounds follow one another, so that a machine that slows down affects both alike. Writes
results/before.json; run it on a machine that does nothing else. Runs of 16 steps do not compile their layers; with --steps 40 they do.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from machine import machine

from upsolve.files import read_rows

ROOT = Path(__file__).parents[1]
OLD = "2e8a447"
RECIPE = """
name: before
model: {name: smollm2-135m}
data: {train: 0.5, dev: 0.1, split_seed: 1, authors: [smollm2-135m], groups_per_task: 2}
advantage: {kind: asymre, delta: -0.5}
objective: {kind: dft, reduce: token_mean}
optim: {lr: 2.0e-5, epochs: 2, tokens_per_step: 2048, tokens_per_batch: 2048}
monitor: {eval_every: 10, save_every: 10, heldout: 12, keep: last}
"""
FIGURES = ("tokens_per_second", "first_step_seconds", "peak_gib", "folder_gb")


def checkout(commit, folder):
    """Return the sources of a commit, checked out once."""
    if not folder.exists():
        subprocess.run(["git", "-C", ROOT, "worktree", "prune"], check=True)
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--detach", folder, commit], check=True, capture_output=True)
    return folder / "src"


def steps_of(folder):
    """Return the rows of finished steps of a run."""
    return [row for row in read_rows(folder / "metrics.jsonl") if "loss" in row]


def trained(sources, folder, steps):
    """Train from the command line with the sources of a version, and return the figures of the run."""
    shutil.rmtree(folder, ignore_errors=True)
    recipe = folder.parent / "recipe.yaml"
    recipe.write_text(RECIPE)
    command = [sys.executable, "-m", "upsolve", "train", str(recipe), "--out", str(folder), "--set", f"optim.max_steps={steps}"]
    environment = {**os.environ, "PYTHONPATH": str(sources), "UPSOLVE_CACHE": str(folder.parent / "cache")}
    started, first = time.monotonic(), 0.0
    with (folder.parent / "output.txt").open("w") as output:
        run = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    while True:
        done, status, usage = os.wait4(run.pid, os.WNOHANG)
        first = first or (time.monotonic() - started if steps_of(folder) else 0.0)
        if done:
            break
        time.sleep(0.1)
    if status:
        raise SystemExit(f"{' '.join(command)}:\n{(folder.parent / 'output.txt').read_text()}")
    rates = [row["tokens_per_second"] for row in steps_of(folder)]
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    values = (statistics.median(rates[len(rates) // 2 :]), first, usage.ru_maxrss / 2**20, size / 1e9)
    return dict(zip(FIGURES, (round(value, 2) for value in values), strict=True))


def main():
    """Train with both versions in turn, and write medians and ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--old", default=OLD)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "before.json")
    job = parser.parse_args()
    work = job.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    versions = {"before": checkout(job.old, work / f"sources-{job.old}"), "now": ROOT / "src"}
    runs = {name: [] for name in versions}
    load = os.getloadavg()[0]
    for number in range(job.rounds + 1):
        for name, sources in versions.items():
            (work / name).mkdir(exist_ok=True)
            figures = trained(sources, work / name / "run", job.steps if number else 2)
            print(name, figures, flush=True)
            runs[name] += [figures] if number else []  # the first round fills caches
    median = {name: {key: statistics.median(run[key] for run in given) for key in FIGURES} for name, given in runs.items()}
    ratio = {key: round(median["now"][key] / median["before"][key], 2) for key in FIGURES}
    result = {
        "old": job.old,
        "steps": job.steps,
        "load_before": round(load, 1),
        "runs": runs,
        "median": median,
        "now / before": ratio,
    }
    job.out.write_text(json.dumps({"machine": machine(), **result}, indent=1) + "\n")
    print(json.dumps({"median": median, "now / before": ratio}, indent=1))


if __name__ == "__main__":
    main()
