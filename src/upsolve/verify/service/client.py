"""Client of a remote verifier: reconnects after lost connections, without losing or duplicating a verdict."""

import contextlib
import http.client
import json
import math
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields, replace
from itertools import islice
from threading import Event
from typing import Any

from upsolve.errors import JudgeError
from upsolve.records import from_row, to_row
from upsolve.types import Attempt, Status, Task, Verdict
from upsolve.verify.limits import DECISIVE, JudgeSettings

__all__ = ["IncompleteAnswerError", "Remote", "TooLargeError", "open_request", "remote"]

BATCH = 500
"""Maximum number of attempts in a request."""
SILENCE_SECONDS = 60.0
"""Time without data after which the connection counts as lost, seconds; the server sends an empty line every few seconds."""
Pairs = dict[int, tuple[Task, Attempt]]
VERDICT = frozenset(field.name for field in fields(Verdict))
UNKNOWN = re.compile(r"(?:task|attempt): (?:.*; )?unknown (field \w+)")
"""Reason that a server gives for an unknown field of a record; the client sends only the fields of its own records."""
FORBIDDEN = re.compile(r'"loc": ?\[[^\]]*"(\w+)"\], ?"msg": ?"[^"]*", ?"type": ?"extra_forbidden"')
"""Reason that an older server gives for refusing an unknown setting."""


class IncompleteAnswerError(Exception):
    """The answer is incomplete, or the server asks for a retry; holds the delay in seconds."""

    def __init__(self, why: str, seconds: float = 1.0) -> None:
        super().__init__(why)
        self.seconds = seconds


class TooLargeError(Exception):
    """The request is too large for the server."""


class Remote:
    """A remote server; see ``remote``."""

    def __init__(self, url: str, token: str, patience_seconds: float) -> None:
        self.url, self.patience_seconds = url.rstrip("/"), patience_seconds
        self.headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}

    def judged(
        self, pairs: Iterable[tuple[Task, Attempt]], settings: JudgeSettings | None = None
    ) -> Iterator[tuple[int, Verdict]]:
        """Yield the index and the verdict of each pair, each once, in order of completion.

        Args:
            pairs: tasks and attempts, read in batches of ``BATCH``.
            settings: all except isolation, workers, executor and cache, which the server decides.

        Raises:
            JudgeError: the server refuses the request, is too old for a setting of this client, or is unreachable
                for longer than ``patience_seconds``.
        """
        numbered = enumerate(pairs)
        while part := dict(islice(numbered, BATCH)):
            yield from self.batch(part, settings or JudgeSettings())

    def batch(self, left: Pairs, settings: JudgeSettings) -> Iterator[tuple[int, Verdict]]:
        """Send requests until every pair has a verdict."""
        heard = time.monotonic()
        while left:
            try:
                for index, verdict in self.ask(left, settings):
                    heard = time.monotonic()
                    if left.pop(index, None):
                        yield index, verdict
            except IncompleteAnswerError as error:
                if time.monotonic() - heard > self.patience_seconds:
                    raise JudgeError(f"{self.url}: {error}; {len(left)} attempts have no verdict") from error
                time.sleep(error.seconds)
            except TooLargeError as error:
                if len(left) == 1:
                    raise JudgeError(f"{self.url}: {error}") from error
                middle = [*left][len(left) // 2]
                yield from self.batch({index: pair for index, pair in left.items() if index < middle}, settings)
                left = {index: pair for index, pair in left.items() if index >= middle}

    def ask(self, left: Pairs, settings: JudgeSettings, stopped: Event | None = None) -> Iterator[tuple[int, Verdict]]:
        """Send one request; raise IncompleteAnswerError if the answer is incomplete, or soon after ``stopped`` was set."""
        indices = [*left]
        request = urllib.request.Request(f"{self.url}/verify", body_of([*left.values()], settings), self.headers)  # noqa: S310
        try:
            with contextlib.closing(open_request(request)) as answer:
                for line in answer:
                    if stopped and stopped.is_set():
                        break
                    record: dict[str, Any] = json.loads(line) if line.strip() else {}
                    if "error" in record:
                        raise JudgeError(f"{self.url}: {record['error']}")
                    if "done" in record:
                        return
                    if record:
                        yield indices[record.pop("place")], self.verdict_in(record)
        except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: a truncated line is not JSON
            raise IncompleteAnswerError(f"the connection to the server was lost: {error!r}") from error
        raise IncompleteAnswerError("the server's answer was cut off")

    def verdict_in(self, record: dict[str, Any]) -> Verdict:
        """Return the verdict in a line, without fields of a newer server; JudgeError if the line is not a verdict or the server is older."""
        try:
            verdict = from_row(Verdict, {name: value for name, value in record.items() if name in VERDICT})
        except ValueError as error:
            raise JudgeError(
                f"{self.url}: the answer is not a verdict: {error}; upgrade the older of server and client"
            ) from error
        if verdict.status is Status.UNSCORED and (unknown := UNKNOWN.match(verdict.error_message)):
            raise JudgeError(f"{self.url}: the server is older than this client and does not know {unknown[1]}: upgrade it")
        return verdict


def remote(url: str, token: str = "", *, patience_seconds: float = 300.0) -> Remote:
    """Return a client of the server that ``upsolve verify --serve`` has started at a URL such as ``http://judge:8000``.

    Args:
        url: URL of the server.
        token: content of the server's ``--token-file``; empty if it has none.
        patience_seconds: time for which requests to a busy or unreachable server are retried since the last verdict.
    """
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url!r} is not the address of a server; write http://host:port")
    return Remote(url, token, patience_seconds)


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, because urllib would also send the token to the new server."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Treat a redirect as an error."""


