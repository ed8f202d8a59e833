"""Sample a policy on tasks, judge the samples, score them."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from upsolve.config import Recipe
from upsolve.evaluate.diagnostics import score_tasks
from upsolve.policy.model import load_codec, load_model
from upsolve.policy.sample import sample
from upsolve.types import Attempt, Evaluation, Task, Verdict
from upsolve.verify.limits import Limits
from upsolve.verify.pool import verify

__all__ = ["evaluate", "limits_of"]

Progress = Callable[[str, int, int], None]


def limits_of(recipe: Recipe) -> Limits:
    """Return the limits a recipe sets."""
    v = recipe.verify
    return Limits(v.wall_seconds, v.cpu_seconds, v.memory_bytes, v.output_bytes)


def evaluate(
    recipe: Recipe,
    tasks: Sequence[Task],
    *,
    model: str,
    name: str,
    keep: Path | None = None,
    progress: Progress | None = None,
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
    config = recipe.sample
    report = progress or (lambda _what, _done, _all: None)
    total = len(tasks) * config.samples
    policy = load_model(model, dtype=torch.bfloat16 if recipe.model.bf16 else torch.float32, device=best_device())
    codec = load_codec(model)
    attempts = list(sample(policy, codec, tasks, config=config, author=model, on_done=lambda n: report("sample", n, total)))
    del policy
    by_id = {task.task_id: task for task in tasks}
    order = {task.task_id: position for position, task in enumerate(tasks)}
    attempts.sort(key=lambda attempt: order[attempt.task_id])
    pairs = [(by_id[attempt.task_id], attempt) for attempt in attempts]
    done = iter(range(1, total + 1))
    verdicts = verify(
        pairs,
        limits=limits_of(recipe),
        workers=recipe.verify.workers,
        isolation=recipe.verify.isolation,
        on_done=lambda _index, _verdict: report("verify", next(done), total),
    )
    if keep:
        write_samples(keep, attempts, verdicts)
    scores = score_tasks(tasks, attempts, verdicts)
    evaluation = Evaluation(
        name=name,
        model=model,
        tasks=f"{recipe.data.archive}:{recipe.evaluate.split}",
        temperature=config.temperature,
        top_p=config.top_p,
        seed=config.seed,
        max_tokens=config.max_tokens,
        scores=scores,
        wall_seconds=time.monotonic() - started,
    )
    return evaluation, attempts, verdicts


def best_device() -> str:
    """Return ``cuda`` where there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def write_samples(file: Path, attempts: Sequence[Attempt], verdicts: Sequence[Verdict]) -> None:
    """Write samples with their status, one JSON object a line."""
    with file.open("w", encoding="utf-8") as out:
        for attempt, verdict in zip(attempts, verdicts, strict=True):
            out.write(json.dumps({**asdict(attempt), "status": verdict.status, "error": verdict.error_message}) + "\n")
