"""Calls to other processes: workers, one per core, and tasks of a Ray cluster (an extra: ``pip install 'upsolve[ray]'``).

A subprocess gets pickled calls over stdin and returns pickled results, each after its size, over stdout.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import selectors
import signal
import subprocess
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from upsolve.errors import JudgeError, UpsolveError

__all__ = ["LocalWorker", "RayWorker", "WorkerLostError", "ask", "end", "main", "ray_slots", "serve", "start"]

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
        with selectors.PollSelector() as selector:  # select() knows no descriptor above 1023
            selector.register(process.stdout, selectors.EVENT_READ)
            answered = selector.select(seconds)  # also if the stream has ended
        size = int.from_bytes(process.stdout.read(SIZE_BYTES)) if answered else 0
        reply = process.stdout.read(size)
    except (OSError, ValueError) as error:
        raise WorkerLostError(f"a judging process ended: {error!r}") from error
    if not answered:
        raise TimeoutError(f"no answer within {seconds:g} s")
    if not size or len(reply) < size:
        raise WorkerLostError("a judging process ended during a call")
    return reply


def unpack(reply: bytes) -> Any:
    """Return the result of a reply; raise the UpsolveError that the function raised."""
    result: Any = pickle.loads(reply)  # noqa: S301  written by our own process
    if isinstance(result, BaseException):
        raise result
    return result


def end(process: Process, *, session: bool = False) -> None:
    """End a process by SIGTERM, so that it can clean up, and by SIGKILL after LEAVE_SECONDS.

    Args:
        process: a worker of ``start``.
        session: the process leads a session; all processes of the session are killed immediately.
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
    """On SIGTERM, end this process by a normal exit, which runs finalizers; further signals must not interrupt these."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0)


def serve() -> None:
    """Serve calls until end of standard input or SIGTERM; standard output of the calls is redirected to standard error."""
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


taken: Counter[int] = Counter()
"""Core -> number of workers pinned to it."""
guard = threading.Lock()


class LocalWorker:
    """Runs one call at a time in a process on this machine, pinned to the core with the fewest workers; it ends with its parent.

    A worker, its sandbox and its attempts run in turns, so sharing a core costs no time and makes wake-ups ten times faster. Packing and
    unpacking are separate from the run, so that a free worker waits for neither.
    """

    pack, unpack = staticmethod(pack), staticmethod(unpack)

    def __init__(self) -> None:
        with guard:
            core = min(sorted(os.sched_getaffinity(0)), key=lambda number: taken[number])
            taken[core] += 1
        self.give_back = weakref.finalize(self, taken.subtract, [core])
        self.process = start(main, core)

    def run(self, request: Any, seconds: float | None = None) -> Any:
        """Send a request and return its reply; WorkerLostError if the process ends, or gives no reply within ``seconds`` and is ended."""
        try:
            return exchange(self.process, request, seconds)
        except (WorkerLostError, TimeoutError) as error:
            self.close()
            raise WorkerLostError(str(error)) from error

    def close(self) -> None:
        """End the process."""
        end(self.process)
        self.give_back()


def main(core: int) -> None:
    """Serve calls on one core until standard input ends."""
    os.sched_setaffinity(0, {core})
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve()


Call = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function and its arguments."""
QUEUE_SECONDS = 3600.0
"""Seconds a Ray task may wait for a free core, added to its deadline."""


@cache
def ray() -> Any:
    """Return Ray, connected to the cluster of $RAY_ADDRESS, or to one started here."""
    try:
        import ray as library
    except ImportError as error:
        raise JudgeError("executor ray needs Ray: pip install 'upsolve[ray]'") from error
    if not library.is_initialized():
        address = os.environ.get("RAY_ADDRESS", "local")  # with None, Ray would join the cluster that was started here last
        library.init(address, log_to_driver=False, include_dashboard=False)
    return library


def ray_slots() -> int:
    """Return the number of chunks in flight on the cluster: two per core, so that none is idle between two chunks."""
    return 2 * max(1, int(ray().cluster_resources().get("CPU", 1)))


@cache
def task_of(work: Callable[..., Any]) -> Any:
    """Return a function as a Ray remote function. Ray's retries are off: the pool retries."""
    # without its record of events, which grows with every task
    return ray().remote(num_cpus=1, max_retries=0, enable_task_events=False)(work)


class RayWorker:
    """Runs one call at a time, as a Ray task on any free core of the cluster.

    Ray keeps the processes of its tasks, so the sandbox in them stays warm.
    """

    def __init__(self) -> None:
        self.task: Any = None

    @staticmethod
    def pack(work: Callable[..., Any], *args: Any) -> Call:
        """Send a request and return its reply. WorkerLostError if the process ends; a process without a reply within ``seconds`` is ended, too."""
        return work, args

    @staticmethod
    def unpack(reply: Any) -> Any:
        """Return the function's result, which is Ray's reply."""
        return reply

    def run(self, request: Any, seconds: float | None = None) -> Any:
        """Run a request and return its result; ``seconds`` count from submission, so time in Ray's queue counts."""
        library, (work, args) = ray(), request
        self.task = task_of(work).remote(*args)
        try:
            return library.get(self.task, timeout=None if seconds is None else seconds + QUEUE_SECONDS)
        except library.exceptions.GetTimeoutError as error:
            self.close()
            raise WorkerLostError(f"no answer within {seconds:g} s") from error
        except library.exceptions.RayTaskError as error:
            raise error.cause from error
        except library.exceptions.RayError as error:
            raise WorkerLostError(f"a process of the cluster ended: {error}") from error
        finally:
            self.task = None

    def close(self) -> None:
        """Cancel the running task, if any."""
        if self.task is not None:
            ray().cancel(self.task, force=True)
