"""Judges on other machines (``upsolve verify --serve``) as workers of the pool: ``verify.executor: http://a:8000,http://b:8000``.

Chunks go to the service with the fewest chunks in flight. Attempts that a service has not answered when it ends go to the other services.
"""

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cache
from typing import Any
from urllib.request import Request

from upsolve import __version__
from upsolve.errors import ConfigError, JudgeError
from upsolve.types import Attempt, Task, Verdict
from upsolve.verify.judge.outcomes import JUDGE
from upsolve.verify.judge.plans import judge_chunk
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.pool.rpc import WorkerLostError
from upsolve.verify.service.client import IncompleteAnswerError, Remote, TooLargeError, open_request, remote

__all__ = ["ServiceWorker", "Services", "services"]

PATIENCE_SECONDS = 300.0
"""Time without a verdict from any service after which judging stops, seconds."""
LONGEST_REST_SECONDS = 30.0
"""Longest time for which other services are preferred to a service that failed, seconds."""

log = logging.getLogger(__name__)


class Place:
    """One service."""

    def __init__(self, client: Remote) -> None:
        self.client, self.running, self.failures, self.rests_until, self.why = client, 0, 0, 0.0, ""
        self.workers = 0
        """Number of workers of the service; 0 before its first answer, and after a failure."""


class Services:
    """The services of ``verify.executor``, shared by all workers of this process."""

    def __init__(self, urls: Sequence[str], *, token: str = "", patience_seconds: float = PATIENCE_SECONDS) -> None:
        """Set the services; nothing is requested yet. ``token``: the same for all."""
        self.places = [Place(remote(url, token)) for url in urls]
        self.patience_seconds, self.guard, self.heard = patience_seconds, threading.Lock(), time.monotonic()

    def slots(self) -> int:
        """Return the number of chunks in flight: two for each worker of the answering services; JudgeError if no service answers."""
        for place in self.places:
            try:
                self.greet(place)
            except IncompleteAnswerError as error:
                self.rest(place, error)
        if not (workers := sum(place.workers for place in self.places)):
            raise JudgeError(f"verify.executor: no judge answers ({self.reasons()}); start one with `upsolve verify --serve`")
        return 2 * workers

    def greet(self, place: Place) -> None:
        """Ask a service for its number of workers, unless it is known.

        Raises:
            JudgeError: the service runs another version, whose verdicts could differ.
            IncompleteAnswerError: the service does not answer.
        """
        if place.workers:
            return
        try:
            with closing(open_request(Request(f"{place.client.url}/health"))) as answer:  # noqa: S310  refuses other schemes
                told: dict[str, Any] = json.loads(answer.read())
        except (OSError, ValueError) as error:
            raise IncompleteAnswerError(f"no answer: {error!r}") from error
        if (told.get("judge"), told.get("version")) != (JUDGE, __version__):
            raise JudgeError(
                f"{place.client.url}: runs upsolve {told.get('version')} ({told.get('judge')}), and this is {__version__} ({JUDGE}): "
                "verdicts could differ; upgrade the older of the two"
            )
        place.workers = int(told["workers"])

    def take(self) -> Place:
        """Return the service for a chunk, which counts as in flight until ``release``. Services that answer come before services that failed, then
        those with the fewest chunks per worker."""
        now = time.monotonic()
        with self.guard:
            place = min(self.places, key=lambda one: (one.rests_until > now, one.running / (one.workers or 1), one.rests_until))
            place.running += 1
        return place

    def release(self, place: Place) -> None:
        """Count a chunk as ended."""
        with self.guard:
            place.running -= 1

    def answered(self, place: Place) -> None:
        """Record that a service has given a verdict."""
        place.failures, self.heard = 0, time.monotonic()

    def rest(self, place: Place, error: Exception) -> None:
        """Put a service last in order for a while; log only the first failure of an outage."""
        if not place.failures:
            log.warning(
                "%s: %s%s", place.client.url, error, "; the other judges do its work" if len(self.places) > 1 else "; retrying"
            )
        with self.guard:
            place.why, place.workers = str(error), 0
            place.rests_until = time.monotonic() + min(LONGEST_REST_SECONDS, 2.0 ** min(place.failures, 9) / 4)
            place.failures += 1

    @property
    def are_resting(self) -> bool:
        """Whether every service has failed."""
        return all(place.rests_until > time.monotonic() for place in self.places)

    def reasons(self) -> str:
        """Return why services failed."""
        return "; ".join(f"{place.client.url}: {place.why}" for place in self.places if place.failures)


@cache
def services(executor: str) -> Services:
    """Return the services of ``verify.executor``; their token is $UPSOLVE_TOKEN."""
    return Services(executor.split(","), token=os.environ.get("UPSOLVE_TOKEN", ""))


Chunk = Sequence[tuple[Task, Attempt]]


class ServiceWorker:
    """Judges one chunk at a time at one service; attempts that this service leaves without a verdict go to the other services."""

    def __init__(self, shared: Services) -> None:
        self.shared, self.stopped = shared, threading.Event()

    @staticmethod
    def pack(work: Callable[..., Any], *args: Any) -> Any:
        """Return the request that judges a chunk; ConfigError for any other function, since a service runs only this one."""
        if work is not judge_chunk:
            raise ConfigError(
                "verify.executor: a service only judges attempts; run this command on the service's machine, with executor: local"
            )
        return args[0], args[1]

    @staticmethod
    def unpack(reply: Any) -> Any:
        """Return the verdicts."""
        return reply

    def run(self, request: Any, seconds: float | None = None) -> Any:
        """Return the verdicts of a chunk, in order; the service itself limits the time of a chunk (``seconds``).

        Raises:
            JudgeError: a service refuses the request, or no service answers for ``patience_seconds``.
            WorkerLostError: ``close`` was called.
        """
        del seconds
        chunk: Chunk = request[0]
        settings: JudgeSettings = request[1]
        found, left, shared, since = dict[int, Verdict](), dict(enumerate(chunk)), self.shared, time.monotonic()
        while left:
            place = shared.take()
            try:
                shared.greet(place)
                for index, verdict in place.client.ask(left, settings, self.stopped):
                    found[index] = verdict
                    left.pop(index, None)
                    shared.answered(place)
            except IncompleteAnswerError as error:
                shared.rest(place, error)
            except TooLargeError as error:
                if len(left) == 1:
                    raise JudgeError(f"{place.client.url}: {error}") from error
                for index, pair in [*left.items()]:
                    found[index] = self.run(([pair], settings))[0]
                    del left[index]
            finally:
                shared.release(place)
            if self.stopped.is_set():
                raise WorkerLostError("the batch of attempts was stopped")
            if left and shared.are_resting:
                if time.monotonic() - max(since, shared.heard) > shared.patience_seconds:
                    raise JudgeError(
                        f"no judge answers ({shared.reasons()}); start one with `upsolve verify --serve` and run the same command again: "
                        "verdicts received so far are kept"
                    )
                self.stopped.wait(0.25)
        return [found[index] for index in range(len(found))]

    def close(self) -> None:
        """Stop waiting for a service."""
        self.stopped.set()
