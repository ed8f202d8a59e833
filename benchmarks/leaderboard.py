"""Methods compared with the same model, archive and budget: python benchmarks/leaderboard.py WORK --domain sql [--methods sft rloo] [--seeds 0 1 2]

Domains:
    sql      embedded-sql: questions over schemas that no training task has
    robot    composed tasks of the robot world: compositions that no training task has
    robot documented    the same tasks, with the description of the robot's methods in the prompt
    python   the embedded archive of Python tasks, split 1
    mbpp     MBPP with its official split; the archive's attempts are its references ($UPSOLVE_DATA/mbpp/mbpp.jsonl)

Every method trains SmolLM2-135M-Instruct for the same number of optimizer steps of the same size, and is measured at several temperatures:
its best temperature is chosen on dev tasks and measured on test tasks (docs/recipes.md). ``ssd`` trains on samples of the base model, ``own ...``
methods are a second stage: they start from the model of ``sft half``, which has seen half of the schemas (compositions, tasks), and train for half as
many steps on its samples at tasks of the other half; ``twice``: a third stage does the same from the model of the second; ``all shuffled``: with the
verdicts of every stage shuffled; ``hard``: only on tasks of which at most half of its samples passed; ``hinted``: also on samples at the tasks that it never
passes, drawn with half of an archived program in the prompt (docs/rounds.md); ``anew``: from the base model, on these samples and what ``sft half`` was trained on. Models and samples are
made once per seed. ``rft, own samples twice`` samples all training tasks again with the model of ``rft, own samples``, and goes on from it. ``grpo`` starts from the model of ``sft half`` and trains online on all training tasks, for 32 rounds of eight groups. ``sft more``
starts there, too, and imitates the archive's attempts at the other half for about as many minutes (it samples nothing), and ``sft more, a tenth`` for a tenth.
The cost of a cell is all that was done for its model: sampling, training, and the training of the model that it starts from, in tokens, which do not depend on
what else the machine does; seconds follow from the rates of an idle machine, which `--rates` measures (results/leaderboard/rates.json). Controls use the same attempts with verdicts that are shuffled, inverted, ignored, or by format only.

A cell is one method and one seed of a domain; its run is kept in WORK, its results in results/leaderboard/DOMAIN/METHOD-SEED.json.gz. Finished
cells are not repeated: interrupt any time. `--processes N` runs N seeds, of one or several domains, at the same time: on CPUs as many as there are cores
(with OMP_NUM_THREADS=1), on a GPU eight or more.
With ``--choices`` a model is also measured by the one of eight samples that evidence chooses; these cells are in results/leaderboard/DOMAIN/choices.
leaderboard_page.py writes results/leaderboard.json and docs/leaderboard-*.md from all finished cells.
"""

import argparse
import contextlib
import gzip
import json
import os
import random
import sqlite3
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from machine import machine

from upsolve.archive.split import split_archive
from upsolve.archive.store import Archive, copy_archive, open_archive
from upsolve.config import load_recipe
from upsolve.evaluate.benchmarks import evaluate_model, held_out, sweep_model
from upsolve.evaluate.capability import capability
from upsolve.evaluate.runs import load_sweep, save_sweep
from upsolve.importers.ingest import ingest
from upsolve.policy.collect import sample_hinted
from upsolve.train.loop import train
from upsolve.verify.pool.pool import verify