def open_request(request: urllib.request.Request) -> Any:
    """Return the response to an accepted request."""
    try:
        return urllib.request.build_opener(NoRedirects).open(request, timeout=SILENCE_SECONDS)
    except urllib.error.HTTPError as error:
        with error:
            reason = error.read(2000).decode("utf-8", "replace")
            wait = error.headers.get("Retry-After", "")
            elsewhere = error.headers.get("Location", "")
        why = f"{error.code} {error.reason}: {reason}"
        if 300 <= error.code < 400:
            raise JudgeError(
                f"{request.full_url}: redirects to {elsewhere}; name that address instead, if you trust it"
            ) from None
        if error.code == 413:
            raise TooLargeError(why) from None
        if error.code in (429, 502, 503, 504):
            raise IncompleteAnswerError(why, float(wait) if wait.isdigit() else 1.0) from None
        if error.code == 422 and (unknown := dict.fromkeys(FORBIDDEN.findall(reason))):
            why = f"the server is older than this client and does not know {', '.join(unknown)}: upgrade it"
        raise JudgeError(f"{request.full_url}: {why}") from None


def request_of(settings: JudgeSettings) -> dict[str, Any]:
    """Return all settings that decide a verdict as JSON values, so that no default of the server replaces a setting."""
    limits = {name: None if math.isinf(value) else value for name, value in asdict(settings.limits).items()}
    return {**{name: getattr(settings, name) for name in DECISIVE}, "limits": limits}


def body_of(pairs: list[tuple[Task, Attempt]], settings: JudgeSettings) -> bytes:
    """Return a request body: each task once, each attempt with the index of its task, and all settings that decide a verdict."""
    task_index: dict[Task, int] = {}
    attempts = list[dict[str, Any]]()
    for task, attempt in pairs:
        row = to_row(replace(attempt, token_ids=None, token_logps=None))
        attempts.append({**row, "task": task_index.setdefault(task, len(task_index))})
    return json.dumps({"tasks": [to_row(task) for task in task_index], "attempts": attempts, **request_of(settings)}).encode()
