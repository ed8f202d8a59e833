"""Commands around a model: run, train, sample, eval."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from upsolve.cli.app import (
    ArchiveName,
    AsJson,
    Fresh,
    KeepCheckpoints,
    ModelName,
    Out,
    RecipeFile,
    Seed,
    Settings,
    answer,
    app,
    bars,
    next_step,
    print_json,
    show_results,
)
from upsolve.cli.recipes import load, load_evaluated, open_trained_on
from upsolve.errors import ConfigError

if TYPE_CHECKING:
    from upsolve.archive.split import Split
    from upsolve.archive.store import Archive
    from upsolve.config import Recipe

__all__ = ["demo", "evaluate", "run", "sample", "train"]

AnyRecipe = Annotated[
    str | None,
    typer.Argument(
        help="Recipe: a name that `upsolve recipes` lists, or a YAML file; without it, the default values.", metavar="RECIPE"
    ),
]


def checked_split(archive: "Archive", recipe: "Recipe") -> "Split":
    """Return the split of an archive for a recipe, after the checks of a recipe with its archive (``check_run``), without torch."""
    from upsolve.archive.split import split_archive
    from upsolve.train.check import check_run

    split = split_archive(archive, recipe.data, untried=recipe.source.rounds > 0, labels=recipe.select.reads_labels)
    check_run(recipe, split.groups["train"])
    return split


def with_checkpoints(settings: list[str] | None, keep: bool) -> list[str]:
    """Return the settings, with ``monitor.keep_checkpoints`` if ``--keep-checkpoints`` is given."""
    return [*(settings or []), *(["monitor.keep_checkpoints=true"] if keep else [])]


@app.command()
def run(
    recipe: RecipeFile,
    out: Out = Path("runs/run"),
    archive: ArchiveName = "",
    model: ModelName = "",
    seed: Seed = None,
    fresh: Fresh = False,
    keep_checkpoints: KeepCheckpoints = False,
    folds: Annotated[
        int,
        typer.Option(
            help="Number of cross-fitting folds, for small archives: each fold has other test tasks, and the results are pooled."
        ),
    ] = 0,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate a model, train it on an archive, evaluate it again, write a report. Rerun the same command to resume."""
    loaded = load_evaluated(recipe, with_checkpoints(settings, keep_checkpoints), model=model, archive=archive, seed=seed)
    stored = open_trained_on(loaded)
    from upsolve.train.run.folder import check_out

    check_out(out, loaded, evaluates=True, fresh=fresh or folds > 0)
    split = None if folds else checked_split(stored, loaded)
    from upsolve.cli.figures import results_figures
    from upsolve.experiment import run_folds, run_recipe  # torch is imported after the checks: it takes seconds

    with bars() as progress:
        if folds:
            before, after = run_folds(loaded, out, folds, progress=progress, fresh=fresh)
            facts, text, models = {}, "", f"models: {out / 'fold-*/training/model'}"
        else:
            before, after, trained = run_recipe(loaded, out, progress=progress, fresh=fresh, split=split)
            facts, text, models = {"training": trained.facts()}, f"training: {trained.text()}\n", f"model: {trained.folder}"
    if as_json:
        print_json(results_figures((before, after), loaded.evaluate.ks) | facts | {"report": str(out / "report.html")})
    else:
        show_results((before, after), loaded.evaluate.ks)
        typer.echo(f"{text}report: {out / 'report.html'}    {models}")
        typer.echo(next_step("what did it learn from, and what does it answer?", "view", str(out)))


