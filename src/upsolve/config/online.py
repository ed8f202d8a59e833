"""Sources of groups in online and hybrid training."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from upsolve.config.running import SampleConfig
from upsolve.config.strict import Rule, Strict
from upsolve.plugins import find, names

__all__ = ["Kind", "OwnConfig", "RolloutConfig", "SourceConfig"]

Kind = Literal["archive", "policy", "replay"]


class RolloutConfig(SampleConfig):
    """Sampling from the policy in training; by default from its full distribution."""

    temperature: float = Field(default=1.0, ge=0)
    """Sampling temperature; values other than 1 make training off-policy."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Nucleus; values below 1 make training off-policy."""


def are_shares(mix: Mapping[Kind, float], *, empty: bool) -> bool:
    """Return whether all shares are >= 0 and one is > 0; ``empty``: having no shares is also valid."""
    return min(mix.values(), default=0) >= 0 and (sum(mix.values()) > 0 or (empty and not mix))


class SourceConfig(Strict):
    """Rounds of sampling, judging and training; 0 rounds: offline, on the archive alone."""

    RULES = (
        Rule(
            lambda s: not s.rounds or s.rollout.record.follow is not None,
            lambda s: (
                f"rollout.engine: {s.rollout.engine} does not get the trained weights; use one of: "
                f"{', '.join(name for name in names('engine') if find('engine', name).follow is not None)}"
            ),
        ),
        Rule(
            lambda s: not s.ahead or s.rollout.record.beside is not None,
            lambda s: (
                f"ahead: {s.ahead}: rollout.engine: {s.rollout.engine} does not sample beside the trainer; use one of: "
                f"{', '.join(name for name in names('engine') if find('engine', name).beside is not None)}"
            ),
        ),
        Rule(
            lambda s: not s.ahead or s.hints_passed is None,
            "ahead: {0.ahead}: hints_passed reads the results of the round before, which are not there yet; leave one of them out",
        ),
        Rule(
            lambda s: s.max_staleness is None or s.ahead <= s.max_staleness,
            "ahead: {0.ahead} trains on samples of weights up to {0.ahead} rounds old, and max_staleness is {0.max_staleness}; lower ahead",
        ),
        *(
            Rule(
                lambda s, name=name: are_shares(getattr(s, name), empty=name == "mix_end"),
                f"{name}: shares must be >= 0 and not all 0; got {{0.{name}}}",
            )
            for name in ("mix", "mix_end")
        ),
        *(
            Rule(
                lambda s, name=name: 0 <= getattr(s, name)[0] <= getattr(s, name)[1] <= 1,
                f"{name}: must be two pass rates in rising order between 0 and 1; got {{0.{name}}}",
            )
            for name in ("solved", "replay_solved")
        ),
    )

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
    """Share of the reference's lines that samples of the first round continue, falling to 0 in the last. With ``model.completion: answer`` the
    prompt shows the lines instead."""
    hints_passed: float | None = Field(default=None, ge=0, lt=1)
    """Pass rate of a task's samples above which its hint gets shorter (CCCS, 2402.01391): samples continue the reference up to a conditional
    statement, first the last one within the share ``hints``, then the one before, and so on; null: ``hints`` falls with the rounds."""
    ahead: int = Field(default=0, ge=0)
    """Rounds that are sampled and judged before the trainer reaches them, in the background, with weights as many rounds old; 0: sample and
    train in turn. The engine must have servers; losses of tokens also need ``objective.correction``."""
    max_staleness: int | None = Field(default=None, ge=0)
    """Most rounds between the weights that sampled a group and those that train on it, new or replayed; null: as old as ``ahead`` and
    ``replay_rounds`` make them."""
    rollout: RolloutConfig = RolloutConfig()
    """How the policy is sampled. ``data.group_size`` is the number of samples of a task; another value of ``samples`` is rejected."""

    def takes(self, kind: Kind) -> bool:
        """Return whether a round can have groups from a source."""
        return self.mix.get(kind, 0) > 0 or self.mix_end.get(kind, 0) > 0


UNSOLVED = 8
"""Ratio of tasks with only failed attempts to tasks with a passed one, from which failures are imitated first. Near misses gain at ratios 29 and 9,
and lose at 2 (docs/failures.md)."""


class OwnConfig(Strict):
    """Rounds of own judged samples after training on the archive (``upsolve run``); 0 rounds: none."""

    rounds: int = Field(default=0, ge=0)
    """Most rounds. Each samples the best model so far, judges the samples, and trains that model on the passed ones. The first round without a gain
    on dev tasks is the last, and its model is not the result."""
    tasks: int = Field(default=400, ge=1)
    """Number of training tasks that a round samples: first tasks that no attempt passed, then others at random."""
    samples: int = Field(default=4, ge=1)
    """Number of samples of each task."""
    temperature: float = Field(default=0.8, gt=0)
    """Temperature of these samples."""
    steps: int = Field(default=0, ge=0)
    """Optimizer steps of a round; 0: as many as the training on the archive (``optim.max_steps``)."""
    repeats: int = Field(default=0, ge=0)
    """Most repetitions of the training on the archive, before the rounds. Each continues from the best model so far, for as many steps as this model
    had. The first repetition without a gain on dev tasks is the last, and its model is not the result."""
    failures: bool = False
    """Before the rounds, also imitate the failed attempts of tasks that nobody solved, then train on the archive, if such tasks are at least
    8 times (``UNSOLVED``) as many as solved ones. The model is kept if dev tasks gain (docs/failures.md)."""
    control: bool = True
    """Also train the first model on the archive for as many steps as the kept rounds,
    and measure it: this control shows what the rounds add to longer training."""
