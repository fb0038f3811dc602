"""Processes that hold much and do nothing: how much memory they take."""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from bench.child import Options
from bench.ours.engine import create_sessions, open_engine, working
from dialectic.app import sessions
from dialectic.app.transaction import Tenant
from dialectic.core.models.messages import Reply, Request
from dialectic.core.models.model import ModelCard
from dialectic.db.pool import APP_ROLE, WORKER_ROLE
from dialectic.db.tables.records import open_account
from dialectic.events.hub import open_hub
from dialectic.providers.base import OnText
from dialectic.worker.worker import Worker

MODELS_PER_SESSION = 10


@dataclass
class SilentProvider:
    """Takes calls and does not answer; tells when so many wait."""

    awaited: int
    waiting: int = 0
    has_all: asyncio.Event = field(default_factory=asyncio.Event)

    async def complete(self, card: ModelCard, request: Request, on_text: OnText) -> Reply:
        del card, request, on_text
        self.waiting += 1
        if self.waiting == self.awaited:
            self.has_all.set()
        await asyncio.Event().wait()
        raise AssertionError("nobody answers")


def read_peak_mb() -> float:
    """Read the most memory this process has had so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


async def worker_memory(options: Options) -> Mapping[str, list[float]]:
    """Let one worker wait for so many answers at a time."""
    provider = SilentProvider(options["calls"])
    async with (
        open_engine(options, APP_ROLE) as desk,
        open_engine(options, WORKER_ROLE) as bare,
    ):
        engine = replace(bare, catalog=replace(bare.catalog, providers={"offline": provider}))
        account = await open_account(desk.db, "memory")
        count = options["calls"] // MODELS_PER_SESSION
        made = await create_sessions(desk, account, count=count, models=MODELS_PER_SESSION)
        async with working(Worker(engine, concurrency=options["calls"])):
            for session_id in made:
                await Tenant(desk, account).run(sessions.generate, session_id)
            await provider.has_all.wait()
            return {"peak_mb": [read_peak_mb()]}


async def server_memory(options: Options) -> Mapping[str, list[float]]:
    """Open what serves the API, and let nobody come."""
    from dialectic.api.app import build_app

    async with (
        open_engine(options, APP_ROLE) as engine,
        open_hub(engine.address, streams_max=engine.settings.event_streams_max) as hub,
    ):
        app = build_app(engine, hub)
        assert app is not None
        return {"peak_mb": [read_peak_mb()]}
