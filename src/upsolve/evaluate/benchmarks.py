"""Evaluate a model on tasks: pass@k at the best of several temperatures, and the likelihood of held-out passed programs."""

import shutil
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import numpy as np

from upsolve.archive.split import Split
from upsolve.config import DataConfig, EvalConfig, ModelConfig, SampleConfig, VerifyConfig
from upsolve.errors import ConfigError
from upsolve.evaluate.choice import Drawn, choices_from
from upsolve.evaluate.samples import SampledModel, SampleRun, sample_rows
from upsolve.evaluate.scores import Choices, Evaluation, Sweep, best_temperature, score_tasks, temperature_name
from upsolve.evaluate.tasksets import TaskSet, check_measurable, report_trained, task_sets, tested
from upsolve.files import json_lines, write_text
from upsolve.policy.decoding.sample import LocalModel
from upsolve.policy.prompt import prompts_id
from upsolve.train.data.groups import passed, select
from upsolve.train.run.steps import OnStep
from upsolve.train.update.reference_scorer import logps_of
from upsolve.types import Attempt, Group, OnProgress, Task, Verdict, no_progress
from upsolve.verify.limits import judge_settings

__all__ = ["HeldOut", "evaluate_model", "held_out", "heldout_likelihood", "labelled", "sweep_model"]


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Tasks that the policy is not trained on."""

    archive: str
    """Name or folder of their archive."""
    split: str
    """Split of the measured tasks: ``test`` or ``dev``."""
    dev: tuple[Task, ...]
    """Tasks on which temperatures are chosen."""
    test: tuple[Task, ...]
    """Tasks to measure on."""
    stored: Sequence[Group] = ()
    """Judged attempts of the archive at the test tasks, for ``Sweep.heldout_logp``."""
    others: tuple[TaskSet, ...] = ()
    """Task sets of ``evaluate.archives``."""

    def __repr__(self) -> str:
        return f"HeldOut({self.archive!r}, {self.split!r}, {len(self.dev)} dev tasks, {len(self.test)} tasks to measure on)"


def held_out(split: Split, archive: str, config: EvalConfig, data: DataConfig | None = None) -> HeldOut:
    """Return the tasks with tests that an evaluation samples: the tasks of a split, and of each archive in ``evaluate.archives``.

    Args:
        split: the archive, split by task.
        archive: its name or folder.
        config: numbers of tasks, and further task sets.
        data: how to split further archives; None: as ``DataConfig()``.

    Raises:
        ConfigError: there is no task, or none with tests; or a task set is not found, has no such split, or has tasks nearly equal to training tasks.
    """
    dev, test = split.tasks["dev"], split.tasks[config.split]
    chosen = tuple(test[: config.tasks or None])
    names = {task.task_id for task in chosen}
    groups = split.groups[config.split]
    stored = groups if len(chosen) == len(test) else tuple(group for group in groups if group.task.task_id in names)
    check_measurable(chosen, archive, config)
    others = task_sets(config, data or DataConfig(), [*split.tasks["train"], *split.tasks["dev"]])
    if not chosen and not others:
        sizes = ", ".join(f"{name} {len(tasks):,}" for name, tasks in split.tasks.items())
        raise ConfigError(
            f"{archive}: no task to measure on in evaluate.split: {config.split} ({sizes}); lower data.train or data.dev"
        )
    usable = tested(chosen, f"{archive}:{config.split}")
    choosing = tuple(task for task in dev if task.tests)[: config.dev_tasks or None]
    return HeldOut(archive, config.split, choosing, usable, stored, others)


Judged = tuple[Evaluation, Drawn]
"""An evaluation, and its samples with their verdicts."""


@dataclass(slots=True)
class Measurement:
    """The samples of one model, stored until all of its evaluations are done."""

    model: SampledModel
    """The model."""
    name: str
    """Label of the evaluations."""
    keep: Path | None
    """JSONL file for the judged samples; unfinished evaluations have folders beside it. None: samples are not stored."""
    rows: list[dict[str, object]] = field(default_factory=list[dict[str, object]])
    """Judged samples, for ``keep``."""
    folders: list[Path] = field(default_factory=list[Path])
    """Folders with the samples of unfinished evaluations."""

    def evaluate(
        self, tasks: Sequence[Task], configs: Sequence[SampleConfig], task_set: str, report: OnProgress
    ) -> list[Judged]:
        """Sample, judge and score tasks at several temperatures, all together."""
        started = time.monotonic()
        runs = [SampleRun(config, self.folder_of(tasks, config)) for config in configs]
        sampled = self.model.attempts(tasks, runs, report)
        drawn = time.monotonic() - started
        verdicts = iter(self.model.verdicts(tasks, [attempt for attempts in sampled for attempt in attempts], report))
        judged = [[*islice(verdicts, len(attempts))] for attempts in sampled]
        seconds, tokens = time.monotonic() - started, [sum(one.tokens or 0 for one in attempts) for attempts in sampled]
        results: list[Judged] = []
        for run, attempts, verdicts_of, own in zip(runs, sampled, judged, tokens, strict=True):
            if run.unfinished:
                self.folders.append(run.unfinished)
                self.rows += sample_rows(attempts, verdicts_of, task_set=task_set, temperature=run.config.temperature)
            evaluation = Evaluation(
                name=self.name,
                model=self.model.model.name,
                tasks=task_set,
                temperature=run.config.temperature,
                top_p=run.config.top_p,
                seed=run.config.seed,
                max_tokens=run.config.max_tokens,
                scores=score_tasks(tasks, attempts, verdicts_of),
                wall_seconds=seconds * (share := own / max(sum(tokens), 1)),
                prompts=prompts_id(tasks, self.model.model.prompt),
            )
            results.append((evaluation, Drawn(run.config.temperature, attempts, verdicts_of, drawn * share)))
        return results

    def at_each(
        self, tasks: TaskSet, sample: SampleConfig, samples: Mapping[float, int], report: OnProgress
    ) -> dict[float, Judged]:
        """Return the evaluations at temperatures with a number of samples each, and their samples."""
        configs = [
            sample.model_copy(
                update={"temperature": at, "samples": count if at else 1}
            )  # greedy decoding always gives the same
            for at, count in samples.items()
        ]
        return dict(zip(samples, self.evaluate(tasks.tasks, configs, tasks.name, report), strict=True))

    def chosen(
        self, tasks: TaskSet, at: Mapping[float, Judged], many: float, kinds: Sequence[str], report: OnProgress
    ) -> Choices | None:
        """Choose one sample a task, from the greedy sample and the samples at ``many`` (at the highest temperature if ``many`` is 0); None without
        samples."""
        warm = many or max(at)
        if not kinds or not warm or not tasks.tasks:
            return None
        drawn = [at[temperature][1] for temperature in (0.0, warm) if temperature in at]
        return choices_from(tasks.tasks, drawn, kinds, settings=judge_settings(self.model.verify), progress=report)

    def folder_of(self, tasks: Sequence[Task], config: SampleConfig) -> Path | None:
        """Return the folder for the samples of an unfinished evaluation; None if samples are not stored."""
        return self.keep and self.keep.with_name(f"{self.keep.stem}.{self.model.fingerprint(tasks, config)}")

    def finish(self) -> None:
        """Write the judged samples, remove the folders of unfinished samples, and drop the model from memory."""
        self.model.release()
        if self.keep:
            write_text(self.keep, json_lines(self.rows))
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)


def evaluate_model(
    tasks: Sequence[Task],
    *,
    model: ModelConfig,
    sample: SampleConfig,
    verify: VerifyConfig,
    name: str = "model",
    task_set: str = "",
    keep: Path | None = None,
    progress: OnProgress | None = None,
) -> tuple[Evaluation, list[Attempt], list[Verdict]]:
    """Sample a model on tasks at ``sample.temperature``, judge the samples, and score every task.

    With ``keep``, an interrupted call keeps the samples of finished tasks, and the same call resumes after these.

    Args:
        tasks: tasks to sample.
        model: name or folder, and precision.
        sample: engine, number of samples, temperature, top-p, length limit and seed.
        verify: limits of the judge.
        name: label in tables.
        task_set: name of the tasks in the evaluation, such as ``embedded:test``.
        keep: JSONL file for the judged samples, one per line; until the file is complete, samples are kept in a folder beside it. None:
            samples are not kept.
        progress: called with the stage (``sample``, ``verify``), samples done, and total samples.

    Returns:
        The evaluation, and the samples with their verdicts.
    """
    measurement = Measurement(SampledModel(model, sample, verify), name, keep)
    [(evaluation, drawn)] = measurement.evaluate(tasks, [sample], task_set, progress or no_progress)
    measurement.finish()
    return evaluation, [*drawn.attempts], [*drawn.verdicts]


def sweep_model(
    tasks: HeldOut,
    *,
    model: ModelConfig,
    sample: SampleConfig,
    verify: VerifyConfig,
    evaluate: EvalConfig,
    name: str = "model",
    keep: Path | None = None,
    progress: OnProgress | None = None,
) -> Sweep:
    """Evaluate a model at several temperatures; the model is loaded once, and temperatures are sampled together.

    Dev tasks are sampled ``evaluate.dev_samples`` times at every temperature. Test tasks, and other task sets, are sampled at three temperatures,
    ``sample.samples`` times: the best for pass@1, the best for pass@k (k = ``dev_samples``; there ``evaluate.many_samples`` times, if it is set), and
    the highest; and once at temperature 0, if it is among them. With ``evaluate.choose``, one of these samples is chosen for each task. Test tasks
    that the model was trained on are a warning. An interrupted call resumes like ``evaluate_model``.

    The arguments are those of ``evaluate_model``. The temperature of ``sample`` is not read; ``evaluate`` has the temperatures, the numbers of
    samples on dev tasks, and the kinds of evidence. ``progress`` is called with a label (name, task set, temperatures, stage) and counts.
    """
    report_trained(tasks.test, tasks.archive, model.name)
    measurement = Measurement(SampledModel(model, sample, verify), name, keep)
    show, archive, temperatures = progress or no_progress, tasks.archive, usable_temperatures(evaluate, tasks.dev)

    def measured(part: TaskSet, samples: Mapping[float, int], *, seed: int = sample.seed) -> dict[float, Judged]:
        label = f"{name}: {part.name.removeprefix(f'{archive}:')}, {', '.join(map(temperature_name, samples))}"
        return measurement.at_each(part, sample.model_copy(update={"seed": seed}), samples, labelled(show, label))

    dev: tuple[Evaluation, ...] = ()
    if len(temperatures) > 1:
        on_dev = dict.fromkeys(temperatures, evaluate.dev_samples)
        judged = measured(TaskSet(f"{archive}:dev", tasks.dev), on_dev, seed=sample.seed + 1)  # other samples than on test
        dev = tuple(evaluation for evaluation, _ in judged.values())
    best, many = chosen_temperatures(dev, evaluate) if dev else (temperatures[0], temperatures[0])
    greedy = [temperature for temperature in temperatures if temperature == 0]
    counts = dict.fromkeys(sorted({best, many, temperatures[-1], *greedy}), sample.samples)
    counts[many] = evaluate.many_samples or sample.samples
    sweeps: list[Sweep] = []
    for task_set in (TaskSet(f"{archive}:{tasks.split}", tasks.test), *tasks.others):
        judged = measured(task_set, counts)
        report = labelled(show, f"{name}: {task_set.name.removeprefix(f'{archive}:')}")
        choices = measurement.chosen(task_set, judged, many, evaluate.choose, report)
        at = {temperature: evaluation for temperature, (evaluation, _) in judged.items()}
        sweeps.append(Sweep(name, dev, at[best], at[many], at[temperatures[-1]], at.get(0.0), choices=choices))
    stored = tasks.stored if sample.engine == "transformers" else ()
    logp, scored = heldout_likelihood(stored, measurement.model, max_tasks=evaluate.likelihood_tasks)
    measurement.finish()
    return replace(sweeps[0], heldout_logp=logp, heldout_tasks=scored, others=tuple(sweeps[1:]))


def chosen_temperatures(dev: Sequence[Evaluation], config: EvalConfig) -> tuple[float, float]:
    """Return the best temperatures on dev tasks for pass@1 and for pass@k, k = ``dev_samples``; with ``many_samples``, the second one is above 0."""
    drawn = [one for one in dev if one.temperature or not config.many_samples]  # greedy decoding has one sample
    return best_temperature(dev), best_temperature(drawn, config.dev_samples)


def usable_temperatures(config: EvalConfig, dev: Sequence[Task]) -> list[float]:
    """Return the temperatures to sample at; without dev tasks only the lowest one, with a warning."""
    lowest, *others = config.temperatures
    if others and not dev:
        warnings.warn(
            f"no dev task with tests to choose a temperature on (data.dev): measuring at {lowest:g} alone", stacklevel=3
        )
        return [lowest]
    return [lowest, *others]


def labelled(progress: OnProgress, label: str) -> OnProgress:
    """Return a progress callback that prefixes the stage with a label."""
    return lambda what, done, total: progress(f"{label}: {what}", done, total)


def step_reports(progress: OnProgress) -> OnStep:
    """Return a callback that reports each optimizer step to a progress callback, with the policy's entropy."""
    return lambda done, total, row: progress(f"train: entropy {row['entropy']:.2f}", done, total)


