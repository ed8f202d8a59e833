"""The memory allocator of a process that trains or samples."""

import ctypes

__all__ = ["keep_memory", "release_memory"]

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


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
