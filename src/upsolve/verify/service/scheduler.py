"""Schedules requests over shared workers and one verdict cache; independent of HTTP except for status codes of refusals."""

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar, cast

from upsolve import __version__
from upsolve.errors import JudgeError
from upsolve.types import Attempt, Task, Verdict
from upsolve.verify.judge.outcomes import JUDGE
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.pool.cache import VerdictCache
from upsolve.verify.pool.pool import SPARE_SECONDS, Batch, Numbered, chunks_of, dismiss, look_up, worker_count
from upsolve.verify.pool.rpc import WorkerLostError
from upsolve.verify.sandbox.runner import LONGEST_JUDGED, demand_layers, server
from upsolve.verify.service.auth_middleware import RefusedError
from upsolve.verify.service.requests import CodeRequest, VerifyRequest, answer_of, broken, pairs_of, program_of, settings_of
from upsolve.verify.service.run_code import Program, run_program

__all__ = ["Bounds", "Service"]

T = TypeVar("T")

BEAT_SECONDS = 5.0
"""Time without a verdict after which an empty line is sent, seconds, so that both sides detect a lost connection."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Upper bounds of requests; all must be positive."""

    body_bytes: int = 32 << 20
    """Size of a request body, bytes."""
    attempts: int = 10_000
    """Attempts in one request."""
    waiting: int = 50_000
    """Attempts waiting in all requests together."""
    limits: Limits = field(
        default_factory=lambda: Limits(
            wall_seconds=60.0, cpu_seconds=60.0, memory_bytes=4 << 30, output_bytes=8 << 20, processes=128
        )
    )
    """Largest limits that a request may set for an attempt."""


