"""What is a failed attempt worth? Arms on groups with near misses: python benchmarks/failures.py WORK --domain sql [--start 'sft half'] [--arms rloo ...] [--seeds 0 1 2]

An arm trains 40 steps of 2,048 tokens from the model of a leaderboard cell (``sft half``, ``sft``; Python: ``rft, own samples``) on stored groups of G attempts: what passed, and
failures of near_misses.py (WORK/near-misses-DOMAIN, made at the first call); failures that are prose, Python or broken clauses are left out. The learning rate is the one of three with
the highest pass@1 of greedy decoding on dev tasks (seed 0). A cell measures pass@1 at the best temperature, pass@8, and pass@1 after choice on test tasks. Controls: ``ARM, shuffled``
has verdicts shuffled within each group; ``imitation`` imitates the passed attempts of the same groups for as many steps and tokens, ``imitation, one pass`` reads each group once.
``start`` is the model that all start from. ``conditioned, guided`` is the model of ``conditioned`` with `sample.guidance` 1.

Figures: ``--stored 150 500 1500`` trains on as many tasks, ``--wrong 0.05 0.1`` on labels of which a share is wrong (three noisy judges; the first is believed), and ``--weighted``
weighs attempts by `label_right` of the three.

A cell is one arm, G, seed and size: results/failures/DOMAIN/*.json.gz. Finished cells are not repeated: interrupt any time, and run cells on several machines, one command each, with a
WORK folder each (the start of a seed is trained once a folder). ``--dry`` prints the commands of missing cells. ``--table`` writes results/failures.json, docs/failures.svg and the table.

Plan, by priority; minutes on two idle cores of a Xeon with AMX (496 trained and 393 sampled tokens a second on SQL; EPYC: twice): a cell trains for 3 and measures for 9, a rate takes 4
on 100 dev tasks, the start of a seed 11 once.

    1  --domain sql --start 'sft half': imitation, topr, conditioned, divergence, unlikelihood, rloo, dpo_focal; G 4; seeds 0 1 2      7 x (3 x 12 + 12) = 336
    2  their controls: --arms 'topr, shuffled' 'conditioned, shuffled' 'divergence, shuffled' 'imitation, one pass'; seeds 0 1 2        4 x (3 x 12 + 12) = 192
    3  group_norm, exp_advantage, nft, kto, dpo, repair, 'conditioned, guided'                                                      7 x (3 x 12 + 12) = 336
    4  the best three with --groups 8, and with --start sft                                                                        6 x (3 x 12 + 12) = 288
    5  --stored 150 500 1500 for imitation and the best arm; --wrong 0.05 0.1 0.2 0.4, also --weighted                            (6 + 8) x 36 = 504
    6  --domain python, as 1 and 2, from 'rft, own samples'                                                                                       400
"""

import argparse
import gzip
import json
import random
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

import matplotlib.pyplot as plt
import near_misses
from leaderboard import CELLS, DOMAINS, HALF, SHUFFLED, Work, cells_in, load_cell, slug, steps_of, trained
from leaderboard_page import bands, in_bands, scores
from machine import machine
from rounding import percent

from upsolve.archive.split import split_archive
from upsolve.archive.store import Archive, open_archive
from upsolve.derive.deriving import DeriveSettings, derive
from upsolve.evaluate.benchmarks import evaluate_model, held_out, sweep_model
from upsolve.evaluate.intervals import mean_interval, over_seeds, paired_difference
from upsolve.evaluate.runs import save_sweep
from upsolve.evaluate.scores import task_pass_at_k
from upsolve.train.loop import train
from upsolve.types import Status

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "failures"
ARTIFICIAL = ("prose", "python", "broken_clause", "unknown_column", "unknown_table", "unquoted")
"""Mutations of embedded-sql that no trained policy writes."""
BUDGET = (
    "optim.max_steps=40",
    "optim.epochs=40",
    "optim.tokens_per_step=2048",
    "monitor.max_negative_gap=1",
    "monitor.eval_every=5",
)
MEASURE = ("evaluate.many_samples=8", "evaluate.dev_samples=1", "evaluate.likelihood_tasks=0", "sample.samples=2")
RATES = {"push": (2e-6, 1e-5, 5e-5), "imitate": (3e-5, 1e-4, 3e-4)}
"""Learning rates from which one is chosen on dev tasks."""
STARTS = {"sql": "sft half", "robot": "sft half", "python": "rft, own samples", "mbpp": "rft, own samples"}


