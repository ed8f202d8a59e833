"""Sample a model on tasks and judge the samples. An interrupted call resumes after the finished tasks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

from upsolve.config import ModelConfig, SampleConfig, VerifyConfig
from upsolve.files import json_lines, read_rows, write_text
from upsolve.policy.engines import sampler
from upsolve.policy.prompt import prompts_id
from upsolve.policy.request import JointSampler, Sampler
from upsolve.types import Attempt, OnProgress, Task, Verdict, content_id
from upsolve.verify.analysis.analyst import tools
from upsolve.verify.limits import JudgeSettings, judge_settings
from upsolve.verify.pool.pool import verify

__all__ = ["PORTION", "SampleRun", "SampledModel", "sample_rows"]

PORTION = 128
"""Number of tasks sampled between two writes; samples are also written on an interrupt."""


@dataclass(frozen=True, slots=True)
class SampleRun:
    """The samples of a model with one setting of the sampler."""

    config: SampleConfig
    """The setting of the sampler."""
    unfinished: Path | None
    """Folder to which an interrupted call writes the samples of finished tasks; None: these samples are lost."""


class SampledModel:
    """A model with the settings for sampling and judging; it is loaded once, when the first missing sample is needed."""

    def __init__(self, model: ModelConfig, sample: SampleConfig, verify: VerifyConfig) -> None:
        self.model, self.sample, self.verify = model, sample, verify

    @cached_property
    def sampler(self) -> Sampler:
        """The sampler of the model, which is loaded at the first access."""
        return sampler(self.sample, self.model)

    @property
    def judging(self) -> JudgeSettings:
        """The judge's settings, always with Ruff's findings."""
        return judge_settings(self.verify).with_analyses(["lint"])

    def release(self) -> None:
        """Drop the loaded model from memory."""
        self.__dict__.pop("sampler", None)

    def fingerprint(self, tasks: Sequence[Task], config: SampleConfig) -> str:
        """Return the content id of everything that determines the samples; for a folder of weights it includes the modification time."""
        name = self.model.name
        changed = str(Path(name).stat().st_mtime_ns) if Path(name).exists() else ""
        form = (str(self.model.bf16), self.model.completion, prompts_id(tasks, self.model.prompt))
        return content_id(name, changed, *form, config.model_dump_json())

    def attempts(self, tasks: Sequence[Task], runs: Sequence[SampleRun], report: OnProgress) -> list[list[Attempt]]:
        """Return ``config.samples`` attempts per task for each run; a stopped call stores the attempts of finished tasks."""
        tools(self.judging.analyses)
        found = [read_samples(run.unfinished) for run in runs]
        total = len(tasks) * sum(run.config.samples for run in runs)
        for numbers, missing in missing_tasks(tasks, found).items():
            for start in range(0, len(missing), PORTION):
                before = sum(len(known) * run.config.samples for known, run in zip(found, runs, strict=True))
                part = {number: runs[number] for number in numbers}
                on_done = after(before, lambda done: report("sample", done, total))
                self.sample_portion(missing[start : start + PORTION], part, found, on_done)
        return [[attempt for task in tasks for attempt in known[task.task_id]] for known in found]

    def sample_portion(
        self,
        tasks: Sequence[Task],
        runs: Mapping[int, SampleRun],
        found: Sequence[dict[str, list[Attempt]]],
        on_done: Callable[[int], None],
    ) -> None:
        """Sample tasks for the runs with these numbers. Adds the samples of finished tasks to ``found``, even if the call is stopped."""
        sampled = [dict[str, list[Attempt]]() for _ in found]
        try:
            for number, attempt in self.draw(tasks, runs, on_done):
                sampled[number].setdefault(attempt.task_id, []).append(replace(attempt, token_ids=None, token_logps=None))
        finally:
            for number, run in runs.items():
                complete = {name: some for name, some in sampled[number].items() if len(some) == run.config.samples}
                found[number].update(complete)
                if run.unfinished and complete:  # into the next numbered file
                    lines = json_lines(asdict(attempt) for attempts in complete.values() for attempt in attempts)
                    write_text(run.unfinished / f"{len([*run.unfinished.glob('*.jsonl')]):08d}.jsonl", lines)

    def draw(
        self, tasks: Sequence[Task], runs: Mapping[int, SampleRun], on_done: Callable[[int], None]
    ) -> Iterator[tuple[int, Attempt]]:
        """Yield the number of the run and each attempt: for all runs together if the engine supports it, else run by run."""
        engine, given = self.sampler, {"author": self.model.name}
        numbers, configs = [*runs], [run.config for run in runs.values()]
        if isinstance(engine, JointSampler):
            yield from ((numbers[part], one) for part, one in engine.each(tasks, configs=configs, on_done=on_done, **given))
            return
        before = 0
        for number, config in zip(numbers, configs, strict=True):
            attempts = engine(tasks, config=config, on_done=after(before, on_done), **given)
            yield from ((number, attempt) for attempt in attempts)
            before += len(tasks) * config.samples

    def verdicts(self, tasks: Sequence[Task], attempts: Sequence[Attempt], report: OnProgress) -> list[Verdict]:
        """Return the verdicts of attempts, in the order of the attempts."""
        by_id = {task.task_id: task for task in tasks}
        done = iter(range(1, len(attempts) + 1))
        return verify(
            [(by_id[attempt.task_id], attempt) for attempt in attempts],
            self.judging,
            on_done=lambda _index, _verdict: report("verify", next(done), len(attempts)),
        )


def after(before: int, on_done: Callable[[int], None]) -> Callable[[int], None]:
    """Return a progress callback that adds the number of attempts finished before."""
    return lambda more: on_done(before + more)


def missing_tasks(tasks: Sequence[Task], found: Sequence[Mapping[str, object]]) -> dict[tuple[int, ...], list[Task]]:
    """Return the tasks that are missing in the same runs together: numbers of these runs -> tasks."""
    missing: dict[tuple[int, ...], list[Task]] = {}
    for task in tasks:
        if numbers := tuple(number for number, known in enumerate(found) if task.task_id not in known):
            missing.setdefault(numbers, []).append(task)
    return missing


def read_samples(folder: Path | None) -> dict[str, list[Attempt]]:
    """Return the samples that an earlier call left in a folder, by task id; {} without a folder."""
    by_task: dict[str, list[Attempt]] = {}
    for file in sorted(folder.glob("*.jsonl")) if folder else ():
        for row in read_rows(file):
            by_task.setdefault(row["task_id"], []).append(Attempt(**row))
    return by_task


def sample_rows(
    attempts: Sequence[Attempt], verdicts: Sequence[Verdict], *, task_set: str, temperature: float
) -> list[dict[str, object]]:
    """Return one JSON object per judged sample: the attempt, its status, type and text of the error, the task set and the temperature."""
    where = {"task_set": task_set, "temperature": temperature}
    return [
        {**asdict(one), "status": verdict.status, "error_type": verdict.error_type, "error": verdict.error_message, **where}
        for one, verdict in zip(attempts, verdicts, strict=True)
    ]
