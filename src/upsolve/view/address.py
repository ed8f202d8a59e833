"""The address of the viewer: bound before heavy modules are imported, so that it is printed at once."""

import secrets
import socket
from dataclasses import dataclass

from upsolve.errors import ConfigError

__all__ = ["Address", "bind"]


@dataclass(frozen=True, slots=True)
class Address:
    """A listening socket of this machine, and the token that a browser must send; requests wait until the viewer serves."""

    listener: socket.socket
    """Bound to 127.0.0.1."""
    token: str
    """Part of the printed address."""

    @property
    def url(self) -> str:
        """The address to open."""
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}/?token={self.token}"


def bind(port: int = 0) -> Address:
    """Return an address with a new token; port 0 selects a free port. ConfigError if the port is not available."""
    try:
        return Address(socket.create_server(("127.0.0.1", port)), secrets.token_urlsafe(24))
    except (OSError, OverflowError) as error:
        raise ConfigError(f"cannot listen on 127.0.0.1:{port}: {error}; choose another --port") from error
