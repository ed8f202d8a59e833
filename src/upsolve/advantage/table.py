"""Advantage estimators that a recipe can name (``advantage.kind``); docs/advantages.md shows how to add one.

Legend: G attempts of a group; rewards_G, advantages_G float64 [G]; passed_G bool [G].
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from upsolve.advantage import group
from upsolve.advantage.group import Bools, Floats, check
from upsolve.config import AdvantageConfig
from upsolve.plugins import RecordError, only, reraise

__all__ = ["ADVANTAGES", "NEEDED", "Advantage", "AdvantageInputs", "Needs", "advantage"]


@dataclass(frozen=True, slots=True)
class AdvantageInputs:
    """Inputs of an estimator, for one group."""

    rewards_G: Floats
    """float64 [G], finite."""
    passed_G: Bools
    """bool [G]: which attempts passed, by their verdicts (``Rewarded.passed``).
    The reward alone does not tell: a finding of Ruff lowers the reward of a passed attempt."""
    logp_G: Floats
    """float64 [G], nats: sum of the log-probabilities that the author gave the tokens of each attempt; nan where unknown."""
    seed: int = 0
    """Seed for estimators that use random numbers, in [0, 2^32); computed from ``data.seed``, the task and the group's attempts."""


Needs = Literal["contrast", "pass", "attempt"]
"""Attempts that a stored group must have for an estimator to learn from it."""
NEEDED: Mapping[Needs, str] = {
    "contrast": "a passed and a failed attempt",
    "pass": "a passed attempt",
    "attempt": "a scored attempt",
}
"""``Needs`` -> the words of messages."""


@dataclass(frozen=True, slots=True)
class Advantage:
    """An estimator of advantages that a recipe can name (``advantage.kind``)."""

    estimate: Callable[[AdvantageInputs, AdvantageConfig], Floats]
    """``estimate(inputs, config) -> advantages_G``, finite; of one group, before its attempts are tokenised."""
    reads: Literal["rewards", "values"] = "rewards"
    """``values``: the advantage of each token is computed from the value head (``gae``), online only; ``estimate`` is not called."""
    nonnegative: bool = False
    """True if no advantage is below 0, so that settings which act on negative advantages have no effect."""
    selects: bool = False
    """True if 0 means "not in the data set" (imitation): such attempts do not count in the denominators of ``objective.reduce``."""
    needs: Needs = "contrast"
    """Attempts that a stored group must have: ``contrast``, a passed and a failed attempt; ``pass``, a passed one, which
    ``selects`` implies; ``attempt``, any scored one."""
    failed: Literal["negative", "zero", "any"] = "any"
    """Advantage of a failed attempt. ``negative``: below 0 in a group with a passed attempt, 0 in a group of one outcome; ``zero``: 0, and
    positive for passed attempts; ``any``: the sign depends on the group's rewards."""
    options: Mapping[str, float | int | bool | str] = field(default_factory=dict[str, float | int | bool | str])
    """Options of the estimator with their defaults; a recipe sets them under ``advantage.options``, estimators read ``config.settings``."""

    def __post_init__(self) -> None:
        """Raise ValueError if ``reads`` or ``failed`` has an unknown value."""
        only("reads", (self.reads,), ("rewards", "values"))
        only("failed", (self.failed,), ("negative", "zero", "any"))
        only("needs", (self.needs,), get_args(Needs))
        if self.selects and self.needs == "contrast":
            object.__setattr__(self, "needs", "pass")


ADVANTAGES: Mapping[str, Advantage] = {
    "all": Advantage(lambda i, _: np.ones_like(i.rewards_G), nonnegative=True, needs="attempt"),
    "asymre": Advantage(lambda i, c: group.asymre(i.rewards_G, delta=c.delta)),
    "awr": Advantage(lambda i, c: group.awr(i.rewards_G, beta=c.beta, max_weight=c.max_weight), nonnegative=True),
    "centred": Advantage(lambda i, _: group.centred(i.rewards_G)),
    "exponential": Advantage(
        lambda i, c: group.exponential(
            i.rewards_G, beta=c.beta, clip=c.clip, max_weight=c.max_weight, ddof=c.ddof, epsilon=c.epsilon
        ),
        nonnegative=True,
    ),
    "gae": Advantage(lambda i, _: np.zeros_like(i.rewards_G), reads="values"),
    "leave_one_out": Advantage(lambda i, _: group.leave_one_out(i.rewards_G)),
    "max_at_k": Advantage(lambda i, c: group.max_at_k(i.rewards_G, k=c.settings["k"]), nonnegative=True, options={"k": 4}),
    "maxrl": Advantage(lambda i, _: group.maxrl(i.passed_G), failed="negative"),
    "pass_at_k": Advantage(lambda i, c: group.pass_at_k(i.passed_G, k=c.settings["k"]), options={"k": 4}),
    "passed": Advantage(lambda i, _: i.passed_G.astype(np.float64), nonnegative=True, selects=True, failed="zero"),
    "pkpo": Advantage(lambda i, c: group.pkpo(i.passed_G, k=c.settings["k"]), options={"k": 4}),
    "standardised": Advantage(lambda i, c: group.standardised(i.rewards_G, ddof=c.ddof, epsilon=c.epsilon)),
    "unlikeliness": Advantage(
        lambda i, c: group.unlikeliness(i.rewards_G, i.logp_G, beta=c.settings["beta"], ddof=c.ddof, epsilon=c.epsilon),
        options={"beta": 0.25},
    ),
}
"""Built-in name -> estimator."""


def advantage(
    rewards_G: Floats, config: AdvantageConfig, *, passed_G: Bools, logp_G: Floats | None = None, seed: int = 0
) -> Floats:
    """Return the advantages of a group by the estimator that a recipe names; ``logp_G``: see ``AdvantageInputs``, None if unknown.

    Raises:
        ValueError: the estimator works on tokens (``gae``), or rewards and passes differ in shape.
        RecordError: a plug-in raised an exception, or returned another shape, a number that is not finite, or one below 0 that it excludes.
    """
    record: Advantage = config.record
    if record.reads == "values":
        raise ValueError(
            f"advantage.kind {config.kind} needs a value head: set source.rounds to train online, or choose another kind"
        )
    rewards = check(rewards_G)
    if np.shape(passed_G) != rewards.shape:
        raise ValueError(f"{rewards.size} rewards and passes of shape {np.shape(passed_G)}; give one of each for each attempt")
    logps = np.full(rewards.size, np.nan) if logp_G is None else logp_G
    inputs = AdvantageInputs(rewards, np.asarray(passed_G, dtype=np.bool_), logps, seed)
    try:
        advantages_G: Any = np.asarray(record.estimate(inputs, config), dtype=np.float64)
    except Exception as error:
        reraise("advantage", config.kind, error)
    if advantages_G.shape != rewards.shape or not np.isfinite(advantages_G).all():
        raise RecordError(f"advantage.kind {config.kind}: expected {rewards.size} finite advantages, got {advantages_G!r}")
    if record.nonnegative and (advantages_G < 0).any():
        raise RecordError(
            f"advantage.kind {config.kind}: declared nonnegative, but got {advantages_G!r}; leave out nonnegative=True"
        )
    return advantages_G
