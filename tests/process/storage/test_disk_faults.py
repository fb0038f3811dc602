"""A disk that fails is named, and what was there stays."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dialectic.errors import StorageUnavailable
from dialectic.storage.disk import DiskStore
from tests.file_limit import limit_files
from tests.problems import refusing
from tests.unit.storage.folder_listing import KEY, all_files

DISK_BYTES = 1 << 16
READ_ONLY, REMOUNT, DETACH = 1, 32, 2
LIBC = ctypes.CDLL(None, use_errno=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own, where this user may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if LIBC.mount(b"none", os.fsencode(folder), b"tmpfs", 0, f"size={DISK_BYTES}".encode()) != 0:
        pytest.skip(f"no disk can be mounted: {os.strerror(ctypes.get_errno())}")
    try:
        yield folder
    finally:
        LIBC.umount2(os.fsencode(folder), DETACH)


async def fail_to_write(root: Path, number: int, break_disk: Callable[[], object]) -> None:
    """Write a file, break the disk, and see that writing a second version of it is refused."""
    store = DiskStore(root)
    await store.write(KEY, b"old")
    break_disk()
    reason = errno.errorcode[number].lower()
    with refusing(StorageUnavailable, reason=reason, subject=str(root / KEY)) as caught:
        await store.write(KEY, b"new" * DISK_BYTES)
    assert os.strerror(number) in caught.value.message
    assert await store.read(KEY) == b"old"
    assert all_files(root) == [KEY]


async def test_a_full_disk_is_named_and_the_old_file_stays(disk: Path) -> None:
    await fail_to_write(disk / "store", errno.ENOSPC, lambda: None)


async def test_a_disk_that_became_read_only_is_named_and_the_old_file_stays(disk: Path) -> None:
    def remount() -> None:
        assert LIBC.mount(b"none", os.fsencode(disk), b"tmpfs", READ_ONLY | REMOUNT, b"") == 0

    await fail_to_write(disk / "store", errno.EROFS, remount)


async def test_a_folder_that_this_user_may_not_write_is_named_and_the_old_file_stays(
    tmp_path: Path,
) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    folder = (tmp_path / "store" / KEY).parent
    try:
        await fail_to_write(tmp_path / "store", errno.EACCES, lambda: folder.chmod(0o500))
    finally:
        folder.chmod(0o700)


async def test_a_limit_on_the_size_of_files_is_named_and_the_old_file_stays(root: Path) -> None:
    with contextlib.ExitStack() as stack:
        await fail_to_write(root, errno.EFBIG, lambda: stack.enter_context(limit_files(1_000)))
