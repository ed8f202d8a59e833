"""The training loop: groups -> judge -> reward -> tokenize and filter -> advantage -> pack -> step."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from upsolve.archive.groups import Lazy
from upsolve.archive.store import Archive
from upsolve.config import AdvantageConfig, DataConfig, ObjectiveConfig, Recipe, SampleConfig, SelectConfig, recipe_yaml
from upsolve.errors import CollapseError
from upsolve.plugins import find
from upsolve.policy.engines import policy_sampler
from upsolve.policy.model import codec_of, save_model
from upsolve.policy.request import Sampler, of_policy, request_sampler
from upsolve.reward.formula import Rewarded
from upsolve.reward.selection import Likelihoods, choose
from upsolve.train.check import checked_rewarder
from upsolve.train.data.ahead import RoundsAhead, read_weights
from upsolve.train.data.drawn import FOLDER, DrawnGroups
from upsolve.train.data.encode import Encoded, Encoding, Tokenized, draw_pairs, encode_groups, tokenize_groups
from upsolve.train.data.groups import CachedRewards, Formed, decided_by_outcome, draw_groups, whole_groups
from upsolve.train.data.judging import Rollouts, judging_for, sample_metrics, staleness_metrics
from upsolve.train.data.pack import PackedBatch, pack_round
from upsolve.train.data.sources import OnlineSource, RoundGroups, Source, StoredSource, round_tag
from upsolve.train.run.folder import WEIGHTS, Trained, claim_run, replace_folder
from upsolve.train.run.memory import MemoryPlan, announce, beside_trainer, memory_of
from upsolve.train.run.nodes import find_disks, watched
from upsolve.train.run.processes import Processes, deterministic
from upsolve.train.run.steps import OnStep, Round, StopSignals, start_run
from upsolve.train.update.learner import Learner
from upsolve.train.update.reference_scorer import probe
from upsolve.train.update.scores import score_now, score_start, start_likelihoods, value_metrics, with_gae
from upsolve.train.update.step import FrozenScores
from upsolve.types import Group, OnProgress, no_progress

__all__ = ["Pipeline", "form_groups", "train"]


def train(
    recipe: Recipe,
    groups: Sequence[Group],
    heldout: Sequence[Group],
    folder: str | Path,
    *,
    on_step: OnStep | None = None,
    show: OnProgress | None = None,
    fresh: bool = False,
) -> Trained:
    """Train a policy on judged groups. Interrupt any time; call again to resume (docs/online.md).

    Args:
        recipe: all settings.
        groups: judged groups of the training tasks; online, also tasks without attempts.
        heldout: judged groups of other tasks, for the monitors.
        folder: of the run: model/, metrics.jsonl, the resolved recipe, and the checkpoint until the run is finished.
        on_step: called with steps done, steps in all, and the step's metrics.
        show: called while a round is sampled and judged.
        fresh: remove an earlier run in the folder first.

    Raises:
        ConfigError: the recipe contradicts itself, or the archive lacks data that it needs; raised before the model is loaded.
        TrainingError: no group has a gradient, or the folder holds another run.
        KeyboardInterrupt: SIGINT or SIGTERM; a checkpoint of the last step is kept.
    """
    path, processes = Path(folder), Processes()
    with watched(processes, recipe_yaml(recipe), recipe.data.archive, recipe.model):
        recipe, done = processes.from_main(lambda: claim_run(path, recipe, fresh=fresh))
        if done:
            return done
        find_disks(path, processes)
        return train_claimed(recipe, groups, heldout, path, processes=processes, on_step=on_step, show=show)


def train_claimed(
    recipe: Recipe,
    groups: Sequence[Group],
    heldout: Sequence[Group],
    path: Path,
    *,
    processes: Processes,
    on_step: OnStep | None,
    show: OnProgress | None,
) -> Trained:
    """Train in a folder that belongs to the run, see ``train``. Collective."""
    collapsed, usable = "", True
    rewarder = checked_rewarder(recipe, groups, processes)
    with StopSignals() as signals, deterministic(recipe.optim.deterministic), ExitStack() as stack:
        pipeline = open_pipeline(recipe, groups, path, processes=processes, rewarder=rewarder, show=show or no_progress)
        stack.callback(pipeline.close)
        ahead = pipeline.prepare_epochs() if pipeline.source.is_ahead else []
        rounds = len(ahead) or pipeline.source.rounds
        run = start_run(
            recipe, pipeline.learner, path, heldout=heldout, rounds=rounds, ahead=ahead, signals=signals, on_step=on_step
        )
        try:
            while not run.is_done:
                now = ahead[run.progress.round] if ahead else pipeline.prepare(run.progress.round)
                for batches, lr in run.remaining(now):
                    run.record(pipeline.step(batches, now.scores, lr))
        except CollapseError as error:
            collapsed, usable = str(error), error.ahead
        pipeline.close()  # before files are removed that it reads
        return run.finish(collapsed, usable=usable)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The verbs of training, in order. Offline, online, hybrid and replay training differ in the source of groups."""

    recipe: Recipe
    """All settings."""
    learner: Learner
    """The policy in training."""
    source: Source
    """Source of groups."""
    rollouts: Callable[[RoundGroups], RoundGroups] | None
    """Samples the tasks of a round with the current policy, and judges the attempts; None: offline."""
    rewarder: Callable[[Group], Rewarded]
    """Rewards the attempts of a group."""
    cached: CachedRewards
    """The stored attempts of all tasks with their rewards, computed once."""
    encoding: Encoding
    """Tokenizer, token limit, and how advantages are assigned to tokens."""
    recorder: DrawnGroups
    """Records the groups that are trained on."""
    folder: Path
    """Folder of the run."""
    ahead: RoundsAhead | None = None
    """Samples rounds in the background (``source.ahead``); None: each round is sampled when it is prepared."""

    def prepare(self, number: int) -> Round:
        """Return a round (offline: an epoch), ready to train on."""
        started = time.monotonic()
        judged = self.judge(self.groups(number))
        formed = self.reward(judged)
        encoded, values = self.advantage(number, self.tokenize_and_filter(formed))
        steps, scores = self.pack(number, encoded, values)
        seconds = {"preparing_seconds": time.monotonic() - started}
        metrics = {**sample_metrics(judged.sampled), **staleness_metrics(judged), **value_metrics(scores), **seconds}
        return Round(number, steps, scores, len(encoded.groups), formed.left_out + encoded.left_out, formed.flagged, metrics)

    def prepare_epochs(self) -> list[Round]:
        """Return the epochs of an offline run, ready to train on; with ``optim.max_steps``, only epochs that are reached."""
        ahead, most = list[Round](), self.recipe.optim.max_steps
        while len(ahead) < self.source.rounds and not 0 < most <= sum(len(now.steps) for now in ahead):
            ahead.append(self.prepare(len(ahead)))
        return ahead

    def groups(self, number: int) -> RoundGroups:
        """Return the stored groups of a round, and online the tasks to sample; none are left to sample once the round was sampled ahead."""
        if self.ahead:
            self.ahead.reach(number)
        return self.source.groups(number)

    def judge(self, found: RoundGroups) -> RoundGroups:
        """Sample the tasks of a round and judge the attempts; stored attempts are judged already."""
        return self.rollouts(found) if self.rollouts and found.tasks else found

    def reward(self, judged: RoundGroups) -> Formed:
        """Reward the attempts, apply ``select``, and sample the groups or pairs of the round."""
        recipe, sampled = self.recipe, (*judged.sampled, *judged.replayed)
        return form_groups(
            [self.rewarder(group) for group in sampled],
            self.cached if judged.repeats else Lazy(judged.stored, self.rewarder),
            judged,
            data=recipe.data,
            advantage=recipe.advantage,
            objective=recipe.objective,
            select=recipe.select,
            likelihoods=partial(start_likelihoods, self.learner, self.encoding, recipe.optim),
        )

    def tokenize_and_filter(self, formed: Formed) -> Tokenized:
        """Tokenize prompts and attempts, and leave out attempts over ``data.max_tokens``."""
        return tokenize_groups(formed.groups, self.encoding)

    def advantage(self, number: int, tokenized: Tokenized) -> tuple[Encoded, FrozenScores | None]:
        """Compute the advantage of every token; ``gae`` reads the values of the current policy, which are returned, too."""
        encoded = encode_groups(tokenized, self.encoding.at(number, self.source.rounds))
        self.recorder.record(number, encoded.trained)
        if not (encoded.groups and self.learner.values):
            return encoded, None
        scores = score_now(self.learner, encoded.groups, self.scores_file(number))
        groups, returns = with_gae(encoded.groups, scores, config=self.recipe.advantage.gae, kl=self.recipe.objective.kl)
        return encoded._replace(groups=groups), replace(scores, returns=returns)

    def pack(self, number: int, encoded: Encoded, scores: FrozenScores | None) -> tuple[list[list[PackedBatch]], FrozenScores]:
        """Return the micro-batches of every optimizer step, and the scores that are constants in the loss."""
        optim, count = self.recipe.optim, self.learner.processes.count
        orders = (self.recipe.data.seed, number) if self.source.is_online else None
        steps = pack_round(encoded.groups, optim, orders=orders, processes=count)
        if self.source.is_online:
            return steps, scores or score_now(self.learner, encoded.groups, self.scores_file(number))
        return steps, score_start(self.learner, [batch for step in steps[: optim.max_steps or None] for batch in step])

    def step(self, batches: Sequence[PackedBatch], scores: FrozenScores, lr: float) -> dict[str, float]:
        """Do an optimizer step: forward and backward passes, sum over processes, clip, update. Returns its metrics."""
        return self.learner.step(batches, scores, lr)

    def close(self) -> None:
        """Stop the background sampler, if there is one."""
        if self.ahead:
            self.ahead.close()

    def scores_file(self, number: int) -> Path:
        """Return the file of the scores of a round, which a resumed run reads because its weights have changed."""
        return self.folder / "rounds" / f"{round_tag(number)}.npz"


