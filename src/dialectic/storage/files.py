"""The storage port, and files on disk behind it.

A key is `{tenant}/{path}`. A store knows keys and bytes; it does not know what they mean, and it
trusts no key: each is checked again here, whoever built it.

On disk a key's folders are opened one by one, each relative to the one before and never through a
symbolic link. The system itself then resolves a single name at a time inside a folder that is held
open, so no link that somebody planted under the root, even between two steps, leads out of it;
checking a whole path first and opening it afterwards could not promise that.

A write goes to a draft beside the file, is flushed, and takes the file's name in one step. The
draft's name is derived from the file's and its writer holds a lock on it, so writers of one key
take turns, and a draft without a lock is known to be left over from a write that was interrupted.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar
from urllib.parse import unquote_to_bytes, urlsplit
from uuid import UUID

from dialectic.errors import ConfigurationError, NotFound, StorageUnavailable, UsageError

PART_BYTES_MAX = 255
PARTS_MIN = 2
KEY_CHARS_MAX = 1_200
# A folder may be deleted, being empty, while a file is on its way into it; then it is made anew.
THREADS_MAX = 16
WRITE_ATTEMPTS_MAX = 100
LOCK_WAIT_S = 2.0
LOCK_POLL_S = 0.005
DURABLE_FOLDERS_MAX = 10_000

# At the root, where no key leads: a key has at least two parts.
ID_NAME = "store-id"
_DRAFT_PREFIX = ".draft-"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A named pipe in a file's place would otherwise make the open wait for ever.
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
# Over a network file system, only what is open for writing can be locked.
_OLD_DRAFT = os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_DRAFT = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

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

Keys: TypeAlias = list[str]
Parts: TypeAlias = tuple[str, ...]
Result = TypeVar("Result")


class FileStore(Protocol):
    """Where files are kept. A cancelled call may still take effect, but only as a whole."""

    async def write(self, key: str, data: bytes) -> None:
        """Put the bytes under the key: all of them, durably, or none if it fails."""
        ...

    async def read(self, key: str) -> bytes:
        """Return the bytes under the key; `NotFound` if there are none."""
        ...

    async def list(self, prefix: str) -> Keys:
        """Return the keys in the folder `prefix` and below, in order; "" is the whole store."""
        ...

    async def delete(self, key: str) -> None:
        """Take the key away; nothing happens if it is not there."""
        ...

    def locate(self, key: str) -> str:
        """Say where the key's file is, for a person."""
        ...

    async def identify(self, wanted: UUID | None) -> UUID | None:
        """Return the store's own id. One that has none takes on the wanted one, if there is one."""
        ...

    @property
    def place(self) -> str:
        """Where the store is, for a person."""
        ...

    @property
    def id_name(self) -> str:
        """The name under which the store keeps its id, for a person."""
        ...


