"""Rounds of a policy's own judged samples, after training on an archive, for as long as dev tasks gain."""

import json
import logging
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from upsolve.archive.split import Split
from upsolve.archive.store import Archive
from upsolve.config import ModelConfig, Recipe, load_recipe
from upsolve.config.online import UNSOLVED
from upsolve.errors import TrainingError
from upsolve.evaluate.benchmarks import labelled, step_reports
from upsolve.evaluate.runs import CONTROL, FAILURES_FIRST, OWN_FOLDER, REPEAT, STAGES, Stage, place_of
from upsolve.evaluate.scores import Sweep
from upsolve.files import write_text
from upsolve.policy.collect import sample_missing
from upsolve.train.loop import train
from upsolve.train.run.folder import Trained
from upsolve.types import Attempt, Group, OnProgress, Status, Task, Verdict, is_scored
from upsolve.verify.limits import judge_settings
from upsolve.verify.pool.pool import verify

__all__ = ["run_rounds"]

LOGGER = logging.getLogger("upsolve")


class Rounds:
    """The stages of a run, made one by one."""

    def __init__(
        self,
        recipe: Recipe,
        folder: Path,
        split: Split,
        *,
        measured: Callable[[ModelConfig, str], Sweep],
        progress: OnProgress,
    ) -> None:
        """Store the arguments of ``run_rounds``."""
        self.recipe, self.folder, self.split = recipe, folder / OWN_FOLDER, split
        self.measured, self.progress = measured, progress
        self.groups = {group.task.task_id: group for group in split.groups["train"]}
        self.stages: list[Stage] = []
        self.folder.mkdir(exist_ok=True)

    @property
    def best(self) -> Stage:
        """The last stage that was kept."""
        return next(stage for stage in reversed(self.stages) if stage.kept)

    def add(self, name: str, recipe: Recipe, groups: Sequence[Group], drawn: Sequence[bool] = ()) -> Stage:
        """Train and measure a stage, or load it."""
        trained = train(recipe, groups, self.split.groups["dev"], **self.shown(name))
        sweep = self.measured(self.recipe.model.at(str(trained.folder)), f"{OWN_FOLDER}/{place_of(name)}")
        stage = Stage(name, trained, sweep, False, len(drawn), sum(drawn))
        kept = not self.stages or (name != CONTROL and stage.gains_over(self.best))
        self.stages.append(replace(stage, kept=kept))
        rows = [{name: getattr(one, name) for name in ("name", "kept", "samples", "passed")} for one in self.stages]
        write_text(self.folder / STAGES, json.dumps(rows, indent=1))
        return self.stages[-1]

    def shown(self, name: str) -> Any:
        """Return the folder and the progress callback of a stage, as arguments of ``train``."""
        folder, report = self.folder / f"{place_of(name)}-training", labelled(self.progress, name)
        return {"folder": folder, "on_step": step_reports(report), "show": report}

    def failures_first(self) -> None:
        """Imitate the failed attempts of tasks that nobody solved, then the archive, if there are ``UNSOLVED`` times as many such tasks as solved ones."""
        groups, solved = self.split.groups["train"], self.solved()
        unsolved = [group for group in groups if group.task.task_id not in solved and any(map(is_scored, group.verdicts))]
        if len(unsolved) < UNSOLVED * len(solved):
            return
        like = load_recipe("unsolved")
        data = self.recipe.data.model_copy(update={"group_size": like.data.group_size})
        stages = {"select": like.select, "advantage": like.advantage, "objective": like.objective, "data": data}
        imitation = self.recipe.model_copy(update=stages)
        first = train(imitation, unsolved, self.split.groups["dev"], **self.shown("failures"))
        self.add(FAILURES_FIRST, continued(self.recipe, first, self.recipe.data.archive, 0), groups)

    def repeated(self) -> None:
        """Train the best model on the archive for as many steps as before, up to ``own.repeats`` times, while dev tasks gain."""
        for number in range(1, self.recipe.own.repeats + 1):
            steps = sum(stage.trained.steps for stage in self.stages if stage.kept)
            if not self.add(f"{REPEAT} {number}", self.longer(self.best.trained, steps), self.split.groups["train"]).kept:
                break

    def longer(self, start: Trained, steps: int) -> Recipe:
        """Return the recipe of a further training on the archive: a number of steps, whatever the number of epochs, in another order."""
        recipe, first = continued(self.recipe, start, self.recipe.data.archive, steps), self.stages[0].trained.steps
        epochs = max(recipe.optim.epochs, math.ceil(recipe.optim.epochs * steps / max(first, 1)))
        data = recipe.data.model_copy(update={"seed": recipe.data.seed + len(self.stages)})
        return recipe.model_copy(update={"data": data, "optim": recipe.optim.model_copy(update={"epochs": epochs})})

    def solved(self) -> set[str]:
        """Return the ids of the training tasks with a passed attempt."""
        return {name for name, group in self.groups.items() if any(v and v.status is Status.PASSED for v in group.verdicts)}

    def round(self, number: int) -> Stage:
        """Sample, judge, train and measure a round."""
        own, name = self.recipe.own, f"round {number}"
        tasks = self.tasks(own.tasks, self.recipe.sample.seed + number)
        archive, drawn = self.sampled(number, tasks, name)
        found = [*archive.groups()]
        self.groups |= {group.task.task_id: group for group in found}
        return self.add(name, continued(self.recipe, self.best.trained, str(archive.path), own.steps), found, drawn)

    def tasks(self, most: int, seed: int) -> list[Task]:
        """Return the tasks that a round samples: first tasks that no attempt passed, then others, each part in random order."""
        tested = [task for task in self.split.tasks["train"] if task.tests]
        random.Random(seed).shuffle(tested)
        solved = self.solved()
        return sorted(tested, key=lambda task: task.task_id in solved)[:most]

    def sampled(self, number: int, tasks: Sequence[Task], name: str) -> tuple[Archive, list[bool]]:
        """Return an archive of some tasks with their attempts so far and new samples of the best model; and whether each of these samples passed."""
        path, recipe, author = self.folder / f"archive-{number}", self.recipe, f"{self.recipe.name}, {name}"
        archive = Archive(path) if (path / "archive.json").exists() else Archive.create(path)
        if not archive.tasks():
            known = [self.groups[task.task_id] for task in tasks if task.task_id in self.groups]
            pairs = [(a, v) for group in known for a, v in zip(group.attempts, group.verdicts, strict=True)]
            archive.append(tasks=tasks, attempts=[a for a, _ in pairs], verdicts=[v for _, v in pairs if v])
        config = recipe.sample.model_copy(update={"samples": recipe.own.samples, "temperature": recipe.own.temperature})
        model, by_id = recipe.model.at(str(self.best.trained.folder)), {task.task_id: task for task in archive.tasks()}
        report = labelled(self.progress, name)
        sample_missing(archive, by_id, config, model=model, author=author, progress=report)

        def mine() -> list[tuple[Task, Attempt, Verdict | None]]:
            return [
                (group.task, attempt, verdict)
                for group in archive.groups()
                for attempt, verdict in zip(group.attempts, group.verdicts, strict=True)
                if attempt.author == author
            ]

        pending = [(task, attempt) for task, attempt, verdict in mine() if verdict is None]
        settings = judge_settings(recipe.verify)
        archive.append(verdicts=verify(pending, settings, on_done=lambda index, _: report("verify", index + 1, len(pending))))
        return archive, [bool(v and v.status is Status.PASSED) for _, attempt, v in mine() for _ in range(attempt.count)]


