"""What takes long is done only for those who wait for it, and not for all of them at once."""

from __future__ import annotations

import asyncio
import errno
import io
from types import SimpleNamespace

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.types import Message

from dialectic.api.files import read_file, reporting_full_disk, run_until_disconnect
from dialectic.errors import StorageUnavailable, UsageError
from tests.problems import refusing


class Client:
    """A client that leaves when it is told to."""

    def __init__(self) -> None:
        self.leaves = asyncio.Event()
        self._has_asked = False

    async def receive(self) -> Message:
        if not self._has_asked:
            self._has_asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    def ask(self) -> Request:
        return Request({"type": "http", "method": "GET", "path": "/", "headers": []}, self.receive)


async def test_a_client_that_waits_is_given_what_was_made() -> None:
    async def make() -> str:
        await asyncio.sleep(0)
        return "made"

    assert await run_until_disconnect(Client().ask(), make()) == "made"


async def test_what_is_made_for_a_client_that_leaves_is_given_up() -> None:
    client, began, was_given_up = Client(), asyncio.Event(), asyncio.Event()

    async def make() -> str:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            was_given_up.set()
        return "made"

    waiting = asyncio.create_task(run_until_disconnect(client.ask(), make()))
    await began.wait()
    client.leaves.set()
    assert await waiting is None
    assert was_given_up.is_set()


async def test_a_cancelled_request_cancels_the_work() -> None:
    began, was_given_up = asyncio.Event(), asyncio.Event()

    async def make() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            was_given_up.set()

    waiting = asyncio.create_task(run_until_disconnect(Client().ask(), make()))
    await began.wait()
    waiting.cancel()
    await asyncio.wait({waiting})
    assert waiting.cancelled()
    assert was_given_up.is_set()


class WatchedFile(UploadFile):
    """A file that knows whether it was read."""

    was_read = False

    async def read(self, size: int = -1) -> bytes:
        self.was_read = True
        return await super().read(size)


async def test_a_file_is_read_when_it_is_its_turn() -> None:
    slots = asyncio.Semaphore(1)
    engine = SimpleNamespace(settings=SimpleNamespace(max_prompt_bytes=1000))
    app = SimpleNamespace(state=SimpleNamespace(engine=engine, reading=slots))
    request, file = Request({"type": "http", "app": app}), WatchedFile(io.BytesIO(b"A hall."))
    await slots.acquire()
    reading = asyncio.create_task(read_file(request, file))
    await asyncio.sleep(0)  # it runs until it waits
    assert not file.was_read
    slots.release()
    assert (await reading).text == "A hall."


def meet(error: BaseException, cause: BaseException | None = None) -> None:
    with reporting_full_disk():
        raise error from cause


def test_a_full_disk_is_the_servers_affair_and_no_path_of_it_is_told() -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/tmp/dialectic-x/export.zip")
    for error, cause in ((full, None), (UsageError("/tmp/dialectic-x cannot be written"), full)):
        with refusing(StorageUnavailable, reason="no_room") as caught:
            meet(error, cause)
        assert "/tmp" not in caught.value.message
    with refusing(UsageError, reason="no_project"):
        meet(UsageError("no such project", reason="no_project"))
