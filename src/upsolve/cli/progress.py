"""Progress of a command on standard error: bars on a terminal, else a line at the end of each stage and every ``EVERY_SECONDS``."""

import re
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from upsolve.types import OnProgress

__all__ = ["EVERY_SECONDS", "FIRST_SECONDS", "bars", "line_reporter"]

FIRST_SECONDS = 2.0
"""Seconds before the first line of a stage if standard error is not a terminal."""
EVERY_SECONDS = 30.0
"""Seconds between two lines."""


@contextmanager
def bars() -> "Generator[OnProgress, None, None]":
    """Report the progress of each stage."""
    if not sys.stderr.isatty():
        yield line_reporter()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()
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
        left = f", about {(now - begun) * (total - done) / (done - before):.0f} s left" if before < done < total else ""
        (say or partial(typer.echo, err=True))(f"{stage}: {done} of {total}, {now - begun:.0f} s{left}")

    return report


def stage_name(stage: str) -> str:
    """Return a stage without the number that may follow its name: ``train: entropy 0.52``, ``rows: 20,000``."""
    return re.sub(r": (entropy )?[\d.,]+$", "", stage)
