"""Ways to train, side by side at one budget of samples: python benchmarks/arms.py SET WORK [--seeds 0 1 2] [--tasks 60]

Sets:
    sources   offline alone, online alone, offline then online, hybrid; pass@1 against wall-clock and against tokens sampled
    rewards   GRPO with LoRA rewarded by tests, by lint, by both (2605.30478)
    dense     PPO with a reward for every token, PPO and GRPO with one for the attempt (2605.21180)

Every arm starts from SmolLM2-135M-Instruct and trains on the embedded archive's tasks of split 1; online arms sample the same number of groups.
Policies are kept on the way and measured on the same held-out tasks, 8 samples each at temperature 1. Wall-clock is sampling, judging and
training, without loading and measuring. A set that was stopped goes on where it was. Writes results/arms_SET.json and WORK/arms_SET.svg.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from machine import machine

from upsolve.archive.store import open_archive
from upsolve.config import load_recipe
from upsolve.evaluate.benchmarks import evaluate
from upsolve.evaluate.diagnostics import weighted_mean
from upsolve.evaluate.intervals import mean_interval, over_seeds
from upsolve.evaluate.passk import task_pass_at_k
from upsolve.evaluate.runs import load_evaluation, save_evaluation
from upsolve.experiment import split_archive
from upsolve.train.loop import train

ROOT = Path(__file__).parents[1]
SETS = {
    "sources": {"offline": "demo", "online": "grpo", "offline, then online": "grpo", "hybrid": "hybrid"},
    "rewards": {"tests": "rlvr_tests", "lint": "rlvr_lint", "both": "rlvr_both"},
    "dense": {"ppo, dense": "ppo_dense", "ppo, outcome": "ppo", "grpo": "grpo"},
}
"""Arms by name, each with its recipe."""
COMMON = (
    *("data.train=0.5", "data.dev=0.1", "data.split_seed=1", "monitor.heldout=8", "monitor.stop_on_collapse=false"),
    *("sample.samples=8", "sample.temperature=1.0", "sample.top_p=1.0", "sample.max_tokens=120", "monitor.keep=last"),
    *("source.groups=8", "source.rollout.max_tokens=120", "optim.tokens_per_step=4096"),
)
ROUNDS = {"offline": 0, "offline, then online": 5}
"""Where not ten: after an offline run half of the rounds are left."""


def recipe_of(arm, name, seed, given):
    """Return the recipe of an arm."""
    rounds = ROUNDS.get(arm, 10)
    seeds = [f"{key}={seed}" for key in ("seed", "data.seed", "sample.seed", "source.rollout.seed")]
    own = [f"source.rounds={rounds}", f"monitor.snapshot_every={8 if rounds == 0 else 4}"]
    return load_recipe(ROOT / "recipes" / f"{name}.yaml", [*COMMON, *seeds, *own, *given])


def measured(recipe, tasks, model, file):
    """Measure a policy, or read back what is there."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        save_evaluation(evaluate(recipe, tasks, model=str(model), name=file.stem)[0], file)
    return load_evaluation(file)


def run_arm(arm, name, seed, job):
    """Train an arm on one seed; return its evaluations by (wall-clock, tokens sampled) at the start, on the way and at the end."""
    folder = job.work / arm.replace(", ", "-").replace(" ", "-") / str(seed)
    given = list(job.given)
    if arm == "offline, then online":
        given.append(f"model.name={job.work / 'offline' / str(seed) / 'training' / 'model'}")
    recipe = recipe_of(arm, name, seed, given)
    split = split_archive(open_archive(recipe.data.archive), recipe)
    tasks = split.tasks["test"][: job.tasks]
    trained = train(recipe, split.groups["train"], split.groups["dev"], folder / "training")
    seconds = np.cumsum([row.get("seconds", 0) + row.get("preparing_seconds", 0) for row in trained.metrics])
    tokens = np.cumsum([row.get("sampled_tokens", 0) for row in trained.metrics])
    cost = {int(row["step"]): (s, t) for row, s, t in zip(trained.metrics, seconds, tokens, strict=True) if "loss" in row}
    points = [(0.0, 0, measured(recipe, tasks, recipe.model.name, folder / "start.json"))]
    points += [
        (*cost[int(place.name)], measured(recipe, tasks, place, folder / f"step-{place.name}.json"))
        for place in sorted((folder / "training" / "snapshots").glob("*"))
    ]
    points.append((seconds[-1], tokens[-1], measured(recipe, tasks, trained.folder, folder / "end.json")))
    print(
        arm,
        seed,
        [round(100 * mean_interval(list(task_pass_at_k(e.scores, 1).values())).mean, 1) for *_, e in points],
        flush=True,
    )
    return points


def row_of(arm, runs):
    """Return what an arm gave over its seeds: at its end in full, on the way pass@1 against what it had cost."""
    ends = [points[-1][2] for points in runs]
    statuses = {name for e in ends for score in e.scores for name in score.statuses}
    total = sum(sum(score.statuses.values()) for e in ends for score in e.scores)
    means = {name: np.mean([weighted_mean(e.scores, name) for e in ends]) for name in ("mean_tokens", "mean_entropy")}
    interval = mean_interval(list(over_seeds([task_pass_at_k(e.scores, 1) for e in ends]).values()))
    paths = [
        [(float(s), int(t), mean_interval(list(task_pass_at_k(e.scores, 1).values())).mean) for s, t, e in p] for p in runs
    ]
    return {
        "arm": arm,
        "pass@1": [round(100 * x, 1) for x in (interval.mean, interval.low, interval.high)],
        **{name: round(float(value), 3) for name, value in means.items()},
        "statuses, %": {
            name: round(100 * sum(score.statuses.get(name, 0) for e in ends for score in e.scores) / total, 1)
            for name in sorted(statuses)
        },
        "paths": paths,
    }


def draw(rows, file):
    """Draw pass@1 of every seed against wall-clock and against tokens sampled."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for number, row in enumerate(rows):
        for axis, place in zip(axes, (0, 1), strict=True):
            for seed, path in enumerate(row["paths"]):
                label = row["arm"] if seed == 0 else None
                axis.plot(
                    [p[place] for p in path], [100 * p[2] for p in path], "o-", ms=3, lw=1, color=f"C{number}", label=label
                )
    axes[0].set(xlabel="wall-clock, s", ylabel="pass@1, %")
    axes[1].set(xlabel="tokens sampled")
    axes[0].legend(frameon=False)
    figure.savefig(file)


def main(job):
    """Run a set and write down what it gave."""
    arms = SETS[job.set]
    runs = {arm: [run_arm(arm, name, seed, job) for seed in job.seeds] for arm, name in arms.items()}
    rows = [row_of(arm, points) for arm, points in runs.items()]
    said = {"machine": machine(), "set": job.set, "seeds": job.seeds, "tasks": job.tasks, "arms": rows}
    if not job.given:
        (Path(__file__).parent / "results" / f"arms_{job.set}.json").write_text(
            json.dumps(said, indent=1) + "\n", encoding="utf-8"
        )
    draw(rows, job.work / f"arms_{job.set}.svg")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("set", choices=SETS)
    parser.add_argument("work", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_argument(
        "--set",
        dest="given",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="changes every recipe; no results are written",
    )
    main(parser.parse_args())
