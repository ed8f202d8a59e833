"""What a component reads, and what it contributes."""

from dataclasses import dataclass

from upsolve.types import Attempt, Task, Verdict

__all__ = ["Judged", "Part"]


@dataclass(frozen=True, slots=True)
class Judged:
    """An attempt with its verdict: the input of every component."""

    task: Task
    """The task."""
    attempt: Attempt
    """The attempt."""
    verdict: Verdict
    """Its verdict, not ``UNSCORED``."""
    baseline_seconds: float | None = None
    """Processor time that the attempt's own is compared with, seconds, > 0; None if unknown."""


@dataclass(frozen=True, slots=True)
class Part:
    """One term of a reward."""

    name: str
    """Name of the component; ``truncated`` or ``hacked`` where a rule sets the whole reward."""
    value: float
    """Value of the component, unweighted."""
    weight: float
    """Weight of the term: a reward is the sum of weight times value."""
