"""How the policy uses this machine: precision, memory, idle threads, and weights in the layout of oneDNN."""

import ctypes
import math
import os
import platform
import threading
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from upsolve.config import ModelConfig
from upsolve.verify.resources import figure_in, thread_figures, threads_of, usable_cores, usable_memory

__all__ = [
    "GrownMemory",
    "available_bytes",
    "choose_accelerator",
    "forwards",
    "in_bfloat16",
    "keep_memory",
    "packed_weights",
    "precision_of",
    "release_memory",
    "use_allowed_cores",
    "watch_spinning",
]


@cache
def multiplies_bfloat16() -> bool:
    """Return whether the device on which models are computed has instructions that multiply bfloat16.

    Other devices convert all numbers before a product: on such CPUs a training step takes at least twenty times as long as in float32.
    """
    if torch.cuda.is_available():
        return torch.cuda.is_bf16_supported(including_emulation=False)
    cpu: Any = torch.cpu
    if platform.machine() == "aarch64":
        return torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return cpu._is_avx512_bf16_supported() or cpu._is_amx_tile_supported()


def in_bfloat16(model: ModelConfig) -> bool:
    """Return whether a model computes in bfloat16: ``model.bf16``, or with ``auto`` whether this machine multiplies bfloat16."""
    return multiplies_bfloat16() if model.bf16 == "auto" else model.bf16


def precision_of(model: ModelConfig) -> torch.dtype:
    """Return the dtype in which a model computes, and in which it is stored to be sampled."""
    return torch.bfloat16 if in_bfloat16(model) else torch.float32


GROWTH = 1.15
"""Multiple of its usual size from which a process returns freed memory."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


def available_bytes() -> int:
    """Return the memory that this process may still allocate, bytes: of the GPU if there is one, else of the machine."""
    return torch.cuda.mem_get_info()[0] if torch.cuda.is_available() else usable_memory()


def keep_memory(*, keep: bool = True) -> None:
    """Make glibc keep freed memory in this process, because page faults on newly mapped large tensors cost more than computing on them.

    Without ``keep``, freed tensors of 128 KiB or more return to the system at once. Layers that are gathered and freed between activations otherwise
    leave gaps: a sharded policy took twice its memory. Does nothing if the C library has no ``mallopt``.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(M_MMAP_THRESHOLD, 1 << 30 if keep else 1 << 17)
        library.mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1 if keep else 1 << 17)


