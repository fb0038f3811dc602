"""Ports that stay free until they are used."""

from __future__ import annotations

import random
import socket

# Below all that systems deal out by themselves: nobody who asks for just any port, and no
# connection of anybody, gets one of these meanwhile.
_PORTS = range(20_000, 32_000)


def find_free_port() -> int:
    """Find a port without a listener, which no other process takes by chance."""
    for port in random.SystemRandom().sample(_PORTS, 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("a hundred ports are all in use")
