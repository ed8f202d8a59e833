"""Sample a policy on tasks, judge the samples, score them."""

import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from upsolve.config import Recipe
from upsolve.evaluate.diagnostics import score_tasks
from upsolve.files import write_text
from upsolve.policy.engines import sampler
from upsolve.progress import OnProgress, no_progress
from upsolve.types import Attempt, Evaluation, Task, Verdict, content_id
from upsolve.verify.configured import judging_of
from upsolve.verify.pool.pool import verify

__all__ = ["evaluate_model"]

PORTION = 128
"""Tasks sampled between two writes."""


def evaluate_model(
    recipe: Recipe,
    tasks: Sequence[Task],
    *,
    model: str,
    name: str,
    keep: Path | None = None,
    progress: OnProgress | None = None,
) -> tuple[Evaluation, list[Attempt], list[Verdict]]:
    """Measure a model on tasks.

    With ``keep``, samples are written down on the way, ``PORTION`` tasks at a time, and a call that was stopped goes on after the last
    ones written.

    Args:
        recipe: its ``sample`` and ``verify`` stages are used.
        tasks: what to try.
        model: name or folder.
        name: label in tables.
        keep: JSONL file for the samples, one a line, with what is not finished beside it; None keeps none.
        progress: called with what is being done, how much is done, and how much there is.

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
    """Return the samples in the order of the tasks; portions that are written down in a folder are read."""
    total, found = len(tasks) * recipe.sample.samples, list[Attempt]()
    draw = None
    for start in range(0, len(tasks), PORTION):
        portion, before = tasks[start : start + PORTION], len(found)
        file = unfinished and unfinished / f"{start:08d}.jsonl"
        if file and file.exists():
            found += [Attempt(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]
            continue
        draw = draw or sampler(recipe.sample, recipe.model.at(model))
        drawn = draw(
            portion,
            config=recipe.sample,
            author=model,
            on_done=lambda done, before=before: report("sample", before + done, total),
        )
        order = {task.task_id: position for position, task in enumerate(portion)}
        found += sorted(
            (replace(one, token_ids=None, token_logps=None) for one in drawn), key=lambda attempt: order[attempt.task_id]
        )
        if file:
            write_text(file, "".join(json.dumps(asdict(one)) + "\n" for one in found[before:]))
    return found


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
