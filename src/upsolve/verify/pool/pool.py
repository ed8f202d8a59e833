"""Judge many attempts in parallel on local cores, a Ray cluster or services; equal attempts are judged once."""

import atexit
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import count, islice
from queue import SimpleQueue
from typing import Any, TypeVar

from upsolve.checkers import is_program
from upsolve.errors import ConfigError
from upsolve.languages import PYTHON, language
from upsolve.types import Attempt, Task, Verdict
from upsolve.verify.judge.outcomes import unscored
from upsolve.verify.judge.plans import judge_chunk
from upsolve.verify.limits import JudgeSettings, limits_for
from upsolve.verify.pool.cache import VerdictCache, open_cache
from upsolve.verify.pool.rpc import LocalWorker, RayWorker, WorkerLostError, ray_slots
from upsolve.verify.pool.services import ServiceWorker, services
from upsolve.verify.resources import usable_cores
from upsolve.verify.sandbox.process import COMPILE_SECONDS
from upsolve.verify.sandbox.runner import LONGEST_JUDGED

__all__ = [
    "CHUNK",
    "SPARE_SECONDS",
    "Batch",
    "Numbered",
    "chunks_of",
    "dismiss",
    "judged",
    "look_up",
    "refuse_unknown",
    "verify",
    "worker_count",
]

CHUNK = 8
"""Maximum number of attempts in a chunk; small, so that an attempt that hangs delays few others."""
SPARE_SECONDS = 120.0
"""Time a worker may take beyond the limits of its attempts, seconds: starting sandboxes, comparing, analysing."""
AHEAD = 2
"""Number of chunks queued for each worker."""
Numbered = list[tuple[int, tuple[Task, Attempt]]]
Chunk = Sequence[tuple[Task, Attempt]]
Worker = LocalWorker | RayWorker | ServiceWorker
T = TypeVar("T")

idle: defaultdict[str, list[Worker]] = defaultdict(list)
"""Executor -> idle workers. The next batch reuses them; they end with this process."""
guard = threading.Lock()


@atexit.register
def dismiss() -> None:
    """End all idle workers."""
    with guard:
        for workers in idle.values():
            while workers:
                workers.pop().close()


def worker_count(settings: JudgeSettings) -> int:
    """Return the number of chunks judged in parallel."""
    if settings.workers or settings.executor == "local":
        return settings.workers or usable_cores()
    return ray_slots() if settings.executor == "ray" else services(settings.executor).slots()


def deadline(chunk: Chunk, settings: JudgeSettings) -> float:
    """Return the deadline, in seconds, after which a worker is considered lost: far above the limits of its attempts."""
    compiled = sum(bool(settings.python or one.language not in PYTHON) + is_program(task.checker) for task, one in chunk)
    checks = sum(len(task.tests) for task, _ in chunk if task.checker)
    wall_seconds = sum(limits_for(task, settings).wall_seconds for task, _ in chunk)
    seconds = LONGEST_JUDGED * wall_seconds + 2 * COMPILE_SECONDS * compiled + 20 * checks
    return SPARE_SECONDS + (settings.repeats + 2 * settings.cost) * seconds


class Batch:
    """The workers of one batch of attempts."""

    def __init__(self, settings: JudgeSettings) -> None:
        self.settings = settings
        self.size = worker_count(settings)
        self.free = threading.Semaphore(self.size)
        self.stopped = False
        self.busy: set[Worker] = set()

    @property
    def kind(self) -> type[LocalWorker] | type[RayWorker] | type[ServiceWorker]:
        """Return the class of the workers."""
        return {"local": LocalWorker, "ray": RayWorker}.get(self.settings.executor, ServiceWorker)

    def new_worker(self) -> Worker:
        """Start a worker."""
        if self.settings.executor == "local":
            return LocalWorker()
        return RayWorker() if self.settings.executor == "ray" else ServiceWorker(services(self.settings.executor))

    def take(self) -> Worker:
        """Return an idle worker, or start one."""
        with guard:
            if self.stopped:
                raise WorkerLostError("the batch was stopped")
            waiting = idle[self.settings.executor]
            worker = waiting.pop() if waiting else self.new_worker()
            self.busy.add(worker)
        return worker

    def work(self, chunk: Chunk) -> list[Verdict]:
        """Judge a chunk; if the worker is lost, retry each attempt alone once, then leave the attempt unscored."""
        judge = partial(self.call, judge_chunk, chunk, self.settings, seconds=deadline(chunk, self.settings))
        try:
            return judge()
        except WorkerLostError as error:
            if self.stopped:
                raise
            if len(chunk) > 1:
                return [verdict for pair in chunk for verdict in self.work([pair])]
            with suppress(WorkerLostError):
                return judge()
            return [unscored(task, attempt, f"JudgeError: {error}") for task, attempt in chunk]

    def call(self, work: Callable[..., T], *args: Any, seconds: float | None = None) -> T:
        """Run one function on a worker; raise WorkerLostError if the worker ends or does not answer within ``seconds``.

        At most ``size`` calls run at once; further calls are packed and wait for a free worker.
        """
        kind = self.kind
        request = kind.pack(work, *args)
        with self.free:
            worker = self.take()
            lost = True
            try:
                reply, lost = worker.run(request, seconds), False
            finally:
                with guard:
                    self.busy.discard(worker)
                    if not (lost or self.stopped):  # else it has been closed
                        idle[self.settings.executor].append(worker)
        return kind.unpack(reply)

    def stop(self) -> None:
        """End the workers that are busy."""
        with guard:
            self.stopped = True
            for worker in self.busy:
                worker.close()


