"""Do failed attempts teach at tasks that nobody solved? python benchmarks/unsolved.py WORK [--domain sql] [--solved 50] [--arms ...] [--seeds 0 1 2]

An archive of text-to-SQL tasks (or, with ``--domain python``, the embedded Python tasks, by 12 and 8 steps of 2,048 tokens) in which ``--solved`` tasks have passed attempts and all others have failed ones alone: near misses of near_misses.py (one wrong column, comparison,
condition, ...), or with ``--failures model`` the failed samples of another model, which was trained on other tasks. All arms train the base model by the demo's recipe for as many steps of as many tokens:

    solved              imitates the passed attempts of the solved tasks: all that a method without failures can use
    solved, one stage   the same, for as many steps as the second stage of the arms below
    failures first      imitates the failed attempts of the unsolved tasks for 60 steps, then the passed attempts of the solved tasks for 40
    failures alone      its first stage
    foreign first       control: as `failures first`, but each failed attempt stands behind the prompt of another unsolved task
    all solved          imitates a passed attempt of as many tasks as there are of both kinds: what the failed attempts would be worth if they had passed
    own samples         rival: imitates the passed attempts of the solved tasks for 40 steps, samples the unsolved tasks as often as these have failed attempts, and imitates what passed,
                        beside the passed attempts of the solved tasks, for 60 steps
    failures, then own  `failures first`, then the second stage of `own samples`: 160 steps
    own samples twice   `own samples`, then its second stage anew with samples of the model that it trained: 160 steps and twice as many samples

A cell is one arm and seed: results/unsolved/*.json.gz, which are not repeated; failures_page.py writes their table. A cell takes 15 minutes on one core of an EPYC.
"""

import argparse
import gzip
import random
from dataclasses import dataclass, replace
from pathlib import Path

import near_misses
from failures import ARTIFICIAL
from leaderboard import slug
from leaderboard_page import scores
from rounding import percent

from upsolve.archive.split import split_archive
from upsolve.archive.store import Archive, open_archive
from upsolve.config import load_recipe
from upsolve.evaluate.benchmarks import held_out, sweep_model
from upsolve.evaluate.intervals import mean_interval
from upsolve.evaluate.runs import save_sweep
from upsolve.train.loop import train
from upsolve.types import Status

RESULTS = Path(__file__).parent / "results" / "unsolved"


@dataclass(frozen=True)
class Domain:
    """Where tasks come from, and how they are trained and measured."""

    archive: str
    recipe: str
    right: str
    """Author of the passed attempts that are imitated."""
    settings: tuple[str, ...] = ()
    measure: tuple[str, ...] = ("evaluate.tasks=300", "evaluate.dev_tasks=60")
    steps: tuple[int, int] = (60, 40)
    """Optimizer steps of the two stages."""
    tasks: int = 1650
    """Tasks of the archive, before it is split; 0: all."""
    solved: int = 50


DOMAINS = {
    "sql": Domain("embedded-sql", "demo", "right:plain"),
    "python": Domain(
        "embedded",
        "sft",
        "upsolve",
        (
            *("data.train=0.5", "data.dev=0.1", "data.split_seed=1", "sample.max_tokens=160", "optim.lr=5e-5"),
            *("optim.tokens_per_step=2048", "optim.tokens_per_batch=2048", "optim.moments=bfloat16", "model.name=smollm2-135m"),
        ),
        ("evaluate.tasks=0", "evaluate.dev_tasks=0"),
        (12, 8),
        0,
        20,
    ),
}
BUDGET = ("optim.epochs=40", "monitor.heldout=0", "monitor.save_every=25", "data.groups_per_task=1", "reward.verdicts=ignored")
MEASURE = (*("evaluate.dev_samples=1", "evaluate.temperatures=[0, 0.6]", "evaluate.likelihood_tasks=0", "sample.samples=1"),)
ARMS = {
    "solved": (("solved", (0, 1)),),
    "solved, one stage": (("solved", (1,)),),
    "failures alone": (("unsolved", (0,)),),
    "failures first": (("unsolved", (0,)), ("solved", (1,))),
    "foreign first": (("foreign", (0,)), ("solved", (1,))),
    "all solved": (("all", (0, 1)),),
    "own samples": (("solved", (1,)), ("own", (0,))),
    "failures, then own": (("unsolved", (0,)), ("solved", (1,)), ("own", (0,))),
    "own samples twice": (("solved", (1,)), ("own", (0,)), ("own", (0,))),
}
"""Arm -> its trainings: the part of the archive that is imitated, and whose steps (--steps) it takes."""


