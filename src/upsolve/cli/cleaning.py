"""``upsolve archive doctor``: find what is wrong with an archive, and write a new archive without it."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from upsolve.cli.app import ArchivePath, AsJson, print_json, show
from upsolve.cli.archives import archive_app
from upsolve.cli.progress import bars

if TYPE_CHECKING:
    from upsolve.clean.doctor import Found

__all__ = ["doctor"]

Checks = Annotated[
    list[str] | None, typer.Option("--check", help="Check to run (`--list`); can be repeated. All if none is named.")
]
Options = Annotated[
    list[str] | None, typer.Option("--set", "-s", help="Option of a check, check.option=value; can be repeated.")
]


@archive_app.command("doctor")
def doctor(
    archive: ArchivePath = "",
    check: Checks = None,
    settings: Options = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            help="Benchmark whose tasks should not be in the archive: an archive, a .jsonl file, source:path; can be repeated."
        ),
    ] = None,
    fix: Annotated[str | None, typer.Option(help="New folder for an archive without what was found.")] = None,
    as_json: AsJson = False,
    list_all: Annotated[bool, typer.Option("--list", help="List the checks with their options.")] = False,
) -> None:
    """Find what makes an archive worse for training: contradicting labels, near duplicates, secrets, leaked benchmarks, ..."""
    if list_all:
        list_checks()
        return
    if not archive:
        raise typer.BadParameter("doctor needs ARCHIVE")
    from upsolve.archive.store import open_archive
    from upsolve.clean.doctor import examine, parse_settings
    from upsolve.clean.fixing import new_folder, write_cleaned

    store, options = open_archive(archive), parse_settings(settings or ())
    if against:
        options.setdefault("contamination", {})["against"] = tuple(against)
    if fix:
        new_folder(fix)  # before the checks, which may take long
    with bars() as progress:
        done = examine(store, check or (), options, complete=bool(fix), progress=progress)
    cleaned = write_cleaned(store, done, fix) if fix else None
    if as_json:
        rows = [{**asdict(row), "found": row.found, "share": row.share} for row in done.found]
        print_json({"archive": archive, "found": rows, "cleaned": asdict(cleaned) if cleaned else None})
        return
    show_found(archive, done.found)
    if cleaned:
        typer.echo(f"{cleaned.text()}\nwhat was removed or redacted, with reasons: {fix}/removed")


def show_found(archive: str, found: "list[Found]") -> None:
    """Print what checks found, then which checks found nothing, and which could not run."""
    from upsolve.clean.doctor import NOTHING
    from upsolve.report.tables import Table

    rows: list[tuple[str, ...]] = []
    for row in (one for one in found if one.found):
        fixed = ", ".join(f"{action} {count:,}" for action, count in row.actions.items() if action != "report")
        share = f"{row.found:,} of {row.of:,} {row.table} ({row.share:.1%}){fixed and '; --fix: '}{fixed}"
        example = f"{row.examples[0]['record']} {row.examples[0]['reason']}" if row.examples else ""
        rows.append((f"{row.check}: {row.kind}", share, row.cost, example))
    if rows:
        show(Table(archive, ("found", "share", "costs a run", "example"), tuple(rows)))
    if clean := [row.check for row in found if not row.found and row.kind == NOTHING]:
        typer.echo(f"found nothing: {', '.join(clean)}")
    for row in (one for one in found if not one.found and one.kind != NOTHING):
        typer.echo(f"{row.check}: {row.kind}")


def list_checks() -> None:
    """Print the checks and their options."""
    from upsolve.clean.doctor import check_named, ordered
    from upsolve.report.tables import Table

    rows: list[tuple[str, ...]] = []
    for name in ordered(()):
        record = check_named(name)
        options = ", ".join(f"{name}.{option}={text_of(default)}" for option, default in record.options.items())
        rows.append((name, record.help, options))
    show(Table("checks", ("check", "finds", "options (--set)"), tuple(rows)))


def text_of(value: object) -> str:
    """Return the value of an option as ``--set`` takes it."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
