"""Commands around an archive: ingest, archive info, query, copy and export."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from upsolve.cli.app import ArchivePath, app, show
from upsolve.cli.progress import bars

__all__ = ["copy", "export", "info", "ingest", "query"]

TITLES = {
    "statuses": "attempts by outcome",
    "judges": "verdicts by judge",
    "sources": "tasks by source",
    "authors": "attempts by author, the ten most frequent",
}

archive_app = typer.Typer(
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Inspect, query, copy and export archives.",
)
app.add_typer(archive_app, name="archive")


@app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def ingest(
    context: typer.Context,
    source: Annotated[str, typer.Argument(help="Name of a source (`upsolve ingest --sources`), or my_reader.py:SOURCE.")] = "",
    path: Annotated[Path | None, typer.Argument(help="File or folder to read.")] = None,
    archive: Annotated[Path | None, typer.Argument(help="Archive to add to; created if it does not exist.")] = None,
    option: Annotated[list[str] | None, typer.Option(help="Option of the source, key=value; --key value is the same.")] = None,
    max_rejected: Annotated[
        float, typer.Option(help="Largest share of rejected records; above it, the exit code is 1.")
    ] = 0.01,
    sources: Annotated[bool, typer.Option("--sources", help="List the sources with their options.")] = False,
) -> None:
    """Import tasks, attempts and recorded verdicts. An interrupted import starts over, and nothing is stored twice."""
    if sources:
        list_sources()
        return
    if path is None or archive is None:
        raise typer.BadParameter("ingest needs SOURCE PATH ARCHIVE")
    from upsolve.archive.ingest import ingest as read_in
    from upsolve.archive.store import create_archive

    options = {**pairs(option or []), **loose_options(context.args)}
    with bars() as progress:
        report = read_in(
            create_archive(archive),
            source,
            path,
            on_rows=lambda n: progress("rows", n, n),
            max_rejected=max_rejected,
            **options,
        )
    typer.echo(report.text())
    if report.too_many:
        raise typer.Exit(1)


def pairs(words: list[str]) -> dict[str, str]:
    """Return the values of ``key=value`` words by key."""
    for text in words:
        if "=" not in text:
            raise typer.BadParameter(f"--option {text}: must be key=value")
    return {key.replace("-", "_"): value for key, _, value in (text.partition("=") for text in words)}


def loose_options(words: list[str]) -> dict[str, str]:
    """Return the values of ``--key value`` and ``--key=value`` by key."""
    spelled: list[str] = []
    rest = iter(words)
    for word in rest:
        if not word.startswith("--"):
            raise typer.BadParameter(f"unexpected argument {word}: ingest takes SOURCE PATH ARCHIVE and options of the source")
        value = "" if "=" in word else next(rest, None)
        if value is None:
            raise typer.BadParameter(f"{word} needs a value")
        spelled.append(word[2:] if "=" in word else f"{word[2:]}={value}")
    return pairs(spelled)


def list_sources() -> None:
    """Print the sources and their options."""
    from upsolve.plugins import find, names
    from upsolve.report.tables import Table

    rows: list[tuple[str, ...]] = []
    for name in names("source"):
        record = find("source", name)
        rows.append((name, record.path, ""))
        rows += [("", "", f"--{option.name.replace('_', '-')}: {option.help}") for option in record.options]
    show(Table("sources", ("source", "path", "options"), tuple(rows)))


@archive_app.command("info")
def info(archive: ArchivePath) -> None:
    """Print statistics of an archive."""
    from upsolve.archive.info import archive_info
    from upsolve.archive.store import open_archive
    from upsolve.report.tables import Table

    statistics = archive_info(open_archive(archive))
    counts = tuple(
        (name.replace("_", " "), f"{value:,}") for name, value in asdict(statistics).items() if isinstance(value, int)
    )
    show(Table(archive, ("", "count"), counts))
    for title in ("statuses", "judges", "sources", "authors"):
        parts: dict[str, int] = getattr(statistics, title)
        if parts:
            rows = tuple((name or "(none)", f"{count:,}") for name, count in parts.items())
            show(Table(TITLES[title], (title, "count"), rows))


@archive_app.command("copy")
def copy(archive: ArchivePath, out: Annotated[Path, typer.Argument(help="New folder.")]) -> None:
    """Copy an archive; `embedded` is part of the package and read-only, so copy it to judge or add to it."""
    from upsolve.archive.copying import copy_archive
    from upsolve.archive.store import open_archive

    copy_archive(open_archive(archive), out)
    typer.echo(f"copied to {out}")


@archive_app.command("query")
def query(
    archive: ArchivePath, sql: Annotated[str, typer.Argument(help="SQL over the views tasks, attempts, verdicts.")]
) -> None:
    """Query an archive in SQL."""
    from upsolve.archive.store import open_archive
    from upsolve.report.tables import Table

    answer = open_archive(archive).query(sql)
    rows = tuple(tuple(str(value) for value in row.values()) for row in answer.to_pylist())
    show(Table(f"{len(rows)} rows", tuple(answer.column_names), rows))


@archive_app.command("export")
def export(archive: ArchivePath, out: Annotated[Path, typer.Argument(help="JSONL file.")]) -> None:
    """Write an archive as JSONL, one record per line, which `upsolve ingest jsonl` reads back."""
    from upsolve.archive.sources.jsonl import write
    from upsolve.archive.store import open_archive

    typer.echo(f"{write(open_archive(archive), out)} records: {out}")
