"""The memory allocator of a process that trains or samples."""

import ctypes

import torch

from upsolve.verify.resources import usable_memory

__all__ = ["available_bytes", "keep_memory", "release_memory"]

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
    """Return freed memory to the system, where the C library can.

    Tensors of varying sizes leave gaps that later tensors do not fit in; without this, a run of hundreds of steps takes twice its memory.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)
