"""A link that comes and goes during writes leads nowhere."""

from __future__ import annotations

import contextlib
import shutil
import threading
from pathlib import Path

from dialectic.errors import StorageUnavailable
from dialectic.storage.local import DiskStore
from tests.unit.storage.folder_listing import names_in


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