ROOT = Path(__file__).parents[1]
CELLS = ROOT / "benchmarks" / "results" / "leaderboard"
BUDGET = (
    "source.rollout.batch=64",
    "optim.tokens_per_step=2048",
    "optim.tokens_per_batch=2048",
    "optim.prefix_groups=4",  # as all cells have been trained
    "monitor.keep=last",
    "monitor.heldout=8",
    "monitor.eval_every=20",
    "monitor.min_entropy=0.02",
)
MEASURE = (
    "evaluate.temperatures=[0, 0.2, 0.6, 1.0]",
    "evaluate.dev_samples=1",
    "sample.samples=2",
    "sample.batch=128",
    "evaluate.likelihood_tasks=100",
)
ROBOT = (
    *("data.split_by=split", "data.group_size=4", "sample.max_tokens=200", "optim.max_steps=100", "optim.epochs=6"),
    *("evaluate.tasks=100", "evaluate.dev_tasks=32", "source.rollout.max_tokens=200", "monitor.min_entropy=0.002"),
)
DOMAINS = {
    "sql": (
        *("data.archive=embedded-sql", "data.split_by=split", "data.group_size=4", "sample.max_tokens=90"),
        *(
            "optim.max_steps=200",
            "optim.epochs=3",
            "evaluate.tasks=200",
            "evaluate.dev_tasks=100",
            "source.rollout.max_tokens=90",
        ),
    ),
    "robot": ROBOT,
    "robot documented": ROBOT,
    "python": (
        *("data.train=0.5", "data.dev=0.1", "data.split_seed=1", "data.group_size=4", "sample.max_tokens=160"),
        *("optim.max_steps=20", "evaluate.dev_tasks=0", "source.rollout.max_tokens=160"),
    ),
    "mbpp": (
        *("data.split_by=split", "data.group_size=4", "sample.max_tokens=160", "sample.samples=1"),
        *("optim.max_steps=32", "optim.epochs=4", "evaluate.temperatures=[0, 0.6, 1.0]", "source.rollout.max_tokens=160"),
    ),
}
"""Settings of each domain."""


@dataclass(frozen=True)
class Method:
    """A row of the table."""

    recipe: str
    """Name of the recipe."""
    settings: tuple[str, ...] = ()
    """Settings that override the recipe's."""
    start: str = ""
    """Method whose trained model is the start; '': the base model."""
    rate: str = "imitate"
    """Learning rate (``RATES``)."""
    own: bool = False
    """Whether the method trains on samples of its start model instead of the archive's attempts."""
    anew: bool = False
    """Whether the method trains from the base model, on the archive's attempts of ``sft half`` besides the samples of its start model."""
    hint: float = 0.0
    """Share of an archived program that is shown to the start model at tasks that it does not pass; 0: these are not sampled again."""
    unseen: bool = False
    """Whether the method trains on the archive's attempts at the tasks that ``sft half`` has not seen."""

    @property
    def continues(self):
        """Method from whose weights training goes on; '': the base model."""
        return "" if self.anew else self.start


