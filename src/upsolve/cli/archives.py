"""Commands around an archive: ingest, archive info, query and export."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from upsolve.cli.app import Place, app, show
from upsolve.cli.progress import bars

__all__ = ["export", "info", "ingest", "query"]

archive_app = typer.Typer(
    no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]}, help="Look into an archive."
)
app.add_typer(archive_app, name="archive")


@app.command()
def ingest(
    source: Annotated[str, typer.Argument(help="jsonl, mbpp, humaneval, codenet, ldb, refactory, codet or simulator.")],
    path: Annotated[Path, typer.Argument(help="File or folder to read; simulator: a domain's folder, or robot.")],
    archive: Annotated[Path, typer.Argument(help="Archive to add to; made where none is.")],
    language: Annotated[str | None, typer.Option(help="codenet: language as it spells it; Python unless told.")] = None,
    most_correct: Annotated[int | None, typer.Option(help="codenet: accepted attempts kept a problem; 50 unless told.")] = None,
) -> None:
    """Import tasks, attempts and recorded verdicts. An import that was stopped starts over, with nothing double."""
    from upsolve.archive.ingest import SOURCES
    from upsolve.archive.ingest import ingest as read_in
    from upsolve.archive.store import Archive
    from upsolve.verify.simulators.tasks import domain_folder, read

    path, sources = domain_folder(path) if source == "simulator" else path, {**SOURCES, "simulator": read}
    given = {"language": language, "most_correct": most_correct}
    options = {name: value for name, value in given.items() if value is not None}
    with bars() as progress:
        report = read_in(
            Archive.create(archive), source, path, on_rows=lambda n: progress("rows", n, n), sources=sources, **options
        )
    typer.echo(report.text())


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
