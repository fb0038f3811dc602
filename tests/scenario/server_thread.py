"""A server on a port with a worker, in a thread of its own, and its users' tokens."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dialectic.api.server import open_server
from dialectic.db.pool import Address
from dialectic.worker.worker import Worker
from tests.scenario.api_in_process import open_api
from tests.waiting import PATIENCE_S


@dataclass(frozen=True, slots=True)
class RemoteServer:
    """A server that answers and works."""

    url: str
    address: Address
    home: Path
    anna: str
    ben: str


@contextmanager
def open_remote_server(address: Address, home: Path, **settings: Any) -> Iterator[RemoteServer]:
    """Open a server on a database, for tests outside its event loop."""
    told: queue.Queue[Any] = queue.Queue()

    async def stand() -> None:
        leave, loop = asyncio.Event(), asyncio.get_running_loop()
        async with open_api(address, home, **settings) as api:
            worker = Worker(api.worker_engine, concurrency=8)
            working = asyncio.create_task(worker.run())
            async with open_server(api.app, api.hub, host="127.0.0.1", port=0) as running:
                tokens = (api.anna.token, api.ben.token)
                told.put((RemoteServer(running.url, address, home, *tokens), loop, leave))
                await leave.wait()
            worker.stop()
            await working

    def run() -> None:
        try:
            asyncio.run(stand())
        except BaseException as error:
            told.put(error)
            raise

    thread = threading.Thread(target=run)
    thread.start()
    found = told.get(timeout=PATIENCE_S)
    if isinstance(found, BaseException):
        raise found
    remote_server, loop, leave = found
    try:
        yield remote_server
    finally:
        loop.call_soon_threadsafe(leave.set)
        thread.join(PATIENCE_S)
