"""All commands together."""

import sys

import typer

from upsolve import __version__
from upsolve.cli import archives, judging, memory, training
from upsolve.cli.app import app
from upsolve.errors import UpsolveError
from upsolve.extras import needs_extras

__all__ = ["main", "version"]

COMMANDS = (training, judging, archives, memory)
"""Importing these has put their commands into the application."""


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def main() -> None:
    """Run the command line; an expected error is one message, not a traceback."""
    try:
        with needs_extras():
            app()
    except UpsolveError as error:
        typer.echo(f"upsolve: {error}", err=True)
        sys.exit(2)
