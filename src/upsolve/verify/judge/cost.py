"""Cost of a program that passed: processor time of one run of its tests, without the noise of a clock.

The tests are repeated until they take ``LEAST_SECONDS``; the cost is the least of several such rounds, divided by the number of repetitions.
The rounds of attempts that are judged together are interleaved, so that a busy moment of the machine concerns one round of each.
"""

from collections.abc import Callable, Generator
from dataclasses import replace

from upsolve.languages import PYTHON
from upsolve.types import Attempt, Status, Task, Verdict
from upsolve.verify.judge.programs import Plan
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.sandbox.process import Job
from upsolve.verify.sandbox.runner import Exit

__all__ = ["LEAST_SECONDS", "with_cost"]

LEAST_SECONDS = 0.05
"""Processor time of a round, seconds, from which on its cost is known."""
MOST_TIMES, GROWTH = 4096, 16
"""Most repetitions of a round, and the factor by which they grow at most from one trial to the next."""
Run = Callable[[Task, Attempt, JudgeSettings], Plan]
Seconds = Generator[Job, Exit, float | None]


def with_cost(task: Task, attempt: Attempt, settings: JudgeSettings, *, verdict: Verdict, run: Run) -> Plan:
    """Return a verdict whose ``cpu_seconds`` is the cost of an attempt that passed, with the label ``cost``; None if it cannot be measured.

    It cannot if the attempt does not pass each round, exceeds the elapsed time of an attempt, or takes less than ``LEAST_SECONDS`` after
    ``MOST_TIMES`` repetitions. The verdict of an attempt that did not pass stays as it is.

    Args:
        task: the task with its tests.
        attempt: the attempt.
        settings: limits, and ``cost``, the number of rounds.
        verdict: the attempt's verdict.
        run: the plan that judges an attempt once.
    """
    if not settings.cost or verdict.status is not Status.PASSED:
        return verdict
    plain, times = replace(settings, lines=False), 1
    seconds = yield from one_round(task, attempt, plain, times, run=run)
    while seconds is not None and seconds < LEAST_SECONDS and times < MOST_TIMES:
        enough = LEAST_SECONDS * times / max(seconds, 1e-9)
        times = min(next(2**n for n in range(64) if 2**n >= min(enough, GROWTH * times) and 2**n > times), MOST_TIMES)
        seconds = yield from one_round(task, attempt, plain, times, run=run)
    if seconds is None or seconds < LEAST_SECONDS:
        return replace(verdict, cpu_seconds=None)
    for _ in range(settings.cost - 1):
        another = yield from one_round(task, attempt, plain, times, run=run)
        if another is None:
            return replace(verdict, cpu_seconds=None)
        seconds = min(seconds, another)
    return replace(verdict, cpu_seconds=seconds / times, isolation=f"{verdict.isolation},cost".lstrip(","))


def one_round(task: Task, attempt: Attempt, settings: JudgeSettings, times: int, *, run: Run) -> Seconds:
    """Return the processor time of judging an attempt ``times`` times, seconds; None if it does not pass.

    Tests that the attempt's process evaluates alone are repeated in that process, each time with a freshly loaded program, so that a cache of
    results gains nothing. Other Python programs are judged as often, and programs in other languages, which are built once, get each
    test as often.
    """
    if attempt.language not in PYTHON:
        verdict = yield from run(replace(task, tests=task.tests * times), attempt, settings)
        return verdict.cpu_seconds if verdict.status is Status.PASSED else None
    seconds = elapsed = 0.0
    done = 0
    while done < times:
        verdict, inside = yield from repeated(run(task, attempt, settings), attempt, times - 1)
        elapsed += verdict.wall_seconds or 0.0
        if verdict.status is not Status.PASSED or inside is None or elapsed > settings.limits.wall_seconds:
            return None
        seconds += verdict.cpu_seconds or 0.0
        done += times if inside else 1
    return seconds


def repeated(plan: Plan, attempt: Attempt, again: int) -> Generator[Job, Exit, tuple[Verdict, bool | None]]:
    """Run a plan, and its tests ``again`` if they are evaluated in the attempt's process; return whether they were, None if one failed."""
    inside: bool | None = False
    try:
        job = next(plan)
        while True:
            own = job.tester is None and job.attempt.get("kind") == "tests" and job.attempt["code"] == attempt.code
            try:
                end = yield replace(job, attempt={**job.attempt, "again": again}) if own else job
            except Exception as error:
                job = plan.throw(error)
            else:
                if own:
                    inside = True if any("done" in record for record in end.reports) else None
                job = plan.send(end)
    except StopIteration as done:
        return done.value, inside
