"""The socket of the embedded server: its folder, its short alias, and its listener.

Speaks just enough of the protocol to learn whether the server accepts clients. Knows no driver.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dialectic.errors import EmbeddedServerError
from dialectic.postgres.place import ELSEWHERE, Place
from dialectic.postgres.programs import is_ours, read_line

PORT = 5432  # only part of the socket's name: the server does not use TCP
SOCKET_NAME = f".s.PGSQL.{PORT}"
SOCKET_PATH_BYTES_MAX = 103  # the limit on macOS; Linux allows 107
ANSWER_TIMEOUT_S = 2.0

STARTUP_MESSAGE = b"\0\0\0\x29\0\x03\0\0user\0postgres\0database\0postgres\0\0"
TERMINATE_MESSAGE = b"X\0\0\0\x04"
CANNOT_CONNECT_NOW = b"C57P03\0"  # the SQLSTATE while starting, stopping or recovering


def make_socket_dir(place: Place) -> str:
    """The folder of the socket, under a name that fits into a socket path."""
    alias = _find_alias(place)
    if alias is None:
        return str(place.data)
    alias.parent.mkdir(mode=0o700, exist_ok=True)
    if not is_ours(alias.parent, forbidden=0o077):
        raise EmbeddedServerError(
            f"{alias.parent} should hold a short name for {place.data}, but others made it or can "
            f"enter it: remove it, or {ELSEWHERE}.",
            reason="unsafe_folder",
            subject=str(alias.parent),
        )
    with contextlib.suppress(FileExistsError):
        alias.symlink_to(place.data)
    return str(alias)


def remove_alias(place: Place) -> None:
    """Remove the alias, if it exists."""
    if alias := _find_alias(place):
        with contextlib.suppress(OSError):
            alias.unlink()
            alias.parent.rmdir()


def answers(socket_dir: str) -> bool:
    """Whether the server accepts a client now."""
    try:
        with _connected(socket_dir) as connection:
            connection.sendall(STARTUP_MESSAGE)
            reply = connection.recv(4096)
            if reply[:1] == b"R":
                connection.sendall(TERMINATE_MESSAGE)
    except OSError:
        return False
    return bool(reply) and CANNOT_CONNECT_NOW not in reply


def find_postmaster(place: Place) -> int | None:
    """The pid of the process listening on the socket; valid while it listens."""
    try:
        with _connected(make_socket_dir(place)) as connection:
            if sys.platform != "linux":
                return int(read_line(place.data / "postmaster.pid", 0))
            # The kernel is more reliable than the pid file.
            peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            pid, uid, _ = struct.unpack("iII", peer)
            return pid if pid > 0 and uid == place.data.stat().st_uid else None
    except (OSError, ValueError):
        return None


def _find_alias(place: Place) -> Path | None:
    """The alias of a folder whose own name is too long for a socket, or contains, say, a comma."""
    path = str(place.data)
    bytes_max = SOCKET_PATH_BYTES_MAX - len(SOCKET_NAME) - 1
    if len(os.fsencode(path)) <= bytes_max and path.isprintable() and "," not in path:
        return None
    name = f"dialectic-{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}/data"
    alias = Path(tempfile.gettempdir()) / name
    return alias if len(os.fsencode(alias)) <= bytes_max else Path("/tmp") / name  # noqa: S108


@contextlib.contextmanager
def _connected(socket_dir: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(ANSWER_TIMEOUT_S)
        connection.connect(f"{socket_dir}/{SOCKET_NAME}")
        yield connection
