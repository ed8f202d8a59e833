"""The command line. Parses before it imports anything heavy."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from upsolve import __version__
from upsolve.errors import UpsolveError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from upsolve.report.tables import Table
    from upsolve.types import Evaluation

__all__ = ["app", "main"]

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Post-train code models on attempts that have already been judged."
)
archive_app = typer.Typer(no_args_is_help=True, help="Look into an archive.")
app.add_typer(archive_app, name="archive")

RecipeFile = Annotated[Path, typer.Argument(help="Recipe, a YAML file.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for everything the run makes.")]
Settings = Annotated[list[str] | None, typer.Option("--set", "-s", help="Override, stage.key=value; can be repeated.")]
ModelName = Annotated[str, typer.Option("--model", "-m", help="Model: smollm2-135m, a folder, a .gguf file or a hub name.")]
Place = Annotated[str, typer.Argument(help="Folder of an archive, or `embedded`.")]


@contextmanager
def bars() -> "Generator[Callable[[str, int, int], None], None, None]":
    """Show a progress bar for whatever is being done."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description:<28}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as progress:
        known: dict[str, object] = {}

        def report(what: str, done: int, total: int) -> None:
            name = what.split(": entropy")[0]
            if name not in known:
                known[name] = progress.add_task(what, total=total)
            progress.update(known[name], completed=done, total=total, description=what)  # type: ignore[arg-type]

        yield report


def show(table: "Table") -> None:
    """Print a table."""
    from rich.console import Console
    from rich.table import Table as RichTable

    drawn = RichTable(*table.header, title=table.title)
    for row in table.rows:
        drawn.add_row(*row)
    Console().print(drawn)


