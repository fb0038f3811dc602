"""What becomes of planted points in whole sessions with seeded agents, through the product."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

from bench.child import Options
from bench.ours.engine import open_engine, working
from dialectic.app import contributions, sessions
from dialectic.app.projects import create_session
from dialectic.app.transaction import Tenant
from dialectic.contract.sessions import RunRequest
from dialectic.db.pool import APP_ROLE, WORKER_ROLE
from dialectic.db.tables.records import Account, open_account
from dialectic.engine import Engine
from dialectic.ledger import wallets
from dialectic.processes.loader import load_process
from dialectic.settings import Settings
from dialectic.worker.worker import Worker
from dialectic_simulator import Simulator, open_simulator
from dialectic_simulator.world import World

PROMPT = (
    "Plan how a village hall takes bookings. Volunteers run it in an hour a week, and it must cost "
    "under 40 euros a month."
)
ENDPOINT = """
[endpoints.sim]
kind = "openai"
base_url = "{url}"
"""
MODEL = """
[endpoints.sim.models.{name}]
context_window_tokens = 128000
max_output_tokens = 16000
input_usd_per_million = 1
output_usd_per_million = 2
tokenizer = "chars:4"
"""
POLL_S = 0.05


async def outcome(options: Options) -> dict[str, Any]:
    """Run one session for each seed; tell which points each of its documents states and rejects."""
    return {"runs": [await _run(options, seed) for seed in options["seeds"]]}


async def _run(options: Options, seed: int) -> dict[str, Any]:
    names = list(options["agents"])
    script = {
        "seed": seed,
        "models": {"*": {"tokenizer": "chars:4"}},
        "world": options["world"],
        "agents": options["agents"],
    }
    async with open_simulator(script) as simulator:
        settings = _configure(Path(options["folder"]) / f"home-{seed}", simulator, names)
        async with open_engine(options, APP_ROLE, settings=settings) as app:
            account = await open_account(app.db, f"seed {seed}")
            await app.db.transact(
                account.tenant_id,
                lambda c: wallets.set_unlimited(c, account.wallet_id, is_unlimited=True),
            )
            session_id = await _play(options, settings, app, account, names)
            documents = await _list_documents(app, account, session_id)
        world = simulator.script.draw_world()
        assert world is not None, "the script has one"
        report = simulator.report()
        return {
            "calls": len([call for call in simulator.log.calls if call.route == "chat"]),
            "tokens": report.total.input_tokens + report.total.output_tokens,
            "wrong": [point.id for point in world.points if point.is_wrong],
            "documents": [_describe(world, document) for document in documents],
        }


def _configure(home: Path, simulator: Simulator, names: Sequence[str]) -> Settings:
    home.mkdir(parents=True)
    models = "".join(MODEL.format(name=name) for name in names)
    (home / "config.toml").write_text(ENDPOINT.format(url=simulator.base_url("openai")) + models)
    return Settings.load({"DIALECTIC_HOME": str(home)})


async def _play(
    options: Options, settings: Settings, app: Engine, account: Account, names: Sequence[str]
) -> UUID:
    """Run a session to its end."""
    ask = RunRequest(
        prompt=PROMPT,
        models=[f"sim/{name}" for name in names],
        process=load_process(options["process"]),
    )
    session_id = (await Tenant(app, account).run(create_session, ask)).session_id
    async with open_engine(options, WORKER_ROLE, settings=settings) as engine:
        worker = Worker(replace(engine, processes=app.processes), concurrency=16)
        async with working(worker):
            await worker.wait_until_listening()
            await Tenant(app, account).run(sessions.generate, session_id)
            while (phase := await _load_phase(app, account, session_id)) != "iteration_complete":
                assert phase not in ("failed", "cancelled"), f"the session has {phase}"
                await asyncio.sleep(POLL_S)
    return session_id


async def _load_phase(engine: Engine, account: Account, session_id: UUID) -> str:
    query = "select phase from dialectic_sessions where id = $1"
    phase: str = await engine.db.transact(
        account.tenant_id, lambda c: c.fetchval(query, session_id)
    )
    return phase


async def _list_documents(
    engine: Engine, account: Account, session_id: UUID
) -> list[Mapping[str, Any]]:
    """List all documents of a session with their texts."""
    query = """
        select id from dialectic_contributions where session_id = $1
        order by created_at, id
    """
    rows = await engine.db.transact(account.tenant_id, lambda c: c.fetch(query, session_id))
    tenant = Tenant(engine, account)
    found = [await tenant.run(contributions.get, row["id"]) for row in rows]
    return [document.model_dump(mode="json") for document in found]


def _describe(world: World, document: Mapping[str, Any]) -> dict[str, Any]:
    found = world.read(document["content"])
    return {
        "id": document["id"],
        "type": document["type"],
        "seat": document["seat"],
        "about": document["about_id"],
        "states": sorted(found.states),
        "rejects": sorted(found.rejects),
    }
