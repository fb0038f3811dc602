"""Files are written as a whole or not at all, and never outside the store's folder."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dialectic.errors import ConfigurationError, NotFound, StorageUnavailable, UsageError
from dialectic.storage.files import DiskStore, FileStore, open_store

KEY = "tenant/garden/session_0a1b2c3d/seed_prompt.md"

HOSTILE_KEYS = [
    "",
    "/",
    "tenant",
    "tenant/",
    "/tenant/x",
    "tenant//x",
    "tenant/./x",
    "tenant/../x",
    "../x/y",
    "tenant/x/..",
    "tenant/a\0b",
    "tenant\\x",
    "tenant/a\\b",
    "tenant/" + "x" * 256,
    "tenant/" + "é" * 128,
    "tenant/" + "x/" * 1_000 + "x",
    "tenant/\ud800",
    "tenant/.draft-0123",
    ".draft-x/y",
]
parts = st.one_of(
    st.sampled_from(
        ["..", ".", "", "a", "b", "~", "con", "a\\b", "\0", "é" * 128, ".draft-x", "-"]
    ),
    st.text(max_size=5),
)
keys = st.one_of(
    st.sampled_from(HOSTILE_KEYS), st.lists(parts, min_size=1, max_size=5).map("/".join)
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "outer" / "store"


@pytest.fixture
def store(root: Path) -> DiskStore:
    return DiskStore(root)


def all_files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def run_to_its_end(program: str, root: Path, key: str) -> int:
    return subprocess.run([sys.executable, "-c", program, str(root), key], check=False).returncode


def kill_after_lines(program: str, root: Path, key: str, lines: int) -> None:
    command = [sys.executable, "-c", program, str(root), key]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        for _ in range(lines):
            assert child.stdout.readline()
        child.send_signal(signal.SIGKILL)


async def test_what_is_written_can_be_read(store: DiskStore, root: Path) -> None:
    await store.write(KEY, b"bytes \x00\xff")
    assert await store.read(KEY) == b"bytes \x00\xff"
    assert (root / KEY).read_bytes() == b"bytes \x00\xff"
    assert store.locate(KEY) == str(root / KEY)


async def test_an_empty_file_is_a_file(store: DiskStore) -> None:
    await store.write(KEY, b"")
    assert await store.read(KEY) == b""
    assert await store.list("") == [KEY]


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


async def test_a_file_that_is_not_there_is_not_found(store: DiskStore) -> None:
    with pytest.raises(NotFound, match="seed_prompt"):
        await store.read(KEY)
    await store.write(KEY, b"x")
    with pytest.raises(NotFound):
        await store.read("tenant/garden/other.md")
    with pytest.raises(NotFound):
        await store.read("tenant/garden")


async def test_a_store_without_a_folder_is_empty(store: DiskStore, root: Path) -> None:
    assert await store.list("") == []
    assert await store.list("tenant") == []
    await store.delete(KEY)
    assert all_files(root) == []


async def test_a_folder_lists_what_is_in_it_and_not_what_only_begins_alike(
    store: DiskStore,
) -> None:
    written = ["t/a/x.md", "t/a/deep/er/y.md", "t/a-b/z.md", "t/a.md", "t2/a/x.md"]
    for key in written:
        await store.write(key, b"x")
    assert await store.list("t/a") == ["t/a/deep/er/y.md", "t/a/x.md"]
    assert await store.list("t/a/") == ["t/a/deep/er/y.md", "t/a/x.md"]
    assert await store.list("t") == sorted(written[:4])
    assert await store.list("") == sorted(written)


async def test_deleting_twice_is_deleting_once(store: DiskStore) -> None:
    await store.write(KEY, b"x")
    await store.delete(KEY)
    await store.delete(KEY)
    with pytest.raises(NotFound):
        await store.read(KEY)


async def test_deleting_the_last_file_leaves_no_folder_behind(store: DiskStore, root: Path) -> None:
    await store.write("tenant/kept/x.md", b"x")
    await store.write("tenant/secret-project/deep/x.md", b"x")
    await store.delete("tenant/secret-project/deep/x.md")
    assert names_in(root / "tenant") == ["kept"]
    await store.write("tenant/secret-project/deep/x.md", b"again")
    assert await store.read("tenant/secret-project/deep/x.md") == b"again"


async def test_files_are_private_to_the_user_who_runs_the_program(
    store: DiskStore, root: Path
) -> None:
    await store.write(KEY, b"x")
    for path in (root / KEY, (root / KEY).parent, root):
        assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("key", HOSTILE_KEYS)
async def test_a_key_that_could_lead_astray_is_refused(store: DiskStore, key: str) -> None:
    for call in (store.write(key, b"x"), store.read(key), store.delete(key)):
        with pytest.raises(UsageError, match="cannot be a storage key"):
            await call
    with pytest.raises(UsageError):
        store.locate(key)


@pytest.mark.parametrize("prefix", ["/", "..", "tenant/..", "a//b", "/etc", "tenant\\x", "a\0"])
async def test_a_folder_that_could_lead_astray_is_refused(store: DiskStore, prefix: str) -> None:
    with pytest.raises(UsageError):
        await store.list(prefix)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(keys)
def test_no_key_reaches_outside_the_store(tmp_path: Path, key: str) -> None:
    root = tmp_path / "store"
    store = DiskStore(root)

    async def write_and_read() -> None:
        await store.write(key, b"content")
        assert await store.read(key) == b"content"
        assert key in await store.list("")
        await store.delete(key)

    try:
        asyncio.run(write_and_read())
    except UsageError:
        return
    assert all_files(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


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
            with pytest.raises(StorageUnavailable, match="symbolic link stands where a folder"):
                await call
    assert await store.list("") == ["tenant/here/x.md"]
    assert all_files(outside) == ["x.md"]
    assert (outside / "x.md").read_bytes() == b"precious"


async def test_a_link_planted_in_place_of_a_file_is_not_followed(
    store: DiskStore, root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.md"
    outside.write_bytes(b"precious")
    await store.write("tenant/a.md", b"x")
    (root / "tenant" / "link.md").symlink_to(outside)

    with pytest.raises(StorageUnavailable, match="symbolic link stands where a file"):
        await store.read("tenant/link.md")
    assert await store.list("tenant") == ["tenant/a.md"]

    await store.write("tenant/link.md", b"ours")
    assert outside.read_bytes() == b"precious"
    assert await store.read("tenant/link.md") == b"ours"


async def test_a_link_that_comes_and_goes_during_writes_leads_nowhere(
    store: DiskStore, root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    await store.write("tenant/folder/x.md", b"x")
    folder = root / "tenant/folder"
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError):
                shutil.rmtree(folder)
            with contextlib.suppress(OSError):
                folder.symlink_to(outside, target_is_directory=True)
            with contextlib.suppress(OSError):
                folder.unlink()

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for number in range(500):
            with contextlib.suppress(StorageUnavailable):
                await store.write("tenant/folder/x.md", str(number).encode())
    finally:
        stop.set()
        swapper.join()
    assert names_in(outside) == []


async def test_a_pipe_in_place_of_a_file_does_not_hold_up_a_reader(
    store: DiskStore, root: Path
) -> None:
    await store.write("tenant/a.md", b"x")
    os.mkfifo(root / "tenant" / "pipe.md")
    with pytest.raises(StorageUnavailable, match="no plain file"):
        await store.read("tenant/pipe.md")
    assert await store.list("tenant") == ["tenant/a.md"]


async def test_many_writers_of_one_key_take_turns(store: DiskStore, root: Path) -> None:
    contents = [bytes([65 + number]) * 10_000 for number in range(20)]
    others = [DiskStore(root) for _ in range(3)]
    await store.write(KEY, contents[0])

    async def read_often() -> None:
        for _ in range(50):
            assert await store.read(KEY) in contents

    writes = [
        (others[number % 3]).write(KEY, content) for number, content in enumerate(contents * 5)
    ]
    await asyncio.gather(*writes, read_often(), read_often())
    assert await store.read(KEY) in contents
    assert names_in((root / KEY).parent) == ["seed_prompt.md"]


async def test_a_draft_in_a_writer_s_hands_is_not_taken_for_a_leftover(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock, fsync = fcntl.flock, os.fsync
    first_is_writing, second_is_waiting = threading.Event(), threading.Event()
    outcomes: list[str] = []

    def watch(descriptor: int, operation: int) -> None:
        try:
            flock(descriptor, operation | fcntl.LOCK_NB)
            outcomes.append("held")
        except BlockingIOError:
            outcomes.append("waited")
            second_is_waiting.set()
            flock(descriptor, operation & ~fcntl.LOCK_NB)

    def stop_the_first(descriptor: int) -> None:
        monkeypatch.setattr(os, "fsync", fsync)
        first_is_writing.set()
        assert second_is_waiting.wait(timeout=30)
        fsync(descriptor)

    await store.write(KEY, b"old")
    monkeypatch.setattr(fcntl, "flock", watch)
    monkeypatch.setattr(os, "fsync", stop_the_first)
    first = asyncio.create_task(store.write(KEY, b"first"))
    assert await asyncio.to_thread(first_is_writing.wait, timeout=30)
    await store.write(KEY, b"second")
    await first
    assert outcomes[:2] == ["held", "waited"]
    assert set(outcomes[2:]) == {"held"}  # a draft of its own, begun after the wait
    assert await store.read(KEY) == b"second"


async def test_a_draft_lost_before_it_was_locked_is_begun_again(
    store: DiskStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock, rename = fcntl.flock, os.rename
    renamed: list[bool] = []

    def let_another_come_first(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        asyncio.run(DiskStore(root).write(KEY, b"other"))
        flock(descriptor, operation)

    def watch(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        renamed.append(False)
        rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        renamed[-1] = True

    monkeypatch.setattr(fcntl, "flock", let_another_come_first)
    monkeypatch.setattr(os, "rename", watch)
    await store.write(KEY, b"ours")
    assert renamed == [True, True]
    assert await store.read(KEY) == b"ours"
    assert all_files(root) == [KEY]


async def test_writing_and_deleting_at_once_leaves_one_or_the_other(
    store: DiskStore, root: Path
) -> None:
    key = "tenant/deep/er/x.md"
    for _ in range(10):
        await asyncio.gather(
            *(store.write(key, b"x" * 100) for _ in range(5)),
            *(store.delete(key) for _ in range(5)),
        )
        assert all_files(root) in ([key], [])
    await store.delete(key)
    assert names_in(root) == []


DIE_BEFORE_THE_RENAME = """
import asyncio, os, sys
from pathlib import Path
from dialectic.storage.files import DiskStore
os.rename = lambda *names, **folders: os._exit(9)
asyncio.run(DiskStore(Path(sys.argv[1])).write(sys.argv[2], b"half-way" * 1000))
"""


async def test_a_writer_that_dies_leaves_the_old_file_and_nothing_that_lasts(
    store: DiskStore, root: Path
) -> None:
    await store.write(KEY, b"old")
    assert run_to_its_end(DIE_BEFORE_THE_RENAME, root, KEY) == 9
    assert await store.read(KEY) == b"old"
    assert len(all_files(root)) == 2
    assert await store.list("") == [KEY]

    await store.write(KEY, b"old")
    assert all_files(root) == [KEY]


async def test_deleting_a_key_clears_what_a_dead_writer_left(store: DiskStore, root: Path) -> None:
    assert run_to_its_end(DIE_BEFORE_THE_RENAME, root, KEY) == 9
    assert await store.list("") == []
    await store.delete(KEY)
    assert names_in(root) == []


WRITE_FOREVER = """
import asyncio, sys
from pathlib import Path
from dialectic.storage.files import DiskStore
async def main():
    store = DiskStore(Path(sys.argv[1]))
    while True:
        for letter in (b"a", b"b"):
            await store.write(sys.argv[2], letter * 3_000_000)
            print(letter, flush=True)