@dataclass(frozen=True)
class Arm:
    """A way to learn from stored groups."""

    recipe: str
    settings: tuple[str, ...] = ()
    rate: str = "push"
    measure: tuple[str, ...] = ()
    """Settings of the evaluation alone."""
    of: str = ""
    """Arm whose model is measured instead of training one; '': its own."""


ARMS = {
    "imitation": Arm("sft", rate="imitate"),
    "imitation, one pass": Arm("sft", ("optim.epochs=1",), rate="imitate"),
    "rloo": Arm("rloo"),
    "group_norm": Arm("group_norm"),
    "exp_advantage": Arm("exp_advantage", rate="imitate"),
    "topr": Arm("topr"),
    "nft": Arm("maxrl", ("objective.kind=nft",)),
    "kto": Arm("kto"),
    "dpo": Arm("dpo"),
    "dpo_focal": Arm("dpo_focal"),
    "conditioned": Arm("conditioned", rate="imitate"),
    "conditioned, guided": Arm("conditioned", rate="imitate", measure=("sample.guidance=1",), of="conditioned"),
    "divergence": Arm("divergence"),
    "unlikelihood": Arm("unlikelihood"),
    "repair": Arm("sft", rate="imitate"),
}
"""Without ``start``, which measures the model that all start from."""
ARMS |= {
    f"{name}, shuffled": replace(arm, settings=(*arm.settings, *SHUFFLED))
    for name, arm in ARMS.items()
    if name != "repair" and not arm.of
}


@dataclass(frozen=True)
class Cell:
    """One arm of one size and seed."""

    arm: str
    group: int = 4
    seed: int = 0
    stored: int = 0
    """Number of stored tasks; 0: all."""
    wrong: float = 0.0
    """Share of wrong labels."""
    weighted: bool = False

    @property
    def kind(self):
        """Return the name of the cell without its seed."""
        if self.arm == "start":
            return "start"
        parts = [slug(self.arm), f"g{self.group}", *([f"n{self.stored}"] if self.stored else [])]
        return "-".join([*parts, *([f"w{self.wrong:g}"] if self.wrong else []), *(["weighted"] if self.weighted else [])])

    def command(self, options):
        """Return the command line of this cell."""
        given = [
            "--domain",
            options.domain,
            "--start",
            options.start,
            "--arms",
            self.arm,
            "--groups",
            str(self.group),
            "--seeds",
            str(self.seed),
        ]
        given += [
            *(["--stored", str(self.stored)] if self.stored else []),
            *(["--wrong", f"{self.wrong:g}"] if self.wrong else []),
        ]
        return shlex.join(
            ["python", "benchmarks/failures.py", str(options.work), *given, *(["--weighted"] if self.weighted else [])]
        )


def archive_of(work, cell, options):
    """Return the archive that a cell trains on, made once."""
    base = work.folder / f"near-misses-{slug(work.domain)}"
    if not (base / "near_misses.json").exists():
        near_misses.main(
            [
                options.archive or work.recipe("sft").data.archive,
                str(base),
                *(["--tasks", str(options.tasks)] if options.tasks else []),
            ]
        )
    path = base
    if cell.arm == "repair" and not (path := work.folder / f"repairs-{slug(work.domain)}").exists():
        derive(open_archive(base), path, DeriveSettings("repair", seed=0))
    if cell.stored or cell.wrong:
        path = work.folder / f"part-{slug(work.domain)}-{cell.stored}-{cell.wrong:g}-{work.seed}"
        if not (path / "made").exists():
            part(open_archive(base), path, work, cell)
    return path


