"""Zip archives on disk: the same files give the same bytes, and reading one is safe.

Knows zip files and manifests, not projects. Reading trusts neither the names nor the sizes nor the
types of the entries, and checks every byte against the manifest.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from dialectic.atomic_write import PRIVATE_MODE, check_plain, replacing
from dialectic.core.transfer.bundle_format import (
    LIMITS,
    MANIFEST_NAME,
    FileEntry,
    Limits,
    Manifest,
    check_names,
    check_size,
    is_swollen,
    parse_manifest,
    refuse_entry,
)
from dialectic.errors import InvalidBundle, UsageError

# The earliest timestamp of the zip format.
_EPOCH = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_FILE_MODE = stat.S_IFREG | 0o644
_ENCRYPTED = 0x1
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

# The end record of a zip file without a comment; it is checked before anything else is read.
_END = struct.Struct("<4s4H2LH")
_END_MARK = b"PK\x05\x06"
_ZIP64_MARK = b"PK\x06\x07"
_ZIP64_BYTES = 20
DIRECTORY_BYTES_MAX = 16 * 2**20
# A manifest with the maximum number of entries and the longest names.
MANIFEST_BYTES_MAX = 32 * 2**20

# The errors that the library raises for a broken file.
_BROKEN = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
    ValueError,
)


class ArchiveWriter:
    """An archive being written, file by file."""

    def __init__(self, opened: zipfile.ZipFile, limits: Limits) -> None:
        self._zip = opened
        self._limits = limits
        self._files: list[FileEntry] = []

    def add(self, path: str, data: bytes) -> None:
        """Add a file, unless a reader would reject its size."""
        check_size([len(data)], self._limits)
        digest = hashlib.sha256(data).hexdigest()
        self._files.append(FileEntry(path=path, size_bytes=len(data), sha256=digest))
        self._put(path, data)

    def finish(self, *, contents: str, project: str, left_out: Sequence[str] = ()) -> Manifest:
        """Add the manifest, which completes the archive."""
        files = tuple(sorted(self._files, key=lambda entry: entry.path))
        check_size((entry.size_bytes for entry in files), self._limits)
        manifest = Manifest.model_validate(
            {"contents": contents, "project": project, "files": files, "left_out": left_out}
        )
        self._put(MANIFEST_NAME, manifest.as_bytes())
        return manifest

    def _put(self, name: str, data: bytes) -> None:
        info = zipfile.ZipInfo(name, _EPOCH)
        info.create_system = _UNIX
        info.external_attr = _FILE_MODE << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        # Store a file that compresses too well: a reader would take it for a zip bomb.
        if is_swollen(len(data), 0) and is_swollen(len(data), len(zlib.compress(data))):
            info.compress_type = zipfile.ZIP_STORED
        self._zip.writestr(info, data)


@contextlib.contextmanager
def write_archive(path: Path, limits: Limits = LIMITS) -> Iterator[ArchiveWriter]:
    """Write an archive atomically: it is renamed once it is completely on disk."""
    check_plain(path, "written")
    try:
        with replacing(path, mode=PRIVATE_MODE, durable=True) as file:
            with zipfile.ZipFile(file, "w") as opened:
                yield ArchiveWriter(opened, limits)
            _check_bytes(str(path), file.tell(), limits)
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror or error}."
        raise UsageError(message, reason="unwritable", subject=str(path)) from error


class Archive:
    """An archive with valid names and sizes. A file's bytes are checked when it is read."""

    def __init__(self, opened: zipfile.ZipFile, limits: Limits) -> None:
        self._zip = opened
        self._infos = _check_entries(opened.infolist(), limits)
        if MANIFEST_NAME not in self._infos:
            message = f"The archive has no {MANIFEST_NAME}. Use an exported project."
            raise InvalidBundle(message, reason="no_manifest")
        self.manifest = parse_manifest(self._unpack(MANIFEST_NAME, MANIFEST_BYTES_MAX), limits)
        self._entries = {entry.path: entry for entry in self.manifest.files}
        self._check_complete()

    def read(self, path: str) -> bytes:
        """Read a file's bytes, and check them against the manifest."""
        entry = self._entries.get(path)
        if entry is None:
            message = f"The archive has no file {path!r}."
            raise InvalidBundle(message, reason="no_file", subject=path)
        data = self._unpack(path, entry.size_bytes)
        if len(data) != entry.size_bytes or hashlib.sha256(data).hexdigest() != entry.sha256:
            message = f"{path!r} is damaged: its bytes do not match {MANIFEST_NAME}."
            raise InvalidBundle(message, reason="damaged", subject=path)
        return data

    def verify(self) -> None:
        """Read every file once."""
        for path in self._entries:
            self.read(path)

    def _check_complete(self) -> None:
        packed, listed = self._infos.keys() - {MANIFEST_NAME}, self._entries.keys()
        for path in sorted(listed - packed):
            message = f"{MANIFEST_NAME} lists {path!r}, which is not in the archive."
            raise InvalidBundle(message, reason="missing_file", subject=path)
        for path in sorted(packed - listed):
            message = f"The archive contains {path!r}, which {MANIFEST_NAME} does not list."
            raise InvalidBundle(message, reason="unlisted_file", subject=path)

    def _unpack(self, name: str, bytes_max: int) -> bytes:
        try:
            with self._zip.open(self._infos[name]) as file:
                data = file.read(bytes_max + 1)
        except _BROKEN as error:
            message = f"{name!r} cannot be unpacked: {error}."
            raise InvalidBundle(message, reason="not_unpackable", subject=name) from None
        if len(data) > bytes_max:
            message = f"{name!r} exceeds its limit of {bytes_max:,} bytes."
            raise InvalidBundle(message, reason="too_many_bytes", subject=name, limit=bytes_max)
        return data


