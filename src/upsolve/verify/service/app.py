"""The judge over HTTP, for trainers on other machines. FastAPI and uvicorn are an extra: ``pip install 'upsolve[serve]'``."""

import asyncio
import contextlib
import ipaddress
import json
import resource
import signal
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, cast

from pydantic import BaseModel

from upsolve import __version__
from upsolve.errors import ConfigError, JudgeError
from upsolve.verify.service.auth_middleware import AuthMiddleware, RefusedError
from upsolve.verify.service.requests import CodeRequest, VerifyRequest, parsed, read_object
from upsolve.verify.service.scheduler import Service

__all__ = ["Route", "application", "listening", "serve"]

Route = Callable[[Service, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Returns the answer to the JSON object of a POST request; raises RefusedError to refuse it."""

MOST_DESCRIPTORS = 8192
"""Soft limit of open files, if the hard limit allows it: for connections, and a few per worker."""


HEAD_SECONDS = 10.0
"""Time to send a complete request head before the connection is closed, seconds."""
MOST_WAITING = 256
"""Maximum number of connections without a request; one more connection closes the oldest of them."""


def application(service: Service, routes: Mapping[str, Route] | None = None) -> AuthMiddleware:
    """Return the service as an ASGI application; ``routes`` are further paths that take POST requests."""
    from fastapi import FastAPI, Request, Response
    from fastapi.responses import StreamingResponse
    from starlette.requests import ClientDisconnect

    class Lines(StreamingResponse):
        async def stream_response(self, send: Any) -> None:
            async with contextlib.aclosing(
                cast("AsyncGenerator[bytes]", self.body_iterator)
            ):  # immediately, not at garbage collection
                await super().stream_response(send)

    async def verify(request: Request) -> StreamingResponse:
        stream = service.verify(await object_in(request))
        await anext(stream)  # raises here if the request is refused, before the answer has begun
        return Lines(stream, media_type="application/x-ndjson")

    async def run_code(request: Request) -> Response:
        answer = await service.run_code(parsed(CodeRequest, await object_in(request)), request.receive)
        return Response(json.dumps(answer), media_type="application/json")

    async def refuse(_: Request, error: RefusedError) -> Response:
        return Response(error.body(), error.status, headers=error.headers())

    async def drop(_: Request, _error: ClientDisconnect) -> Response:
        return Response(status_code=400)  # nobody reads it

    app = FastAPI(title="upsolve", version=__version__)
    app.add_api_route("/health", service.health, methods=["GET"])
    app.add_api_route("/verify", verify, methods=["POST"], openapi_extra=described(VerifyRequest))
    app.add_api_route("/run_code", run_code, methods=["POST"], openapi_extra=described(CodeRequest))
    for path, route in (routes or {}).items():
        app.add_api_route(path, endpoint(service, route), methods=["POST"])
    app.add_exception_handler(RefusedError, cast("Any", refuse))
    app.add_exception_handler(ClientDisconnect, cast("Any", drop))
    return AuthMiddleware(app, service.token, service.bounds.body_bytes)


def endpoint(service: Service, route: Route) -> Callable[..., Awaitable[dict[str, Any]]]:
    """Return the endpoint for a route that a user added to the service."""
    from fastapi import Request

    async def answer(request: Request) -> dict[str, Any]:
        return await route(service, await object_in(request))

    return answer


async def object_in(request: Any) -> dict[str, Any]:
    """Return the JSON object of a request, parsed in a thread; RefusedError if there is none."""
    return await asyncio.to_thread(read_object, await request.body())


def described(model: type[BaseModel]) -> dict[str, Any]:
    """Return the OpenAPI description of a request body."""
    return {"requestBody": {"content": {"application/json": {"schema": model.model_json_schema()}}, "required": True}}


def bounded_protocol() -> Any:
    """Return uvicorn's protocol with a bound on idle connections, after a timeout or if there are too many, so that they cannot block other clients."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class BoundedProtocol(H11Protocol):
        """A connection of uvicorn with a deadline for the head of its first request."""

        since = 0.0
        """Time of opening, seconds on the event loop's clock."""

        @property
        def has_request(self) -> bool:
            """True if the head of a request has arrived: uvicorn has created a cycle."""
            cycle: Any = self.cycle
            return cycle is not None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            """Start the deadline; if there are too many connections without a request, close the oldest."""
            super().connection_made(transport)
            self.since = self.loop.time()
            self.deadline = self.loop.call_later(HEAD_SECONDS, self.close_waiting)
            others: Any = self.connections
            waiting = [connection for connection in others if not connection.has_request]
            if len(waiting) > MOST_WAITING:
                min(waiting, key=lambda connection: connection.since).close_waiting()

        def connection_lost(self, exc: Exception | None) -> None:
            """Cancel the deadline."""
            self.deadline.cancel()
            super().connection_lost(exc)

        def close_waiting(self) -> None:
            """Close the connection if it has sent no request yet."""
            if not self.has_request:
                self.transport.abort()

    return BoundedProtocol


def stopping(app: AuthMiddleware, service: Service) -> Any:
    """Return a uvicorn server that ends busy workers when stopped; uvicorn alone would wait for their answers."""
    import uvicorn

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            service.stop()
            await super().shutdown(sockets)

    return Server(uvicorn.Config(app, http=bounded_protocol(), log_level="warning", timeout_graceful_shutdown=2))


def listening(host: str, port: int, *, token: bytes) -> socket.socket:
    """Return a listening socket; raise ConfigError if the address needs a token or is not available."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        if not token and not ipaddress.ip_address(address[0]).is_loopback:
            raise ConfigError(
                f"{host} can be reached from other machines, so that the judge needs a token: --token-file FILE, or $UPSOLVE_TOKEN"
            )
        return socket.create_server(address[:2], family=family)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error}; choose another --host or --port") from error


def serve(
    service: Service,
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    routes: Mapping[str, Route] | None = None,
    say: Callable[[str], None] = print,
) -> None:
    """Serve until SIGTERM or SIGINT; port 0 selects a free port.

    Raises:
        ConfigError: the service has no token and the address is reachable by other machines; or the address is not available.
        IsolationError: a required layer is missing on this machine.
        JudgeError: FastAPI or uvicorn is missing.
    """
    try:
        server = stopping(application(service, routes), service)
    except ImportError as error:
        raise JudgeError(f"upsolve verify --serve needs FastAPI and uvicorn: pip install 'upsolve[serve]' ({error})") from error
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, MOST_DESCRIPTORS)), hard))
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with listening(host, port, token=service.token) as listener:
            service.start()
            say(f"upsolve {__version__} serves at http://{host}:{listener.getsockname()[1]} with {service.size} workers")
            server.run(sockets=[listener])
    except KeyboardInterrupt:
        pass
    finally:
        service.close()
        signal.signal(signal.SIGTERM, before)
