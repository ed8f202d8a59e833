"""Sample a model on the tasks of an archive and store the attempts in the archive."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow.compute as pc

from upsolve.archive.store import Archive
from upsolve.config import ModelConfig, SampleConfig
from upsolve.policy.engines import sampler
from upsolve.policy.prompt import FAILURES, with_hint
from upsolve.policy.request import Request, request_sampler, seed_of
from upsolve.types import Attempt, Group, OnProgress, Status, Task, Turn, is_scored, no_progress

__all__ = ["sample_attempts", "sample_hinted", "sample_missing", "sample_repairs", "samples_of"]

PART = 50
"""Tasks sampled between two writes."""


def sample_attempts(archive: Archive, config: SampleConfig, *, model: ModelConfig, progress: OnProgress = no_progress) -> int:
    """Sample until every task of an archive has ``config.samples`` attempts of a model.

    Attempts sampled before an exception (an interrupt, a lost server) are kept; the next call samples only what is missing.

    Args:
        archive: its tasks are sampled; the attempts are added to it.
        config: engine, number of samples, temperature, seed.
        model: ``name`` (a name or folder) is also the author of the attempts.
        progress: called with the attempts sampled and wanted.

    Returns:
        The number of attempts added.

    Raises:
        ModelError: the model cannot be loaded, or its server does not answer.
    """
    tasks = {task.task_id: task for task in archive.tasks()}
    return sample_missing(archive, tasks, config, model=model, author=model.name, progress=progress)


def sample_hinted(
    archive: Archive,
    config: SampleConfig,
    *,
    model: ModelConfig,
    hint: float,
    author: str = "",
    progress: OnProgress = no_progress,
) -> int:
    """Sample the tasks that a model has tried and never passed, with the first part of another author's passed program in the
    prompt.

    A sample is stored as an attempt at the task without the hint (QuestA, 2507.13266; POPE, 2601.18779). Its author names the model and the hint,
    such as ``smollm2-135m, hint 0.5``. Log-probabilities under the prompt without the hint are unknown, so none are stored. An interrupted call
    resumes like ``sample_attempts``, which has the same result and errors. ``hint``, in (0, 1), is the share of the shortest passed program (or of
    the reference) that is shown; ``author``, of the model's earlier attempts, is by default the model's ``name``.
    """
    tried_by = author or model.name
    tasks = tasks_to_hint(archive.groups(), tried_by, hint)
    return sample_missing(archive, tasks, config, model=model, author=f"{tried_by}, hint {hint:g}", progress=progress)


def sample_repairs(
    archive: Archive,
    config: SampleConfig,
    *,
    model: ModelConfig,
    authors: Collection[str] = (),
    progress: OnProgress = no_progress,
) -> int:
    """Sample one correction of every distinct failed program of ``authors`` (() for all) in an archive; return the number of attempts added.

    The feedback of the stored verdict is in the prompt. A correction names the program that it corrects (``Attempt.parent_id``); its author is the
    model with ``, repair``. Log-probabilities are those under the conversation, which training shows with ``data.turns: 1``. An interrupted call
    resumes like ``sample_attempts``; after the corrections are judged, the next call corrects those that failed.

    Raises:
        ConfigError: the engine cannot show earlier attempts.
        ModelError: the model cannot be loaded, or its server does not answer.
    """
    author = f"{model.name}, repair"
    pending = [
        Request(group.task, seed_of(config.seed, turn.attempt.attempt_id), config.temperature, turns=(turn,))
        for group in archive.groups()
        for turn in to_repair(group, author, authors)
    ]
    if not pending:
        return 0
    policy, done = request_sampler(sampler(config, model), "--repair"), 0
    for start in range(0, len(pending), PART):
        samples = policy.sample_requests(pending[start : start + PART], config=config, author=author)
        done = store_samples(archive, (attempt for _, attempt in samples), progress, done=done, total=len(pending))
    return done


def store_samples(archive: Archive, samples: Iterable[Attempt], progress: OnProgress, *, done: int, total: int) -> int:
    """Store samples, also those before an exception of their iterator, after ``done`` earlier ones; return the total number."""
    attempts: list[Attempt] = []
    try:
        for attempt in samples:
            attempts.append(attempt)
            progress("sample", done + len(attempts), total)
    finally:
        archive.write([], attempts, [])
    return done + len(attempts)


def to_repair(group: Group, author: str, authors: Collection[str]) -> list[Turn]:
    """Return the distinct failed programs of some authors that have no correction by ``author``, with their verdicts."""
    repaired = {attempt.parent_id for attempt in group.attempts if attempt.author == author}
    turns: dict[str, Turn] = {}
    for attempt, verdict in zip(group.attempts, group.verdicts, strict=True):
        wanted = not authors or attempt.author in authors
        if wanted and verdict and verdict.status in FAILURES and attempt.attempt_id not in repaired:
            turns.setdefault(attempt.attempt_id, Turn(attempt, verdict))
    return [*turns.values()]


def sample_missing(
    archive: Archive,
    tasks: Mapping[str, Task],
    config: SampleConfig,
    *,
    model: ModelConfig,
    author: str,
    progress: OnProgress,
) -> int:
    """Sample tasks until each has ``config.samples`` attempts of an author; ``tasks``: id under which attempts are stored -> sampled task."""
    have = samples_of(archive, author)
    missing = [name for name in tasks if have[name] < config.samples]
    if not missing:
        return 0
    total, done = sum(config.samples - have[name] for name in missing), 0
    policy = sampler(config, model)
    for start in range(0, len(missing), PART):
        part = missing[start : start + PART]
        for count in sorted({have[name] for name in part}):
            # no two requests of a task share a seed, however often the sampling was stopped
            rest = config.model_copy(update={"samples": config.samples - count, "seed": config.seed + start + count * 2**20})
            names = {tasks[name].task_id: name for name in part if have[name] == count}
            samples = policy([tasks[name] for name in names.values()], config=rest, author=author)
            moved = (at_task(names[attempt.task_id], attempt) for attempt in samples)
            done = store_samples(archive, moved, progress, done=done, total=total)
    return done


def samples_of(archive: Archive, author: str) -> Counter[str]:
    """Return the number of attempts of an author at each task, without reading programs."""
    table = archive.table("attempts", ["task_id", "author", "count"])
    own = table.filter(pc.field("author") == author).group_by("task_id").aggregate([("count", "sum")])
    return Counter(dict(zip(own["task_id"].to_pylist(), own["count_sum"].to_pylist(), strict=True)))


def tasks_to_hint(groups: Sequence[Group], tried_by: str, hint: float) -> dict[str, Task]:
    """Return the tasks that an author has tried and never passed, but another author has: task id -> task with the hint in its prompt."""
    tasks: dict[str, Task] = {}
    for group in groups:
        passes: list[str] = []
        own: list[bool] = []
        for attempt, verdict in zip(group.attempts, group.verdicts, strict=True):
            passed = verdict is not None and verdict.status is Status.PASSED
            if attempt.author == tried_by and is_scored(verdict):
                own.append(passed)
            if passed:
                passes.append(attempt.code)
        program = min(passes, key=len, default="") or group.task.reference
        if own and not any(own) and program:
            tasks[group.task.task_id] = with_hint(group.task, hint, program)
    return tasks


def at_task(task_id: str, attempt: Attempt) -> Attempt:
    """Return an attempt moved to another task; its log-probabilities are removed, because the other task's prompt differs."""
    if attempt.task_id == task_id:
        return attempt
    return replace(attempt, task_id=task_id, behavior_logp=None, token_logps=None, entropy=None)
