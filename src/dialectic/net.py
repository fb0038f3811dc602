"""Takes a port to listen at, or says why it cannot be had. Knows not what is served there."""

from __future__ import annotations

import socket

from dialectic.errors import ConfigurationError

# Connections that are accepted there take these over. Whoever is gone without a word, or takes
# nothing of what is sent to it, is hung up on after two minutes instead of a quarter of an hour.
# Not every system knows them all.
WATCH = {
    "TCP_KEEPIDLE": 60,
    "TCP_KEEPINTVL": 15,
    "TCP_KEEPCNT": 4,
    "TCP_USER_TIMEOUT": 120_000,
}


def bind(host: str, port: int) -> socket.socket:
    """Take a port, or say why it cannot be had."""
    try:
        (family, kind, protocol, _, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigurationError(
            f"{host!r} is no address to listen on: {error}.", reason="not_an_address", subject=host
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
            f"Port {port} of {host} cannot be had: {error.strerror}. Choose another with --port.",
            reason="port_taken",
            subject=str(port),
        ) from None
    return listening