asyncio.run(main())
"""


async def test_a_killed_writer_leaves_one_whole_version(store: DiskStore, root: Path) -> None:
    for lines in range(1, 6):
        kill_after_lines(WRITE_FOREVER, root, KEY, lines)
        content = await store.read(KEY)
        assert content in (b"a" * 3_000_000, b"b" * 3_000_000)
        await store.write(KEY, b"recovered")
        assert all_files(root) == [KEY]


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "disk is full"),
        (errno.EDQUOT, "quota"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, "owner or the mode"),
        (errno.EIO, "system's log"),
    ],
)
async def test_a_disk_that_fails_is_named_with_a_remedy_and_the_old_file_stays(
    store: DiskStore, root: Path, monkeypatch: pytest.MonkeyPatch, number: int, remedy: str
) -> None:
    await store.write(KEY, b"old")

    def fail(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fail)
        with pytest.raises(StorageUnavailable, match=remedy) as caught:
            await store.write(KEY, b"new")
    assert str(root / KEY) in caught.value.message
    assert os.strerror(number) in caught.value.message
    assert await store.read(KEY) == b"old"
    assert all_files(root) == [KEY]


async def test_a_file_in_place_of_the_store_is_reported(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("not a folder")
    store = DiskStore(tmp_path / "store")
    with pytest.raises(StorageUnavailable, match="stands where a folder belongs"):
        await store.write(KEY, b"x")
    with pytest.raises(StorageUnavailable, match="stands where a folder belongs"):
        await store.read(KEY)


async def test_a_folder_in_place_of_a_file_is_reported(store: DiskStore) -> None:
    await store.write("tenant/a/x.md", b"x")
    with pytest.raises(StorageUnavailable, match="folder stands where a file belongs"):
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


async def test_an_address_opens_a_store(tmp_path: Path) -> None:
    folder = tmp_path / "with space #1"
    store: FileStore = open_store(f"file://{tmp_path}/with%20space%20%231")
    await store.write(KEY, b"x")
    assert (folder / KEY).read_bytes() == b"x"
    assert store.locate(KEY) == str(folder / KEY)
    assert await open_store(f"file://localhost{tmp_path}/with%20space%20%231").read(KEY) == b"x"


@pytest.mark.parametrize("url", ["s3://key:secret@bucket/x", "", "/var/lib", "http://[", "C:\\x"])
def test_an_address_of_another_kind_is_refused_without_repeating_its_secrets(url: str) -> None:
    with pytest.raises(ConfigurationError, match="DIALECTIC_STORAGE_URL") as caught:
        open_store(url)
    assert "secret" not in caught.value.message


@pytest.mark.parametrize(
    "url",
    [
        "file://relative/path",
        "file:relative",
        "file:///a?b",
        "file:///a#b",
        "file:///a%00",
        "file://",
    ],
)
def test_an_address_of_a_folder_is_absolute_and_nothing_else(url: str) -> None:
    with pytest.raises(ConfigurationError, match="file:// and an absolute path"):
        open_store(url)


def test_the_refusal_says_which_addresses_are_known() -> None:
    with pytest.raises(ConfigurationError, match="'ftp'; known is: file"):
        open_store("ftp://host/x")


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
    with pytest.raises(StorageUnavailable, match=f"{root}/{store.id_name}.*id of this store"):
        await store.identify(uuid4())


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that takes none")
async def test_a_place_that_takes_no_folders_is_said_at_once() -> None:
    store = DiskStore(Path("/proc/nope/storage"))
    for attempt in (store.identify(uuid4()), store.write(KEY, b"x")):
        with pytest.raises(StorageUnavailable, match="No folder can be made in /proc"):
            await attempt
