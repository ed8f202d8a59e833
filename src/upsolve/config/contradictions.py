"""Checks across the stages of a recipe: settings that contradict each other or have no effect."""

from collections.abc import Iterator

from upsolve.config.evaluation import EvalConfig
from upsolve.config.learning import AdvantageConfig, ObjectiveConfig
from upsolve.config.online import SourceConfig
from upsolve.config.reward import RewardConfig
from upsolve.config.running import DataConfig, ModelConfig, MonitorConfig, OptimConfig
from upsolve.config.select import SelectConfig

__all__ = [
    "advantage_problems",
    "evaluation_problems",
    "optimiser_problems",
    "reward_problems",
    "rollout_problems",
    "run_problems",
    "select_problems",
    "single_problems",
    "turn_problems",
]


def advantage_problems(advantage: AdvantageConfig, objective: ObjectiveConfig) -> Iterator[str]:
    """Yield contradictions between estimator of advantages and objective."""
    kind, estimator, record = objective.kind, advantage.record, objective.record
    pairs, by_token = record.unit == "pair", record.advantages == "token"
    values, signs = estimator.reads == "values", "zero" if record.keeps_zero else "negative"
    if values and (pairs or not by_token):
        yield f"advantage.kind {advantage.kind}: objective.kind {kind} does not read an advantage for every token; choose another kind"
    elif record.advantages == "sign" and estimator.failed != signs:
        able = {"zero": "passed", "negative": "maxrl"}[signs]
        yield (
            f"advantage.kind {advantage.kind}: objective.kind {kind} reads the sign of an advantage as passed or failed, and this estimator's "
            f"does not say that; set advantage.kind: {able}"
        )
    if advantage.blame:
        if not by_token:
            yield f"advantage.blame: objective.kind {kind} does not read advantages for every token, so blame has no effect"
        elif values or (estimator.nonnegative and not pairs):
            yield f"advantage.blame: advantage.kind {advantage.kind} gives an attempt no negative advantage, so there is none to assign"
    if objective.clip.sequence_kl is not None and estimator.nonnegative and not pairs:
        yield f"objective.clip.sequence_kl masks negative advantages, and advantage.kind {advantage.kind} gives none"
    if objective.correction.kind != "none" and (pairs or not by_token):
        yield f"objective.correction weighs the losses of single tokens, and objective.kind {kind} has one of whole attempts"
    if objective.kl.place == "reward":
        if not values:
            yield f"objective.kl.place: reward needs rewards for every token (advantage.kind: gae), not {advantage.kind}; use place: loss"
        elif objective.kl.estimator != "k3":
            yield f"objective.kl.estimator: place reward always uses k3, not {objective.kl.estimator}"


def reward_problems(reward: RewardConfig, advantage: AdvantageConfig, objective: ObjectiveConfig) -> Iterator[str]:
    """Yield settings of token rewards and masks that the later stages do not use."""
    record = objective.record
    if reward.mask_unexecuted and record.advantages != "token":
        yield f"reward.mask_unexecuted: objective.kind {objective.kind} sums over all tokens of an attempt, so a mask has no effect"
    for name in ("credit", "gated"):
        if getattr(reward, name) and not advantage.needs_values:
            yield f"reward.{name} needs rewards for every token (advantage.kind: gae), not {advantage.kind}"
    if record.unit == "pair" and objective.preference.focal and (reward.mask_unexecuted or advantage.blame):
        yield "objective.preference.focal weighs tokens itself: leave out reward.mask_unexecuted and advantage.blame"


def select_problems(
    select: SelectConfig, advantage: AdvantageConfig, objective: ObjectiveConfig, source: SourceConfig
) -> Iterator[str]:
    """Yield weights and orders of the selection that the later stages do not read."""
    kind, record = objective.kind, objective.record
    if select.weight and (advantage.needs_values or record.unit == "pair" or record.advantages in ("sign", "unread")):
        yield f"select.weight multiplies advantages, and advantage.kind {advantage.kind} with objective.kind {kind} does not read them so"
    if select.reads_start and source.rounds:
        yield "select: start_logp and start_min_logp are of stored attempts in offline training; online, read logp, the sampler's own"
    if select.reads_labels and source.rounds:
        yield "select: label_right is of stored attempts in offline training; samples have a single verdict of one judge"
    if select.order and (source.rounds or record.unit == "pair"):
        yield "select.order orders the groups of offline training; rounds and pairs come in random order: leave it out"


