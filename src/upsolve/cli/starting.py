"""``upsolve init``: a first recipe for an archive and a model."""

from pathlib import Path
from typing import Annotated

import typer

from upsolve.cli.app import ArchivePath, AsJson, app, print_json
from upsolve.errors import ConfigError

__all__ = ["init"]


@app.command()
def init(
    archive: ArchivePath,
    model: Annotated[str, typer.Option("--model", "-m", help="Folder, .gguf file or Hub name (model.name).")] = "smollm2-135m",
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write.")] = Path("recipe.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a commented recipe for an archive and a model, and print the commands that come next."""
    if out.exists() and not force:
        raise ConfigError(f"{out}: exists; choose another file with --out, or replace it with --force")
    from upsolve.archive.store import open_filled
    from upsolve.config import load_recipe
    from upsolve.plan.starting import counts, first_recipe, look_at

    found = look_at(open_filled(archive))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(first_recipe(out.stem, archive, model, found), encoding="utf-8")
    load_recipe(str(out))
    steps = {
        f"upsolve plan {archive} --recipe {out}": "will it help, and what will it cost?",
        f"upsolve run {out} --out runs/{out.stem}": "measure, train, measure again, report",
    }
    if as_json:
        info = found.info
        print_json({"recipe": str(out), "tasks": info.tasks, "attempts": info.attempts, "next": [*steps]})
        return
    typer.echo(f"{out}: {counts(found)}. Next:")
    for command, purpose in steps.items():
        typer.echo(f"  {command:<50} # {purpose}")
