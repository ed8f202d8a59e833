"""Builds the parts of the training loop from a recipe: policy, source of groups, judge, reward, scoring."""

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from upsolve.archive.groups import Lazy
from upsolve.archive.store import Archive
from upsolve.config import AdvantageConfig, ObjectiveConfig, Recipe, SampleConfig
from upsolve.errors import ConfigError
from upsolve.plugins import find
from upsolve.policy.engines import policy_sampler
from upsolve.policy.model import codec_of
from upsolve.policy.request import Sampler
from upsolve.progress import OnProgress, no_progress
from upsolve.reward.formula import Rewarded
from upsolve.train.data.drawn import FOLDER, DrawnGroups
from upsolve.train.data.encode import EncodedGroup, Encoding, encode_groups
from upsolve.train.data.groups import Formed, HeldRewards, TrainGroup, decided_by_outcome
from upsolve.train.data.judging import Rollouts, judging_for
from upsolve.train.data.pack import PackedBatch
from upsolve.train.data.sources import OnlineSource, RoundGroups, Source, StoredSource
from upsolve.train.rounds import form_groups, pack_round, score_now, score_start
from upsolve.train.run.memory import announce, beside_trainer, memory_of
from upsolve.train.run.processes import Processes
from upsolve.train.update.learner import Learner
from upsolve.train.update.likelihood import start_likelihoods
from upsolve.train.update.reference_scorer import probe
from upsolve.train.update.step import FrozenScores
from upsolve.types import Group

__all__ = ["Parts", "parts_of"]


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the training loop."""

    learner: Learner
    """The policy in training, its scorer chosen."""
    source: Source
    """Source of groups."""
    judge: Callable[[RoundGroups], RoundGroups]
    """Samples the tasks of a round and judges the attempts; judged groups are returned unchanged."""
    reward: Callable[[Group], Rewarded]
    """Rewards the attempts of a group."""
    form: Callable[[Sequence[Rewarded], Sequence[Rewarded], RoundGroups], Formed]
    """Selects and samples groups of the new samples and stored attempts of a round."""
    pack: Callable[[int, list[EncodedGroup]], tuple[list[list[PackedBatch]], FrozenScores]]
    """Takes a round's number and groups: returns the micro-batches of every step, and the scores that the loss needs."""
    encode: Callable[[RoundGroups, Sequence[Rewarded]], tuple[list[EncodedGroup], Counter[str]]]
    """Takes a round and its groups: tokenizes them, computes advantages, records what is trained on, and counts what is left out."""

    held: HeldRewards | None = None
    """Rewards of the stored groups of an online run, which are the same in every round."""

    def reward_stored(self, groups: Sequence[Group]) -> Sequence[Rewarded]:
        """Return the stored groups of a round with their rewards, computed when they are read."""
        return self.held if self.held is not None and groups else Lazy(groups, self.reward)

    @property
    def ahead(self) -> bool:
        """Whether all rounds are prepared before the first step: offline, and each is a whole epoch."""
        return isinstance(self.source, StoredSource) and self.source.parts == 1


def parts_of(
    recipe: Recipe,
    groups: Sequence[Group],
    folder: Path,
    *,
    processes: Processes,
    rewarder: Callable[[Group], Rewarded],
    show: OnProgress,
) -> Parts:
    """Load the policy and open the source; the policy is the frozen start until ``start_training``.

    Raises:
        ConfigError: the recipe cannot be trained offline, or cannot be sampled.
        ModelError: the model, or vLLM, cannot be loaded.
    """
    if not recipe.source.rounds:
        check_offline(recipe.advantage, recipe.objective)
    learning, advantage, optim, values = recipe.objective, recipe.advantage, recipe.optim, recipe.advantage.needs_values
    codec = codec_of(recipe.model)
    plan = memory_of(recipe, groups, processes=processes.count, codec=codec)
    if processes.is_main:
        announce(plan)
    learner = Learner(recipe.model, learning, optim, seed=recipe.seed, values=values, processes=processes, codec=codec)
    encoding = Encoding(learner.codec, recipe.data.max_tokens, recipe.reward, advantage, learning, recipe.data.seed)
    kept = DrawnGroups(folder / FOLDER, by_token=values, writes=processes.is_main)
    encode, draws = partial(encode_round, encoding, kept), decided_by_outcome(recipe.reward, recipe.select, recipe.data)
    learner.choose_scorer(probe(learner.codec, groups[0].task))
    stages = {"data": recipe.data, "advantage": advantage, "objective": learning, "select": recipe.select}
    form = partial(form_groups, **stages, likelihoods=partial(start_likelihoods, learner, encoding, optim))
    if not recipe.source.rounds:
        source = StoredSource(groups, recipe.data, epochs=optim.epochs, drawn=draws and learning.record.unit != "pair")
        return Parts(learner, source, unchanged, rewarder, form, partial(pack_offline, learner, learning), encode)
    with processes.accelerator.main_process_first():
        rollouts = Archive.create(folder / "rollouts")
    source = OnlineSource(groups, rollouts, recipe.source, recipe.data)
    source.check()
    rollout = beside_trainer(recipe.source.rollout, plan)
    judging = Rollouts(
        processes,
        rollouts,
        rollout.model_copy(update={"samples": recipe.data.group_size}),
        judging_for(recipe.verify, recipe.reward, processes),
        rewarder,
        f"{recipe.name}: policy in training",
        show if processes.is_main else no_progress,
    )
    sampler = current_sampler(learner, rollout, folder / "policy")
    pack = partial(pack_online, learner, folder / "rounds", learning, advantage, recipe.data.seed)
    judge, held = partial(judging.judge, sampler=sampler), HeldRewards(source.stored, rewarder)
    return Parts(learner, source, judge, rewarder, form, pack, encode, held)


