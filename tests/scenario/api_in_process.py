"""The API in this process: an engine, two tenants with their tokens, and their clients."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx2
from fastapi import FastAPI
from starlette.datastructures import State

from dialectic.api.app import FORM_MAX_S, PING_S, build_api, build_app
from dialectic.app import accounts, sessions
from dialectic.app.changes import build_source
from dialectic.app.transaction import Tenant
from dialectic.core.access import Scope
from dialectic.core.job import ENDED, WAITING, JobStatus
from dialectic.db.pool import APP_ROLE, WORKER_ROLE, Address, Database
from dialectic.db.tables.records import Account
from dialectic.engine import Engine
from dialectic.events.hub import Hub, open_hub
from dialectic.ledger import wallets
from dialectic.ledger.wallets import Deposit
from dialectic.providers.catalog import Catalog, build_catalog
from dialectic.settings import Settings
from dialectic.worker.worker import Worker
from tests.conftest import build_engine
from tests.waiting import PATIENCE_S, until

PROMPT = "A booking service for a village hall that volunteers can run in an hour a week."


@dataclass(frozen=True, slots=True)
class ApiUser:
    """A user, their token, and a client that sends it."""

    account: Account
    token: str
    client: httpx2.AsyncClient

    async def make_project(self, **wishes: Any) -> dict[str, Any]:
        return await self.post("/projects", {"prompt": PROMPT, **wishes})

    async def make_session(self, **wishes: Any) -> dict[str, Any]:
        project = await self.make_project()
        wish = {"models": ["offline/skeptic"], "until": "thesis", **wishes}
        return await self.post(f"/projects/{project['id']}/sessions", wish)

    async def post(self, path: str, body: Any = None, **more: Any) -> dict[str, Any]:
        answer = await self.client.post(path, json=body, **more)
        assert answer.is_success, answer.text
        return dict(answer.json())

    async def get(self, path: str, **parameters: Any) -> dict[str, Any]:
        answer = await self.client.get(path, params=parameters)
        assert answer.is_success, answer.text
        return dict(answer.json())


@dataclass(frozen=True, slots=True)
class Api:
    """A server that was not started: its application, and who knocks."""

    engine: Engine
    worker_engine: Engine
    hub: Hub
    app: Any
    anna: ApiUser
    ben: ApiUser
    # Where archives are on their way in and out.
    drafts: Path

    def connect(self, **headers: str) -> httpx2.AsyncClient:
        """A client without a user, with any headers."""
        return open_client(self.app, headers)

    def come_back(self, account: Account, token: str) -> ApiUser:
        """A guest of an earlier time, by their token."""
        return ApiUser(account, token, open_client(self.app, {"Authorization": f"Bearer {token}"}))

    async def enter(self, user: ApiUser, organization: UUID) -> ApiUser:
        """A member of an organisation there, with a token for it that has every scope."""
        inside = replace(user.account, tenant_id=organization)
        issued = await accounts.issue_token(
            self.engine.db, accounts.build_owner(inside), name="test", scopes=None
        )
        return self.come_back(inside, issued.secret.reveal())

    async def work(self, user: ApiUser, session_id: str) -> None:
        """Work until nothing of a session is left that could be worked on."""
        await self._work(user, session_id, ENDED)

    async def work_until_paused(self, user: ApiUser, session_id: str) -> None:
        """Work until what is left of a session waits for a person."""
        await self._work(user, session_id, ENDED | WAITING | {JobStatus.PAUSED})

    async def _work(self, user: ApiUser, session_id: str, resting: frozenset[JobStatus]) -> None:
        worker = Worker(self.worker_engine, concurrency=8)
        working = asyncio.create_task(worker.run())

        async def rests() -> bool:
            overview = await Tenant(self.engine, user.account).run(
                sessions.get_detail, UUID(session_id)
            )
            statuses = {job.status for job in overview.jobs} - resting
            # What waits for others stands still if all of those do.
            return not statuses or statuses - WAITING == {JobStatus.PAUSED}

        try:
            await until(self.engine.address, rests, patience_s=PATIENCE_S)
        finally:
            worker.stop()
            await asyncio.wait_for(working, PATIENCE_S)

    async def fund(self, user: ApiUser, amount_credits: int = 1_000_000) -> None:
        """Put a dollar, or another amount, into a guest's wallet."""
        deposit = Deposit(key=str(uuid4()), amount_credits=amount_credits)
        account = user.account
        await self.engine.db.transact(
            account.tenant_id, lambda c: wallets.top_up(c, account.wallet_id, deposit)
        )

    async def let_in(self, name: str = "", scopes: set[Scope] | None = None) -> ApiUser:
        return await let_in(self.engine, self.app, name or f"guest {uuid4().hex}", scopes)


def open_client(app: Any, headers: dict[str, str]) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(app, raise_app_exceptions=True)
    return httpx2.AsyncClient(
        transport=transport, base_url="http://house.test/api/v1", headers=headers
    )


async def let_in(engine: Engine, app: Any, name: str, scopes: set[Scope] | None = None) -> ApiUser:
    account = await accounts.add_user(engine.db, name)
    issued = await accounts.issue_token(
        engine.db, accounts.build_owner(account), name="test", scopes=scopes
    )
    token = issued.secret.reveal()
    return ApiUser(account, token, open_client(app, {"Authorization": f"Bearer {token}"}))


@functools.cache
def load_api() -> FastAPI:
    return build_api()


def copy_api() -> FastAPI:
    """The routes, which take half a second to build, for an application with a state of its own."""
    api = copy.copy(load_api())
    api.state, api.middleware_stack = State(), None
    return api


@asynccontextmanager
async def open_api(
    address: Address,
    home: Path,
    catalog: Catalog | None = None,
    *,
    patience_s: float = 30.0,
    ping_s: float = PING_S,
    form_max_s: float = FORM_MAX_S,
    **settings: Any,
) -> AsyncIterator[Api]:
    """Open the API on a database, which may have been used before."""
    chosen = replace(Settings(home=home, lease_s=1.2, requests_per_minute=1_000_000), **settings)
    catalog = catalog or build_catalog(chosen)
    async with (
        Database.open(address, APP_ROLE, size=5, patience_s=patience_s) as db,
        Database.open(address, WORKER_ROLE, size=5, patience_s=30.0) as worker_db,
        contextlib.AsyncExitStack() as stack,
    ):
        engine = build_engine(address, chosen, catalog, db)
        hub = await stack.enter_async_context(open_hub(address, source=build_source(engine)))
        drafts = home / "drafts"
        drafts.mkdir(parents=True, exist_ok=True)
        app = build_app(
            engine,
            hub,
            listens_at="0.0.0.0",
            api=copy_api(),
            drafts=drafts,
            ping_s=ping_s,
            form_max_s=form_max_s,
        )
        anna = await let_in(engine, app, f"anna {uuid4().hex}")
        ben = await let_in(engine, app, f"ben {uuid4().hex}")
        async with anna.client, ben.client:
            yield Api(engine, replace(engine, db=worker_db), hub, app, anna, ben, drafts)
