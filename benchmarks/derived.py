"""What derived tasks teach: python benchmarks/derived.py repair|verdict|test WORK [--run RUN] [--samples CHOOSING] [--seeds 3]

repair   one turn of repair beside as many tokens of new samples, before and after training on tasks of ``upsolve derive repair``
verdict  AUC among queries that run: log-odds before and after training on ``upsolve derive verdict``, beside the likelihood
test     held-out tasks of ``upsolve derive test`` that samples solve, before and after training on others

RUN is the folder of ``make demo``, CHOOSING the folder of samples of ``choosing.py``. Archives and runs are stored in WORK; a repeated command
resumes. Results are in results/derived.json.
"""

import argparse
import json
import pickle
import random
import subprocess
import sys
from pathlib import Path

from choosing import SAMPLES, test_tasks
from derived_scores import auc, compared, log_odds, passes
from machine import machine, publish
from rounding import percent

from upsolve.archive.split import origin_of, split_archive
from upsolve.archive.store import Archive, open_archive
from upsolve.config import DataConfig, ModelConfig, load_recipe
from upsolve.evaluate.intervals import mean_interval, over_seeds
from upsolve.policy.engines import sampler
from upsolve.policy.model import codec_of
from upsolve.types import Status
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.pool.pool import verify

RESULT = Path(__file__).parent / "results" / "derived.json"
QUESTIONS, OWN = 800, 250
"""Training questions whose stored queries are used, and those that have four samples of the model instead of stored wrong queries."""
REPAIRS, TESTS, JUDGED = 4, 4, 6
"""Corrections of a query, samples of a test, and most queries of a question that a critic judges."""
RAN = (Status.PASSED, Status.FAILED)
BASE = "smollm2-135m"


def upsolve(*words, **values):
    """Run a command of upsolve; values are settings, whose names have ``__`` for a dot."""
    settings = (word for name, value in values.items() for word in ("--set", f"{name.replace('__', '.')}={value}"))
    subprocess.run([sys.executable, "-m", "upsolve", *map(str, words), *settings], check=True)


def archive_of(path, tasks, attempts, verdicts=()):
    """Return the path of an archive with these contents, created once."""
    if not path.exists():
        Archive.create(path).append(tasks=tasks, attempts=attempts, verdicts=verdicts)
    return path


def derived(kind, archive, out, *more):
    """Return the derived archive."""
    upsolve("derive", kind, archive, out, *more)
    return open_archive(out)


def trained(out, archive, model, seed, **values):
    """Return the model that at most 100 steps of the demo's recipe make of a model on the passed answers of an archive, trained once."""
    if not (out / "summary.json").exists():
        values = {"select__attempts": "passed", "optim__max_steps": 100, **values}
        upsolve("train", "demo", "--archive", archive, "--model", model, "--out", out, "--seed", seed, **values)
    return out / "model"


def models_of(work, kind, archive, start, given, **values):
    """Return the model before training, and after it by each seed."""
    seeds = range(given.train_seeds)
    return {"untrained": start} | {
        str(seed): trained(work / f"{kind}-{seed}", archive, start, seed, **values) for seed in seeds
    }


def source(work, run):
    """Return an archive of training questions with judged queries: right ones, and wrong samples of the model or, of most questions, stored ones."""
    out = work / "source"
    if not (out / "whole").exists():
        stored = open_archive("embedded-sql")
        train = split_archive(stored, DataConfig(archive="embedded-sql", split_by="split")).tasks["train"]
        tasks = random.Random(0).sample(train, QUESTIONS)
        own = archive_of(work / "own", tasks[:OWN], [])
        at_one = {"sample__samples": 4, "sample__temperature": 1.0, "sample__top_p": 1.0}
        upsolve("sample", run / "recipe.yaml", "--archive", own, "--model", run / "training" / "model", **at_one)
        few, names = {task.task_id for task in tasks[:OWN]}, {task.task_id for task in tasks}
        kept = [one for one in stored.attempts() if one.task_id in names and (one.task_id not in few or "right" in one.author)]
        upsolve("verify", archive_of(out, tasks, [*kept, *open_archive(own).attempts()]))
        (out / "whole").touch()
    return open_archive(out)


