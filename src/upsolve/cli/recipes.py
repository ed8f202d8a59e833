"""Commands about recipes: init, recipes, explain, plan and memory; loading a recipe with the options that commands share."""

import math
import re
from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any

import typer

from upsolve.cli.app import (
    ArchiveName,
    ArchivePath,
    AsJson,
    ModelName,
    RecipeFile,
    Seed,
    Settings,
    answer,
    app,
    bars,
    completed,
    keys,
    next_step,
    print_json,
    recipe_names,
    show,
)
from upsolve.errors import ConfigError, counted

if TYPE_CHECKING:
    from upsolve.archive.store import Archive
    from upsolve.config import Recipe
    from upsolve.evaluate.intervals import Estimate
    from upsolve.plan.findings import Plan, Share

__all__ = ["ELSEWHERE", "explain", "init", "load", "load_evaluated", "memory", "open_trained_on", "plan", "recipes"]

GROUPS: dict[str, tuple[str, ...]] = {
    "Start here": ("demo", "auto", "sft", "rloo"),
    "Imitation": ("rft", "dft", "strangers", "conditioned", "unsolved"),
    "Stored groups": (
        *("group_norm", "exp_advantage", "topr", "asymre", "oapl", "awr", "maxrl", "unlikelihood", "divergence"),
        *("pkpo", "passk", "rspo"),
    ),
    "Preferences": ("dpo", "dpo_focal", "kto", "rank"),
    "Online": (
        *("grpo", "dr_grpo", "gspo", "cispo", "rloo_online", "nft", "unlikeliness", "gfpo", "ppo", "ppo_dense"),
        *("rlvr_tests", "rlvr_lint", "rlvr_both", "hybrid", "replay"),
    ),
    "Controls": ("ssd", "placebo", "inverted", "format_only"),
    "Archives of the package": ("demo_python", "sql_sft", "sql_rloo", "robot", "robot_sft"),
    "Published experiments (docs/papers.md)": (),
}
"""Heading -> recipes, in the order in which they are listed; the last heading has all other recipes, those in folders."""
CITATION = re.compile(r" \([^()]*\d{4}\.\d{5}[^()]*\)")
ELSEWHERE = ("--set", "evaluate.archives=[NAME]")
"""Option by which ``eval`` measures on another archive or benchmark; the reader replaces NAME."""
LISTED = 120
"""Width of the list of recipes, characters."""


