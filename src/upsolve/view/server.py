"""The viewer as a local web server: loopback only, a token in the address, pages that load nothing from elsewhere.

Code and texts of an archive are untrusted: they leave the server only as JSON, the page shows them as text, and the Content-Security-Policy
allows no script, style or connection but the server's own files.
"""

import hmac
import json
import math
import secrets
import signal
import threading
import webbrowser
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any

from upsolve.errors import ArchiveError, UpsolveError
from upsolve.extras import needs_extras
from upsolve.verify.service.app import listening
from upsolve.view.answers import Answers

__all__ = ["HEADERS", "WEB", "application", "serve", "to_json"]

WEB = Path(__file__).parent / "web"
"""The files of the page."""
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Header fields of every answer."""
LOCAL = ("127.0.0.1", "localhost", "[::1]")
"""Names under which the server answers; another name in the header Host is an attack that rebinds a name of the internet."""
Send = Callable[[Any], Awaitable[None]]


def to_json(data: Any) -> bytes:
    """Return data as JSON; numbers that are not finite become null, because JSON cannot express them."""

    def finite(value: Any) -> Any:
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        if isinstance(value, Mapping):
            return {key: finite(item) for key, item in value.items()}
        return [finite(item) for item in value] if isinstance(value, list | tuple) else value

    return json.dumps(finite(data), ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


class Guard:
    """ASGI middleware: only GET, only by a local name, only with the token; it adds ``HEADERS`` to every answer."""

    def __init__(self, app: Callable[..., Awaitable[None]], token: str) -> None:
        self.app, self.token = app, token

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Send) -> None:
        """Serve a request, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        given = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        host, _, port = given.get("host", "").rpartition(":")
        query = scope["query_string"].decode("latin-1")
        cookie = f"upsolve-view-{port}"
        extra: list[tuple[bytes, bytes]] = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
        if scope["method"] != "GET":
            await self.refuse(send, 405, "the viewer only reads: GET", extra)
        elif host not in LOCAL:
            await self.refuse(send, 403, f"the viewer answers at {LOCAL[0]} only", extra)
        elif scope["path"] == "/" and query.startswith("token=") and self.valid(query[6:]):
            stored = f"{cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/"
            await self.refuse(send, 303, "", [*extra, (b"set-cookie", stored.encode()), (b"location", b"/")])
        elif not self.valid(cookie_of(given.get("cookie", ""), cookie)):
            await self.refuse(send, 401, "open the address that `upsolve view` printed: it has the token", extra)
        else:
            await self.app(scope, receive, partial(self.add, send, extra))

    def valid(self, token: str) -> bool:
        """Return whether this is the token."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())

    @staticmethod
    async def add(send: Send, extra: list[tuple[bytes, bytes]], message: Any) -> None:
        """Send a message of the application, with the header fields."""
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), *extra]}
        await send(message)

    @staticmethod
    async def refuse(send: Send, status: int, text: str, headers: list[tuple[bytes, bytes]]) -> None:
        """Answer without the application."""
        kind = (b"content-type", b"text/plain; charset=utf-8")
        await send({"type": "http.response.start", "status": status, "headers": [*headers, kind]})
        await send({"type": "http.response.body", "body": text.encode()})


def cookie_of(header: str, name: str) -> str:
    """Return the value of a cookie, empty if it is absent."""
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return found.value if found else ""


def application(answers: Answers, token: str) -> Guard:
    """Return the viewer as an ASGI application."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    def api(request: Request) -> Response:
        name, query = request.path_params["name"], request.query_params
        if name not in answers.routes:
            return Response("no such path", 404)
        try:
            return Response(to_json(answers.about(query.get("of", "")).routes[name](query)), media_type="application/json")
        except (UpsolveError, ValueError) as error:
            status = 404 if isinstance(error, ArchiveError) else 400
            return Response(to_json({"detail": str(error)}), status, media_type="application/json")

    def page(request: Request) -> Response:
        name = request.path_params.get("name") or "index.html"
        if name not in FILES:
            return Response("no such path", 404)
        return Response((WEB / name).read_bytes(), headers={"content-type": TYPES[Path(name).suffix]})

    routes = [Route("/", page), Route("/api/{name}", api), Route("/{name}", page)]
    return Guard(Starlette(routes=routes), token)


FILES = frozenset(file.name for file in WEB.iterdir() if file.suffix in TYPES)
"""The files that the server sends; nothing else can be named."""


def serve(answers: Answers, port: int = 0, *, browser: bool = True, say: Callable[[str], None] = print) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        answers: what the requests are answered from.
        port: port of 127.0.0.1; 0: any free one.
        browser: open the page in the user's browser.
        say: prints the address.

    Raises:
        ConfigError: the port is not available.
        MissingExtraError: FastAPI's server is not installed (extra ``serve``).
    """
    token = secrets.token_urlsafe(24)
    with needs_extras():
        import uvicorn

        app = application(answers, token)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with listening("127.0.0.1", port, token=token.encode()) as listener:
            address = f"http://127.0.0.1:{listener.getsockname()[1]}/?token={token}"
            say(f"{answers.title}: {address}    (Ctrl-C stops)")
            if browser:
                threading.Timer(0.5, webbrowser.open, [address]).start()
            server.run(sockets=[listener])
    except KeyboardInterrupt:
        pass
    finally:
        answers.index.close()
        signal.signal(signal.SIGTERM, before)
