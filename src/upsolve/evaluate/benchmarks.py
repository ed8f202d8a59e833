"""Sample a policy on tasks, judge the samples, score them."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from upsolve.config import Recipe
from upsolve.evaluate.diagnostics import score_tasks
from upsolve.policy.engines import sampler
from upsolve.train.rounds import Show, quiet
from upsolve.types import Attempt, Evaluation, Task, Verdict
from upsolve.verify.configured import judging_of
from upsolve.verify.pool import verify

__all__ = ["evaluate"]


def evaluate(
    recipe: Recipe,
    tasks: Sequence[Task],
    *,
    model: str,
    name: str,
    keep: Path | None = None,
    progress: Show | None = None,
) -> tuple[Evaluation, list[Attempt], list[Verdict]]:
    """Measure a model on tasks.

    Args:
        recipe: its ``sample`` and ``verify`` stages are used.
        tasks: what to try.
        model: name or folder.
        name: label in tables.
        keep: JSONL file for the samples, one a line; None keeps none.
        progress: called with what is being done, how much is done, and how much there is.

    Returns:
        The evaluation, and the samples with their verdicts.
    """
    started = time.monotonic()
    report = progress or quiet
    attempts = draw_samples(recipe, tasks, model, report)
    verdicts = judge_samples(recipe, tasks, attempts, report)
    if keep:
        write_samples(keep, attempts, verdicts)
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


def draw_samples(recipe: Recipe, tasks: Sequence[Task], model: str, report: Show) -> list[Attempt]:
    """Return the samples in the order of the tasks."""
    total = len(tasks) * recipe.sample.samples
    draw = sampler(recipe, model)
    drawn = draw(tasks, config=recipe.sample, author=model, on_done=lambda done: report("sample", done, total))
    order = {task.task_id: position for position, task in enumerate(tasks)}
    return sorted(drawn, key=lambda attempt: order[attempt.task_id])


def judge_samples(recipe: Recipe, tasks: Sequence[Task], attempts: Sequence[Attempt], report: Show) -> list[Verdict]:
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
            out.write(
                json.dumps(
                    {**asdict(replace(attempt, token_ids=None)), "status": verdict.status, "error": verdict.error_message}
                )
                + "\n"
            )
