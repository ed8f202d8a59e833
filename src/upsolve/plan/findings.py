"""What a plan consists of: one record for each question that it answers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from upsolve.evaluate.intervals import Estimate

__all__ = ["BasePass", "Cost", "Groups", "Leaks", "Likelihood", "Noise", "Plan", "Share", "Tests", "share"]

Z = 1.959964
"""Quantile of the normal distribution for 95 % intervals."""


@dataclass(frozen=True, slots=True)
class Share:
    """A share of a sample with its 95 % interval."""

    count: int
    """Members of the sample that it holds for, 0..of."""
    of: int
    """Size of the sample, >= 0."""
    low: float
    """Lower end, 0..1; 0 for an empty sample."""
    high: float
    """Upper end, 0..1; 1 for an empty sample."""

    @property
    def value(self) -> float:
        """Return count / of; nan for an empty sample."""
        return self.count / self.of if self.of else math.nan


def share(count: int, of: int) -> Share:
    """Return a share with its Wilson interval (center +- half) / (1 + z^2 / n).

    center = p + z^2 / 2n, half = z sqrt(p (1 - p) / n + z^2 / 4n^2), z = 1.96: it stays within [0, 1] and is right for small samples.

    Raises:
        ValueError: not 0 <= count <= of.
    """
    if not 0 <= count <= of:
        raise ValueError(f"a share needs 0 <= count <= of, got {count} of {of}")
    if not of:
        return Share(0, 0, 0.0, 1.0)
    p, scale = count / of, 1 + Z * Z / of
    center, half = p + Z * Z / (2 * of), Z * math.sqrt(p * (1 - p) / of + Z * Z / (4 * of * of))
    return Share(count, of, max(0.0, (center - half) / scale), min(1.0, (center + half) / scale))


@dataclass(frozen=True, slots=True)
class Groups:
    """What the recipe can train on."""

    tasks: int
    """Tasks of the archive."""
    attempts: int
    """Distinct attempts of the archive."""
    training_tasks: int
    """Tasks of the training split."""
    mixed: int
    """Training tasks whose attempts, as the recipe takes them, form a group with a passed and a failed one."""
    others: Mapping[str, int]
    """Training tasks without such a group, by reason."""
    left_out: Mapping[str, int]
    """Attempts of training tasks without a reward, by reason."""


@dataclass(frozen=True, slots=True)
class Tests:
    """How strong the tests are."""

    __test__ = False  # not a pytest class

    fewest: int
    """Fewest tests of a task."""
    median: float
    """Median of tests per task."""
    most: int
    """Most tests of a task."""
    discerning: Share
    """Tasks whose tests fail at least one attempt, of the tasks with a scored attempt."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Whether recorded verdicts hold when a random sample of attempts is judged anew."""

    agreement: Share
    """Attempts whose fresh verdict is a pass where the recorded one is, and only there."""
    false_passes: int
    """Attempts that passed by the record and do not pass now."""
    false_failures: int
    """Attempts that did not pass by the record and pass now."""
    unscored: int
    """Attempts that could not be judged here; not part of ``agreement``."""


@dataclass(frozen=True, slots=True)
class Leaks:
    """Tasks that are nearly the same as a task that is measured on."""

    counts: Mapping[str, int]
    """Tasks of the test split, or of a benchmark, with a twin among training and dev tasks: by name of the set."""
    sizes: Mapping[str, int]
    """Tasks of each of these sets."""
    examples: tuple[str, ...]
    """Some pairs, with what is alike."""


@dataclass(frozen=True, slots=True)
class Likelihood:
    """How likely the model finds the attempts: mean log-probability per token, nats, averaged over attempts, with 95 % intervals."""

    passed: Estimate | None
    """Attempts that passed; None where there are none."""
    failed: Estimate | None
    """Attempts that did not pass; None where there are none."""
    own: Estimate | None
    """The model's own samples at temperature 1; None where none has a token."""
    by_model: Share
    """Attempts whose author is this model, of all attempts."""


@dataclass(frozen=True, slots=True)
class BasePass:
    """How often the model passes tasks before training."""

    difficulty: str
    """Label of the tasks; ``all`` for all of them."""
    tasks: int
    """Tasks sampled."""
    greedy: Share
    """Greedy answers that passed, of those that were scored."""
    sampled: Share
    """Samples at temperature 1 that passed, of those that were scored (the interval takes them as independent)."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a run of the recipe takes on this machine."""

    peak_bytes: int
    """Memory of one process."""
    available_bytes: int
    """Memory that is free here."""
    score_tokens_per_second: float
    """Forward passes, as measured."""
    sample_tokens_per_second: float
    """Sampling, as measured; nan where nothing was sampled."""
    training_tokens: int
    """Tokens of all forward and backward passes."""
    training_seconds: float
    """Three times the time of a forward pass over these tokens: a backward pass costs two forward passes."""
    rollout_seconds: float
    """Sampling during training; 0 offline."""
    evaluation_seconds: float
    """Sampling for the evaluations before and after training."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All of it."""

    archive: str
    """Folder of the archive."""
    model: str
    """The model; empty where only the archive was looked at."""
    online: bool
    """True if the recipe samples the policy during training."""
    imitates: bool
    """True if the recipe trains on passed attempts alone."""
    groups: Groups
    tests: Tests
    noise: Noise
    leaks: Leaks
    likelihood: Likelihood | None
    base: tuple[BasePass, ...]
    """One record for each difficulty, and the last for all tasks; () without a model."""
    cost: Cost | None
    advice: str
    """One sentence, by rule (docs/plan.md)."""
