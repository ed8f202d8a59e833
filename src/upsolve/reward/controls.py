"""Control runs: verdicts that know less than the judge's. What a method gains without them was not learned from verdicts."""

from dataclasses import replace

import numpy as np

from upsolve.config import RewardConfig
from upsolve.reward.components import answer_format
from upsolve.types import Attempt, Group, Status, Task, Verdict, content_id

__all__ = ["controlled"]

OF_OUTCOME = frozenset({"traceback", "compile", "flaky"})
"""Kinds of findings that give away the judge's outcome."""


def controlled(group: Group, config: RewardConfig) -> Group:
    """Return a group with the verdicts of ``reward.verdicts``; attempts without a verdict, or unscored, keep what they have.

    ``shuffled`` permutes the outcomes (status, tests passed, error) among the group's scored attempts; the permutation follows from
    ``reward.verdicts_seed`` and the task. ``inverted``: what passed failed all tests, everything else passed all. ``ignored``: everything
    passed. ``format``: whatever has the format of an answer (``answer_format``) and compiles passed, the rest failed to compile. Executed lines,
    the line of the error and findings about running are removed; those of analyses stay, and so do times.
    """
    if config.verdicts == "as_judged":
        return group
    scored = [i for i, verdict in enumerate(group.verdicts) if verdict is not None and verdict.status is not Status.UNSCORED]
    known = [verdict for verdict in group.verdicts if verdict is not None and verdict.status is not Status.UNSCORED]
    if config.verdicts == "shuffled":
        seed = int(content_id(str(config.verdicts_seed), group.task.task_id), 16)
        outcomes = [known[place] for place in np.random.default_rng(seed).permutation(len(known))]
    else:
        outcomes = [
            outcome_of(config.verdicts, group.task, group.attempts[i], verdict)
            for i, verdict in zip(scored, known, strict=True)
        ]
    verdicts = [*group.verdicts]
    for i, own, outcome in zip(scored, known, outcomes, strict=True):
        verdicts[i] = with_outcome(own, outcome, config.verdicts)
    return replace(group, verdicts=tuple(verdicts))


def outcome_of(kind: str, task: Task, attempt: Attempt, verdict: Verdict) -> Verdict:
    """Return a verdict with the outcome that a control gives an attempt."""
    passes = {
        "ignored": True,
        "inverted": verdict.status is not Status.PASSED,
        "format": verdict.status is not Status.COMPILE_ERROR and answer_format(attempt, task) == 0,
    }[kind]
    status = Status.PASSED if passes else Status.COMPILE_ERROR if kind == "format" else Status.FAILED
    counts = {"passed": verdict.total if passes else 0, "outcomes": (status,) * len(verdict.outcomes)}
    return replace(verdict, status=status, error_type="", error_message="", **counts)


def with_outcome(own: Verdict, outcome: Verdict, kind: str) -> Verdict:
    """Return an attempt's own verdict with the outcome of another one."""
    return replace(
        own,
        status=outcome.status,
        passed=outcome.passed,
        total=outcome.total,
        outcomes=outcome.outcomes,
        error_type=outcome.error_type,
        error_message=outcome.error_message,
        error_line=None,
        executed_lines=None,
        findings=tuple(one for one in own.findings if one.kind not in OF_OUTCOME),
        judge=f"{kind}:{own.judge}",
    )
