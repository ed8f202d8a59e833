"""Workers as tasks of a Ray cluster. Ray is an extra: ``pip install 'upsolve[ray]'``."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any

from upsolve.errors import JudgeError
from upsolve.verify.pool.rpc import WorkerLostError

__all__ = ["RayWorker", "ray_slots"]

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
        """Return the request that calls a function; Ray pickles it."""
        return work, args

    @staticmethod
    def unpack(reply: Any) -> Any:
        """Return the function's result, which is Ray's reply."""
        return reply

    def run(self, request: Call, seconds: float | None = None) -> Any:
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
            raise WorkerLostError(f"a process of the cluster is gone: {error}") from error
        finally:
            self.task = None

    def close(self) -> None:
        """Cancel the running task, if any."""
        if self.task is not None:
            ray().cancel(self.task, force=True)
