"""A draft in the hands of a writer that takes its time."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from dialectic.atomic_write import build_draft_name
from tests.waiting import PATIENCE_S


def name_draft(path: Path) -> Path:
    return path.with_name(build_draft_name(path.name))


@contextlib.contextmanager
def hold_draft(path: Path) -> Iterator[Path]:
    """Open and lock the draft of a file, as its writer does."""
    draft = name_draft(path)
    draft.parent.mkdir(parents=True, exist_ok=True)
    with draft.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield draft
        if draft.exists() and os.path.samestat(draft.stat(), os.fstat(file.fileno())):
            draft.unlink()


async def until_second_writer(path: Path) -> None:
    """Wait until a second writer of this file has the same draft open."""
    await asyncio.to_thread(_look_until_open_twice, name_draft(path))


def _look_until_open_twice(draft: Path) -> None:
    give_up_at = time.monotonic() + PATIENCE_S
    while _count_open(draft) < 2:
        assert time.monotonic() < give_up_at, "no second writer came"


def _count_open(draft: Path) -> int:
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            count += os.path.samestat(descriptor.stat(), draft.stat())
    return count
