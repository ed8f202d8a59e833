"""``upsolve memory``: the memory of a run."""

from itertools import islice

import typer

from upsolve.cli.app import ArchiveName, ModelName, RecipeFile, Settings, app, show
from upsolve.cli.recipes import load

__all__ = ["memory"]

SEEN_GROUPS = 500
"""Largest number of groups of an archive whose lengths are read."""


@app.command()
def memory(recipe: RecipeFile, archive: ArchiveName = "", model: ModelName = "", settings: Settings = None) -> None:
    """Compute the memory of a run without loading weights; exit code 1 if it does not fit on this machine."""
    loaded = load(recipe, settings, model=model, archive=archive)
    from upsolve.archive.store import open_archive
    from upsolve.report.tables import Table
    from upsolve.train.memory import available_bytes, memory_of

    groups = [*islice(open_archive(loaded.data.archive).groups(), SEEN_GROUPS)]
    plan, available = memory_of(loaded, groups), available_bytes()
    rows = [(row.name, row.phase, f"{row.bytes / 2**20:,.0f}", row.note) for row in plan.rows]
    rows.append(("peak", "", f"{plan.peak_bytes / 2**20:,.0f}", f"{available / 2**20:,.0f} MiB are available here"))
    show(Table("memory of one process", ("what", "when", "MiB", "why"), tuple(rows)))
    if problem := plan.warning(available):
        typer.echo(f"does not fit: {problem}", err=True)
        raise typer.Exit(code=1)
