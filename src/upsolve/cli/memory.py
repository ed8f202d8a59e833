"""The command that computes the memory of a run."""

import typer

from upsolve.cli.app import ArchiveName, ModelName, RecipeFile, Settings, app, show
from upsolve.cli.recipes import load

__all__ = ["memory"]


@app.command()
def memory(recipe: RecipeFile, archive: ArchiveName = "", model: ModelName = "", settings: Settings = None) -> None:
    """Compute what a run will hold in memory, without loading a weight; exit 1 where it does not fit this machine."""
    loaded = load(recipe, settings, model=model, archive=archive)
    from upsolve.report.tables import Table
    from upsolve.train.memory import available_bytes, memory_of

    plan, there = memory_of(loaded), available_bytes()
    rows = [(row.name, row.phase, f"{row.bytes / 2**20:,.0f}", row.note) for row in plan.rows]
    rows.append(("peak", "", f"{plan.peak_bytes / 2**20:,.0f}", f"{there / 2**20:,.0f} MiB are available here"))
    show(Table("memory of one process", ("what", "when", "MiB", "why"), tuple(rows)))
    if plan.peak_bytes > there:
        typer.echo("does not fit: lower optim.tokens_per_batch, set model.lora_rank, or spread the run (model.shard)", err=True)
        raise typer.Exit(code=1)