def check_offline(advantage: AdvantageConfig, objective: ObjectiveConfig) -> None:
    """Refuse what offline training cannot do, and warn about objectives with a ratio to pi_old.

    Raises:
        ConfigError: the advantages need a value head, which is untrained.
    """
    if advantage.needs_values:
        raise ConfigError(f"advantage.kind {advantage.kind} is for online training: set source.rounds, or choose another kind")
    if objective.needs_old:
        warnings.warn(
            f"objective.kind {objective.kind} uses pi / pi_old, and the policy that wrote stored attempts is unknown: the frozen start is "
            "used for pi_old; watch the metric `clipped`, the share of tokens without a gradient",
            stacklevel=2,
        )


def encode_round(
    encoding: Encoding, drawn: DrawnGroups, taken: RoundGroups, groups: Sequence[Rewarded]
) -> tuple[list[EncodedGroup], Counter[str]]:
    """Tokenize the groups of a round with the advantages of its number (``advantage.options_end``), and record those that are trained on."""
    fitted: list[TrainGroup] = []
    now = replace(encoding, advantage=encoding.advantage.at(taken.number, taken.rounds))
    encoded, left_out = encode_groups(groups, now, fitted=fitted)
    drawn.record(taken.number, fitted)
    return encoded, left_out


def unchanged(groups: RoundGroups) -> RoundGroups:
    """Return stored groups unchanged, because they are judged already."""
    return groups


def pack_offline(
    learner: Learner, objective: ObjectiveConfig, _number: int, groups: list[EncodedGroup]
) -> tuple[list[list[PackedBatch]], FrozenScores]:
    """Pack the groups of an epoch, and score those of the steps that ``optim.max_steps`` lets it reach under the frozen start."""
    steps = pack_round(groups, learner.optim, orders=None, processes=learner.processes.count)
    if not (objective.needs_reference or objective.needs_old):
        return steps, FrozenScores()
    batches = [batch for step in steps[: learner.optim.max_steps or None] for batch in step]
    return steps, score_start(learner, batches, objective)


def pack_online(
    learner: Learner,
    folder: Path,
    objective: ObjectiveConfig,
    advantage: AdvantageConfig,
    seed: int,
    number: int,
    groups: list[EncodedGroup],
) -> tuple[list[list[PackedBatch]], FrozenScores]:
    """Score the attempts of a round under the policy before its first step on them, or read the scores of an interrupted run; pack the round."""
    file = folder / f"{number:08x}.npz"
    groups, scores = score_now(learner, groups, file, objective=objective, advantage=advantage)
    return pack_round(groups, learner.optim, orders=(seed, number), processes=learner.processes.count), scores


def current_sampler(learner: Learner, config: SampleConfig, folder: Path) -> Callable[[], Sampler | None]:
    """Return a function that returns a sampler of the policy with its current weights: on every rank, or on rank 0, by engine.

    Args:
        learner: the policy.
        config: the engine and its settings.
        folder: for files of the engine.
    """
    run, everywhere = policy_sampler(config, learner.config, folder), bool(find("engine", config.engine).every_rank)

    def ready() -> Sampler | None:
        policy = learner.full_policy(everywhere=everywhere)
        if policy is None or not (everywhere or learner.processes.is_main):
            return None
        return partial(run, learner.sampling_copy(policy), learner.codec)

    return ready
