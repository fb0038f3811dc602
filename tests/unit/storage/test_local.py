"""Files on a disk: written, read, listed, deleted, durable; and a store that knows its id."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from dialectic.errors import StorageUnavailable
from dialectic.storage.local import DiskStore
from tests.problems import refusing
from tests.unit.storage.folder_listing import KEY, all_files, names_in


async def test_what_is_written_can_be_read(store: DiskStore, root: Path) -> None:
    await store.write(KEY, b"bytes \x00\xff")
    assert await store.read(KEY) == b"bytes \x00\xff"
    assert (root / KEY).read_bytes() == b"bytes \x00\xff"
    assert store.locate(KEY) == str(root / KEY)


async def test_other_bytes_replace_what_was_there(store: DiskStore, root: Path) -> None:
    await store.write(KEY, b"old and longer")
    await store.write(KEY, b"new")
    assert await store.read(KEY) == b"new"
    assert all_files(root) == [KEY]


async def test_the_same_bytes_leave_the_file_as_it_is(store: DiskStore, root: Path) -> None:
    await store.write(KEY, b"same")
    before = (root / KEY).stat()
    await store.write(KEY, b"same")
    assert (root / KEY).stat().st_ino == before.st_ino
    assert (root / KEY).stat().st_mtime_ns == before.st_mtime_ns
    assert all_files(root) == [KEY]


async def test_a_store_without_a_folder_is_empty(store: DiskStore, root: Path) -> None:
    assert await store.list("") == []
    assert await store.list("tenant") == []
    await store.delete(KEY)
    assert all_files(root) == []


async def test_deleting_the_last_file_leaves_no_folder_behind(store: DiskStore, root: Path) -> None:
    await store.write("tenant/kept/x.md", b"x")
    await store.write("tenant/secret-project/deep/x.md", b"x")
    await store.delete("tenant/secret-project/deep/x.md")
    assert names_in(root / "tenant") == ["kept"]
    await store.write("tenant/secret-project/deep/x.md", b"again")
    assert await store.read("tenant/secret-project/deep/x.md") == b"again"


async def test_a_folder_that_somebody_else_deleted_is_made_again(
    store: DiskStore, root: Path
) -> None:
    await store.write("tenant/project/stage/one.md", b"1")
    await DiskStore(root).delete("tenant/project/stage/one.md")
    assert not (root / "tenant").exists()
    await store.write("tenant/project/stage/two.md", b"2")
    assert await store.read("tenant/project/stage/two.md") == b"2"


async def test_files_are_private_to_the_user_who_runs_the_program(
    store: DiskStore, root: Path
) -> None:
    await store.write(KEY, b"x")
    for path in (root / KEY, (root / KEY).parent, root):
        assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "enospc"),
        (errno.EDQUOT, "edquot"),
        (errno.EROFS, "erofs"),
        (errno.EACCES, "eacces"),
        (errno.EIO, "eio"),
    ],
)
async def test_a_disk_that_fails_is_named_with_a_remedy_and_the_old_file_stays(
    store: DiskStore, root: Path, monkeypatch: pytest.MonkeyPatch, number: int, reason: str
) -> None:
    await store.write(KEY, b"old")

    def fail(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fail)
        with refusing(StorageUnavailable, reason=reason, subject=str(root / KEY)) as caught:
            await store.write(KEY, b"new")
    assert str(root / KEY) in caught.value.message
    assert os.strerror(number) in caught.value.message
    assert await store.read(KEY) == b"old"
    assert all_files(root) == [KEY]


async def test_a_file_in_place_of_the_store_is_reported(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("not a folder")
    store = DiskStore(tmp_path / "store")
    with refusing(StorageUnavailable, reason="eexist"):
        await store.write(KEY, b"x")
    with refusing(StorageUnavailable, reason="enotdir"):
        await store.read(KEY)


async def test_a_folder_in_place_of_a_file_is_reported(store: DiskStore) -> None:
    await store.write("tenant/a/x.md", b"x")
    with refusing(StorageUnavailable, reason="eisdir"):
        await store.write("tenant/a", b"x")
    assert await store.list("") == ["tenant/a/x.md"]


async def test_disks_are_waited_for_outside_the_event_loop(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed_in = set()
    fsync = os.fsync

    def watch(descriptor: int) -> None:
        flushed_in.add(threading.get_ident())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watch)
    await store.write(KEY, b"x")
    assert flushed_in
    assert threading.get_ident() not in flushed_in


async def test_a_write_flushes_the_file_its_folder_and_every_folder_above(
    store: DiskStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[int] = []
    fsync = os.fsync

    def watch(descriptor: int) -> None:
        flushed.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watch)
    await store.write(KEY, b"x")
    file = root / KEY
    above = [path.stat().st_ino for path in file.parents if path.is_relative_to(root.parent.parent)]
    assert set(flushed) == {file.stat().st_ino, *above}

    flushed.clear()
    await store.write(KEY, b"y")
    assert flushed == [file.stat().st_ino, file.parent.stat().st_ino]
    await DiskStore(root).write(KEY, b"y")
    assert set(above) - {root.parent.stat().st_ino, root.parent.parent.stat().st_ino} <= set(
        flushed
    )


# -- identity --------------------------------------------------------------------------------------


async def test_a_store_takes_on_the_first_id_and_keeps_it(store: DiskStore, root: Path) -> None:
    assert await store.identify(None) is None
    assert all_files(root.parent.parent) == [], "to look is not to make"
    first = uuid4()
    assert await store.identify(first) == first
    assert await store.identify(uuid4()) == first
    assert await DiskStore(root).identify(None) == first
    assert (root / store.id_name).read_text() == f"{first}\n"
    assert await store.list("") == []


async def test_those_who_name_a_store_at_once_agree(root: Path) -> None:
    stores = [DiskStore(root) for _ in range(8)]
    found = await asyncio.gather(*(store.identify(uuid4()) for store in stores))
    assert len(set(found)) == 1
    assert isinstance(found[0], UUID)
    assert names_in(root) == [stores[0].id_name]


async def test_an_id_that_is_none_is_said_with_its_place(store: DiskStore, root: Path) -> None:
    await store.identify(uuid4())
    (root / store.id_name).write_text("what?")
    with refusing(StorageUnavailable, reason="einval", subject=f"{root}/{store.id_name}"):
        await store.identify(uuid4())


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that takes none")
async def test_a_place_that_takes_no_folders_is_said_at_once() -> None:
    store = DiskStore(Path("/proc/nope/storage"))
    for attempt in (store.identify(uuid4()), store.write(KEY, b"x")):
        with refusing(StorageUnavailable, "/proc", reason="enotsup"):
            await attempt