@contextlib.contextmanager
def open_archive(
    path: Path, limits: Limits = LIMITS, *, name: str | None = None
) -> Iterator[Archive]:
    """Open an archive for reading; reject a malformed one.

    `name` is the sender's name for it, if that is not its path.
    """
    shown = name or str(path)
    check_plain(path, "read")
    try:
        file = path.open("rb")
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}."
        raise UsageError(message, reason="unreadable", subject=str(path)) from None
    with file:
        _check_end(shown, file, limits)
        try:
            opened = zipfile.ZipFile(file)
        except _BROKEN as error:
            raise InvalidBundle(
                f"{shown} is not a zip file: {error}.", reason="not_a_zip"
            ) from None
        with opened:
            yield Archive(opened, limits)


def _check_end(name: str, file: IO[bytes], limits: Limits) -> None:
    """Check the end record before the library creates an object for every entry."""
    size = file.seek(0, os.SEEK_END)
    _check_bytes(name, size, limits)
    file.seek(max(0, size - _END.size - _ZIP64_BYTES))
    tail = file.read()
    if len(tail) < _END.size or not tail[-_END.size :].startswith(_END_MARK):
        raise InvalidBundle(f"{name} is not a zip file, or its end is missing.", reason="not_a_zip")
    if tail.startswith(_ZIP64_MARK):
        raise InvalidBundle(
            f"{name} is a 64-bit zip file, which bundles do not use.", reason="zip64"
        )
    _, _, _, _, count, directory_bytes, _, _ = _END.unpack(tail[-_END.size :])
    # Add one for the manifest; tools also add an entry for every folder.
    if count > 2 * limits.entries_max or directory_bytes > DIRECTORY_BYTES_MAX:
        message = f"{name} has {count:,} entries; a bundle allows {limits.entries_max:,}."
        raise InvalidBundle(message, reason="too_many_files", limit=limits.entries_max)


def _check_bytes(name: str, size: int, limits: Limits) -> None:
    if size > limits.archive_bytes_max:
        message = f"{name} has {size:,} bytes; a bundle allows {limits.archive_bytes_max:,}."
        raise InvalidBundle(message, reason="too_many_bytes", limit=limits.archive_bytes_max)


def _check_entries(infos: list[zipfile.ZipInfo], limits: Limits) -> dict[str, zipfile.ZipInfo]:
    # The library cuts a name at a NUL; the original name must be checked.
    check_names([info.orig_filename for info in infos])
    for info in infos:
        refuse_entry(info.filename, _list_entry_faults(info, limits.entry_bytes_max))
    files = {info.filename: info for info in infos if not info.is_dir()}
    check_size((info.file_size for name, info in files.items() if name != MANIFEST_NAME), limits)
    return files


def _list_entry_faults(info: zipfile.ZipInfo, bytes_max: int) -> dict[str, tuple[str, bool]]:
    kind = stat.S_IFMT(info.external_attr >> 16)
    packed, size = info.compress_size, info.file_size
    is_plain = kind in (0, stat.S_IFDIR, stat.S_IFREG)
    return {
        "link": ("is a symbolic link", stat.S_ISLNK(kind)),
        "not_a_file": ("is neither a file nor a folder", not is_plain),
        "full_folder": ("is a folder with content", info.is_dir() and size > 0),
        "encrypted": ("is encrypted", bool(info.flag_bits & _ENCRYPTED)),
        "other_packing": (
            "uses an unsupported compression method",
            info.compress_type not in _METHODS,
        ),
        "file_too_large": (f"has {size:,} bytes; {bytes_max:,} are allowed", size > bytes_max),
        "swollen": (f"expands from {packed:,} to {size:,} bytes", is_swollen(size, packed)),
    }