def open_pipeline(
    recipe: Recipe,
    groups: Sequence[Group],
    folder: Path,
    *,
    processes: Processes,
    rewarder: Callable[[Group], Rewarded],
    show: OnProgress,
) -> Pipeline:
    """Load the policy and open the source; the policy is the frozen start until ``start_training``."""
    objective, advantage, optim = recipe.objective, recipe.advantage, recipe.optim
    codec = codec_of(recipe.model)
    plan = memory_of(recipe, groups, processes=processes.count, codec=codec)
    if processes.is_main:
        announce(plan)
    settings: dict[str, Any] = {"seed": recipe.seed, "values": advantage.needs_values, "codec": codec}
    learner = Learner(recipe.model, objective, optim, processes=processes, **settings)
    learner.choose_scorer(probe(codec, groups[0].task))
    encoding = Encoding(codec, recipe.data.max_tokens, recipe.reward, advantage, objective, recipe.data.seed)
    recorder = DrawnGroups(folder / FOLDER, by_token=advantage.needs_values, writes=processes.is_main)
    ahead = None
    if recipe.source.rounds:
        source, rollouts, ahead = open_online(recipe, groups, folder, learner=learner, rewarder=rewarder, plan=plan, show=show)
    else:
        draws = objective.record.unit != "pair" and decided_by_outcome(recipe.reward, recipe.select, recipe.data)
        source, rollouts = StoredSource(groups, recipe.data, epochs=optim.epochs, drawn=draws), None
    cached = CachedRewards(source.stored, rewarder)
    return Pipeline(recipe, learner, source, rollouts, rewarder, cached, encoding, recorder, folder, ahead)


