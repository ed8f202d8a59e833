"""Tasks with tests of several kinds: programs that read standard input are run for each test, calls and code together in another process."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from upsolve.types import Attempt, Status, Task, TestKind, Verdict
from upsolve.verify.judge.outcomes import unscored

__all__ = ["merged", "shares_of"]

NUMBER = re.compile(r"^((?:hidden )?test )(\d+)(?=: )")
"""Number of a test at the start of a message (``outcomes.describe_test``)."""


def shares_of(task: Task) -> list[tuple[Sequence[int], Task]]:
    """Return the tests that are judged together, as indices and a task with these alone: those of standard input, and all others."""
    stdio = [index for index, test in enumerate(task.tests) if test.kind is TestKind.STDIO]
    if len(stdio) in (0, len(task.tests)):
        return [(range(len(task.tests)), task)]
    others = [index for index, test in enumerate(task.tests) if test.kind is not TestKind.STDIO]
    return [(chosen, replace(task, tests=tuple(task.tests[index] for index in chosen))) for chosen in (stdio, others)]


def merged(task: Task, attempt: Attempt, shares: Sequence[tuple[Sequence[int], Verdict]]) -> Verdict:
    """Return the verdict on a whole task from those on its shares.

    Status and error are those of the first test that did not pass; times are added, and of memory the largest counts. If a share is
    unscored as a whole, so is the attempt.
    """
    if broken := next((one for _, one in shares if not one.outcomes), None):
        return unscored(task, attempt, broken.error_message)
    outcomes = {index: outcome for chosen, one in shares for index, outcome in zip(chosen, one.outcomes, strict=True)}
    failed = next((index for index in sorted(outcomes) if outcomes[index] is not Status.PASSED), 0)
    (first,) = (renumbered(one, chosen) for chosen, one in shares if failed in chosen)
    verdicts = [one for _, one in shares]
    lines = [one.executed_lines for one in verdicts if one.executed_lines is not None]
    return replace(
        first,
        status=outcomes[failed],
        passed=sum(one.passed for one in verdicts),
        total=len(task.tests),
        outcomes=tuple(outcomes[index] for index in sorted(outcomes)),
        isolation=",".join(dict.fromkeys(",".join(one.isolation for one in verdicts).split(","))),
        wall_seconds=sum(one.wall_seconds or 0 for one in verdicts),
        cpu_seconds=sum(one.cpu_seconds or 0 for one in verdicts),
        memory_bytes=max(one.memory_bytes or 0 for one in verdicts),
        executed_lines=tuple(sorted({*chain.from_iterable(lines)})) if lines else None,
    )


def renumbered(verdict: Verdict, chosen: Sequence[int]) -> Verdict:
    """Return the verdict on a share, with the numbers that the tests have in the whole task in its messages."""
    numbers = {str(place): str(index + 1) for place, index in enumerate(chosen, start=1)}
    findings = tuple(replace(one, message=with_numbers(one.message, numbers)) for one in verdict.findings)
    return replace(verdict, error_message=with_numbers(verdict.error_message, numbers), findings=findings)


def with_numbers(message: str, numbers: Mapping[str, str]) -> str:
    """Replace the number of the test at the start of a message."""
    return NUMBER.sub(lambda match: match[1] + numbers.get(match[2], match[2]), message)
