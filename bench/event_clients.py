"""Clients of a stream of events on raw sockets, in a process of their own: `follow`.

Says when all are connected, and in the end how late each event came to each client.
"""

from __future__ import annotations

import asyncio
import re
import resource
import time
from typing import Any

from bench.child import Options, say, serve

HOST = "127.0.0.1"
CONNECTING_AT_ONCE = 50
NEWS = re.compile(rb'"n":(\d+),"at":([0-9.]+)')


class Client(asyncio.Protocol):
    """One line: what came over it, in order, and when."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.late_ms: list[float] = []
        self.numbers: list[int] = []
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        now = time.time()
        if not self.begun.done():
            self.begun.set_result(None)
        *whole, self._rest = (self._rest + data).split(b"\n\n")
        for frame in whole:
            if (found := NEWS.search(frame)) is not None:
                self.numbers.append(int(found[1]))
                self.late_ms.append((now - float(found[2])) * 1000)
        if len(self.numbers) >= self.wanted and not self.ended.done():
            self.ended.set_result(None)


async def follow(options: Options) -> dict[str, Any]:
    """Follow with many clients until each has seen all, or patience is at its end."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    loop, gate = asyncio.get_running_loop(), asyncio.Semaphore(CONNECTING_AT_ONCE)
    port, wanted = options["port"], options["events"]

    async def connect() -> Client:
        async with gate:
            line, client = await loop.create_connection(lambda: Client(wanted), HOST, port)
            line.write(b"GET /events HTTP/1.0\r\n\r\n")
            await client.begun
            return client

    clients = await asyncio.gather(*(connect() for _ in range(options["clients"])))
    say({"connected": len(clients)})
    await asyncio.wait([client.ended for client in clients], timeout=options["patience_s"])
    whole = list(range(wanted))
    return {
        "late_ms": [round(late_ms, 2) for client in clients for late_ms in client.late_ms],
        "missing": sum(len(set(whole) - set(client.numbers)) for client in clients),
        "disordered": sum(client.numbers != sorted(client.numbers) for client in clients),
    }


if __name__ == "__main__":
    serve({"follow": follow})
