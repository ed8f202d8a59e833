"""Content of a report in order: sentences, tables, costs, examples of both models; ``html`` and ``markdown`` render it."""

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from upsolve.evaluate.calibration import Calibration
from upsolve.evaluate.capability import Capability, capability
from upsolve.evaluate.comparison import drops
from upsolve.evaluate.own import Stage
from upsolve.evaluate.scores import Evaluation
from upsolve.evaluate.sweep import Sweep, by_task_set, defined_ks
from upsolve.report.tables import Table, calibration_tables, cost_table, result_tables, reward_tables, stage_table
from upsolve.reward.formula import Rewarded
from upsolve.types import Task

__all__ = ["Change", "Example", "ReportContent", "changes_of", "compared", "diff_lines", "pick_examples", "tables_of"]

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
    """Return examples of the largest changes at the best temperatures: programs of both models, of which one passed."""
    first, second = (samples_of(folder / f"{sweep.name}.samples.jsonl", sweep.best) for sweep in sweeps)
    change = {
        t.task_id: rate(second[t.task_id]) - rate(first[t.task_id]) for t in tasks if t.task_id in first and t.task_id in second
    }
    worse = sorted((t for t in tasks if change.get(t.task_id, 0) < 0), key=lambda t: change[t.task_id])
    better = sorted((t for t in tasks if change.get(t.task_id, 0) > 0), key=lambda t: -change[t.task_id])
    examples = [example(t, first, second, worse=True) for t in worse[:each]]
    return (*examples, *(example(t, first, second, worse=False) for t in better[:each]))


def samples_of(file: Path, evaluation: Evaluation) -> dict[str, list[Sample]]:
    """Return code and status of the samples of an evaluation by task; files of earlier versions do not name the evaluation."""
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


@dataclass(frozen=True, slots=True)
class ReportContent:
    """The content of a report."""

    title: str
    """Headline."""
    sweeps: tuple[Sweep, ...]
    """Sweeps of the compared models; the first is the baseline; may be empty."""
    ks: tuple[int, ...] = (1,)
    """Values of k for pass@k; those above the number of samples are left out."""
    training: tuple[Mapping[str, float], ...] = ()
    """Metrics of every optimizer step."""
    start: Mapping[str, float] = field(default_factory=dict[str, float])
    """Held-out metrics before the first step."""
    limits: Mapping[str, float] = field(default_factory=dict[str, float])
    """Metric -> value beyond which a monitor stops the run."""
    collapsed: str = ""
    """Why the run was stopped early; empty if it was not stopped."""
    kept_step: int | None = None
    """Step whose weights are the result; None: unknown."""
    rewarded: Sequence[Rewarded] = ()
    """Groups of the training tasks with their rewards."""
    stages: tuple[Stage, ...] = ()
    """Stages of a run with rounds of own samples, the control last."""
    calibrations: Sequence[Calibration] = ()
    """How the scores of the archive fit its verdicts."""
    recipe_yaml: str = ""
    """The resolved recipe."""
    facts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Model, seeds, sampling, machine and versions, by label."""
    examples: tuple[Example, ...] = ()
    """Attempts of base and trained model at the same task."""


@dataclass(frozen=True, slots=True)
class Change:
    """The comparison of a model with the first one on one task set."""

    label: str
    """Name of the task set and a colon; empty for the first task set."""
    capability: Capability
    """The comparison."""
    drops: tuple[str, ...]
    """Sentences on what fell."""


def changes_of(content: ReportContent) -> list[Change]:
    """Return the comparisons, those on the first task set first."""
    sweeps, ks = content.sweeps, defined_ks(content.sweeps, content.ks)
    sets = [("", sweeps), *((f"{name}: ", measured) for name, measured in by_task_set(sweeps).items())] if sweeps else []
    return [change for label, measured in sets for change in compared(label, measured, defined_ks(measured, ks))]


def compared(label: str, sweeps: Sequence[Sweep], ks: Sequence[int]) -> list[Change]:
    """Return the comparison of every model but the first with the first."""
    first = sweeps[0]
    return [Change(label, capability(first, other, max(ks)), drops(first.many, other.many, ks)) for other in sweeps[1:]]


def tables_of(content: ReportContent) -> list[Table]:
    """Return the tables: results, results on further task sets, rewards and their components, scores, cost."""
    sweeps, ks = content.sweeps, defined_ks(content.sweeps, content.ks)
    tables = result_tables(sweeps, ks) if sweeps else []
    for name, measured in by_task_set(sweeps).items():
        further = result_tables(measured, defined_ks(measured, ks), further=True)
        tables += [replace(table, title=f"{name}: {table.title}") for table in further]
    tables += [stage_table(sweeps[0], content.stages)] if content.stages else []
    tables += reward_tables(content.rewarded) if content.rewarded else []
    tables += calibration_tables(content.calibrations)
    return [*tables, cost_table(sweeps, content.training)] if sweeps or content.training else tables
