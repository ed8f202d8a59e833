"""Closes idle HTTP connections: after a timeout, and the oldest first when there are too many, so that they cannot block other clients."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["HEAD_SECONDS", "MOST_WAITING", "BoundedProtocol"]

HEAD_SECONDS = 10.0
"""A connection that has sent no complete request head after so long is closed."""
MOST_WAITING = 256
"""Connections without a request at once; one more closes the oldest of them."""


class BoundedProtocol(H11Protocol):
    """One connection of uvicorn's, with a deadline for the head of its first request."""

    since = 0.0
    """When it was opened, by the clock of the event loop."""

    @property
    def has_request(self) -> bool:
        """Whether the head of a request has come: uvicorn then has a cycle."""
        cycle: Any = self.cycle
        return cycle is not None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the deadline; make room by closing the oldest connection that waits."""
        super().connection_made(transport)
        self.since = self.loop.time()
        self.deadline = self.loop.call_later(HEAD_SECONDS, self.close_waiting)
        others: Any = self.connections
        waiting = [one for one in others if not one.has_request]
        if len(waiting) > MOST_WAITING:
            min(waiting, key=lambda one: one.since).close_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        self.deadline.cancel()
        super().connection_lost(exc)

    def close_waiting(self) -> None:
        """Close it, if it has sent no request yet."""
        if not self.has_request:
            self.transport.abort()
