"""The viewer as a local web server: loopback only, a token in the address, pages that load nothing from elsewhere.

Code and texts of an archive are untrusted: they leave the server only as JSON, the page shows them as text, and the Content-Security-Policy
allows no script, style or connection but the server's own files.
"""

import hmac
import json
import math
import signal
import threading
import webbrowser
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from upsolve.errors import ArchiveError, UpsolveError
from upsolve.extras import needs_extras
from upsolve.view.address import Address
from upsolve.view.answers import Answers
from upsolve.view.runs import Runs

__all__ = ["FILES", "HEADERS", "WEB", "application", "serve", "style_text", "to_json"]

WEB = Path(__file__).parent / "web"
"""The files of the page."""
REPORT = Path(__file__).parents[1] / "report"
"""The files that reports share: the style of what both show (``block.css``), and ``copy.js``."""
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
MOST_BODY = 1_000_000
"""Longest question, bytes."""
LOCAL = ("127.0.0.1", "localhost", "[::1]")
"""Names under which the server answers; any other name in the header Host is a DNS rebinding attack."""
OPEN = "open the address that `upsolve view` printed"


def to_json(data: Any) -> bytes:
    """Return data as JSON; numbers that are not finite become null, because JSON cannot express them."""

    def finite(value: Any) -> Any:
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        if isinstance(value, Mapping):
            return {key: finite(item) for key, item in value.items()}
        return [finite(item) for item in value] if isinstance(value, list | tuple) else value

    return json.dumps(finite(data), ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def application(answers: Answers | Runs, token: str) -> Any:
    """Return the viewer as an ASGI application. It requires a local name, the token and its own page as the origin, and sends ``HEADERS`` in every
    answer. Only GET is allowed, and POST for questions to a model."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.base import BaseHTTPMiddleware
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, RedirectResponse, Response
    from starlette.routing import Route

    def is_token(text: str) -> bool:
        return hmac.compare_digest(text.encode("utf-8", "replace"), token.encode())

    async def guard(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        host, _, port = request.headers.get("host", "").rpartition(":")
        cookie = f"upsolve-view-{port}"
        if request.method != "GET" and not (request.method == "POST" and request.scope["path"].endswith("/api/ask")):
            response: Response = PlainTextResponse("the viewer is read-only; send GET requests", 405)
        elif host not in LOCAL:
            response = PlainTextResponse(f"{OPEN}: only requests to {LOCAL[0]} are answered", 403)
        elif is_foreign(request.method, request.scope["path"], request.headers):
            response = PlainTextResponse(f"{OPEN}: requests of other pages are refused", 403)
        elif request.scope["path"] == "/" and is_token(request.query_params.get("token", "")):
            stored = f"{cookie}={token}; HttpOnly; SameSite=Strict; Path=/"
            response = RedirectResponse("/", 303, headers={"set-cookie": stored})
        elif not is_token(request.cookies.get(cookie, "")):
            response = PlainTextResponse(f"{OPEN}: it has the token", 401)
        else:
            response = await answer(request)
        response.headers.update(HEADERS)
        return response

    def api(request: Request) -> Response:
        return told(answers, request)

    async def act(request: Request) -> Response:
        return await asked(answers, request)

    def page(request: Request) -> Response:
        found = file_of(request.path_params.get("name") or "index.html")
        return Response("no such path", 404) if found is None else Response(found[0], headers={"content-type": found[1]})

    paths = {"/": page, "/api/{name}": api, "/{name}": page}
    folders = ("", "/run/{run}")
    routes = [Route(f"{folder}{path}", shows) for folder in folders for path, shows in paths.items()]
    routes += [Route(f"{folder}/api/{{name}}", act, methods=["POST"]) for folder in folders]
    return Starlette(routes=routes, middleware=[Middleware(BaseHTTPMiddleware, dispatch=guard)])


def refusal(error: Exception) -> Any:
    """Return the answer to a wrong request, with the reason: 404 for data that the archive lacks, else 400."""
    from starlette.responses import Response

    status = 404 if isinstance(error, ArchiveError) else 400
    return Response(to_json({"detail": str(error)}), status, media_type="application/json")


def told(answers: Answers | Runs, request: Any) -> Any:
    """Return the data of a page (GET): 404 for an unknown path, 400 with the reason for a wrong query."""
    from starlette.responses import Response

    name, query = request.path_params["name"], request.query_params
    try:
        shown = member(answers, request.path_params.get("run", "")).about(query.get("of", ""))
        if name not in shown.routes:
            return Response("no such path", 404)
        return Response(to_json(shown.routes[name](query)), media_type="application/json")
    except (UpsolveError, ValueError) as error:
        return refusal(error)


async def asked(answers: Answers | Runs, request: Any) -> Any:
    """Return the answer to a question to a model (POST): 404 for an unknown path, 400 with the reason for a wrong question."""
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import ClientDisconnect
    from starlette.responses import Response

    try:
        body = await request.body() if int(request.headers.get("content-length") or MOST_BODY + 1) <= MOST_BODY else b""
        question = json.loads(body)
        if not isinstance(question, dict):
            raise ValueError("a question must be a JSON object")
        action = member(answers, request.path_params.get("run", "")).actions.get(request.path_params["name"])
        if action is None:
            return Response("no such path", 404)
        return Response(to_json(await run_in_threadpool(action, question)), media_type="application/json")
    except ClientDisconnect:  # nobody reads the answer
        return Response(status_code=400)
    except (UpsolveError, ValueError) as error:
        return refusal(error)


FILES = {file.name: file for file in (REPORT / "copy.js", *WEB.iterdir()) if file.suffix in TYPES}
"""The files that the server sends, by name; nothing else can be named."""


def is_foreign(method: str, path: str, headers: Mapping[str, str]) -> bool:
    """Return whether a request comes from another page: a POST without this server's own Origin, or data for another origin.

    The cookie alone is not sufficient: pages at other ports of this machine belong to the same site, and their requests carry it.
    """
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "same-origin")
    is_own = origin == f"http://{headers.get('host', '')}"
    if method != "GET":
        return not is_own
    return "/api/" in path and ((origin is not None and not is_own) or site not in ("same-origin", "none"))


def member(answers: Answers | Runs, run: str) -> Answers | Runs:
    """Return the answers about a named run in a folder of runs; without a name, ``answers`` itself."""
    return answers.member(run) if run and isinstance(answers, Runs) else answers


def file_of(name: str) -> tuple[bytes, str] | None:
    """Return a file of the page and its type; None for another name."""
    if name not in FILES:
        return None
    return style_text().encode() if name == "style.css" else FILES[name].read_bytes(), TYPES[Path(name).suffix]


def style_text() -> str:
    """Return the style of the page, and of the parts that it shares with reports."""
    return "".join(file.read_text(encoding="utf-8") for file in (REPORT / "block.css", WEB / "style.css"))


def serve(answers: Answers | Runs, address: Address, *, browser: bool = True) -> None:
    """Serve at an address until SIGTERM or SIGINT, and open it in the ``browser``."""
    with needs_extras():
        import uvicorn

        app = application(answers, address.token)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if browser:
            threading.Timer(0.5, webbrowser.open, [address.url]).start()
        server.run(sockets=[address.listener])
    except KeyboardInterrupt:
        pass
    finally:
        answers.close()
        signal.signal(signal.SIGTERM, before)
