"""The locks around the embedded server. Knows what each is for, not how a server starts or stops.

Three locks coordinate all processes. Unlike a pid file, a lock never outlives its holders:

        turn.lock     held by the process that is starting or stopping the server
        members.lock  shared by all processes using the server; a sole holder may stop the server
        alive.lock    inherited by initdb, the server and its children: free means none is alive
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from dialectic.errors import EmbeddedServerError
from dialectic.postgres.paths import Place

POLL_S = 0.01


def try_lock(path: Path, mode: int) -> int | None:
    """Open a descriptor that holds the lock; None if another process holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            return None
        raise
    return descriptor


def unlock(descriptor: int) -> None:
    """Unlock before closing: closing alone does nothing while a forked copy is open."""
    if descriptor >= 0:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def join_members(place: Place, *, timeout_s: float) -> int:
    """Open a descriptor that makes this process a member, one that uses the server."""
    return _lock(place.members, fcntl.LOCK_SH, timeout_s=timeout_s)


@contextlib.contextmanager
def take_turn(place: Place, *, timeout_s: float) -> Iterator[None]:
    """Hold the exclusive right to start or stop the server."""
    descriptor = _lock(place.turn, fcntl.LOCK_EX, timeout_s=timeout_s)
    try:
        yield
    finally:
        unlock(descriptor)


def is_alive(place: Place) -> bool:
    """Whether a server or its initdb is running anywhere."""
    descriptor = try_lock(place.alive, fcntl.LOCK_SH)
    unlock(-1 if descriptor is None else descriptor)
    return descriptor is None


def _lock(path: Path, mode: int, *, timeout_s: float) -> int:
    deadline = time.monotonic() + timeout_s
    while (descriptor := try_lock(path, mode)) is None:
        if time.monotonic() > deadline:
            raise EmbeddedServerError(
                f"Another command has held {path} for {timeout_s:.0f} s to start or stop the "
                "embedded PostgreSQL. If it is suspended, resume or stop it.",
                reason="locked",
                subject=str(path),
            )
        time.sleep(POLL_S)
    return descriptor
