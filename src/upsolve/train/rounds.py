"""Rounds: their groups, what the policy says of them before it learns from them, and the steps to do.

Legend: R tokens of one attempt.
"""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from upsolve.advantage import gae, less_kl, whiten
from upsolve.config import Recipe
from upsolve.errors import ConfigError
from upsolve.plugins import find
from upsolve.policy.engines import policy_sampler
from upsolve.progress import OnProgress, no_progress
from upsolve.reward.formula import analyses_needed
from upsolve.train.encode import EncodedAttempt, EncodedGroup, encode_groups
from upsolve.train.learner import Learner
from upsolve.train.pack import PackedBatch, plan_steps
from upsolve.train.reference import save_arrays
from upsolve.train.reference_scorer import probe
from upsolve.train.schedule import Plan, plan_epochs
from upsolve.train.sources import Supply
from upsolve.train.step import ByAttempt, Known
from upsolve.types import Attempt, Group, Task, Verdict
from upsolve.verify.configured import judging_of
from upsolve.verify.pool.pool import verify

__all__ = ["Offline", "Online", "Round", "Rounds", "rounds_of", "with_gae"]

Floats = NDArray[np.float32]
Read = tuple[ByAttempt, ByAttempt]
"""Log-probabilities and values of attempts by key; no values without a value head."""


@dataclass(frozen=True, slots=True)
class Round:
    """What is to be done."""

    plan: Plan
    """Its steps."""
    known: Known
    """What the losses read of its attempts."""
    figures: Mapping[str, float]
    """For the log: about its new samples."""


class Rounds(Protocol):
    """Where rounds come from."""

    @property
    def total(self) -> int:
        """How many there are."""
        ...

    def next(self, number: int) -> Round:
        """Return a round, counted from 0."""
        ...


def rounds_of(learner: Learner, groups: Sequence[Group], folder: Path, show: OnProgress) -> Rounds:
    """Return the rounds a recipe asks for; the learner is still the frozen start, and its way of scoring is chosen here."""
    return Online(learner, groups, folder, show) if learner.recipe.source.rounds else Offline(learner, groups)


class Offline:
    """One round: stored groups, as many epochs as the recipe says."""

    total = 1

    def __init__(self, learner: Learner, groups: Sequence[Group]) -> None:
        """Lay everything out, and read what the frozen start says of it where the objective wants that.

        Raises:
            ConfigError: the advantages need a value head, which has learned nothing yet.
            TrainingError: nothing to train on.
        """
        recipe, objective = learner.recipe, learner.recipe.objective
        if recipe.advantage.needs_values:
            raise ConfigError("advantage.kind gae is for online training: set source.rounds, or choose another kind")
        if objective.needs_old:
            warnings.warn(
                f"objective.kind {objective.kind} weighs by pi / pi_old, and nobody knows who wrote stored attempts: the frozen start "
                "stands in; watch `clipped`, such tokens have no gradient",
                stacklevel=2,
            )
        plan = plan_epochs(groups, recipe, learner.codec, processes=learner.processes)
        learner.check(plan.steps[0][0])
        wanted = objective.needs_reference or objective.needs_old
        logps = learner.start_logps([batch for step in plan.steps for batch in step]) if wanted else None
        known = Known(reference=logps if objective.needs_reference else None, old=logps if objective.needs_old else None)
        self.round = Round(plan, known, {})

    def next(self, number: int) -> Round:
        """Return the one round."""
        del number
        return self.round


