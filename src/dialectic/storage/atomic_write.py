"""A file is written as a whole or not at all: into a draft beside it that then takes its name.

The draft's name is derived from the file's and its writer holds a lock on it, so writers of one
file take turns, and a draft without a lock is known to be left over from a write that was
interrupted. Knows single names in a folder that is held open, never a path.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO

from dialectic.storage.keys import build_draft_name

LOCK_WAIT_S = 2.0
LOCK_POLL_S = 0.005

# Over a network file system, only what is open for writing can be locked.
_OLD_DRAFT = os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_DRAFT = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def replace_file(
    folder: int, name: str, fill: Callable[[BinaryIO], object], *, is_needless: Callable[[], bool]
) -> None:
    """Let the file hold what `fill` writes; `is_needless` is asked when nobody else writes it."""
    draft_name = build_draft_name(name)
    with _hold_draft(folder, draft_name) as draft:
        if is_needless():
            os.unlink(draft_name, dir_fd=folder)
        else:
            with os.fdopen(draft, "wb", closefd=False) as file:
                fill(file)
            os.fsync(draft)
            os.rename(draft_name, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)


def clear_leftover(folder: int, name: str) -> None:
    """Remove what a dead writer of the file left; leave a draft to whoever holds it."""
    _clear_draft(folder, build_draft_name(name), wait=False)


@contextlib.contextmanager
def _hold_draft(folder: int, name: str) -> Iterator[int]:
    """Make the draft, new and empty, and hold it alone among all writers."""
    while True:
        try:
            draft = os.open(name, _NEW_DRAFT, 0o600, dir_fd=folder)
        except FileExistsError:
            # In every round some other writer has finished, so this ends.
            _clear_draft(folder, name, wait=True)
            continue
        try:
            _lock(draft)
            # Before it was locked, another writer may have taken it for a leftover.
            if _is_at(folder, name, draft):
                yield draft
                return
        except BaseException:
            # After the rename the name is free for the next writer's draft: look before removing.
            with contextlib.suppress(OSError):
                if _is_at(folder, name, draft):
                    os.unlink(name, dir_fd=folder)
            raise
        finally:
            os.close(draft)


def _clear_draft(folder: int, name: str, *, wait: bool) -> None:
    """Remove a draft nobody holds; wait until nobody does, or leave it to whoever holds it."""
    try:
        draft = os.open(name, _OLD_DRAFT, dir_fd=folder)
    except FileNotFoundError:
        return
    try:
        _lock(draft, patience_s=LOCK_WAIT_S if wait else 0.0)
        if _is_at(folder, name, draft):
            os.unlink(name, dir_fd=folder)
    except BlockingIOError:
        if wait:
            raise
    finally:
        os.close(draft)


def _lock(draft: int, *, patience_s: float = LOCK_WAIT_S) -> None:
    """Wait for one's turn, but not for ever: a writer may have been stopped in the middle."""
    give_up_at = time.monotonic() + patience_s
    while True:
        try:
            return fcntl.flock(draft, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= give_up_at:
                raise
            time.sleep(LOCK_POLL_S)


def _is_at(folder: int, name: str, file: int) -> bool:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(found, os.fstat(file))