def single_problems(data: DataConfig, source: SourceConfig, advantage: AdvantageConfig, reward: RewardConfig) -> Iterator[str]:
    """Yield settings that compare attempts of a group, where each group has a single one."""
    if data.group_size > 1:
        return
    one = "data.group_size: 1 has nothing to compare"
    if not (advantage.needs_values or advantage.record.selects):
        yield f"{one}, and advantage.kind {advantage.kind} compares the attempts of a group; use gae or passed, or larger groups"
    if source.oversample > 1:
        yield f"{one}: source.oversample looks for groups with unequal rewards; set it to 1"
    if advantage.needs_values and (source.mix.get("archive", 0) or source.mix_end.get("archive", 0)):
        yield f"{one}: groups of stored attempts have a passed and a failed one; leave archive out of source.mix"
    if reward.verdicts == "shuffled":
        yield f"{one}: reward.verdicts: shuffled permutes the verdicts of a group"


def rollout_problems(source: SourceConfig, objective: ObjectiveConfig) -> Iterator[str]:
    """Yield importance weights of new samples whose engine does not say with which probability it has sampled a token."""
    rollout, kind = source.rollout, objective.correction.kind
    if source.rounds and kind != "none" and not (rollout.is_plain or rollout.record.tempered_logps):
        yield (
            f"objective.correction.kind: {kind} needs the probabilities of the distribution that was sampled, and source.rollout.engine: "
            f"{rollout.engine} gives them at temperature 1 and top_p 1 alone, not at {rollout.temperature:g} and {rollout.top_p:g}; set these to 1, "
            "or engine: transformers"
        )


def turn_problems(data: DataConfig, objective: ObjectiveConfig) -> Iterator[str]:
    """Yield an objective that compares attempts, where each has a separate prompt."""
    if data.turns and objective.record.unit != "attempt":
        yield f"data.turns: objective.kind {objective.kind} compares attempts at one prompt, and each attempt has its own conversation"


def run_problems(data: DataConfig, source: SourceConfig, advantage: AdvantageConfig, monitor: MonitorConfig) -> Iterator[str]:
    """Yield contradictions between source of groups, split and monitors."""
    if data.folds == 1 or data.fold >= max(1, data.folds):
        yield f"data.folds: at least 2, and data.fold below it; got folds {data.folds}, fold {data.fold}"
    if data.folds and data.dev + 1 / data.folds >= 1:
        yield f"data.dev: {data.dev} and a fold of {1 / data.folds:.2f} leave nothing to train on"
    if data.train + data.dev >= 1 and not data.folds:
        yield f"data: train {data.train} and dev {data.dev} together must be below 1; the rest is the test split"
    if advantage.needs_values and not source.rounds:
        yield f"advantage.kind {advantage.kind} is for online training: set source.rounds, or choose another kind"
    for key, options in (("options", advantage.settings), ("options_end", advantage.options_end)):
        least = 2 if advantage.kind == "max_at_k" else 1
        if not least <= options.get("k", least) < max(least + 1, data.group_size):
            yield (
                f"advantage.{key}.k: {options['k']}: at least {least}, and below the {data.group_size} attempts of a group (data.group_size)"
            )
    limits = [name for name in ("max_logit_variance", "max_negative_gap") if getattr(monitor, name) is not None]
    if limits and not (monitor.heldout and monitor.stop_on_collapse):
        yield f"monitor.{limits[0]}: needs held-out attempts and stop_on_collapse; set monitor.heldout, monitor.stop_on_collapse: true"
    if monitor.keep == "best" and not monitor.heldout:
        yield "monitor.keep: best needs held-out attempts to compare weights; set monitor.heldout or keep: last"


def optimiser_problems(model: ModelConfig, optim: OptimConfig) -> Iterator[str]:
    """Yield moments that a sharded policy cannot have."""
    if optim.moments != "float32" and model.shard != "none":
        yield f"optim.moments: {optim.moments} keeps whole moments on every rank, and model.shard: {model.shard} shards them; leave one of them out"


def evaluation_problems(data: DataConfig, evaluate: EvalConfig) -> Iterator[str]:
    """Yield contradictions between folds and evaluation."""
    if data.folds and evaluate.archives:
        yield "evaluate.archives: every fold would measure another model on the same tasks; leave it out, or data.folds (--folds)"
