"""RPC to worker subprocesses: pickled calls over stdin, pickled results after their size over stdout."""

import contextlib
import os
import pickle
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import IO, Any, TypeVar

from upsolve.errors import UpsolveError

__all__ = ["WorkerLostError", "ask", "end", "exchange", "pack", "serve", "start", "unpack"]

T = TypeVar("T")
Process = subprocess.Popen[bytes]


SIZE_BYTES = 8
"""Bytes of the size that precedes a reply."""
LEAVE_SECONDS = 5.0
"""Seconds a worker has after SIGTERM to remove its control groups and folders before SIGKILL."""


class WorkerLostError(Exception):
    """A worker process has ended."""


def start(main: Callable[[int], None], argument: int, *, session: bool = False) -> Process:
    """Start a worker process that runs a module-level function, which calls ``serve`` when it is ready.

    Args:
        main: the function.
        argument: its argument.
        session: start a new session, so that ``end`` also ends the worker's child processes.
    """
    work = f"from {main.__module__} import {main.__name__}; {main.__name__}({argument})"
    command = [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {work}"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=session)


def ask(process: Process, work: Callable[..., T], *args: Any, seconds: float | None = None) -> T:
    """Call a module-level function in the worker and return its result; an UpsolveError raised there is raised here.

    Raises:
        WorkerLostError: the process has ended.
        TimeoutError: no result within ``seconds``; the process is still running the call.
    """
    return unpack(exchange(process, pack(work, *args), seconds))


def pack(work: Callable[..., Any], *args: Any) -> bytes:
    """Return the request that calls a module-level function in a worker."""
    return pickle.dumps((work, args))


def exchange(process: Process, request: bytes, seconds: float | None = None) -> bytes:
    """Send a request of ``pack`` to the worker and return its reply, for ``unpack``; raises as ``ask`` does."""
    assert process.stdin and process.stdout
    try:
        process.stdin.write(request)
        process.stdin.flush()
        answered = readable(process.stdout, seconds)
        size = int.from_bytes(process.stdout.read(SIZE_BYTES)) if answered else 0
        reply = process.stdout.read(size)
    except (OSError, ValueError) as error:
        raise WorkerLostError(f"a judging process ended: {error!r}") from error
    if not answered:
        raise TimeoutError(f"no answer within {seconds:g} s")
    if not size or len(reply) < size:
        raise WorkerLostError("a judging process ended in the middle of a call")
    return reply


def unpack(reply: bytes) -> Any:
    """Return the result of a reply; raise the UpsolveError that the function raised."""
    result: Any = pickle.loads(reply)  # noqa: S301  written by our own process
    if isinstance(result, BaseException):
        raise result
    return result


def readable(stream: IO[bytes], seconds: float | None) -> bool:
    """Wait until a stream has data or has ended; return False after ``seconds`` (None: wait forever)."""
    with selectors.PollSelector() as selector:  # select() knows no descriptor above 1023
        selector.register(stream, selectors.EVENT_READ)
        return bool(selector.select(seconds))


def end(process: Process, *, session: bool = False) -> None:
    """End a process by SIGTERM, so that it can clean up, and by SIGKILL after LEAVE_SECONDS.

    Args:
        process: a worker of ``start``.
        session: it leads a session, whose processes are killed immediately.
    """
    with contextlib.suppress(ProcessLookupError):
        if session:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.terminate()
    try:
        process.wait(LEAVE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for stream in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):  # a buffered request cannot be sent any more
            if stream:
                stream.close()


def leave(*_: object) -> None:
    """End this process on SIGTERM by an exit, which runs finalizers; further signals must not interrupt them."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0)


def serve() -> None:
    """Serve calls until end of standard input or SIGTERM; their standard output is redirected to standard error."""
    signal.signal(signal.SIGTERM, leave)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            work, args = pickle.load(sys.stdin.buffer)  # noqa: S301  written by our own parent
        except EOFError:
            return
        try:
            reply = work(*args)
        except UpsolveError as error:
            reply = error
        result = pickle.dumps(reply)
        out.write(len(result).to_bytes(SIZE_BYTES) + result)
        out.flush()