def open_store(url: str) -> FileStore:
    """Open the store an address names."""
    # The address may hold keys: only its scheme is ever repeated in a message.
    try:
        address = urlsplit(url)
    except ValueError as error:
        raise ConfigurationError("DIALECTIC_STORAGE_URL is not an address.") from error
    if address.scheme != "file":
        message = (
            f"DIALECTIC_STORAGE_URL has the scheme {address.scheme[:20]!r}; known is: file,"
            " as in file:///var/lib/dialectic."
        )
        raise ConfigurationError(message)
    path = os.fsdecode(unquote_to_bytes(address.path))
    if (
        address.netloc not in ("", "localhost")
        or address.query
        or address.fragment
        or not path.startswith("/")
        or "\0" in path
    ):
        raise ConfigurationError(
            "DIALECTIC_STORAGE_URL must be file:// and an absolute path, as in"
            " file:///var/lib/dialectic; write # as %23 and ? as %3F."
        )
    return DiskStore(Path(path))


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
        parts = _check_key(key)
        await self._run(key, lambda: self._write(parts, data))

    async def read(self, key: str) -> bytes:
        parts = _check_key(key)
        return await self._run(key, lambda: self._read(parts))

    async def list(self, prefix: str) -> Keys:
        parts = _check_prefix(prefix)
        return await self._run(prefix, lambda: self._list(parts))

    async def delete(self, key: str) -> None:
        parts = _check_key(key)
        await self._run(key, lambda: self._delete(parts))

    def locate(self, key: str) -> str:
        return str(self._root.joinpath(*_check_key(key)))

    async def identify(self, wanted: UUID | None) -> UUID | None:
        return await self._run(ID_NAME, lambda: self._identify(wanted))

    @property
    def place(self) -> str:
        return os.fsencode(self._root).decode(errors="replace")  # it may be no text

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
            raise StorageUnavailable(message) from error

    def _write(self, parts: Parts, data: bytes) -> None:
        for _ in range(WRITE_ATTEMPTS_MAX):
            with contextlib.suppress(FileNotFoundError):
                self._make_root()
                with self._open_folder(parts[:-1], make=True) as folder:
                    _replace_file(folder, parts[-1], data)
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
        try:
            with self._open_folder(parts[:-1]) as folder:
                return _read_file(folder, parts[-1])
        except FileNotFoundError as error:
            message = f"There is no file {'/'.join(parts)!r} in storage."
            raise NotFound(message) from error

    def _list(self, parts: Parts) -> Keys:
        try:
            with self._open_folder(parts) as folder:
                found = [(*parts, *file) for file in _walk_files(folder)]
                return sorted("/".join(file) for file in found if len(file) >= PARTS_MIN)
        except FileNotFoundError:
            return []

    def _delete(self, parts: Parts) -> None:
        *folders, name = parts
        with contextlib.suppress(FileNotFoundError), self._open_folder(folders) as folder:
            _clear_draft(folder, _draft_name(name), wait=False)
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
        # The root itself may be a link: where it leads is the operator's word.
        folder = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for depth, part in enumerate(parts, start=1):
                if make:
                    self._make_folder(folder, part, "/".join(parts[:depth]))
                inner = os.open(part, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = inner
            yield folder
        finally:
            os.close(folder)

    def _make_folder(self, parent: int, name: str, place: str) -> None:
        try:
            os.mkdir(name, 0o700, dir_fd=parent)
        except FileExistsError:
            if place in self._durable:
                return
        os.fsync(parent)
        if len(self._durable) >= DURABLE_FOLDERS_MAX:
            self._durable.clear()
        self._durable.add(place)

    def _make_root(self) -> None:
        missing = []
        folder = self._root
        while not folder.is_dir():
            missing.append(folder)
            folder = folder.parent
        for folder in reversed(missing):
            _make_outer(folder)
            parent = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(parent)
            finally:
                os.close(parent)


def _make_outer(folder: Path) -> None:
    try:
        folder.mkdir(0o700, exist_ok=True)
    except FileNotFoundError:
        if not folder.parent.is_dir():
            raise
        # Not a race with somebody who deletes: this file system simply has no room for folders.
        raise OSError(errno.ENOTSUP, f"No folder can be made in {folder.parent}") from None


def _replace_file(folder: int, name: str, data: bytes) -> None:
    with _hold_draft(folder, _draft_name(name)) as draft:
        if _has_content(folder, name, data):
            os.unlink(_draft_name(name), dir_fd=folder)
        else:
            with os.fdopen(draft, "wb", closefd=False) as file:
                file.write(data)
            os.fsync(draft)
            os.rename(_draft_name(name), name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)


def _find_id(root: int) -> UUID | None:
    try:
        text = _read_file(root, ID_NAME)
    except FileNotFoundError:
        return None
    try:
        return UUID(text.decode("ascii").strip())
    except ValueError:
        raise OSError(errno.EINVAL, "It should hold the id of this store, and does not") from None


def _take_on_id(root: int, wanted: UUID) -> UUID:
    """Give a store its id, unless another process just did; return the one it has now."""
    name = _draft_name(ID_NAME)
    with _hold_draft(root, name) as draft:
        if found := _find_id(root):
            os.unlink(name, dir_fd=root)
            return found
        os.write(draft, f"{wanted}\n".encode())
        os.fsync(draft)
        os.rename(name, ID_NAME, src_dir_fd=root, dst_dir_fd=root)
        os.fsync(root)
        return wanted


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


def _has_content(folder: int, name: str, data: bytes) -> bool:
    """Tell whether the file already holds these bytes, and if so make sure it keeps them."""
    try:
        with _open_file(folder, name) as file:
            if os.fstat(file).st_size != len(data) or _read_all(file) != data:
                return False
            # Whoever wrote it may have died before it was flushed.
            os.fsync(file)
            return True
    except OSError:
        return False  # absent, or something that the rename replaces or stumbles over


def _read_file(folder: int, name: str) -> bytes:
    with _open_file(folder, name) as file:
        return _read_all(file)


@contextlib.contextmanager
def _open_file(folder: int, name: str) -> Iterator[int]:
    file = os.open(name, _FILE, dir_fd=folder)
    try:
        mode = os.fstat(file).st_mode
        if stat.S_ISDIR(mode):
            raise FileNotFoundError(errno.ENOENT, "There is only a folder of that name")
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "This is no plain file")
        yield file
    finally:
        os.close(file)


def _read_all(file: int) -> bytes:
    with os.fdopen(file, "rb", closefd=False) as reader:
        return reader.read()


def _walk_files(folder: int) -> Iterator[tuple[str, ...]]:
    """Yield the names, part by part, of all plain files below; other things are none of ours."""
    for path, inner, names, held in os.fwalk(".", dir_fd=folder, onerror=_ignore_deleted):
        inner[:] = filter(_is_part, inner)
        for name in filter(_is_part, names):
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISREG(os.stat(name, dir_fd=held, follow_symlinks=False).st_mode):
                    yield (*path.split("/")[1:], name)


def _ignore_deleted(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _draft_name(name: str) -> str:
    # A hash, since the file's own name may already be as long as names can be.
    return _DRAFT_PREFIX + hashlib.sha256(name.encode()).hexdigest()[:32]


def _check_key(key: str) -> Parts:
    parts = tuple(key.split("/"))
    if len(key) > KEY_CHARS_MAX or len(parts) < PARTS_MIN or not all(map(_is_part, parts)):
        message = (
            f"{key[:200]!r} cannot be a storage key: a key is a tenant and a path, parted by /,"
            f" no part empty, . or .., over {PART_BYTES_MAX} bytes, or with NUL or a backslash."
        )
        raise UsageError(message)
    return parts


def _check_prefix(prefix: str) -> Parts:
    # A folder is what some key could stand in.
    return _check_key(f"{prefix.removesuffix('/')}/key")[:-1] if prefix else ()


def _is_part(text: str) -> bool:
    if text in ("", ".", "..") or "\0" in text or "\\" in text or text.startswith(_DRAFT_PREFIX):
        return False
    try:
        return len(text.encode()) <= PART_BYTES_MAX
    except UnicodeEncodeError:
        return False
