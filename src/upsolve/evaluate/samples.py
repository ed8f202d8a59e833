"""Sample a model on tasks and judge the samples. An interrupted call resumes after the finished tasks."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path

from upsolve.config import ModelConfig, SampleConfig, VerifyConfig
from upsolve.files import write_text
from upsolve.policy.engines import sampler
from upsolve.policy.request import Sampler
from upsolve.progress import OnProgress
from upsolve.types import Attempt, Task, Verdict, content_id
from upsolve.verify.analysis.analyst import tools
from upsolve.verify.limits import JudgeSettings, judge_settings
from upsolve.verify.pool.pool import verify

__all__ = ["PORTION", "SampledModel", "sample_rows"]

PORTION = 128
"""Number of tasks sampled between two writes; samples are also written on an interrupt."""


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
        settings = judge_settings(self.verify)
        return replace(settings, analyses=tuple(sorted({*settings.analyses, "lint"})))

    def release(self) -> None:
        """Drop the loaded model from memory."""
        self.__dict__.pop("sampler", None)

    def fingerprint(self, tasks: Sequence[Task], config: SampleConfig) -> str:
        """Return the content id of everything that determines the samples; for a folder of weights it includes the modification time."""
        name = self.model.name
        changed = str(Path(name).stat().st_mtime_ns) if Path(name).exists() else ""
        prompts = [text for task in tasks for text in (task.task_id, task.prompt)]
        form = (str(self.model.bf16), self.model.completion, self.model.prompt.model_dump_json())
        return content_id(name, changed, *form, config.model_dump_json(), *prompts)

    def attempts(
        self, tasks: Sequence[Task], config: SampleConfig, unfinished: Path | None, report: OnProgress
    ) -> list[Attempt]:
        """Return ``config.samples`` attempts per task, in the order of the tasks.

        If the call is stopped, the samples of finished tasks are kept in the folder ``unfinished``, and these tasks are not sampled again.

        Raises:
            MissingExtraError: an analysis of the samples is not installed, which is found out before sampling.
        """
        tools(self.judging.analyses)
        by_task = read_samples(unfinished)
        missing = [task for task in tasks if task.task_id not in by_task]
        total = len(tasks) * config.samples
        for start in range(0, len(missing), PORTION):
            before, sampled = len(by_task) * config.samples, dict[str, list[Attempt]]()
            try:
                for sample in self.sampler(
                    missing[start : start + PORTION],
                    config=config,
                    author=self.model.name,
                    on_done=lambda done, before=before: report("sample", before + done, total),
                ):
                    sampled.setdefault(sample.task_id, []).append(replace(sample, token_ids=None, token_logps=None))
            finally:
                complete = {name: samples for name, samples in sampled.items() if len(samples) == config.samples}
                by_task |= complete
                keep_samples(unfinished, complete)
        return [attempt for task in tasks for attempt in by_task[task.task_id]]

    def verdicts(self, tasks: Sequence[Task], attempts: Sequence[Attempt], report: OnProgress) -> list[Verdict]:
        """Return the verdicts of attempts, in the order of the attempts."""
        by_id = {task.task_id: task for task in tasks}
        done = iter(range(1, len(attempts) + 1))
        return verify(
            [(by_id[attempt.task_id], attempt) for attempt in attempts],
            self.judging,
            on_done=lambda _index, _verdict: report("verify", next(done), len(attempts)),
        )


def read_samples(folder: Path | None) -> dict[str, list[Attempt]]:
    """Return the samples that an earlier call left in a folder, by task id; {} without a folder."""
    by_task: dict[str, list[Attempt]] = {}
    for file in sorted(folder.glob("*.jsonl")) if folder else ():
        for line in file.read_text(encoding="utf-8").splitlines():
            attempt = Attempt(**json.loads(line))
            by_task.setdefault(attempt.task_id, []).append(attempt)
    return by_task


def keep_samples(folder: Path | None, samples: Mapping[str, Sequence[Attempt]]) -> None:
    """Write samples into the next numbered file of a folder; do nothing without a folder or without samples."""
    if folder and samples:
        rows = [json.dumps(asdict(attempt)) + "\n" for attempts in samples.values() for attempt in attempts]
        write_text(folder / f"{len([*folder.glob('*.jsonl')]):08d}.jsonl", "".join(rows))


def sample_rows(
    attempts: Sequence[Attempt], verdicts: Sequence[Verdict], *, task_set: str, temperature: float
) -> list[dict[str, object]]:
    """Return one JSON object per judged sample: the attempt, its status and error, the task set and the temperature."""
    where = {"task_set": task_set, "temperature": temperature}
    return [
        {**asdict(attempt), "status": verdict.status, "error": verdict.error_message, **where}
        for attempt, verdict in zip(attempts, verdicts, strict=True)
    ]
