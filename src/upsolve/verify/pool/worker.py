"""Worker processes: one per core, each with its own sandbox. They end with their parent."""

import os
import signal
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from upsolve.types import Attempt, Task, Verdict
from upsolve.verify.judge.plans import judge_all
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.pool.rpc import WorkerLostError, end, exchange, pack, serve, start, unpack

__all__ = ["LocalWorker", "Worker", "judge_chunk", "main"]

Chunk = Sequence[tuple[Task, Attempt]]


class Worker(Protocol):
    """Runs one function at a time, in another process.

    Packing and unpacking are separate from the run, so that a free worker waits for neither.
    """

    @staticmethod
    def pack(work: Callable[..., Any], *args: Any) -> Any:
        """Return the request that calls a module-level function."""
        ...

    @staticmethod
    def unpack(reply: Any) -> Any:
        """Return the function's result from a reply; raise the UpsolveError that it raised."""
        ...

    def run(self, request: Any, seconds: float | None = None) -> Any:
        """Run the function of a request in the worker and return the reply.

        Raises:
            WorkerLostError: the process has ended, or gave no reply within ``seconds`` and was ended.
        """
        ...

    def close(self) -> None:
        """End the worker immediately."""
        ...


def judge_chunk(chunk: Chunk, settings: JudgeSettings) -> list[Verdict]:
    """Judge a chunk of attempts, with the analyses of ``settings.analyses``."""
    verdicts = judge_all(chunk, settings)
    if settings.analyses:
        from upsolve.verify.analysis.analyst import analyse

        return analyse(chunk, verdicts, settings.analyses)
    return verdicts


taken: Counter[int] = Counter()
"""Core -> number of workers pinned to it."""
guard = threading.Lock()


def take_core() -> int:
    """Return the core with the fewest workers.

    A worker, its sandbox and its attempts run in turns, so sharing a core costs no time and makes wake-ups ten times faster.
    """
    with guard:
        core = min(sorted(os.sched_getaffinity(0)), key=lambda number: taken[number])
        taken[core] += 1
    return core


class LocalWorker:
    """A process on this machine, pinned to one core."""

    pack, unpack = staticmethod(pack), staticmethod(unpack)

    def __init__(self) -> None:
        self.core = take_core()
        self.give_back = weakref.finalize(self, taken.subtract, [self.core])
        self.process = start(main, self.core)

    def run(self, request: bytes, seconds: float | None = None) -> bytes:
        """Send a request and wait for its reply; see ``Worker.run``."""
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
