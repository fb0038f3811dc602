"""Stops the embedded server after the last process that used it was killed.

A process that ends in order stops the server itself; one that is killed cannot. Each server has
its own watchdog, which ends with it. It imports little, because it is started with every server:
`python -I -S watchdog.py FOLDER PID PIPE INTERVAL`. The server and its children hold the other end
of the pipe, so its end is theirs. The locks are those of `postgres.place`.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import sys

# A fast shutdown; if it hangs, an immediate one, after which the next start recovers.
STOPS = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 10.0))


def main(folder: str, server: int, pipe: int, interval_s: float) -> None:
    """Look at an interval whether the server still has users; stop it if not."""
    while not has_ended(pipe, interval_s):
        stop_if_unused(folder, server, pipe)


def has_ended(pipe: int, patience_s: float) -> bool:
    """Wait for the end of the server; return whether it has ended."""
    return bool(select.select([pipe], [], [], patience_s)[0])


def stop_if_unused(folder: str, server: int, pipe: int) -> None:
    """Stop the server if no process is a member. Meanwhile none can join or start another one."""
    turn = try_lock(f"{folder}/turn.lock")
    members = -1 if turn < 0 else try_lock(f"{folder}/members.lock")
    if members >= 0:
        for number, patience_s in STOPS:
            try:
                os.kill(server, number)
            except ProcessLookupError:
                break
            if has_ended(pipe, patience_s):
                break
    for lock in (members, turn):
        if lock >= 0:
            os.close(lock)


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
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
