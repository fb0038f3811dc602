"""A disk that never answers costs nobody else a thread."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from dialectic.storage.local import DiskStore


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
