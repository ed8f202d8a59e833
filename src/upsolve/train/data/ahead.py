"""Rounds that are sampled and judged in the background, by servers beside the trainer (``source.ahead``).

Round r is sampled with the weights at the start of round max(0, r - ahead), with seeds of its own, one round after the other. So the attempts
of a round do not depend on the speeds of sampler and trainer.
A resumed run samples the rounds that the interrupted run had begun, with the same weights.

    folder/rounds.json     round -> round at whose start the weights that sample it were written
    folder/00000003/       weights at the start of round 3, until the rounds that they sample are stored
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any, TypeVar

from upsolve.errors import TrainingError
from upsolve.files import write_text
from upsolve.policy.request import Sampler, request_sampler
from upsolve.train.data.judging import Rollouts
from upsolve.train.data.sources import OnlineSource, round_tag, shares
from upsolve.train.run.nodes import spread
from upsolve.train.run.processes import Processes

__all__ = ["MainAlone", "RoundsAhead", "read_weights", "stoppable"]

T = TypeVar("T")
RECORD = "rounds.json"
POLL_SECONDS = 0.1
"""Seconds between two checks of a waiting thread for a request to stop."""


class StoppedError(Exception):
    """Raised in the sampling thread when the run has ended."""


class MainAlone(Processes):
    """A process group of rank 0 alone, for the sampling thread, whose work is not collective."""

    is_main, index, count = True, 0, 1  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def __init__(self) -> None:
        """Join no group."""


def read_weights(folder: Path) -> Mapping[int, int]:
    """Return a map from each round sampled ahead to the round whose start weights sample it; {} if no round was sampled ahead."""
    with suppress(FileNotFoundError):
        stored: dict[str, int] = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        return {int(number): weights for number, weights in stored.items()}
    return {}


class RoundsAhead:
    """Samples the rounds of an online run before the trainer reaches them."""

    def __init__(
        self,
        rollouts: Rollouts,
        source: OnlineSource,
        folder: Path,
        *,
        publish: Callable[[Path], None],
        sampler: Callable[[Path], Sampler],
    ) -> None:
        """Make the sampler of rounds; nothing is sampled yet.

        Args:
            rollouts: sample, judge and store a round, on rank 0.
            source: the tasks of each round.
            folder: for weights.
            publish: writes the current weights into a folder, from rank 0. Collective.
            sampler: returns a sampler of the weights in a folder.
        """
        self.processes, self.show = rollouts.processes, rollouts.on_progress
        self.source, self.folder, self.publish, self.sampler = source, folder, publish, sampler
        self.rollouts = replace(rollouts, processes=MainAlone(), on_progress=self.note)
        self.weights = dict(read_weights(folder))
        self.rounds, self.jobs = dict[int, Future[None]](), SimpleQueue[int]()
        self.news: tuple[str, int, int] | None = None
        self.stopped, self.thread = Event(), Thread(target=self.work, name="sampler", daemon=True)

    def reach(self, number: int) -> None:
        """Wait until a round is stored, while later rounds are sampled in the background. Collective.

        Raises:
            TrainingError: the sampler ended by an interrupt or exit.
            ModelError, or another error of the sampler: raised on all ranks.
        """
        begun, fresh = self.processes.from_main(lambda: self.missing(number))
        if fresh:
            self.publish(self.folder / round_tag(number))
        if self.processes.is_main:
            self.start(begun, fresh, number)
        if error := self.processes.from_main(lambda: self.wait(number)):
            raise error
        if self.processes.disks:
            self.send_rounds()

    def send_rounds(self) -> None:
        """Send the stored rounds, and which weights sample them, to nodes that do not see the disk of rank 0. Collective."""
        archive = self.source.rollouts
        with archive.lock() if self.processes.is_main else nullcontext():  # the thread may be about to store a later round
            spread(archive.path, self.processes)
        spread(self.folder / RECORD, self.processes)

    def missing(self, number: int) -> tuple[list[int], list[int]]:
        """Return two lists of rounds to sample, up to ``number + ahead``: rounds begun by an interrupted run, and new rounds."""
        config = self.source.source
        last = min(number + config.ahead, config.rounds - 1)
        todo = [n for n in range(number, last + 1) if n not in self.rounds and shares(config, n)["policy"]]
        todo = [n for n in todo if not self.source.judged_samples(n)]
        begun = [n for n in todo if n in self.weights and (self.folder / round_tag(self.weights[n])).exists()]
        return begun, [n for n in todo if n not in begun]

    def start(self, begun: Sequence[int], fresh: Sequence[int], number: int) -> None:
        """Record in rounds.json which weights sample each round, then queue the rounds for the thread."""
        if fresh:
            self.weights |= dict.fromkeys(fresh, number)
            write_text(self.folder / RECORD, json.dumps(self.weights))
        for each in sorted((*begun, *fresh)):
            self.rounds[each] = Future()
            self.jobs.put(each)
        if self.rounds and not self.thread.ident:
            self.thread.start()

    def wait(self, number: int) -> Exception | None:
        """Wait until a round is stored; return the exception that its sampler raised, if any."""
        future = self.rounds.get(number)
        while future and not future.done():
            if self.news:
                self.show(*self.news)
            time.sleep(POLL_SECONDS / 10)
        error = future.exception() if future else None
        return error if error is None or isinstance(error, Exception) else TrainingError(repr(error))

    def note(self, stage: str, done: int, total: int) -> None:
        """Store the progress of the round being sampled, for the thread that waits for it."""
        self.news = (stage, done, total)

    def work(self) -> None:
        """Sample the queued rounds in turn; after an exception all later rounds fail with it."""
        error: BaseException | None = None
        while not self.stopped.is_set():
            with suppress(Empty):
                number = self.jobs.get(timeout=POLL_SECONDS)
                try:
                    if error is None:
                        self.sample(number)
                except BaseException as raised:  # raised again by the thread that waits for the round
                    error = raised
                self.rounds[number].set_exception(error) if error else self.rounds[number].set_result(None)

    def sample(self, number: int) -> None:
        """Sample, judge and store a round; then remove the weights that no later round needs."""
        now = self.weights[number]
        sampler = StoppableSampler(self.sampler(self.folder / round_tag(now)), self.stopped)
        asked = self.source.to_sample(number)
        self.rollouts.judge(asked, lambda: sampler)
        needed = {round_tag(self.weights[n]) for n, future in [*self.rounds.items()] if n > number and not future.done()}
        for place in [path for path in self.folder.iterdir() if path.is_dir() and path.name < round_tag(now)]:
            if place.name not in needed:
                shutil.rmtree(place, ignore_errors=True)

    def close(self) -> None:
        """Stop sampling; return when no further sample will be stored."""
        self.stopped.set()
        if self.thread.ident:
            self.thread.join()


@dataclass(frozen=True, slots=True)
class StoppableSampler:
    """A sampler whose attempts end with ``StoppedError`` as soon as an event is set, even while the sampler waits for a server."""

    sampler: Sampler
    stopped: Event

    def __call__(self, tasks: Sequence[Any], **options: Any) -> Iterator[Any]:
        """Yield attempts as ``Sampler`` does."""
        return stoppable(self.sampler(tasks, **options), self.stopped)

    def sample_requests(self, requests: Sequence[Any], **options: Any) -> Iterator[Any]:
        """Yield attempts as ``RequestSampler`` does."""
        return stoppable(request_sampler(self.sampler, "source.hints").sample_requests(requests, **options), self.stopped)


def stoppable(items: Iterator[T], stopped: Event) -> Iterator[T]:
    """Yield items, which another thread takes from the iterator; raise StoppedError soon after ``stopped`` is set."""
    passed = SimpleQueue[tuple[T] | BaseException | None]()

    def take() -> None:
        try:
            for item in items:
                passed.put((item,))
                if stopped.is_set():
                    break
            passed.put(None)
        except BaseException as error:  # raised again by the thread that reads
            passed.put(error)
        finally:
            if close := getattr(items, "close", None):
                close()

    Thread(target=take, daemon=True).start()
    while not stopped.is_set():
        with suppress(Empty):
            item = passed.get(timeout=POLL_SECONDS)
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item[0]
    raise StoppedError
