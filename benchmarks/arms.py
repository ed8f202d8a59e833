"""Training setups (arms) compared at the same budget of samples: python benchmarks/arms.py SET WORK [--seeds 0 1 2] [--tasks 60]

Sets:
    sources   offline alone, online alone, offline then online, hybrid; pass@1 against wall-clock and against tokens sampled
    rewards   GRPO with LoRA rewarded by tests, by lint, by both (2605.30478)
    dense     PPO with a reward per token, PPO and GRPO with a reward per attempt (2605.21180); PPO with the reward components of the
              first arm, their weighted sum on the last token
    robot     the first three arms of `dense`, in the robot world

Every arm starts from SmolLM2-135M-Instruct; in the robot world, from that model fine-tuned on the reference programs of the training
tasks. Arms train on the tasks of split 1 of the embedded archive, or on half of the robot tasks; online arms sample the same number of
groups. Policies are measured on the same held-out tasks with 8 samples per task at temperature 1; for `sources`, intermediate policies
are measured too, with 4 samples. Wall-clock time is that of sampling, judging and training, without loading and measuring.

Finished work is not repeated: seeds and arms (--arm) may be run one at a time, or in parallel processes with OMP_NUM_THREADS=1 (for
`robot`, run one arm first: it makes the start of all arms). A last call with all of them combines the results. It writes
results/arms_SET.json, and for `sources` docs/arms_sources.svg.
"""

import argparse
import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from machine import machine
from rounding import percent

from upsolve.archive.split import split_archive
from upsolve.archive.store import Archive, open_archive
from upsolve.config import load_recipe
from upsolve.config.reward import PRESETS
from upsolve.evaluate.benchmarks import evaluate_model
from upsolve.evaluate.intervals import mean_interval, over_seeds, paired_difference
from upsolve.evaluate.runs import load_evaluation, save_evaluation
from upsolve.evaluate.scores import error_mix, lint_profile, outcome_mix, task_pass_at_k, weighted_mean
from upsolve.importers.ingest import ingest
from upsolve.train.loop import train
from upsolve.types import Attempt
from upsolve.verify.pool.pool import verify

ROOT = Path(__file__).parents[1]
THREE = {"PPO, dense": "ppo_dense", "PPO, outcome": "ppo", "GRPO": "grpo"}
AT_END = "PPO, dense at the end"
AFTER = "offline, then online"
SETS = {
    "sources": {"offline": "demo_python", "online": "grpo", AFTER: "grpo", "hybrid": "hybrid"},
    "rewards": {"tests": "rlvr_tests", "lint": "rlvr_lint", "both": "rlvr_both"},
    "dense": {**THREE, AT_END: "ppo"},
    "robot": {**THREE, "PPO, dense": "robot"},
}
"""Arms by name, each with its recipe."""
COMMON = (
    *("data.train=0.5", "data.dev=0.1", "data.split_seed=1", "monitor.heldout=8", "monitor.stop_on_collapse=false"),
    *("sample.samples=8", "sample.temperature=1.0", "sample.top_p=1.0", "sample.max_tokens=120", "monitor.keep=last"),
    *("source.oversample=1", "source.rollout.max_tokens=120", "optim.tokens_per_step=4096"),
)
ROUNDS = {"offline": 0, AFTER: 5, "dense": 7, "robot": 7}
"""Rounds of an arm or of a set; ten by default. An arm that follows an offline run has half of the rounds."""
GROUPS = {"sources": 16, "rewards": 16, "dense": 8, "robot": 4}
"""Groups of 8 attempts per round, by set."""


def recipe_of(arm, name, seed, job):
    """Return the recipe of an arm."""
    rounds = ROUNDS.get(arm, ROUNDS.get(job.set, 10))
    seeds = [f"{key}={seed}" for key in ("seed", "data.seed", "sample.seed", "source.rollout.seed")]
    own = [f"source.rounds={rounds}", f"source.groups={GROUPS[job.set]}"]
    if job.set == "sources":
        own.append("monitor.snapshot_every=8")
    if rounds:
        most = 2048 if job.set == "robot" else 1024  # a whole robot group fits; two seeds in parallel fit into 24 GiB
        own.append(f"optim.tokens_per_batch={most}")
    if arm == "hybrid":
        own.append("data.authors=[smollm2-135m]")  # the policy's own stored attempts, as offline
    if arm == AFTER:
        own.append(f"model.name={job.work / job.set / 'offline' / str(seed) / 'training' / 'model'}")
    if arm == AT_END:
        own += ["reward.preset=dense", *(f"reward.credit.{part}=last" for part in PRESETS["dense"])]
    if job.set in ("dense", "robot"):
        own += ["optim.epochs=2", "optim.lr=1e-5", "optim.tokens_per_step=2048"]  # the same for all
    if job.set == "robot":
        own += [f"data.archive={job.work / 'robot-tasks'}", "source.rollout.max_tokens=200", "sample.max_tokens=200"]
        own += [f"model.name={robot_start(job.work)}", "source.order=random"]
    return load_recipe(name, [*COMMON, *seeds, *own, *job.given])


