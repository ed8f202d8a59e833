"""Settings that have an effect under a condition alone: which ones, and which of those that a user gave are not read."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from upsolve.plugins import KINDS, load

__all__ = ["READ", "Condition", "unread_problems"]


@dataclass(frozen=True, slots=True)
class Condition:
    """When a setting has an effect."""

    needs: str
    """The key that decides it, with the values with which the setting has an effect."""
    holds: Callable[[Any], bool]
    """``holds(recipe) -> bool``: whether the setting has an effect in a recipe."""


def built_in(kind: str, name: Any) -> bool:
    """Return whether a record is one of upsolve's own; what others read is not known."""
    return isinstance(name, str) and name in load(KINDS[kind].table)


def objective(*kinds: str) -> Condition:
    """Return the condition that one of these objectives, or one of another package, is used."""
    return Condition(
        f"objective.kind {' or '.join(kinds)}",
        lambda r: r.objective.kind in kinds or not built_in("objective", r.objective.kind),
    )


def estimator(*kinds: str) -> Condition:
    """Return the condition that one of these estimators of advantages, or one of another package, is used."""
    return Condition(
        f"advantage.kind {' or '.join(kinds)}",
        lambda r: r.advantage.kind in kinds or not built_in("advantage", r.advantage.kind),
    )


def component(*names: str) -> Condition:
    """Return the condition that one of these components of rewards, or one of another package, has a weight."""
    return Condition(
        f"a weight (reward.weights) for {' or '.join(names)}",
        lambda r: any(name in names or not built_in("component", name) for name in r.reward.components),
    )


DEVIATION = estimator("standardised", "exponential", "unlikeliness")
GAE, RATIO = estimator("gae"), objective("ppo_clip", "gspo")
ONLINE = Condition("source.rounds above 0", lambda r: r.source.rounds > 0)
READ: Mapping[str, Condition] = {
    "model.lora_alpha": Condition("model.lora_rank above 0", lambda r: r.model.lora_rank > 0),
    **{
        f"source.{key}": ONLINE
        for key in ("groups", "mix", "mix_end", "oversample", "order", "solved", "replay_rounds", "replay_solved", "hints")
    },
    "reward.outcomes": component("outcome"),
    "reward.severity": component("lint", "security", "types"),
    "reward.efficiency": component("efficiency"),
    "reward.complexity": component("complexity"),
    "reward.length": component("length"),
    "advantage.kind": Condition(
        "an objective.kind that reads advantages",
        lambda r: (
            r.objective.record.unit != "pair" and (r.objective.record.advantages != "unread" or r.advantage.record.selects)
        ),
    ),
    "advantage.beta": estimator("exponential", "awr"),
    "advantage.clip": estimator("exponential"),
    "advantage.ddof": DEVIATION,
    "advantage.epsilon": DEVIATION,
    "advantage.max_weight": estimator("exponential", "awr"),
    "advantage.delta": estimator("asymre"),
    "advantage.gae": GAE,
    "objective.length": Condition("objective.reduce constant_length", lambda r: r.objective.reduce == "constant_length"),
    "objective.beta_value": objective("oapl"),
    "objective.beta_policy": objective("oapl"),
    "objective.beta_dro": objective("dro"),
    "objective.clip.low": RATIO,
    "objective.clip.high": RATIO,
    "objective.clip.cap": objective("cispo"),
    "objective.clip.second_moment": objective("m2po"),
    "objective.correction.cap": Condition("objective.correction.kind tis", lambda r: r.objective.correction.kind == "tis"),
    **{
        f"objective.correction.{key}": Condition(
            "objective.correction.kind icepop", lambda r: r.objective.correction.kind == "icepop"
        )
        for key in ("low", "high")
    },
    "objective.kl.estimator": Condition("objective.kl.coefficient above 0", lambda r: r.objective.kl.coefficient > 0),
    "objective.value": GAE,
    "objective.preference.beta": objective("dpo", "kto", "rank"),
    **{f"objective.preference.{key}": objective("dpo") for key in ("label_smoothing", "pairs", "focal")},
    **{f"objective.preference.{key}": objective("kto") for key in ("desirable", "undesirable")},
}
"""Setting, or stage of settings -> when it has an effect. ``source.rollout`` is not among them: it is set for recipes of both kinds at once."""


def unread_problems(recipe: Any, given: Iterable[str]) -> Iterator[str]:
    """Yield the settings that a user gave and that have no effect, unless their value is the default.

    Args:
        recipe: all settings.
        given: keys in the user's recipe and in overrides; those that come from other recipes by ``base`` are no user's choice. Who sets
            ``source.rounds: 0`` has chosen offline training, so the other keys of the stage may stay.
    """
    named, default = {*given}, type(recipe)()
    for setting, condition in READ.items():
        mine = sorted(key for key in named if f"{key}.".startswith(f"{setting}.") or setting.startswith(f"{key}."))
        chosen = condition is ONLINE and "source.rounds" in named
        if mine and not chosen and not condition.holds(recipe) and value(recipe, setting) != value(default, setting):
            yield f"{mine[0]} has no effect without {condition.needs}; leave it out"


def value(recipe: Any, key: str) -> Any:
    """Return the value of a key of a recipe."""
    return reduce(getattr, key.split("."), recipe)
