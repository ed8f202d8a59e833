"""Commands that check, rewrite or export an archive: archive doctor, copy, compact, fill-expected and export."""

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from upsolve.cli.app import (
    ArchivePath,
    AsJson,
    Settings,
    answer,
    bars,
    completed,
    next_step,
    print_json,
    printable,
    records,
    show,
)
from upsolve.cli.archives import archive_app, list_records, options_of
from upsolve.cli.recipes import load

if TYPE_CHECKING:
    from upsolve.clean.doctor import Found

__all__ = ["compact", "copy", "doctor", "export", "fill"]


@archive_app.command("copy")
def copy(archive: ArchivePath, out: Annotated[str, typer.Argument(help="New folder, or a URL: s3://bucket/folder.")]) -> None:
    """Copy an archive; `embedded` is part of the package and read-only, so copy it to judge or add to it."""
    from upsolve.archive.store import copy_archive, open_archive

    copy_archive(open_archive(archive), out)
    typer.echo(f"copied to {out}")


@archive_app.command("compact")
def compact(
    archive: ArchivePath,
    target_mb: Annotated[int, typer.Option(min=1, help="Largest size of a merged part, MB.")] = 256,
    keep_hours: Annotated[
        float, typer.Option(min=0, help="Hours before replaced parts are removed, so that processes can finish reading them.")
    ] = 24,
    as_json: AsJson = False,
) -> None:
    """Merge many small parts into few large ones. An interrupt loses nothing; the same command resumes."""
    from upsolve.archive.compacting import compact as merge
    from upsolve.archive.places import refuse_shipped
    from upsolve.archive.store import open_archive

    refuse_shipped(archive)
    done = merge(open_archive(archive), target_bytes=target_mb * 10**6, keep_hours=keep_hours)
    text = f"{done.before} parts before, {done.after} after; {done.removed} replaced files removed"
    if done.waiting:
        again = f"compact again after {keep_hours:g} h, or --keep-hours 0"
        text += f"\n{done.waiting} replaced files stay for processes that read them: {again}"
    answer(asdict(done), text, as_json=as_json)


@archive_app.command("fill-expected")
def fill(
    archive: ArchivePath,
    out: Annotated[str, typer.Argument(help="Folder of the new archive, or a URL.")],
    overwrite: Annotated[bool, typer.Option(help="Also replace existing expected answers.")] = False,
    as_json: AsJson = False,
) -> None:
    """Fill in the expected answers of tests that have none, by running the tasks' references in Python in the sandbox; writes a new archive."""
    from upsolve.archive.store import open_archive
    from upsolve.clean.fixing import fill_expected

    with bars() as progress:
        filled = fill_expected(
            open_archive(archive), out, overwrite=overwrite, on_done=lambda done, total: progress("tasks", done, total)
        )
    left = [f"left {count:,} tasks: {why}, such as {filled.examples[why]}" for why, count in filled.left.most_common()]
    text = "\n".join([f"filled in {filled.tests:,} tests of {filled.tasks:,} tasks: {out}", *left])
    answer(vars(filled), text, as_json=as_json)


ExportFormat = Annotated[
    str,
    typer.Option(
        "--as",
        help="Format (`--formats` lists them), or my_format.py:EXPORT.",
        show_default="jsonl",
        autocompletion=completed(records("export")),
    ),
]