def part(archive, path, work, cell):
    """Write an archive with some of the training tasks, all others, and the verdicts of three judges that are wrong as often as the cell says."""
    chance, groups = random.Random(f"{work.seed}/{cell.stored}/{cell.wrong}"), [*archive.groups()]
    training = sorted(task.task_id for task in split_archive(archive, work.recipe("sft").data).tasks["train"])
    dropped = {*training} - {*chance.sample(training, min(cell.stored or len(training), len(training)))}
    kept = [group for group in groups if group.task.task_id not in dropped]
    pairs = [(a, v) for group in kept for a, v in zip(group.attempts, group.verdicts, strict=True) if v]
    verdicts = [v for _, v in pairs]
    for judge in "abc" if cell.wrong else "":
        for _, verdict in pairs:
            passes = (verdict.status is Status.PASSED) != (chance.random() < cell.wrong)
            status = Status.PASSED if passes else Status.FAILED
            verdicts.append(
                replace(verdict, status=status, passed=0, total=0, outcomes=(), judge=f"recorded:{judge}", findings=())
            )
    Archive.create(path).append(tasks=[group.task for group in kept], attempts=[a for a, _ in pairs], verdicts=verdicts)
    (path / "made").touch()


def settings_of(work, cell, options, rate):
    """Return the settings of a cell's training."""
    names = ", ".join(f"'mutation:{kind}'" for kind in ARTIFICIAL)
    start = options.model or trained(work, options.start).folder
    settings = [
        f"data.archive={archive_of(work, cell, options)}",
        f"data.group_size={cell.group}",
        f"optim.lr={rate}",
        f"model.name={start}",
    ]
    settings += [f"select.attempts=passed OR author NOT IN ({names})", *BUDGET, *ARMS[cell.arm].settings]
    if options.start == "sft half" and cell.arm != "repair" and work.domain in HALF:
        settings.append(f"select.groups=NOT ({HALF[work.domain]})")
    if cell.arm == "repair":
        settings.append("data.group_size=2")
    if cell.wrong:
        settings += ["data.judge=recorded:a", *(["select.weight=label_right"] if cell.weighted else [])]
    return [*settings, *options.given]


def run_of(work, cell, options, rate):
    """Train a cell, or load its finished run."""
    arm = ARMS[cell.arm]
    recipe = work.recipe(arm.recipe, *settings_of(work, cell, options, rate))
    split = split_archive(open_archive(recipe.data.archive), recipe.data, labels=recipe.select.reads_labels)
    folder = work.folder / "failures" / slug(work.domain) / slug(options.start) / cell.kind / f"{rate:g}" / str(work.seed)
    return train(recipe, split.groups["train"], split.groups["dev"], folder)


def measuring(work, cell, options):
    """Return the recipe by which a cell is measured: that of its prompt, and the settings of its arm."""
    arm = ARMS.get(cell.arm, Arm("sft"))
    prompt = work.recipe(arm.recipe).model.prompt.outcome
    named = [f"model.prompt.outcome={json.dumps(prompt)}"] if prompt else []
    archive = [f"data.archive={options.archive}"] if options.archive else []
    return work.recipe("sft", *MEASURE, *named, *arm.measure, *archive, *options.given)


def chosen_rate(work, cell, options):
    """Return the learning rate with the highest pass@1 of greedy decoding on dev tasks, of seed 0; measured once."""
    first = Work(work.domain, 0, work.folder, work.given)
    plain = replace(cell, arm=ARMS[cell.arm].of or cell.arm, seed=0, stored=0, wrong=0.0, weighted=False)
    file = options.results / slug(work.domain) / slug(options.start) / f"{plain.kind}.rates.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    recipe = measuring(first, plain, options)
    for rate in options.rates or RATES[ARMS[cell.arm].rate]:
        if str(rate) not in known:
            split = split_archive(open_archive(recipe.data.archive), recipe.data)
            tasks = split.tasks["dev"][: recipe.evaluate.dev_tasks or None]
            greedy = recipe.sample.model_copy(update={"temperature": 0.0, "samples": 1})
            model = recipe.model.at(str(run_of(first, plain, options, rate).folder))
            evaluation = evaluate_model(tasks, model=model, sample=greedy, verify=recipe.verify)[0]
            known[str(rate)] = sum(score.passed for score in evaluation.scores) / len(evaluation.scores)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(known, indent=1) + "\n")
    return float(max(known, key=known.__getitem__))


