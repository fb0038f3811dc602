"""One database, one bucket, and the servers and workers on them: started, killed, replaced.

Each process has a home of its own, as on a machine of its own. Knows nothing of what they do.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from chaos.crew import FAULT, FORKS
from chaos.fleet_process import Orders, run_forked
from chaos.lab import LOST_LEASES_MAX, POLL_S, Stuck, build_environment
from chaos.sabotage import Sabotage
from tests.s3_server import S3Server

LEASE_S = 1.2
PATIENCE_S = 90.0
CONCURRENCY = 8
REQUESTS_PER_MINUTE = 1_000_000
READY = {"serve": "in your browser", "worker": "is ready for"}


def find_port() -> int:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as probe:
        port: int = probe.getsockname()[1]
        return port


@dataclass(slots=True, eq=False)
class Process:
    """A server or a worker, on a home of its own."""

    name: str
    orders: Orders
    url: str = ""
    process: ForkServerProcess | None = None
    # Where in its log the present process began.
    begun_at: int = 0

    def start(self) -> None:
        self.orders.log.touch()
        self.begun_at = self.orders.log.stat().st_size
        self.process = FORKS.Process(target=run_forked, args=(self.orders,), name=self.name)
        self.process.start()

    @property
    def said(self) -> str:
        return self.orders.log.read_bytes()[self.begun_at :].decode(errors="replace")

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.is_alive()

    async def wait_until_ready(self) -> None:
        word = READY[self.orders.words[0]]
        async with asyncio.timeout(PATIENCE_S):
            while word not in self.said:
                if not self.is_alive:
                    raise Stuck(f"{self.name} ended by itself: {self.said[-500:]}")
                await asyncio.sleep(POLL_S)

    async def wait(self) -> int | None:
        """Wait for its end; return its code."""
        assert self.process is not None
        await asyncio.to_thread(self.process.join, PATIENCE_S)
        if self.process.is_alive():
            self.kill()
        return self.process.exitcode

    def kill(self) -> None:
        """End it as a power cut would."""
        assert self.process is not None
        self.process.kill()
        self.process.join()

    async def stop(self) -> int | None:
        """Tell it to stop; return its code, or 0 if it was dead already."""
        if self.process is None or not self.is_alive:
            return 0
        self.process.terminate()
        return await self.wait()


@dataclass(slots=True)
class Site:
    """One place where sessions are carried out."""

    name: str
    folder: Path
    database_url: str
    objects: S3Server
    broken: Sabotage
    seed: int
    servers: list[Process] = field(default_factory=list)
    workers: list[Process] = field(default_factory=list)

    def environment(self, name: str) -> dict[str, str]:
        return build_environment(
            self.folder / "homes" / self.name / name,
            database_url=self.database_url,
            lease_s=LEASE_S,
            max_lost_leases=LOST_LEASES_MAX,
            requests_per_minute=REQUESTS_PER_MINUTE,
            **self.objects.build_settings(),
        )

    async def command(self, *words: str) -> tuple[int | None, str]:
        """Run one command; return its code and what it said."""
        process = self._build(words[0], words)
        process.start()
        return await process.wait(), process.said

    async def start_servers(self, count: int) -> None:
        made = []
        for number in range(count):
            port = find_port()
            words = ("serve", "--no-worker", "--port", str(port))
            made.append(self._build(f"serve-{number + 1}", words))
            made[-1].url = f"http://127.0.0.1:{port}"
        self.servers += made
        await self._start(made)

    async def start_workers(self, count: int) -> None:
        words = ("worker", "--concurrency", str(CONCURRENCY))
        made = [self._build(f"worker-{number + 1}", words) for number in range(count)]
        self.workers += made
        await self._start(made)

    def _build(self, name: str, words: tuple[str, ...]) -> Process:
        place = self.folder / f"{self.name}-{name}"
        orders = Orders(
            words=words,
            environment=self.environment(name),
            log=place.with_suffix(".log"),
            calls=place.with_suffix(".calls"),
            seed=self.seed,
            broken=self.broken.name,
        )
        return Process(name, orders)

    async def _start(self, processes: Sequence[Process]) -> None:
        for process in processes:
            process.start()
        for process in processes:
            await process.wait_until_ready()

    async def replace(self, *dead: Process) -> None:
        """Start what was killed again, at the same address."""
        await self._start(dead)

    def list_urls(self) -> list[str]:
        return [server.url for server in self.servers]

    def read_logs(self) -> str:
        return "\n".join(process.orders.log.read_text(errors="replace") for process in self._all)

    @property
    def _all(self) -> list[Process]:
        return [*self.servers, *self.workers]

    def find_faults(self) -> list[str]:
        """Find what nobody foresaw in what the processes said."""
        return [
            f"{process.name}: {found[0]}"
            for process in self._all
            if (found := FAULT.search(process.orders.log.read_text(errors="replace")))
        ]

    async def end(self) -> None:
        """Tell all to stop."""
        codes = await asyncio.gather(*(process.stop() for process in self._all))
        if wrong := [code for code in codes if code != 0]:
            raise Stuck(f"a process that was told to stop ended with {wrong[0]}")
