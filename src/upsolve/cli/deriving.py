"""``upsolve derive``: tasks made from the attempts of an archive."""

from collections import Counter
from typing import Annotated

import typer

from upsolve.cli.app import ArchivePath, AsJson, Seed, Settings, app, completed, print_json, records
from upsolve.cli.archives import list_records, options_of
from upsolve.cli.progress import bars
from upsolve.cli.recipes import load
from upsolve.cli.suites import OutFolder

__all__ = ["derive"]


@app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def derive(
    context: typer.Context,
    kind: Annotated[
        str,
        typer.Argument(
            help="What is asked: repair, test, ..., or module:attribute.", autocompletion=completed(records("derivation"))
        ),
    ] = "",
    archive: ArchivePath = "",
    out: OutFolder = "",
    limit: Annotated[int | None, typer.Option(min=1, help="Most derived tasks; without it, all.")] = None,
    option: Annotated[list[str] | None, typer.Option(help="Option of the kind, key=value; also as --key value.")] = None,
    kinds: Annotated[bool, typer.Option("--kinds", help="List the kinds; with KIND its options.")] = False,
    seed: Seed = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Write an archive of tasks made from attempts: to repair, test, judge, predict, complete, speed up or translate them."""
    if kinds:
        list_records("derivation", "help", kind, as_json=as_json)
        return
    if not out:
        raise typer.BadParameter("derive needs KIND ARCHIVE OUT; `upsolve derive --kinds` lists the kinds")
    from upsolve.archive.store import open_filled
    from upsolve.derive.deriving import DeriveSettings
    from upsolve.derive.deriving import derive as write_derived
    from upsolve.verify.limits import judge_settings

    how = DeriveSettings(kind, options_of(option, context), limit or 0, seed or 0)
    judging = judge_settings(load(None, settings).verify)
    with bars() as progress:
        rows = write_derived(open_filled(archive), out, how, settings=judging, progress=progress)
    made, used = sum(row["derived"] for row in rows), sum(bool(row["derived"]) for row in rows)
    left_out = sum((Counter(row["left_out"]) for row in rows), Counter[str]())
    if as_json:
        print_json({"archive": archive, "out": out, "kind": kind, "derived": made, "left_out": left_out, "tasks": rows})
        return
    typer.echo(f"{made:,} tasks derived from {used:,} of {len(rows):,} tasks: {out}")
    for reason, count in left_out.most_common():
        typer.echo(f"{count:,} left out: {reason}")
