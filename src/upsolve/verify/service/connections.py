"""Closes idle HTTP connections, after a timeout or if there are too many, so that they cannot block other clients."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["HEAD_SECONDS", "MOST_WAITING", "BoundedProtocol"]

HEAD_SECONDS = 10.0
"""Time to send a complete request head before the connection is closed, seconds."""
MOST_WAITING = 256
"""Maximum number of connections without a request; one more closes the oldest of them."""


class BoundedProtocol(H11Protocol):
    """A connection of uvicorn with a deadline for the head of its first request."""

    since = 0.0
    """Time of opening, seconds on the event loop's clock."""

    @property
    def has_request(self) -> bool:
        """Whether the head of a request has arrived: uvicorn then has created a cycle."""
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
