"""The door of the embedded server: its socket, the folder that names it, and who listens there.

Speaks just enough of the protocol to hear whether a client is let in. Knows no driver.
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
from dialectic.postgres.errors import ELSEWHERE
from dialectic.postgres.paths import Place
from dialectic.postgres.programs import is_ours, read_line

PORT = 5432  # only a part of the socket's name: the server does not listen on TCP
SOCKET_NAME = f".s.PGSQL.{PORT}"
SOCKET_PATH_BYTES_MAX = 103  # what macOS allows; Linux allows 107
ANSWER_TIMEOUT_S = 2.0

STARTUP_MESSAGE = b"\0\0\0\x29\0\x03\0\0user\0postgres\0database\0postgres\0\0"
TERMINATE_MESSAGE = b"X\0\0\0\x04"
CANNOT_CONNECT_NOW = b"C57P03\0"  # the field of an error that says: starting, stopping, recovering


def make_socket_dir(place: Place) -> str:
    """The folder of the socket, under a name that a socket can have."""
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
    """Take the second name away, if there is one."""
    if alias := _find_alias(place):
        with contextlib.suppress(OSError):
            alias.unlink()
            alias.parent.rmdir()


def answers(socket_dir: str) -> bool:
    """Whether the server lets a client in at this moment."""
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
    """The pid of the process that listens on the socket; while it does, the pid is no other's."""
    try:
        with _connected(make_socket_dir(place)) as connection:
            if sys.platform != "linux":
                return int(read_line(place.data / "postmaster.pid", 0))
            # The kernel's word is better than a file's.
            peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            pid, uid, _ = struct.unpack("iII", peer)
            return pid if pid > 0 and uid == place.data.stat().st_uid else None
    except (OSError, ValueError):
        return None


def _find_alias(place: Place) -> Path | None:
    """A second name for a folder whose own is too long for a socket or has a comma, say."""
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
