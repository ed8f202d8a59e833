"""From verdicts to a loss: rewards, advantages, objectives."""

from typing import Literal

from pydantic import Field

from upsolve.config.strict import Strict
from upsolve.types import Status

__all__ = ["AdvantageConfig", "ClipConfig", "GaeConfig", "KlConfig", "ObjectiveConfig", "RewardConfig"]

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


class GaeConfig(Strict):
    """Rewards and values a token -> advantages a token."""

    gamma: float = Field(default=1.0, ge=0, le=1)
    """Discount a token."""
    decay: float = Field(default=0.95, ge=0, le=1)
    """Lambda: 0 trusts the value head alone, 1 the rewards alone."""
    whiten: bool = True
    """Give the advantages of a step mean 0 and deviation 1."""


class AdvantageConfig(Strict):
    """Rewards of a group -> advantages."""

    kind: Literal["passed", "centred", "leave_one_out", "standardised", "exponential", "awr", "asymre", "gae"] = "leave_one_out"
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
    gae: GaeConfig = GaeConfig()


class ClipConfig(Strict):
    """What bounds the weight of pi / pi_old."""

    low: float = Field(default=0.2, ge=0, le=1)
    """``ppo_clip``, ``gspo``: ratios below 1 - low are clipped where A < 0; ``gspo`` wants about 3e-4."""
    high: float = Field(default=0.2, ge=0)
    """``ppo_clip``, ``gspo``: ratios above 1 + high are clipped where A > 0; 0.28 is DAPO's, ``gspo`` wants about 4e-4."""
    cap: float = Field(default=5.0, gt=0)
    """``cispo``: largest weight."""
    second_moment: float = Field(default=0.04, ge=0)
    """``m2po``: largest mean of the squared log-ratio over the tokens that are kept."""
    sequence_kl: float | None = Field(default=None, ge=0)
    """OPSM, with any objective: attempts with A < 0 are masked where the mean of log pi_old / pi is above it; None: no mask."""


class KlConfig(Strict):
    """The KL term of the loss, towards the frozen start."""

    coefficient: float = Field(default=0.0, ge=0)
    """0 means no term."""
    estimator: Literal["k1", "k2", "k3"] = "k3"
    """``k1`` as a loss has a gradient of mean zero on the policy's own samples."""


class ValueConfig(Strict):
    """The value head of ``advantage.kind: gae``."""

    coefficient: float = Field(default=0.1, gt=0)
    """Weight of its loss beside the policy's."""
    clip: float = Field(default=0.3, gt=0)
    """How far a value may move from what it was at the start of the round, in units of the reward (2605.21180: 0.3)."""


class ObjectiveConfig(Strict):
    """Advantages and log-probabilities -> loss."""

    kind: Literal["reinforce", "dft", "topr", "oapl", "dro", "ppo_clip", "gspo", "cispo", "m2po"] = "reinforce"
    reduce: Literal["sequence_sum", "sequence_mean", "token_mean", "constant_length"] = "sequence_sum"
    """What divides the sum over tokens: number of attempts, each length, number of tokens, or attempts times ``length``."""
    length: int = Field(default=1024, ge=1)
    """``constant_length``: tokens, such as the longest completion; the same for the whole run."""
    beta_value: float = Field(default=1.0, gt=0)
    """``oapl``: temperature of the soft value over the group."""
    beta_policy: float = Field(default=1e-3, gt=0)
    """``oapl``: weight of the log-ratio."""
    beta_dro: float = Field(default=1e-2, gt=0)
    """``dro``: weight of the squared log-ratio of an attempt; our choice, not the source's."""
    clip: ClipConfig = ClipConfig()
    kl: KlConfig = KlConfig()
    value: ValueConfig = ValueConfig()

    @property
    def needs_reference(self) -> bool:
        """True when the loss reads the log-probabilities of the frozen start."""
        return self.kind in ("topr", "oapl", "dro") or self.kl.coefficient > 0

    @property
    def needs_old(self) -> bool:
        """True when the loss reads the log-probabilities of the policy that made the attempts, or that first saw the batch."""
        return self.kind in ("ppo_clip", "gspo", "cispo", "m2po") or self.clip.sequence_kl is not None