def stored_samples(folder, seeds, count=200):
    """Return the test questions and, for each seed and question, the greedy query and seven samples, and which of the eight pass."""
    seen = []
    for seed in range(seeds):
        parts = [pickle.loads((folder / f"0.8-{seed}-{start}.pickle").read_bytes()) for start in range(0, count, 50)]
        seen.append([(one, row["passed"]) for found, _, rows, _ in parts for one, row in zip(found, rows, strict=True)])
    return test_tasks(count), seen


def sampled(file, model, tasks, config):
    """Return for each task the tokens of its prompt, and tokens and success of its samples; sampled once."""
    if not file.exists():
        attempts = [*sampler(config, model)(tasks, config=config)]
        file.write_text(json.dumps(as_rows(model, tasks, attempts)))
    return json.loads(file.read_text())


def as_rows(model, tasks, attempts):
    """Return rows as ``sampled`` does."""
    codec, by_id = codec_of(model), {task.task_id: task for task in tasks}
    rows = {name: {"prompt": len(codec.prompt(task, (), "").ids_P), "samples": []} for name, task in by_id.items()}
    verdicts = verify([(by_id[one.task_id], one) for one in attempts], JudgeSettings())
    for attempt, verdict in zip(attempts, verdicts, strict=True):
        rows[attempt.task_id]["samples"].append((attempt.tokens, verdict.status is Status.PASSED))
    return rows


def repair(work, given):
    """Compare corrections of failed greedy queries with new samples."""
    recipe, start = load_recipe(given.run / "recipe.yaml", []), given.run / "training" / "model"
    tasks, seen = stored_samples(given.samples, given.seeds)
    failed = {task.task_id: one[0] for task, (one, passed) in zip(tasks, seen[0], strict=True) if not passed[0]}
    some = [task for task in tasks if task.task_id in failed]
    right = [one for one in open_archive("embedded-sql").attempts() if one.task_id in failed and one.author == "right:plain"]
    upsolve("verify", tried := archive_of(work / "failed", some, [*failed.values(), *right]))
    asked = derived("repair", tried, work / "failed-repair").tasks()
    wrong = {origin_of(task) for task in asked if "gives a wrong answer" in task.prompt}
    names = {"all": sorted(failed), "wrong answers": sorted(wrong), "errors": sorted(failed.keys() - wrong)}
    learned = derived("repair", source(work, given.run).path, work / "repair").path
    fixes, news = {}, {}
    for name, path in models_of(work, "repair", learned, start, given, data__group_size=2).items():
        model, fixes[name], news[name] = recipe.model.at(str(path)), [], []
        for seed in range(given.seeds):
            config = recipe.sample.model_copy(update={"temperature": 0.8, "top_p": 1.0, "seed": seed, "samples": REPAIRS})
            rows = sampled(work / f"fixes-{name}-{seed}.json", model, asked, config)
            fixes[name].append({origin_of(task): rows[task.task_id] for task in asked})
            stored = [attempt for one, _ in seen[seed] if one[0].task_id in failed for attempt in one[1:]]
            more = config.model_copy(update={"samples": SAMPLES - 1})
            is_first = name == "untrained"
            new = as_rows(model, some, stored) if is_first else sampled(work / f"new-{name}-{seed}.json", model, some, more)
            news[name].append(new)
    later, own = ([one for seed in range(given.train_seeds) for one in each[str(seed)]] for each in (fixes, news))
    report = {"failed": len(failed), "tasks": len(tasks), "seeds": given.seeds, "train_seeds": given.train_seeds}
    for part, keys in names.items():
        report[part] = {"untrained": compared(fixes["untrained"], news["untrained"], keys, REPAIRS)}
        if later:
            report[part]["trained"] = compared(later, own, keys, REPAIRS)
            report[part]["trained, beside the untrained"] = compared(
                later, news["untrained"] * given.train_seeds, keys, REPAIRS
            )
    store("repair", report)


def queries_that_run(path, archive, tasks):
    """Return an archive of the queries of some questions that run."""
    names, known = {task.task_id for task in tasks}, {one.attempt_id: one for one in archive.verdicts()}
    ran = [one for one in archive.attempts() if one.task_id in names and known[one.attempt_id].status in RAN]
    return archive_of(path, tasks, ran, [known[one.attempt_id] for one in ran])


