"""Files on a disk: durable, private, never through a link; and a store that knows its id."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from dialectic.errors import StorageUnavailable
from dialectic.storage.disk import DiskStore
from tests.problems import refusing
from tests.unit.storage.folder_listing import KEY, all_files, names_in


async def test_a_file_lies_under_its_key_and_nothing_lies_beside_it(
    store: DiskStore, root: Path
) -> None:
    for data in (b"old and longer", b"bytes \x00\xff"):
        await store.write(KEY, data)
        assert (root / KEY).read_bytes() == data
        assert all_files(root) == [KEY]
    assert store.locate(KEY) == str(root / KEY)


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


async def test_a_disk_that_hangs_takes_no_thread_from_the_rest_of_the_program(
    tmp_path: Path,
) -> None:
    store = DiskStore(tmp_path)
    answers = threading.Event()
    hanging = [asyncio.create_task(store._run("key", answers.wait)) for _ in range(60)]
    await asyncio.sleep(0)
    try:
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "here"), 10) == "here"
    finally:
        answers.set()
    assert all(await asyncio.gather(*hanging))


# -- links and pipes -------------------------------------------------------------------------------


async def test_a_link_planted_in_place_of_a_folder_is_not_followed(
    store: DiskStore, root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.md").write_bytes(b"precious")
    await store.write("tenant/here/x.md", b"x")
    (root / "tenant" / "link").symlink_to(outside, target_is_directory=True)
    (root / "linked-tenant").symlink_to(outside, target_is_directory=True)

    for folder in ("tenant/link", "linked-tenant"):
        for call in (
            store.write(f"{folder}/new.md", b"x"),
            store.write(f"{folder}/x.md", b"x"),
            store.read(f"{folder}/x.md"),
            store.delete(f"{folder}/x.md"),
            store.list(folder),
        ):
            with refusing(StorageUnavailable, reason="enotdir"):
                await call
    assert await store.list("") == ["tenant/here/x.md"]
    assert all_files(outside) == ["x.md"]
    assert (outside / "x.md").read_bytes() == b"precious"


async def test_the_root_itself_may_be_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    await DiskStore(root).identify(uuid4())
    store = DiskStore(tmp_path / "link")
    await store.write(KEY, b"x")
    assert await store.read(KEY) == b"x"
    assert await store.list("") == [KEY]
    assert (root / KEY).read_bytes() == b"x"
    await store.delete(KEY)
    assert names_in(root) == [store.id_name]


async def test_a_link_planted_in_place_of_a_file_is_not_followed(
    store: DiskStore, root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.md"
    outside.write_bytes(b"precious")
    await store.write("tenant/a.md", b"x")
    (root / "tenant" / "link.md").symlink_to(outside)

    with refusing(StorageUnavailable, reason="eloop"):
        await store.read("tenant/link.md")
    assert await store.list("tenant") == ["tenant/a.md"]

    await store.write("tenant/link.md", b"ours")
    assert outside.read_bytes() == b"precious"
    assert await store.read("tenant/link.md") == b"ours"


async def test_a_pipe_in_place_of_a_file_does_not_hold_up_a_reader(
    store: DiskStore, root: Path
) -> None:
    await store.write("tenant/a.md", b"x")
    os.mkfifo(root / "tenant" / "pipe.md")
    with refusing(StorageUnavailable, reason="einval"):
        await store.read("tenant/pipe.md")
    assert await store.list("tenant") == ["tenant/a.md"]


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
