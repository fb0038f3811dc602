"""Files on a disk: durable, private, never through a link; and a store that knows its id."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from dialectic.errors import StorageUnavailable
from dialectic.storage.disk import DiskStore
from tests.problems import refusing
from tests.unit.storage.folder_listing import KEY, all_files, names_in
from tests.unit.storage.held_draft import hold_draft, until_second_writer


async def test_a_file_is_stored_under_its_key_and_nothing_else_is_stored(
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


async def test_disks_are_waited_for_outside_the_event_loop(store: DiskStore, root: Path) -> None:
    with hold_draft(root / KEY):
        writing = asyncio.create_task(store.write(KEY, b"x"))
        await until_second_writer(root / KEY)
        assert not writing.done()
    await writing
    assert await store.read(KEY) == b"x"


async def test_a_disk_that_hangs_takes_no_thread_from_the_rest_of_the_program(
    store: DiskStore, root: Path
) -> None:
    with hold_draft(root / KEY):
        hanging = [asyncio.create_task(store.write(KEY, b"x")) for _ in range(60)]
        await until_second_writer(root / KEY)
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "here"), 10) == "here"
        assert not any(writing.done() for writing in hanging)
    await asyncio.gather(*hanging)
    assert all_files(root) == [KEY]


async def test_of_files_written_at_once_one_that_cannot_be_written_fails_alone(
    store: DiskStore,
) -> None:
    await store.write("tenant/a/folder/x.md", b"x")
    keys = [f"tenant/{name}/{number}.md" for name in "ab" for number in range(100)]
    outcomes = await asyncio.gather(
        *(store.write(key, key.encode()) for key in [*keys, "tenant/a/folder"]),
        return_exceptions=True,
    )
    *written, refused = outcomes
    assert written == [None] * len(keys)
    assert isinstance(refused, StorageUnavailable)
    assert refused.reason == "eisdir"
    assert [await store.read(key) for key in keys] == [key.encode() for key in keys]


async def test_files_written_at_once_share_the_flush_of_their_folder(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.write(KEY, b"makes the folder")
    flushed: list[bool] = []
    flush = os.fsync

    def note(file: int) -> None:
        flushed.append(stat.S_ISDIR(os.fstat(file).st_mode))
        flush(file)

    monkeypatch.setattr(os, "fsync", note)
    folder = KEY.rpartition("/")[0]
    await asyncio.gather(*(store.write(f"{folder}/{number}.md", b"x") for number in range(6)))
    assert sorted(flushed) == [False] * 6 + [True]


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
