"""The results of an evaluation."""

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Evaluation", "TaskScore"]


@dataclass(frozen=True, slots=True)
class TaskScore:
    """Results of one task in an evaluation."""

    task_id: str
    """The task."""
    difficulty: str
    """Its label."""
    samples: int
    """n, scored samples, >= 0 (unscored ones are left out and counted in ``statuses``)."""
    passed: int
    """c, samples that passed every test, 0..n."""
    statuses: Mapping[str, int]
    """Number of samples by status, unscored included."""
    mean_tokens: float | None = None
    """Mean completion length, tokens."""
    mean_entropy: float | None = None
    """Mean over samples of their mean token entropy, nats."""
    errors: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number of samples by exception name."""
    truncated: int = 0
    """Samples truncated at the token limit."""
    linted: int = 0
    """Samples that Ruff could read: Python that parses."""
    findings: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number of lint and security findings in these, by kind and rule: ``lint:F401``."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Evaluation of a model on a set of tasks, with the settings that reproduce it."""

    name: str
    """Label in tables and pictures, such as ``base``."""
    model: str
    """Model name or folder."""
    tasks: str
    """Name of the task set, such as ``embedded:test``."""
    temperature: float | None
    """Sampling temperature, >= 0; None where folds with different ones are pooled."""
    top_p: float
    """Nucleus mass, (0, 1]."""
    seed: int
    """Seed of the sampler."""
    max_tokens: int
    """Completion limit, tokens."""
    scores: tuple[TaskScore, ...]
    """One score per task, in a fixed order."""
    wall_seconds: float = 0.0
    """Time for sampling and judging."""
    prompts: str = ""
    """Version of the prompt and content id of the prompts of all tasks; empty in files of earlier versions."""

    def __repr__(self) -> str:
        at = "" if self.temperature is None else f", temperature={self.temperature:g}"
        return f"Evaluation({self.name!r}, model={self.model!r}, tasks={self.tasks!r}{at}, {len(self.scores)} scores)"
