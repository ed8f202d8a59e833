"""Control runs: verdicts are replaced by less informative ones. A gain that remains in a control run was not learned from verdicts."""

from dataclasses import replace

import numpy as np

from upsolve.config import RewardConfig
from upsolve.reward.components import answer_format
from upsolve.types import Attempt, Group, Status, Task, Verdict, content_id

__all__ = ["controlled"]

OF_OUTCOME = frozenset({"traceback", "compile", "flaky"})
"""Kinds of findings that reveal the judge's outcome."""


def controlled(group: Group, config: RewardConfig) -> Group:
    """Return a group with its verdicts replaced according to ``reward.verdicts``; unjudged and unscored attempts stay so.

    * ``shuffled``: the outcomes (status, tests passed, error) are permuted among the group's scored attempts; the permutation is determined
      by ``reward.verdicts_seed`` and the task.
    * ``inverted``: attempts that passed now fail all tests, all other attempts pass all tests.
    * ``ignored``: all attempts pass.
    * ``format``: attempts in the requested format (``answer_format``) that compile pass, all other attempts are compile errors.

    Executed lines, the line of the error, and findings about the run of an attempt are removed; findings of analyses and times stay.
    """
    if config.verdicts == "as_judged":
        return group
    scored = [i for i, verdict in enumerate(group.verdicts) if verdict is not None and verdict.status is not Status.UNSCORED]
    scored_verdicts = [verdict for verdict in group.verdicts if verdict is not None and verdict.status is not Status.UNSCORED]
    if config.verdicts == "shuffled":
        seed = int(content_id(str(config.verdicts_seed), group.task.task_id), 16)
        outcomes = [scored_verdicts[index] for index in np.random.default_rng(seed).permutation(len(scored_verdicts))]
    else:
        outcomes = [
            outcome_of(config.verdicts, group.task, group.attempts[i], verdict)
            for i, verdict in zip(scored, scored_verdicts, strict=True)
        ]
    verdicts = [*group.verdicts]
    for i, own, outcome in zip(scored, scored_verdicts, outcomes, strict=True):
        verdicts[i] = with_outcome(own, outcome, config.verdicts)
    return replace(group, verdicts=tuple(verdicts))


def outcome_of(kind: str, task: Task, attempt: Attempt, verdict: Verdict) -> Verdict:
    """Return a verdict with the outcome that a control assigns to an attempt."""
    passes = {
        "ignored": True,
        "inverted": verdict.status is not Status.PASSED,
        "format": verdict.status is not Status.COMPILE_ERROR and answer_format(attempt, task) == 0,
    }[kind]
    status = Status.PASSED if passes else Status.COMPILE_ERROR if kind == "format" else Status.FAILED
    counts = {"passed": verdict.total if passes else 0, "outcomes": (status,) * len(verdict.outcomes)}
    return replace(verdict, status=status, error_type="", error_message="", **counts)


def with_outcome(own: Verdict, outcome: Verdict, kind: str) -> Verdict:
    """Return a verdict with the outcome of another verdict."""
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
        findings=tuple(finding for finding in own.findings if finding.kind not in OF_OUTCOME),
        judge=f"{kind}:{own.judge}",
    )
