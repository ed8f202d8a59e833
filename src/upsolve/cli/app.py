"""Shared by all commands: the application, the types of options, the printing of tables, and progress.

Progress on standard error: bars on a terminal, else a line at the end of each stage and every ``EVERY_SECONDS``.
"""

import json
import re
import shlex
import sys
import textwrap
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from upsolve import __version__
from upsolve.cli.chapters import in_order
from upsolve.errors import ConfigError

if TYPE_CHECKING:
    from upsolve.evaluate.scores import Sweep
    from upsolve.types import OnProgress

__all__ = [
    "EVERY_SECONDS",
    "FIRST_SECONDS",
    "ArchiveName",
    "ArchivePath",
    "AsJson",
    "Fresh",
    "KeepCheckpoints",
    "ModelName",
    "Out",
    "RecipeFile",
    "Seed",
    "Settings",
    "answer",
    "app",
    "bars",
    "completed",
    "keys",
    "line_reporter",
    "next_step",
    "print_json",
    "printable",
    "recipe_names",
    "records",
    "show",
    "show_results",
    "show_rows",
    "text_of",
]

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters except tab and newline."""
NARROW = 16
"""Smallest width of a column, in characters; a table without room for it is printed as lists."""
USAGE: Any = typer.BadParameter.__mro__[1]
"""The class of all usage errors; typer exports only a subclass of it."""


class Commands(TyperGroup):
    """The application; its usage errors are ``ConfigError``, printed in one line like any other error."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the commands in the order of the chapters."""
        return in_order(super().list_commands(ctx))

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Parse the options that stand before the command."""
        with usage_errors():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        """Parse the arguments of the command, and run it."""
        with usage_errors(self.path_of([*ctx._protected_args, *ctx.args])):  # pyright: ignore[reportPrivateUsage]
            return super().invoke(ctx)

    def path_of(self, words: Sequence[str]) -> str:
        """Return the longest command that a list of words begins with, such as ``upsolve archive info``."""
        path, command = ["upsolve"], self
        for word in words:
            command = getattr(command, "commands", {}).get(word)
            if command is None:
                break
            path.append(word)
        return " ".join(path)


@contextmanager
def usage_errors(path: str = "upsolve") -> Generator[None, None, None]:
    """Turn a usage error of the command ``path`` into a ``ConfigError``; a command without arguments still prints its help."""
    try:
        yield
    except USAGE as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            raise
        command = error.ctx.command_path if error.ctx else path
        problem = error.format_message().removeprefix("Invalid value: ").rstrip(".")
        raise ConfigError(
            f"{problem}{'' if problem.endswith('?') else ';'} `{command} -h` lists arguments and options"
        ) from error


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Post-train code models on attempts that have already been judged.",
)


def completed(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return a shell completion that imports the modules of its names only when the shell asks for them."""
    return lambda incomplete: [name for name in names() if name.startswith(incomplete)]


def recipe_names() -> dict[str, str]:
    """Return the recipes of the package with their comments. If none starts with the prefix, the shell completes file names."""
    from upsolve.config.recipe import recipe_names as names

    return names()


def keys(*, settings: bool = False) -> list[str]:
    """Return the keys and stages of a recipe or, as ``--set`` takes them (``optim.lr=``), the keys alone."""
    from upsolve.config import Recipe
    from upsolve.config.keys import all_keys, is_stage

    names = all_keys(Recipe)
    return [f"{key}=" for key in names if not is_stage(Recipe, key)] if settings else [*names]


def records(kind: str) -> Callable[[], Iterable[str]]:
    """Return a function that lists the names of the registered records of a kind."""

    def read() -> Iterable[str]:
        from upsolve.plugins import names

        return names(kind)

    return read


