"""Commands that show and publish finished work: report, compare, power, view, export, push."""

from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from upsolve.cli.app import AsJson, answer, app, print_json, show, show_results
from upsolve.errors import ConfigError
from upsolve.extras import require
from upsolve.files import write_text

if TYPE_CHECKING:
    from upsolve.evaluate.intervals import Paired
    from upsolve.report.content import ReportContent
    from upsolve.report.several import RunResult
    from upsolve.view.address import Address
    from upsolve.view.answers import Answers
    from upsolve.view.runs import Runs

__all__ = ["compare", "export", "power", "push", "report", "view"]

KS = (1, 2, 4, 8, 10, 16, 32, 64, 100)
"""Values of k for which a report shows pass@k, if the tasks have enough samples."""
DIFFERENCES = (0.02, 0.03, 0.05, 0.10, 0.15)
"""Differences, as shares, for which `power` prints the number of tasks needed to detect them."""


@app.command()
def report(
    evaluations: Annotated[
        list[Path],
        typer.Argument(help="Folder of a finished run, or evaluations (JSON), the baseline first.", metavar="RUN|EVALUATIONS"),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File, such as page.html or page.md, or a folder for it.")
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Markdown for a pull request instead, printed unless --out is given.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare evaluations, or a run before and after training: tables in the terminal and one HTML page, or Markdown."""
    from upsolve.cli.figures import results_figures
    from upsolve.report.content import markdown_of

    beside = evaluations[0] if evaluations[0].is_dir() else Path()
    printed = markdown or as_json
    file, markdown = destination(out or (None if printed else beside), "report", markdown=markdown, as_json=as_json)
    if file and not markdown:
        require("jinja2", "matplotlib")
    content = report_content(evaluations)
    publish(
        file,
        markdown=partial(markdown_of, content) if markdown else None,
        page=partial(write_content, content),
        tables=lambda: show_results(content.sweeps, content.ks),
        figures=partial(results_figures, content.sweeps, content.ks) if as_json else None,
    )


def write_content(content: "ReportContent", file: Path) -> None:
    """Write a report as a page."""
    from upsolve.report.html import write_report

    write_report(file, content)


def report_content(paths: Sequence[Path]) -> "ReportContent":
    """Return the content of a report on the folder of a run, or on evaluations; ConfigError for several folders."""
    from upsolve.evaluate.runs import load_sweep
    from upsolve.report.content import ReportContent

    if any(path.is_dir() for path in paths):
        if len(paths) > 1:
            raise ConfigError("report: name only one run; `upsolve compare` compares several runs")
        from upsolve.report.run import read_run

        return read_run(paths[0])
    sweeps = tuple(load_sweep(path) for path in paths)
    return ReportContent(" and ".join(sweep.name for sweep in sweeps), sweeps, KS)


@app.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(help="Folders of finished runs, including runs of controls such as `placebo`.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also write a file, such as page.html or page.md, or into a folder.")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown for a pull request instead.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare runs with their base models and with controls: the gain of each method, and the part of the gain that is due to the verdicts.

    Runs that only differ in seeds are also shown as one run, with the mean over seeds.
    """
    from upsolve.report.several import run_result

    results = [run_result(folder) for folder in runs]
    file, markdown = destination(out, "compare", markdown=markdown, as_json=as_json)
    publish(
        file,
        markdown=partial(markdown_of_runs, results) if markdown else None,
        page=partial(write_runs, results),
        tables=partial(show_runs, results),
        figures=partial(compared, results) if as_json else None,
    )


def show_runs(results: Sequence["RunResult"]) -> None:
    """Print the conclusions about gains beyond controls, and the tables of several runs."""
    from upsolve.report.several import parts_of_runs, sentences_of_runs

    tables = parts_of_runs(results)[2]
    typer.echo("\n".join(sentences_of_runs(results)))
    for table in tables:
        show(table.title, table.header, table.rows)


def markdown_of_runs(results: Sequence["RunResult"]) -> str:
    """Return the comparison of several runs as Markdown."""
    from upsolve.report.content import markdown_text
    from upsolve.report.several import parts_of_runs, sentences_of_runs

    content, changes, tables = parts_of_runs(results)
    return markdown_text(content, changes, tables, unfolded=len(tables), lead=sentences_of_runs(results))


def write_runs(results: Sequence["RunResult"], file: Path) -> None:
    """Write the comparison of several runs as a page."""
    from upsolve.report.blocks import el
    from upsolve.report.html import write_page
    from upsolve.report.overview import verdict_block
    from upsolve.report.several import parts_of_runs, pictures_of_runs, sentences_of_runs

    content, changes, tables = parts_of_runs(results)
    lead = el("div", *(el("p", el("b", line)) for line in sentences_of_runs(results)), class_="verdict")
    head = el("div", lead, *map(verdict_block, changes))
    write_page(file, content, head, tables=tables, pictures=pictures_of_runs(results), unfolded=len(tables))


def compared(results: Sequence["RunResult"]) -> dict[str, Any]:
    """Return as plain data the gain of every run, of runs with several seeds together, and the gains beyond every control."""
    from upsolve.cli.figures import change_figures
    from upsolve.evaluate.capability import capability
    from upsolve.report.several import methods_of, worth_of_verdicts

    seeds = [method for method in methods_of(results) if len(method.runs) > 1]
    return {
        "runs": [
            {"run": run.name, "verdicts": run.verdicts, **change_figures(capability(run.before, run.after))} for run in results
        ],
        "seeds": [{"runs": [run.name for run in method.runs], **gain_figures(method.paired)} for method in seeds],
        "worth": [
            {"run": worth.method, "control": worth.control, **gain_figures(worth.paired, "gain_beyond")}
            for worth in worth_of_verdicts(results)
        ],
    }


def gain_figures(paired: "Paired", name: str = "gain") -> dict[str, Any]:
    """Return a gain with its interval, and its p-value, as plain data."""
    return {name: asdict(paired.difference), "p_value": paired.p_value}


@app.command()
def power(
    tasks: Annotated[int, typer.Option(help="Tasks to measure on.", min=1)] = 100,
    rate: Annotated[float, typer.Option(help="Pass rate of the model, greedy, between 0 and 1.")] = 0.3,
    correlation: Annotated[
        float | None,
        typer.Option(
            help="Correlation over tasks between the answers of two models; 0.65 was observed before and after training."
        ),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(help="Folder of a finished run; its observed standard deviation replaces --rate and --correlation."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compute the smallest difference that a number of tasks detects, and the number of tasks needed for a difference."""
    from upsolve.evaluate.intervals import CORRELATION, answer_deviation, detectable, tasks_needed

    try:
        assumed = answer_deviation(rate, CORRELATION if correlation is None else correlation)
    except ValueError as error:
        raise ConfigError(f"--rate, --correlation: {error}") from error
    deviation = observed_deviation(run) if run else assumed
    smallest, needed = detectable(tasks, deviation), {each: tasks_needed(each, deviation) for each in DIFFERENCES}
    if as_json:
        rows = [{"difference": difference, "tasks": count} for difference, count in needed.items()]
        print_json({"tasks": tasks, "deviation": deviation, "detectable": smallest, "needed": rows})
        return
    shown = f"show a difference of {100 * smallest:.1f} points in 80 % of cases (paired, p < 0.05)"
    typer.echo(f"{tasks} tasks, {f'as observed in {run}' if run else 'one greedy answer each'}, {shown}")
    for difference, count in needed.items():
        typer.echo(f"{100 * difference:4.0f} points need {count:6} tasks")


def observed_deviation(folder: Path) -> float:
    """Return the standard deviation over tasks of the change in pass@1 of a run; ConfigError if no task differs."""
    import numpy as np

    from upsolve.report.several import gains, run_result

    changes = [*gains(run_result(folder)).values()]
    deviation = float(np.std(changes, ddof=1)) if len(changes) > 1 else 0.0
    if deviation < 1e-9:
        raise ConfigError(f"{folder}: no task differs between base and trained model, so the deviation is unknown; give --rate")
    return deviation


def destination(out: Path | None, name: str, *, markdown: bool, as_json: bool) -> tuple[Path | None, bool]:
    """Return the file of a report (None if it is printed), and whether it is Markdown; ConfigError for other endings."""
    if out is None and markdown and as_json:
        raise ConfigError("--json and --markdown both print: leave one out, or give the Markdown a file (--out report.md)")
    markdown = markdown or (out is not None and out.suffix == ".md")
    if out is None:
        return None, markdown
    if out.is_dir() or not out.suffix:
        return out / f"{name}.{'md' if markdown else 'html'}", markdown
    if out.suffix not in (".md", ".html", ".htm"):
        raise ConfigError(f"--out {out}: reports are pages (.html) or Markdown (.md); give it one of these endings")
    return out, markdown


def publish(
    file: Path | None,
    *,
    markdown: Callable[[], str] | None,
    page: Callable[[Path], None],
    tables: Callable[[], None],
    figures: Callable[[], dict[str, Any]] | None,
) -> None:
    """Write a report to a file, if one is given. Print JSON on request; else tables and the file's name; without a file, Markdown.

    Raises:
        ConfigError: the evaluations cannot be compared, for example because they have different tasks.
    """
    try:
        if file and markdown:
            write_text(file, markdown())
        elif file:
            page(file)
        if figures:
            print_json(figures())
        elif markdown and not file:
            typer.echo(markdown(), nl=False)
        elif not markdown:
            tables()
    except ValueError as error:
        raise ConfigError(f"cannot be compared: {error}") from error
    if file and not figures:
        typer.echo(f"report: {file}")


class WithModel(TyperCommand):
    """A command whose option ``--model`` may stand alone."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give ``--model`` an empty value if it is the last word, or if another option follows."""
        alone = [
            at for at, word in enumerate(args) if word == "--model" and (at + 1 == len(args) or args[at + 1].startswith("-"))
        ]
        for at in reversed(alone):
            args = [*args[:at], "--model=", *args[at + 1 :]]
        return super().parse_args(ctx, args)


@app.command(cls=WithModel)
def view(
    path: Annotated[
        str,
        typer.Argument(
            help="Folder of an archive, of a run or of several runs, `embedded`, `embedded-sql`, or a log that `upsolve ingest` knows.",
            metavar="ARCHIVE|RUN|LOG",
        ),
    ],
    static: Annotated[
        Path | None,
        typer.Option("--static", help="Write one self-contained HTML page here instead of serving.", metavar="OUT.html"),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of 127.0.0.1; 0: any free port.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
    archive: Annotated[str, typer.Option("--archive", "-a", help="RUN: folder of its archive, if the archive has moved.")] = "",
    source: Annotated[str, typer.Option(help="LOG: importer to use; default: the first one that can read the log.")] = "",
    logps: Annotated[
        bool, typer.Option("--logps", help="RUN: load its model, and show the log-probability that it gives to each token.")
    ] = False,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="[MODEL]", help="Ask a model on the page; without a name, the one that RUN trained."),
    ] = None,
) -> None:
    """Browse tasks, attempts and verdicts in the browser: only from this machine, and nothing is sent elsewhere.

    For a run, the pages also show rewards and advantages of attempts and of their tokens, and the curves of training, live.
    """
    from upsolve.archive.places import SHIPPED

    if static and static.suffix not in (".html", ".htm"):
        raise ConfigError(f"--static {static}: the page is HTML; end the name with .html")
    if static and model is not None:
        raise ConfigError("--static excludes --model: a model can be asked only while the viewer runs")
    chosen = bool(archive or source or logps or model is not None)  # options that may be refused
    known = path in SHIPPED or "://" in path or Path(path).exists()
    address = announced(path, port) if known and not static and not chosen else None
    from upsolve.view.opening import open_path

    with closing(address.listener) if address else nullcontext():
        answers = open_path(path, archive=archive, source=source, logps=logps, model=model)
        address = address if address or static else announced(path, port)
        serve_or_write(answers, address, path, static=static, browser=browser)


def announced(path: str, port: int) -> "Address":
    """Return an address at which the viewer will be served, and print it; a page that is opened earlier waits."""
    from upsolve.view.address import bind

    address = bind(port)
    typer.echo(f"{path}: {address.url}    (Ctrl-C stops)")
    return address


def serve_or_write(
    answers: "Answers | Runs", address: "Address | None", path: str, *, static: Path | None, browser: bool
) -> None:
    """Serve the opened archive or run at an address, or write it as a page."""
    if address:
        from upsolve.view.server import serve

        serve(answers, address, browser=browser)
    elif static:
        from upsolve.view.runs import Runs
        from upsolve.view.static import write_page

        if isinstance(answers, Runs):
            raise ConfigError(f"--static: {path} holds several runs; name one of them")
        typer.echo(write_page(answers, static))


@app.command()
def export(
    model: Annotated[str, typer.Argument(help="Model: a folder such as runs/rloo/training/model, a .gguf file or a hub name.")],
    out: Annotated[Path, typer.Argument(help="New folder, or a file *.gguf for llama.cpp.")],
    kind: Annotated[str, typer.Option(help="Precision of a .gguf file: f32, f16, bf16 or q8_0.")] = "f16",
    as_json: AsJson = False,
) -> None:
    """Write a complete model, with LoRA adapters merged into its weights: a folder for transformers and vLLM, or a GGUF file."""
    from upsolve.exports.model import export_model
    from upsolve.report.card import run_of, write_card

    path = export_model(model, out, kind=kind)
    if path.is_dir() and (run := run_of(Path(model))):
        write_card(path, path.name, run)
    files = [path] if path.is_file() else [file for file in path.iterdir() if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    answer({"path": str(path), "bytes": size}, f"{path}: {size / 1e6:,.1f} MB", as_json=as_json)


@app.command()
def push(
    path: Annotated[Path, typer.Argument(help="Run, model, .gguf file, archive, or an exported data set.")],
    repo: Annotated[str, typer.Argument(help="Repository on the Hugging Face Hub: owner/name.")],
    private: Annotated[bool, typer.Option("--private", help="Create the repository as private.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the files and the card without contacting the Hub.")] = False,
    as_json: AsJson = False,
) -> None:
    """Push a model or an archive with its card to the Hugging Face Hub."""
    from upsolve.adapters.hub import plan_upload, upload

    if not all(repo.partition("/")):
        raise ConfigError(f"{repo}: a repository of the Hub is owner/name, such as me/{repo.strip('/')}")
    planned = plan_upload(path, repo)
    if as_json:
        sizes = {name: file.stat().st_size for name, file in planned.files.items()}
        where = "" if dry_run else upload(planned, repo, private=private)
        print_json({"kind": planned.kind, "repo": repo, "files": sizes, "card": planned.card, "pushed": where})
        return
    for name, file in planned.files.items():
        typer.echo(f"{file.stat().st_size:>14,}  {name}")
    typer.echo(f"{len(planned.card.encode()):>14,}  README.md")
    if dry_run:
        typer.echo(f"\n{planned.card}\ndry run: nothing was pushed to the {planned.kind} {repo}")
    else:
        typer.echo(upload(planned, repo, private=private))
