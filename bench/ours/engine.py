"""An engine as the commands open it, a worker for a while, and sessions to work on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

from bench.child import Options
from dialectic.app.projects import create_session
from dialectic.app.transaction import Tenant
from dialectic.contract.sessions import RunRequest
from dialectic.db.pool import Address, Database
from dialectic.db.tables.records import Account
from dialectic.engine import Engine, Failpoints
from dialectic.processes.loader import load_process
from dialectic.providers.catalog import build_catalog
from dialectic.settings import Settings
from dialectic.storage.file_store import open_store
from dialectic.worker.worker import Worker

PROMPT = "Plan a walk."
POOL_SIZE = 12  # as the command `dialectic worker` has it


@asynccontextmanager
async def open_engine(
    options: Options,
    role: str,
    *,
    settings: Settings | None = None,
    failpoints: Failpoints | None = None,
    kind: type[Database] = Database,
) -> AsyncIterator[Engine]:
    """Open the engine on a database that is migrated already."""
    address = Address(options["url"], is_embedded=True)
    settings = settings or Settings(home=Path(options["folder"]) / "home")
    async with kind.open(address, role, size=POOL_SIZE) as db:
        yield Engine(
            settings=settings,
            address=address,
            db=db,
            files=open_store(settings.storage_location, settings.storage_access),
            catalog=build_catalog(settings),
            failpoints=failpoints or Failpoints.parse(""),
        )


@asynccontextmanager
async def working(worker: Worker) -> AsyncIterator[None]:
    """Let a worker work for a while."""
    running = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.stop(at_once=True)
        await running


async def create_sessions(
    engine: Engine, account: Account, *, count: int, models: int
) -> list[UUID]:
    """Create sessions that each ask for one document by each of so many models."""
    process = load_process("standard")
    ask = RunRequest(
        prompt=PROMPT,
        models=[choose_model(engine)] * models,
        process=process,
        until=process.order[0].slug,
    )
    return [
        (await Tenant(engine, account).run(create_session, ask)).session_id for _ in range(count)
    ]


def choose_model(engine: Engine) -> str:
    """Choose any model that answers without a network."""
    return next(name for name in engine.catalog.cards if name.startswith("offline/"))
