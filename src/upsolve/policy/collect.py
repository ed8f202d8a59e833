"""Sample a model on the tasks of an archive, into the archive."""

from collections import Counter

from upsolve.archive.store import Archive
from upsolve.config import ModelConfig, SampleConfig
from upsolve.policy.engines import sampler
from upsolve.progress import OnProgress, no_progress
from upsolve.types import Attempt

__all__ = ["sample_attempts"]

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
    have: Counter[str] = Counter()
    for attempt in archive.attempts():
        have[attempt.task_id] += attempt.count if attempt.author == model.name else 0
    tasks = [task for task in archive.tasks() if have[task.task_id] < config.samples]
    if not tasks:
        return 0
    total, done = sum(config.samples - have[task.task_id] for task in tasks), 0
    policy = sampler(config, model)
    for start in range(0, len(tasks), PART):
        part = tasks[start : start + PART]
        for count in sorted({have[task.task_id] for task in part}):
            # no two requests of a task share a seed, however often the sampling was stopped
            rest = config.model_copy(update={"samples": config.samples - count, "seed": config.seed + start + count * 2**20})
            short = [task for task in part if have[task.task_id] == count]
            found: list[Attempt] = []
            try:
                for attempt in policy(short, config=rest, author=model.name):
                    found.append(attempt)
                    progress("sample", done + len(found), total)
            finally:
                archive.append(attempts=found)
            done += len(found)
    return done
