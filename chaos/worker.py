"""A worker under observation, run in a process of its own.

It is the product's worker on the product's offline models; what is added is that a call takes a
while, that each call is written down before it is made, and that each answer names its call.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import time
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from random import Random

from chaos import sabotage
from dialectic.cli.terminal import load_settings, run_async
from dialectic.core.models.messages import Reply, Request
from dialectic.core.models.model import ModelCard
from dialectic.db.pool import WORKER_ROLE
from dialectic.engine import open_engine
from dialectic.providers.base import OnText, Provider
from dialectic.providers.catalog import Catalog, build_catalog
from dialectic.publishing import publish
from dialectic.worker.worker import Worker

READY = "chaos: ready"
STARVED = "chaos: starved"
# After how long a file counts as left behind by whoever should have written it.
LEFT_BEHIND_S = publish.LEFT_BEHIND_AFTER.total_seconds()
ORDER = re.compile(r"\bOrder (\d+):")


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What a worker is told when it starts."""

    name: str
    log: Path
    calls: Path
    environment: dict[str, str]
    concurrency: int
    latency_ms: tuple[int, int]
    seed: int
    sabotage: str
    left_behind_s: float
    # For how long the event loop is blocked at a time, at most; never if 0.
    starved_s: float = 0.0


@dataclass(slots=True)
class ObservedProvider:
    """Answers as another provider does, later, and leaves a trace of every call on disk."""

    inner: Provider
    name: str
    calls: Path
    latency_s: tuple[float, float]
    rng: Random
    count: int = field(default=0)

    async def complete(self, card: ModelCard, request: Request, on_text: OnText) -> Reply:
        self.count += 1
        mark = f"{self.name}-{self.count}"
        found = ORDER.search("\n".join(message.content for message in request.messages))
        append_line(self.calls, f"{mark} {found[1] if found else 0}")
        await asyncio.sleep(self.rng.uniform(*self.latency_s))
        reply = await self.inner.complete(card, request, on_text)
        # Two calls never give the same bytes, so that a write by the wrong one can be seen.
        return replace(
            reply,
            text=f"{reply.text}\n\nWritten by call {mark}.\n",
            request_id=mark,
            raw={**reply.raw, "id": mark},
        )


def append_line(path: Path, line: str) -> None:
    """Write a line that outlives the process, whole or not at all."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{line}\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def observe(catalog: Catalog, orders: Orders) -> Catalog:
    low, high = (milliseconds / 1000 for milliseconds in orders.latency_ms)
    rng = Random(f"{orders.seed}:{orders.name}")
    observed: dict[str, Provider] = {
        name: ObservedProvider(provider, orders.name, orders.calls, (low, high), rng)
        for name, provider in catalog.providers.items()
    }
    return replace(catalog, providers=observed)


async def work(orders: Orders) -> int:
    settings = load_settings()
    catalog = observe(build_catalog(settings), orders)
    async with open_engine(settings, catalog, role=WORKER_ROLE) as engine:
        worker = Worker(engine, concurrency=orders.concurrency, name=orders.name)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, worker.stop)
        running = asyncio.create_task(worker.run())
        await asyncio.wait(
            {running, asyncio.create_task(worker.wait_until_listening())},
            return_when=asyncio.FIRST_COMPLETED,
        )
        print(READY, flush=True)
        starving = asyncio.create_task(starve(orders))
        try:
            await running
        finally:
            starving.cancel()
    return 0


async def starve(orders: Orders) -> None:
    """Block the event loop at random, as a busy machine does."""
    rng = Random(f"starved:{orders.seed}:{orders.name}")
    while orders.starved_s:
        await asyncio.sleep(rng.uniform(0.0, orders.starved_s))
        time.sleep(rng.uniform(orders.starved_s / 2, orders.starved_s))  # noqa: ASYNC251
        print(STARVED, flush=True)


def run_forked(orders: Orders) -> None:
    """Become a worker: the whole life of the process."""
    os.setsid()
    os.environ.clear()
    os.environ.update(orders.environment)
    with orders.log.open("ab") as log:
        for number in (1, 2):
            os.dup2(log.fileno(), number)
    publish.LEFT_BEHIND_AFTER = timedelta(seconds=orders.left_behind_s)
    sabotage.load(orders.sabotage).patch()
    sys.exit(run_async(work(orders)))
