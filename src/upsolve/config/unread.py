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
    excuse: str = ""
    """The key that a user sets who knows that the setting has no effect, such as ``source.rounds: 0``; empty: there is none."""
    even_default: bool = False
    """True: the default value has no effect either, because another setting decides."""


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
ONLINE = Condition("source.rounds above 0", lambda r: r.source.rounds > 0, "source.rounds")
HELDOUT = Condition("monitor.heldout above 0", lambda r: r.monitor.heldout > 0, "monitor.heldout")
STOPS = Condition("monitor.stop_on_collapse", lambda r: r.monitor.stop_on_collapse, "monitor.stop_on_collapse")


def share(kind: str) -> Condition:
    """Return the condition that an online run takes groups from this source."""
    return Condition(
        f"source.rounds above 0 and a share of {kind} in source.mix or source.mix_end",
        lambda r: r.source.rounds > 0 and (r.source.mix.get(kind, 0) > 0 or r.source.mix_end.get(kind, 0) > 0),
        "source.rounds",
    )


def engine(stage: str, name: str) -> Condition:
    """Return the condition that a stage samples with this engine, or with one of another package."""
    key = f"{stage}.engine"
    return Condition(f"{key} {name}", lambda r: value(r, key) == name or not built_in("engine", value(r, key)), key)


READ: Mapping[str, Condition] = {
    "model.lora_alpha": Condition("model.lora_rank above 0", lambda r: r.model.lora_rank > 0),
    **{f"source.{key}": ONLINE for key in ("groups", "mix")},
    "source.rollout.samples": Condition(
        "data.group_size of the same value, which is the number of samples of a task",
        lambda r: r.source.rollout.samples == r.data.group_size,
        even_default=True,
    ),
    "source.mix_end": Condition("source.rounds above 1", lambda r: r.source.rounds > 1, "source.rounds"),
    **{f"source.{key}": share("policy") for key in ("oversample", "order", "solved", "hints")},
    **{f"source.{key}": share("replay") for key in ("replay_rounds", "replay_solved")},
    **{f"{stage}.{name}": engine(stage, name) for stage in ("sample", "source.rollout") for name in ("server", "vllm")},
    "data.tasks_at_once": Condition("source.rounds: 0", lambda r: not r.source.rounds, "source.rounds"),
    "reward.hacked": Condition("reward.detectors", lambda r: r.reward.detectors),
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
    **{
        f"objective.kl.{key}": Condition("objective.kl.coefficient above 0", lambda r: r.objective.kl.coefficient > 0)
        for key in ("estimator", "place")
    },
    "objective.value": GAE,
    "objective.preference.beta": objective("dpo", "kto", "rank"),
    **{f"objective.preference.{key}": objective("dpo") for key in ("label_smoothing", "pairs", "focal")},
    **{f"objective.preference.{key}": objective("kto") for key in ("desirable", "undesirable")},
    "monitor.eval_every": HELDOUT,
    "monitor.max_likelihood_drop": Condition(
        "monitor.heldout above 0 and monitor.stop_on_collapse", lambda r: HELDOUT.holds(r) and STOPS.holds(r), HELDOUT.excuse
    ),
    "monitor.min_entropy": STOPS,
    "monitor.project": Condition("monitor.trackers", lambda r: r.monitor.trackers),
}
"""Setting, or stage of settings -> when it has an effect. ``source.rollout`` is not among them: it is set for recipes of both kinds at once; but the settings of an engine are."""


def unread_problems(recipe: Any, given: Iterable[str]) -> Iterator[str]:
    """Yield the settings that a user gave and that have no effect, unless their value is the default.

    Args:
        recipe: all settings.
        given: keys in the user's recipe and in overrides; those that come from other recipes by ``base`` are no user's choice. Who sets
            ``source.rounds: 0`` has chosen offline training, so the other keys of the stage may stay (``Condition.excuse``).
    """
    named, default = {*given} - {""}, type(recipe)()
    for setting, condition in READ.items():
        mine = sorted(key for key in named if f"{key}.".startswith(f"{setting}.") or setting.startswith(f"{key}."))
        chosen = condition.excuse in named
        differs = condition.even_default or value(recipe, setting) != value(default, setting)
        if mine and not chosen and not condition.holds(recipe) and differs:
            yield f"{mine[0]} has no effect without {condition.needs}; leave it out"


def value(recipe: Any, key: str) -> Any:
    """Return the value of a key of a recipe."""
    return reduce(getattr, key.split("."), recipe)