HALF = {
    "sql": "task_extra->>'schema' < 'i'",
    "robot": "task_extra->>'composition' < 'm'",
    "robot documented": "task_extra->>'composition' < 'm'",
    "python": "unicode(substr(task_id, -1)) % 2 = 0",
}
"""Training tasks of ``sft half``, as a condition (docs/selection.md)."""
IMITATION = ("sft", "rft", "dft", "ssd")
"""Recipes whose runs end with their last weights."""
RATES = {
    "sql": {"push": 2e-5, "imitate": 3e-4, "continue": 1e-4, "refine": 1e-5},
    "robot": {"push": 2e-5, "imitate": 3e-4, "continue": 1e-4, "refine": 1e-5},
    "robot documented": {"push": 2e-5, "imitate": 3e-4, "continue": 1e-4, "refine": 1e-5},
    "python": {"push": 5e-6, "imitate": 5e-5, "continue": 2e-5, "refine": 2e-6},
    "mbpp": {"push": 5e-6, "imitate": 2e-5, "continue": 2e-5, "refine": 5e-6},
}
"""Learning rates of a domain: of imitation and of methods whose push down is bounded, of other methods with negative advantages, and of the
second stage, likewise."""
SHUFFLED = ("reward.verdicts=shuffled",)
HARD = ("select.groups=pass_rate <= 0.5",)
METHODS = {
    "sft": Method("sft"),
    "rft": Method("rft"),
    "dft": Method("dft", ("monitor.max_likelihood_drop=9",)),  # it gives up tokens that are unlikely at first
    "awr": Method("awr"),
    "exp_advantage": Method("exp_advantage"),
    "asymre": Method("asymre", ("advantage.delta=-0.2",)),
    "topr": Method("topr"),
    "rloo": Method("rloo", rate="push"),
    "group_norm": Method("group_norm", rate="push"),
    "maxrl": Method("maxrl", rate="push"),
    "passk": Method("passk", ("advantage.options.k=2",), rate="push"),
    "dpo": Method("dpo", rate="push"),
    "kto": Method("kto", ("monitor.eval_every=2",), rate="push"),
    "ssd": Method("ssd", own=True),
    "rft, own samples": Method("rft", own=True),
    "rloo, own samples": Method("rloo", own=True, rate="push"),
    "rloo, own samples, shuffled": Method("rloo", SHUFFLED, own=True, rate="push"),
    "rft, own samples, shuffled": Method("rft", SHUFFLED, own=True),
    "rft, own samples twice": Method("rft", start="rft, own samples", own=True, rate="continue"),
    "rft, own samples twice, all shuffled": Method(
        "rft", SHUFFLED, start="rft, own samples, shuffled", own=True, rate="continue"
    ),
    "sft, verdicts ignored": Method("sft", ("reward.verdicts=ignored",)),
    "sft, verdicts shuffled": Method("sft", SHUFFLED),
    "rloo, verdicts shuffled": Method("rloo", SHUFFLED, rate="push"),
    "rloo, verdicts inverted": Method("rloo", ("reward.verdicts=inverted",), rate="push"),
    "rloo, format only": Method("rloo", ("reward.verdicts=format",), rate="push"),
    "sft half": Method("sft"),
    "own ssd": Method("ssd", start="sft half", own=True, rate="continue"),
    "own rft": Method("rft", start="sft half", own=True, rate="continue"),
    "own rft, anew": Method("rft", start="sft half", own=True, anew=True),
    "own rft, anew, shuffled": Method("rft", SHUFFLED, start="sft half", own=True, anew=True),
    "own rft twice": Method("rft", start="own rft", own=True, rate="continue"),
    "own rft, hard": Method("rft", HARD, start="sft half", own=True, rate="continue"),
    "own rft, hard, shuffled": Method("rft", (*HARD, *SHUFFLED), start="sft half", own=True, rate="continue"),
    "own rft, hinted": Method("rft", start="sft half", own=True, hint=0.5, rate="continue"),
    "own rft, hinted, shuffled": Method("rft", SHUFFLED, start="sft half", own=True, hint=0.5, rate="continue"),
    "own topr": Method("topr", start="sft half", own=True, rate="continue"),
    "own rloo": Method("rloo", start="sft half", own=True, rate="refine"),
    "own maxrl": Method("maxrl", start="sft half", own=True, rate="refine"),
    "own dpo": Method("dpo", start="sft half", own=True, rate="refine"),
    "own rft, shuffled": Method("rft", SHUFFLED, start="sft half", own=True, rate="continue"),
    "own rloo, shuffled": Method("rloo", SHUFFLED, start="sft half", own=True, rate="refine"),
    "sft half, shuffled": Method("sft", SHUFFLED),
    "own rft, all shuffled": Method("rft", SHUFFLED, start="sft half, shuffled", own=True, rate="continue"),
    "own rft twice, all shuffled": Method("rft", SHUFFLED, start="own rft, all shuffled", own=True, rate="continue"),
    "grpo": Method("grpo", start="sft half", rate="refine"),
    # one seed's entropy falls to 0.01
    "grpo, shuffled": Method("grpo", ("monitor.min_entropy=0", *SHUFFLED), start="sft half", rate="refine"),
    "sft more": Method("sft", ("optim.max_steps=150",), start="sft half", rate="continue", unseen=True),
    "sft more, shuffled": Method("sft", ("optim.max_steps=150", *SHUFFLED), start="sft half", rate="continue", unseen=True),
    "sft more, a tenth": Method("sft", ("optim.max_steps=15",), start="sft half", rate="continue", unseen=True),
    "sft more, a tenth, shuffled": Method(
        "sft", ("optim.max_steps=15", *SHUFFLED), start="sft half", rate="continue", unseen=True
    ),
}
"""In the order of the table."""


def slug(name):
    """Return a method's name in file names."""
    return name.replace(", ", "-").replace(" ", "-")


@dataclass(frozen=True)
class Work:
    """The folder of a domain's runs of one seed, and their common settings."""

    domain: str
    seed: int
    folder: Path
    given: tuple[str, ...] = ()
    choices: bool = False

    def archive(self):
        """Return the path of the domain's archive, which is created if it does not exist, as a setting; none where it ships with upsolve."""
        made = {"robot": partial(robot_tasks, docs="none"), "robot documented": partial(robot_tasks, docs="full"), "mbpp": mbpp}
        return (f"data.archive={made[self.domain](self.folder)}",) if self.domain in made else ()

    def recipe(self, name, *settings):
        """Return a recipe with the domain's settings."""
        archive = self.archive()
        seeds = [f"{key}={self.seed}" for key in ("seed", "data.seed", "sample.seed", "source.rollout.seed")]
        many = ("evaluate.many_samples=8",) if self.choices else ()
        return load_recipe(name, [*BUDGET, *MEASURE, *DOMAINS[self.domain], *archive, *seeds, *many, *settings, *self.given])

    def at(self, name):
        """Return the folder of a method."""
        return self.folder / slug(self.domain) / slug(name) / str(self.seed)

    @property
    def cells(self):
        """Return the folder of the cells' files."""
        return CELLS / slug(self.domain) / ("choices" if self.choices else "")


