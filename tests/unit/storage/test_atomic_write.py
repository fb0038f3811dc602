"""Files are written as a whole or not at all, by one writer at a time."""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
from pathlib import Path

import pytest

from dialectic.storage.disk import DiskStore
from tests.unit.storage.folder_listing import KEY, all_files, names_in


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
    flock, rename = fcntl.flock, Path.rename
    renamed: list[bool] = []

    def let_another_come_first(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        asyncio.run(DiskStore(root).write(KEY, b"other"))
        flock(descriptor, operation)

    def watch(source: Path, target: Path) -> None:
        renamed.append(False)
        rename(source, target)
        renamed[-1] = True

    monkeypatch.setattr(fcntl, "flock", let_another_come_first)
    monkeypatch.setattr(Path, "rename", watch)
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