def robot_tasks(work):
    """Make the archive of the robot tasks, each with a program that passes and an empty one, for fine-tuning."""
    archive = Archive.create(work / "robot-tasks")
    ingest(archive, "simulator", "robot")
    if not archive.attempts():
        programs = [(task, code) for task in archive.tasks() for code in (task.reference, "def run(robot):\n    pass\n")]
        pairs = [(task, Attempt(task.task_id, code, author="reference")) for task, code in programs]
        archive.append(attempts=[attempt for _, attempt in pairs], verdicts=verify(pairs))


def robot_start(work):
    """Return the folder of the policy that starts the robot arms: SFT on the reference programs of the training split."""
    own = ["seed=0", f"data.archive={work / 'robot-tasks'}", "data.group_size=2", "data.groups_per_task=1"]
    fit = ["optim.epochs=5", "optim.lr=1e-4", "optim.tokens_per_step=2048", "optim.tokens_per_batch=1024"]
    recipe = load_recipe("sft", [*COMMON, *own, *fit])
    split = split_archive(open_archive(recipe.data.archive), recipe.data, untried=recipe.source.rounds > 0)
    return train(recipe, split.groups["train"], split.groups["dev"], work / "robot-sft").folder


def measured(recipe, tasks, model, file):
    """Measure a policy, or load an earlier measurement."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        stages = {"model": recipe.model.at(str(model)), "sample": recipe.sample, "verify": recipe.verify}
        save_evaluation(evaluate_model(tasks, **stages, name=file.stem)[0], file)
    return load_evaluation(file)


def folder_of(arm, job):
    """Return the folder of an arm's runs."""
    return job.work / job.set / arm.replace(", ", "-").replace(" ", "-")


def run_arm(arm, name, seed, job, part="test"):
    """Train an arm with one seed; return its evaluations by (wall-clock, tokens sampled): start, intermediate (`sources` only), end.

    An arm that continues another has no separate start. ``part`` of the split is measured: held-out tasks, or those trained on.
    """
    folder, recipe = folder_of(arm, job) / str(seed), recipe_of(arm, name, seed, job)
    split = split_archive(open_archive(recipe.data.archive), recipe.data, untried=recipe.source.rounds > 0)
    tasks, of = split.tasks[part][: job.tasks], "" if part == "test" else f"-{part}"
    trained = train(recipe, split.groups["train"], split.groups["dev"], folder / "training")
    seconds = np.cumsum([row.get("seconds", 0) + row.get("preparing_seconds", 0) for row in trained.metrics])
    tokens = np.cumsum([row.get("sampled_tokens", 0) for row in trained.metrics])
    cost = {int(row["step"]): (s, t) for row, s, t in zip(trained.metrics, seconds, tokens, strict=True) if "loss" in row}
    start = job.work / f"start-{'robot' if job.set == 'robot' else 'embedded'}" / f"{seed}{of}.json"
    points = [] if arm == AFTER else [(0.0, 0, measured(recipe, tasks, recipe.model.name, start))]
    fewer = recipe.model_copy(update={"sample": recipe.sample.model_copy(update={"samples": 4})})
    points += [
        (*cost[int(at.name)], measured(fewer, tasks, at, folder / f"step-{at.name}.json"))
        for at in sorted((folder / "training" / "snapshots").glob("*"))
    ]
    points.append((seconds[-1], tokens[-1], measured(recipe, tasks, trained.folder, folder / f"end{of}.json")))
    (folder / "formula").write_text(trained.formula)
    print(arm, seed, part, [round(100 * float(np.mean(list(by_task([e]).values()))), 1) for *_, e in points], flush=True)
    return points


def by_task(evaluations):
    """Return pass@1 of every task, the mean over evaluations of one arm with several seeds."""
    return over_seeds([task_pass_at_k(e.scores, 1) for e in evaluations])


def executing(evaluations):
    """Return, for every task, the share of samples that ran to their end, right or wrong; mean over the evaluations of one arm."""
    return over_seeds(
        [{s.task_id: (s.passed + s.statuses.get("failed", 0)) / s.samples for s in e.scores if s.samples} for e in evaluations]
    )