def file_of(cell, options):
    """Return the file of a cell's sweep."""
    return options.results / slug(options.domain) / slug(options.start) / f"{cell.kind}-{cell.seed}.json.gz"


def run(cell, options):
    """Train and measure a cell, unless that is done."""
    file, work = file_of(cell, options), Work(options.domain, cell.seed, options.work.resolve(), tuple(options.given))
    if file.exists():
        return
    if cell.arm == "start":
        rate, done = 0.0, trained(work, options.start)
    else:
        rate = options.rate or chosen_rate(work, cell, options)
        done = run_of(work, replace(cell, arm=ARMS[cell.arm].of or cell.arm), options, rate)
    recipe = measuring(work, cell, options)
    split = split_archive(open_archive(recipe.data.archive), recipe.data)
    stages = {"sample": recipe.sample, "verify": recipe.verify, "evaluate": recipe.evaluate}
    file.parent.mkdir(parents=True, exist_ok=True)
    keep = work.folder / f"{slug(options.start)}-{file.name.removesuffix('.json.gz')}.samples.jsonl"
    sweep = sweep_model(
        held_out(split, work.domain, recipe.evaluate),
        model=recipe.model.at(str(done.folder)),
        name=cell.kind,
        keep=keep,
        **stages,
    )
    whole = keep.with_suffix(".sweep.json")
    save_sweep(sweep, whole)
    tokens = round(sum(row["tokens_per_second"] * row["seconds"] for row in steps_of(done)))
    row = {
        "arm": cell.arm,
        "rate": rate,
        "steps": done.steps,
        "trained_tokens": tokens,
        "formula": done.formula,
        "collapsed": done.collapsed,
    }
    file.with_name(file.name.replace(".json.gz", ".cost.json")).write_text(
        json.dumps(row | {"machine": machine()}, indent=1) + "\n"
    )
    file.write_bytes(gzip.compress(whole.read_bytes(), mtime=0))
    print(
        f"{options.domain} {cell.kind} {cell.seed}: rate {rate:g}, pass@1 {percent(mean_interval([*scores([sweep], 'best').values()]))}",
        flush=True,
    )


def cells_and_starts(folder):
    """Return kind -> seed -> sweep of the finished cells of a domain and start, and seed -> sweep of the start: its cells here (``start-SEED``), or the leaderboard's."""
    cells = cells_in(folder)
    leaderboard = (CELLS / folder.parent.name).glob(f"{folder.name}-[0-9].json.gz")
    starts = cells.pop("start", {}) or {int(one.name[-9]): load_cell(one) for one in sorted(leaderboard)}
    return cells, starts


def rows_of(cells, start):
    """Return a row a kind of cell: pass@1, pass@8, pass@1 after choice, and differences to the start and to imitation, by difficulty."""
    rows, (_, band_of) = [], bands({"sft half": start, "base": start})
    for kind, runs in cells.items():
        sweeps = [*runs.values()]
        row = {"cell": kind, "seeds": sorted(runs), "pass@1": percent(mean_interval([*scores(sweeps, "best").values()]))}
        many = over_seeds([task_pass_at_k(run.many.scores, 8) for run in sweeps])
        row |= {"pass@8": percent(mean_interval([*many.values()]))} if many else {}
        row |= (
            {"chosen": percent(mean_interval([*scores(sweeps, "chosen").values()]))}
            if all(run.choices for run in sweeps)
            else {}
        )
        size = kind[kind.rindex("-g") + 2 :]
        for label, others in (("start", start), ("imitation", cells.get(f"imitation-g{size}", {}))):
            if common := sorted(others.keys() & runs.keys()):
                before, after = (scores([of[seed] for seed in common], "best") for of in (others, runs))
                row[f"over {label}"] = percent(paired_difference(before, after).difference)
                row[f"over {label}, by difficulty"] = in_bands(others, runs, band_of) if band_of else {}
        rows.append(row)
    return rows


