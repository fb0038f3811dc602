"""Nothing but a plain file is read, and no link is followed."""

from __future__ import annotations

import os
from pathlib import Path

from dialectic.errors import StorageUnavailable
from dialectic.storage.local import DiskStore
from tests.problems import refusing
from tests.unit.storage.folder_listing import all_files


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
