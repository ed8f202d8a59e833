"""Judged samples -> one score per task, and averages over samples."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from upsolve.evaluate.records import TaskScore
from upsolve.languages import PYTHON
from upsolve.types import Attempt, Status, Task, Verdict
from upsolve.verify.analysis.findings import analysed, findings_of, severity, unreadable

__all__ = ["error_mix", "lint_profile", "outcome_mix", "score_tasks", "weighted_mean"]


def score_tasks(tasks: Sequence[Task], attempts: Sequence[Attempt], verdicts: Sequence[Verdict]) -> tuple[TaskScore, ...]:
    """Return one score per task, in the order of the tasks; unscored samples are counted separately, never as failures."""
    by_task: dict[str, list[tuple[Attempt, Verdict]]] = {task.task_id: [] for task in tasks}
    for attempt, verdict in zip(attempts, verdicts, strict=True):
        by_task[attempt.task_id].append((attempt, verdict))
    return tuple(score(task, by_task[task.task_id]) for task in tasks)


def score(task: Task, judged: Sequence[tuple[Attempt, Verdict]]) -> TaskScore:
    """Score one task."""
    statuses = Counter(verdict.status.value for _, verdict in judged)
    tokens = [attempt.tokens for attempt, _ in judged if attempt.tokens is not None]
    entropies = [attempt.entropy for attempt, _ in judged if attempt.entropy is not None]
    linted = [verdict for attempt, verdict in judged if attempt.language in PYTHON and read_by_ruff(verdict)]
    findings = [finding for verdict in linted for finding in findings_of(verdict, "lint", "security")]
    return TaskScore(
        task_id=task.task_id,
        difficulty=task.difficulty,
        samples=len(judged) - statuses[Status.UNSCORED],
        passed=statuses[Status.PASSED],
        statuses=dict(statuses),
        mean_tokens=float(np.mean(tokens)) if tokens else None,
        mean_entropy=float(np.mean(entropies)) if entropies else None,
        errors=dict(Counter(verdict.error_type for _, verdict in judged if verdict.error_type)),
        truncated=sum(attempt.truncated for attempt, _ in judged),
        linted=len(linted),
        findings=dict(Counter(f"{finding.kind}:{finding.rule}" for finding in findings)),
    )


def read_by_ruff(verdict: Verdict) -> bool:
    """Return whether Ruff was run on the sample and could parse all of it."""
    return analysed(verdict, "lint") and not unreadable(verdict, "lint")


def outcome_mix(scores: Sequence[TaskScore]) -> dict[str, float]:
    """Return the share of samples by status, most frequent first."""
    total: Counter[str] = Counter()
    for item in scores:
        total.update(item.statuses)
    return {name: count / total.total() for name, count in total.most_common()}


def error_mix(scores: Sequence[TaskScore]) -> dict[str, float]:
    """Return the share of samples by exception name, most frequent first."""
    total: Counter[str] = Counter()
    for item in scores:
        total.update(item.errors)
    samples = sum(sum(item.statuses.values()) for item in scores)
    return {name: count / samples for name, count in total.most_common()}


def lint_profile(scores: Sequence[TaskScore]) -> dict[str, float]:
    """Return the mean number of Ruff's findings per linted sample that parses, by severity, most frequent first; {} if none was linted."""
    linted = sum(item.linted for item in scores)
    total = Counter[str](dict.fromkeys(("error", "security", "warning", "convention"), 0))
    for item in scores:
        for name, count in item.findings.items():
            kind, _, rule = name.partition(":")
            total["security" if kind == "security" else severity(rule)] += count
    return {name: count / linted for name, count in total.most_common()} if linted else {}


def weighted_mean(scores: Sequence[TaskScore], field: str) -> float | None:
    """Return the mean over samples of the field ``mean_tokens`` or ``mean_entropy``; None if it was not measured."""
    pairs = [(getattr(item, field), sum(item.statuses.values())) for item in scores if getattr(item, field) is not None]
    weight = sum(n for _, n in pairs)
    return sum(value * n for value, n in pairs) / weight if weight else None
