"""The memory allocator of a process that trains or samples."""

import ctypes
from pathlib import Path

import torch

from upsolve.verify.resources import figure_in, usable_memory

__all__ = ["GrownMemory", "available_bytes", "keep_memory", "release_memory"]

GROWTH = 1.15
"""Multiple of its usual size from which a process returns freed memory."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


def available_bytes() -> int:
    """Return the memory that this process may still allocate, bytes: of the GPU where there is one, else of the machine."""
    return torch.cuda.mem_get_info()[0] if torch.cuda.is_available() else usable_memory()


def keep_memory() -> None:
    """Make glibc keep freed memory in this process, because page faults on newly mapped large tensors cost more than computing on them.

    Does nothing where the C library has no ``mallopt``.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(M_MMAP_THRESHOLD, 1 << 30)
        library.mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)


def release_memory() -> None:
    """Return freed memory to the system, where the C library can."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)


def resident_bytes() -> int:
    """Return the memory of this process, bytes; 0 where the system does not tell."""
    return figure_in(Path("/proc/self/status"), "VmRSS:") * 1024


class GrownMemory:
    """Returns freed memory to the system after steps by which the process has grown.

    Tensors of varying sizes leave gaps that later tensors do not fit in. Memory that is returned has to be mapped again for the next step, which
    then takes a tenth longer, so it is returned only when the process is ``GROWTH`` times as large as it was one step after the last time.
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