def recipe_of(options, *settings):
    """Return the recipe of the domain with some settings."""
    domain = DOMAINS[options.domain]
    return load_recipe(domain.recipe, [*domain.settings, *settings, *options.given])


def part(base, path, kind, options, seed, start):
    """Write the part of an archive that a stage imitates, which are all of its attempts; ``start``: the model that draws those of `own`."""
    if (path / "made").exists():
        return
    split = split_archive(base, recipe_of(options).data)
    chance = random.Random(f"unsolved/{seed}")
    groups = sorted(split.groups["train"], key=lambda group: group.task.task_id)
    chance.shuffle(groups)
    solved, unsolved = groups[: options.solved], groups[options.solved :]
    chosen = {"solved": solved, "all": groups}.get(kind, unsolved)
    kept = []
    if kind == "own":
        chosen = [*solved, *drawn([group.task for group in unsolved], path.with_name("drawn"), options, seed, start)]
    for index, group in enumerate(chosen):
        pairs = [(a, v) for a, v in zip(group.attempts, group.verdicts, strict=True) if v]
        if kind in ("solved", "all", "own"):
            author = DOMAINS[options.domain].right if kind != "own" or index < len(solved) else "own"
            kept.append([(a, v) for a, v in pairs if v.status is Status.PASSED and a.author == author][:1])
        else:
            failed = [(a, v) for a, v in pairs if v.status is not Status.PASSED and wanted(a.author, options)]
            kept.append(failed[: options.each])
    if kind in ("unsolved", "foreign"):  # a model fails at some tasks only
        chosen, kept = zip(
            *((group, of) for group, of in zip(chosen, kept, strict=True) if len(of) == options.each), strict=True
        )
    tasks, kept = [group.task for group in chosen], [*kept]
    if kind == "foreign":  # the attempts of the next task, in a random order
        kept = [
            [(replace(a, task_id=task.task_id), v) for a, v in pairs]
            for task, pairs in zip(tasks, kept[1:] + kept[:1], strict=True)
        ]
        kept = [[(a, replace(v, attempt_id=a.attempt_id)) for a, v in pairs] for pairs in kept]
    pairs = [pair for of in kept for pair in of]
    Archive.create(path).append(tasks=tasks, attempts=[a for a, _ in pairs], verdicts=[v for _, v in pairs])
    (path / "made").touch()


def drawn(tasks, path, options, seed, start):
    """Return the groups of a model's own judged samples at some tasks; an interrupted call goes on."""
    if not (path / "archive.json").exists():
        Archive.create(path).append(tasks=tasks)
    archive = Archive(path)
    if not (path / "judged").exists():
        near_misses.add_samples(archive, "own", start, argparse.Namespace(each=options.each, seed=seed, sampled=0))
        (path / "judged").touch()
    return [*archive.groups()]


def wanted(author, options):
    """Return whether failed attempts of an author are those of the experiment."""
    if options.failures == "model":
        return author == "model"
    return author.startswith("mutation:") and author.partition(":")[2] not in ARTIFICIAL


def archive_of(options):
    """Return the archive with all failures, made once."""
    domain, path = DOMAINS[options.domain], options.work / f"near-misses-{options.domain}"
    if not (path / "near_misses.json").exists():
        near_misses.main([domain.archive, str(path), "--tasks", str(options.tasks or domain.tasks)])
    if options.failures == "model" and not (path / "sampled").exists():
        model = str(author_model(open_archive(path), options))
        near_misses.main(
            ["embedded-sql", str(path), "--each", "3", "--models", f"model={model}", "--sampled", str(options.sampled)]
        )
        (path / "sampled").touch()
    return open_archive(path)


