"""Configuration of advantages and objectives."""

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from upsolve.config.select import checked_pairs
from upsolve.config.strict import RecordConfig, Rule, Strict, check_options
from upsolve.plugins import named

__all__ = [
    "AdvantageConfig",
    "ClipConfig",
    "CorrectionConfig",
    "GaeConfig",
    "KlConfig",
    "ObjectiveConfig",
]

if TYPE_CHECKING:  # a call is no type for pyright
    AdvantageName: TypeAlias = Any
    CreditName: TypeAlias = str
    ObjectiveName: TypeAlias = Any
else:
    AdvantageName, CreditName, ObjectiveName = named("advantage"), named("credit"), named("objective")


class GaeConfig(Strict):
    """Generalised advantage estimation: token rewards and values -> token advantages."""

    gamma: float = Field(default=1.0, ge=0, le=1)
    """Discount per token."""
    decay: float = Field(default=0.95, ge=0, le=1)
    """Lambda: 0 relies on the value head only, 1 on the rewards only."""
    whiten: bool = True
    """Give the advantages of a round's tokens mean 0 and deviation 1."""


class AdvantageConfig(RecordConfig):
    """Rewards of a group -> advantages."""

    NAMED_BY = ("advantage", "kind")

    kind: AdvantageName = "leave_one_out"
    """Estimator (docs/advantages.md): built in, ``package.module:attribute``, or of an installed package."""
    options: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Settings of the estimator (docs/advantages.md), such as k of ``pkpo``."""
    options_end: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Values of options in the last round (offline: epoch), such as ``{k: 1}``; options change linearly from round to round up to these."""
    beta: float = Field(default=1.0, gt=0)
    """Inverse temperature of ``exponential``; temperature of ``awr``."""
    clip: float | None = Field(default=1.0, gt=0)
    """``exponential``: normalised advantages are clipped to [-clip, clip]; null: not clipped."""
    ddof: Literal[0, 1] = 1
    """``standardised``, ``exponential``: 1 is the sample deviation, 0 the population deviation."""
    epsilon: float = Field(default=1e-6, ge=0)
    """Added to the deviation."""
    max_weight: float = Field(default=20.0, gt=0)
    """Cap of the weights of ``exponential`` and ``awr``."""
    delta: float = -0.1
    """``asymre``: the baseline is the group mean plus delta; at or above zero it is known to collapse."""
    blame: float = Field(default=0.0, ge=0, le=1)
    """Share of a negative advantage that moves to the tokens that caused the failure, if these are known (docs/credit.md, ``blame``)."""
    negatives: CreditName | None = None
    """Credit (docs/credit.md), such as ``divergence``, that chooses the tokens which keep a negative advantage; null: all tokens keep it."""
    gae: GaeConfig = GaeConfig()

    @property
    def needs_values(self) -> bool:
        """True if advantages are computed for every token from a value head."""
        return self.record.reads == "values"

    def at(self, number: int, rounds: int) -> Self:
        """Return the settings of a round, counted from 0; integer options are rounded to the nearest (a half up)."""
        done, start = min(1.0, number / max(1, rounds - 1)), self.settings
        now = {name: start[name] + done * (end - start[name]) for name, end in self.options_end.items()}
        whole = {name: math.floor(value + 0.5) for name, value in now.items() if type(start[name]) is int}
        return self.model_copy(update={"options": {**self.options, **now, **whole}}) if now else self

    @model_validator(mode="after")
    def changing_options_are_numbers(self) -> Self:
        """Refuse options that the estimator does not have, and options that are not numbers."""
        if self.options_end:
            check_options(f"advantage.options_end: {self.kind}", self.record.options, self.options_end)
            for name, end in self.options_end.items():
                if isinstance(end, str | bool):
                    raise ValueError(
                        f"advantage.options_end: option {name} of {self.kind} is not a number, so it cannot change"
                    )
        return self


class ClipConfig(Strict):
    """Clips and masks of the ratio pi / pi_old."""

    low: float = Field(default=0.2, ge=0, le=1)
    """``ppo_clip``, ``gspo``: ratios below 1 - low are clipped where A < 0; by default 3e-4 for ``gspo``."""
    high: float = Field(default=0.2, ge=0)
    """``ppo_clip``, ``gspo``: ratios above 1 + high are clipped where A > 0; 0.28 in DAPO; by default 4e-4 for ``gspo``."""
    cap: float = Field(default=5.0, gt=0)
    """``cispo``: largest weight."""
    second_moment: float = Field(default=0.04, ge=0)
    """``m2po``: largest mean of the squared log-ratio over the kept tokens."""
    sequence_kl: float | None = Field(default=None, ge=0)
    """OPSM, with any objective: attempts with A < 0 are masked if their mean log(pi_old / pi), nats, exceeds this; null: no mask."""