def open_online(
    recipe: Recipe,
    groups: Sequence[Group],
    folder: Path,
    *,
    learner: Learner,
    rewarder: Callable[[Group], Rewarded],
    plan: MemoryPlan,
    show: OnProgress,
) -> tuple[Source, Callable[[RoundGroups], RoundGroups], RoundsAhead | None]:
    """Return the source of an online run, the function that samples and judges its tasks, and the background sampler (``source.ahead``).

    The third is None if nothing is sampled in the background.
    """
    processes, place = learner.processes, folder / WEIGHTS
    with processes.accelerator.main_process_first():
        archive = Archive.create(folder / "rollouts")
    weights = partial(read_weights, place)
    source = OnlineSource(groups, archive, recipe.source, data=recipe.data, answers=recipe.model.answers, weights=weights)
    sample = beside_trainer(recipe.source.rollout, plan)
    rollouts = Rollouts(
        processes,
        archive,
        sample.model_copy(update={"samples": recipe.data.group_size}),
        judging_for(recipe.verify, recipe.reward, processes),
        rewarder,
        f"{recipe.name}: policy in training",
        show if processes.is_main else no_progress,
    )
    gives = recipe.source.hints > 0 and not recipe.model.answers
    ready = current_sampler(learner, sample, place, gives_prefixes=gives)
    ahead = None
    if recipe.source.ahead:
        beside = partial(find("engine", sample.engine).beside, sample, learner.config)
        ahead = RoundsAhead(rollouts, source, place, publish=partial(publish_weights, learner), sampler=beside)
    return source, partial(rollouts.judge, sampler=ready), ahead


