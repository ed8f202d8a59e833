"""The choice of one sample a task from the samples of an evaluation, by evidence that needs no hidden test."""

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from upsolve.config import SampleConfig
from upsolve.errors import ConfigError
from upsolve.evaluate.scores import Choices, TaskChoice
from upsolve.solve.choose import Candidates, choose
from upsolve.solve.solving import Open, SolveSettings, extend, inputs_of, stages, why_stop
from upsolve.types import Attempt, OnProgress, Status, Task, Verdict, no_progress
from upsolve.verify.limits import JudgeSettings

__all__ = ["Drawn", "choices_from", "prefixes"]

LOGGER = logging.getLogger("upsolve")
PORTION = 64
"""Tasks whose samples are run together, between two reports of progress."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """The samples of an evaluation at one temperature, with their verdicts and the time of sampling."""

    temperature: float
    """Sampling temperature, >= 0."""
    attempts: Sequence[Attempt]
    """The samples, in the order of sampling within each task."""
    verdicts: Sequence[Verdict]
    """Verdicts of the samples on all tests: they decide whether a chosen sample passes, and never which sample is chosen."""
    seconds: float = 0.0
    """Time of sampling."""


def choices_from(
    tasks: Sequence[Task],
    drawn: Sequence[Drawn],
    kinds: Sequence[str],
    *,
    settings: JudgeSettings,
    progress: OnProgress = no_progress,
) -> Choices:
    """Choose one sample a task: among all drawn samples, and among those that ``upsolve solve`` would draw before it stops.

    The kinds ``agreement`` and ``likelihood`` read ``behavior_logp``: the log-probability under the model at temperature 1 without a nucleus,
    whatever temperature the sample was drawn at. In a task without hidden tests no test is evidence, since all tests are used for measuring.

    Args:
        tasks: tasks; ids are distinct.
        drawn: samples of all tasks: the greedy ones first, then those at one temperature above 0.
        kinds: kinds of evidence, the strongest first.
        settings: limits and isolation of the sandbox.
        progress: called with ``choose``, the tasks done, and all tasks.

    Raises:
        JudgeError: the sandbox broke, or a layer is missing.
    """
    started, how = time.monotonic(), SolveSettings(tuple(kinds))
    judged: dict[str, list[tuple[Attempt, Verdict, bool]]] = {task.task_id: [] for task in tasks}
    for one in drawn:
        for attempt, verdict in zip(one.attempts, one.verdicts, strict=True):
            judged[attempt.task_id].append((attempt, verdict, one.temperature == 0))
    chosen: list[TaskChoice] = []
    for start in range(0, len(tasks), PORTION):
        part = tasks[start : start + PORTION]
        found = candidates_of(part, [[(one, verdict) for one, verdict, _ in judged[task.task_id]] for task in part], settings)
        for task, candidates in zip(part, found, strict=True):
            if judged[task.task_id]:
                verdicts = [verdict for _, verdict, _ in judged[task.task_id]]
                greedy = next((passes(verdict) for _, verdict, is_greedy in judged[task.task_id] if is_greedy), None)
                chosen.append(choice_of(candidates, verdicts, how, greedy))
        progress("choose", start + len(part), len(tasks))
    warm = next((one.temperature for one in drawn if one.temperature), None)
    return Choices(
        tuple(kinds), warm, tuple(chosen), sum(one.seconds for one in drawn), choose_seconds=time.monotonic() - started
    )


def candidates_of(
    tasks: Sequence[Task], judged: Sequence[Sequence[tuple[Attempt, Verdict]]], settings: JudgeSettings
) -> list[Candidates]:
    """Return the candidates of each task, run on its inputs; their verdicts on the visible tests are taken from those on all tests."""
    owners = [*map(opened, tasks)]
    pairs = [*zip(owners, judged, strict=True)]
    verdicts = [verdict for some in judged for _, verdict in some]
    try:
        extend([(owner, attempt, None) for owner, some in pairs for attempt, _ in some], settings, known=verdicts)
    except ConfigError:  # the inputs of a task cannot be run, such as a broken database: of that task alone nothing is run
        for owner, some in pairs:
            new, known = [(owner, attempt, None) for attempt, _ in some], [verdict for _, verdict in some]
            try:
                extend(new, settings, known=known)
            except ConfigError as error:
                LOGGER.warning("evaluate.choose: %s", error)
                owner.task, owner.inputs = replace(owner.task, tests=()), ()
                extend(new, settings)
    return [owner.candidates for owner in owners]


def opened(task: Task) -> Open:
    """Return a task with its evidence: visible tests and inputs. Without hidden tests no test is evidence, since all tests are used for measuring."""
    seen = task if any(test.hidden for test in task.tests) else replace(task, tests=())
    try:
        return Open(seen, inputs_of(seen))
    except ConfigError:  # no database can be made from the schema
        return Open(seen, ())


def choice_of(candidates: Candidates, verdicts: Sequence[Verdict], how: SolveSettings, greedy: bool | None) -> TaskChoice:
    """Return the choice among all candidates, and among those before an early stop; ``verdicts`` are on all tests."""
    attempts = candidates.attempts
    whole, lengths = choose(candidates, how.kinds), [attempt.tokens or 0 for attempt in attempts]
    count, early = next(
        (len(some.attempts), choice.index)
        for some in prefixes(candidates)
        for choice in [choose(some, how.kinds)]
        if why_stop(some, choice, how, seconds=0.0, is_last=len(some.attempts) == len(attempts))
    )
    return TaskChoice(
        task_id=candidates.task.task_id,
        samples=len(attempts),
        tokens=sum(lengths),
        greedy=greedy,
        chosen=passes(verdicts[whole.index]),
        any=any(map(passes, verdicts)),
        early=passes(verdicts[early]),
        early_samples=count,
        early_tokens=sum(lengths[:count]),
        decided_by=whole.decided_by,
        inputs=max(len(one.texts) for one in candidates.outputs),
    )


def prefixes(candidates: Candidates) -> Iterator[Candidates]:
    """Yield the candidates after each stage of sampling, in the order in which ``upsolve solve`` samples; all of them last."""
    counts = [stage.samples for stage in stages(SampleConfig(samples=len(candidates.attempts)))]
    for count in accumulate(counts):
        yield Candidates(candidates.task, candidates.attempts[:count], candidates.verdicts[:count], candidates.outputs[:count])


def passes(verdict: Verdict) -> bool | None:
    """Return whether an attempt passes every test; None if it is unscored."""
    return None if verdict.status is Status.UNSCORED else verdict.status is Status.PASSED
