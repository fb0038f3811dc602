"""Workers under one rate limit, and the gate that keeps it: real processes, one account.

The gate counts over any sixty seconds, as strictly as a provider can: what would be one too many
is refused. It speaks one line each way and answers after as long as a short answer takes.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from bench.child import Options, say, serve, stopping_event, wait_for_go
from bench.ours import engine as ours
from dialectic.app import sessions
from dialectic.app.projects import create_session
from dialectic.app.transaction import Tenant
from dialectic.contract.sessions import RunRequest
from dialectic.core.models.endpoint import Endpoint, WireFormat
from dialectic.core.models.messages import FinishReason, Reply, Request, Usage, UsageSource
from dialectic.core.models.model import ModelCard
from dialectic.db.migrate import migrate
from dialectic.db.pool import APP_ROLE, WORKER_ROLE, Address
from dialectic.db.tables.records import open_account
from dialectic.engine import Engine
from dialectic.errors import ProviderThrottled
from dialectic.ledger import wallets
from dialectic.pipeline.run import run_job
from dialectic.processes.loader import load_process
from dialectic.providers.base import OnText
from dialectic.providers.catalog import Catalog
from dialectic.providers.offline.provider import CARDS
from dialectic.worker.worker import Worker

NAME = "limited"
MODEL = f"{NAME}/model"
MINUTE_S = 60.0
TEXT = "# An answer\n\nIt has a few words.\n"


@dataclass(frozen=True)
class Gated:
    """Asks the gate, and is let through or told to slow down."""

    port: int

    async def complete(self, card: ModelCard, request: Request, on_text: OnText) -> Reply:
        del card, request, on_text
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(b"?\n")
            word, _, wait_s = (await reader.readline()).decode().strip().partition(" ")
        finally:
            writer.close()
        if word != "yes":
            raise ProviderThrottled("The gate says no.", retry_after_s=float(wait_s))
        return Reply(
            TEXT, FinishReason.STOP, "stop", Usage(10, 10, UsageSource.REPORTED), None, {"ok": True}
        )


def build_gated_catalog(options: Options) -> Catalog:
    """Build a catalogue of one model behind the gate."""
    card = replace(CARDS[0], name=MODEL)
    endpoint = Endpoint(
        name=NAME,
        kind=WireFormat.OPENAI,
        base_url="http://127.0.0.1",
        requests_per_minute=options["per_minute"],
    )
    return Catalog({MODEL: card}, {NAME: Gated(options.get("port", 0))}, endpoints={NAME: endpoint})


@asynccontextmanager
async def open_engine(options: Options, role: str) -> AsyncIterator[Engine]:
    async with ours.open_engine(options, role) as engine:
        yield replace(engine, catalog=build_gated_catalog(options))


async def prepare(options: Options) -> None:
    await migrate(Address(options["url"], is_embedded=True))


async def fill(options: Options) -> None:
    """Make so many jobs that each ask for one document."""
    process = load_process("standard")
    models = 10
    async with open_engine(options, APP_ROLE) as engine:
        account = await open_account(engine.db, "one")
        # What it costs is not the question here.
        await engine.db.transact(
            account.tenant_id,
            lambda c: wallets.set_unlimited(c, account.wallet_id, is_unlimited=True),
        )
        ask = RunRequest(
            prompt=ours.PROMPT,
            models=[MODEL] * models,
            process=process,
            until=process.order[0].slug,
        )
        for _ in range(options["jobs"] // models):
            begun = await Tenant(engine, account).run(create_session, ask)
            await Tenant(engine, account).run(sessions.generate, begun.session_id)


async def work(options: Options) -> None:
    """Work until told to stop."""
    async with open_engine(options, WORKER_ROLE) as engine:
        await asyncio.to_thread(wait_for_go)
        worker = Worker(engine, concurrency=64, run_job=run_job)
        async with ours.working(worker):
            await stopping_event().wait()


async def gate(options: Options) -> dict[str, float]:
    """Let no more than so many through in any minute; at the end say what was asked and allowed."""
    passed: deque[float] = deque()
    times: list[float] = []
    refused = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal refused
        await reader.readline()
        now = time.monotonic()
        while passed and passed[0] <= now - MINUTE_S:
            passed.popleft()
        if len(passed) >= options["per_minute"]:
            refused += 1
            writer.write(f"no {passed[0] + MINUTE_S - now:.3f}\n".encode())
        else:
            passed.append(now)
            times.append(now)
            await asyncio.sleep(options["latency_s"])
            writer.write(b"yes\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    say({"port": server.sockets[0].getsockname()[1]})
    await stopping_event().wait()
    ended = time.monotonic()
    server.close()
    counted_from = (times[0] if times else 0.0) + options["warm_up_s"]
    return {
        "asked": len(times) + refused,
        "refused": refused,
        "counted": sum(1 for at in times if at >= counted_from),
        "counted_s": ended - counted_from,
    }


ACTIONS = {"prepare": prepare, "fill": fill, "work": work, "gate": gate}

if __name__ == "__main__":
    serve(ACTIONS)
