"""Pass rate of the untrained model with solved examples in its prompt: python benchmarks/few_shot.py [--archive embedded-sql] [--examples 4] [--tasks 100]

The examples are training tasks of other schemas, drawn by ``--seed``, each with a program that passed: the archive's ``right:plain`` author or, without
one, the shortest. They are `model.prompt.shots` of the recipe that is printed. The test tasks are those of the recipe ``demo``. Writes
results/few_shot.json.
"""

import argparse
import json
import random
from pathlib import Path

from machine import machine, publish
from rounding import percent

from upsolve.archive.split import split_archive
from upsolve.archive.store import open_archive
from upsolve.config import load_recipe
from upsolve.evaluate.benchmarks import held_out, sweep_model
from upsolve.evaluate.intervals import mean_interval
from upsolve.evaluate.scores import task_pass_at_k
from upsolve.policy.prompt import statement
from upsolve.types import Status

RESULT = Path(__file__).parent / "results" / "few_shot.json"


def shots(groups, count, seed):
    """Return solved examples of as many tasks: prompt and code, of groups of which an attempt passed, in random order."""
    found = []
    for group in random.Random(seed).sample([*groups], len(groups)):
        passed = [
            one
            for one, verdict in zip(group.attempts, group.verdicts, strict=True)
            if verdict and verdict.status is Status.PASSED
        ]
        if passed and len(found) < count:
            best = min(passed, key=lambda one: (one.author != "right:plain", len(one.code)))
            found.append({"prompt": statement(group.task), "code": best.code})
    return found


def main():
    """Evaluate the model with and without examples, and write the pass rates."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--archive", default="embedded-sql")
    parser.add_argument("--examples", type=int, nargs="+", default=[0, 4])
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    split_by = ["data.split_by=split"] if options.archive == "embedded-sql" else []
    given = [f"data.archive={options.archive}", f"model.name={options.model}", f"evaluate.tasks={options.tasks}", *split_by]
    given += ["evaluate.temperatures=[0]", "evaluate.dev_tasks=0", "evaluate.likelihood_tasks=0", "sample.max_tokens=72"]
    plain = load_recipe(None, given)
    split = split_archive(open_archive(options.archive), plain.data)
    tasks, rows = held_out(split, options.archive, plain.evaluate), []
    for count in options.examples:
        solved = shots(split.groups["train"], count, options.seed) if count else []
        recipe = load_recipe(None, [*given, f"model.prompt.shots={json.dumps(solved)}"])
        sweep = sweep_model(tasks, model=recipe.model, sample=recipe.sample, verify=recipe.verify, evaluate=recipe.evaluate)
        scores = sweep.greedy.scores
        rows.append({"examples": count, "tasks": len(scores), "passed": sum(score.passed for score in scores)})
        rows[-1]["pass@1, greedy, %"] = percent(mean_interval([*task_pass_at_k(scores, 1).values()]))
        rows[-1]["shots"] = solved
    publish(
        {"machine": machine(), "archive": options.archive, "model": options.model, "seed": options.seed, "rows": rows},
        options.out,
    )


if __name__ == "__main__":
    main()
