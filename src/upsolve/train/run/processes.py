"""The process group of a run: one process, or several started by ``torchrun`` or ``accelerate launch``."""

import os
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar

import torch
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs, broadcast_object_list, gather_object

from upsolve.errors import TrainingError, UpsolveError, one_line

__all__ = ["REACHED", "Processes", "deterministic", "join", "tell_failure"]

PATIENCE = timedelta(hours=12)
"""Timeout of a collective: rank 0 may sample, judge or evaluate for hours while the others wait (torch's default: 10 minutes)."""
JOIN, CONNECT = timedelta(minutes=10), timedelta(seconds=40)
"""Time within which all ranks of several nodes have to start, and within which torchrun's store on node 0 has to answer."""
STORES: Any = torch.distributed
REACHED: list[str] = []
"""Rank of this process once it has begun to wait for the others (``join``); else empty."""
T = TypeVar("T")


def started_store(environment: Mapping[str, str]) -> Any:
    """Connect to the store of torchrun, which runs before and after the process group; None if all ranks are on one node, or without torchrun."""
    count, here = (int(environment.get(name, "1")) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    if count <= here or environment.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    address, port = environment["MASTER_ADDR"], int(environment["MASTER_PORT"])
    store = STORES.TCPStore(address, port, is_master=False, wait_for_workers=False, timeout=CONNECT)
    return STORES.PrefixStore(f"upsolve/started/{environment.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)


def join(environment: Mapping[str, str]) -> None:
    """Wait until all ranks of several nodes have started.

    A rank that has stopped before, at a setting or a file that only its node lacks, would let the others wait for ``PATIENCE``.

    Raises:
        TrainingError: a rank has stopped (``tell_failure``), does not start within ``JOIN``, or node 0 does not answer.
    """
    REACHED.append(environment.get("RANK", "0"))
    missing, deadline = [*range(int(environment.get("WORLD_SIZE", "1")))], time.monotonic() + JOIN.total_seconds()
    try:
        store = started_store(environment)
        if store is None:
            return
        store.set(environment["RANK"], "")
        while missing and time.monotonic() < deadline and not store.check(["failed"]):
            missing = [rank for rank in missing if not store.check([str(rank)])]
            time.sleep(0.05)
        failed = store.get("failed").decode() if store.check(["failed"]) else ""
    except RuntimeError as error:
        raise TrainingError(f"node 0 has ended, or cannot be reached ({one_line(error)}); see its output") from error
    if failed:
        raise TrainingError(failed)
    if missing:
        raise TrainingError(
            f"rank {missing[0]} has not started within {JOIN.total_seconds():.0f} s; see the output of its node"
        )


def tell_failure(message: str, environment: Mapping[str, str]) -> None:
    """Let the ranks of other nodes, which may wait for this one (``join``), end with the message of a rank that has not joined."""
    with suppress(Exception):  # node 0 may have ended
        if store := started_store(environment):
            store.set("failed", f"rank {environment['RANK']}: {message}")


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
        if not torch.distributed.is_initialized():
            join(os.environ)
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
