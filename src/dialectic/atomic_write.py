"""Write files atomically: into a draft in the same folder, which is then renamed.

Every file that this program replaces is written here. Knows paths and bytes, not what they mean.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from dialectic.errors import UsageError

DRAFT_PREFIX = ".draft-"
PUBLIC_MODE = 0o666  # what the user's umask leaves of it
PRIVATE_MODE = 0o600
LOCK_WAIT_S = 2.0
LOCK_POLL_S = 0.005

# Without O_NONBLOCK, opening a named pipe would wait for its other end.
_OPEN = os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


def check_plain(path: Path, word: str) -> None:
    """Reject devices, pipes and folders: a write would replace a device, a pipe may block."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # the caller's own open reports it
    if not stat.S_ISREG(mode):
        raise UsageError(
            f"{path} cannot be {word}: it is not a plain file.",
            reason="not_a_file",
            subject=str(path),
        )


@contextlib.contextmanager
def replacing(path: Path, *, mode: int = PUBLIC_MODE, durable: bool = False) -> Iterator[BinaryIO]:
    """Open a draft; it replaces the file when the block ends without an error.

    Several writers of one file do not wait for each other: the last one to finish wins.
    """
    draft = path.with_name(DRAFT_PREFIX + uuid4().hex)
    try:
        with os.fdopen(os.open(draft, _OPEN | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            yield file
            if durable:
                _flush(file)
        draft.rename(path)
        if durable:
            flush_folder(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def replace_in_turn(
    path: Path, fill: Callable[[BinaryIO], object], *, is_needless: Callable[[], bool]
) -> None:
    """Replace a file durably with what `fill` writes, one writer at a time.

    All writers of a file share one draft and lock it, so the next writer or `clear_draft` can tell
    a draft in use from one that a dead process left. Nothing is written if `is_needless` returns
    true, which is called while the lock is held.
    """
    draft = path.with_name(build_draft_name(path.name))
    with _locked_draft(draft, create=True, wait_s=LOCK_WAIT_S) as file:
        if not is_needless():
            file.truncate()
            fill(file)
            _flush(file)
            draft.rename(path)
        flush_folder(path.parent)


def replace_all_in_turn(
    folder: Path, contents: Mapping[str, bytes], *, is_there: Callable[[Path, bytes], bool]
) -> None:
    """Do the same with several files of one folder, and flush the folder once.

    A file is left as it is if `is_there` returns true for its path and its bytes.
    """
    with contextlib.ExitStack() as drafts:
        written: list[tuple[BinaryIO, Path, Path]] = []
        for name in sorted(contents):  # two writers lock the same files in the same order
            path, draft = folder / name, folder / build_draft_name(name)
            file = drafts.enter_context(_locked_draft(draft, create=True, wait_s=LOCK_WAIT_S))
            if not is_there(path, contents[name]):
                file.truncate()
                file.write(contents[name])
                file.flush()
                written.append((file, draft, path))
        for file, _, _ in written:
            os.fsync(file.fileno())
        for _, draft, path in written:
            draft.rename(path)
        flush_folder(folder)


def clear_draft(path: Path) -> None:
    """Remove the draft that a dead writer of this file left; leave one that is in use."""
    with (
        contextlib.suppress(FileNotFoundError, BlockingIOError),
        _locked_draft(path.with_name(build_draft_name(path.name)), create=False, wait_s=0.0),
    ):
        pass


def build_draft_name(name: str) -> str:
    """Build the name of a file's shared draft: a hash, so that it is never too long."""
    return DRAFT_PREFIX + hashlib.sha256(name.encode()).hexdigest()[:32]


def flush_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


@contextlib.contextmanager
def _locked_draft(draft: Path, *, create: bool, wait_s: float) -> Iterator[BinaryIO]:
    """Open and lock a shared draft; remove it afterwards, unless it was renamed."""
    flags = _OPEN | (os.O_CREAT if create else 0)
    while True:
        with os.fdopen(os.open(draft, flags, PRIVATE_MODE), "r+b") as file:
            _lock(file, wait_s)
            # Before it was locked, another writer may have finished with it or removed it.
            if not _is_at(draft, file):
                continue
            try:
                yield file
            finally:
                # After the rename, the name belongs to the next writer's draft.
                if _is_at(draft, file):
                    draft.unlink()
            return


def _lock(file: BinaryIO, wait_s: float) -> None:
    """Wait for the lock, up to a limit: its holder may be a stopped process."""
    give_up_at = time.monotonic() + wait_s
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= give_up_at:
                raise
            time.sleep(LOCK_POLL_S)


def _is_at(path: Path, file: BinaryIO) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