def robot_tasks(folder, docs):
    """Create the archive of the composed robot tasks, unless it exists."""
    path = folder / f"robot-tasks-{docs}"
    if not (path / "archive.json").exists():
        archive = Archive.create(path)
        ingest(archive, "composed", "robot", docs=docs)
        groups = [(group.task, attempt) for group in archive.groups() for attempt in group.attempts]
        archive.append(verdicts=verify(groups))
    return path


def mbpp(folder):
    """Import MBPP and judge its references, unless that is done."""
    path = folder / "mbpp-tasks"
    if not (path / "archive.json").exists():
        archive = Archive.create(path)
        ingest(archive, "mbpp", str(Path(os.environ["UPSOLVE_DATA"]) / "mbpp" / "mbpp.jsonl"), references=1)
        archive.append(verdicts=verify([(group.task, a) for group in archive.groups() for a in group.attempts]))
    return path


SAMPLES = {"mbpp": 8}
"""Samples of the model for a training task, where they are not four."""


def sampling_recipe(work):
    """Return a recipe by which training tasks are sampled."""
    return work.recipe("sft", f"sample.samples={SAMPLES.get(work.domain, 4)}", "sample.temperature=1.0")


def own_samples(work, start):
    """Return an archive of ``SAMPLES`` judged samples of a model for each of 640 training tasks, at temperature 1; created once.

    After ``sft half`` these are tasks of the other half.
    """
    path = work.at(start or "base") / "own"
    if (path / "tokens").exists():
        return path
    recipe = sampling_recipe(work)
    split = split_archive(open_archive(recipe.data.archive), recipe.data)
    tasks = [task for task in split.tasks["train"] if not (start and in_half(work.domain, task))]
    tasks = random.Random(work.seed).sample(tasks, min(640, len(tasks)))
    model = recipe.model.at(str(trained(work, start).folder)) if start else recipe.model
    evaluation, attempts, verdicts = evaluate_model(
        tasks, model=model, sample=recipe.sample, verify=recipe.verify, keep=path.with_suffix(".jsonl")
    )
    if not path.exists():
        copy_archive(open_archive(recipe.data.archive), path)
    Archive(path).append(attempts=[replace(attempt, author="own") for attempt in attempts], verdicts=verdicts)
    (path / "tokens").write_text(str(tokens_of(evaluation)))
    return path


def hinted_samples(work, start, hint):
    """Return an archive like that of ``own_samples``, with as many judged samples again, with a hint, for each task that none of them passed;
    created once."""
    path = work.at(start) / "hinted"
    if not (path / "tokens").exists():
        own = own_samples(work, start)
        if not path.exists():
            copy_archive(open_archive(own), path)
        recipe = sampling_recipe(work)
        archive, model = Archive(path), recipe.model.at(str(trained(work, start).folder))
        sample_hinted(archive, recipe.sample, model=model, hint=hint, author="own")
        pairs = [(group.task, attempt) for group in archive.groups() for attempt in group.attempts if "hint" in attempt.author]
        archive.append(verdicts=verify(pairs))
        sampled = sum(attempt.tokens * attempt.count for _, attempt in pairs)
        (path / "tokens").write_text(str(int((own / "tokens").read_text()) + sampled))
    return path


def half_and_own_samples(work, start):
    """Return an archive like that of ``own_samples`` without the other attempts at its tasks; created once."""
    path = work.at(start) / "half-and-own"
    if not (path / "made").exists():
        archive = open_archive(own_samples(work, start))
        train_tasks = split_archive(archive, work.recipe("sft").data).tasks["train"]
        sampled = {task.task_id for task in train_tasks if not in_half(work.domain, task)}
        kept = [
            (attempt, verdict)
            for group in archive.groups()
            for attempt, verdict in zip(group.attempts, group.verdicts, strict=True)
            if attempt.author == "own" or group.task.task_id not in sampled
        ]
        attempts, verdicts = zip(*kept, strict=True)
        Archive.create(path).append(tasks=archive.tasks(), attempts=attempts, verdicts=filter(None, verdicts))
        (path / "made").touch()
    return path


