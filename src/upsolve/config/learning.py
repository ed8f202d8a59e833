"""From verdicts to a loss: rewards, advantages, objectives."""

from typing import Literal

from pydantic import Field

from upsolve.config.strict import Strict
from upsolve.types import Status

__all__ = ["AdvantageConfig", "ObjectiveConfig", "RewardConfig"]

OUTCOMES = {
    Status.PASSED: 1.0,
    Status.FAILED: -0.1,
    Status.TIMEOUT: -0.5,
    Status.RUNTIME_ERROR: -0.6,
    Status.COMPILE_ERROR: -1.0,
    Status.MEMORY_LIMIT: -0.5,
    Status.OUTPUT_LIMIT: -0.5,
}


class RewardConfig(Strict):
    """Verdict -> reward."""

    outcomes: dict[Status, float] = Field(default_factory=lambda: dict(OUTCOMES))
    """Reward of each status; an attempt whose status is missing here is left out, and counted."""


class AdvantageConfig(Strict):
    """Rewards of a group -> advantages."""

    kind: Literal["passed", "centred", "leave_one_out", "standardised", "exponential", "awr", "asymre"] = "leave_one_out"
    beta: float = Field(default=1.0, gt=0)
    """Inverse temperature of ``exponential``; temperature of ``awr``."""
    ddof: Literal[0, 1] = 1
    """Degrees of freedom of the deviation in ``standardised``."""
    epsilon: float = Field(default=1e-6, ge=0)
    """Added to the deviation."""
    max_weight: float = Field(default=20.0, gt=0)
    """Cap of the weights of ``exponential`` and ``awr``."""
    delta: float = -0.1
    """``asymre``: the baseline is the group mean plus delta; at or above zero it is known to collapse."""


class ObjectiveConfig(Strict):
    """Advantages and log-probabilities -> loss."""

    kind: Literal["reinforce", "dft", "topr", "oapl"] = "reinforce"
    reduce: Literal["sequence_sum", "sequence_mean", "token_mean"] = "sequence_sum"
    """What divides the sum over tokens: the number of attempts, each length, or the number of tokens."""
    beta_value: float = Field(default=1.0, gt=0)
    """``oapl``: temperature of the soft value over the group."""
    beta_policy: float = Field(default=1e-3, gt=0)
    """``oapl``: weight of the log-ratio."""

    @property
    def needs_reference(self) -> bool:
        """True when the loss reads the log-probabilities of the frozen start."""
        return self.kind in ("topr", "oapl")
