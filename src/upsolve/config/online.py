"""Where the groups of an online run come from."""

from typing import Literal, Self

from pydantic import Field, model_validator

from upsolve.config.running import SampleConfig
from upsolve.config.strict import Strict
from upsolve.plugins import find, names

__all__ = ["Kind", "RolloutConfig", "SourceConfig"]

Kind = Literal["archive", "policy", "replay"]


class RolloutConfig(SampleConfig):
    """Sampling from the policy in training: from its own distribution unless told otherwise."""

    temperature: float = Field(default=1.0, ge=0)
    """A policy gradient improves the distribution at temperature 1; another one makes training off-policy."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """1: the whole distribution."""


class SourceConfig(Strict):
    """Rounds of sample, judge, train; none of them: offline, on the archive alone."""

    rounds: int = Field(default=0, ge=0)
    """0: offline. Else so many rounds; ``optim.epochs`` passes over the groups of each."""
    groups: int = Field(default=16, ge=1)
    """Groups a round, of ``data.group_size`` attempts each."""
    mix: dict[Kind, float] = Field(default_factory=lambda: {"policy": 1.0})
    """Shares of the groups by where they come from: stored attempts, new samples of the policy, samples of earlier rounds."""
    mix_end: dict[Kind, float] = Field(default_factory=dict[Kind, float])
    """Shares in the last round, with a straight line from ``mix``; empty: the same throughout."""
    oversample: float = Field(default=1.0, ge=1)
    """Dynamic sampling (DAPO, 2503.14476): try up to so many times as many tasks, until enough groups have unequal rewards."""
    order: Literal["random", "easy_first", "hard_first"] = "random"
    """Which tasks are tried: any; or at first those with the highest (lowest) pass rate in the archive, in the end all."""
    solved: tuple[float, float] = (0.0, 1.0)
    """Only tasks whose pass rate in the archive, where known, lies between these."""
    replay_rounds: int = Field(default=4, ge=1)
    """How many rounds back ``replay`` reaches."""
    replay_solved: tuple[float, float] = (0.0, 1.0)
    """``replay`` takes groups whose pass rate lies between these."""
    hints: float = Field(default=0.0, ge=0, le=1)
    """Share of the reference that the prompt shows in the first round, none in the last (after CCCS, 2402.01391)."""
    rollout: RolloutConfig = RolloutConfig()
    """How the policy is sampled; ``samples`` is not read, ``data.group_size`` is."""

    @model_validator(mode="after")
    def engine_follows_the_policy(self) -> Self:
        """Refuse online training with an engine that does not get the weights that are trained."""
        if self.rounds and not find("engine", self.rollout.engine).follows_policy:
            able = ", ".join(name for name in names("engine") if find("engine", name).follows_policy)
            raise ValueError(
                f"rollout.engine: {self.rollout.engine} does not get the weights that are trained here; use one of: {able}"
            )
        return self

    @model_validator(mode="after")
    def shares_are_shares(self) -> Self:
        """Refuse shares that are negative or all zero, and ranges that do not rise."""
        for name, mix in (("mix", self.mix), ("mix_end", self.mix_end)):
            if min(mix.values(), default=0) < 0 or ((mix or name == "mix") and sum(mix.values()) <= 0):
                raise ValueError(f"{name}: shares at or above 0, not all 0; got {mix}")
        for name, (low, high) in (("solved", self.solved), ("replay_solved", self.replay_solved)):
            if not 0 <= low <= high <= 1:
                raise ValueError(f"{name}: two rising pass rates between 0 and 1; got {(low, high)}")
        return self
