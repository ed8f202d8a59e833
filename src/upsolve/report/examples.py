"""Example attempts of base and trained model side by side: first at tasks that got worse, then at tasks that got better."""

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from upsolve.evaluate.scores import Evaluation
from upsolve.evaluate.sweep import Sweep
from upsolve.types import Task

__all__ = ["Example", "diff_lines", "pick_examples"]

Sample = tuple[str, str]
"""Code and status."""
EACH = 6
"""Number of examples of tasks that got worse, and of tasks that got better."""


@dataclass(frozen=True, slots=True)
class Example:
    """One task with an attempt of the base model and an attempt of the trained model."""

    task_id: str
    """The task."""
    prompt: str
    """Statement of the task."""
    before: str
    """Program of the base model."""
    before_status: str
    """Status of the base model's program."""
    after: str
    """Program of the trained model."""
    after_status: str
    """Status of the trained model's program."""


def pick_examples(folder: Path, sweeps: tuple[Sweep, Sweep], tasks: Sequence[Task], *, each: int = EACH) -> tuple[Example, ...]:
    """Return examples from the judged samples of two sweeps at their best temperatures, the largest changes of the pass rate first.

    For a task that got worse, a passed program of the base model and a failed program of the trained model are shown; for a task that got
    better, a failed program of the base model and a passed program of the trained model.

    Args:
        folder: folder of a run, which holds the samples in ``NAME.samples.jsonl``, as ``sweep_model`` writes them.
        sweeps: evaluations of the base and the trained model.
        tasks: the measured tasks.
        each: largest number of tasks that got worse, and of tasks that got better.
    """
    first, second = (samples_of(folder / f"{sweep.name}.samples.jsonl", sweep.best) for sweep in sweeps)
    change = {
        t.task_id: rate(second[t.task_id]) - rate(first[t.task_id]) for t in tasks if t.task_id in first and t.task_id in second
    }
    worse = sorted((t for t in tasks if change.get(t.task_id, 0) < 0), key=lambda t: change[t.task_id])
    better = sorted((t for t in tasks if change.get(t.task_id, 0) > 0), key=lambda t: -change[t.task_id])
    examples = [example(t, first, second, worse=True) for t in worse[:each]]
    return (*examples, *(example(t, first, second, worse=False) for t in better[:each]))


def samples_of(file: Path, evaluation: Evaluation) -> dict[str, list[Sample]]:
    """Return code and status of the samples of each task in an evaluation, by task id; {} if the file does not exist.

    Samples written by earlier versions do not name their evaluation: each file held one evaluation.
    """
    by_task: dict[str, list[Sample]] = {}
    source = (evaluation.tasks, evaluation.temperature)
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        row = json.loads(line)
        if "task_set" not in row or (row["task_set"], row["temperature"]) == source:
            by_task.setdefault(row["task_id"], []).append((row["code"], row["status"]))
    return by_task


def rate(samples: Iterable[Sample]) -> float:
    """Return the share of scored samples that passed; 0 without scored samples."""
    scored = [status for _, status in samples if status != "unscored"]
    return scored.count("passed") / len(scored) if scored else 0.0


def example(task: Task, before: Mapping[str, list[Sample]], after: Mapping[str, list[Sample]], *, worse: bool) -> Example:
    """Return the example of a task: a passed and a failed program that show the change."""
    first = next(sample for sample in before[task.task_id] if (sample[1] == "passed") == worse)
    second = next(sample for sample in after[task.task_id] if (sample[1] == "passed") != worse)
    return Example(task.task_id, task.prompt, *first, *second)


def diff_lines(before: str, after: str) -> list[tuple[str, str]]:
    """Return all lines of two programs as a diff: sign (``-``, ``+`` or blank) and line."""
    old, new = before.splitlines(), after.splitlines()
    lines: list[tuple[str, str]] = []
    for kind, low, high, start, stop in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        lines += [(" " if kind == "equal" else "-", line) for line in old[low:high]]
        lines += [("+", line) for line in new[start:stop]] if kind != "equal" else []
    return lines
