"""Limits of one attempt, and how attempts are judged. At run time the judge needs the standard library only."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING

from upsolve.files import cache_folder

if TYPE_CHECKING:
    from upsolve.config import VerifyConfig

__all__ = ["ANALYSES", "ISOLATIONS", "Judging", "Limits", "judging_of"]

ANALYSES = frozenset({"complexity", "dead", "lint", "security", "syntax", "types"})
"""Names of the analyses there are."""
ISOLATIONS = ("required", "best_effort", "gvisor")
"""Values of ``Judging.isolation``."""


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
    test_seconds: float = float("inf")
    """Elapsed time of one test; the tests after it still run."""

    def __post_init__(self) -> None:
        for name in (f.name for f in fields(self)):
            if getattr(self, name) <= 0:
                raise ValueError(f"limit {name} must be positive, got {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class Judging:
    """How attempts are judged."""

    limits: Limits = field(default_factory=Limits)
    """Of one attempt."""
    isolation: str = "required"
    """``required``: refuse to judge without the layers of sandbox.REQUIRED; ``best_effort``: use the layers there are; ``gvisor``: those
    of ``required`` in a container of gVisor, so that attempts do not share this machine's kernel."""
    workers: int = 0
    """Worker processes, >= 0; 0 means one for each core that may be used (affinity mask and quota)."""
    executor: str = "local"
    """``local``: processes here; ``ray``: tasks of a Ray cluster."""
    lines: bool = False
    """Record which lines of a Python attempt were executed. The attempt's own process records them, so it can forge them."""
    repeats: int = 1
    """Times that each attempt is judged, >= 1; one whose outcomes differ gets a finding ``flaky``."""
    analyses: tuple[str, ...] = ()
    """What is found out without running the code: names of ``ANALYSES``."""
    cache: Path | None = None
    """File of verdicts by content; None: judge everything."""

    def __post_init__(self) -> None:
        if self.isolation not in ISOLATIONS:
            raise ValueError(f"isolation is {', '.join(ISOLATIONS)}; not {self.isolation!r}")
        if wrong := set(self.analyses) - ANALYSES:
            raise ValueError(f"analyses are {', '.join(sorted(ANALYSES))}; not {', '.join(sorted(wrong))}")
        if self.repeats < 1:
            raise ValueError(f"repeats must be at least 1, got {self.repeats}")
        if self.executor not in ("local", "ray"):
            raise ValueError(f"executor is local or ray, not {self.executor!r}")


def judging_of(config: VerifyConfig, *, lines: bool = False) -> Judging:
    """Return how a recipe wants attempts judged.

    Args:
        config: the recipe's ``verify`` section.
        lines: record executed lines.
    """
    c = config
    limits = Limits(c.wall_seconds, c.cpu_seconds, c.memory_bytes, c.output_bytes, test_seconds=c.test_seconds or float("inf"))
    cache = cache_folder() / "verdicts.sqlite" if c.cache else None
    return Judging(limits, c.isolation, c.workers, c.executor, lines, c.repeats, c.analyses, cache)