def author_model(base, options):
    """Train the other author on passed attempts at tasks that the archive of the experiment lacks; return its folder."""
    known, path = {task.task_id for task in base.tasks()}, options.work / "unsolved" / "author"
    recipe = recipe_of(options, f"optim.max_steps={sum(options.steps)}", "monitor.heldout=0", "seed=100")
    groups = split_archive(open_archive(DOMAINS[options.domain].archive), recipe.data).groups["train"]
    return train(recipe, [group for group in groups if group.task.task_id not in known], (), path / "training").folder


def trained(arm, seed, options):
    """Train the stages of an arm one after the other, or load the finished runs; stages that arms share are trained once."""
    base = archive_of(options)
    path = options.work / "unsolved" / options.domain / options.failures / f"{options.solved}" / str(seed)
    start, done = "", None
    for kind, of in ARMS[arm]:
        archive, steps = path / f"archive-{kind}", sum(options.steps[index] for index in of)
        part(base, archive, kind, options, seed, start)
        path = path / f"{kind}-{steps}"
        settings = [f"data.archive={archive}", f"optim.max_steps={steps}", f"seed={seed}", *BUDGET]
        settings += ["select.attempts=''", f"data.group_size={options.each if kind in ('unsolved', 'foreign') else 1}"]
        settings += [f"model.name={start}"] if start else []
        recipe = recipe_of(options, *settings)
        split = split_archive(open_archive(archive), recipe.data)
        done = train(recipe, [*split.groups["train"], *split.groups["dev"]], (), path / "training")
        start = str(done.folder)
        path = path if len(ARMS[arm]) == 1 else path.parent / f"after-{kind}-{steps}"
    return done


def file_of(arm, seed, options):
    """Return the file of a cell's sweep."""
    folder = options.results if options.domain == "sql" else options.results / options.domain
    return folder / f"{options.failures}-{options.solved}-{slug(arm)}-{seed}.json.gz"


def run(arm, seed, options):
    """Train and measure a cell, unless that is done."""
    file = file_of(arm, seed, options)
    if file.exists():
        return
    done = trained(arm, seed, options)
    recipe = recipe_of(options, *MEASURE, *DOMAINS[options.domain].measure, f"seed={seed}")
    domain = DOMAINS[options.domain]
    whole = open_archive(domain.archive) if domain.tasks else archive_of(options)  # of a part, most test tasks are left out
    split = split_archive(whole, recipe.data)
    stages = {"sample": recipe.sample, "verify": recipe.verify, "evaluate": recipe.evaluate}
    keep = options.work / f"{file.name.removesuffix('.json.gz')}.samples.jsonl"
    sweep = sweep_model(
        held_out(split, options.domain, recipe.evaluate), model=recipe.model.at(str(done.folder)), name=arm, keep=keep, **stages
    )
    whole = keep.with_suffix(".sweep.json")
    save_sweep(sweep, whole)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(gzip.compress(whole.read_bytes(), mtime=0))
    print(f"{arm} {seed}: pass@1 {percent(mean_interval([*scores([sweep], 'best').values()]))}", flush=True)


def main(arguments=None):
    """Run the requested cells, or write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--arms", nargs="*", choices=[*ARMS], default=[*ARMS], metavar="ARM")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--domain", choices=[*DOMAINS], default="sql")
    parser.add_argument("--solved", type=int, default=0, help="training tasks with passed attempts; 0: 50, Python 20")
    parser.add_argument("--tasks", type=int, default=0, help="tasks of the archive, before it is split; 0: 1,650, Python all")
    parser.add_argument("--each", type=int, default=2, help="failed attempts a task")
    parser.add_argument(
        "--steps", type=int, nargs=2, default=[], help="optimizer steps of the two stages; default: 60 40, Python 12 8"
    )
    parser.add_argument("--sampled", type=int, default=600, help="tasks that the other model samples")
    parser.add_argument("--failures", choices=("mutations", "model"), default="mutations")
    parser.add_argument("--set", dest="given", nargs="*", default=[])
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    options.work, domain = options.work.resolve(), DOMAINS[options.domain]
    options.solved, options.steps = options.solved or domain.solved, options.steps or domain.steps
    if options.failures == "model" and not domain.tasks:
        parser.error("--failures model: the other model is trained on tasks that the archive lacks, and it has all of them")
    for seed in options.seeds:
        for arm in options.arms:
            run(arm, seed, options)


if __name__ == "__main__":
    main()
