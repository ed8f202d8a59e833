"""What the commands share: the application, kinds of arguments, progress bars, tables."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from upsolve.report.tables import Table
    from upsolve.types import Evaluation

__all__ = ["ModelName", "Out", "Place", "RecipeFile", "Settings", "app", "bars", "show", "show_results"]

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Post-train code models on attempts that have already been judged."
)

RecipeFile = Annotated[Path, typer.Argument(help="Recipe, a YAML file.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for everything the run makes.")]
Settings = Annotated[list[str] | None, typer.Option("--set", "-s", help="Override, stage.key=value; can be repeated.")]
ModelName = Annotated[str, typer.Option("--model", "-m", help="Model: smollm2-135m, a folder, a .gguf file or a hub name.")]
Place = Annotated[str, typer.Argument(help="Folder of an archive, or `embedded`.")]


@contextmanager
def bars() -> "Generator[Callable[[str, int, int], None], None, None]":
    """Show a progress bar for whatever is being done."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description:<28}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as progress:
        known: dict[str, object] = {}

        def report(what: str, done: int, total: int) -> None:
            name = what.split(": entropy")[0]
            if name not in known:
                known[name] = progress.add_task(what, total=total)
            progress.update(known[name], completed=done, total=total, description=what)  # type: ignore[arg-type]

        yield report


def show(table: "Table") -> None:
    """Print a table."""
    from rich.console import Console
    from rich.table import Table as RichTable

    drawn = RichTable(*table.header, title=table.title)
    for row in table.rows:
        drawn.add_row(*row)
    Console().print(drawn)


def show_results(runs: "Sequence[Evaluation]", ks: "Sequence[int]") -> None:
    """Print the tables of evaluations, and what changed from the first to each of the others."""
    from upsolve.evaluate.comparison import compare
    from upsolve.report.tables import pass_table, profile_table

    show(pass_table(runs, ks))
    show(profile_table(runs))
    for other in runs[1:]:
        typer.echo(compare(runs[0], other, min(ks, default=1)).text())
