"""The process group of a run: one process, or several started by ``torchrun`` or ``accelerate launch``."""

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs, broadcast_object_list, gather_object

from upsolve.errors import TrainingError, UpsolveError

__all__ = ["Processes", "deterministic"]

PATIENCE = timedelta(hours=12)
"""Timeout of a collective: rank 0 may sample, judge or evaluate for hours while the others wait (torch's default: 10 minutes)."""
T = TypeVar("T")


class Processes:
    """The process group of a run.

    Precision is set by ``Learner``, not by accelerate, whose state is global: a second run in the process may have another one.
    """

    disks: Sequence[int] = ()
    """First ranks of the nodes that do not see the run's folder of rank 0 (``upsolve.train.run.nodes.find_disks``)."""

    def __init__(self) -> None:
        """Join the group; TrainingError if started with ``accelerate launch --use_deepspeed``."""
        if os.environ.get("ACCELERATE_USE_DEEPSPEED", "false").lower() == "true":
            raise TrainingError(
                "the run was started with --use_deepspeed; leave this option out and set model.shard: deepspeed (see docs/recipes.md)"
            )
        self.accelerator = Accelerator(
            mixed_precision="no",
            cpu=not torch.cuda.is_available(),
            kwargs_handlers=[InitProcessGroupKwargs(timeout=PATIENCE)],
        )

    @property
    def device(self) -> torch.device:
        """Device of this process."""
        return self.accelerator.device

    @property
    def count(self) -> int:
        """Number of processes (the world size)."""
        return self.accelerator.num_processes

    @property
    def index(self) -> int:
        """Rank of this process, 0 to ``count - 1``."""
        return self.accelerator.process_index

    @property
    def per_node(self) -> int:
        """Number of processes on this machine."""
        return min(self.count, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))

    @property
    def nodes(self) -> int:
        """Number of machines."""
        return self.count // self.per_node

    @property
    def is_first_of_node(self) -> bool:
        """Whether this is the first rank of its machine."""
        return self.index % self.per_node == 0

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0, the only process that writes files."""
        return self.accelerator.is_main_process

    def gather(self, items: list[T]) -> list[T]:
        """Return the items of all processes in the order of their ranks. Collective."""
        return items if self.count == 1 else gather_object(items)

    def from_main(self, compute: Callable[[], T]) -> T:
        """Return the result of ``compute`` on rank 0, on all ranks, or raise its error on all. Collective."""
        return self.from_rank(0, compute)

    def from_rank(self, rank: int, compute: Callable[[], T]) -> T:
        """Return the result of ``compute`` on a rank, on all ranks, or raise its error on all. Collective."""
        if self.count == 1:
            return compute()
        shared, problem = list[Any]([None, ""]), None
        if self.index == rank:
            try:
                shared[0] = compute()
            except UpsolveError as error:
                problem, shared[1] = error, str(error)
        result, message = broadcast_object_list(shared, from_process=rank)
        if message:
            raise problem or TrainingError(message)
        return result

    def wait(self) -> None:
        """Wait for all ranks. Collective."""
        self.accelerator.wait_for_everyone()


@contextmanager
def deterministic(enabled: bool) -> Generator[None]:
    """Restrict PyTorch to deterministic kernels within the context, if ``enabled``; an operation without one raises RuntimeError."""
    if not enabled:
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS is first used
    before = torch.get_deterministic_debug_mode()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before)