def publish_weights(learner: Learner, folder: Path) -> None:
    """Write the current weights into a folder, as a model to sample from. Collective."""
    policy = learner.full_policy()
    if learner.processes.is_main:
        replace_folder(folder, lambda path: save_model(learner.sampling_copy(policy), learner.codec, path))


def current_sampler(
    learner: Learner, config: SampleConfig, folder: Path, *, gives_prefixes: bool = False
) -> Callable[[], Sampler | None]:
    """Return a function that returns a sampler with the policy's current weights: on every rank, or on rank 0 only, by engine.

    ``gives_prefixes``: samples continue beginnings of references; ConfigError if the engine cannot.
    """
    run, everywhere = policy_sampler(config, learner.config, folder), bool(find("engine", config.engine).every_rank)
    if gives_prefixes:
        request_sampler(of_policy(run, None, None), "source.hints")

    def ready() -> Sampler | None:
        policy = learner.full_policy(everywhere=everywhere)
        if policy is None or not (everywhere or learner.processes.is_main):
            return None
        return of_policy(run, learner.sampling_copy(policy), learner.codec)

    return ready


def form_groups(
    fresh: Sequence[Rewarded],
    stored: Sequence[Rewarded],
    taken: RoundGroups,
    *,
    data: DataConfig,
    advantage: AdvantageConfig,
    objective: ObjectiveConfig,
    select: SelectConfig,
    likelihoods: Likelihoods | None = None,
) -> Formed:
    """Select and sample the groups of a round, without advantages: the token limit may still remove attempts (``encode_groups``).

    ``fresh``: samples of the policy, used as whole groups; an objective on pairs samples pairs from them. ``stored``: all
    attempts of tasks, from which at most ``taken.most_stored`` groups or pairs are sampled. ``likelihoods``: returns the
    log-probabilities of stored attempts under the frozen start.
    """
    number, max_stored, ordered = taken.number, taken.most_stored, bool(select.order)
    pairs, kind = objective.record.unit == "pair", objective.preference.pairs
    new, old = (choose(part, select, number=number, seed=data.seed, likelihoods=likelihoods) for part in (fresh, stored))
    sampled = draw_pairs(new.rewarded, data, kind, epoch=number) if pairs else whole_groups(new.rewarded)
    of_archive = (
        draw_pairs(old.rewarded, data, kind, epoch=number, most=max_stored)
        if pairs
        else draw_groups(old.rewarded, data, needs=advantage.record.needs, epoch=number, in_order=ordered, most=max_stored)
    )
    sampled, of_archive = (
        replace(chosen_groups, left_out=chosen_groups.left_out + part.left_out)
        for chosen_groups, part in ((sampled, new), (of_archive, old))
    )
    if max_stored is None:
        return of_archive
    return (sampled + of_archive).shuffled(np.random.default_rng([data.seed, number, 2]))
