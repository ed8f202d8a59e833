"""Rules across the stages of a recipe, in one table: contradictions, settings without an effect, and warnings about small runs."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from upsolve.config.running import DataConfig, EvalConfig, OptimConfig
from upsolve.config.strict import Rule
from upsolve.errors import counted
from upsolve.plugins import KINDS, load

__all__ = [
    "FEW_DEV_TASKS",
    "FEW_STEPS",
    "FEW_TASKS",
    "READ",
    "RULES",
    "Condition",
    "few_dev_tasks",
    "few_steps",
    "few_tasks",
    "unread_problems",
]


def compares_pairs(r: Any) -> bool:
    """Return whether the objective is on pairs of attempts."""
    return r.objective.record.unit == "pair"


def reads_tokens(r: Any) -> bool:
    """Return whether the objective reads an advantage for every token."""
    return r.objective.record.advantages == "token"


def has_negatives(r: Any) -> bool:
    """Return whether attempts can have a negative advantage."""
    return compares_pairs(r) or not r.advantage.record.nonnegative


def sign_needed(r: Any) -> str:
    """Return the value of ``Advantage.failed`` that the objective needs."""
    return "zero" if r.objective.record.keeps_zero else "negative"


def options_rule(key: str) -> Rule:
    """Return the rule that k of an estimator fits the group size."""

    def options(r: Any) -> Mapping[str, Any]:
        return r.advantage.settings if key == "options" else r.advantage.options_end

    def least(r: Any) -> int:
        return 2 if r.advantage.kind == "max_at_k" else 1

    return Rule(
        lambda r: least(r) <= options(r).get("k", least(r)) < max(least(r) + 1, r.data.group_size),
        lambda r: (
            f"advantage.{key}.k: {options(r)['k']}: at least {least(r)}, and below the {r.data.group_size} attempts of a group (data.group_size)"
        ),
    )


def limit_set(r: Any) -> str:
    """Return the name of the first limit on held-out attempts that is set; empty if none is set."""
    return next((name for name in ("max_logit_variance", "max_negative_gap") if getattr(r.monitor, name) is not None), "")


ALONE = "data.group_size: 1 has nothing to compare"
RULES: tuple[Rule, ...] = (
    Rule(
        lambda r: not r.advantage.needs_values or (reads_tokens(r) and not compares_pairs(r)),
        "advantage.kind {0.advantage.kind}: objective.kind {0.objective.kind} does not read an advantage for every token; choose another kind",
    ),
    Rule(
        lambda r: (
            r.advantage.needs_values or r.objective.record.advantages != "sign" or r.advantage.record.failed == sign_needed(r)
        ),
        lambda r: (
            f"advantage.kind {r.advantage.kind}: objective.kind {r.objective.kind} reads the sign of an advantage as the outcome, which the "
            f"sign of this estimator does not show; set advantage.kind: { ({'zero': 'passed', 'negative': 'maxrl'}[sign_needed(r)]) }"
        ),
    ),
    *(
        rule
        for name in ("blame", "negatives")
        for rule in (
            Rule(
                lambda r, name=name: not getattr(r.advantage, name) or reads_tokens(r),
                f"advantage.{name}: objective.kind {{0.objective.kind}} does not read advantages for every token, so {name} has no effect",
            ),
            Rule(
                lambda r, name=name: (
                    not (getattr(r.advantage, name) and reads_tokens(r)) or (has_negatives(r) and not r.advantage.needs_values)
                ),
                f"advantage.{name}: advantage.kind {{0.advantage.kind}} gives an attempt no negative advantage, so there is none to assign",
            ),
        )
    ),
    Rule(
        lambda r: r.objective.clip.sequence_kl is None or has_negatives(r),
        "objective.clip.sequence_kl masks negative advantages, and advantage.kind {0.advantage.kind} gives none",
    ),
    Rule(
        lambda r: r.objective.clip.sequence_kl is None or not (compares_pairs(r) or r.objective.kind == "rank"),
        "objective.clip.sequence_kl masks single attempts, and a loss of objective.kind {0.objective.kind} spans several attempts; leave it out",
    ),
    Rule(
        lambda r: r.objective.correction.kind == "none" or (reads_tokens(r) and not compares_pairs(r)),
        "objective.correction weighs token losses, and objective.kind {0.objective.kind} has a loss of whole attempts",
    ),
    Rule(
        lambda r: r.objective.kl.place != "reward" or r.advantage.needs_values,
        "objective.kl.place: reward needs rewards for every token (advantage.kind: gae), not {0.advantage.kind}; use place: loss",
    ),
    Rule(
        lambda r: not (r.objective.kl.place == "reward" and r.advantage.needs_values) or r.objective.kl.estimator == "k3",
        "objective.kl.estimator: place reward always uses k3, not {0.objective.kl.estimator}",
    ),
    Rule(
        lambda r: not r.reward.mask_unexecuted or reads_tokens(r),
        "reward.mask_unexecuted: objective.kind {0.objective.kind} sums over all tokens of an attempt, so a mask has no effect",
    ),
    *(
        Rule(
            lambda r, name=name: r.advantage.needs_values or not getattr(r.reward, name),
            f"reward.{name} needs rewards for every token (advantage.kind: gae), not {{0.advantage.kind}}",
        )
        for name in ("credit", "gated")
    ),
    Rule(
        lambda r: (
            not (compares_pairs(r) and r.objective.preference.focal)
            or not (r.reward.mask_unexecuted or r.advantage.blame or r.advantage.negatives)
        ),
        "objective.preference.focal weighs tokens itself: leave out reward.mask_unexecuted, advantage.blame and advantage.negatives",
    ),
    Rule(
        lambda r: (
            not r.select.weight
            or not (r.advantage.needs_values or compares_pairs(r) or r.objective.record.advantages in ("sign", "unread"))
        ),
        (
            "select.weight multiplies advantages, and advantage.kind {0.advantage.kind} with objective.kind {0.objective.kind} "
            "does not read the size of an advantage; leave it out"
        ),
    ),
    Rule(
        lambda r: not (r.source.rounds and r.select.reads_start),
        "select: start_logp and start_min_logp exist for stored attempts in offline training; online, read logp",
    ),
    Rule(
        lambda r: not (r.source.rounds and r.select.reads_labels),
        "select: label_right exists for stored attempts in offline training; a sample has the verdict of a single judge",
    ),
    Rule(
        lambda r: not (r.select.order and (r.source.rounds or compares_pairs(r))),
        "select.order orders the groups of offline training; rounds and pairs come in random order: leave it out",
    ),
    Rule(
        lambda r: r.data.folds != 1 and r.data.fold < max(1, r.data.folds),
        "data.folds: at least 2, and data.fold below it; got folds {0.data.folds}, fold {0.data.fold}",
    ),
    Rule(
        lambda r: not r.data.folds or r.data.dev + 1 / r.data.folds < 1,
        lambda r: f"data.dev: {r.data.dev} and a fold of {1 / r.data.folds:.2f} leave nothing to train on",
    ),
    Rule(
        lambda r: r.data.folds > 0 or r.data.train + r.data.dev < 1,
        "data: train {0.data.train} and dev {0.data.dev} together must be below 1; the rest is the test split",
    ),
    Rule(
        lambda r: not (r.own.rounds and r.source.rounds),
        "own.rounds: an online run (source.rounds) samples the policy anyway; set one of them",
    ),
    Rule(
        lambda r: not r.own.rounds or len(r.evaluate.temperatures) > 1,
        "own.rounds: dev tasks decide whether a round is kept, and are sampled only with several evaluate.temperatures, such as [0, 0.6]",
    ),
    Rule(
        lambda r: r.source.rounds > 0 or not r.advantage.needs_values,
        "advantage.kind {0.advantage.kind} is for online training: set source.rounds, or choose another kind",
    ),
    options_rule("options"),
    options_rule("options_end"),
    Rule(
        lambda r: not limit_set(r) or (r.monitor.heldout and r.monitor.stop_on_collapse),
        lambda r: (
            f"monitor.{limit_set(r)}: needs held-out attempts and stop_on_collapse; set monitor.heldout, monitor.stop_on_collapse: true"
        ),
    ),
    Rule(
        lambda r: r.monitor.keep != "best" or r.monitor.heldout > 0,
        "monitor.keep: best needs held-out attempts to compare weights; set monitor.heldout or keep: last",
    ),
    Rule(
        lambda r: r.data.group_size > 1 or r.advantage.needs_values or r.advantage.record.needs != "contrast",
        f"{ALONE}, and advantage.kind {{0.advantage.kind}} compares the attempts of a group; use gae, passed or all, or larger groups",
    ),
    Rule(
        lambda r: r.data.group_size > 1 or r.source.oversample == 1,
        f"{ALONE}: source.oversample looks for groups with unequal rewards; set it to 1",
    ),
    Rule(
        lambda r: r.data.group_size > 1 or not (r.advantage.needs_values and r.source.takes("archive")),
        f"{ALONE}: groups of stored attempts have a passed and a failed one; leave archive out of source.mix",
    ),
    Rule(
        lambda r: r.data.group_size > 1 or r.reward.verdicts != "shuffled",
        f"{ALONE}: reward.verdicts: shuffled permutes the verdicts of a group",
    ),
    Rule(
        lambda r: (
            not r.source.rounds
            or r.objective.correction.kind == "none"
            or r.source.rollout.is_plain
            or r.source.rollout.record.tempered_logps
        ),
        (
            "objective.correction.kind: {0.objective.correction.kind} needs the probabilities of the distribution that was "
            "sampled, and source.rollout.engine: {0.source.rollout.engine} gives them at temperature 1 and top_p 1 alone, not at "
            "{0.source.rollout.temperature:g} and {0.source.rollout.top_p:g}; set these to 1, or engine: transformers"
        ),
    ),
    Rule(
        lambda r: not (r.source.rounds and r.source.ahead) or not reads_tokens(r) or r.objective.correction.kind != "none",
        "source.ahead: {0.source.ahead}: samples are of earlier weights, and objective.kind {0.objective.kind} is for samples of the "
        "current ones; set objective.correction.kind: tis (or icepop)",
    ),
    Rule(
        lambda r: not r.data.turns or r.objective.record.unit == "attempt",
        "data.turns: objective.kind {0.objective.kind} compares attempts at one prompt, and each attempt has its own conversation",
    ),
    Rule(
        lambda r: not r.model.prompt.outcome or r.objective.record.unit == "attempt",
        "model.prompt.outcome: objective.kind {0.objective.kind} compares attempts at one prompt, and each prompt names its attempt's outcome",
    ),
    Rule(
        lambda r: not (r.data.folds and r.evaluate.archives),
        "evaluate.archives: every fold would measure another model on the same tasks; leave it out, or data.folds (--folds)",
    ),
    Rule(
        lambda r: r.optim.moments == "float32" or r.model.shard == "none",
        (
            "optim.moments: {0.optim.moments} keeps whole moments on every rank, and model.shard: {0.model.shard} shards them; "
            "leave one of them out"
        ),
    ),
)
"""Rules that every recipe must satisfy, in the order of their messages."""


@dataclass(frozen=True, slots=True)
class Condition:
    """When a setting has an effect."""

    needs: str
    """The key that decides whether the setting has an effect, and the values of this key with which it has."""
    holds: Callable[[Any], bool]
    """``holds(recipe) -> bool``: whether the setting has an effect in a recipe."""
    switch: str = ""
    """The key that switches the setting off, such as ``source.rounds: 0``; the setting may stay if the user sets this key. Empty: no such key."""
    even_default: bool = False
    """Whether the default value has no effect either, because another setting decides."""


def built_in(kind: str, name: Any) -> bool:
    """Return whether a record is one of upsolve's own; the settings that a plug-in reads are unknown."""
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
    """Return the condition that one of these components of rewards, or one of another package, has a weight or is ranked."""
    return Condition(
        f"a weight (reward.weights) for {' or '.join(names)}",
        lambda r: any(name in names or not built_in("component", name) for name in r.reward.read),
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
        lambda r: r.source.rounds > 0 and r.source.takes(kind),
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
    **{
        f"own.{key}": Condition("own.rounds above 0", lambda r: r.own.rounds > 0, "own.rounds")
        for key in ("tasks", "samples", "temperature", "steps", "repeats", "failures", "control")
    },
    "source.mix_end": Condition("source.rounds above 1", lambda r: r.source.rounds > 1, "source.rounds"),
    **{f"source.{key}": share("policy") for key in ("ahead", "oversample", "order", "solved", "hints")},
    "source.max_staleness": Condition(
        "source.rounds above 0, and source.ahead or a share of replay in source.mix or source.mix_end",
        lambda r: r.source.rounds > 0 and (r.source.ahead > 0 or r.source.takes("replay")),
        "source.rounds",
    ),
    "source.hints_passed": Condition(
        "source.hints above 0 and model.completion: code", lambda r: r.source.hints > 0 and not r.model.answers
    ),
    **{f"source.{key}": share("replay") for key in ("replay_rounds", "replay_solved")},
    **{f"{stage}.{name}": engine(stage, name) for stage in ("sample", "source.rollout") for name in ("server", "vllm")},
    **{
        f"{stage}.guidance": Condition("model.prompt.outcome", lambda r: r.model.prompt.outcome)
        for stage in ("sample", "source.rollout")
    },
    "data.tasks_at_once": Condition("source.rounds: 0", lambda r: not r.source.rounds, "source.rounds"),
    "data.groups_per_task": Condition(
        "stored attempts (source.rounds: 0, or archive in source.mix or source.mix_end) or an objective.kind on pairs",
        lambda r: not r.source.rounds or r.source.takes("archive") or compares_pairs(r),
        "source.rounds",
    ),
    "data.group_size": Condition(
        "an objective.kind that does not pair stored attempts",
        lambda r: r.source.rounds or not compares_pairs(r),
        "objective.kind",
    ),
    "reward.hacked": Condition("reward.detectors", lambda r: r.reward.detectors),
    "reward.outcomes": component("outcome"),
    "reward.severity": component("lint", "security", "types"),
    "reward.efficiency": component("efficiency"),
    "reward.rank": component("rank"),
    "reward.window": Condition(
        "the credit divergence (reward.credit, advantage.negatives)",
        lambda r: any(
            name == "divergence" or not built_in("credit", name)
            for name in (*r.reward.credit.values(), *filter(None, (r.advantage.negatives,)))
        ),
    ),
    "reward.complexity": component("complexity"),
    "reward.length": component("length"),
    "advantage.kind": Condition(
        "an objective.kind that reads advantages",
        lambda r: (
            not compares_pairs(r)
            and (
                r.objective.record.advantages != "unread"
                or r.advantage.record.selects
                or r.objective.clip.sequence_kl is not None
            )
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
    **{
        f"evaluate.{key}": Condition(
            "several evaluate.temperatures", lambda r: len(r.evaluate.temperatures) > 1, "evaluate.temperatures"
        )
        for key in ("dev_tasks", "dev_samples")
    },
    "evaluate.leaks": Condition("evaluate.archives", lambda r: r.evaluate.archives, "evaluate.archives"),
    **{
        f"evaluate.{key}": Condition("a temperature above 0 in evaluate.temperatures", lambda r: any(r.evaluate.temperatures))
        for key in ("choose", "many_samples")
    },
    "monitor.eval_every": HELDOUT,
    "monitor.max_likelihood_drop": Condition(
        "monitor.heldout above 0 and monitor.stop_on_collapse", lambda r: HELDOUT.holds(r) and STOPS.holds(r), HELDOUT.switch
    ),
    "monitor.min_entropy": STOPS,
    "monitor.max_drift": Condition(
        "an objective that reads the sampler's probabilities (objective.correction.kind, or objective.kind ppo_clip, ...)",
        lambda r: r.objective.needs_old or r.advantage.needs_values,
    ),
    "monitor.project": Condition("monitor.trackers", lambda r: r.monitor.trackers),
}
"""Setting, or stage of settings -> condition under which it has an effect. ``source.rollout`` is missing, because recipes of both kinds may set it;
the settings of an engine are in the table."""


def unread_problems(recipe: Any, given: Iterable[str]) -> Iterator[str]:
    """Yield the settings that a user gave and that have no effect, unless their value is the default.

    ``given`` are keys in the user's recipe and in overrides, without keys that other recipes contribute by ``base``. A user who sets ``source.rounds:
    0`` has chosen offline training: the other keys of the stage may stay (``Condition.switch``).
    """
    named, default = {*given} - {""}, type(recipe)()
    for setting, condition in READ.items():
        mine = sorted(key for key in named if f"{key}.".startswith(f"{setting}.") or setting.startswith(f"{key}."))
        chosen = condition.switch in named
        differs = condition.even_default or value(recipe, setting) != value(default, setting)
        if mine and not chosen and not condition.holds(recipe) and differs:
            yield f"{mine[0]} has no effect without {condition.needs}; leave it out"


def value(recipe: Any, key: str) -> Any:
    """Return the value of a key of a recipe."""
    return reduce(getattr, key.split("."), recipe)


FEW_STEPS = 10
"""Number of optimizer steps of a run below which a warning is given."""
FEW_DEV_TASKS = 10
"""Number of dev tasks for choosing a temperature, below which a warning is given."""


FEW_TASKS = 30
"""Number of measured tasks below which only large differences are detected."""


def few_tasks(count: int, config: EvalConfig) -> str:
    """Return a warning if a run is measured on few tasks with tests; "" if on enough, or on none."""
    if not 0 < count < FEW_TASKS:
        return ""
    fix = f"raise evaluate.tasks (now {config.tasks})" if count == config.tasks else "add tasks, or run with --folds 5"
    return f"{counted(count, 'task')} to measure on: fewer than {FEW_TASKS} show only large differences; {fix}"


def few_steps(steps: int, optim: OptimConfig) -> str:
    """Return a warning if a run has few optimizer steps, less than ``optim.max_steps`` allows; "" otherwise."""
    if not 0 < steps < FEW_STEPS or 0 < optim.max_steps <= steps:
        return ""
    key = "attempts_per_step" if optim.attempts_per_step else "tokens_per_step"
    return (
        f"{counted(steps, 'optimizer step')} in all, so the model hardly changes: lower optim.{key} (now {getattr(optim, key):,}), or "
        f"raise optim.epochs (now {optim.epochs})"
    )


def few_dev_tasks(count: int, config: EvalConfig, data: DataConfig) -> str:
    """Return a warning if the temperature is chosen on few dev tasks with tests; "" otherwise."""
    if count >= FEW_DEV_TASKS or len(config.temperatures) == 1:
        return ""
    short = f"evaluate.dev_tasks (now {config.dev_tasks})" if count == config.dev_tasks else f"data.dev (now {data.dev:g})"
    return f"{counted(count, 'dev task')} with tests: on so few, the best temperature is chosen by chance; raise {short}"