@archive_app.command("export", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def export(
    context: typer.Context,
    archive: Annotated[str, typer.Argument(help="Folder of an archive, or `embedded` or `embedded-sql`.")] = "",
    out: Annotated[str, typer.Argument(help="New folder or, for some formats, a file.")] = "",
    form: ExportFormat = "",
    recipe: Annotated[str, typer.Option(help="Recipe: splits, rewards, selection, advantages and pairs.")] = "",
    settings: Settings = None,
    split: Annotated[str, typer.Option(help="Only this split of the recipe: train, dev or test.")] = "",
    epoch: Annotated[int | None, typer.Option(min=0, help="Groups or pairs as training samples them in this epoch.")] = None,
    option: Annotated[list[str] | None, typer.Option(help="Option of the format, key=value; --key value is the same.")] = None,
    formats: Annotated[bool, typer.Option("--formats", help="List the formats; with --as, the options of one.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write an archive as a data set for other trainers, as a sample file of a benchmark, or as JSON lines."""
    if formats:
        list_records("export", "help", form, as_json=as_json)
        return
    form = form or "jsonl"
    if not archive or not out:
        raise typer.BadParameter("export needs ARCHIVE OUT")
    from upsolve.archive.store import open_archive
    from upsolve.exports.exporting import export_archive, format_of

    options = options_of(option, context)
    _, record, _ = format_of(form, options)
    loaded = load(recipe or record.recipe, settings, archive=archive) if recipe or settings else None
    given = [("--recipe", recipe), ("--split", split), *(("--set", setting) for setting in settings or ())]
    given += [("--epoch", "" if epoch is None else str(epoch)), *(("--option", f"{k}={v}") for k, v in options.items())]
    words = ["upsolve", "archive", "export", archive, out, "--as", form]
    words += [word for key, value in given if value for word in (key, value)]
    store, command = open_archive(archive), shlex.join(words)
    done = export_archive(store, out, form, recipe=loaded, split=split, epoch=epoch, options=options, command=command)
    answer({"path": done.path, "rows": done.rows, "left_out": done.left_out}, done.text(), as_json=as_json)


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
    fix: Annotated[str | None, typer.Option(help="New folder for an archive without the findings.")] = None,
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
    made = Path(fix) if fix and not Path(fix).exists() else None
    if fix:
        new_folder(fix)  # before the checks, which may take long
    try:
        with bars() as progress:
            done = examine(store, check or (), options, complete=bool(fix), progress=progress)
    except BaseException:
        if made:
            made.rmdir()  # an archive is written only after all checks
        raise
    cleaned = write_cleaned(store, done, fix) if fix else None
    if as_json:
        rows = [{**asdict(row), "found": row.found, "share": row.share} for row in done.found]
        print_json({"archive": archive, "found": rows, "cleaned": asdict(cleaned) if cleaned else None})
        return
    show_found(archive, done.found)
    if cleaned:
        typer.echo(f"{cleaned.text()}\nwhat was removed or redacted, with reasons: {fix}/removed")
    typer.echo(next_step("a recipe for this archive", "init", fix or archive))


def show_found(archive: str, found: "list[Found]") -> None:
    """Print the findings of the checks, then the checks without findings, and the checks that could not run."""
    from upsolve.clean.doctor import NOTHING

    rows: list[tuple[str, ...]] = []
    for row in (one for one in found if one.found):
        fixed = ", ".join(f"{action} {count:,}" for action, count in row.actions.items() if action != "report")
        share = f"{row.found:,} of {row.of:,} {row.table} ({row.share:.1%}){fixed and '; --fix: '}{fixed}"
        example = f"{row.examples[0]['record']} {row.examples[0]['reason']}" if row.examples else ""
        rows.append((f"{row.check}: {row.kind}", share, row.cost, example))
    if rows:
        show(archive, ("found", "share", "costs a run", "example"), rows)
    if clean := [row.check for row in found if not row.found and row.kind == NOTHING]:
        typer.echo(f"found nothing: {', '.join(clean)}")
    for row in (one for one in found if not one.found and one.kind != NOTHING):
        typer.echo(f"{row.check}: {row.kind}")
    for row in (one for one in found if one.found and one.check == "sanity"):
        typer.echo(printable(f"{row.found:,} tasks are {row.kind}: {', '.join(one['record'] for one in row.examples)}"))


def list_checks() -> None:
    """Print the checks and their options."""
    from upsolve.clean.doctor import check_named, ordered

    rows: list[tuple[str, ...]] = []
    for name in ordered(()):
        record = check_named(name)
        defaults = {key: ",".join(map(str, one)) if isinstance(one, tuple) else one for key, one in record.options.items()}
        rows.append((name, record.help, ", ".join(f"{name}.{option}={default}" for option, default in defaults.items())))
    show("checks", ("check", "finds", "options (--set)"), rows)