def run_rounds(recipe: Recipe, folder: Path, split: Split, **given: Any) -> tuple[Stage, ...]:
    """Train on the archive, twice as long while dev tasks gain, then in rounds: sample the best model, judge, train it on what passed.

    Repetitions end with the first one without a gain (at most ``own.repeats``); rounds end with the first one without a gain, or whose training
    fails.

    A round draws ``own.samples`` samples at ``own.tasks`` training tasks: first at tasks without a passed attempt, then at others at random. It
    trains on the stored and own attempts at these tasks, by the run's own recipe (expert iteration: STaR, 2203.14465; ReST-EM, 2312.06585). With
    ``own.failures``, a stage before them imitates failed attempts of tasks that nobody solved, then trains on the archive; it is kept if dev tasks
    gain. The control continues from the model before the rounds on the archive for as many steps as the kept rounds. Finished stages are not
    repeated. ``training`` links to the training of the best model.

    Args:
        recipe: all settings; ``own`` has those of the rounds.
        folder: of the run; the stages are in its folder ``own``.
        split: the archive, split by task.
        given: ``measured``, which measures a model on dev and test tasks (settings, name of the file without its ending); ``progress``,
            called with the stage, units done and in all.

    Returns:
        The stages in order, the control last; the last kept one is the result of the run.
    """
    rounds = Rounds(recipe, folder, split, **given)
    rounds.add("archive", recipe, split.groups["train"])
    if recipe.own.failures:
        rounds.failures_first()
    rounds.repeated()
    first = rounds.best
    for number in range(1, recipe.own.rounds + 1):
        try:
            if not rounds.round(number).kept:
                break
        except TrainingError as error:
            LOGGER.warning("own.rounds: no further round after round %d: %s", number, error)
            break
    link(folder / "training", rounds.best.trained.folder.parent)
    kept = [one for one in rounds.stages if one.kept]
    if recipe.own.control and (steps := sum(one.trained.steps for one in kept[kept.index(first) + 1 :])):
        rounds.add(CONTROL, rounds.longer(first.trained, steps), split.groups["train"])
    return tuple(rounds.stages)


def continued(recipe: Recipe, start: Trained, archive: str, steps: int) -> Recipe:
    """Return the recipe of a further training: from a trained model, on an archive, for some steps (0: those of the run)."""
    optim = recipe.optim.model_copy(update={"max_steps": steps or recipe.optim.max_steps})
    data = recipe.data.model_copy(update={"archive": archive})
    return recipe.model_copy(update={"model": recipe.model.at(str(start.folder)), "data": data, "optim": optim})


def link(place: Path, target: Path) -> None:
    """Make a relative symbolic link to the training that is the result; replaces an earlier link."""
    new = place.with_name(f"{place.name}.new")
    new.unlink(missing_ok=True)
    new.symlink_to(target.relative_to(place.parent), target_is_directory=True)
    new.replace(place)
