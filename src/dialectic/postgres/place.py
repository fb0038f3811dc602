"""The place of one home's server, `<home>/postgres`: its paths, its locks and its errors.

Knows what each lock is for, not how a server starts or stops. Four locks coordinate all processes.
Unlike a pid file, a lock never outlives its holders:

        turn.lock      held by the process that is starting or stopping the server
        members.lock   shared by all processes using the server; a sole holder may stop the server
        alive.lock     inherited by initdb, the server and its children: free means none is alive
        watchdog.lock  held by the server's watchdog: free means none will stop an idle server

The text of members.lock is how many seconds the server stays after its last member. Each member
writes it when it joins and when it leaves, so its time of change tells of the last use.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from dialectic.errors import EmbeddedServerError

ELSEWHERE = "choose another folder by DIALECTIC_HOME or another server by DIALECTIC_DATABASE_URL"
LOG_BYTES_SHOWN = 2_000
DISK_BYTES_NEEDED = 20_000_000  # one WAL segment and a margin
DISK_FULL_TEXTS = ("No space left on device", "Disk quota exceeded")
POLL_S = 0.01


class Place:
    """The folder `<home>/postgres` and the paths in it."""

    def __init__(self, home: Path) -> None:
        self.folder = home.absolute() / "postgres"
        self.data = self.folder / "data"
        self.partial = self.folder / "data.partial"
        self.log = self.folder / "server.log"
        self.old_log = self.folder / "server.old.log"
        self.turn = self.folder / "turn.lock"
        self.members = self.folder / "members.lock"
        self.alive = self.folder / "alive.lock"
        self.watchdog = self.folder / "watchdog.lock"
        # What the running server was started with: see `embedded.describe_program`.
        self.program = self.folder / "program"

    def measure_log(self) -> int:
        """Return the size of the log in bytes."""
        return self.log.stat().st_size if self.log.exists() else 0


# -- locks ----------------------------------------------------------------------------------------


def try_lock(path: Path, mode: int) -> int | None:
    """Open a descriptor that holds the lock; None if another process holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:  # ^C too: a lock that is lost here would be held until the process ends
        os.close(descriptor)
        raise
    return descriptor


def unlock(descriptor: int) -> None:
    """Unlock before closing: closing alone does nothing while a forked copy is open."""
    if descriptor >= 0:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def join_members(place: Place, *, timeout_s: float) -> int:
    """Open a descriptor that makes this process a member, one that uses the server."""
    return wait_for_lock(place.members, fcntl.LOCK_SH, timeout_s=timeout_s)


def note_use(member: int, idle_s: float) -> None:
    """Write how long the server stays after its last member; the time of change is that of use."""
    with contextlib.suppress(OSError):  # a full disk: the watchdog still sees who holds the lock
        os.ftruncate(member, 0)
        os.pwrite(member, b"%.3f" % idle_s, 0)


class take_turn:  # noqa: N801  used like a function
    """Hold the exclusive right to start or stop the server.

    Not a generator: ^C between its start and the block would leave it, and the lock, suspended.
    """

    def __init__(self, place: Place, *, timeout_s: float) -> None:
        self._place, self._timeout_s = place, timeout_s
        self._descriptor = -1

    def __enter__(self) -> None:
        self._descriptor = wait_for_lock(self._place.turn, fcntl.LOCK_EX, timeout_s=self._timeout_s)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def release(self) -> None:
        """Give the turn back, if it is held: ^C may have come before the block's end could."""
        if self._descriptor >= 0:
            unlock(self._descriptor)
            self._descriptor = -1


def is_alive(place: Place) -> bool:
    """Whether a server or its initdb is running anywhere."""
    return _is_locked(place.alive)


def is_watched(place: Place) -> bool:
    """Whether the running server has a watchdog, which stops it when it is idle."""
    return _is_locked(place.watchdog)


def _is_locked(path: Path) -> bool:
    descriptor = try_lock(path, fcntl.LOCK_SH)
    unlock(-1 if descriptor is None else descriptor)
    return descriptor is None


def wait_for_lock(path: Path, mode: int, *, timeout_s: float) -> int:
    """Open a descriptor that holds the lock; raise if another process holds it for too long."""
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


# -- errors ---------------------------------------------------------------------------------------


def build_failure(place: Place, trouble: str, log_start: int) -> EmbeddedServerError:
    """Build the error of a failed program: its log, from `log_start` on, says why."""
    with place.log.open("a+b") as log:
        log.seek(max(log_start, log.tell() - LOG_BYTES_SHOWN))
        words = log.read().decode(errors="replace").strip()
    # On a full disk the log itself may be missing the reason.
    free_bytes = shutil.disk_usage(place.folder).free
    if free_bytes < DISK_BYTES_NEEDED or any(text in words for text in DISK_FULL_TEXTS):
        return _disk_full(place.folder)
    return EmbeddedServerError(
        f"The embedded PostgreSQL in {place.folder} {trouble}. "
        f"Its log, {place.log}, ends:\n{words or '(empty)'}",
        reason="no_start",
        subject=str(place.folder),
    )


@contextlib.contextmanager
def explaining(place: Place) -> Iterator[None]:
    """Translate file system errors into messages that say what to do."""
    try:
        yield
    except OSError as error:
        path = error.filename or place.folder
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _disk_full(path) from error
        not_folder = isinstance(error, FileExistsError | NotADirectoryError)
        reason = "it is not a folder" if not_folder else error.strerror
        raise EmbeddedServerError(
            f"The embedded PostgreSQL cannot use {path}: {reason}. Correct that, or {ELSEWHERE}.",
            reason="unusable_folder",
            subject=str(path),
        ) from error


def _disk_full(path: str | Path) -> EmbeddedServerError:
    return EmbeddedServerError(
        f"The disk that holds {path} is full, so the embedded PostgreSQL cannot run: free "
        f"some space and run the command again, or {ELSEWHERE}.",
        reason="disk_full",
        subject=str(path),
    )