def show_results(runs: "Sequence[Evaluation]", ks: "Sequence[int]") -> None:
    """Print the tables of evaluations, and what changed from the first to each of the others."""
    from upsolve.report.tables import comparison, pass_table, profile_table

    show(pass_table(runs, ks))
    show(profile_table(runs))
    for other in runs[1:]:
        typer.echo(comparison(runs[0], other))


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
    from upsolve.archive.store import open_archive
    from upsolve.experiment import split_archive
    from upsolve.train.loop import train as train_policy

    split = split_archive(open_archive(loaded.data.archive), loaded)
    with bars() as progress:
        trained = train_policy(
            loaded,
            split.groups["train"],
            split.groups["dev"],
            out,
            on_step=lambda done, total, row: progress(f"train: entropy {row['entropy']:.2f}", done, total),
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
    from upsolve.experiment import sample_archive

    with bars() as progress:
        added = sample_archive(loaded, Archive(archive), model=model, progress=progress)
    typer.echo(f"{added} attempts added")


@app.command()
def verify(
    archive: Annotated[Path, typer.Argument(help="Archive to judge.")],
    everything: Annotated[bool, typer.Option("--all", help="Judge again what this judge has judged.")] = False,
    workers: Annotated[int, typer.Option(help="Attempts at once; 0 means one a core.")] = 0,
    isolation: Annotated[str, typer.Option(help="required or best_effort.")] = "required",
) -> None:
    """Judge the attempts of an archive that this judge has not judged yet; a stop loses at most one batch."""
    from upsolve.archive.store import Archive
    from upsolve.types import Status
    from upsolve.verify.judge import JUDGE
    from upsolve.verify.pool import verify as judge_all

    store = Archive(archive)
    judged = (v.attempt_id for v in store.verdicts() if v.judge == JUDGE and v.status is not Status.UNSCORED)
    done = set() if everything else set(judged)
    tasks = {task.task_id: task for task in store.tasks()}
    fresh = [attempt for attempt in store.attempts() if attempt.attempt_id not in done]
    todo = [attempt for attempt in fresh if attempt.task_id in tasks]
    with bars() as progress:
        for start in range(0, len(todo), 1000):
            part = todo[start : start + 1000]
            seen = iter(range(start + 1, start + len(part) + 1))
            verdicts = judge_all(
                [(tasks[attempt.task_id], attempt) for attempt in part],
                workers=workers,
                isolation=isolation,
                on_done=lambda _i, _v, seen=seen: progress("verify", next(seen), len(todo)),
            )
            store.append(verdicts=verdicts)
    typer.echo(f"judged {len(todo)}, {len(done)} were judged before, {len(fresh) - len(todo)} have no task here")


@app.command()
def ingest(
    source: Annotated[str, typer.Argument(help="jsonl, mbpp, humaneval, codenet, ldb, refactory or codet.")],
    path: Annotated[Path, typer.Argument(help="File or folder to read.")],
    archive: Annotated[Path, typer.Argument(help="Archive to add to; made where none is.")],
    language: Annotated[str | None, typer.Option(help="codenet: language as it spells it; Python unless told.")] = None,
    most_correct: Annotated[int | None, typer.Option(help="codenet: accepted attempts kept a problem; 50 unless told.")] = None,
) -> None:
    """Import tasks, attempts and recorded verdicts. An import that was stopped starts over, with nothing double."""
    from upsolve.archive.ingest import ingest as read_in
    from upsolve.archive.store import Archive

    given = {"language": language, "most_correct": most_correct}
    options = {name: value for name, value in given.items() if value is not None}
    with bars() as progress:
        report = read_in(Archive.create(archive), source, path, on_rows=lambda n: progress("rows", n, n), **options)
    typer.echo(report.text())


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
    from upsolve.archive.store import open_archive
    from upsolve.evaluate.benchmarks import evaluate as measure
    from upsolve.evaluate.runs import save_evaluation
    from upsolve.experiment import split_archive

    split = split_archive(open_archive(loaded.data.archive), loaded)
    tasks = split.tasks[loaded.evaluate.split][: loaded.evaluate.tasks or None]
    keep = out / f"{name}.samples.jsonl"
    keep.parent.mkdir(parents=True, exist_ok=True)
    with bars() as progress:
        result, _, _ = measure(loaded, tasks, model=model, name=name, keep=keep, progress=progress)
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


@app.command()
def doctor() -> None:
    """Say which layers of the sandbox work here, and try some threats; exit 1 when a required layer is missing."""
    from upsolve.verify.doctor import checks

    failed = 0
    for check in checks():
        typer.echo(f"{'ok ' if check.ok else 'NO '} {check.name:<24} {check.detail}")
        failed += check.required and not check.ok
    if failed:
        raise typer.Exit(code=1)


@archive_app.command("info")
def info(archive: Place) -> None:
    """Count what an archive holds."""
    from upsolve.archive.info import archive_info
    from upsolve.archive.store import open_archive

    for name, value in asdict(archive_info(open_archive(archive))).items():
        typer.echo(f"{name:<12} {value}")


@archive_app.command("query")
def query(archive: Place, sql: Annotated[str, typer.Argument(help="SQL over the views tasks, attempts, verdicts.")]) -> None:
    """Ask an archive in SQL."""
    from upsolve.archive.store import open_archive
    from upsolve.report.tables import Table

    answer = open_archive(archive).query(sql)
    rows = tuple(tuple(str(value) for value in row.values()) for row in answer.to_pylist())
    show(Table(f"{len(rows)} rows", tuple(answer.column_names), rows))


@archive_app.command("export")
def export(archive: Place, out: Annotated[Path, typer.Argument(help="JSONL file.")]) -> None:
    """Write an archive as JSONL: one record a line, which `upsolve ingest jsonl` reads back."""
    from upsolve.archive.sources.jsonl import write
    from upsolve.archive.store import open_archive

    typer.echo(f"{write(open_archive(archive), out)} records: {out}")


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def main() -> None:
    """Run the command line; an expected error is one message, not a traceback."""
    try:
        app()
    except UpsolveError as error:
        typer.echo(f"upsolve: {error}", err=True)
        sys.exit(2)