def figure(name, of, ends, beside):
    """Return a share of samples by task, and its difference from that of other arms."""
    own, others = of(ends), {other: of(group) for other, group in beside.items()}
    return {
        name: percent(mean_interval(list(own.values()))),
        f"{name}, difference to": {
            other: percent(paired_difference(values, own).difference) for other, values in others.items()
        },
    }


def row_of(arm, runs, others):
    """Return the results of an arm over its seeds: at the end, compared with its start and with other arms, and at intermediate costs."""
    ends = [points[-1][2] for points in runs]
    scores = [score for e in ends for score in e.scores]
    beside = {"start": [points[0][2] for points in runs], **{name: [p[-1][2] for p in other] for name, other in others.items()}}
    return {
        "arm": arm,
        "tasks": len(ends[0].scores),
        **figure("pass@1", by_task, ends, beside),
        **figure("executes", executing, ends, beside),
        **{name: round(weighted_mean(scores, name), 3) for name in ("mean_tokens", "mean_entropy")},
        "statuses, %": {name: round(100 * share, 1) for name, share in outcome_mix(scores).items()},
        "errors, %": {name: round(100 * share, 1) for name, share in list(error_mix(scores).items())[:6]},
        "lint, findings a sample that parses": {name: round(x, 3) for name, x in lint_profile(scores).items()},
        "seconds": [round(float(points[-1][0])) for points in runs],
        "tokens sampled": [int(points[-1][1]) for points in runs],
        "paths": [
            [(round(float(s)), int(t), percent(mean_interval(list(by_task([e]).values())))[0]) for s, t, e in p] for p in runs
        ],
    }


def rows_of(runs):
    """Return a row for the start and for every arm."""
    starts = [points[:1] for points in next(iter(runs.values()))]
    rows = [row_of("start", starts, {})]
    for arm, points in runs.items():
        rows.append(row_of(arm, points, {name: other for name, other in runs.items() if name != arm}))
    return rows


def after(offline, online):
    """Return the evaluations of a seed that continues an offline run, whose cost is added."""
    seconds, tokens, _ = offline[-1]
    return [*offline, *((seconds + s, tokens + t, e) for s, t, e in online)]


def draw(rows, file):
    """Draw pass@1 of every seed against wall-clock and against tokens sampled."""
    plt.rcParams["svg.hashsalt"] = "upsolve"
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for number, row in enumerate(rows):
        for index, axis in enumerate(axes):
            for seed, path in enumerate(row["paths"]):
                label = row["arm"] if seed == 0 else None
                look = {"ms": 3, "lw": 1, "color": f"C{number}", "zorder": 9 - number}  # two arms share their first part
                axis.plot([p[index] for p in path], [p[2] for p in path], "o-", label=label, **look)
    axes[0].set(xlabel="wall-clock, s", ylabel="pass@1, %")
    axes[1].set(xlabel="tokens sampled")
    axes[0].legend(frameon=False)
    figure.savefig(file, metadata={"Date": None})


def main(job):
    """Run a set of arms and write the results."""
    if job.set == "robot":
        robot_tasks(job.work)
    parts = ("test", "train") if job.set == "robot" else ("test",)
    chosen = {arm: name for arm, name in SETS[job.set].items() if arm in (job.arm or SETS[job.set])}
    runs, *seen = (
        {arm: [run_arm(arm, name, seed, job, part) for seed in job.seeds] for arm, name in chosen.items()} for part in parts
    )
    if job.arm:
        return
    if AFTER in runs:
        runs[AFTER] = [after(*pair) for pair in zip(runs["offline"], runs[AFTER], strict=True)]
    rows = rows_of(runs)
    formulas = {arm: sorted({file.read_text() for file in folder_of(arm, job).glob("*/formula")}) for arm in chosen}
    results = {"machine": machine(), "set": job.set, "seeds": job.seeds, "formulas": formulas, "arms": rows}
    if seen:
        results["arms, on the tasks trained on"] = rows_of(*seen)
    if not job.given:
        file = Path(__file__).parent / "results" / f"arms_{job.set}.json"
        file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if job.set == "sources":
        draw(rows[1:], job.work / "arms_sources.svg" if job.given else ROOT / "docs" / "arms_sources.svg")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("set", choices=SETS)
    parser.add_argument("work", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_argument("--arm", action="append", help="run only this arm; no results are written")
    parser.add_argument(
        "--set",
        dest="given",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="changes every recipe; no results are written",
    )
    asked = parser.parse_args()
    if strange := set(asked.arm or ()) - set(SETS[asked.set]):
        parser.error(f"--arm: {', '.join(sorted(strange))}: the arms of {asked.set} are {'; '.join(SETS[asked.set])}")
    main(asked)
