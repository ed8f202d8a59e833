"""Choice among samples of the demo's model, without its hidden tests: python benchmarks/choosing.py RUN WORK [--tasks 200] [--seeds 3] [--temperature 0.8]

RUN is the folder of ``make demo``. For each seed, each task of the test split gets one greedy candidate and seven samples. They run on databases made
from the schema, and each choice is judged by the task's own databases, which no choice reads. Samples are stored in WORK, and a repeated command
resumes. ``python benchmarks/choosing.py embedded`` chooses among eight stored samples of each Python task by its visible tests instead; all tests
judge the choice. The results are in results/choosing.json.
"""

import argparse
import json
import pickle
import random
import time
from pathlib import Path

from machine import machine, publish

from upsolve.archive.split import split_archive
from upsolve.archive.store import open_archive
from upsolve.config import DataConfig, load_recipe
from upsolve.evaluate.intervals import mean_interval, over_seeds, paired_difference
from upsolve.policy.engines import sampler
from upsolve.solve.choose import Candidates, choose
from upsolve.solve.outputs import outputs_of
from upsolve.solve.solving import KINDS, SolveSettings, inputs_of, why_stop
from upsolve.types import Status
from upsolve.verify.limits import judge_settings
from upsolve.verify.pool.pool import verify

RESULT = Path(__file__).parent / "results" / "choosing.json"
SAMPLES, PORTION = 8, 50
WAYS = {
    "greedy": None,
    "most likely": ("likelihood",),
    "runs, likelihood": ("runs", "likelihood"),
    "runs, agreement, likelihood": KINDS,
    "agreement": ("agreement",),
}
"""Kinds of evidence of each way to choose."""
EARLY = SolveSettings()


def test_tasks(count):
    """Return the first tasks of the test split of embedded-sql, in its order."""
    split = split_archive(open_archive("embedded-sql"), DataConfig(archive="embedded-sql", split_by="split"))
    return split.tasks["test"][:count]


def sampled(draw, config, tasks):
    """Return the candidates of each task, the greedy one first, and the seconds of sampling."""
    started = time.perf_counter()
    greedy = [*draw(tasks, config=config.model_copy(update={"samples": 1, "temperature": 0.0}))]
    others = [*draw(tasks, config=config.model_copy(update={"samples": SAMPLES - 1}))]
    by_task = {one.task_id: [one] for one in greedy}
    for other in others:
        by_task[other.task_id].append(other)
    found = [tuple(by_task[task.task_id]) for task in tasks]
    return found, time.perf_counter() - started


def measured(tasks, found, settings):
    """Return one row a task: which candidates pass, and the candidate that each way chooses; and the seconds of running and choosing."""
    started = time.perf_counter()
    pairs = [(task, attempt) for task, attempts in zip(tasks, found, strict=True) for attempt in attempts]
    inputs = {task.task_id: inputs_of(task) for task in tasks}
    outputs = outputs_of(*zip(*pairs, strict=True), [inputs[task.task_id] for task, _ in pairs], settings)
    rows = []
    for place, (task, attempts) in enumerate(zip(tasks, found, strict=True)):
        every = Candidates(task, attempts, (None,) * SAMPLES, tuple(outputs[place * SAMPLES : (place + 1) * SAMPLES]))
        chosen = {name: choose(every, kinds).index if kinds else 0 for name, kinds in WAYS.items()}
        spent = drawn_until(every)
        few = Candidates(task, attempts[:spent], every.verdicts[:spent], every.outputs[:spent])
        chosen["sequential"] = choose(few, KINDS).index
        ran = every.outputs[0].ran == len(every.outputs[0].texts)
        chosen["greedy if it runs, else chosen"] = 0 if ran else chosen["runs, agreement, likelihood"]
        rows.append({"task": task.task_id, "chosen": chosen, "spent": spent, "spent_if_runs": 1 if ran else SAMPLES})
    seconds = time.perf_counter() - started
    passed = [verdict.status is Status.PASSED for verdict in verify(pairs, settings)]
    for place, row in enumerate(rows):
        row["passed"] = passed[place * SAMPLES : (place + 1) * SAMPLES]
    return rows, seconds


def drawn_until(every):
    """Return the number of candidates after which ``upsolve solve`` draws no more: 1, 3 or all."""
    for count in (1, 3):
        few = Candidates(every.task, every.attempts[:count], every.verdicts[:count], every.outputs[:count])
        if why_stop(few, choose(few, KINDS), EARLY, 0.0, is_last=False):
            return count
    return SAMPLES


