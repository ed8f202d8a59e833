"""Sources of groups in online and hybrid training."""

from typing import Literal, Self

from pydantic import Field, model_validator

from upsolve.config.running import SampleConfig
from upsolve.config.strict import Strict
from upsolve.plugins import find, names

__all__ = ["Kind", "RolloutConfig", "SourceConfig"]

Kind = Literal["archive", "policy", "replay"]


class RolloutConfig(SampleConfig):
    """Sampling from the policy in training; by default from its full distribution."""

    temperature: float = Field(default=1.0, ge=0)
    """Sampling temperature; values other than 1 make training off-policy."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Nucleus; values below 1 make training off-policy."""


class SourceConfig(Strict):
    """Rounds of sampling, judging and training; 0 rounds: offline, on the archive alone."""

    rounds: int = Field(default=0, ge=0)
    """Number of rounds, each with ``optim.epochs`` passes over its groups; 0: offline."""
    groups: int = Field(default=16, ge=1)
    """Groups per round, of ``data.group_size`` attempts each."""
    mix: dict[Kind, float] = Field(default_factory=lambda: {"policy": 1.0})
    """Shares of a round's groups by source: stored attempts, new samples of the policy, samples of earlier rounds."""
    mix_end: dict[Kind, float] = Field(default_factory=dict[Kind, float])
    """Shares in the last round, interpolated linearly from ``mix``; empty: ``mix`` throughout."""
    oversample: float = Field(default=1.0, ge=1)
    """Dynamic sampling (DAPO, 2503.14476): sample at up to this multiple of tasks, until enough groups have unequal rewards."""
    order: Literal["random", "easy_first", "hard_first"] = "random"
    """Order of tasks: random, or a curriculum that starts with the highest (lowest) pass rates in the archive and ends with all tasks."""
    solved: tuple[float, float] = (0.0, 1.0)
    """Only tasks whose pass rate in the archive, if known, lies in this range."""
    replay_rounds: int = Field(default=4, ge=1)
    """Oldest round of ``replay``, in rounds before the current one."""
    replay_solved: tuple[float, float] = (0.0, 1.0)
    """``replay`` uses groups with a pass rate in this range."""
    hints: float = Field(default=0.0, ge=0, le=1)
    """Share of the reference's lines shown in the prompt in the first round, falling to 0 in the last (after CCCS, 2402.01391)."""
    rollout: RolloutConfig = RolloutConfig()
    """How the policy is sampled; ``data.group_size`` is the number of samples of a task, and another ``samples`` is refused."""

    @model_validator(mode="after")
    def engine_follows_the_policy(self) -> Self:
        """Refuse online training with an engine that does not get the trained weights."""
        if self.rounds and not self.rollout.record.follows_policy:
            able = ", ".join(name for name in names("engine") if find("engine", name).follows_policy)
            raise ValueError(f"rollout.engine: {self.rollout.engine} does not get the trained weights; use one of: {able}")
        return self

    @model_validator(mode="after")
    def shares_are_shares(self) -> Self:
        """Refuse negative or all-zero shares, and ranges in the wrong order."""
        for name, mix in (("mix", self.mix), ("mix_end", self.mix_end)):
            if min(mix.values(), default=0) < 0 or ((mix or name == "mix") and sum(mix.values()) <= 0):
                raise ValueError(f"{name}: shares must be >= 0 and not all 0; got {mix}")
        for name, (low, high) in (("solved", self.solved), ("replay_solved", self.replay_solved)):
            if not 0 <= low <= high <= 1:
                raise ValueError(f"{name}: must be two pass rates in rising order between 0 and 1; got {(low, high)}")
        return self