def in_half(domain, task):
    """Return whether a training task is one of ``sft half``."""
    if domain not in HALF:
        return False
    row = "SELECT ? AS task_id, ? AS task_extra"
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        return bool(connection.execute(f"SELECT {HALF[domain]} FROM ({row})", (task.task_id, task.extra)).fetchone()[0])


def samples_of(work, method):
    """Return the archive of the samples that a method trains on."""
    return hinted_samples(work, method.start, method.hint) if method.hint else own_samples(work, method.start)


def tokens_of(evaluation):
    """Return the number of tokens of an evaluation's samples."""
    return round(sum(score.mean_tokens * score.samples for score in evaluation.scores))


def settings_of(work, name):
    """Return the settings of a method on a seed: start model, samples, number of steps."""
    method = METHODS[name]
    settings = [f"optim.lr={RATES[work.domain][method.rate]}"]
    if method.continues:  # a sign of collapse ends the run with the last weights
        settings += ["monitor.max_negative_gap=1", "monitor.eval_every=5"]
    elif method.recipe not in IMITATION:
        settings += ["monitor.keep=best", "monitor.eval_every=10"]  # a collapse ends the run with earlier weights
    if name.startswith("sft half"):
        settings.append(f"select.groups={HALF[work.domain]}")
    if method.unseen:
        settings.append(f"select.groups=NOT ({HALF[work.domain]})")
    if method.continues:
        settings.append(f"model.name={trained(work, method.continues).folder}")
    if work.domain == "mbpp" and not method.own:
        settings.append("data.group_size=1")  # a task has one reference
    if method.anew:
        settings.append(f"data.archive={half_and_own_samples(work, method.start)}")
    elif method.own:
        authors = f"[own, 'own, hint {method.hint:g}']" if method.hint else "[own]"
        settings += [f"data.archive={samples_of(work, method)}", f"data.authors={authors}"]
        steps = work.recipe(method.recipe).optim.max_steps
        settings += [f"optim.max_steps={steps // 2}", "data.groups_per_task=1"] if method.start and work.domain in HALF else []
    if method.recipe == "grpo":
        settings += [
            "source.rounds=32",
            "source.groups=8",
            "source.oversample=1",
            "data.group_size=8",
            "optim.tokens_per_batch=1024",
        ]
    return [*settings, *method.settings]


def trained(work, name):
    """Train a method, or load the finished run."""
    recipe = work.recipe(METHODS[name].recipe, *settings_of(work, name))
    split = split_archive(open_archive(recipe.data.archive), recipe.data, untried=recipe.source.rounds > 0)
    return train(recipe, split.groups["train"], split.groups["dev"], work.at(name) / "training")


def measured(work, file, model):
    """Measure a model at several temperatures, or load the result of an earlier call."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        recipe = work.recipe("sft")
        split = split_archive(open_archive(recipe.data.archive), recipe.data)
        tasks = held_out(split, work.domain, recipe.evaluate)
        stages = {"sample": recipe.sample, "verify": recipe.verify, "evaluate": recipe.evaluate}
        name = file.name.removesuffix(".json.gz")
        keep = work.folder / slug(work.domain) / f"{name}.samples.jsonl"
        whole = keep.with_suffix(".sweep.json")
        save_sweep(sweep_model(tasks, model=recipe.model.at(str(model)), name=name, keep=keep, **stages), whole)
        file.write_bytes(gzip.compress(whole.read_bytes(), mtime=0))
    return load_cell(file)


def load_cell(file):
    """Return the sweep of a cell's file."""
    with TemporaryDirectory() as folder:
        whole = Path(folder) / "sweep.json"
        whole.write_bytes(gzip.decompress(file.read_bytes()))
        return load_sweep(whole)


def cells_in(folder):
    """Return kind -> seed -> sweep of the finished cells of a folder, whose files are named KIND-SEED.json.gz."""
    found = {}
    for file in sorted(folder.glob("*.json.gz")):
        kind, _, seed = file.name.removesuffix(".json.gz").rpartition("-")
        found.setdefault(kind, {})[int(seed)] = load_cell(file)
    return found


