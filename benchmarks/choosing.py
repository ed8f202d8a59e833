"""Choice among samples of the demo's model, without its hidden tests: python benchmarks/choosing.py RUN WORK [--tasks 200] [--seeds 3] [--temperature 0.8]

RUN is the folder of ``make demo``. For each seed, each task of the test split gets one greedy candidate and seven samples. They run on databases made
from the schema, and each choice is judged by the task's own databases, which no choice reads. Samples are stored in WORK, and a repeated command
resumes. The results are in results/choosing.json. Three other parts choose among stored Python samples by visible tests; hidden tests judge the choice:

    python benchmarks/choosing.py embedded              eight samples of each task of the embedded archive
    python benchmarks/choosing.py mbpp_plus WORK DATA   programs of three models (LDB) at MBPP: visible are its three asserts, hidden the tests of MBPP+
    python benchmarks/choosing.py codet WORK DATA       eight of the 100 samples of CodeGen-16B (CodeT) at HumanEval: visible are the examples of its
                                                        statement, as LDB parsed them; candidates also run on inputs that are mutated from these

``--tasks N`` measures the first N tasks, a multiple of 50. DATA is a folder with ldb/mbpp, evalplus/MbppPlus.jsonl, ldb/humaneval and codet as published by their authors. In these two parts every sample is
the first one once: the order of the samples is rotated.
"""

import argparse
import json
import pickle
import random
import time
from dataclasses import replace
from pathlib import Path

from machine import machine, publish

from upsolve.archive.split import split_archive
from upsolve.archive.store import open_archive
from upsolve.config import DataConfig, load_recipe
from upsolve.evaluate.choice import prefixes
from upsolve.evaluate.intervals import mean_interval, over_seeds, paired_difference
from upsolve.exports.formats import benchmark_id
from upsolve.importers.benchmarks.evalplus import read as read_evalplus
from upsolve.importers.benchmarks.functions import CODET, LDB
from upsolve.importers.recogniser.failing import About
from upsolve.importers.recogniser.values import recognise
from upsolve.policy.engines import sampler
from upsolve.solve.choose import Candidates, choose
from upsolve.solve.outputs import outputs_of
from upsolve.solve.solving import KINDS, SolveSettings, inputs_of, why_stop
from upsolve.suites.inputs import call_inputs, candidates
from upsolve.types import Attempt, Status, Task
from upsolve.verify.limits import JudgeSettings, judge_settings
from upsolve.verify.pool.pool import verify

RESULT = Path(__file__).parent / "results" / "choosing.json"
SAMPLES, PORTION, MUTATED = 8, 50, 8
WAYS = {
    "greedy": None,
    "most likely": ("likelihood",),
    "runs, likelihood": ("runs", "likelihood"),
    "runs, agreement, likelihood": KINDS,
    "agreement": ("agreement",),
}
"""Kinds of evidence of each way to choose."""
COUNTS = {3: "three", 8: "eight"}
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
        few = drawn_until(every)
        chosen["sequential"] = choose(few, KINDS).index
        ran = every.outputs[0].ran == len(every.outputs[0].texts)
        chosen["greedy if it runs, else chosen"] = 0 if ran else chosen["runs, agreement, likelihood"]
        rows.append(
            {"task": task.task_id, "chosen": chosen, "spent": len(few.attempts), "spent_if_runs": 1 if ran else SAMPLES}
        )
    seconds = time.perf_counter() - started
    passed = [verdict.status is Status.PASSED for verdict in verify(pairs, settings)]
    for place, row in enumerate(rows):
        row["passed"] = passed[place * SAMPLES : (place + 1) * SAMPLES]
    return rows, seconds


def drawn_until(every):
    """Return the candidates after which ``upsolve solve`` draws no more."""
    return next(
        few
        for few in prefixes(every)
        if why_stop(few, choose(few, KINDS), EARLY, seconds=0.0, is_last=len(few.attempts) == len(every.attempts))
    )


def shares(rows, name):
    """Return task -> share of seeds in which a way's choice passes."""
    pick = {
        "one sample": lambda row: sum(row["passed"][1:]) / (len(row["passed"]) - 1),
        best_of(rows): lambda row: float(any(row["passed"])),
    }
    value = pick.get(name, lambda row: float(row["passed"][row["chosen"][name]]))
    return over_seeds([{row["task"]: value(row) for row in seed} for seed in rows])


def best_of(rows):
    """Return the name of the choice by hidden tests."""
    count = len(rows[0][0]["passed"])
    return f"any of {COUNTS.get(count, count)}"


def summary(rows, base="greedy"):
    """Return for each way its share of passed tasks and its difference to the base, paired, with intervals over tasks."""
    ways = ["one sample", *rows[0][0]["chosen"], best_of(rows)]
    first, best = shares(rows, base), shares(rows, best_of(rows))
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


def cases_of_mbpp_plus(data):
    """Return for each task of MBPP+ its visible task, its hidden task, and the program of each of three models."""
    hidden = {
        benchmark_id(task.task_id, ("mbpp",)): task
        for task in read_evalplus(data / "evalplus" / "MbppPlus.jsonl")
        if isinstance(task, Task)
    }
    visible, programs = {}, {}
    for row in LDB.read(data / "ldb" / "mbpp"):
        if isinstance(row, Task):
            visible[row.task_id] = replace(row, tests=tuple(replace(test, hidden=False) for test in row.tests))
        elif isinstance(row, Attempt) and not row.parent_id:
            programs.setdefault(row.task_id, {}).setdefault(row.author, row)
    named = {name: benchmark_id(name, ("mbpp",)) for name in visible}
    return [(task, hidden[named[name]], [*programs[name].values()]) for name, task in visible.items() if named[name] in hidden]


