"""Group -> rewards: a weighted sum of components, with what has none left out and counted."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from upsolve.config import RewardConfig
from upsolve.reward.components import CLOCK_SECONDS, COMPONENTS, Judged, Part
from upsolve.reward.hacks import hacks
from upsolve.types import Group, Status, Verdict

__all__ = ["PRESETS", "Rewarded", "analyses_needed", "judged_of", "reward", "usual_seconds", "weights_of"]

PRESETS: Mapping[str, Mapping[str, float]] = {
    "outcome": {"outcome": 1.0},
    "tests": {"fraction": 1.0},
    "tests+lint": {"fraction": 1.0, "lint": 0.2},
    "dense": {"syntax": 0.1, "clean_lines": 0.1, "functional": 0.7, "dataflow": 0.1},
}
"""Weights by component: 2605.28409; two arms of 2605.30478 (its weights are unknown, 0.2 is ours); 2605.21180."""
READ: Mapping[str, str] = {
    "clean_lines": "lint",
    "complexity": "complexity",
    "lint": "lint",
    "security": "security",
    "syntax": "syntax",
    "types": "types",
}
"""Analysis by component."""
TRUNCATED = "truncated"


@dataclass(frozen=True, slots=True)
class Rewarded:
    """A group of which every attempt has a reward."""

    group: Group
    """The attempts that have one, in order."""
    rewards_G: NDArray[np.float64]
    """Their rewards, finite."""
    parts: tuple[tuple[Part, ...], ...]
    """What each reward is the sum of."""
    left_out: Counter[str]
    """Attempts left out, by reason."""
    flagged: Counter[str]
    """Scored attempts that were cut (``truncated``) or that a detector caught (its name), left out or not."""


def reward(group: Group, config: RewardConfig) -> Rewarded:
    """Return r_i = sum over components of weight times value for every judged attempt of a group.

    Unjudged and unscored attempts and those that lack what a component reads are left out, never zero. Attempts that were cut and
    hacks follow their rules first.

    Raises:
        ValueError: the weights leave no component.
    """
    kept: list[int] = []
    parts: list[tuple[Part, ...]] = []
    left_out: Counter[str] = Counter()
    flagged: Counter[str] = Counter()
    weights = weights_of(config)
    usual = usual_seconds(group, config.efficiency)
    for index in range(len(group.attempts)):
        judged = judged_of(group, index, usual)
        if isinstance(judged, str):
            left_out[judged] += 1
            continue
        flags = flags_of(judged, config)
        flagged.update(flags)
        found = by_rule(flags, config) or by_components(judged, weights, config)
        if isinstance(found, str):
            left_out[found] += 1
        else:
            kept.append(index)
            parts.append(found)
    scored = Group(
        group.task,
        tuple(group.attempts[i] for i in kept),
        tuple(cast(Verdict, group.verdicts[i]) for i in kept),
    )
    values = [math.fsum(part.weight * part.value for part in some) for some in parts]
    return Rewarded(scored, np.array(values, dtype=np.float64), tuple(parts), left_out, flagged)


def weights_of(config: RewardConfig) -> Mapping[str, float]:
    """Return the weights by component: those of the preset, with the recipe's over them, without zeros.

    Raises:
        ValueError: no component is left.
    """
    weights = {name: weight for name, weight in {**PRESETS[config.preset], **config.weights}.items() if weight}
    if not weights:
        raise ValueError("reward.weights: every weight is 0")
    return weights


def analyses_needed(config: RewardConfig) -> tuple[str, ...]:
    """Return the analyses that the components of a recipe read."""
    return tuple(sorted({READ[name] for name in weights_of(config) if name in READ}))


def judged_of(group: Group, index: int, usual: float | None = None) -> Judged | str:
    """Return an attempt of a group with its verdict, or why it can have no reward."""
    verdict = group.verdicts[index]
    if verdict is None:
        return "not judged"
    if verdict.status is Status.UNSCORED:
        return f"no reward for {verdict.status}"
    return Judged(group.task, group.attempts[index], verdict, usual)


def usual_seconds(group: Group, against: str) -> float | None:
    """Return the median processor time of what passed in a group (``group``), or of those alone that are the reference."""
    reference = group.task.reference.strip()
    seconds = [
        max(verdict.cpu_seconds, CLOCK_SECONDS)
        for attempt, verdict in zip(group.attempts, group.verdicts, strict=True)
        if verdict is not None and verdict.status is Status.PASSED and verdict.cpu_seconds is not None
        if against == "group" or attempt.code.strip() == reference
    ]
    return float(np.median(seconds)) if seconds else None


def flags_of(judged: Judged, config: RewardConfig) -> tuple[str, ...]:
    """Return ``truncated`` where an attempt was cut, and the detectors that caught it."""
    cut = (TRUNCATED,) if judged.attempt.truncated else ()
    return cut + hacks(judged.attempt, judged.task, config.detectors)


def by_rule(flags: tuple[str, ...], config: RewardConfig) -> tuple[Part, ...] | str:
    """Return the reward that a rule sets, or why the attempt is left out; an empty string where its components decide."""
    caught = ", ".join(flag for flag in flags if flag != TRUNCATED)
    rules = (
        (TRUNCATED in flags, config.truncated, TRUNCATED, TRUNCATED),
        (caught, config.hacked, "hacked", f"hacked: {caught}"),
    )
    for applies, rule, name, reason in rules:
        if applies and rule == "drop":
            return reason
        if applies and not isinstance(rule, str):
            return (Part(name, rule, 1.0),)
    return ""


def by_components(judged: Judged, weights: Mapping[str, float], config: RewardConfig) -> tuple[Part, ...] | str:
    """Return the parts of a reward, or why one of them has no value."""
    parts: list[Part] = []
    for name, weight in weights.items():
        value = COMPONENTS[name].value(judged, config)
        if value is None:
            return COMPONENTS[name].missing.format(status=judged.verdict.status)
        parts.append(Part(name, value, weight))
    return tuple(parts)
