"""Files over HTTP: what a full disk is told as, and how many are read at once."""

from __future__ import annotations

import asyncio
import errno
import io
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.datastructures import UploadFile

from dialectic.api.routes.transfer import blaming_disk, read_file
from dialectic.errors import StorageUnavailable, UsageError


def meet(error: BaseException, cause: BaseException | None = None) -> None:
    with blaming_disk():
        raise error from cause


def test_a_full_disk_is_the_servers_affair_and_no_path_of_it_is_told() -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/tmp/dialectic-x/export.zip")
    for error, cause in ((full, None), (UsageError("/tmp/dialectic-x cannot be written"), full)):
        with pytest.raises(StorageUnavailable, match="no room") as caught:
            meet(error, cause)
        assert "/tmp" not in caught.value.message
    with pytest.raises(UsageError, match="no such project"):
        meet(UsageError("no such project"))


async def test_files_that_are_given_are_read_in_turn() -> None:
    turns = asyncio.Semaphore(1)
    settings = SimpleNamespace(max_prompt_bytes=100)
    state = SimpleNamespace(reading=turns, engine=SimpleNamespace(settings=settings))
    request = cast("Any", SimpleNamespace(app=SimpleNamespace(state=state)))
    async with turns:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(read_file(request, UploadFile(io.BytesIO(b"A hall."))), 0.2)

    assert (await read_file(request, UploadFile(io.BytesIO(b"A hall.")))).text == "A hall."
