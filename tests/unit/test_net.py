"""A client that vanished is noticed, by every connection that is accepted at a port."""

from __future__ import annotations

import contextlib
import socket

from dialectic.errors import ConfigurationError
from dialectic.net import WATCH, bind
from tests.problems import refusing


def test_a_connection_takes_over_how_it_is_watched() -> None:
    with contextlib.closing(bind("127.0.0.1", 0)) as listening:
        listening.listen()
        with (
            socket.create_connection(listening.getsockname()),
            contextlib.closing(listening.accept()[0]) as accepted,
        ):
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            for name, value in WATCH.items():
                option = getattr(socket, name, None)
                if option is not None:
                    assert accepted.getsockopt(socket.IPPROTO_TCP, option) == value


def test_a_port_that_is_taken_is_named() -> None:
    with contextlib.closing(bind("127.0.0.1", 0)) as listening:
        listening.listen()
        port = listening.getsockname()[1]
        with refusing(ConfigurationError, "127.0.0.1", reason="port_taken", subject=str(port)):
            bind("127.0.0.1", port)
