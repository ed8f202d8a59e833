"""Which tasks a model solves in 64 samples: python benchmarks/many_samples.py WORK [--domain sql] [--seed 0] [--tasks N] [--methods NAME ...]

WORK is the folder of leaderboard.py. Each model samples 64 attempts at temperature 1 at the domain's first test tasks (its start model `sft half` first).
The table has pass@k, and beside `sft half` the paired difference in pass@1, pass@8 and pass@64 and the tasks that one model solves and the other does
not, with McNemar's exact test: a method that only makes the policy sharper raises pass@1 and not pass@64. Results of a model are kept in WORK,
the table in results/many_samples.json, by domain, seed and number of tasks.
"""

import argparse
import json
from pathlib import Path

from leaderboard import ROOT, Work, slug, trained
from machine import machine
from rounding import percent

from upsolve.archive.split import split_archive
from upsolve.archive.store import open_archive
from upsolve.evaluate.benchmarks import evaluate_model
from upsolve.evaluate.capability import solved
from upsolve.evaluate.intervals import mean_interval, paired_difference
from upsolve.evaluate.runs import load_evaluation, save_evaluation
from upsolve.evaluate.scores import task_pass_at_k

START = "sft half"
SAMPLES = 64
KS = (1, 2, 4, 8, 16, 32, 64)
COMPARED = (1, 8, 64)
"""The k of which differences are shown."""


def sampled(work, name, most):
    """Return the evaluation of a model by 64 samples at each of the first test tasks, measured once."""
    file = work.folder / "many" / slug(work.domain) / f"{slug(name)}-{work.seed}-{most}.json"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        recipe = work.recipe("sft", f"sample.samples={SAMPLES}", "sample.temperature=1.0", "sample.batch=512")
        tasks = split_archive(open_archive(recipe.data.archive), recipe.data).tasks["test"][:most]
        stages = {"sample": recipe.sample, "verify": recipe.verify, "keep": file.with_suffix(".jsonl")}
        save_evaluation(
            evaluate_model(tasks, model=recipe.model.at(str(trained(work, name).folder)), name=name, **stages)[0], file
        )
    return load_evaluation(file)


def beside(before, after):
    """Return the differences to the start model, and the tasks that one of both solves in all samples."""
    row = {}
    for k in COMPARED:
        rates = (task_pass_at_k(run.scores, k) for run in (before, after))
        row[f"pass@{k} - start"] = percent(paired_difference(*rates).difference)
    count = solved(before, after)
    return row | {"gained": count.gained, "lost": count.lost, "p": round(count.p_value, 4)}


def main(job):
    """Sample every model and write the table."""
    work = Work(job.domain, job.seed, job.work.resolve())
    file = ROOT / "benchmarks" / "results" / "many_samples.json"
    results = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    rows = results.setdefault(job.domain, {}).setdefault(f"seed {job.seed}, {job.tasks} tasks", {})
    start = sampled(work, START, job.tasks)
    for name in (START, *job.methods):
        after = sampled(work, name, job.tasks)
        rows[name] = {f"pass@{k}": percent(mean_interval([*task_pass_at_k(after.scores, k).values()])) for k in KS}
        rows[name] |= {"machine": machine()} | (beside(start, after) if name != START else {})
        file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        print(name, json.dumps(rows[name]), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--domain", default="sql")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--methods", nargs="*", default=["own rft, hinted", "own rft, hard", "own maxrl"])
    main(parser.parse_args())