def shares(rows, name):
    """Return task -> share of seeds in which a way's choice passes."""
    pick = {
        "one sample": lambda row: sum(row["passed"][1:]) / (SAMPLES - 1),
        "any of eight": lambda row: float(any(row["passed"])),
    }
    value = pick.get(name, lambda row: float(row["passed"][row["chosen"][name]]))
    return over_seeds([{row["task"]: value(row) for row in seed} for seed in rows])


def summary(rows, base="greedy"):
    """Return for each way its share of passed tasks and its difference to the base, paired, with intervals over tasks."""
    ways = ["one sample", *rows[0][0]["chosen"], "any of eight"]
    first, best = shares(rows, base), shares(rows, "any of eight")
    table = {}
    for name in ways:
        values = shares(rows, name)
        mean, change = mean_interval([*values.values()]), paired_difference(first, values).difference
        table[name] = {"passed": round(mean.mean, 4), "interval": [round(end, 4) for end in (mean.low, mean.high)]}
        table[name] |= {
            f"over_{base}": round(change.mean, 4),
            f"over_{base}_interval": [round(end, 4) for end in (change.low, change.high)],
        }
    half = (sum(first.values()) + sum(best.values())) / 2 / len(first)
    return {"ways": table, f"{base}_plus_half": round(half, 4)}


def stored_python(seeds):
    """Return rows as ``measured``: eight stored samples of each task of the embedded archive, chosen by the share of visible tests they pass."""
    rows = []
    for seed in range(seeds):
        rng = random.Random(seed)
        rows.append([])
        for group in open_archive("embedded").groups():
            pairs = [pair for pair in zip(group.attempts, group.verdicts, strict=True) if pair[0].author != "upsolve"]
            drawn = rng.sample(pairs, SAMPLES, counts=[attempt.count for attempt, _ in pairs])
            shown = [place for place, test in enumerate(group.task.tests) if not test.hidden]
            shares = [sum(verdict.outcomes[place] is Status.PASSED for place in shown) for _, verdict in drawn]
            passed = [verdict.status is Status.PASSED for _, verdict in drawn]
            chosen = {"first": 0, "tests": shares.index(max(shares))}
            rows[-1].append({"task": group.task.task_id, "chosen": chosen, "passed": passed})
    return rows


def store(name, report):
    """Add a result to the file."""
    stored = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    publish(stored | {name: report | {"machine": machine()}}, RESULT)


def main():
    """Sample, choose, judge, and write the result."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("run", type=Path)
    arguments.add_argument("work", type=Path, nargs="?")
    arguments.add_argument("--tasks", type=int, default=200)
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--temperature", type=float, default=0.8)
    given = arguments.parse_args()
    if given.run == Path("embedded"):
        rows = stored_python(given.seeds)
        store("python", {"tasks": len(rows[0]), "seeds": given.seeds, "samples": SAMPLES} | summary(rows, "first"))
        return
    given.work.mkdir(parents=True, exist_ok=True)
    recipe = load_recipe(given.run / "recipe.yaml", [f"model.name={given.run / 'training' / 'model'}"])
    settings, tasks, draw, rows, spent = (
        judge_settings(recipe.verify),
        test_tasks(given.tasks),
        None,
        [],
        {"sampling": 0.0, "choosing": 0.0},
    )
    for seed in range(given.seeds):
        config = recipe.sample.model_copy(update={"temperature": given.temperature, "seed": seed, "top_p": 1.0})
        rows.append([])
        for start in range(0, len(tasks), PORTION):
            some, file = tasks[start : start + PORTION], given.work / f"{given.temperature}-{seed}-{start}.pickle"
            if not file.exists():
                draw = draw or sampler(config, recipe.model)
                found, sampling = sampled(draw, config, some)
                file.write_bytes(pickle.dumps((found, sampling, *measured(some, found, settings))))
            found, sampling, more, choosing = pickle.loads(file.read_bytes())
            rows[-1] += more
            spent["sampling"] += sampling
            spent["choosing"] += choosing
            print(f"seed {seed}: {len(rows[-1])} of {len(tasks)} tasks", flush=True)
    every = [row for seed in rows for row in seed]
    samples = {
        "sequential": sum(row["spent"] for row in every),
        "greedy if it runs, else chosen": sum(row["spent_if_runs"] for row in every),
    }
    report = {"tasks": len(tasks), "seeds": given.seeds, "temperature": given.temperature, "samples": SAMPLES} | summary(rows)
    report["samples_a_task"] = {name: round(count / len(every), 2) for name, count in samples.items()}
    report["seconds"] = {name: round(value, 1) for name, value in spent.items()}
    store(f"sql at {given.temperature}", report)


if __name__ == "__main__":
    main()
