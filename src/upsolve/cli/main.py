"""The entry point of the command line: all commands, expected errors as one message, a clean stop on signals."""

import errno
import gc
import os
import re
import signal
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import typer
from typer.main import get_command

from upsolve import __version__
from upsolve.cli import (
    archives,
    comparing,
    judging,
    recipes,
    rewriting,
    suites,
    training,
)
from upsolve.cli.app import app, printable
from upsolve.cli.chapters import arrange
from upsolve.errors import UpsolveError
from upsolve.extras import needs_extras

__all__ = ["main", "stop_message", "version"]

COMMANDS = (archives, comparing, judging, recipes, rewriting, suites, training)
"""Modules that add their commands to the application when imported."""
INTERRUPTED = 130
"""Exit code after SIGINT or SIGTERM."""
ALLOCATIONS = 100_000
"""Number of new objects after which Python's garbage collector runs. The default, 700, costs a tenth of the time before a run's first step."""
PROGRAMS = "128"
"""Number of compiled programs that oneDNN caches. The default, 1,024, takes 0.3 GB once shapes have varied that often."""
AS_PYTHON = warnings.formatwarning
STOPPED = "stopped; finished work is on disk, and the same command resumes it"
RESUMES = re.compile(r"\bresumes?\b|loses nothing")
"""Words in the help text of a command, argument or given option that mark it as resumable after an interrupt."""
RIGHTS, ROOM, OTHER = "check its owner and permissions", "free some space", "choose another path"
USER_ERRORS = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), RIGHTS),
    **dict.fromkeys((errno.EDQUOT, errno.ENOSPC), ROOM),
    **dict.fromkeys((errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR), OTHER),
}
"""File system errors that the user can fix, such as a full disk or missing rights -> the remedy; printed without a traceback."""


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


arrange(app)


def main() -> None:
    """Run the command line: an expected error is one message without a traceback, and SIGTERM stops as cleanly as SIGINT."""
    signal.signal(signal.SIGTERM, interrupt)
    warnings.formatwarning = warning_line
    configure_libraries()
    gc.set_threshold(ALLOCATIONS)
    try:
        with needs_extras():
            app(prog_name="upsolve")  # also as `python -m upsolve`, for messages and shell completion
    except SystemExit as stop:
        if stop.code == INTERRUPTED:
            typer.echo(f"upsolve: {stop_message(stop)}", err=True)
        raise
    except UpsolveError as error:
        fail(str(error))
    except OSError as error:
        if error.errno not in USER_ERRORS:
            raise
        names = " -> ".join(str(name) for name in (error.filename, error.filename2) if name)
        fail(f"{names or 'cannot write'}: {error.strerror or os.strerror(error.errno)}; {USER_ERRORS[error.errno]}")


def warning_line(message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None) -> str:
    """Return a warning to the user as one line; other warnings, such as deprecations, as Python prints them."""
    if category is UserWarning:
        return printable(f"warning: {message}\n")
    return AS_PYTHON(message, category, filename, lineno, line)


def configure_libraries() -> None:
    """Set the environment variables that PyTorch's libraries and child interpreters read; variables that the user has set stay."""
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = "100000" if Path("/proc/self/schedstat").exists() else "1000"
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", PROGRAMS)
    os.environ.setdefault("PYTHONSAFEPATH", "1")  # started interpreters do not import from the current folder


def interrupt(_number: int, _frame: FrameType | None) -> None:
    """Stop as Ctrl-C does; further SIGTERMs are ignored, so that they do not disturb the clean-up."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def stop_message(error: BaseException | None) -> str:
    """Return the message of the ``KeyboardInterrupt`` that caused an exception. Without a message, say whether the command resumes."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return str(error or "") or (STOPPED if resumes(sys.argv[1:]) else "stopped")


def resumes(words: Sequence[str]) -> bool:
    """Return whether the command that a list of words calls resumes after an interrupt, by its help text."""
    command: Any = get_command(app)
    while words and words[0] in getattr(command, "commands", ()):
        command, words = command.commands[words[0]], words[1:]
    given = [one for one in command.params if any(word.startswith(tuple(one.opts)) for word in words)]
    read = [one.help for one in command.params if one in given or one.param_type_name == "argument"]
    return any(RESUMES.search(text or "") for text in (command.help, *read))


def fail(message: str) -> None:
    """Print an error and exit."""
    typer.echo(printable(f"upsolve: {message}"), err=True)
    if int(os.environ.get("WORLD_SIZE", "1")) > int(os.environ.get("LOCAL_WORLD_SIZE", "1")):
        from upsolve.train.run.processes import REACHED, tell_failure  # torch is imported, which takes seconds

        if not REACHED:
            tell_failure(message, os.environ)
    sys.exit(2)