@app.command()
def demo(
    out: Out = Path("runs/demo"),
    model: ModelName = "",
    seed: Seed = None,
    fresh: Fresh = False,
    keep_checkpoints: KeepCheckpoints = False,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Teach a small model SQL by one reference query per task: about ten minutes on two cores. The same as `upsolve run demo`."""
    settings = with_checkpoints(settings, keep_checkpoints)
    run("demo", out, model=model, seed=seed, fresh=fresh, settings=settings, as_json=as_json)


@app.command()
def train(
    recipe: RecipeFile,
    out: Out = Path("runs/train"),
    archive: ArchiveName = "",
    model: ModelName = "",
    seed: Seed = None,
    fresh: Fresh = False,
    keep_checkpoints: KeepCheckpoints = False,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Train a policy on an archive. Rerun the same command to resume."""
    loaded = load(recipe, with_checkpoints(settings, keep_checkpoints), model=model, archive=archive, seed=seed)
    stored = open_trained_on(loaded)
    from upsolve.train.run.folder import check_out

    check_out(out, loaded, fresh=fresh)
    split = checked_split(stored, loaded)
    from upsolve.report.card import write_card
    from upsolve.train.loop import train as train_policy  # torch is imported after the checks: it takes seconds
    from upsolve.train.run.processes import Processes

    with bars() as progress:
        trained = train_policy(
            loaded,
            split.groups["train"],
            split.groups["dev"],
            out,
            on_step=lambda done, total, row: progress(f"train: entropy {row['entropy']:.2f}", done, total),
            show=progress,
            fresh=fresh,
        )
    if Processes().is_main:  # another node may not see the folder
        write_card(trained.folder, loaded.name)
    own = str(out / "recipe.yaml")  # the run's split and prompts
    measure = ("eval", own, "--model", str(trained.folder), "--out", str(out))
    text = f"{trained.text()}\nmodel: {trained.folder}\n{next_step('measure the model', *measure)}"
    answer(trained.facts(), text, as_json=as_json)
    if trained.collapsed:
        raise typer.Exit(code=3)


@app.command()
def sample(
    recipe: AnyRecipe = None,
    archive: ArchiveName = "",
    model: ModelName = "",
    seed: Seed = None,
    settings: Settings = None,
    hint: Annotated[
        float,
        typer.Option(
            min=0,
            max=0.99,
            help="Sample only tasks that the model never passed, with this share of a passed program in the prompt.",
        ),
    ] = 0.0,
    repair: Annotated[
        bool, typer.Option("--repair", help="Sample one correction of every failed program, by the feedback of its verdict.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Sample a model on the tasks of an archive, until each has `sample.samples` of its attempts; judge them with `verify`."""
    if hint and repair:
        raise ConfigError("--hint excludes --repair: sample with one of them")
    loaded = load(recipe, settings, model=model, archive=archive, seed=seed)
    stored = open_trained_on(loaded)
    from upsolve.archive.places import SHIPPED
    from upsolve.policy.collect import sample_attempts, sample_hinted, sample_repairs

    name = loaded.data.archive
    if name in SHIPPED:
        raise ConfigError(f"sample adds attempts to an archive, and `{name}` is read-only: name another with --archive FOLDER")
    with bars() as progress:
        sample_some = partial(sample_hinted, hint=hint) if hint else sample_attempts
        sample_some = partial(sample_repairs, authors=loaded.data.authors) if repair else sample_some
        added = sample_some(stored, loaded.sample, model=loaded.model, progress=progress)
    text = f"{added} attempts added; judge them with: upsolve verify {name}"
    answer({"archive": name, "added": added}, text, as_json=as_json)


@app.command("eval")
def evaluate(
    recipe: AnyRecipe = None,
    out: Out = Path("runs/eval"),
    archive: ArchiveName = "",
    model: ModelName = "",
    name: Annotated[str, typer.Option(help="Label in tables, and name of the files in --out.")] = "model",
    seed: Seed = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate a model at several temperatures on the held-out tasks of an archive. Rerun the same command to resume."""
    loaded = load_evaluated(recipe, settings, model=model, archive=archive, seed=seed)
    stored = open_trained_on(loaded)
    from upsolve.archive.split import split_archive
    from upsolve.cli.figures import results_figures
    from upsolve.evaluate.benchmarks import held_out, sweep_model
    from upsolve.evaluate.runs import save_sweep

    if not name or Path(name).name != name:
        raise ConfigError(f"--name {name!r}: must be a file name without a slash, such as trained: it names the files in --out")
    split = split_archive(stored, loaded.data)
    out.mkdir(parents=True, exist_ok=True)
    with bars() as progress:
        sweep = sweep_model(
            held_out(split, loaded.data.archive, loaded.evaluate, loaded.data),
            model=loaded.model,
            sample=loaded.sample,
            verify=loaded.verify,
            evaluate=loaded.evaluate,
            name=name,
            keep=out / f"{name}.samples.jsonl",
            progress=progress,
        )
    save_sweep(sweep, out / f"{name}.json")
    if as_json:
        print_json({**results_figures((sweep,), loaded.evaluate.ks), "evaluation": str(out / f"{name}.json")})
    else:
        show_results((sweep,), loaded.evaluate.ks)
        typer.echo(f"evaluation: {out / f'{name}.json'}")