class Online:
    """Rounds of sample, judge, train."""

    def __init__(self, learner: Learner, groups: Sequence[Group], folder: Path, show: OnProgress) -> None:
        """Open the sources of a run that lives in a folder.

        Raises:
            ConfigError: there is no task to sample at.
        """
        self.learner, self.folder, recipe = learner, folder, learner.recipe
        self.show = show if learner.leads else no_progress
        rollout = recipe.source.rollout
        self.sample = policy_sampler(rollout, recipe.model, folder / "policy")
        self.shares: bool = find("engine", rollout.engine).every_rank
        self.total = recipe.source.rounds
        judging = judging_of(recipe.verify, lines=recipe.reward.mask_unexecuted)
        wanted = sorted({*judging.analyses, *analyses_needed(recipe.reward)})
        self.judging = replace(judging, analyses=tuple(wanted))
        with learner.accelerator.main_process_first():  # one makes the archive of what is sampled
            self.supply = Supply(recipe, groups, folder, self.judge, writes=learner.leads)
        self.supply.check()
        learner.check(probe(learner.codec, groups[0].task))

    def judge(self, pairs: Sequence[tuple[Task, Attempt]]) -> list[Verdict]:
        """Judge attempts as the recipe says, in the first process for all."""
        done = iter(range(1, len(pairs) + 1))

        def said(_index: int, _verdict: Verdict) -> None:
            self.show("verify", next(done), len(pairs))

        return self.learner.led(lambda: verify(pairs, self.judging, on_done=said))

    def draw(self, policy: Any, tasks: Sequence[Task], seed: int) -> list[Attempt]:
        """Sample G attempts at each task, in the order of the tasks; every rank samples its share of them, or rank 0 all of them, as the engine says.

        The noise of an attempt is its own, so it does not matter, up to rounding, which process draws it.
        """
        learner, recipe = self.learner, self.learner.recipe
        config = recipe.source.rollout.model_copy(update={"samples": recipe.data.group_size, "seed": seed})
        mine = tasks if learner.leads else []
        if self.shares:
            mine = tasks[learner.accelerator.process_index :: learner.processes]
        drawn: list[Attempt] = []
        if mine:
            drawn += self.sample(
                learner.sampled(policy),
                learner.codec,
                mine,
                config=config,
                author=f"{recipe.name}: policy in training",
                on_done=lambda done: self.show("sample", done, len(mine) * config.samples),
            )
        order = {task.task_id: number for number, task in enumerate(tasks)}
        return sorted(learner.collected(drawn), key=lambda attempt: order[attempt.task_id])

    def next(self, number: int) -> Round:
        """Sample, judge, reward, weigh and lay out; what is stored of this round already is read instead."""
        learner, recipe, started = self.learner, self.learner.recipe, time.monotonic()
        policy = learner.gathered(everywhere=self.shares)
        drawn = self.supply.round(number, lambda tasks, seed: self.draw(policy, tasks, seed))
        encoded, too_long = encode_groups(drawn.cut.groups, learner.codec, recipe)
        known = Known()
        if encoded:
            encoded, known = self.read(number, encoded)
        steps = lay_out(encoded, recipe, number, processes=learner.processes)
        plan = Plan(steps, len(encoded), drawn.cut.left_out + too_long, drawn.cut.flagged)
        return Round(plan, known, {**drawn.figures, **value_figures(known), "preparing_seconds": time.monotonic() - started})

    def read(self, number: int, encoded: list[EncodedGroup]) -> tuple[list[EncodedGroup], Known]:
        """Find out what the losses read of the attempts, and give tokens their advantages where these are made of values."""
        learner, objective = self.learner, self.learner.recipe.objective
        batches = [batch for step in plan_steps(encoded, learner.recipe.optim) for batch in step]
        reference = learner.read(batches, frozen=True)[0] if objective.needs_reference else None
        if learner.value_head is None and not objective.needs_old:
            return encoded, Known(reference=reference)
        old = remembered(self.folder / "rounds" / f"{number:08x}.npz", lambda: learner.read(batches), writes=learner.leads)
        if learner.value_head is None:
            return encoded, Known(reference=reference, old=old[0])
        encoded, returns = with_gae(encoded, old, reference, learner.recipe)
        return encoded, Known(reference=reference, old=old[0], values=old[1], returns=returns)


