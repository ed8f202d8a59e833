"""All commands together."""

import errno
import os
import signal
import sys
from types import FrameType

import typer

from upsolve import __version__
from upsolve.cli import archives, judging, memory, packages, recipes, training
from upsolve.cli.app import app
from upsolve.errors import UpsolveError
from upsolve.extras import needs_extras

__all__ = ["main", "version"]

COMMANDS = (training, judging, archives, memory, packages, recipes)
"""Importing these has put their commands into the application."""
INTERRUPTED = 130
"""Exit code after SIGINT or SIGTERM."""
USERS_FAULTS = frozenset(
    {
        *(errno.EACCES, errno.EDQUOT, errno.EISDIR, errno.ENAMETOOLONG),
        *(errno.ENOENT, errno.ENOSPC, errno.ENOTDIR, errno.EPERM, errno.EROFS),
    }
)
"""Errors of the file system that are no bug of ours: a full disk, a folder in place of a file, missing rights."""


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def main() -> None:
    """Run the command line; an expected error is one message, not a traceback.

    SIGTERM (Slurm, Docker, ``timeout``) is the same clean stop as SIGINT: what is finished is kept, and the same command resumes.
    """
    signal.signal(signal.SIGTERM, interrupt)
    try:
        with needs_extras():
            app()
    except SystemExit as stop:
        if stop.code == INTERRUPTED:
            typer.echo("upsolve: stopped; what is finished is kept, and the same command resumes", err=True)
        raise
    except UpsolveError as error:
        fail(str(error))
    except OSError as error:
        if error.errno not in USERS_FAULTS:
            raise
        names = " -> ".join(str(name) for name in (error.filename, error.filename2) if name)
        fail(f"{names or 'cannot write'}: {os.strerror(error.errno)}")


def interrupt(_number: int, _frame: FrameType | None) -> None:
    """Stop as Ctrl-C does; further SIGTERMs do not disturb the clean-up."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def fail(message: str) -> None:
    """Print an error and exit."""
    typer.echo(f"upsolve: {message}", err=True)
    sys.exit(2)