@app.command()
def recipes(
    name: Annotated[
        str,
        typer.Argument(help="Recipe to print, with its comments and inherited keys.", autocompletion=completed(recipe_names)),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List the recipes that come with upsolve, or print one."""
    from upsolve.config.recipe import recipe_text

    if name:
        text = recipe_text(name)
        answer({"name": name, "text": text}, text, as_json=as_json)
        return
    found, lines = grouped(), list[str]()
    for heading, comments in found.items():
        width = max(map(len, comments))
        lines += ["", heading]
        lines += [f"  {recipe:<{width}}  {in_short(text, LISTED - width - 4)}" for recipe, text in comments.items()]
    lines += ["", "`upsolve recipes NAME` prints one, `upsolve init ARCHIVE` writes one for your archive."]
    answer(found, "\n".join(lines[1:]), as_json=as_json)


def grouped() -> dict[str, dict[str, str]]:
    """Return the recipes and their comments, by heading."""
    left = dict(recipe_names())
    found = {heading: {name: left.pop(name) for name in names} for heading, names in GROUPS.items() if names}
    return found | {[*GROUPS][-1]: left}


def in_short(comment: str, width: int) -> str:
    """Return the first sentence of a recipe's comment without citations, cut at a word to fit a width."""
    first = re.split(r"(?<!\bDr)\. (?=[A-Z])", CITATION.sub("", comment.removeprefix("Start here: ")))[0].rstrip(".")
    return shorten(first[:1].upper() + first[1:], width, placeholder=" ...")


@app.command()
def explain(
    key: Annotated[
        str,
        typer.Argument(help="Key of a recipe, such as optim.lr, or a stage, such as optim.", autocompletion=completed(keys)),
    ],
) -> None:
    """Explain a key of a recipe: type, range, default, documentation."""
    from upsolve.config.recipe import explain as explained

    typer.echo(explained(key).replace("``", "`"))


def load(
    recipe: str | None,
    settings: Sequence[str] | None,
    *,
    model: str = "",
    archive: str = "",
    seed: int | None = None,
    reads: Sequence[str] = (),
) -> "Recipe":
    """Read a recipe and apply the options that all commands with a model have.

    ``reads``: stages and keys that the command reads; empty: all. ConfigError for a wrong name, key or value, and for a setting of a key that the
    command does not read.
    """
    from upsolve.config import load_recipe

    if recipe and Path(recipe).is_dir():
        raise ConfigError(f"{recipe} is a folder, not a recipe; to name an archive, use --archive {recipe}")
    overrides = [f"{key}={value}" for key, value in (("model.name", model), ("data.archive", archive)) if value]
    loaded = load_recipe(recipe, [*(settings or []), *overrides])
    for setting in settings or () if reads else ():
        if not f"{setting.partition('=')[0].strip()}.".startswith(tuple(f"{one}." for one in reads)):
            raise ConfigError(f"--set {setting}: has no effect on this command, which reads {', '.join(reads)}; leave it out")
    return loaded if seed is None else seeded(loaded, seed)


def open_trained_on(recipe: "Recipe") -> "Archive":
    """Open the archive of a recipe before torch, which takes seconds, is imported; ArchiveError if the archive has no tasks."""
    from upsolve.archive.store import open_filled

    return open_filled(recipe.data.archive)


def load_evaluated(recipe: str | None, settings: Sequence[str] | None, **options: Any) -> "Recipe":
    """Read a recipe for a command that evaluates, with the options of ``load``; ConfigError also if a setting that evaluations do not read is overridden."""
    for setting in settings or ():
        key, _, value = setting.partition("=")
        if key.strip() == "sample.temperature":
            raise ConfigError(f"sample.temperature has no effect on evaluations: set evaluate.temperatures=[{value.strip()}]")
    loaded = load(recipe, settings, **options)
    if loaded.sample.temperature != type(loaded.sample)().temperature:
        temperatures = ", ".join(f"{temperature:g}" for temperature in loaded.evaluate.temperatures)
        typer.echo(f"{recipe}: evaluations ignore sample.temperature and use evaluate.temperatures: {temperatures}", err=True)
    return loaded


def seeded(recipe: "Recipe", seed: int) -> "Recipe":
    """Return a recipe with the same seed for training, grouping, evaluation and rollouts."""
    new = {"seed": seed}
    rollout = recipe.source.rollout.model_copy(update=new)
    stages = {
        "data": recipe.data.model_copy(update=new),
        "sample": recipe.sample.model_copy(update=new),
        "source": recipe.source.model_copy(update={"rollout": rollout}),
    }
    return recipe.model_copy(update={**new, **stages})


@app.command()
def init(
    archive: ArchivePath,
    model: Annotated[str, typer.Option("--model", "-m", help="Folder, .gguf file or Hub name (model.name).")] = "smollm2-135m",
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write.")] = Path("recipe.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a commented recipe for an archive and a model, and print the commands that come next."""
    if out.exists() and not force:
        raise ConfigError(f"{out}: exists; choose another file with --out, or replace it with --force")
    from upsolve.archive.places import SHIPPED
    from upsolve.archive.store import open_filled
    from upsolve.config import load_recipe
    from upsolve.plan.starting import counts, first_recipe, look_at, warnings
    from upsolve.policy.locate import BUILTIN

    found = look_at(open_filled(archive))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(first_recipe(out.stem, archive, model, found), encoding="utf-8")
    load_recipe(str(out))
    judge = ("verdicts first", "verify", archive) if found.info.unjudged and archive not in SHIPPED else ()
    plan = ("will it help, and what will it cost?", "plan", archive, "--recipe", str(out))
    folder = f"runs/{out.stem}"
    run = [("measure, train, measure again, report", "run", str(out), "--out", folder)]
    if found.untested == found.info.tasks:
        model_of = ("--model", f"{folder}/model", *ELSEWHERE, "--out", folder)
        run = [("train", "train", *run[0][2:]), ("measure on a benchmark", "eval", f"{folder}/recipe.yaml", *model_of)]
    steps = [next_step(*words) for words in (judge, plan, *run) if words]
    commands = [line.removeprefix("next: ").partition("    # ")[0] for line in steps]
    data = {"recipe": str(out), "tasks": found.info.tasks, "attempts": found.info.attempts, "next": commands}
    then = [line.replace("next", "then", 1) for line in steps[1:]]
    is_found = model == BUILTIN or Path(model).exists() or re.fullmatch(r"[\w-][\w.-]*/[\w.-]+(?<!\.gguf)", model)
    unknown = (
        [] if is_found else [f"--model {model}: no such file or folder here; commands read the model as a name on the Hub"]
    )
    lines = [f"{out}: {counts(found)}", *warnings(found), *unknown, steps[0], *then]
    answer(data, "\n".join(lines), as_json=as_json)


RecipeName = Annotated[
    str | None, typer.Option("--recipe", "-r", help="Recipe of the run to plan; without it, the default values.")
]
NoModel = Annotated[bool, typer.Option("--no-model", help="Check only the archive, in seconds instead of a minute.")]
Against = Annotated[
    list[str] | None,
    typer.Option(
        help="Benchmark to check training tasks for overlap with: an archive, a .jsonl file, source:path; can be repeated."
    ),
]


@app.command()
def plan(
    archive: ArchivePath,
    recipe: RecipeName = None,
    model: ModelName = "",
    no_model: NoModel = False,
    against: Against = None,
    judged: Annotated[int, typer.Option(min=0, help="Number of attempts to judge again, to check the recorded verdicts.")] = 40,
    tasks: Annotated[int, typer.Option(min=1, help="Number of tasks on which to sample the model.")] = 12,
    as_json: AsJson = False,
    seed: Seed = None,
    settings: Settings = None,
) -> None:
    """Say whether an archive will help a model, before anything is trained: groups, labels, likelihood, pass rate, cost, advice."""
    loaded = load(recipe, settings, model=model, archive=archive, seed=seed)
    open_trained_on(loaded)
    from upsolve.clean.overlap import read_benchmark
    from upsolve.plan.planning import plan_archive

    benchmarks = {name: read_benchmark(name) for name in against or []}
    with bars() as progress:
        result = plan_archive(
            loaded, with_model=not no_model, judged=judged, tasks=tasks, benchmarks=benchmarks, progress=progress
        )
    if as_json:
        print_json(asdict(result))
    else:
        show_plan(result)
        typer.echo(what_next(result, recipe, loaded, settings))


def what_next(plan: "Plan", recipe: str | None, loaded: "Recipe", settings: Sequence[str] | None = None) -> str:
    """Return the line with the command that follows from the advice."""
    from upsolve.archive.places import SHIPPED

    archive, model, first = plan.archive, loaded.model.name, "runs/unsolved"
    on_it = ("--archive", archive, "--model", model)
    more = ("more tasks", "ingest", "PATH", archive)
    same = (recipe, *options_of(recipe, loaded, settings)) if recipe else ()
    if plan.rule == "worth_it" and plan.model and not recipe:
        return next_step("a recipe for this archive", "init", archive, "--model", model)
    trained = ("--out", f"runs/{Path(recipe or '').stem}")
    measures = plan.tests.most or loaded.evaluate.archives
    run = ("measure, train, measure again, report", "run") if measures else ("no tests here, so measure elsewhere", "train")
    steps: dict[str, tuple[str, ...]] = {
        "worth_it": (*run, *same, *trained)
        if plan.model
        else ("can the model learn from it?", "plan", archive, *(("--recipe", recipe) if recipe else ()), "--model", model),
        "noisy": ("judge again", "verify", archive, "--all"),
        "leaking": ("an archive without them", "archive", "doctor", archive, "--fix", f"{Path(archive).name}-clean"),
        "too_large": ("what needs the memory", "memory", *(same or ("rloo", *on_it))),
        "solved": more,
        "unable": ("will imitation help?", "plan", archive, "--recipe", "sft", "--model", model),
        "unlike": ("will imitation help?", "plan", archive, "--recipe", "sft", "--model", model),
        "failed_alone": (f"then {recipe or 'sft'} with --model {first}/model", "train", "unsolved", *on_it, "--out", first),
        "sharper": ("the control", "run", "ssd", *on_it, "--out", "runs/ssd"),
    }
    sample, grown = ("more attempts", "sample", *on_it), f"{Path(archive).name}-grown"
    remedies = {
        "no attempt": sample,
        "one attempt": sample,
        "no scored attempt": ("verdicts", "verify", archive),
        "all passed": ("stricter tests", "tests", "grow", archive, grown),
        "all failed": ("imitate failed attempts first", "train", "unsolved", *on_it, "--out", first),
    }
    step = steps.get(plan.rule) or remedies.get(plan.lacking, sample if plan.lacking.startswith("fewer than") else more)
    if archive in SHIPPED and step[1] in ("ingest", "sample", "verify"):  # read-only
        step = ("attempts by author, verdicts by judge", "archive", "info", archive)
    return next_step(*step)


def options_of(recipe: str, loaded: "Recipe", settings: Sequence[str] | None) -> tuple[str, ...]:
    """Return the options by which a loaded recipe differs from its file: archive, model and settings."""
    own = load(recipe, settings)
    named = (("--archive", own.data.archive, loaded.data.archive), ("--model", own.model.name, loaded.model.name))
    changed = [(option, value) for option, before, value in named if value != before]
    return tuple(word for pair in [*changed, *(("--set", one) for one in settings or ())] for word in pair)


def show_plan(plan: "Plan") -> None:
    """Print the tables and the advice of a plan."""
    show(plan.archive, ("archive", "", ""), [*group_rows(plan), *label_rows(plan)])
    if plan.base:
        base = [(f"{row.difficulty}: {row.tasks}", shown(row.greedy), shown(row.sampled)) for row in plan.base]
        show(f"{plan.model} before training", ("tasks", "greedy", "temperature 1"), base)
        show("a run", ("cost", "", ""), [*likelihood_rows(plan), *cost_rows(plan)])
    checks = [(check.name, check.measured, check.threshold, "" if check.holds else "missed") for check in plan.checks]
    show("what the advice rests on", ("check", "measured", "threshold", ""), checks)
    for warning in plan.warnings:
        typer.echo(warning)
    typer.echo(plan.advice)


def group_rows(plan: "Plan") -> list[tuple[str, str, str]]:
    """Return the rows about tasks and groups."""
    from upsolve.plan.findings import FEW_GROUPS

    groups, lacking = plan.groups, sum(plan.groups.others.values())
    reasons = [(f"  {reason}", f"{count:,}", "") for reason, count in groups.others.items()]
    left_out = [(f"  attempts left out: {reason}", f"{count:,}", "") for reason, count in groups.left_out.items()]
    return [
        ("tasks", f"{groups.tasks:,}", f"{groups.training_tasks:,} of them for training"),
        ("attempts", f"{groups.attempts:,}", ""),
        (f"training tasks with {plan.needed}", f"{plan.usable:,}", "" if plan.online else f"at least {FEW_GROUPS} are needed"),
        *([("training tasks without a passed and a failed attempt", f"{lacking:,}", "by reason:")] if lacking else []),
        *reasons,
        *left_out,
    ]


def label_rows(plan: "Plan") -> list[tuple[str, str, str]]:
    """Return the rows about tests, labels and leaks."""
    tests, noise, leaks = plan.tests, plan.noise, plan.leaks
    wrong = f"{noise.false_passes} wrong passes, {noise.false_failures} wrong failures, {noise.unscored} not judged"
    near_duplicates = [
        (f"tasks of {name} with a near-duplicate in training", f"{n} of {leaks.sizes[name]}", "")
        for name, n in leaks.counts.items()
    ]
    return [
        ("tests per task, median", f"{tests.median:g}", f"{tests.fewest} to {tests.most}"),
        ("tasks whose tests fail an attempt", shown(tests.discerning), ""),
        ("wrong, of attempts that pass visible tests", shown(tests.visible), "" if tests.visible.of else "no hidden tests"),
        ("recorded verdicts that hold", shown(noise.agreement), wrong),
        *near_duplicates,
        *(("", "", example) for example in leaks.examples),
        *([("recorded splits", "not used", "every task has one: --set data.split_by=split")] if leaks.ignored_split else []),
    ]


def likelihood_rows(plan: "Plan") -> list[tuple[str, str, str]]:
    """Return the rows about the likelihood of attempts."""
    from upsolve.plan.starting import OWN_SHARE

    found = plan.likelihood
    if found is None:
        return []
    named = (("passed attempts", found.passed), ("failed attempts", found.failed), ("its own samples", found.own))
    rows = [(f"log-probability of {name}", nats(mean), "nats per token") for name, mean in named]
    return [*rows, ("attempts by this model", shown(found.by_model), f"`init` imitates below {OWN_SHARE:.0%}")]


def cost_rows(plan: "Plan") -> list[tuple[str, str, str]]:
    """Return the rows about time and memory."""
    cost = plan.cost
    if cost is None:
        return []
    speeds = {"forward": cost.score_tokens_per_second, "sampled": cost.sample_tokens_per_second}
    speed = ", ".join(f"{value:,.0f} tokens/s {name}" for name, value in speeds.items() if math.isfinite(value))
    return [
        ("memory", f"{cost.peak_bytes / 2**30:.1f} GiB", f"{cost.available_bytes / 2**30:.1f} GiB are free"),
        (
            "training",
            minutes(cost.training_seconds),
            f"{cost.training_tokens:,} tokens in {counted(cost.steps, 'step')}; {speed}".rstrip("; "),
        ),
        ("sampling in training", minutes(cost.rollout_seconds), ""),
        ("both evaluations", minutes(cost.evaluation_seconds), ""),
    ]


def shown(share: "Share") -> str:
    """Return a share with its interval."""
    return f"{share.count} of {share.of}: {share.value:.0%} [{share.low:.0%}, {share.high:.0%}]" if share.of else "none"


def nats(estimate: "Estimate | None") -> str:
    """Return a mean log-probability, with its interval if there are several attempts."""
    if estimate is None:
        return "none"
    return f"{estimate.mean:.2f}" + ("" if math.isnan(estimate.low) else f" [{estimate.low:.2f}, {estimate.high:.2f}]")


def minutes(seconds: float) -> str:
    """Return a time in minutes."""
    return "unknown" if math.isnan(seconds) else f"{seconds / 60:.1f} min"


SEEN_GROUPS = 500
"""Largest number of groups of an archive that are read for the plan of memory."""


@app.command()
def memory(
    recipe: RecipeFile,
    archive: ArchiveName = "",
    model: ModelName = "",
    settings: Settings = None,
    processes: Annotated[int, typer.Option(min=1, help="Ranks of the run, over which model.shard shards.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Compute the memory of a run without loading weights; exit code 1 if it does not fit on this machine."""
    loaded = load(recipe, settings, model=model, archive=archive)
    stored = open_trained_on(loaded)
    from upsolve.policy.machine import available_bytes
    from upsolve.train.run.memory import memory_of

    groups = [*islice(stored.groups(), SEEN_GROUPS)]
    plan, available = memory_of(loaded, groups, processes=processes), available_bytes()
    if as_json:
        print_json({"rows": [asdict(row) for row in plan.rows], "peak_bytes": plan.peak_bytes, "available_bytes": available})
    else:
        rows = [(row.name, row.phase, f"{row.bytes / 2**20:,.0f}", row.note) for row in plan.rows]
        rows.append(("peak", "", f"{plan.peak_bytes / 2**20:,.0f}", f"{available / 2**20:,.0f} MiB are available here"))
        show("memory of one process", ("what", "when", "MiB", "why"), rows)
    if problem := plan.warning(available):
        typer.echo(f"does not fit: {problem}", err=True)
        raise typer.Exit(code=1)
