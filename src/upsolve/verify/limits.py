"""Limits of an attempt and settings of the judge. Imports the standard library only at run time."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING

from upsolve.files import cache_folder

if TYPE_CHECKING:
    from upsolve.config import VerifyConfig

__all__ = ["ANALYSES", "ISOLATIONS", "JudgeSettings", "Limits", "judge_settings"]

ANALYSES = frozenset({"complexity", "dead", "lint", "security", "syntax", "types"})
"""Names of the static analyses."""
ISOLATIONS = ("required", "best_effort", "gvisor")
"""Values of ``JudgeSettings.isolation``."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of an attempt; all must be positive."""

    wall_seconds: float = 10.0
    """Elapsed time of all tests together, seconds."""
    cpu_seconds: float = 5.0
    """CPU time of one process of the attempt, seconds (the kernel rounds it up to whole seconds)."""
    memory_bytes: int = 512 * 2**20
    """Address space of one process, bytes."""
    output_bytes: int = 2**20
    """Size of standard output and of standard error, bytes each."""
    processes: int = 32
    """Number of concurrent processes and threads."""
    test_seconds: float = float("inf")
    """Elapsed time of one test, seconds; after exceeding it the remaining tests still run."""

    def __post_init__(self) -> None:
        for name in (f.name for f in fields(self)):
            if getattr(self, name) <= 0:
                raise ValueError(f"limit {name} must be positive, got {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """Settings of the judge."""

    limits: Limits = field(default_factory=Limits)
    """Limits of each attempt."""
    isolation: str = "required"
    """``required``: refuse to judge without the layers of ``sandbox.runner.REQUIRED``; ``best_effort``: use the available
    layers; ``gvisor``: as ``required``, inside a gVisor container, so that attempts do not use the host's kernel."""
    workers: int = 0
    """Number of worker processes, >= 0; 0: one per usable core (affinity mask and control group quota)."""
    executor: str = "local"
    """``local``: processes on this machine; ``ray``: tasks of a Ray cluster."""
    lines: bool = False
    """Record which lines of a Python attempt were executed. The attempt's own process records them, so it can forge them."""
    repeats: int = 1
    """Number of times that each attempt is judged, >= 1; if outcomes differ, the verdict gets a finding ``flaky``."""
    analyses: tuple[str, ...] = ()
    """Static analyses to run, names from ``ANALYSES``."""
    cache: Path | None = None
    """File of the verdict cache; None: no cache."""

    def __post_init__(self) -> None:
        if self.isolation not in ISOLATIONS:
            raise ValueError(f"isolation must be one of {', '.join(ISOLATIONS)}; got {self.isolation!r}")
        if wrong := set(self.analyses) - ANALYSES:
            raise ValueError(f"analyses must be of {', '.join(sorted(ANALYSES))}; got {', '.join(sorted(wrong))}")
        if self.repeats < 1:
            raise ValueError(f"repeats must be at least 1, got {self.repeats}")
        if self.executor not in ("local", "ray"):
            raise ValueError(f"executor must be local or ray, got {self.executor!r}")


def judge_settings(config: VerifyConfig, *, lines: bool = False) -> JudgeSettings:
    """Return the settings of the judge from a recipe.

    Args:
        config: the recipe's ``verify`` section.
        lines: record executed lines.
    """
    c = config
    limits = Limits(c.wall_seconds, c.cpu_seconds, c.memory_bytes, c.output_bytes, test_seconds=c.test_seconds or float("inf"))
    cache = cache_folder() / "verdicts.sqlite" if c.cache else None
    return JudgeSettings(limits, c.isolation, c.workers, c.executor, lines, c.repeats, c.analyses, cache)