def cell(work, name):
    """Run one cell and write its results."""
    path = work.cells
    base = measured(work, path / f"base-{work.seed}.json.gz", work.recipe("sft").model.name)
    done = trained(work, name)
    sweep = measured(work, path / f"{slug(name)}-{work.seed}.json.gz", done.folder)
    trained_tokens, sampled_tokens = spent(work, name)
    cost = {"trained_tokens": trained_tokens, "sampled_tokens": sampled_tokens, "steps": len(steps_of(done))}
    cost["formula"] = done.formula
    (path / f"{slug(name)}-{work.seed}.cost.json").write_text(
        json.dumps({"method": name, **cost, "machine": machine()}, indent=1) + "\n"
    )
    change = capability(base, sweep)
    print(f"{work.domain} {name} {work.seed}: {change.sentence}", flush=True)


def steps_of(run):
    """Return the metrics of a run's optimizer steps."""
    return [row for row in run.metrics if "loss" in row]


def spent(work, name):
    """Return the tokens that a method's model was trained on, prompts included, and those that were sampled for it, since the base model."""
    method, metrics = METHODS[name], trained(work, name).metrics
    trained_tokens = sum(row["tokens_per_second"] * row["seconds"] for row in metrics if "loss" in row)
    sampled_tokens = sum(row.get("sampled_tokens", 0) for row in metrics)
    if method.own:
        sampled_tokens += int((samples_of(work, method) / "tokens").read_text())
    before = spent(work, method.start) if method.start else (0, 0)
    return round(trained_tokens) + before[0], round(sampled_tokens) + before[1]


def measure_rates(work, name="sft"):
    """Measure tokens per second of training and of sampling, with the domain's settings, and write them."""
    load, settings = os.getloadavg()[0], ("optim.max_steps=16", "monitor.heldout=0")
    recipe = work.recipe(name, *settings_of(work, name), *settings)
    split = split_archive(open_archive(recipe.data.archive), recipe.data)
    with TemporaryDirectory() as folder:
        run = train(recipe, split.groups["train"], split.groups["dev"], Path(folder))
    sampler = recipe.sample.model_copy(update={"samples": 2, "temperature": 1.0})
    evaluation = evaluate_model(split.tasks["train"][:64], model=recipe.model, sample=sampler, verify=recipe.verify)[0]
    rates = {
        "trained": round(statistics.median(row["tokens_per_second"] for row in steps_of(run)[4:])),
        "sampled": round(tokens_of(evaluation) / evaluation.wall_seconds),
        "load_before": round(load, 1),
        "machine": machine(),
    }
    file = CELLS / "rates.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(known | {work.domain: rates}, indent=1) + "\n")


def in_processes(options):
    """Run the requested cells in parallel, one process per domain and seed; return whether a process failed."""
    command, given = [sys.executable, __file__, options.work], ["--methods", *options.methods, "--set", *options.given]
    given += ["--choices"] if options.choices else []
    for domain in options.domain:
        Work(domain, 0, options.work.resolve()).archive()  # before several processes need it
    runs = [[*command, "--domain", domain, "--seeds", str(seed), *given] for domain in options.domain for seed in options.seeds]
    with ThreadPoolExecutor(options.processes) as pool:
        return any(done.returncode for done in [*pool.map(partial(subprocess.run, check=False), runs)])


def main():
    """Run the requested cells."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--domain", choices=[*DOMAINS], nargs="+", required=True)
    parser.add_argument("--methods", nargs="*", choices=[*METHODS], default=[*METHODS], metavar="METHOD")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--set", dest="given", nargs="*", default=[])
    parser.add_argument("--choices", action="store_true", help="also measure a choice among eight samples")
    parser.add_argument("--processes", type=int, default=1, help="domains and seeds at the same time")
    parser.add_argument("--rates", action="store_true", help="only measure how fast this machine trains and samples")
    options = parser.parse_args()
    if options.processes > 1 and not options.rates:
        sys.exit(in_processes(options))
    for domain in options.domain:
        if options.rates:
            measure_rates(Work(domain, 0, options.work.resolve(), tuple(options.given)))
            continue
        for seed in options.seeds:
            for name in options.methods:
                cell(Work(domain, seed, options.work.resolve(), tuple(options.given), options.choices), name)


if __name__ == "__main__":
    main()
