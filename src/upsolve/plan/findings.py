"""The records of a plan, one for each question that it answers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from upsolve.evaluate.intervals import Estimate, share_interval

__all__ = ["BasePass", "Cost", "Groups", "Leaks", "Likelihood", "Noise", "Plan", "Share", "Tests", "share"]


@dataclass(frozen=True, slots=True)
class Share:
    """A proportion of a sample with its 95 % interval."""

    count: int
    """Number of members counted, 0..of."""
    of: int
    """Size of the sample, >= 0."""
    low: float
    """Lower end of the interval, in [0, 1]; 0 for an empty sample."""
    high: float
    """Upper end of the interval, in [0, 1]; 1 for an empty sample."""

    @property
    def value(self) -> float:
        """Return count / of; nan for an empty sample."""
        return self.count / self.of if self.of else math.nan


def share(count: int, of: int) -> Share:
    """Return the share count / of with its 95 % interval, which is accurate for small samples and for shares near 0 and 1.

    Raises:
        ValueError: not 0 <= count <= of.
    """
    return Share(count, of, *share_interval(count, of))


@dataclass(frozen=True, slots=True)
class Groups:
    """Counts of what the recipe can train on."""

    tasks: int
    """Tasks of the archive."""
    attempts: int
    """Distinct attempts of the archive."""
    training_tasks: int
    """Tasks of the training split."""
    mixed: int
    """Training tasks whose attempts, after the recipe's filters, form a group with a passed and a failed attempt."""
    others: Mapping[str, int]
    """Training tasks without such a group, by reason."""
    left_out: Mapping[str, int]
    """Attempts of training tasks without a reward, by reason."""
    passing: int = 0
    """Training tasks that, after the recipe's filters, have an attempt that passed: those that imitation trains on."""


@dataclass(frozen=True, slots=True)
class Tests:
    """Number and strength of the tests."""

    __test__ = False  # not a pytest class

    fewest: int
    """Smallest number of tests of a task."""
    median: float
    """Median of tests per task."""
    most: int
    """Largest number of tests of a task."""
    discerning: Share
    """Tasks with an attempt that fails the tests, as a share of the tasks with a scored attempt."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Agreement of recorded verdicts with fresh ones, on a random sample of attempts."""

    agreement: Share
    """Attempts that passed in both verdicts or in neither, as a share of those scored in both."""
    false_passes: int
    """Attempts that passed by the recorded verdict only."""
    false_failures: int
    """Attempts that passed by the fresh verdict only."""
    unscored: int
    """Attempts whose fresh verdict is unscored; not part of ``agreement``."""


@dataclass(frozen=True, slots=True)
class Leaks:
    """Tasks to measure on that have a near-duplicate among the training and dev tasks."""

    counts: Mapping[str, int]
    """Number of tasks with a near-duplicate, by name of the task set: the test split, or a benchmark."""
    sizes: Mapping[str, int]
    """Number of tasks of each task set."""
    examples: tuple[str, ...]
    """Some pairs of near-duplicates, with what they share."""
    ignored_split: bool = False
    """Whether every task records its split (``split`` of ``Task.extra``) and the recipe splits in another way."""


@dataclass(frozen=True, slots=True)
class Likelihood:
    """Likelihood of attempts under the model: mean log-probability per token, nats, averaged over attempts, with 95 % intervals."""

    passed: Estimate | None
    """Attempts that passed; None without any."""
    failed: Estimate | None
    """Attempts that did not pass; None without any."""
    own: Estimate | None
    """The model's own samples at temperature 1; None if no sample has a token."""
    by_model: Share
    """Attempts whose author is the model, as a share of all attempts."""


@dataclass(frozen=True, slots=True)
class BasePass:
    """Pass rates of the model before training, on the tasks of one difficulty or on all."""

    difficulty: str
    """Difficulty of the tasks; ``all`` for all tasks."""
    tasks: int
    """Number of tasks sampled."""
    greedy: Share
    """Greedy answers that passed, as a share of the scored ones."""
    sampled: Share
    """Samples at temperature 1 that passed, as a share of the scored ones, with the interval over tasks."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Estimated memory and time of a run of the recipe on this machine."""

    peak_bytes: int
    """Peak memory of one process, bytes."""
    available_bytes: int
    """Free memory of this machine or its GPU, bytes."""
    score_tokens_per_second: float
    """Measured speed of forward passes."""
    sample_tokens_per_second: float
    """Measured speed of sampling; nan if nothing was sampled."""
    training_tokens: int
    """Tokens of all training steps, each with one forward and one backward pass."""
    training_seconds: float
    """Three times the time of a forward pass over the training tokens, because a backward pass costs as much as two forward passes."""
    rollout_seconds: float
    """Time of sampling during training; 0 offline."""
    evaluation_seconds: float
    """Time of sampling for the evaluations before and after training."""
    steps: int = 0
    """Optimizer steps; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan: what an archive holds, what a model makes of it, what a run costs, and one sentence of advice."""

    archive: str
    """Folder of the archive."""
    model: str
    """Name or folder of the model; empty if only the archive was examined."""
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
    """One record for each difficulty, then one for all tasks; () without a model."""
    cost: Cost | None
    advice: str
    """One sentence, by rule (docs/plan.md)."""
    warnings: tuple[str, ...] = ()
    """What makes a run say little: few dev tasks, few optimizer steps."""

    @property
    def usable(self) -> int:
        """Training tasks that offline training can use: with ``needed``."""
        return max(self.groups.passing, self.groups.mixed) if self.imitates else self.groups.mixed

    @property
    def needed(self) -> str:
        """What a group needs to be trained on, in words."""
        return "a passed attempt" if self.imitates else "a passed and a failed attempt"