def verdict(work, given):
    """Compare the log-odds of a critic with the likelihood among queries that run."""
    stored, start = source(work, given.run), given.run / "training" / "model"
    derived("verdict", queries_that_run(work / "ran", stored, stored.tasks()), work / "verdicts")
    tasks, seen = stored_samples(given.samples, given.seeds)
    distinct = {one.attempt_id: one for seed in seen for attempts, _ in seed for one in attempts}
    upsolve("verify", tried := archive_of(work / "tried", tasks, [*distinct.values()]))
    heldout = queries_that_run(work / "tried-ran", open_archive(tried), tasks)
    asked = derived("verdict", heldout, work / "heldout", "--most", JUDGED)
    how = {"model__prompt__system": '""', "data__group_size": 2}
    critics = models_of(work, "verdict", work / "verdicts", start, given, **how)
    odds = {name: log_odds(work / f"odds-{name}.json", model, asked) for name, model in critics.items()}
    by_id = {task.task_id: task for task in asked.tasks()}
    queries = {(one.task_id, one.attempt_id[:8]): one for one in distinct.values()}
    known = {one.attempt_id: one for one in open_archive(tried).verdicts()}
    groups = {}
    for key, task in by_id.items():
        groups.setdefault(origin_of(task), []).append((key, queries[origin_of(task), key.rpartition("-")[2]]))
    passed = [[known[one.attempt_id].status is Status.PASSED for _, one in group] for group in groups.values()]
    scores = {"likelihood": [[one.behavior_logp for _, one in group] for group in groups.values()]}
    scores |= {name: [[odds[name][key] for key, _ in group] for group in groups.values()] for name in critics}
    report = {"queries": sum(map(len, passed)), "passed": sum(map(sum, passed)), "questions": len(passed)}
    report |= {name: auc(values, passed) for name, values in scores.items()}
    if given.train_seeds:
        report["0, on stored queries"] = on_stored(work, tasks, critics["0"])
    store("verdict", report)


def on_stored(work, tasks, model):
    """Return the AUC of a critic among stored queries of the test questions that run."""
    heldout = queries_that_run(work / "stored-ran", open_archive("embedded-sql"), tasks)
    asked = derived("verdict", heldout, work / "stored-heldout", "--most", 2)
    odds, rows = log_odds(work / "odds-stored.json", model, asked), {}
    for task in asked.tasks():
        rows.setdefault(origin_of(task), []).append((odds[task.task_id], task.tests[0].expected == "pass"))
    return auc(*([[one[part] for one in group] for group in rows.values()] for part in (0, 1)))


def test(work, given):
    """Measure the share of held-out tasks whose sampled test passes right programs and fails wrong ones."""
    asked = derived("test", "embedded", work / "tests")
    tasks = split_archive(asked, DataConfig(archive=str(asked.path))).tasks["test"]
    report = {"tasks": len(tasks), "seeds": given.seeds, "train_seeds": given.train_seeds, "samples": TESTS}
    config = load_recipe("demo", []).sample.model_copy(update={"max_tokens": 96, "top_p": 1.0})
    how, found = {"model__prompt__system": '""', "data__split_by": '""', "optim__lr": 1e-4}, {}
    for name, model in models_of(work, "test", asked.path, BASE, given, **how).items():
        for seed in ("greedy", *range(given.seeds)):
            more = (
                {"temperature": 0.0, "samples": 1} if seed == "greedy" else {"temperature": 0.8, "samples": TESTS, "seed": seed}
            )
            file = work / f"test-{name}-{seed}.json"
            rows = sampled(file, ModelConfig(name=str(model)), tasks, config.model_copy(update=more))
            part = ("untrained" if name == "untrained" else "trained", "greedy" if seed == "greedy" else "temperature 0.8")
            found.setdefault(part, []).append({key: passes(row, 1) for key, row in rows.items()})
    for (name, how), runs in found.items():
        report.setdefault(name, {})[how] = percent(mean_interval([*over_seeds(runs).values()]))
    store("test", report)


def store(name, report):
    """Add a result to the file."""
    stored = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    publish(stored | {name: report | {"machine": machine()}}, RESULT)


def main():
    """Measure one kind."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("kind", choices=("repair", "verdict", "test"))
    arguments.add_argument("work", type=Path)
    arguments.add_argument("--run", type=Path, default=Path("runs/demo-0"))
    arguments.add_argument("--samples", type=Path, default=Path("runs/choosing"))
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--train-seeds", type=int, default=1)
    given = arguments.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    {"repair": repair, "verdict": verdict, "test": test}[given.kind](given.work, given)


if __name__ == "__main__":
    main()
