"""Python processes that run functions for this one: work goes in on their standard input, what it returns comes out, all pickled."""

import contextlib
import os
import pickle
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from upsolve.errors import UpsolveError

__all__ = ["WorkerLostError", "ask", "end", "serve", "start"]

T = TypeVar("T")
Process = subprocess.Popen[bytes]


class WorkerLostError(Exception):
    """A process that worked for us has gone."""


def start(main: Callable[[int], None], argument: int, *, session: bool = False) -> Process:
    """Start a process with a function of a module, which calls ``serve`` when it is ready.

    Args:
        main: the function.
        argument: what it is called with.
        session: the process leads a session of its own; ``end`` then takes along what it has started.
    """
    work = f"from {main.__module__} import {main.__name__}; {main.__name__}({argument})"
    command = [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {work}"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=session)


def ask(process: Process, work: Callable[..., T], *args: Any, seconds: float | None = None) -> T:
    """Return what a function of a module gives there; what upsolve raises there on purpose is raised here.

    Raises:
        WorkerLostError: the process is gone.
        TimeoutError: no answer came within ``seconds``; the process is still at it.
    """
    assert process.stdin and process.stdout
    try:
        pickle.dump((work, args), process.stdin)
        process.stdin.flush()
        answered = select.select([process.stdout], [], [], seconds)[0]
        said: Any = pickle.load(process.stdout) if answered else None  # noqa: S301  written by our own process
    except (OSError, EOFError, ValueError, pickle.UnpicklingError) as error:
        raise WorkerLostError(f"a judging process ended: {error!r}") from error
    if not answered:
        raise TimeoutError(f"no answer within {seconds:g} s")
    if isinstance(said, BaseException):
        raise said
    return said


def end(process: Process, *, session: bool = False) -> None:
    """End a process at once, with its session where it leads one."""
    with contextlib.suppress(ProcessLookupError):
        if session:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):  # what was still to be sent cannot be
            if stream:
                stream.close()


def serve() -> None:
    """Do what is asked until the standard input ends; what the work prints goes to standard error."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            work, args = pickle.load(sys.stdin.buffer)  # noqa: S301  written by our own parent
        except EOFError:
            return
        try:
            said = work(*args)
        except UpsolveError as error:
            said = error
        pickle.dump(said, out)
        out.flush()