def draw(rows, file):
    """Draw pass@1 against the number of stored tasks, and against the share of wrong labels, one line an arm."""
    plt.rcParams["svg.hashsalt"] = "upsolve"
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for axis, mark, label in zip(axes, ("n", "w"), ("stored tasks", "wrong labels, share"), strict=True):
        lines = {}
        for row in rows:
            parts = row["cell"].split("-")
            if sizes := [part for part in parts if part[0] == mark and part[1:].replace(".", "").isdigit()]:
                lines.setdefault("-".join(part for part in parts if part != sizes[0]), []).append(
                    (float(sizes[0][1:]), row["pass@1"])
                )
        for name, points in sorted(lines.items()):
            x, y = zip(*sorted(points), strict=True)
            axis.errorbar(
                x, [v[0] for v in y], [[v[0] - v[1] for v in y], [v[2] - v[0] for v in y]], fmt="o-", ms=3, label=name
            )
        axis.set(xlabel=label, ylabel="pass@1, %")
        if lines:
            axis.legend(frameon=False, fontsize=8)
    figure.savefig(file, metadata={"Date": None})


def table(options):
    """Write all finished cells to results/failures.json, the figures, and print a row each."""
    tables = {}
    for folder in sorted(path for path in options.results.glob("*/*") if path.is_dir()):
        domain, start = folder.parent.name, folder.name
        tables[f"{domain}, from {start}"] = rows_of(*cells_and_starts(folder))
    options.out.write_text(json.dumps(tables, indent=1) + "\n")
    for name, rows in tables.items():
        print(f"\n{name}\n\n|cell|seeds|pass@1|pass@8|chosen|over start|over imitation|\n|---|---|---|---|---|---|---|")
        for row in rows:
            shown = [
                "{:.1f} [{:.1f},{:.1f}]".format(*row[key]) if key in row else ""
                for key in ("pass@1", "pass@8", "chosen", "over start", "over imitation")
            ]
            print(f"|{row['cell']}|{len(row['seeds'])}|{'|'.join(shown)}|")
        draw(rows, options.out.with_name(f"failures_{slug(name)}.svg"))


def main(arguments=None):
    """Run the requested cells, or write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--domain", choices=[*DOMAINS], default="sql")
    parser.add_argument("--start", default="", help="leaderboard method whose model is the start")
    parser.add_argument("--model", default="", help="folder of the start, instead of a leaderboard method's")
    parser.add_argument("--archive", default="", help="folder of an archive, instead of the domain's")
    parser.add_argument("--arms", nargs="*", choices=["start", *ARMS], default=["start", *ARMS], metavar="ARM")
    parser.add_argument("--groups", type=int, nargs="*", default=[4])
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--stored", type=int, nargs="*", default=[0])
    parser.add_argument("--wrong", type=float, nargs="*", default=[0.0])
    parser.add_argument("--weighted", action="store_true")
    parser.add_argument("--rate", type=float, default=0.0, help="learning rate, instead of the one chosen on dev tasks")
    parser.add_argument("--rates", type=float, nargs="*", default=[], help="learning rates to choose from")
    parser.add_argument("--tasks", type=int, default=0, help="tasks with near misses; 0: all")
    parser.add_argument("--set", dest="given", nargs="*", default=[])
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--out", type=Path, default=RESULTS.with_suffix(".json"))
    parser.add_argument("--dry", action="store_true", help="print the commands of missing cells")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args(arguments)
    options.start = options.start or STARTS.get(options.domain, "sft")
    if options.table:
        table(options)
        return
    sizes = [(group, stored, wrong) for group in options.groups for stored in options.stored for wrong in options.wrong]
    for arm in options.arms:
        for group, stored, wrong in sizes:
            for seed in options.seeds:
                cell = Cell(arm, group, seed, stored, wrong, options.weighted)
                if options.dry and not file_of(cell, options).exists():
                    print(cell.command(options))
                elif not options.dry:
                    run(cell, options)


if __name__ == "__main__":
    main()
