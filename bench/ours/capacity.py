"""Many whole turns at a time, by a worker as the command has it, with models that are paid."""

from __future__ import annotations

import asyncio
import contextlib
import cProfile
import itertools
import pstats
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

from bench.child import Options, say, wait_for_go
from bench.ours.dialectic import build_document
from bench.ours.engine import PROMPT, open_engine, working
from dialectic.app import sessions
from dialectic.app.projects import create_session
from dialectic.app.transaction import Tenant
from dialectic.contract.sessions import RunRequest
from dialectic.core.models.endpoint import Endpoint, WireFormat
from dialectic.core.models.messages import FinishReason, Reply, Request, Usage, UsageSource
from dialectic.core.models.model import ModelCard
from dialectic.db.pool import APP_ROLE, WORKER_ROLE
from dialectic.db.tables.records import Account, open_account
from dialectic.engine import Engine
from dialectic.ledger import wallets
from dialectic.processes.loader import load_process
from dialectic.providers.base import OnText
from dialectic.providers.catalog import Catalog
from dialectic.providers.offline.provider import CARDS
from dialectic.worker.worker import Worker

NAME = "vendor"
SEATS = 10
TEXTS = 500
LOOK_EVERY_S = 0.2
PROFILE_ROWS = 70
# Jobs that have not ended, and files that are not in storage.
LEFT = """
    select (select count(*) from dialectic_generation_jobs where not is_ended(status))
      + (select count(*) from dialectic_files where written_at is null)
"""
# The files of turns: a project's description and its prompts are not among them.
KEPT = """
    select sum(f.size_bytes)::float8 as size, count(distinct c.id) as documents,
      (select extract(epoch from max(j.completed_at)) from dialectic_generation_jobs j)::float8
        as ended_at
    from dialectic_contributions c
    cross join lateral (
      select size_bytes from dialectic_files
      where path in (c.storage_path, c.raw_response_storage_path)
      union all
      select size_bytes from dialectic_project_resources
      where source_contribution_id = c.id
    ) f
    where c.session_id = any ($1)
"""


@dataclass
class TimedProvider:
    """Answers each call after the same time with the next text, and counts the calls."""

    latency_s: float
    texts: Sequence[str]
    calls: int = 0

    async def complete(self, card: ModelCard, request: Request, on_text: OnText) -> Reply:
        del card, on_text
        text = self.texts[self.calls % len(self.texts)]
        self.calls += 1
        request_id = f"call-{self.calls}"
        await asyncio.sleep(self.latency_s)
        return Reply(
            text=text,
            finish_reason=FinishReason.STOP,
            raw_finish_reason="stop",
            usage=Usage(
                sum(len(message.content) for message in request.messages) // 4,
                len(text) // 4,
                UsageSource.REPORTED,
            ),
            request_id=request_id,
            raw={"id": request_id, "text": text},
        )


def build_paid_catalog(provider: TimedProvider, models: int) -> Catalog:
    """Build a catalogue of models behind one endpoint, whose calls need a permit and money."""
    cards = {
        (name := f"{NAME}/model-{number}"): replace(CARDS[0], name=name)
        for number in range(1, models + 1)
    }
    endpoint = Endpoint(name=NAME, kind=WireFormat.OPENAI, base_url="http://127.0.0.1")
    return Catalog(cards, {NAME: provider}, endpoints={NAME: endpoint})


@asynccontextmanager
async def open_both(options: Options) -> AsyncIterator[tuple[Engine, Engine, TimedProvider]]:
    """Open an engine for requests and one for the worker, with the same models."""
    process = load_process("standard")
    texts = [build_document(process, options["text_bytes"], seed) for seed in range(TEXTS)]
    provider = TimedProvider(options["latency_s"], texts)
    catalog = build_paid_catalog(provider, options["models"])
    async with (
        open_engine(options, APP_ROLE) as desk,
        open_engine(options, WORKER_ROLE) as engine,
    ):
        yield replace(desk, catalog=catalog), replace(engine, catalog=catalog), provider


async def capacity(options: Options) -> dict[str, float]:
    """Say turns and processor time from a warm start until every file is in storage."""
    async with open_both(options) as (desk, engine, provider):
        account = await open_account(desk.db, "capacity")
        await desk.db.transact(
            account.tenant_id,
            lambda c: wallets.set_unlimited(c, account.wallet_id, is_unlimited=True),
        )
        first, measured = await _create(desk, account, options)
        await _start(desk, account, first)
        async with working(Worker(engine, concurrency=options["in_flight"])):
            await _wait_for_all(desk, account)
        await _start(desk, account, measured)
        await asyncio.to_thread(wait_for_go)
        calls, started_at, cpu_s = provider.calls, time.time(), time.process_time()
        with profiled(options["profile"]):
            async with working(Worker(engine, concurrency=options["in_flight"])):
                await _wait_for_all(desk, account)
        cpu_s, turns = time.process_time() - cpu_s, provider.calls - calls
        say({"turns": turns, "cpu_s": cpu_s})
        kept = await desk.db.transact(account.tenant_id, lambda c: c.fetchrow(KEPT, measured))
    assert kept is not None, "a sum is one row"
    assert kept["documents"] == turns, f"{turns} calls made {kept['documents']} documents"
    return {"wall_s": kept["ended_at"] - started_at, "bytes": kept["size"] / turns}


async def _create(
    engine: Engine, account: Account, options: Options
) -> tuple[list[UUID], list[UUID]]:
    """Create the sessions to warm up with, and those that are measured."""
    process, names = load_process("standard"), list(engine.catalog.cards)
    if "dialectics" in options:
        ask = RunRequest(prompt=PROMPT, models=names, process=process)
        warm_up, count = 1, options["dialectics"]
    else:
        seats = list(itertools.islice(itertools.cycle(names), SEATS))
        ask = RunRequest(prompt=PROMPT, models=seats, process=process, until=process.order[0].slug)
        warm_up, count = options["warm_up"] // SEATS, options["turns"] // SEATS
    made = [
        (await Tenant(engine, account).run(create_session, ask)).session_id
        for _ in range(warm_up + count)
    ]
    return made[:warm_up], made[warm_up:]


async def _start(engine: Engine, account: Account, session_ids: Sequence[UUID]) -> None:
    for session_id in session_ids:
        await Tenant(engine, account).run(sessions.generate, session_id)


async def _wait_for_all(engine: Engine, account: Account) -> None:
    """Wait until no job is left and every file is in storage."""
    while await engine.db.transact(  # noqa: ASYNC110  the last of it is written unannounced
        account.tenant_id, lambda c: c.fetchval(LEFT)
    ):
        await asyncio.sleep(LOOK_EVERY_S)


@contextlib.contextmanager
def profiled(path: str | None) -> Iterator[None]:
    """Write what each function of the main thread took to a file, if there is one to write."""
    if path is None:
        yield
        return
    # The time of the processor, not of the clock: other processes must not count.
    profile = cProfile.Profile(time.thread_time)
    profile.enable()
    yield
    profile.disable()
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with Path(path).open("w") as out:
        for order in ("tottime", "cumtime"):
            pstats.Stats(profile, stream=out).sort_stats(order).print_stats(PROFILE_ROWS)