def value_figures(known: Known) -> dict[str, float]:
    """Return how good the values of a round's tokens were: means, and 1 - Var(R - V) / Var(R); nothing without a value head."""
    if known.values is None or known.returns is None:
        return {}
    values_T, returns_T = (np.concatenate([some[key] for key in known.values]) for some in (known.values, known.returns))
    figures = {"value_mean": float(values_T.mean()), "return_mean": float(returns_T.mean())}
    spread = float(returns_T.var())
    return {**figures, "value_explained": 1 - float((returns_T - values_T).var()) / spread} if spread else figures


def remembered(file: Path, read: Callable[[], Read], *, writes: bool) -> Read:
    """Return what the policy said of the attempts of a round at its start: from the file, or read now and written there.

    A run that is stopped in the middle of a round has other weights when it goes on.
    """
    if file.exists():
        with np.load(file) as stored:
            logps = {key[1:]: stored[key] for key in stored.files if key[0] == "p"}
            return logps, {key[1:]: stored[key] for key in stored.files if key[0] == "v"}
    logps, values = read()
    if not writes:
        return logps, values
    save_arrays(
        file, {**{f"p{key}": logp for key, logp in logps.items()}, **{f"v{key}": value for key, value in values.items()}}
    )
    return logps, values


def with_gae(
    groups: Sequence[EncodedGroup], old: Read, reference: ByAttempt | None, recipe: Recipe
) -> tuple[list[EncodedGroup], ByAttempt]:
    """Give every token its advantage by ``advantage.gae``, whitened over the round where asked, and return what the values are to become.

    The KL term is taken off the rewards first where ``objective.kl.place`` says so. Tokens that are masked have advantage 0.
    """
    config, kl = recipe.advantage.gae, recipe.objective.kl
    logps, values = old
    advantages: list[NDArray[np.float64]] = []
    returns: dict[str, Floats] = {}
    for key, one in by_key(groups):
        assert one.rewards_R is not None, "encoded for gae"
        rewards_R = one.rewards_R.astype(np.float64)
        if kl.coefficient and kl.place == "reward" and reference is not None:
            rewards_R = less_kl(rewards_R, (logps[key] - reference[key]).astype(np.float64), beta=kl.coefficient)
        found, wanted = gae(rewards_R, values[key].astype(np.float64), gamma=config.gamma, decay=config.decay)
        advantages.append(found)
        returns[key] = wanted.astype(np.float32)
    ends = np.cumsum([len(found) for found in advantages])[:-1]
    every = np.concatenate(advantages)
    laid = iter(np.split(whiten(every) if config.whiten else every, ends))
    weighed = [replace(group, attempts=tuple(masked(one, next(laid)) for one in group.attempts)) for group in groups]
    return weighed, returns


def by_key(groups: Sequence[EncodedGroup]) -> list[tuple[str, EncodedAttempt]]:
    """Return every attempt with its content key."""
    return [pair for group in groups for pair in zip(group.attempt_keys(), group.attempts, strict=True)]


def masked(one: EncodedAttempt, advantages_R: NDArray[np.float64]) -> EncodedAttempt:
    """Return an attempt with new advantages, 0 where its mask says so."""
    kept = advantages_R if one.mask_R is None else advantages_R * one.mask_R
    return replace(one, advantages_R=kept.astype(np.float32))


def lay_out(groups: Sequence[EncodedGroup], recipe: Recipe, number: int, *, processes: int) -> list[list[PackedBatch]]:
    """Return the steps of a round: ``optim.epochs`` passes over its groups, each in another order."""
    steps: list[list[PackedBatch]] = []
    for epoch in range(recipe.optim.epochs):
        order = np.random.default_rng([recipe.data.seed, number, 4, epoch]).permutation(len(groups))
        steps += plan_steps([groups[i] for i in order], recipe.optim, processes=processes)
    return steps
