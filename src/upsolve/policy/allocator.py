"""The memory allocator of a process that trains or samples."""

import ctypes

__all__ = ["keep_memory"]

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


def keep_memory() -> None:
    """Make glibc keep freed memory, for this process: page faults of fresh large tensors cost more than the arithmetic on them."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(M_MMAP_THRESHOLD, 1 << 30)
        library.mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)
