"""ASGI middleware: checks the bearer token, Content-Length and the number of requests before the body is read."""

import asyncio
import base64
import binascii
import contextlib
import hmac
import json
from collections.abc import Awaitable, Callable
from typing import Any

__all__ = ["AuthMiddleware", "RefusedError"]

STALL_SECONDS = 60.0
"""Time after which a client that reads no data is disconnected, seconds."""
DRAIN_SECONDS = 5.0
"""Maximum time to read and discard the body of a refused request, seconds: most clients read the answer after sending."""
MOST_DRAINED = 64
"""Maximum number of refused requests whose bodies are read at once; further ones are answered immediately."""
MOST_REQUESTS = 512
"""Maximum number of concurrent requests with a valid token; further requests are refused (503)."""
OPEN = ("/health",)
"""Paths that need no token."""
RETRY_SECONDS = 2

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[Any], Awaitable[None]]


class RefusedError(Exception):
    """A refused request: HTTP status and reason."""

    def __init__(self, status: int, detail: Any) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail

    def body(self) -> bytes:
        """Return the body of the answer, JSON."""
        return json.dumps({"detail": self.detail}).encode()

    def headers(self) -> dict[str, str]:
        """Return the header fields of the answer."""
        own = {401: {"www-authenticate": "Bearer"}, **{key: {"retry-after": str(RETRY_SECONDS)} for key in (429, 503)}}
        return {"content-type": "application/json", **own.get(self.status, {})}


class AuthMiddleware:
    """ASGI middleware around an application; see the module's docstring."""

    def __init__(self, app: Callable[..., Awaitable[None]], token: bytes, most_bytes: int) -> None:
        self.app, self.token, self.most_bytes = app, token, most_bytes
        self.served = self.drained = 0

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""

        async def send_in_time(message: Any) -> None:
            async with asyncio.timeout(STALL_SECONDS):
                await send(message)

        try:
            if scope["type"] == "http":
                self.check_headers(scope)
            counted = scope["type"] == "http" and scope["path"] not in OPEN
            if counted and self.served >= MOST_REQUESTS:
                raise RefusedError(503, f"{self.served} requests are being served; retry later")
            self.served += counted
            try:
                await self.app(scope, receive, send_in_time)
            finally:
                self.served -= counted
        except TimeoutError:  # uvicorn closes the connection
            return
        except RefusedError as refused:
            await self.drain(receive)
            names = {**refused.headers(), "connection": "close"}
            headers = [(name.encode(), value.encode()) for name, value in names.items()]
            await send({"type": "http.response.start", "status": refused.status, "headers": headers})
            await send({"type": "http.response.body", "body": refused.body()})

    async def drain(self, receive: Receive) -> None:
        """Read and discard the body of a refused request for DRAIN_SECONDS, unless MOST_DRAINED other bodies are being read."""
        if self.drained >= MOST_DRAINED:
            return
        self.drained += 1
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_SECONDS):
                    while (await receive()).get("more_body"):
                        pass
        finally:
            self.drained -= 1

    def check_headers(self, scope: dict[str, Any]) -> None:
        """Raise RefusedError for a request without a valid token or with too large a body."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        valid = hmac.compare_digest(token_in(headers.get(b"authorization", b"")), self.token)
        if self.token and scope["path"] not in OPEN and not valid:
            raise RefusedError(
                401,
                "missing or wrong token: send the header Authorization: Bearer TOKEN, or use http://upsolve:TOKEN@host:port",
            )
        if scope["method"] == "POST":
            length = headers.get(b"content-length", b"")
            if not length.isdigit():
                raise RefusedError(411, "the header Content-Length is missing; send it")
            if int(length) > self.most_bytes:
                raise RefusedError(
                    413, f"a body of {int(length)} bytes is longer than this server accepts; send at most {self.most_bytes}"
                )


def token_in(header: bytes) -> bytes:
    """Return the token of a header ``Bearer TOKEN``, or the password of ``Basic``, since some clients accept only a URL."""
    kind, _, value = header.partition(b" ")
    if kind.lower() == b"bearer":
        return value.strip()
    if kind.lower() != b"basic":
        return b""
    try:
        return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
    except binascii.Error:
        return b""
