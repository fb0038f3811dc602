"""Files are written as a whole or not at all, by one writer at a time."""

from __future__ import annotations

import asyncio
from pathlib import Path

from dialectic.storage.disk import DiskStore
from tests.unit.storage.folder_listing import KEY, all_files, names_in
from tests.unit.storage.held_draft import hold_draft, until_second_writer


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
    store: DiskStore, root: Path
) -> None:
    await store.write(KEY, b"old")
    with hold_draft(root / KEY) as draft:
        await DiskStore(root).delete(KEY)
        second = asyncio.create_task(store.write(KEY, b"second"))
        await until_second_writer(root / KEY)
        assert draft.exists()
    await second
    assert await store.read(KEY) == b"second"
    assert all_files(root) == [KEY]


async def test_a_draft_lost_before_it_was_locked_is_begun_again(
    store: DiskStore, root: Path
) -> None:
    await store.write(KEY, b"old")
    with hold_draft(root / KEY) as draft:
        second = asyncio.create_task(store.write(KEY, b"second"))
        await until_second_writer(root / KEY)
        # The first writer finishes: what the second one has open is now the file itself.
        draft.write_bytes(b"first")
        draft.rename(root / KEY)
        first = (root / KEY).open("rb")
    with first:
        await second
        assert first.read() == b"first"
    assert await store.read(KEY) == b"second"
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