def judged(pairs: Iterable[tuple[Task, Attempt]], settings: JudgeSettings | None = None) -> Iterator[tuple[int, Verdict]]:
    """Yield the index and the verdict of each pair in order of completion; memory does not grow with the number of pairs.

    Args:
        pairs: tasks and attempts, read as workers become free; if it has a length, the last chunks get smaller, so that all
            workers finish at about the same time.
        settings: limits, workers, executor, cache.

    Raises:
        IsolationError: a required layer is missing here.
        ConfigError: ``verify.python`` names an unknown language, or one whose tools are missing on this machine.
    """
    settings = settings or JudgeSettings()
    refuse_unknown(settings)
    batch, indices = Batch(settings), count()
    with open_cache(settings.cache) as cache, ThreadPoolExecutor(batch.size * AHEAD) as threads:
        waiting: dict[Future[list[Verdict]], Numbered] = {}
        # not concurrent.futures.wait: interrupted, it may leave a future locked, and the thread that completes it would hang
        done: SimpleQueue[Future[list[Verdict]]] = SimpleQueue()
        try:
            for part in chunks_of(pairs, batch.size):
                known, fresh = look_up([(next(indices), pair) for pair in part], cache, settings)
                yield from known
                if fresh:
                    future = threads.submit(batch.work, [pair for _, pair in fresh])
                    waiting[future] = fresh
                    future.add_done_callback(done.put)
                while len(waiting) >= batch.size * AHEAD:
                    yield from finished(waiting, done.get(), cache, settings)
            while waiting:
                yield from finished(waiting, done.get(), cache, settings)
        except BaseException:
            batch.stop()
            threads.shutdown(wait=True, cancel_futures=True)
            raise


def refuse_unknown(settings: JudgeSettings) -> None:
    """Raise ConfigError if ``verify.python`` names a language that is unknown or not installed on this machine."""
    try:
        if settings.python and settings.executor == "local":
            language(settings.python)
    except ValueError as error:
        raise ConfigError(f"verify.python: {error}") from error


def chunks_of(pairs: Iterable[T], workers: int) -> Iterator[list[T]]:
    """Yield chunks of at most CHUNK; with several workers, at most half of a worker's share of the remaining pairs."""
    left, rest = len(pairs) if workers > 1 and isinstance(pairs, Sized) else sys.maxsize, iter(pairs)
    while part := list(islice(rest, min(CHUNK, -(-left // (2 * workers))))):
        yield part
        left -= len(part)


def look_up(part: Numbered, cache: VerdictCache | None, settings: JudgeSettings) -> tuple[list[tuple[int, Verdict]], Numbered]:
    """Return the cached verdicts, and the pairs without one."""
    if cache is None:
        return [], part
    results = [(index, pair, cache.find(*pair, settings)) for index, pair in part]
    known = [(index, verdict) for index, _, verdict in results if verdict]
    return known, [(index, pair) for index, pair, verdict in results if not verdict]


def finished(
    waiting: dict[Future[list[Verdict]], Numbered],
    future: Future[list[Verdict]],
    cache: VerdictCache | None,
    settings: JudgeSettings,
) -> Iterator[tuple[int, Verdict]]:
    """Yield the verdicts of a finished chunk, and store them in the cache."""
    part, verdicts = waiting.pop(future), future.result()
    if cache:
        cache.keep([(*pair, verdict) for (_, pair), verdict in zip(part, verdicts, strict=True)], settings)
    yield from ((index, verdict) for (index, _), verdict in zip(part, verdicts, strict=True))


def verify(
    pairs: Sequence[tuple[Task, Attempt]],
    settings: JudgeSettings | None = None,
    *,
    on_done: Callable[[int, Verdict], None] | None = None,
) -> list[Verdict]:
    """Judge attempts in parallel; equal attempts at equal tasks are judged once.

    Args:
        pairs: tasks and attempts.
        settings: limits, workers, executor, cache.
        on_done: called in this thread with an index into ``pairs`` and its verdict, in order of completion.

    Returns:
        Verdicts in the order of ``pairs``; an attempt that could not be judged is ``UNSCORED``, with the reason.

    Raises:
        IsolationError: a required layer is missing here.
    """
    indices: dict[tuple[Task, str], list[int]] = {}  # by task, not task id: two tasks with one id may have different tests
    for index, (task, attempt) in enumerate(pairs):
        indices.setdefault((task, attempt.attempt_id), []).append(index)
    equals = [*indices.values()]
    verdicts: dict[int, Verdict] = {}
    for number, verdict in judged([pairs[same[0]] for same in equals], settings):
        for index in equals[number]:
            verdicts[index] = verdict
            if on_done:
                on_done(index, verdict)
    return [verdicts[index] for index in range(len(pairs))]
