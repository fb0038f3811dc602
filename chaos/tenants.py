"""Requests of fifty tenants, interleaved on four connections and broken off at random.

Each request comes in with the token of its tenant, looks at rows of every kind that a request
meets, tries to reach a row of another tenant by its id, and leaves one row, under an
`Idempotency-Key`. Many are broken off: by an error, by a client that goes away at any moment, by a
connection that the server drops. At last every request is sent again, as a client would. Nobody may
ever have seen a row of another one, and every request must have been done once.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

import asyncpg

from chaos.lab import Lab, open_lab
from chaos.sabotage import NONE, Sabotage
from chaos.verdict import Report
from dialectic.app import accounts
from dialectic.app.accounts import build_owner
from dialectic.app.idempotency import run_once
from dialectic.core.access import Caller
from dialectic.db.pool import APP_ROLE, Connection, Database
from dialectic.db.tables.idempotency import StoredResponse
from dialectic.errors import Conflict

TENANTS = 50
CONNECTIONS = 4
AT_ONCE = 24
REQUESTS_PER_MINUTE = 1_000_000
# Of a hundred requests: errors in the middle, clients that go away, connections that are dropped.
ERRORS, GONE, DROPPED = 15, 14, 1
TURNS_MAX = 60
LOOK = """
select 'tenants' as place, id as tenant_id from tenants
union all select 'memberships', tenant_id from memberships
union all select 'access_tokens', tenant_id from access_tokens
union all select 'idempotency_keys', tenant_id from idempotency_keys
union all select 'token_wallets', tenant_id from token_wallets
union all select 'dialectic_domains', tenant_id from dialectic_domains
"""
REACH = "select tenant_id from dialectic_domains where id = $1"
LEAVE = """
insert into dialectic_domains (tenant_id, id, name, description) values ($1, $2, $2::uuid::text, $3)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many requests in all."""

    requests: int


SMALL = Size(requests=200)
SELECTION = Size(requests=2_000)
FULL = Size(requests=10_000)


@dataclass(frozen=True, slots=True)
class Visitor:
    """A tenant and the token it comes with."""

    tenant_id: UUID
    token: str


@dataclass(slots=True)
class Seen:
    """What requests came upon that they must not."""

    foreign: list[str] = field(default_factory=list)
    misled: list[str] = field(default_factory=list)
    # One row of each tenant, for others to ask for.
    rows: dict[UUID, UUID] = field(default_factory=dict)
    broken_off: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """One request, and what becomes of it at its first try."""

    number: int
    visitor: Visitor
    fails: bool
    dropped: bool
    # After so many turns of the loop its client is gone.
    gone_after: int | None

    @property
    def key(self) -> str:
        return f"request {self.number}"


async def run(report: Report, size: Size, sabotage: Sabotage = NONE) -> None:
    """Send requests, break many off, send all of them again; then count."""
    async with open_lab(report, sabotage=sabotage) as lab:
        visitors = [await _let_in(lab.engine.db, number) for number in range(TENANTS)]
        requests = [_draw(lab.rng, number, visitors) for number in range(size.requests)]
        seen = Seen()
        async with Database.open(lab.address, APP_ROLE, size=CONNECTIONS) as db:
            await _send_all(db, requests, seen, breaks_off=True)
            report.note("requests", size.requests)
            report.note("broken off", seen.broken_off)
            await _send_all(db, requests, seen, breaks_off=False)
        report.expect_none("rows of another tenant that were seen", seen.foreign)
        report.expect_none("requests that acted for another tenant", seen.misled)
        await _count(lab, requests)


async def _let_in(db: Database, number: int) -> Visitor:
    owner = build_owner(await accounts.add_user(db, f"tenant {number}"))
    issued = await accounts.issue_token(db, owner, name="chaos")
    return Visitor(owner.tenant_id, issued.secret.reveal())


def _draw(rng: Random, number: int, visitors: list[Visitor]) -> Request:
    fate = rng.randrange(100)
    return Request(
        number,
        rng.choice(visitors),
        fails=fate < ERRORS,
        dropped=ERRORS <= fate < ERRORS + DROPPED,
        gone_after=(
            rng.randrange(TURNS_MAX) if ERRORS + DROPPED <= fate < ERRORS + DROPPED + GONE else None
        ),
    )


async def _send_all(db: Database, requests: list[Request], seen: Seen, *, breaks_off: bool) -> None:
    left = iter(requests)

    async def send_some() -> None:
        for request in left:
            if breaks_off:
                await _send_once(db, request, seen)
            else:
                await _send(db, request, seen, breaks_off=False)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(send_some())


async def _send_once(db: Database, request: Request, seen: Seen) -> None:
    sending = asyncio.create_task(_send(db, request, seen, breaks_off=True))
    if request.gone_after is not None:
        for _ in range(request.gone_after):
            await asyncio.sleep(0)
        sending.cancel()
    try:
        await sending
    except (Conflict, asyncio.CancelledError):
        seen.broken_off += 1


async def _send(db: Database, request: Request, seen: Seen, *, breaks_off: bool) -> None:
    visitor = request.visitor
    caller = await accounts.authenticate(db, visitor.token, requests_per_minute=REQUESTS_PER_MINUTE)
    if caller.tenant_id != visitor.tenant_id:
        seen.misled.append(request.key)
    is_dropped = False

    async def work(connection: Connection, effect_id: UUID) -> StoredResponse:
        nonlocal is_dropped
        await _look_around(connection, caller, seen)
        await connection.execute(LEAVE, caller.tenant_id, effect_id, request.key)
        if breaks_off and request.dropped and not is_dropped:
            is_dropped = True
            with contextlib.suppress(asyncpg.PostgresError, ConnectionError):
                await connection.execute("select pg_terminate_backend(pg_backend_pid())")
        if breaks_off and request.fails:
            raise Conflict
        return StoredResponse(201, effect_id.bytes)

    asked = hashlib.sha256(request.key.encode()).digest()
    answer = await run_once(db, caller, request.key, asked, work)
    seen.rows[caller.tenant_id] = UUID(bytes=answer.body)


async def _look_around(connection: Connection, caller: Caller, seen: Seen) -> None:
    for row in await connection.fetch(LOOK):
        if row["tenant_id"] != caller.tenant_id:
            seen.foreign.append(f"{caller.tenant_id}: {row['place']} of {row['tenant_id']}")
    for tenant_id, row_id in list(seen.rows.items())[:1]:
        found = await connection.fetchval(REACH, row_id)
        if found is not None and tenant_id != caller.tenant_id:
            seen.foreign.append(f"{caller.tenant_id}: row {row_id} of {tenant_id}, by its id")


async def _count(lab: Lab, requests: list[Request]) -> None:
    rows = await lab.fetch(
        "select tenant_id, description as key, count(*) from dialectic.dialectic_domains"
        " group by 1, 2"
    )
    found = {(row["tenant_id"], row["key"]): row["count"] for row in rows}
    wanted = {(request.visitor.tenant_id, request.key) for request in requests}
    wrong = [f"{key} of {tenant}" for tenant, key in wanted if found.get((tenant, key), 0) != 1]
    lab.report.expect_none("requests that were not done exactly once", wrong)
    strays = [f"{key} of {tenant}" for tenant, key in found.keys() - wanted]
    lab.report.expect_none("rows that nobody asked for", strays)
