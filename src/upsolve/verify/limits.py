"""What one attempt may use."""

from dataclasses import dataclass, fields

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one attempt; all must be positive."""

    wall_seconds: float = 10.0
    """Elapsed time over all tests."""
    cpu_seconds: float = 5.0
    """Processor time of one process of the attempt (rounded up to whole seconds by the kernel)."""
    memory_bytes: int = 512 * 2**20
    """Address space of one process."""
    output_bytes: int = 2**20
    """Standard output, and standard error."""
    processes: int = 32
    """Processes and threads at once."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) <= 0:
                raise ValueError(f"limit {field.name} must be positive, got {getattr(self, field.name)}")
