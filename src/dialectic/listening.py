"""Takes a port to listen at, or says why it cannot be had. Knows not what is served there."""

from __future__ import annotations

import socket

from dialectic.errors import ConfigurationError


def bind(host: str, port: int) -> socket.socket:
    """Take a port, or say why it cannot be had."""
    try:
        (family, kind, protocol, _, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigurationError(f"{host!r} is no address to listen on: {error}.") from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        listening.close()
        raise ConfigurationError(
            f"Port {port} of {host} cannot be had: {error.strerror}. Choose another with --port."
        ) from None
    return listening