class Service:
    """The workers, the cache, and the requests that share them."""

    def __init__(self, settings: JudgeSettings, *, token: str = "", bounds: Bounds | None = None) -> None:
        self.settings, self.token, self.bounds = settings, token.encode(), bounds or Bounds()
        self.size = worker_count(settings)
        self.threads = ThreadPoolExecutor(self.size)
        self.cache = VerdictCache(settings.cache) if settings.cache else None
        self.cache_guard = threading.Lock()
        self.batches: dict[Batch, int] = {}
        self.handed_in: set[asyncio.Future[Any]] = set()
        self.layers: tuple[str, ...] = ()

    def start(self) -> None:
        """Start all workers; raise IsolationError if a required layer is missing."""
        with self.admitted(0, self.settings) as batch:
            started = [self.threads.submit(batch.call, layers, self.settings) for _ in range(self.size)]
            self.layers = [future.result() for future in started][-1]

    @property
    def waiting(self) -> int:
        """Return the number of attempts waiting."""
        return sum(self.batches.values())

    def stop(self) -> None:
        """End the busy workers and, with them, the answers to all requests."""
        for batch in [*self.batches]:
            batch.stop()

    def close(self) -> None:
        """End all workers immediately."""
        self.stop()
        self.threads.shutdown(wait=True, cancel_futures=True)
        dismiss()
        if self.cache:
            self.cache.close()

    async def health(self) -> dict[str, Any]:
        """Return version, capabilities and load of the server."""
        caps = {name: value for name, value in self.bounds.limits.named().items() if value != float("inf")}
        return {
            "version": __version__,
            "judge": JUDGE,
            "isolation": self.settings.isolation,
            "layers": self.layers,
            "executor": self.settings.executor,
            "workers": self.size,
            "waiting": self.waiting,
            "most": {**asdict(self.bounds), "limits": caps},
        }

    @contextlib.contextmanager
    def admitted(self, count: int, settings: JudgeSettings) -> Generator[Batch]:
        """Count a request's attempts as waiting; on exit, end workers that still judge them."""
        self.refuse_many(count)
        if self.waiting + count > self.bounds.waiting:
            raise RefusedError(429, f"{self.waiting} attempts are waiting already; retry later")
        batch = Batch(settings)
        self.batches[batch] = count
        try:
            yield batch
        finally:
            del self.batches[batch]
            batch.stop()

    def request_of(self, body: dict[str, Any]) -> VerifyRequest:
        """Return the request of a body; RefusedError if its tasks or attempts are missing, are not lists, or are too many."""
        for name in ("tasks", "attempts"):
            if not isinstance(rows := body.get(name), list):
                raise RefusedError(422, [{"loc": ["body", name], "msg": "must be a list", "type": "invalid"}])
            self.refuse_many(len(cast("list[Any]", rows)), name)
        return VerifyRequest(**body)

    def refuse_many(self, count: int, name: str = "attempts") -> None:
        """Raise RefusedError for more records than a request may hold."""
        if count > self.bounds.attempts:
            raise RefusedError(413, f"{name}: {count} are more than a request may hold: {self.bounds.attempts}")

    def read(self, request: VerifyRequest) -> tuple[Numbered, list[tuple[int, Verdict]], JudgeSettings]:
        """Return the pairs to judge, unscored verdicts for invalid records, and the settings."""
        try:
            return *pairs_of(request), settings_of(request.settings, self.settings, self.bounds.limits)
        except ValueError as error:
            raise RefusedError(422, str(error)) from error

    async def verify(self, body: dict[str, Any]) -> AsyncGenerator[bytes]:
        """Yield an empty chunk once a request is admitted, then verdicts as lines of JSON, and their number last."""
        request = self.request_of(body)
        pairs, bad, settings = await asyncio.to_thread(self.read, request)
        with self.admitted(len(request.attempts), settings) as batch:
            yield b""
            self.batches[batch] -= len(bad)
            yield lines(bad)
            try:
                async with contextlib.aclosing(self.judged(pairs, batch)) as verdicts:
                    async for verdicts_done in verdicts:
                        self.batches[batch] -= len(verdicts_done)
                        yield lines(verdicts_done) or b"\n"
            except WorkerLostError:  # the service is stopping: an answer without its last line makes the client retry
                return
            except Exception as error:  # report any failure to the client
                yield json.dumps({"error": f"{type(error).__name__}: {error}"}).encode() + b"\n"
                return
        yield json.dumps({"done": len(request.attempts)}).encode() + b"\n"

    async def verdicts(self, pairs: Sequence[tuple[Task, Attempt]]) -> list[Verdict]:
        """Return the verdicts of a request of another protocol, in order."""
        found: dict[int, Verdict] = {}
        with self.admitted(len(pairs), self.settings) as batch:
            async with contextlib.aclosing(self.judged([*enumerate(pairs)], batch)) as done:
                async for part in done:
                    self.batches[batch] -= len(part)
                    found.update(part)
        return [found[index] for index in range(len(pairs))]

    async def judged(self, pairs: Numbered, batch: Batch) -> AsyncGenerator[list[tuple[int, Verdict]]]:
        """Yield verdicts as they complete, and an empty list after BEAT_SECONDS without one.

        Threads take chunks in order of submission. A request submits one chunk at a time, and more only while the queue is no
        longer than the number of workers: so requests take turns, and a new request waits behind few chunks.
        """
        parts = chunks_of(pairs, self.size)
        at_work: set[asyncio.Future[list[tuple[int, Verdict]]]] = set()
        done = at_work
        try:
            while True:
                while (not at_work or len(self.handed_in) <= self.size) and (part := next(parts, None)):
                    at_work.add(self.submit(self.work, batch, part))
                if not at_work:
                    return
                done, at_work = await asyncio.wait(at_work, timeout=BEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                yield [each for future in done for each in future.result()]
        finally:
            for future in done | at_work:
                if not future.cancel():
                    future.exception()  # retrieved, since asyncio logs exceptions that nobody retrieves

    def submit(self, work: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """Run a function in a thread of the pool, in order of submission."""
        future = asyncio.get_running_loop().run_in_executor(self.threads, work, *args)
        self.handed_in.add(future)
        future.add_done_callback(self.handed_in.discard)
        return future

    def work(self, batch: Batch, part: Numbered) -> list[tuple[int, Verdict]]:
        """Judge a chunk on a worker, except for cached verdicts."""
        with self.cache_guard:
            known, fresh = look_up(part, self.cache, batch.settings)
        verdicts = batch.work([pair for _, pair in fresh]) if fresh else []
        judged = [(index, pair, verdict) for (index, pair), verdict in zip(fresh, verdicts, strict=True)]
        if self.cache and judged:
            with self.cache_guard:
                self.cache.keep([(*pair, verdict) for _, pair, verdict in judged], batch.settings)
        return [*known, *((index, verdict) for index, _, verdict in judged)]

    async def run_code(self, request: CodeRequest, receive: Callable[[], Any]) -> dict[str, Any]:
        """Run one program and return its output; end it if the client disconnects."""
        try:
            program, settings = program_of(request, self.settings, self.bounds.limits)
        except ValueError as error:
            raise RefusedError(422, str(error)) from error
        with self.admitted(1, settings) as batch:
            work = self.submit(run_once, batch, program)
            left = asyncio.ensure_future(until_gone(receive))
            try:
                await asyncio.wait({work, left}, return_when=asyncio.FIRST_COMPLETED)
                return work.result() if work.done() else broken("the client is gone")
            finally:
                left.cancel()
                work.cancel()


def layers(settings: JudgeSettings) -> tuple[str, ...]:
    """Return the active isolation layers of this worker; raise IsolationError if a required one is missing."""
    running = server(gvisor=settings.isolation == "gvisor")
    demand_layers(running, settings)
    return running.layers


def lines(verdicts: list[tuple[int, Verdict]]) -> bytes:
    """Return verdicts as JSON lines."""
    return b"".join(json.dumps({"place": index, **asdict(verdict)}).encode() + b"\n" for index, verdict in verdicts)


def run_once(batch: Batch, program: Program) -> dict[str, Any]:
    """Run a program on a worker; retry once if the worker is lost."""
    problem = ""
    seconds = SPARE_SECONDS + LONGEST_JUDGED * (program.build_seconds + batch.settings.limits.wall_seconds)
    for _ in range(2):
        try:
            return answer_of(batch.call(run_program, program, batch.settings, seconds=seconds), batch.settings)
        except (WorkerLostError, JudgeError) as error:
            problem = str(error)
    return broken(problem)


async def until_gone(receive: Callable[[], Any]) -> None:
    """Wait until the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass
