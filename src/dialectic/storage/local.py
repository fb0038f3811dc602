"""Plain files in a folder that is held open: read one, compare one, find all. Never through a link,
never a pipe or a device. Knows single names, never a path.

Files under one folder of a disk.

A key's folders are opened one by one, each relative to the one before and never through a symbolic
link. The system itself then resolves a single name at a time inside a folder that is held open, so
no link that somebody planted under the root, even between two steps, leads out of it; checking a
whole path first and opening it afterwards could not promise that.

Knows keys and bytes; it does not know what they mean.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import os
import shutil
import socket
import stat
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, TypeVar
from uuid import UUID

from dialectic.errors import NotFound, StorageUnavailable
from dialectic.storage.atomic_write import clear_leftover, replace_file
from dialectic.storage.keys import (
    ID_NAME,
    PARTS_MIN,
    Keys,
    Parts,
    check_key,
    check_prefix,
    is_part,
    parse_id,
)

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


THREADS_MAX = 16
# A folder may be deleted, being empty, while a file is on its way into it; then it is made anew.
WRITE_ATTEMPTS_MAX = 100
DURABLE_FOLDERS_MAX = 10_000
STREAM_BYTES = 1024 * 1024

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# The root itself may be a link: where it leads is the operator's word.
_OUTER_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

_REMEDIES = {
    errno.EAGAIN: "Another process has been writing it for a while: resume that one or end it.",
    errno.ENOSPC: "The disk is full: free some space, or set DIALECTIC_STORAGE_URL to another one.",
    errno.EDQUOT: "The disk quota is used up: raise it, or free some space.",
    errno.ENOTSUP: "Set DIALECTIC_STORAGE_URL to a folder on a disk.",
    errno.EROFS: "The file system is read-only: mount it for writing.",
    errno.EACCES: "This user may not go there: correct the owner or the mode of the folder.",
    errno.EPERM: "This user may not do that: correct the owner or the mode of the folder.",
    errno.ENOTDIR: "A file or a symbolic link stands where a folder belongs: move it away.",
    errno.EEXIST: "A file stands where a folder belongs: move it away.",
    errno.ELOOP: "A symbolic link stands where a file belongs: move it away.",
    errno.EISDIR: "A folder stands where a file belongs: move it away.",
}

Result = TypeVar("Result")


class DiskStore:
    """Files under one folder of this machine. A folder that is not there is an empty store."""

    def __init__(self, root: Path) -> None:
        self._root = root
        # Folders known to outlive a crash. Another writer may have made a folder a moment ago and
        # not have flushed it yet, so this process flushes each once, whoever made it.
        self._durable: set[str] = set()
        # Threads of its own: a disk on a network may never answer, and others need theirs.
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="storage")

    async def write(self, key: str, data: bytes) -> None:
        parts = check_key(key)
        await self._run(key, lambda: self._write(parts, data))

    async def write_file(self, key: str, source: Path) -> None:
        parts = check_key(key)
        await self._run(key, lambda: self._write_file(parts, source))

    async def read(self, key: str) -> bytes:
        parts = check_key(key)
        return await self._run(key, lambda: self._read(parts))

    async def stream(self, key: str) -> AsyncIterator[bytes]:
        parts = check_key(key)
        file = await self._run(key, lambda: self._open(parts))
        try:
            while part := await self._run(key, lambda: file.read(STREAM_BYTES)):
                yield part
        finally:
            file.close()

    async def list(self, prefix: str) -> Keys:
        parts = check_prefix(prefix)
        return await self._run(prefix, lambda: self._list(parts))

    async def delete(self, key: str) -> None:
        parts = check_key(key)
        await self._run(key, lambda: self._delete(parts))

    def locate(self, key: str) -> str:
        return str(self._root.joinpath(*check_key(key)))

    def build_link(self, key: str, _expires_s: float, /) -> str | None:
        check_key(key)
        return None

    async def identify(self, wanted: UUID | None) -> UUID | None:
        return await self._run(ID_NAME, lambda: self._identify(wanted))

    @property
    def place(self) -> str:
        path = os.fsencode(self._root).decode(errors="replace")  # it may be no text
        return f"{path} on {socket.gethostname()}"

    @property
    def id_name(self) -> str:
        return ID_NAME

    async def _run(self, key: str, work: Callable[[], Result]) -> Result:
        # Disks wait, and the event loop must not.
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except OSError as error:
            reason = error.strerror or str(error)
            remedy = _REMEDIES.get(error.errno or 0, "Look at the disk and at the system's log.")
            message = f"{self._root / key} cannot be used: {reason}. {remedy}"
            code = errno.errorcode.get(error.errno or 0, "").lower()
            raise StorageUnavailable(
                message, reason=code or None, subject=str(self._root / key)
            ) from error

    def _write(self, parts: Parts, data: bytes) -> None:
        def is_there(folder: int) -> bool:
            return has_content(folder, parts[-1], data)

        self._replace(parts, lambda file: file.write(data), is_there)

    def _write_file(self, parts: Parts, source: Path) -> None:
        with source.open("rb") as opened:

            def fill(file: BinaryIO) -> None:
                opened.seek(0)
                shutil.copyfileobj(opened, file, STREAM_BYTES)

            self._replace(parts, fill, lambda _: False)

    def _replace(
        self, parts: Parts, fill: Callable[[BinaryIO], object], is_there: Callable[[int], bool]
    ) -> None:
        for _ in range(WRITE_ATTEMPTS_MAX):
            with contextlib.suppress(FileNotFoundError):
                self._make_root()
                with self._open_folder(parts[:-1], make=True) as folder:
                    replace_file(
                        folder, parts[-1], fill, is_needless=functools.partial(is_there, folder)
                    )
                return
        raise OSError(errno.ESTALE, "The folder is deleted again and again")

    def _identify(self, wanted: UUID | None) -> UUID | None:
        if wanted is not None:
            self._make_root()
        try:
            with self._open_folder(()) as root:
                found = _find_id(root)
                return found if found or not wanted else _take_on_id(root, wanted)
        except FileNotFoundError:
            return None

    def _read(self, parts: Parts) -> bytes:
        with self._open(parts) as file:
            return file.read()

    def _open(self, parts: Parts) -> BinaryIO:
        try:
            with self._open_folder(parts[:-1]) as folder:
                return open_file(folder, parts[-1])
        except FileNotFoundError as error:
            message = f"There is no file {'/'.join(parts)!r} in storage."
            raise NotFound(message, reason="no_file", subject="/".join(parts)) from error

    def _list(self, parts: Parts) -> Keys:
        try:
            with self._open_folder(parts) as folder:
                found = [(*parts, *file) for file in walk_files(folder)]
                return sorted("/".join(file) for file in found if len(file) >= PARTS_MIN)
        except FileNotFoundError:
            return []

    def _delete(self, parts: Parts) -> None:
        *folders, name = parts
        with contextlib.suppress(FileNotFoundError), self._open_folder(folders) as folder:
            clear_leftover(folder, name)
            os.unlink(name, dir_fd=folder)
            os.fsync(folder)
        # A deleted project leaves no folders that tell its name.
        while folders:
            *outer, name = folders
            try:
                with self._open_folder(outer) as folder:
                    os.rmdir(name, dir_fd=folder)
            except OSError:  # not empty, as a rule
                return
            self._durable.discard("/".join(folders))
            folders = outer

    @contextlib.contextmanager
    def _open_folder(self, parts: Sequence[str], *, make: bool = False) -> Iterator[int]:
        folder = os.open(self._root, _OUTER_FOLDER)
        try:
            for depth, part in enumerate(parts, start=1):
                if make:
                    inner = self._make_folder(folder, part, "/".join(parts[:depth]))
                else:
                    inner = os.open(part, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = inner
            yield folder
        finally:
            os.close(folder)

    def _make_folder(self, parent: int, name: str, place: str) -> int:
        """Open a folder for writing into it, and make it if it is not there."""
        if place in self._durable:
            # It is still there, as a rule; if not, somebody has deleted it since.
            with contextlib.suppress(FileNotFoundError):
                return os.open(name, _FOLDER, dir_fd=parent)
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=parent)
        os.fsync(parent)
        if len(self._durable) >= DURABLE_FOLDERS_MAX:
            self._durable.clear()
        self._durable.add(place)
        return os.open(name, _FOLDER, dir_fd=parent)

    def _make_root(self) -> None:
        missing = []
        folder = self._root
        while not folder.is_dir():
            missing.append(folder)
            folder = folder.parent
        for folder in reversed(missing):
            _make_outer(folder)
            flush_folder(folder.parent)


def flush_folder(folder: Path) -> None:
    """Make sure that the names in a folder outlive a crash."""
    handle = os.open(folder, _OUTER_FOLDER)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _make_outer(folder: Path) -> None:
    try:
        folder.mkdir(0o700, exist_ok=True)
    except FileNotFoundError:
        if not folder.parent.is_dir():
            raise
        # Not a race with somebody who deletes: this file system simply has no room for folders.
        raise OSError(errno.ENOTSUP, f"No folder can be made in {folder.parent}") from None


def _find_id(root: int) -> UUID | None:
    try:
        text = read_file(root, ID_NAME)
    except FileNotFoundError:
        return None
    if (found := parse_id(text)) is None:
        raise OSError(errno.EINVAL, "It should hold the id of this store, and does not")
    return found


def _take_on_id(root: int, wanted: UUID) -> UUID:
    """Give a store its id, unless another process just did; return the one it has now."""
    found: list[UUID] = []

    def has_one() -> bool:
        if (there := _find_id(root)) is not None:
            found.append(there)
        return bool(found)

    text = f"{wanted}\n".encode()
    replace_file(root, ID_NAME, lambda file: file.write(text), is_needless=has_one)
    return found[0] if found else wanted
