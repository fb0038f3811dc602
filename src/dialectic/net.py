"""Bind a port to listen on, or say why that fails. Knows nothing of the service."""

from __future__ import annotations

import socket

from dialectic.errors import ConfigurationError

# Accepted connections inherit these options. A client that disappeared, or stopped reading, is
# disconnected after two minutes instead of a quarter of an hour. Not every system has all of them.
WATCH = {
    "TCP_KEEPIDLE": 60,
    "TCP_KEEPINTVL": 15,
    "TCP_KEEPCNT": 4,
    "TCP_USER_TIMEOUT": 120_000,
}


def bind(host: str, port: int) -> socket.socket:
    """Bind a port, or say why that fails."""
    try:
        (family, kind, protocol, _, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigurationError(
            f"{host!r} is not a valid listen address: {error}.",
            reason="not_an_address",
            subject=host,
        ) from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in WATCH.items():
            if hasattr(socket, name):
                listening.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        listening.bind(address)
    except OSError as error:
        listening.close()
        raise ConfigurationError(
            f"Port {port} of {host} cannot be used: {error.strerror}. Choose another with --port.",
            reason="port_taken",
            subject=str(port),
        ) from None
    return listening
