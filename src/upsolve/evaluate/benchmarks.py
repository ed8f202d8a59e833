"""Sample a policy on tasks, judge the samples, score them."""

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from upsolve.config import Recipe
from upsolve.evaluate.diagnostics import score_tasks
from upsolve.files import write_text
from upsolve.policy.engines import sampler
from upsolve.progress import OnProgress, no_progress
from upsolve.types import Attempt, Evaluation, Task, Verdict, content_id
from upsolve.verify.limits import judging_of
from upsolve.verify.pool.pool import verify

__all__ = ["evaluate_model"]

PORTION = 128
"""Tasks sampled between two writes; an interrupt writes as well."""


def evaluate_model(
    recipe: Recipe,
    tasks: Sequence[Task],
    *,
    model: str,
    name: str,
    keep: Path | None = None,
    progress: OnProgress | None = None,
) -> tuple[Evaluation, list[Attempt], list[Verdict]]:
    """Sample a model on tasks, judge the samples, and score every task.

    With ``keep``, a call that is interrupted keeps the samples of the tasks it has finished, and the same call resumes after them.

    Args:
        recipe: its ``sample`` and ``verify`` stages are used.
        tasks: tasks to sample.
        model: name or folder.
        name: label in tables.
        keep: JSONL file for the judged samples, one a line; until it is complete, samples are kept in a folder beside it. None keeps none.
        progress: called with the stage (``sample``, ``verify``), samples done, and samples in all.

    Returns:
        The evaluation, and the samples with their verdicts.
    """
    started = time.monotonic()
    report = progress or no_progress
    unfinished = keep and keep.with_name(f"{keep.stem}.{fingerprint(recipe, tasks, model)}")
    attempts = draw_samples(recipe, tasks, model, unfinished, report)
    verdicts = judge_samples(recipe, tasks, attempts, report)
    if keep and unfinished:
        write_samples(keep, attempts, verdicts)
        shutil.rmtree(unfinished, ignore_errors=True)
    config = recipe.sample
    evaluation = Evaluation(
        name=name,
        model=model,
        tasks=f"{recipe.data.archive}:{recipe.evaluate.split}",
        temperature=config.temperature,
        top_p=config.top_p,
        seed=config.seed,
        max_tokens=config.max_tokens,
        scores=score_tasks(tasks, attempts, verdicts),
        wall_seconds=time.monotonic() - started,
    )
    return evaluation, attempts, verdicts


def fingerprint(recipe: Recipe, tasks: Sequence[Task], model: str) -> str:
    """Return the content id of all that decides what is sampled; of a folder of weights, when it was made."""
    made = str(Path(model).stat().st_mtime_ns) if Path(model).exists() else ""
    asked = [text for task in tasks for text in (task.task_id, task.prompt)]
    return content_id(model, made, str(recipe.model.bf16), recipe.sample.model_dump_json(), *asked)


def draw_samples(
    recipe: Recipe, tasks: Sequence[Task], model: str, unfinished: Path | None, report: OnProgress
) -> list[Attempt]:
    """Return the samples in the order of the tasks; whatever stops this, tasks with all of their samples are kept in the folder."""
    wanted, total = recipe.sample.samples, len(tasks) * recipe.sample.samples
    found = read_samples(unfinished)
    missing = [task for task in tasks if task.task_id not in found]
    if not missing:
        return [attempt for task in tasks for attempt in found[task.task_id]]
    draw = sampler(recipe.sample, recipe.model.at(model))
    for start in range(0, len(missing), PORTION):
        portion, before = missing[start : start + PORTION], wanted * len(found)
        drawn: dict[str, list[Attempt]] = {}
        try:
            for one in draw(
                portion,
                config=recipe.sample,
                author=model,
                on_done=lambda done, before=before: report("sample", before + done, total),
            ):
                drawn.setdefault(one.task_id, []).append(replace(one, token_ids=None, token_logps=None))
        finally:
            complete = {name: samples for name, samples in drawn.items() if len(samples) == wanted}
            found |= complete
            keep_samples(unfinished, complete)
    return [attempt for task in tasks for attempt in found[task.task_id]]


def read_samples(folder: Path | None) -> dict[str, list[Attempt]]:
    """Return the samples by task that an earlier call has left."""
    found: dict[str, list[Attempt]] = {}
    for file in sorted(folder.glob("*.jsonl")) if folder else ():
        for line in file.read_text(encoding="utf-8").splitlines():
            attempt = Attempt(**json.loads(line))
            found.setdefault(attempt.task_id, []).append(attempt)
    return found


def keep_samples(folder: Path | None, samples: Mapping[str, Sequence[Attempt]]) -> None:
    """Write samples into the next file of a folder; nothing without a folder, or without samples."""
    if folder and samples:
        rows = [json.dumps(asdict(attempt)) + "\n" for attempts in samples.values() for attempt in attempts]
        write_text(folder / f"{len([*folder.glob('*.jsonl')]):08d}.jsonl", "".join(rows))


def judge_samples(recipe: Recipe, tasks: Sequence[Task], attempts: Sequence[Attempt], report: OnProgress) -> list[Verdict]:
    """Return their verdicts, with Ruff's findings whatever else the recipe asks for."""
    judging = judging_of(recipe.verify)
    by_id = {task.task_id: task for task in tasks}
    done = iter(range(1, len(attempts) + 1))
    return verify(
        [(by_id[attempt.task_id], attempt) for attempt in attempts],
        replace(judging, analyses=tuple(sorted({*judging.analyses, "lint"}))),
        on_done=lambda _index, _verdict: report("verify", next(done), len(attempts)),
    )


def write_samples(file: Path, attempts: Sequence[Attempt], verdicts: Sequence[Verdict]) -> None:
    """Write samples with their status, one JSON object a line."""
    with file.open("w", encoding="utf-8") as out:
        for attempt, verdict in zip(attempts, verdicts, strict=True):
            out.write(json.dumps({**asdict(attempt), "status": verdict.status, "error": verdict.error_message}) + "\n")
