"""Stops the embedded server when it is idle, or when its folder is gone.

A process that leaves the server may let it stay for a while; one that is killed cannot stop it.
Each server has its own watchdog, which ends with it. It imports little, because it is started with
every server: `python -I -S watchdog.py FOLDER IDENTITY PID PIPE INTERVAL`. The server and its
children hold the other end of the pipe, so its end is theirs. The locks are those of
`postgres.place`. The folder is identified by who starts the server: it may be gone already when
this program has started.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import sys
import time

# A fast shutdown; if it hangs, an immediate one, after which the next start recovers.
STOPS = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 10.0))
TEXT_BYTES_MAX = 32


def main(folder: str, identity: str, server: int, pipe: int, interval_s: float) -> None:
    """Look at an interval whether the server is still used; stop it if not."""
    # Monotonic, so that neither a changed clock nor a suspended machine counts as idle time.
    mark, used_at = b"", time.monotonic()
    while not has_ended(pipe, interval_s):
        if identify(folder) != identity:  # removed, or replaced by a new home: the data are gone
            stop(server, pipe)
            continue
        turn = try_lock(f"{folder}/turn.lock")
        members = -1 if turn < 0 else try_lock(f"{folder}/members.lock")
        new_mark = b"in use" if members < 0 else read_mark(members)
        if new_mark != mark or members < 0:
            mark, used_at = new_mark, time.monotonic()
        # Meanwhile no process can join, or start another server.
        if members >= 0 and time.monotonic() - used_at >= read_idle_s(members):
            stop(server, pipe)
        for lock in (members, turn):
            if lock >= 0:
                os.close(lock)


def has_ended(pipe: int, patience_s: float) -> bool:
    """Wait for the end of the server; return whether it has ended."""
    return bool(select.select([pipe], [], [], patience_s)[0])


def identify(folder: str) -> str:
    """Identify the folder itself, whatever its name: its device and inode; empty if none."""
    try:
        state = os.stat(folder)  # noqa: PTH116  it imports little
    except OSError:
        return ""
    return f"{state.st_dev}:{state.st_ino}"


def read_mark(members: int) -> bytes:
    """Read a mark that differs after each use: when a member last wrote the file, and what."""
    return b"%d %s" % (os.fstat(members).st_mtime_ns, os.pread(members, TEXT_BYTES_MAX, 0))


def read_idle_s(members: int) -> float:
    """Read how long the server stays after its last use; a file of an older version is empty."""
    try:
        return float(os.pread(members, TEXT_BYTES_MAX, 0))
    except ValueError:
        return 0.0


def stop(server: int, pipe: int) -> None:
    """Stop the server and wait for its end."""
    for number, patience_s in STOPS:
        try:
            os.kill(server, number)
        except ProcessLookupError:
            return
        if has_ended(pipe, patience_s):
            return


def try_lock(path: str) -> int:
    """Open a descriptor that holds the lock; -1 if another process holds it, or it is removed."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return -1
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return -1
    return descriptor


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
