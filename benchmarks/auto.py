"""`upsolve run auto` beside imitation for as many minutes: python benchmarks/auto.py WORK [--seeds 0 1 2] [--set KEY=VALUE ...]

Both train SmolLM2-135M-Instruct on ``embedded-sql`` by the settings of the leaderboard, with one thread. ``auto`` imitates 120 steps of 1,344 tokens, then twice as
many for as long as dev tasks gain, then trains on rounds of own judged samples. ``sft`` imitates in one training, for as many steps as make its command
take the processor time of ``auto``'s. Both are measured at their best temperature on the same test tasks. Results are in results/auto.json; a repeated command resumes.
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

from leaderboard import DOMAINS
from leaderboard_page import scores
from machine import machine, publish
from rounding import percent

from upsolve.evaluate.intervals import mean_interval, over_seeds, paired_difference
from upsolve.evaluate.runs import load_run, load_stages

RESULT = Path(__file__).parent / "results" / "auto.json"
SETTINGS = (
    *DOMAINS["sql"],
    *(
        "optim.lr=3e-4",
        "optim.epochs=40",
        "optim.tokens_per_step=1344",
        "optim.tokens_per_batch=1344",
        "optim.moments=bfloat16",
    ),
    *("monitor.heldout=0", "data.groups_per_task=2", "sample.samples=1", "model.name=smollm2-135m"),
    *("evaluate.temperatures=[0, 0.6]", "evaluate.dev_samples=1", "evaluate.likelihood_tasks=0", "evaluate.ks=[1]"),
)
AUTO = ("optim.max_steps=120", "own.repeats=3", "own.rounds=2", "own.control=false")


def run(recipe, folder, settings):
    """Run a recipe, unless that is done; return processor and wall time of its command, in seconds."""
    cost = folder.with_suffix(".json")
    if not cost.exists():
        shutil.rmtree(folder, ignore_errors=True)  # an interrupted run, whose time is unknown
        options = [word for setting in settings for word in ("--set", setting)]
        command = [sys.executable, "-m", "upsolve", "run", recipe, "--out", str(folder), *options]
        started = time.monotonic()
        _, status, used = os.wait4(subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"}).pid, 0)
        if status:
            raise SystemExit(os.waitstatus_to_exitcode(status))
        cost.write_text(json.dumps([used.ru_utime + used.ru_stime, time.monotonic() - started]))
    return json.loads(cost.read_text())


def steps_for(folder, wall):
    """Return the steps of one training that, with the evaluations before and after it, takes as long as a run of ``auto``."""
    _, *sweeps = load_run(folder)
    measuring = sum(one.wall_seconds for sweep in sweeps for one in sweep.evaluations)
    rows = [row for row in load_stages(folder)[0].trained.metrics if "loss" in row]
    step = statistics.median(row["seconds"] + row.get("preparing_seconds", 0.0) for row in rows)
    return round((wall - measuring) / step)


def seed_row(work, seed, given):
    """Return the row of a seed, and pass@1 of every test task by ``sft`` and by ``auto``."""
    common = (*SETTINGS, f"seed={seed}", *given)
    auto, single = work / f"auto-{seed}", work / f"sft-{seed}"
    times = {"auto": run("auto", auto, (*common, *AUTO))}
    processor, wall = times["auto"]
    steps = steps_for(auto, wall)
    times["sft"] = run("sft", single, (*common, f"optim.max_steps={steps}"))
    passed = {name: scores([load_run(folder)[2]], "best") for name, folder in (("sft", single), ("auto", auto))}
    stages = [
        {"name": one.name, "kept": one.kept, "dev": one.dev, "steps": one.trained.steps, "samples": one.samples}
        | {"pass@1": percent(mean_interval([*scores([one.sweep], "best").values()]))}
        for one in load_stages(auto)
    ]
    row = {"seed": seed, "sft_steps": steps, "minutes": {name: round(spent[0] / 60, 1) for name, spent in times.items()}}
    return row | {"processor_share": round(processor / wall, 2), "stages": stages}, passed


def main():
    """Run all seeds, and write the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--set", dest="given", nargs="*", default=[])
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    rows, passed = zip(*(seed_row(options.work.resolve(), seed, options.given) for seed in options.seeds), strict=True)
    means = {name: over_seeds([one[name] for one in passed]) for name in ("sft", "auto")}
    report = {f"{name}: pass@1": percent(mean_interval([*values.values()])) for name, values in means.items()}
    report["auto - sft, points"] = percent(paired_difference(means["sft"], means["auto"]).difference)
    publish(report | {"seeds": rows, "machine": machine()}, RESULT)


if __name__ == "__main__":
    main()
