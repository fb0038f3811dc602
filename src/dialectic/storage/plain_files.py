"""Plain files in a folder that is held open: read one, compare one, find all. Never through a link,
never a pipe or a device. Knows single names, never a path."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import BinaryIO

from dialectic.storage.keys import Parts, is_part

# A named pipe in a file's place would otherwise make the open wait for ever.
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


def open_file(folder: int, name: str) -> BinaryIO:
    """Open a file for reading; the system's own error if there is none."""
    file = os.open(name, _FILE, dir_fd=folder)
    try:
        mode = os.fstat(file).st_mode
        if stat.S_ISDIR(mode):
            raise FileNotFoundError(errno.ENOENT, "There is only a folder of that name")
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "This is no plain file")
        return os.fdopen(file, "rb")
    except BaseException:
        os.close(file)
        raise


def read_file(folder: int, name: str) -> bytes:
    """Return the bytes of a file; the system's own error if there is none."""
    with open_file(folder, name) as file:
        return file.read()


def has_content(folder: int, name: str, data: bytes) -> bool:
    """Tell whether the file already holds these bytes, and if so make sure it keeps them."""
    try:
        with open_file(folder, name) as file:
            if os.fstat(file.fileno()).st_size != len(data) or file.read() != data:
                return False
            # Whoever wrote it may have died before it was flushed.
            os.fsync(file.fileno())
            return True
    except OSError:
        return False  # absent, or something that the rename replaces or stumbles over


def walk_files(folder: int) -> Iterator[Parts]:
    """Yield the names, part by part, of all plain files below; other things are none of ours."""
    for path, inner, names, held in os.fwalk(".", dir_fd=folder, onerror=_ignore_deleted):
        inner[:] = filter(is_part, inner)
        for name in filter(is_part, names):
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISREG(os.stat(name, dir_fd=held, follow_symlinks=False).st_mode):
                    yield (*path.split("/")[1:], name)


def _ignore_deleted(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
