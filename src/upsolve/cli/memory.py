"""``upsolve memory``: the memory of a run."""

from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING

import typer

from upsolve.cli.app import ArchiveName, AsJson, ModelName, RecipeFile, Settings, app, print_json, show
from upsolve.cli.recipes import load, open_trained_on

if TYPE_CHECKING:
    from upsolve.report.tables import Table
    from upsolve.train.run.memory import MemoryPlan

__all__ = ["memory"]

SEEN_GROUPS = 500
"""Largest number of groups of an archive whose lengths are read."""


@app.command()
def memory(
    recipe: RecipeFile, archive: ArchiveName = "", model: ModelName = "", settings: Settings = None, as_json: AsJson = False
) -> None:
    """Compute the memory of a run without loading weights; exit code 1 if it does not fit on this machine."""
    loaded = load(recipe, settings, model=model, archive=archive)
    stored = open_trained_on(loaded)
    from upsolve.train.run.memory import available_bytes, memory_of

    groups = [*islice(stored.groups(), SEEN_GROUPS)]
    plan, available = memory_of(loaded, groups), available_bytes()
    if as_json:
        print_json({"rows": [asdict(row) for row in plan.rows], "peak_bytes": plan.peak_bytes, "available_bytes": available})
    else:
        show(table_of(plan, available))
    if problem := plan.warning(available):
        typer.echo(f"does not fit: {problem}", err=True)
        raise typer.Exit(code=1)


def table_of(plan: "MemoryPlan", available: int) -> "Table":
    """Return the parts of a plan and its peak as a table."""
    from upsolve.report.tables import Table

    rows = [(row.name, row.phase, f"{row.bytes / 2**20:,.0f}", row.note) for row in plan.rows]
    rows.append(("peak", "", f"{plan.peak_bytes / 2**20:,.0f}", f"{available / 2**20:,.0f} MiB are available here"))
    return Table("memory of one process", ("what", "when", "MiB", "why"), tuple(rows))
