"""The training loop: groups -> judge -> reward -> advantage -> pack -> step. Offline and online differ in the source of groups only."""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from upsolve.config import Recipe
from upsolve.errors import CollapseError
from upsolve.progress import OnProgress, no_progress
from upsolve.train.check import checked_rewarder
from upsolve.train.rounds import Round, prepare_epochs, round_metrics
from upsolve.train.run.folder import Trained, claim_run
from upsolve.train.run.processes import Processes, deterministic
from upsolve.train.run.steps import OnStep, StopSignals, start_run
from upsolve.train.setup import Parts, parts_of
from upsolve.types import Group

__all__ = ["train"]


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
    path, processes, collapsed, usable = Path(folder), Processes(), "", True
    recipe, done = processes.from_main(lambda: claim_run(path, recipe, fresh=fresh))
    if done:
        return done
    rewarder = checked_rewarder(recipe, groups, processes)
    with StopSignals() as signals, deterministic(recipe.optim.deterministic):
        parts = parts_of(recipe, groups, path, processes=processes, rewarder=rewarder, show=show or no_progress)
        prepared = partial(prepare, parts)
        ahead = prepare_epochs(prepared, parts.source.rounds, recipe.optim.max_steps) if parts.ahead else []
        rounds = len(ahead) or parts.source.rounds
        run = start_run(
            recipe, parts.learner, path, heldout=heldout, rounds=rounds, ahead=ahead, signals=signals, on_step=on_step
        )
        try:
            while not run.is_done:
                now = ahead[run.progress.round] if ahead else prepared(run.progress.round)
                for batches, lr in run.remaining(now):
                    run.record(parts.learner.step(batches, now.scores, lr))  # step
        except CollapseError as error:
            collapsed, usable = str(error), error.ahead
        return run.finish(collapsed, usable=usable)


def prepare(parts: Parts, number: int) -> Round:
    """Return a round, ready to train on; offline a round is an epoch."""
    started, groups = time.monotonic(), parts.source.groups(number)  # groups
    judged = parts.judge(groups)  # judge: samples the round's tasks and judges the attempts; stored groups are judged already
    samples = [parts.reward(group) for group in (*judged.sampled, *judged.replayed)]  # reward
    stored = parts.reward_stored(judged.stored)
    formed = parts.form(samples, stored, judged)  # of the groups and attempts that `select` keeps
    encoded, left_out = parts.encode(judged, formed.groups)  # advantage: of the attempts that fit into the token limit
    steps, scores = parts.pack(number, encoded)  # pack, with the scores under the frozen start or under the policy as it is now
    metrics = round_metrics(judged.sampled, scores, seconds=time.monotonic() - started)
    return Round(number, steps, scores, len(encoded), formed.left_out + left_out, formed.flagged, metrics)
