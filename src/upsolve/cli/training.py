"""Commands around a model: run, train, sample, eval, report."""

from pathlib import Path
from typing import Annotated

import typer

from upsolve.cli.app import ModelName, Out, RecipeFile, Settings, app, bars, show_results

__all__ = ["evaluate", "report", "run", "sample", "train"]


@app.command()
def run(
    recipe: RecipeFile,
    out: Out = Path("runs/run"),
    model: ModelName = "",
    seed: Annotated[int | None, typer.Option(help="Seed of training, grouping and sampling; the split keeps its own.")] = None,
    settings: Settings = None,
) -> None:
    """Measure a model, train it on an archive, measure again, write a report. Run it again to go on after a stop."""
    from upsolve.config import load_recipe

    overrides = [f"model.name={model}"] if model else []
    overrides += [f"{key}={seed}" for key in ("seed", "data.seed", "sample.seed") if seed is not None]
    loaded = load_recipe(recipe, [*(settings or []), *overrides])
    from upsolve.experiment import run_recipe

    with bars() as progress:
        before, after, trained = run_recipe(loaded, out, progress=progress)
    show_results((before, after), loaded.ks)
    typer.echo(f"training: {trained.text()}\nreport: {out / 'report.html'}    model: {trained.folder}")


@app.command()
def train(recipe: RecipeFile, out: Out = Path("runs/train"), settings: Settings = None) -> None:
    """Train a policy on an archive. Run it again to go on after a stop."""
    from upsolve.config import load_recipe

    loaded = load_recipe(recipe, settings or [])
    from upsolve.archive.split import split_archive
    from upsolve.archive.store import open_archive
    from upsolve.train.loop import train as train_policy

    split = split_archive(open_archive(loaded.data.archive), loaded.data, untried=loaded.source.rounds > 0)
    with bars() as progress:
        trained = train_policy(
            loaded,
            split.groups["train"],
            split.groups["dev"],
            out,
            on_step=lambda done, total, row: progress(f"train: entropy {row['entropy']:.2f}", done, total),
            show=progress,
        )
    typer.echo(f"{trained.text()}\nmodel: {trained.folder}")
    if trained.collapsed:
        raise typer.Exit(code=3)


@app.command()
def sample(
    archive: Annotated[Path, typer.Argument(help="Archive whose tasks are tried and to which the attempts are added.")],
    recipe: Annotated[Path | None, typer.Option(help="Recipe; its `sample` stage is used.")] = None,
    model: ModelName = "smollm2-135m",
    settings: Settings = None,
) -> None:
    """Sample attempts from a model into an archive until each task has `sample.samples` of its (judge them with `verify`)."""
    from upsolve.config import load_recipe

    loaded = load_recipe(recipe, settings or [])
    from upsolve.archive.store import Archive
    from upsolve.policy.collect import sample_attempts

    with bars() as progress:
        added = sample_attempts(Archive(archive), loaded, model=model, progress=progress)
    typer.echo(f"{added} attempts added")


@app.command("eval")
def evaluate(
    recipe: RecipeFile,
    model: ModelName = "smollm2-135m",
    name: Annotated[str, typer.Option(help="Label in tables.")] = "model",
    out: Out = Path("runs/eval"),
    settings: Settings = None,
) -> None:
    """Measure a model on the held-out tasks of a recipe's archive."""
    from upsolve.config import load_recipe

    loaded = load_recipe(recipe, settings or [])
    from upsolve.archive.split import split_archive
    from upsolve.archive.store import open_archive
    from upsolve.evaluate.benchmarks import evaluate_model
    from upsolve.evaluate.runs import save_evaluation

    split = split_archive(open_archive(loaded.data.archive), loaded.data, untried=loaded.source.rounds > 0)
    tasks = split.tasks[loaded.evaluate.split][: loaded.evaluate.tasks or None]
    keep = out / f"{name}.samples.jsonl"
    keep.parent.mkdir(parents=True, exist_ok=True)
    with bars() as progress:
        result, _, _ = evaluate_model(loaded, tasks, model=model, name=name, keep=keep, progress=progress)
    save_evaluation(result, out / f"{name}.json")
    show_results((result,), loaded.ks)


@app.command()
def report(
    evaluations: Annotated[list[Path], typer.Argument(help="Evaluations (JSON), the baseline first.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file.")] = Path("report.html"),
) -> None:
    """Compare evaluations: tables in the terminal, and one self-contained HTML page."""
    from upsolve.evaluate.runs import load_evaluation
    from upsolve.report.html import ReportContent, write_report

    runs = tuple(load_evaluation(path) for path in evaluations)
    fewest = min(score.samples for run in runs for score in run.scores)
    ks = tuple(k for k in (1, 2, 4, 8, 10, 100) if k <= max(1, fewest))
    show_results(runs, ks)
    write_report(out, ReportContent(f"{' and '.join(run.name for run in runs)}", runs, ks))
    typer.echo(f"report: {out}")