def cases_of_codet(data):
    """Return for each task of HumanEval its visible task, its hidden task, and samples of CodeGen-16B, drawn at random."""
    rows = [json.loads(line) for line in (data / "ldb" / "humaneval" / "seed_codellama.jsonl").read_text().splitlines()]
    shown = {f"humaneval/{row['task_id'].rpartition('/')[2]}": row for row in rows}
    tasks, samples = {}, {}
    for row in CODET.read(data / "codet"):
        if isinstance(row, Task):
            tasks[row.task_id] = row
        elif isinstance(row, Attempt):
            samples.setdefault(row.task_id, []).append(row)
    found = []
    for name, task in tasks.items():
        examples = recognise(shown[name]["given_tests"], About(task.entry_point, "", "python", ())).tests
        tests = tuple(replace(test, hidden=False) for test in examples)
        found.append((replace(task, tests=tests), task, random.Random(name).sample(samples[name], SAMPLES)))
    return found


def mutated_inputs(task):
    """Return the inputs of visible tests, and as many as ``MUTATED`` that are mutated from these."""
    inputs = call_inputs(task)
    more = candidates(inputs, task.tests, MUTATED, random.Random(0)) if inputs else ()
    return (*task.tests, *(one.test for one in more))


def measured_stored(cases, settings, ways):
    """Return one list of rows for each rotation of the samples (the shortest number of samples), as ``measured``."""
    pairs = [(shown, whole, attempt) for shown, whole, attempts in cases for attempt in attempts]
    inputs = {shown.task_id: mutated_inputs(shown) for shown, _, _ in cases}
    seen = verify([(shown, attempt) for shown, _, attempt in pairs], settings)
    outputs = outputs_of(
        *zip(*[(shown, attempt) for shown, _, attempt in pairs], strict=True),
        [inputs[shown.task_id] for shown, *_ in pairs],
        settings,
    )
    passed = [
        one.status is Status.PASSED
        for one in verify([(whole, replace(one, task_id=whole.task_id)) for _, whole, one in pairs], settings)
    ]
    rows, start = [], 0
    for shown, _, attempts in cases:
        part = slice(start, start + len(attempts))
        start = part.stop
        rows.append((shown, attempts, seen[part], outputs[part], passed[part]))
    return [[rotated(turn, ways, *row) for row in rows] for turn in range(min(len(attempts) for _, _, attempts in cases))]


def rotated(turn, ways, task, attempts, verdicts, outputs, passed):
    """Return the row of a task whose samples begin with that at ``turn``."""
    attempts, verdicts, outputs, passed = ([*some[turn:], *some[:turn]] for some in (attempts, verdicts, outputs, passed))
    every = Candidates(task, tuple(attempts), tuple(verdicts), tuple(outputs))
    chosen = {"first": 0} | {", ".join(kinds): choose(every, kinds).index for kinds in ways}
    return {"task": task.task_id, "chosen": chosen, "passed": passed}


STORED = {
    "mbpp_plus": (cases_of_mbpp_plus, (("tests",), ("tests", "agreement"))),
    "codet": (cases_of_codet, (("agreement",), ("tests",), ("tests", "agreement"))),
}
"""Part -> its cases, and the kinds of evidence of each way to choose."""


def stored_part(name, work, data, count):
    """Measure the first ``count`` tasks (None: all) of a part of stored samples, in portions that a repeated command skips."""
    work.mkdir(parents=True, exist_ok=True)
    cases_of, ways = STORED[name]
    cases_file = work / f"{name}-cases.pickle"
    if not cases_file.exists():
        cases_file.write_bytes(pickle.dumps(cases_of(data)))
    cases = pickle.loads(cases_file.read_bytes())[:count]
    rows = []
    for start in range(0, len(cases), PORTION):
        file = work / f"{name}-{start}.pickle"
        if not file.exists():
            file.write_bytes(pickle.dumps(measured_stored(cases[start : start + PORTION], JudgeSettings(), ways)))
        part = pickle.loads(file.read_bytes())
        rows = [[*before, *now] for before, now in zip(rows or [[]] * len(part), part, strict=True)]
        print(f"{name}: {len(rows[0])} of {len(cases)} tasks", flush=True)
    report = {"tasks": len(cases), "samples": len(rows[0][0]["passed"]), "orders": len(rows)}
    store(name, report | summary(rows, "first"))


def store(name, report):
    """Add a result to the file."""
    stored = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    publish(stored | {name: report | {"machine": machine()}}, RESULT)


def main():
    """Sample, choose, judge, and write the result."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("run", type=Path)
    arguments.add_argument("work", type=Path, nargs="?")
    arguments.add_argument("data", type=Path, nargs="?")
    arguments.add_argument("--tasks", type=int)
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--temperature", type=float, default=0.8)
    arguments.add_argument("--name", default="", help="name of the result of a RUN; default: `sql at TEMPERATURE`")
    given = arguments.parse_args()
    if given.run == Path("embedded"):
        rows = stored_python(given.seeds)
        store("python", {"tasks": len(rows[0]), "seeds": given.seeds, "samples": SAMPLES} | summary(rows, "first"))
        return
    if str(given.run) in STORED:
        stored_part(str(given.run), given.work, given.data, given.tasks)
        return
    given.work.mkdir(parents=True, exist_ok=True)
    recipe = load_recipe(given.run / "recipe.yaml", [f"model.name={given.run / 'training' / 'model'}"])
    settings, tasks, draw, rows, spent = (
        judge_settings(recipe.verify),
        test_tasks(given.tasks or 200),
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
    store(given.name or f"sql at {given.temperature}", report)


if __name__ == "__main__":
    main()