RecipeFile = Annotated[
    str,
    typer.Argument(
        help="Recipe: a name that `upsolve recipes` lists, or a YAML file.",
        metavar="RECIPE",
        autocompletion=completed(recipe_names),
    ),
]
ArchiveName = Annotated[
    str, typer.Option("--archive", "-a", help="Folder or URL of an archive, or `embedded` or `embedded-sql` (data.archive).")
]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for everything the run writes.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Remove an earlier run in --out first, instead of resuming it.")]
KeepCheckpoints = Annotated[
    bool,
    typer.Option(
        "--keep-checkpoints",
        help="Keep the checkpoint and the best weights of the finished run, so that more steps can be added later.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", "-s", help="Override stage.key=value; can be repeated.", autocompletion=completed(lambda: keys(settings=True))
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(min=0, max=2**63 - 1, help="Seed of training, grouping and sampling; the split by task keeps its own."),
]
ModelName = Annotated[
    str, typer.Option("--model", "-m", help="Model: smollm2-135m, a folder, a .gguf file or a hub name (model.name).")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables; unknown values are null.")]
ArchivePath = Annotated[str, typer.Argument(help="Folder or URL of an archive, or `embedded` or `embedded-sql`.")]


def print_version(requested: bool) -> None:
    """Print the version and exit."""
    if requested:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Post-train code models on attempts that have already been judged."""
    del version


def show(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; markup of Rich and control characters in cells are printed as text."""
    from rich.console import Console
    from rich.table import Column, Table

    drawn = Table(*(Column(name, overflow="fold") for name in header), title=title)
    for row in rows:
        drawn.add_row(*map(printable, row))
    Console(markup=False, emoji=False).print(drawn)


def printable(text: str) -> str:
    """Return a text with its control characters as escapes, such as ``\\x1b``, so that programs and names cannot control the terminal."""
    return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def show_rows(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print the rows of a table. If they are too wide, print each row as a list of its values, without missing and empty values."""
    from rich.console import Console

    lines = [max(max(map(len, cell.split("\n"))) for cell in column) for column in zip(header, *rows, strict=True)]
    if sum(3 + min(NARROW, longest) for longest in lines) < Console().width:
        show(title, header, rows)
        return
    typer.echo(title)
    for number, row in enumerate(rows, 1):
        typer.echo(f"\nrow {number}")
        for name, cell in zip(header, row, strict=True):
            if cell not in ("None", "", "[]"):
                text = printable(cell)
                typer.echo(f"  {name}: {text}" if "\n" not in text else f"  {name}:\n{textwrap.indent(text, '    ')}")


def text_of(path: Path, option: str) -> str:
    """Return the text of a file that an option names; ConfigError if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{option} {path}: is not UTF-8 text") from error
    except OSError as error:
        raise ConfigError(f"{option} {path}: cannot be read: {error.strerror or error}") from error


def print_json(data: Any) -> None:
    """Print plain data as one JSON object; nan and infinity become null, dates text."""
    numbers = json.loads(json.dumps(data, default=str), parse_constant=lambda _name: None)
    typer.echo(json.dumps(numbers, indent=1, ensure_ascii=False))


def answer(data: Any, text: str, *, as_json: bool) -> None:
    """Print the result of a command: plain data as JSON, or a text."""
    if as_json:
        print_json(data)
    else:
        typer.echo(text)


def next_step(purpose: str, *words: str) -> str:
    """Return the line that ends the output of a command on the path from data to a model: the command that comes next."""
    return f"next: {shlex.join(('upsolve', *words))}    # {purpose}"


def show_results(sweeps: Sequence["Sweep"], ks: Sequence[int]) -> None:
    """Print the comparison of each model with the first one, and the tables of all models, for each task set; ConfigError if their tasks differ."""
    from upsolve.evaluate.comparison import choice_line
    from upsolve.evaluate.scores import by_task_set, defined_ks
    from upsolve.report.content import compared
    from upsolve.report.tables import result_tables

    shared = by_task_set(sweeps)
    for name, measured in {"": sweeps, **shared}.items():
        used = defined_ks(measured, ks)
        try:
            changes = compared("", measured, used)
        except ValueError as error:
            raise ConfigError(f"cannot be compared: {error}") from error
        if name:
            typer.echo(f"\n{name}")
        for change in changes:
            typer.echo("\n".join((change.capability.sentence, *change.capability.warnings, *change.drops)))
        for table in result_tables(measured, used, further=bool(name)):
            show(table.title, table.header, table.rows)
        first = choice_line(measured[0].name, measured[0].choices)
        for line in dict.fromkeys([line for change in changes for line in change.capability.choices] or [first]):
            typer.echo(line, nl=bool(line))
    if others := sorted({other.best.tasks for sweep in sweeps for other in sweep.others} - {*shared}):
        typer.echo(f"task sets not compared, because some models were not measured on them: {', '.join(others)}")


FIRST_SECONDS = 2.0
"""Seconds before the first line of a stage if standard error is not a terminal."""
EVERY_SECONDS = 30.0
"""Seconds between two lines."""
UNEVEN = ("checks",)
"""Stages whose parts take unequal times, so that the remaining time is unknown."""


@contextmanager
def bars() -> "Generator[OnProgress, None, None]":
    """Report the progress of each stage."""
    if not sys.stderr.isatty():
        yield line_reporter()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    class Remaining(TimeRemainingColumn):
        """Time left, of a stage whose parts take alike."""

        def render(self, task: Any) -> Any:
            """Return the time left as text; nothing for parts that differ."""
            return "" if stage_name(task.description) in UNEVEN else super().render(task)

    columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), Remaining()
    with Progress(TextColumn("{task.description:<28}"), *columns, console=Console(stderr=True)) as progress:
        known: dict[str, object] = {}

        def report(stage: str, done: int, total: int) -> None:
            name = stage_name(stage)
            if name not in known:
                known[name] = progress.add_task(stage, total=total)
            progress.update(known[name], completed=done, total=total, description=stage)  # type: ignore[arg-type]

        yield report


def line_reporter(say: Callable[[str], None] | None = None, clock: Callable[[], float] = time.monotonic) -> "OnProgress":
    """Return a callback that prints a stage after ``FIRST_SECONDS``, then every ``EVERY_SECONDS``, and at its end."""
    started: dict[str, tuple[float, int]] = {}
    due: dict[str, float] = {}

    def report(stage: str, done: int, total: int) -> None:
        name, now = stage_name(stage), clock()
        begun, before = started.setdefault(name, (now, done))
        if done < total and now < due.setdefault(name, now + FIRST_SECONDS):
            return
        due[name] = now + EVERY_SECONDS
        known = before < done < total and name not in UNEVEN
        left = f", about {(now - begun) * (total - done) / (done - before):.0f} s left" if known else ""
        (say or partial(typer.echo, err=True))(f"{stage}: {done} of {total}, {now - begun:.0f} s{left}")

    return report


def stage_name(stage: str) -> str:
    """Return the name of a stage without details such as ``entropy 0.52`` in ``train: entropy 0.52``, or ``20,000`` in ``rows: 20,000``."""
    return re.sub(r": (entropy )?[\d.,]+$|(?<=^checks): \w+$", "", stage)
