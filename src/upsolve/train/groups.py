"""Groups to train on, cut from an archive.

Legend: G attempts a group.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from upsolve.advantage import advantage
from upsolve.config import AdvantageConfig, Recipe, RewardConfig
from upsolve.reward.formula import Rewarded, reward
from upsolve.reward.judged import Part
from upsolve.types import Attempt, Group, Status, Verdict

__all__ = ["Cut", "TrainGroup", "cut_groups", "group_of", "passed", "select", "weigh"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TrainGroup:
    """A group ready to be packed."""

    group: Group
    """G judged attempts; those cut from an archive have at least one that passed and one that did not."""
    rewards_G: Floats
    """Their rewards."""
    advantages_G: Floats
    """Their advantages; all 0 where the estimator works on tokens (``gae``)."""
    parts: tuple[tuple[Part, ...], ...] = ()
    """What each reward is the sum of; empty where nothing lays rewards on tokens."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Groups to train on."""

    groups: list[TrainGroup]
    """In random order."""
    left_out: Counter[str]
    """What is not among them, by reason."""
    flagged: Counter[str]
    """Scored attempts that were cut short or that a detector caught, by its name."""

    def scored(self, group: Group, config: RewardConfig) -> Rewarded:
        """Reward a group, and count here what is left out of it and what is flagged."""
        scored = reward(group, config)
        self.left_out.update({f"attempts: {reason}": count for reason, count in scored.left_out.items()})
        self.flagged.update(scored.flagged)
        return scored

    def shuffled(self, random: np.random.Generator) -> "Cut":
        """Return the same with its groups in random order."""
        return replace(self, groups=[self.groups[i] for i in random.permutation(len(self.groups))])


def select(group: Group, authors: Sequence[str]) -> Group:
    """Return the group with only the attempts of these authors; all of them when none is named."""
    keep = [i for i, attempt in enumerate(group.attempts) if not authors or attempt.author in authors]
    return group_of(group, keep)


def group_of(group: Group, indices: Sequence[int]) -> Group:
    """Return the group made of some of its attempts."""
    return Group(group.task, tuple(group.attempts[i] for i in indices), tuple(group.verdicts[i] for i in indices))


def weighed(scored: Rewarded, indices: Sequence[int], config: AdvantageConfig) -> TrainGroup:
    """Return some attempts of a rewarded group with their advantages among themselves."""
    rewards_G = scored.rewards_G[list(indices)]
    advantages_G = np.zeros_like(rewards_G) if config.needs_values else advantage(rewards_G, config)
    return TrainGroup(group_of(scored.group, indices), rewards_G, advantages_G, tuple(scored.parts[i] for i in indices))


def weigh(groups: Sequence[Group], recipe: Recipe) -> Cut:
    """Reward and weigh whole groups, such as those that the policy has just sampled; one without any reward is left out."""
    made = Cut([], Counter(), Counter())
    for group in groups:
        scored = made.scored(group, recipe.reward)
        if len(scored.rewards_G):
            made.groups.append(weighed(scored, range(len(scored.rewards_G)), recipe.advantage))
    return made


def cut_groups(groups: Sequence[Group], recipe: Recipe, *, epoch: int) -> Cut:
    """Cut every task's attempts into groups of G with at least one passed and one not; another epoch, another cut.

    Attempts are drawn without replacement, each as likely as its count is large: a group looks like a draw from the authors.
    """
    data = recipe.data
    random = np.random.default_rng([data.seed, epoch])
    cut = Cut([], Counter(), Counter())
    for group in groups:
        scored = cut.scored(select(group, data.authors), recipe.reward)
        drawn = draw(scored, data.group_size, data.groups_per_task, random)
        if not drawn:
            cut.left_out[f"tasks: {why_not(scored, data.group_size)}"] += 1
        cut.groups.extend(weighed(scored, indices, recipe.advantage) for indices in drawn)
    return cut.shuffled(random)


def passed(verdict: Verdict | None) -> bool:
    """Return whether a verdict is a pass."""
    return verdict is not None and verdict.status is Status.PASSED


def why_not(scored: Rewarded, size: int) -> str:
    """Say why a task gives no group."""
    if len(scored.group.attempts) < size:
        return f"fewer than {size} attempts"
    return "all passed" if passed(scored.group.verdicts[0]) else "none passed"


def draw(scored: Rewarded, size: int, most: int, random: np.random.Generator) -> list[list[int]]:
    """Draw up to ``most`` disjoint index lists of a mixed group; fewer when passed, failed or attempts run out."""
    free = set(range(len(scored.group.attempts)))
    good = [i for i in sorted(free) if passed(scored.group.verdicts[i])]
    drawn: list[list[int]] = []
    while len(drawn) < most and len(free) >= size:
        ours = [i for i in good if i in free]
        others = sorted(free - set(ours))
        if not ours or not others:
            break
        first = [pick(ours, scored.group.attempts, random), pick(others, scored.group.attempts, random)]
        free -= set(first)
        while len(first) < size:
            first.append(pick(sorted(free), scored.group.attempts, random))
            free.discard(first[-1])
        drawn.append([first[i] for i in random.permutation(size)])
    return drawn


def pick(indices: Sequence[int], attempts: Sequence[Attempt], random: np.random.Generator) -> int:
    """Draw one index, as likely as its attempt's count is large."""
    counts = np.array([attempts[i].count for i in indices], dtype=np.float64)
    return int(random.choice(np.array(indices), p=counts / counts.sum()))
