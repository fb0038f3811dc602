"""Files under one folder of a disk: written atomically, durably and by one writer at a time.

A symbolic link in a key's path is rejected, since it would lead out of the root. Below the root
only the user who runs the program can write, so the check does not have to withstand a concurrent
swap of folders (docs/adr/0029-our-own-local-store.md).

Knows keys and bytes, not what they mean.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import socket
import stat
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar, TypeVarTuple
from uuid import UUID

from dialectic.atomic_write import clear_draft, flush_folder, replace_all_in_turn, replace_in_turn
from dialectic.errors import NotFound, StorageUnavailable
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

THREADS_MAX = 16
# How many groups of files are written at a time, and the most files of a group.
GROUPS_MAX = 4
GROUP_FILES_MAX = 64
# An empty folder may be deleted while a file is being moved into it; then it is created again.
WRITE_ATTEMPTS_MAX = 100
DURABLE_FOLDERS_MAX = 10_000
STREAM_BYTES = 1024 * 1024
FOLDER_MODE = 0o700

# Opening a named pipe in a file's place would otherwise block for ever.
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC

_REMEDIES = {
    errno.EAGAIN: "Another process holds its write lock: resume or stop that process.",
    errno.ENOSPC: "The disk is full: free some space, or set DIALECTIC_STORAGE_URL to another one.",
    errno.EDQUOT: "The disk quota is used up: raise it, or free some space.",
    errno.ENOTSUP: "Set DIALECTIC_STORAGE_URL to a folder on a disk.",
    errno.EROFS: "The file system is read-only: mount it for writing.",
    errno.EACCES: "This user has no access: correct the owner or the mode of the folder.",
    errno.EPERM: "This user lacks the permission: correct the owner or the mode of the folder.",
    errno.ENOTDIR: "A file or a symbolic link is in the place of a folder: move it away.",
    errno.EEXIST: "A file is in the place of a folder: move it away.",
    errno.ELOOP: "A symbolic link is in the place of a file: move it away.",
    errno.EISDIR: "A folder is in the place of a file: move it away.",
}

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


@dataclass(frozen=True, slots=True, eq=False)
class _Pending:
    """A file that waits to be written."""

    key: str
    parts: Parts
    data: bytes
    done: asyncio.Future[None]


class DiskStore:
    """Files under one folder of this machine. A missing folder is an empty store.

    Files that are written at the same time share a thread, and those of a folder its flush.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        # Folders known to survive a crash. Another writer may have created a folder and not flushed
        # it yet, so this process flushes each folder once, even if it did not create it.
        self._durable: set[str] = set()
        # Its own threads: a network disk may hang, and must not block the other threads.
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="storage")
        self._pending: list[_Pending] = []
        self._groups: set[asyncio.Task[None]] = set()

    async def write(self, key: str, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        new = _Pending(key, check_key(key), data, loop.create_future())
        self._pending.append(new)
        if len(self._pending) == 1:
            # Once all others that are written right now have come.
            loop.call_soon(self._start_group)
        await new.done

    async def write_file(self, key: str, source: Path) -> None:
        await self._run(key, self._write_file, check_key(key), source)

    async def read(self, key: str) -> bytes:
        return await self._run(key, self._read, check_key(key))

    async def stream(self, key: str) -> AsyncIterator[bytes]:
        file = await self._run(key, self._open, check_key(key))
        try:
            while part := await self._run(key, file.read, STREAM_BYTES):
                yield part
        finally:
            file.close()

    async def list(self, prefix: str) -> Keys:
        return await self._run(prefix, self._list, check_prefix(prefix))

    async def delete(self, key: str) -> None:
        await self._run(key, self._delete, check_key(key))

    def locate(self, key: str) -> str:
        return str(self._root.joinpath(*check_key(key)))

    def build_link(self, key: str, _expires_s: float, /) -> str | None:
        check_key(key)
        return None

    async def identify(self, wanted: UUID | None) -> UUID | None:
        return await self._run(ID_NAME, self._identify, wanted)

    @property
    def place(self) -> str:
        path = os.fsencode(self._root).decode(errors="replace")  # it may not be valid UTF-8
        return f"{path} on {socket.gethostname()}"

    @property
    def id_name(self) -> str:
        return ID_NAME

    def _start_group(self) -> None:
        """Write the files that wait, unless enough groups are being written."""
        while self._pending and len(self._groups) < GROUPS_MAX:
            group = [one for one in self._pending[:GROUP_FILES_MAX] if not one.done.done()]
            del self._pending[:GROUP_FILES_MAX]
            task = asyncio.create_task(self._write_group(group))
            self._groups.add(task)
            task.add_done_callback(self._end_group)

    def _end_group(self, task: asyncio.Task[None]) -> None:
        self._groups.discard(task)
        self._start_group()

    async def _write_group(self, group: Sequence[_Pending]) -> None:
        writing = asyncio.get_running_loop().run_in_executor(self._threads, self._write_all, group)
        try:
            await asyncio.wait([writing])
            bug = writing.exception()
            failures = {} if bug is not None else writing.result()
            for one in group:
                if one.done.done():
                    continue  # its caller waits no longer
                if (error := failures.get(one.parts)) is not None:
                    one.done.set_exception(self._explain(one.key, error))
                elif bug is not None:
                    one.done.set_exception(bug)
                else:
                    one.done.set_result(None)
        finally:
            for one in group:
                one.done.cancel()  # only if the program ends meanwhile

    async def _run(
        self, key: str, work: Callable[[*Arguments], Result], *given: *Arguments
    ) -> Result:
        # Disks block, and the event loop must not.
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work, *given)
        except OSError as error:
            raise self._explain(key, error) from error

    def _explain(self, key: str, error: OSError) -> StorageUnavailable:
        reason = error.strerror or str(error)
        remedy = _REMEDIES.get(error.errno or 0, "Check the disk and the system log.")
        code = errno.errorcode.get(error.errno or 0, "").lower()
        message = f"{self._root / key} cannot be used: {reason}. {remedy}"
        found = StorageUnavailable(message, reason=code or None, subject=str(self._root / key))
        found.__cause__ = error
        return found

    def _write_all(self, group: Sequence[_Pending]) -> dict[Parts, OSError]:
        """Write files folder by folder; return the errors of those that could not be written."""
        folders: dict[Parts, dict[str, bytes]] = {}
        for one in group:
            folders.setdefault(one.parts[:-1], {})[one.parts[-1]] = one.data
        failures: dict[Parts, OSError] = {}
        for folder, files in folders.items():
            try:
                self._write_folder(folder, files)
            except OSError:
                # One by one: a file that cannot be written must not keep the others back.
                for name, data in files.items():
                    try:
                        self._write_folder(folder, {name: data})
                    except OSError as error:
                        failures[*folder, name] = error
        return failures

    def _write_folder(self, folder: Parts, files: Mapping[str, bytes]) -> None:
        for _ in range(WRITE_ATTEMPTS_MAX):
            with contextlib.suppress(FileNotFoundError):
                self._make_root()
                path = self._resolve((*folder, "key"), create=True).parent
                return replace_all_in_turn(path, files, is_there=_has_content)
        raise _build_deleted_error()

    def _write_file(self, parts: Parts, source: Path) -> None:
        with source.open("rb") as opened:

            def fill(file: BinaryIO) -> None:
                opened.seek(0)
                shutil.copyfileobj(opened, file, STREAM_BYTES)

            self._replace(parts, fill)

    def _replace(self, parts: Parts, fill: Callable[[BinaryIO], object]) -> None:
        for _ in range(WRITE_ATTEMPTS_MAX):
            with contextlib.suppress(FileNotFoundError):
                self._make_root()
                path = self._resolve(parts, create=True)
                return replace_in_turn(path, fill, is_needless=lambda: False)
        raise _build_deleted_error()

    def _read(self, parts: Parts) -> bytes:
        with self._open(parts) as file:
            return file.read()

    def _open(self, parts: Parts) -> BinaryIO:
        try:
            return _open_file(self._resolve(parts))
        except FileNotFoundError as error:
            message = f"File {'/'.join(parts)!r} was not found in storage."
            raise NotFound(message, reason="no_file", subject="/".join(parts)) from error

    def _list(self, parts: Parts) -> Keys:
        top = self._resolve((*parts, "key")).parent
        found = [(*parts, *file) for file in _walk_files(top)]
        return sorted("/".join(file) for file in found if len(file) >= PARTS_MIN)

    def _delete(self, parts: Parts) -> None:
        path = self._resolve(parts)
        clear_draft(path)
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
            flush_folder(path.parent)
        # A deleted project must not leave folders that show its name.
        for folder in path.parents[: len(parts) - 1]:
            try:
                folder.rmdir()
            except OSError:  # usually: not empty
                return
            self._durable.discard(str(folder))

    def _resolve(self, parts: Parts, *, create: bool = False) -> Path:
        """Return the path of a key's file; reject a symbolic link in place of a folder.

        With `create`, missing folders are made, and each name is flushed into its parent once.
        """
        # The root itself may be a link: the operator chose it.
        folder = os.path.realpath(self._root)
        *folders, name = parts
        for part in folders:
            parent, folder = folder, f"{folder}/{part}"
            mode = _find_mode(folder)
            if mode is None and create:
                with contextlib.suppress(FileExistsError):
                    Path(folder).mkdir(FOLDER_MODE)
                mode = os.lstat(folder).st_mode
                self._durable.discard(folder)
            if mode is not None and not stat.S_ISDIR(mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            if create and folder not in self._durable:
                flush_folder(Path(parent))
                if len(self._durable) >= DURABLE_FOLDERS_MAX:
                    self._durable.clear()
                self._durable.add(folder)
        return Path(folder, name)

    def _make_root(self) -> None:
        missing = []
        folder = self._root
        while not folder.is_dir():
            missing.append(folder)
            folder = folder.parent
        for folder in reversed(missing):
            try:
                folder.mkdir(FOLDER_MODE, exist_ok=True)
            except FileNotFoundError:
                # The parent exists, so this file system does not support folders.
                raise OSError(
                    errno.ENOTSUP, f"Folders cannot be created in {folder.parent}"
                ) from None
            flush_folder(folder.parent)

    def _identify(self, wanted: UUID | None) -> UUID | None:
        path = self._root / ID_NAME
        found = _find_id(path)
        if found is None and wanted is not None:
            self._make_root()
            replace_in_turn(
                path,
                lambda file: file.write(f"{wanted}\n".encode()),
                is_needless=lambda: _find_id(path) is not None,
            )
            found = _find_id(path)
        return found


def _build_deleted_error() -> OSError:
    return OSError(errno.ESTALE, "Another process keeps deleting the folder")


def _find_mode(path: str) -> int | None:
    try:
        return os.lstat(path).st_mode
    except FileNotFoundError:
        return None


def _open_file(path: Path) -> BinaryIO:
    """Open a regular file for reading; raise the system's error if it is missing."""
    file = os.open(path, _FILE)
    try:
        mode = os.fstat(file).st_mode
        if stat.S_ISDIR(mode):
            raise FileNotFoundError(errno.ENOENT, "It is a folder")
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "It is not a regular file")
        return os.fdopen(file, "rb")
    except BaseException:
        os.close(file)
        raise


def _has_content(path: Path, data: bytes) -> bool:
    """Return whether the file already holds these bytes; if so, make them durable."""
    try:
        with _open_file(path) as file:
            if os.fstat(file.fileno()).st_size != len(data) or file.read() != data:
                return False
            # Its writer may have died before flushing it.
            os.fsync(file.fileno())
            return True
    except OSError:
        return False  # absent, or something that the rename replaces or fails on


def _walk_files(top: Path) -> Iterator[Parts]:
    """Yield the names, in parts, of all regular files below; ignore everything else."""
    for folder, inner, names in os.walk(top, onerror=_ignore_deleted):
        inner[:] = filter(is_part, inner)
        above = Path(folder).relative_to(top).parts
        for name in filter(is_part, names):
            if _is_plain(Path(folder, name)):
                yield (*above, name)


def _is_plain(path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return stat.S_ISREG(path.lstat().st_mode)
    return False


def _ignore_deleted(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _find_id(path: Path) -> UUID | None:
    try:
        with _open_file(path) as file:
            found = parse_id(file.read())
    except FileNotFoundError:
        return None
    if found is None:
        raise OSError(errno.EINVAL, "It does not contain the id of this store")
    return found
