"""Commands that rewrite or export an archive: archive copy, compact, fill-expected and export."""

import shlex
from dataclasses import asdict
from typing import Annotated

import typer

from upsolve.cli import completing
from upsolve.cli.app import ArchivePath, AsJson, Settings, print_json
from upsolve.cli.archives import archive_app, list_records, options_of
from upsolve.cli.progress import bars
from upsolve.cli.recipes import load

__all__ = ["compact", "copy", "export", "fill"]


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
    if as_json:
        print_json(asdict(done))
        return
    typer.echo(f"{done.before} parts before, {done.after} after; {done.removed} replaced files removed")
    if done.waiting:
        typer.echo(
            f"{done.waiting} replaced files stay for processes that read them: compact again after {keep_hours:g} h, or --keep-hours 0"
        )


@archive_app.command("fill-expected")
def fill(
    archive: ArchivePath,
    out: Annotated[str, typer.Argument(help="Folder of the new archive, or a URL.")],
    overwrite: Annotated[bool, typer.Option(help="Also replace existing expected answers.")] = False,
    as_json: AsJson = False,
) -> None:
    """Fill in the expected answers of tests that have none, by running the tasks' references in the sandbox; writes a new archive."""
    from upsolve.archive.store import open_archive
    from upsolve.clean.fixing import fill_expected

    with bars() as progress:
        filled = fill_expected(
            open_archive(archive), out, overwrite=overwrite, on_done=lambda done, total: progress("tasks", done, total)
        )
    if as_json:
        print_json(asdict(filled))
        return
    typer.echo(f"filled in {filled.tests:,} tests of {filled.tasks:,} tasks: {out}")
    for reason, count in filled.left.most_common():
        typer.echo(f"left {count:,} tasks: {reason}, such as {filled.examples[reason]}")


ExportFormat = Annotated[
    str,
    typer.Option(
        "--as",
        help="Format (`--formats` lists them), or my_format.py:EXPORT.",
        show_default="jsonl",
        autocompletion=completing.exports,
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
    words = ["upsolve", "archive", "export", archive, out, "--as", form]
    words += [word for key, value in (("--recipe", recipe), ("--split", split)) if value for word in (key, value)]
    words += [word for setting in settings or () for word in ("--set", setting)]
    words += ["--epoch", str(epoch)] if epoch is not None else []
    words += [word for key, value in options.items() for word in ("--option", f"{key}={value}")]
    done = export_archive(
        open_archive(archive),
        out,
        form,
        recipe=loaded,
        split=split,
        epoch=epoch,
        options=options,
        command=shlex.join(words),
    )
    if as_json:
        print_json(asdict(done))
    else:
        typer.echo(done.text())
