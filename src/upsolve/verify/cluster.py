"""The same chunks as tasks of a Ray cluster. Ray is an extra: ``pip install 'upsolve[ray]'``."""

from __future__ import annotations

from functools import cache
from typing import Any

from upsolve.errors import JudgeError
from upsolve.types import Verdict
from upsolve.verify.limits import Judging
from upsolve.verify.worker import Chunk, HandLostError, judge_chunk

__all__ = ["RayHand", "cluster_size"]


@cache
def ray() -> Any:
    """Return Ray, connected to the cluster of $RAY_ADDRESS, or to one started here."""
    try:
        import ray as library
    except ImportError as error:
        raise JudgeError("executor ray needs Ray: pip install 'upsolve[ray]'") from error
    if not library.is_initialized():
        library.init(log_to_driver=False, include_dashboard=False)
    return library


def cluster_size() -> int:
    """Return the number of cores of the cluster."""
    return max(1, int(ray().cluster_resources().get("CPU", 1)))


@cache
def judging_task() -> Any:
    """Return ``judge_chunk`` as Ray's own kind of function. Ray is not asked to try again: the pool does."""
    return ray().remote(num_cpus=1, max_retries=0)(judge_chunk)


class RayHand:
    """Judges one chunk at a time, as a task on any free core of the cluster.

    Ray keeps the processes of its tasks, so the sandbox in them stays warm.
    """

    def __init__(self) -> None:
        self.task: Any = None

    def judge(self, chunk: Chunk, how: Judging) -> list[Verdict]:
        """Send a chunk and wait for its verdicts."""
        library = ray()
        self.task = judging_task().remote(list(chunk), how)
        try:
            return library.get(self.task)
        except library.exceptions.RayTaskError as error:
            raise error.cause from error
        except library.exceptions.RayError as error:
            raise HandLostError(f"a process of the cluster is gone: {error}") from error
        finally:
            self.task = None

    def close(self) -> None:
        """Stop what it is judging, if anything: when this process ends, Ray has ended before."""
        if self.task is not None:
            ray().cancel(self.task, force=True)