LONGEST = 2048
"""Largest number of tokens of prompt and program together; longer ones are left out."""


def heldout_likelihood(groups: Sequence[Group], sampled: SampledModel, *, max_tasks: int) -> tuple[float | None, int]:
    """Return the mean over tasks q of log pi(o | q) / |o|, nats, and the number of tasks; o is one passed attempt at q in the language of q."""
    fitting = (select(group, DataConfig()) for group in groups)
    judged = ((group.task, zip(group.attempts, group.verdicts, strict=True)) for group in fitting)
    firsts = ((task, next((attempt for attempt, verdict in pairs if passed(verdict)), None)) for task, pairs in judged)
    programs = [*islice(((task, attempt) for task, attempt in firsts if attempt), max_tasks)]
    if not programs:
        return None, 0
    local = sampled.sampler
    if not isinstance(local, LocalModel):
        return None, 0
    codec = local.codec
    texts = [(codec.prompt(task, (), codec.prefix_of(one)).ids_P, codec.ids_of(one)) for task, one in programs]
    short = [(prompt, ids) for prompt, ids in texts if ids and len(prompt) + len(ids) <= LONGEST]
    means = [float(np.mean(logps)) for logps in logps_of(local.model.eval(), short, most=LONGEST)]
    return (float(np.mean(means)) if means else None), len(means)