def release_memory() -> None:
    """Return freed memory to the system if the C library supports it."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)


def resident_bytes() -> int:
    """Return the memory of this process, bytes; 0 if the system does not report it."""
    return figure_in(Path("/proc/self/status"), "VmRSS:") * 1024


class GrownMemory:
    """Returns freed memory to the system after steps by which the process has grown.

    Tensors of varying sizes leave gaps that later tensors do not fit in. Memory that is returned has to be mapped again for the next step, which then
    takes a tenth longer, so memory is returned only when the process is ``GROWTH`` times as large as one step after the last return.
    """

    def __init__(self) -> None:
        """Start before the first step."""
        self.usual, self.returned = 0, True

    def after_step(self) -> None:
        """Note the size of the process, and return freed memory if it has grown."""
        size = resident_bytes()
        if self.returned:
            self.usual, self.returned = max(self.usual, size), False
        elif size > GROWTH * self.usual:
            release_memory()
            self.returned = True


INTERVAL = 0.25
"""Seconds between two readings of the waiting times."""
CONTENDED_SHARE = 0.12
"""Waiting share from which threads count as contended: the time that they wait for a core, as a fraction per OpenMP thread. Measured: 0.25 beside a
second run, 0.02 alone."""
CONTENDED_SECONDS = 0.4
"""Seconds of contention after which threads spin shortly."""
CALM_SECONDS = 2
"""Seconds without contention after which threads spin for long again."""
GRAIN = 2**15
"""Number of tensor elements for which PyTorch uses one more thread."""


def waits() -> dict[str, int]:
    """Return for each thread of this process how long it was ready to run but had no core, ns; empty if the kernel has no statistics."""
    read = ((thread.name, thread_figures(thread)) for thread in threads_of(os.getpid()))
    return {name: thread.waited for name, thread in read if thread is not None}


def use_allowed_cores() -> None:
    """Limit PyTorch's threads to the CPU quota of the control group, unless ``OMP_NUM_THREADS`` is set: PyTorch itself reads the affinity mask only.

    With more threads than the quota allows, all of them are stopped for the rest of a period (0.1 s) as soon as it is used up.
    """
    if "OMP_NUM_THREADS" not in os.environ and (cores := usable_cores()) < torch.get_num_threads():
        torch.set_num_threads(cores)


class SpinWatch:
    """Shortens the spinning of this process's idle OpenMP threads (libgomp) while its threads wait for a core.

    Waking a sleeping thread takes up to a third of a training step on a virtual machine. But beside another process, threads that spin
    take the cores from those that they wait for: two processes of two threads on two cores took 25 times as long (benchmarks/LOG.md).
    libgomp spins ``GOMP_SPINCOUNT`` times; at most 100 times while the process has more OpenMP threads than cores. So as long as threads of
    this process wait for cores, helper threads keep further teams of OpenMP threads, which do nothing.
    """

    def __init__(self) -> None:
        """Take the first reading."""
        self.threads, self.calm, self.busy = torch.get_num_threads(), 0.0, 0.0
        self.before = waits()
        self.release: threading.Event | None = None

    @property
    def short(self) -> bool:
        """Whether idle threads spin only shortly now."""
        return self.release is not None

    def look(self, seconds: float) -> None:
        """Read how long threads waited within the last ``seconds``, and adapt how long idle threads spin."""
        after = waits()
        waited = sum(max(0, total - self.before.get(thread, 0)) for thread, total in after.items())
        self.before = after
        self.decide(contended=waited > CONTENDED_SHARE * self.threads * seconds * 1e9, seconds=seconds)

    def decide(self, *, contended: bool, seconds: float) -> None:
        """Shorten the spinning after ``CONTENDED_SECONDS`` of contention, and lengthen it after ``CALM_SECONDS`` without contention."""
        self.busy, self.calm = (self.busy + seconds, 0.0) if contended else (0.0, self.calm + seconds)
        if self.busy >= CONTENDED_SECONDS and self.release is None:
            self.crowd()
        elif self.release is not None and self.calm >= CALM_SECONDS:
            self.release.set()
            self.release = None

    def crowd(self) -> None:
        """Start helper threads with teams, so that this process has more OpenMP threads than cores."""
        release = self.release = threading.Event()
        missing = len(os.sched_getaffinity(0)) - self.threads + 1
        for _ in range(math.ceil(missing / (self.threads - 1))):
            threading.Thread(target=self.keep_team, args=(release,), daemon=True).start()

    def keep_team(self, release: threading.Event) -> None:
        """Start a team of OpenMP threads that belongs to this thread and ends with it."""
        torch.zeros(GRAIN * self.threads).add_(1)
        release.wait()

    def run(self) -> None:
        """Call ``look`` every ``INTERVAL`` seconds."""
        looked = time.monotonic()
        while True:
            time.sleep(INTERVAL)
            now = time.monotonic()
            self.look(now - looked)
            looked = now


STARTED = threading.Event()


def watch_spinning() -> None:
    """Adapt spinning in a background thread from now on; does nothing if there is one OpenMP thread, or if the kernel has no statistics."""
    if not STARTED.is_set() and torch.get_num_threads() > 1 and waits():
        STARTED.set()
        threading.Thread(target=SpinWatch().run, daemon=True, name="spin-watch").start()


WORTH = 24
"""Number of decoding steps from which packed weights save more time than packing costs."""
SPARE = 4
"""Free memory that packing needs, as a multiple of the bytes of the weights."""
ONEDNN: Any = torch.ops.mkldnn


@contextmanager
def forwards(replacements: Iterable[tuple[Any, Callable[..., Any]]]) -> Generator[None]:
    """Replace the forward passes of modules within the context."""
    pairs = [*replacements]
    try:
        for module, forward in pairs:
            module.forward = forward
        yield
    finally:
        for module, _ in pairs:
            module.__dict__.pop("forward", None)


@contextmanager
def packed_weights(model: Any, steps: int) -> Generator[None]:
    """Within the context, compute linear layers and the head with weights packed in oneDNN's layout; weights must not change.

    Otherwise oneDNN rearranges all weights for every product: a quarter to a third of the time of a decoding step in bfloat16.
    Does nothing on GPUs, in float32, for few forward passes (``steps``), or if memory is short.
    """
    layers: list[Any] = []
    if steps >= WORTH and model.device.type == "cpu" and ONEDNN._is_mkldnn_bf16_supported():
        plain = (module for module in model.modules() if type(module) is nn.Linear and "forward" not in vars(module))
        layers = [layer for layer in plain if type(layer.weight.data) is Tensor and layer.weight.dtype == torch.bfloat16]
    if SPARE * sum(layer.weight.nbytes for layer in layers) > available_bytes():
        layers = []
    packed = ((layer, ONEDNN._reorder_linear_weight(layer.weight.detach())) for layer in layers)
    with forwards((layer, partial(product, packed=weight, bias=layer.bias)) for layer, weight in packed):
        yield


def product(rows: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    """Return W x + b [..., out] for rows x [..., in]."""
    return ONEDNN._linear_pointwise(rows, packed, bias, "none", [], "")


def choose_accelerator() -> None:
    """Tell an installed DeepSpeed that there is no GPU; transformers imports DeepSpeed to save a model, and DeepSpeed would log a warning."""
    if not torch.accelerator.is_available():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
