"""Group -> rewards, with what has none left out and counted."""

from collections import Counter
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from upsolve.config import RewardConfig
from upsolve.reward.components import outcome
from upsolve.types import Group, Verdict

__all__ = ["Rewarded", "reward"]


@dataclass(frozen=True, slots=True)
class Rewarded:
    """A group of which every attempt has a reward."""

    group: Group
    """The attempts that have one, in order."""
    rewards_G: NDArray[np.float64]
    """Their rewards, finite."""
    left_out: Counter[str]
    """Attempts left out, by reason."""


def reward(group: Group, config: RewardConfig) -> Rewarded:
    """Reward every judged attempt of a group; unjudged and unscored attempts are left out, never zero."""
    kept: list[int] = []
    values: list[float] = []
    left_out: Counter[str] = Counter()
    for index, verdict in enumerate(group.verdicts):
        value = None if verdict is None else outcome(verdict, config.outcomes)
        if value is None:
            left_out["not judged" if verdict is None else f"no reward for {verdict.status}"] += 1
        else:
            kept.append(index)
            values.append(value)
    scored = Group(
        group.task,
        tuple(group.attempts[i] for i in kept),
        tuple(cast(Verdict, group.verdicts[i]) for i in kept),
    )
    return Rewarded(scored, np.array(values, dtype=np.float64), left_out)