class CorrectionConfig(Strict):
    """Importance weights pi_old/mu for a sampler mu whose probabilities differ from the trainer's (docs/objectives.md)."""

    RULES = (
        Rule(
            lambda c: c.low <= 1 <= c.high,
            "low and high: the range must contain 1, where sampler and trainer agree; got [{0.low}, {0.high}]",
        ),
    )

    kind: Literal["none", "tis", "icepop"] = "none"
    """``tis``: min(k, cap), truncated importance sampling; ``icepop``: k where it is within [low, high], else the token is masked."""
    cap: float = Field(default=2.0, gt=0)
    """``tis``: largest weight."""
    low: float = Field(default=0.5, ge=0)
    """``icepop``: smallest ratio that is kept."""
    high: float = Field(default=5.0, gt=0)
    """``icepop``: largest ratio that is kept."""


class KlConfig(Strict):
    """The KL penalty towards the reference (the frozen start)."""

    coefficient: float = Field(default=0.0, ge=0)
    """Weight of the penalty; 0: none."""
    estimator: Literal["k1", "k2", "k3"] = "k3"
    """``k1`` as a loss has a gradient of mean zero on the policy's own samples."""
    place: Literal["loss", "reward"] = "loss"
    """``reward``: subtract it from the reward of every token instead (``advantage.kind: gae`` only; always k3)."""


class ValueConfig(Strict):
    """The value head of ``advantage.kind: gae``."""

    coefficient: float = Field(default=0.1, gt=0)
    """Weight of the value head's loss, which is added to the policy's loss."""
    clip: float = Field(default=0.3, gt=0)
    """Largest change of a value since the start of the round that has a gradient, in units of the return (2605.21180: 0.3)."""
    lr: float = Field(default=1e-4, gt=0)
    """Learning rate of the head, which is initialised to zero and needs a higher one; it follows ``optim.schedule``."""


class PreferenceConfig(Strict):
    """Settings of ``dpo``, ``kto`` and ``rank``."""

    beta: float = Field(default=0.1, gt=0)
    """Factor of log pi/ref."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=0.5)
    """``dpo``: assumed share of wrong labels."""
    pairs: Annotated[str | tuple[str, ...], AfterValidator(checked_pairs)] = "outcome"
    """``dpo``: ``outcome`` (passed before failed), ``edit`` (the same, smallest edits first), ``efficiency`` (both passed, the faster first),
    ``reward``, or an SQL condition such as ``chosen.passed AND NOT rejected.passed``; several take turns (docs/selection.md)."""
    focal: bool = False
    """``dpo``: use only tokens of lines in which the two attempts differ."""
    desirable: float = Field(default=1.0, gt=0)
    """``kto``: weight of an attempt with a positive advantage."""
    undesirable: float = Field(default=1.0, gt=0)
    """``kto``: weight of any other attempt."""


class ObjectiveConfig(RecordConfig):
    """Advantages and log-probabilities -> loss."""

    NAMED_BY = ("objective", "kind")

    kind: ObjectiveName = "reinforce"
    """Loss (docs/objectives.md): built in, ``package.module:attribute``, or of an installed package."""
    options: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Options of the objective (docs/objectives.md), such as floor of ``nft``."""
    reduce: Literal["sequence_sum", "sequence_mean", "token_mean", "constant_length"] = "token_mean"
    """Denominator of the sum over tokens: attempts, the length of each attempt, tokens, or attempts times ``length``."""
    length: int = Field(default=1024, ge=1)
    """``constant_length``: tokens, such as the longest completion; the same for the whole run."""
    beta_value: float = Field(default=1.0, gt=0)
    """``oapl``: temperature of the soft value over the group."""
    beta_policy: float = Field(default=1e-3, gt=0)
    """``oapl``: weight of the log-ratio."""
    beta_dro: float = Field(default=1e-2, gt=0)
    """``dro``: weight of the squared log-ratio of an attempt; the default is upsolve's, not the paper's."""
    clip: ClipConfig = ClipConfig()
    correction: CorrectionConfig = CorrectionConfig()
    kl: KlConfig = KlConfig()
    value: ValueConfig = ValueConfig()
    preference: PreferenceConfig = PreferenceConfig()

    @model_validator(mode="before")
    @classmethod
    def sequences_are_clipped_narrowly(cls, data: Any) -> Any:
        """Set the clip of ``gspo`` where a recipe does not: its ratios are means over an attempt, which stay near 1."""
        clip: Any = data.get("clip", {}) if isinstance(data, dict) and data.get("kind") == "gspo" else None
        return {**data, "clip": {"low": 3e-4, "high": 4e-4, **clip}} if isinstance(clip, dict) else data

    @property
    def needs_reference(self) -> bool:
        """True when the loss reads the log-probabilities of the frozen start."""
        return "reference" in self.record.reads or self.kl.coefficient > 0

    @property
    def needs_old(self) -> bool:
        """True when the loss reads the log-probabilities of pi_old, the policy that sampled the attempts."""
        return "old" in self.record.reads or self.clip.sequence_kl is not None or self.correction.kind != "none"

    @property
    def needs_statistic(self) -> bool:
        """True when the loss needs a statistic over the step: one more forward pass if a step has several micro-batches."""
        return self.record.step_statistic is not None
