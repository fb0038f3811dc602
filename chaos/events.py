"""Many clients follow events that commit late, hang up at random, and lose their server twice.

None may miss an event, be told one twice, or see another order than the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from uuid import UUID

from chaos.event_clients import Client, follow_all
from chaos.event_server import allow_many_files, listen
from chaos.lab import ROOT, Lab, Stuck, open_lab
from chaos.sabotage import NONE, Sabotage
from chaos.verdict import Report
from dialectic.contract.events import SessionEvent
from dialectic.core.stream_position import format_id
from dialectic.db.pool import Connection
from dialectic.db.tables import records
from dialectic.db.tables.notifications import read_events

WRITERS = 4
PARTS = 5
ROLLED_BACK = 0.1
START_MAX_S = 60.0


@dataclass(frozen=True, slots=True)
class Size:
    clients: int
    events: int
    # How long it takes to write them all, about.
    writing_s: float
    # How long a client keeps a line on average.
    line_s: float
    # Between its writing and its commit an event waits up to this long.
    late_s: float = 0.4
    patience_s: float = 60.0


SMALL = Size(clients=50, events=40, writing_s=2.0, line_s=1.0, late_s=0.2)
SABOTAGED = Size(clients=10, events=40, writing_s=2.0, line_s=1.0, late_s=0.2, patience_s=5.0)
SELECTION = Size(clients=1000, events=120, writing_s=40.0, line_s=12.0)
FULL = Size(clients=1000, events=240, writing_s=60.0, line_s=10.0, patience_s=90.0)


@dataclass(slots=True)
class Serving:
    """The server as a process, on a port that stays the same."""

    lab: Lab
    port: int
    process: subprocess.Popen[str] | None = None

    async def start(self) -> None:
        self.process = self._launch()
        assert self.process.stdout is not None
        said = await asyncio.wait_for(
            asyncio.to_thread(self.process.stdout.readline), timeout=START_MAX_S
        )
        if said != "ready\n":
            raise Stuck(f"the server of events did not start: {said!r}")

    def _launch(self) -> subprocess.Popen[str]:
        arguments = [self.lab.address.url, str(self.port), str(self.lab.home)]
        with (self.lab.logs / "event-server.log").open("a") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "chaos.event_server", *arguments, self.lab.sabotage.name],
                cwd=ROOT,
                env=self.lab.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    async def end(self, number: int) -> int:
        """Send a signal and wait for the end; return its code."""
        assert self.process is not None
        self.process.send_signal(number)
        code = await asyncio.to_thread(self.process.wait, START_MAX_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@contextlib.asynccontextmanager
async def serving(lab: Lab) -> AsyncIterator[Serving]:
    with contextlib.closing(listen(0)) as free:
        port: int = free.getsockname()[1]
    server = Serving(lab, port)
    await server.start()
    try:
        yield server
    finally:
        if server.process is not None and server.process.poll() is None:
            await server.end(signal.SIGKILL)


async def run(report: Report, size: Size, sabotage: Sabotage = NONE) -> None:
    allow_many_files()
    async with open_lab(report, sabotage=sabotage) as lab, serving(lab) as server:
        writing = Writing(lab, await lab.order(models_times=1, starts=False), size)
        clients = await _gather_clients(lab, server.port, size)
        following = asyncio.create_task(follow_all(clients))
        await writing.write_part()
        await asyncio.gather(_replace(server, signal.SIGKILL), writing.write_part())
        await writing.write_part()
        code, _ = await asyncio.gather(_replace(server, signal.SIGTERM), writing.write_part())
        await writing.write_part()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(following, size.patience_s)
        _check(report, clients, writing.written)
        report.expect("code of the server that was told to stop", code, 0)


async def _gather_clients(lab: Lab, port: int, size: Size) -> list[Client]:
    async def find_last(connection: Connection) -> int:
        return (await read_events(connection, after_seq=0, limit=0)).last_seq

    tenant_id = lab.account.tenant_id
    first_id = format_id(tenant_id, await lab.engine.db.transact(tenant_id, find_last))
    return [
        Client(port, Random(lab.rng.random()), size.events, first_id, size.line_s)
        for _ in range(size.clients)
    ]


async def _replace(server: Serving, number: int) -> int:
    """End the server and start its successor; return the code it ended with."""
    code = await server.end(number)
    server.lab.report.say(f"the server ended with {code}")
    await server.start()
    server.lab.report.say("its successor serves")
    return code


class Undone(Exception):
    """What was written is taken back."""


class News(SessionEvent):
    type = "news"

    word: str


@dataclass(slots=True)
class Writing:
    """Events written by several hands: some commit late, some never."""

    lab: Lab
    session_id: UUID
    size: Size
    written: list[str] = field(default_factory=list)

    async def write_part(self) -> None:
        """Write the next fifth of all events."""
        first, count = len(self.written), self.size.events // PARTS
        words = iter([str(first + n) for n in range(count)])

        async def write(rng: Random) -> None:
            for word in words:
                if rng.random() < ROLLED_BACK:
                    with contextlib.suppress(Undone):
                        await self._tell(f"{word}, taken back", rng, is_undone=True)
                await self._tell(word, rng)
                self.written.append(word)
                pause_s = self.size.writing_s * WRITERS / self.size.events
                await asyncio.sleep(rng.uniform(0, 2) * pause_s)

        await asyncio.gather(*(write(Random(self.lab.rng.random())) for _ in range(WRITERS)))

    async def _tell(self, word: str, rng: Random, *, is_undone: bool = False) -> None:
        async def work(connection: Connection) -> None:
            await records.record_event(connection, News(session_id=self.session_id, word=word))
            await asyncio.sleep(rng.uniform(0, self.size.late_s))
            if is_undone:
                raise Undone

        await self.lab.engine.db.transact(self.lab.account.tenant_id, work)


def _check(report: Report, clients: Sequence[Client], written: Sequence[str]) -> None:
    orders = [
        [frame.data["data"]["word"] for frame in c.seen if frame.kind == "news"] for c in clients
    ]
    wanted = set(written)
    report.note("clients", len(clients))
    report.note("events", len(written))
    report.note("lines that clients had", sum(client.lines for client in clients))
    report.note("times nobody answered", sum(client.refusals for client in clients))
    report.expect_none(
        "clients that missed an event",
        [
            f"client {n} missed {len(wanted - set(o))}"
            for n, o in enumerate(orders)
            if wanted - set(o)
        ],
    )
    report.expect_none(
        "clients that were told one twice, or one that never was",
        [f"client {n}" for n, o in enumerate(orders) if len(set(o)) < len(o) or set(o) - wanted],
    )
    report.expect_none(
        "clients that saw numbers out of order",
        [
            f"client {n}"
            for n, client in enumerate(clients)
            if any(a.data["id"] >= b.data["id"] for a, b in pairwise(client.seen) if "id" in b.data)
        ],
    )
    whole = [order for order in orders if len(order) == len(written)]
    report.expect_at_most("orders that were seen", len({tuple(order) for order in whole}), 1)
    report.expect_none(
        "clients that were given a state",
        [c for c in clients if any(f.kind == "state" for f in c.seen)],
    )
