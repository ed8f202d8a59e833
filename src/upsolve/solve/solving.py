"""Answers to tasks: sample candidates in stages, run them, choose one.

A task's first candidate is decoded greedily. More candidates are sampled until the evidence is clear, up to the number of samples. Further rounds
sample corrections of candidates (``upsolve.solve.search``).
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any, TypeVar

from upsolve.config import ModelConfig, SampleConfig
from upsolve.config.running import KINDS
from upsolve.errors import ConfigError
from upsolve.plugins import find
from upsolve.policy.engines import sampler
from upsolve.policy.request import Request, Sampler, request_sampler, requests
from upsolve.solve.choose import Candidates, Choice, Evidence, choose
from upsolve.solve.databases import databases_of
from upsolve.solve.outputs import Outputs, outputs_of
from upsolve.solve.scoring import Scorer
from upsolve.solve.search import Parents, Tree, corrections
from upsolve.types import Attempt, OnProgress, Status, Task, TestCase, Verdict, no_progress
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.pool.pool import verify

__all__ = ["Answer", "Open", "SolveSettings", "extend", "inputs_of", "solve", "stages", "verdict_on_shown", "why_stop"]

PORTION = 64
"""Tasks that are sampled together."""
SECOND = 2
"""Number of samples in the second stage: with the greedy candidate, three candidates can agree."""
SEEDS = 1 << 20
"""Distance between the seeds of two stages."""


@dataclass(frozen=True, slots=True)
class SolveSettings:
    """How candidates are sampled and chosen."""

    kinds: tuple[str | Evidence, ...] = KINDS
    """Kinds of evidence, the strongest first: names (``upsolve.solve.choose.EVIDENCE``), or records."""
    tokens: int | None = None
    """Limit of sampled tokens of a task: no stage begins above it; None: unlimited."""
    seconds: float | None = None
    """Limit of wall time of all tasks, seconds: no stage begins after it; None: unlimited."""
    stop_early: bool = True
    """Stop sampling as soon as a candidate passes all visible tests or, without visible tests, three candidates agree."""
    rounds: int = 1
    """Rounds of at most ``samples`` candidates each, >= 1; candidates of later rounds correct those of earlier ones."""
    parents: str | Parents = "refine"
    """Which candidates later rounds correct (``upsolve.solve.search.PARENTS``)."""
    scorer: Scorer | None = field(default=None, repr=False)
    """Scores candidates for the evidence ``score`` (``upsolve.solve.scoring``), which needs it."""

    def __post_init__(self) -> None:
        """Raise ConfigError before anything is sampled: a kind of evidence or a way to choose parents is unknown, or score lacks its scorer."""
        for name, kind, value in [*(("kinds", "evidence", one) for one in self.kinds), ("parents", "parent", self.parents)]:
            try:
                find(kind, value)
            except ValueError as error:
                raise ConfigError(f"{name}: {error}") from error
        if ("score" in self.kinds) != (self.scorer is not None):
            raise ConfigError("the evidence score and a scorer need each other: --choose tests,runs,score with --score COMMAND")


@dataclass(frozen=True, slots=True)
class Answer:
    """The chosen program of a task."""

    task: Task
    """The task."""
    attempt: Attempt
    """The chosen candidate."""
    choice: Choice
    """The evidence."""
    candidates: Candidates
    """All candidates."""
    stopped: str
    """Why sampling stopped: ``tests`` (a candidate passed all visible tests), ``agreement``, ``samples``, ``tokens`` or ``seconds``."""

    @property
    def tokens(self) -> int:
        """Number of sampled tokens."""
        return sum(attempt.tokens or 0 for attempt in self.candidates.attempts)


@dataclass
class Open:
    """A task that has no answer yet."""

    task: Task
    inputs: tuple[TestCase, ...]
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    verdicts: list[Verdict | None] = field(default_factory=list[Verdict | None])
    outputs: list[Outputs] = field(default_factory=list[Outputs])
    parents: list[int | None] = field(default_factory=list[int | None])
    scores: list[float | None] = field(default_factory=list[float | None])

    @property
    def candidates(self) -> Candidates:
        """The candidates so far."""
        verdicts, outputs, parents = tuple(self.verdicts), tuple(self.outputs), tuple(self.parents)
        return Candidates(self.task, tuple(self.attempts), verdicts, outputs, parents, tuple(self.scores))


T = TypeVar("T")
Report = Callable[[Iterable[Any]], Iterable[Any]]
"""Yields the items of an iterator unchanged, and reports progress."""
New = tuple[Open, Attempt, int | None]
"""A task, a new candidate of it, and the index of the candidate that it corrects."""


def inputs_of(task: Task) -> tuple[TestCase, ...]:
    """Return the inputs on which candidates are run: inputs of visible tests; for queries without tests, databases made from the schema."""
    return shown(task).tests or databases_of(task)


def shown(task: Task) -> Task:
    """Return a task with its visible tests alone."""
    return replace(task, tests=tuple(test for test in task.tests if not test.hidden))


def solve(
    tasks: Sequence[Task],
    model: Sampler | str,
    config: SampleConfig | None = None,
    *,
    how: SolveSettings | None = None,
    settings: JudgeSettings | None = None,
    inputs: Mapping[str, Sequence[TestCase]] | None = None,
    progress: OnProgress = no_progress,
) -> Iterator[Answer]:
    """Yield an answer to each task, as soon as it is found. Hidden tests are never read.

    Args:
        tasks: tasks; ids are distinct.
        model: a sampler (``upsolve.policy.engines.sampler``), or the name or folder of a model.
        config: ``samples`` candidates a round at most, the first one greedy, the others by ``temperature`` and ``top_p``.
        how: kinds of evidence, limits of sampling, rounds.
        settings: limits and isolation of the sandbox.
        inputs: task id -> inputs that candidates are run on, instead of ``inputs_of``.
        progress: called with the tasks answered and all tasks, and with the candidates so far and the most there can be.

    Raises:
        ConfigError: a kind of evidence is unknown or lacks its scorer, a schema cannot be read, or the sampler cannot be asked for corrections.
        ModelError: the model cannot be loaded, or its server does not answer.
        JudgeError: the sandbox broke, or a layer is missing.
    """
    if isinstance(tasks, str):
        raise ConfigError(f"tasks: {tasks!r} is a name; give its tasks: upsolve.open_archive({tasks!r}).tasks()")
    settings, how, config = settings or JudgeSettings(), how or SolveSettings(), config or SampleConfig()
    draw = sampler(config, ModelConfig(name=model)) if isinstance(model, str) else model
    given, steps, started, done = inputs or {}, stages(config, how.rounds), time.monotonic(), 0
    report = partial(counted, drawn=count(1), most=len(tasks) * config.samples * how.rounds, progress=progress)
    if how.rounds > 1 and how.parents != "none":
        request_sampler(draw, f"parents {how.parents}")
    for start in range(0, len(tasks), PORTION):
        left = [Open(task, tuple(given.get(task.task_id) or inputs_of(task))) for task in tasks[start : start + PORTION]]
        for number, stage in enumerate(steps):
            is_later = number >= len(steps) - (how.rounds - 1)
            new = corrected(left, draw, stage, how, report) if is_later else sampled(left, draw, stage, report)
            extend(new, settings, how.scorer)
            for one in [*left]:
                choice = choose(one.candidates, how.kinds)
                spent = time.monotonic() - started
                if reason := why_stop(one.candidates, choice, how, seconds=spent, is_last=number == len(steps) - 1):
                    left.remove(one)
                    done += 1
                    progress("solve", done, len(tasks))
                    yield Answer(one.task, one.attempts[choice.index], choice, one.candidates, reason)


def stages(config: SampleConfig, rounds: int = 1) -> list[SampleConfig]:
    """Return the settings of the stages: one greedy candidate, ``SECOND`` samples, the rest of ``config.samples``; then each later round."""
    counts = [min(SECOND, config.samples - 1), config.samples - 1 - SECOND, *[config.samples] * (rounds - 1)]
    greedy = config.model_copy(update={"samples": 1, "temperature": 0.0})
    later = [
        config.model_copy(update={"samples": count, "seed": config.seed + SEEDS * number})
        for number, count in enumerate(counts, start=1)
        if count > 0
    ]
    return [greedy, *later]


def counted(found: Iterable[T], *, drawn: "count[int]", most: int, progress: OnProgress) -> Iterator[T]:
    """Yield candidates as they end, and report how many of at most ``most`` there are."""
    for one in found:
        progress("candidates", next(drawn), most)
        yield one


def sampled(left: Sequence[Open], draw: Sampler, stage: SampleConfig, report: Report) -> list[New]:
    """Sample the candidates of a stage for each open task."""
    by_id = {one.task.task_id: one for one in left}
    found = report(draw([one.task for one in left], config=stage)) if left else ()
    return [(by_id[attempt.task_id], attempt, None) for attempt in found]


def corrected(left: Sequence[Open], draw: Sampler, stage: SampleConfig, how: SolveSettings, report: Report) -> list[New]:
    """Sample the corrections of a round for each open task; for tasks with nothing to correct, sample new candidates."""
    asked: list[tuple[Open, Request, int | None]] = []
    for one in left:
        tree = Tree(one.candidates, choose(one.candidates, how.kinds).index)
        new = corrections(tree, how.parents, [*requests([shown(one.task)], stage)])
        asked += [(one, replace(request, part=len(asked) + number), parent) for number, (request, parent) in enumerate(new)]
    if all(parent is None for *_, parent in asked):
        return sampled(left, draw, stage, report)
    requesting = request_sampler(draw, f"parents {how.parents}")
    found = dict(report(requesting.sample_requests([one for _, one, _ in asked], config=stage)))
    return [(owner, found[number], parent) for number, (owner, _, parent) in enumerate(asked)]


def extend(
    new: Sequence[New], settings: JudgeSettings, scorer: Scorer | None = None, known: Sequence[Verdict | None] = ()
) -> None:
    """Judge new candidates of open tasks on visible tests, run them on the inputs, score them, and add them.

    ``known``: verdicts of candidates on all tests. Candidates with an outcome of every visible test are not judged again.
    """
    owners, attempts = [owner for owner, *_ in new], [attempt for _, attempt, _ in new]
    verdicts = shown_verdicts(owners, attempts, settings, known or [None] * len(new))
    outputs = outputs_of([one.task for one in owners], attempts, [one.inputs for one in owners], settings)
    tasks = [shown(owner.task) for owner in owners]
    found = scorer([*zip(tasks, attempts, strict=True)]) if scorer and new else [{}] * len(new)
    for (owner, attempt, parent), verdict, output, scores in zip(new, verdicts, outputs, found, strict=True):
        owner.attempts.append(attempt)
        owner.verdicts.append(verdict)
        owner.outputs.append(output)
        owner.parents.append(parent)
        owner.scores.append(next(iter(scores.values()), None))


def shown_verdicts(
    owners: Sequence[Open], attempts: Sequence[Attempt], settings: JudgeSettings, known: Sequence[Verdict | None]
) -> list[Verdict | None]:
    """Return the verdict of each attempt on the visible tests of its task; None without visible tests. ``known`` as in ``extend``."""
    tasks = [shown(owner.task) for owner in owners]
    stored = [verdict and verdict_on_shown(owner.task, verdict) for owner, verdict in zip(owners, known, strict=True)]
    pairs = zip(tasks, attempts, stored, strict=True)
    judged = iter(verify([(task, attempt) for task, attempt, verdict in pairs if task.tests and not verdict], settings))
    return [verdict or (next(judged) if task.tests else None) for task, verdict in zip(tasks, stored, strict=True)]


def verdict_on_shown(task: Task, verdict: Verdict) -> Verdict | None:
    """Return the verdict on the visible tests of a task, taken from the verdict on all tests; None unless every visible test has an outcome."""
    if len(verdict.outcomes) != len(task.tests) or all(test.hidden for test in task.tests):
        return None
    outcomes = tuple(outcome for test, outcome in zip(task.tests, verdict.outcomes, strict=True) if not test.hidden)
    if Status.UNSCORED in outcomes:  # not reached after a limit, which an earlier hidden test may have exceeded
        return None
    status = next((outcome for outcome in outcomes if outcome is not Status.PASSED), Status.PASSED)
    passed = outcomes.count(Status.PASSED)
    return Verdict(
        verdict.attempt_id, status, passed, len(outcomes), outcomes, judge=verdict.judge, isolation=verdict.isolation
    )


def why_stop(candidates: Candidates, choice: Choice, how: SolveSettings, *, seconds: float, is_last: bool) -> str:
    """Return why sampling stops for a task; empty if more candidates are sampled."""
    verdict, outputs = candidates.verdicts[choice.index], candidates.outputs[choice.index]
    if how.stop_early and verdict is not None and verdict.status is Status.PASSED:
        return "tests"
    agreed = len(candidates.attempts) > SECOND and len({one.votes for one in candidates.outputs}) == 1
    if how.stop_early and verdict is None and agreed and outputs.texts and outputs.ran == len(outputs.texts):
        return "agreement"
    if is_last:
        return "samples"
    if how.tokens is not None and sum(attempt.tokens or 0 for attempt in candidates.attempts) >= how.tokens:
        return "tokens"
    return "seconds" if how.seconds is not None and seconds >= how.seconds else ""
