"""The same request, however often and wherever it breaks off: one effect and equal answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import count
from uuid import UUID

import asyncpg
import pytest

from dialectic.app import accounts
from dialectic.app.accounts import build_owner
from dialectic.app.idempotency import LongRequests, run_once
from dialectic.core.access import Caller
from dialectic.core.job import Job
from dialectic.db.pool import APP_ROLE, WORKER_ROLE, Address, Connection, Database, open_session
from dialectic.db.tables import accounts as account_store
from dialectic.db.tables import idempotency
from dialectic.db.tables.idempotency import Claim, RequestKey, StoredResponse
from dialectic.engine import Engine
from dialectic.errors import Conflict, InProgress, KeyReused
from dialectic.postgres import embedded
from tests.database.connections import connected, undone
from tests.database.job_table import database_of_a_module, working
from tests.waiting import until

REQUEST, OTHER_REQUEST = b"\1" * 32, b"\2" * 32
KEY = "7b1f0e9c"
LEASE = timedelta(seconds=30)
LAPSED = timedelta(0)
_names = (f"user {n}" for n in count())


@pytest.fixture(scope="module")
def address(server: embedded.Server, template: str) -> Iterator[Address]:
    """One database for all of these tests; each has a user of its own."""
    with database_of_a_module(server, template) as made:
        yield made


@pytest.fixture
async def db(address: Address) -> AsyncIterator[Database]:
    async with Database.open(address, APP_ROLE, size=8) as opened:
        yield opened


@pytest.fixture
async def caller(db: Database) -> Caller:
    return build_owner(await accounts.add_user(db, next(_names)))


async def make_domain(connection: Connection, effect_id: UUID) -> StoredResponse:
    """An effect: a row that is there or is not, and whose id only chance can repeat."""
    row = await connection.fetchrow(
        "insert into dialectic_domains (tenant_id, id, name)"
        " values (dialectic.current_tenant(), gen_random_uuid(), $1) returning id",
        str(effect_id),
    )
    assert row is not None
    return StoredResponse(201, row["id"].bytes, {"location": f"/things/{row['id']}"})


async def count_effects(db: Database, caller: Caller) -> int:
    async def work(connection: Connection) -> int:
        return int(await connection.fetchval("select count(*) from dialectic_domains"))

    return await db.transact(caller.tenant_id, work)


# -- in one commit ---------------------------------------------------------------------------------


async def test_fifty_equal_requests_at_once_are_one_effect_and_fifty_equal_answers(
    db: Database, caller: Caller
) -> None:
    answers = await asyncio.gather(
        *(run_once(db, caller, KEY, REQUEST, make_domain) for _ in range(50))
    )
    assert len({(a.status, a.body, a.headers["location"]) for a in answers}) == 1
    assert sum(not answer.is_repeated for answer in answers) == 1
    assert await count_effects(db, caller) == 1


async def test_the_same_key_with_another_request_is_refused_and_does_nothing(
    db: Database, caller: Caller
) -> None:
    first = await run_once(db, caller, KEY, REQUEST, make_domain)
    with pytest.raises(KeyReused) as refused:
        await run_once(db, caller, KEY, OTHER_REQUEST, make_domain)
    assert refused.value.status == 422
    assert await run_once(db, caller, KEY, REQUEST, make_domain) == first
    assert await count_effects(db, caller) == 1


async def test_requests_without_a_key_are_each_done(db: Database, caller: Caller) -> None:
    for _ in range(2):
        await run_once(db, caller, None, REQUEST, make_domain)
    assert await count_effects(db, caller) == 2


async def test_a_key_belongs_to_its_user_and_tenant(db: Database, caller: Caller) -> None:
    other = build_owner(await accounts.add_user(db, next(_names)))
    mine, theirs = [await run_once(db, who, KEY, REQUEST, make_domain) for who in (caller, other)]
    assert mine.body != theirs.body
    organization = await db.transact(
        caller.tenant_id, lambda c: accounts.create_organization(c, caller, "Bakers")
    )
    there = replace(caller, tenant_id=organization)
    assert (await run_once(db, there, KEY, REQUEST, make_domain)).body != mine.body


async def test_an_effect_that_fails_leaves_nothing_and_may_be_tried_again(
    db: Database, caller: Caller
) -> None:
    async def fail(connection: Connection, effect_id: UUID) -> StoredResponse:
        await make_domain(connection, effect_id)
        raise Conflict

    with pytest.raises(Conflict):
        await run_once(db, caller, KEY, REQUEST, fail)
    assert await count_effects(db, caller) == 0
    assert (await run_once(db, caller, KEY, OTHER_REQUEST, make_domain)).status == 201


async def test_a_process_that_dies_before_its_commit_leaves_nothing(
    address: Address, db: Database, caller: Caller
) -> None:
    dying = await open_session(address, APP_ROLE)
    await dying.execute(f"begin; select set_config('dialectic.tenant', '{caller.tenant_id}', true)")
    claimed = await idempotency.claim(dying, RequestKey(caller.user_id, KEY, REQUEST))
    assert isinstance(claimed, Claim)
    await make_domain(dying, claimed.effect_id)
    # Another one is already at the door when it dies.
    waiting = asyncio.create_task(run_once(db, caller, KEY, REQUEST, make_domain))
    dying.terminate()
    answer = await waiting
    assert not answer.is_repeated
    assert await count_effects(db, caller) == 1


async def test_a_commit_whose_answer_was_lost_is_not_done_again(
    db: Database, admin: asyncpg.Connection[asyncpg.Record], caller: Caller
) -> None:
    tries = []

    async def work(connection: Connection, effect_id: UUID) -> StoredResponse:
        tries.append(effect_id)
        answer = await make_domain(connection, effect_id)
        if len(tries) == 1:
            # The server drops the line; the transaction is gone and tried again.
            pid = await connection.fetchval("select pg_backend_pid()")
            await admin.execute("select pg_terminate_backend($1, 5000)", pid)
        return answer

    answer = await run_once(db, caller, KEY, REQUEST, work)
    assert len(tries) == 2
    assert await run_once(db, caller, KEY, REQUEST, work) == answer
    assert await count_effects(db, caller) == 1


async def test_a_duplicate_that_waits_too_long_is_told_that_it_is_in_progress(
    address: Address, db: Database, admin: asyncpg.Connection[asyncpg.Record], caller: Caller
) -> None:
    patience = "alter function claim_key set lock_timeout = '{}'"
    await admin.execute(patience.format("20ms"))
    try:
        async with connected(address, APP_ROLE) as slow, undone(slow):
            await slow.execute(
                "select set_config('dialectic.tenant', $1, true)", str(caller.tenant_id)
            )
            await idempotency.claim(slow, RequestKey(caller.user_id, KEY, REQUEST))
            with pytest.raises(InProgress) as refused:
                await run_once(db, caller, KEY, REQUEST, make_domain)
    finally:
        await admin.execute(patience.format("3s"))
    assert refused.value.status == 409


# -- in several commits ----------------------------------------------------------------------------


async def make_domain_of(db: Database, caller: Caller, effect_id: UUID) -> StoredResponse:
    """An effect with a commit of its own, keyed by the id it is given."""

    async def work(connection: Connection) -> None:
        await connection.execute(
            "insert into dialectic_domains (tenant_id, id, name) values ($1, $2, 'one')"
            " on conflict do nothing",
            caller.tenant_id,
            effect_id,
        )

    await db.transact(caller.tenant_id, work)
    return StoredResponse(200, effect_id.bytes)


async def test_long_work_is_done_once_for_all_who_ask_in_one_process_and_in_others(
    db: Database, caller: Caller
) -> None:
    here, there = LongRequests(db), LongRequests(db)
    begun = asyncio.Event()

    async def work(effect_id: UUID) -> StoredResponse:
        begun.set()
        return await make_domain_of(db, caller, effect_id)

    first = asyncio.create_task(here.run(caller, KEY, REQUEST, work))
    await begun.wait()
    answers = await asyncio.gather(
        *(one.run(caller, KEY, REQUEST, work) for one in (here, there) for _ in range(25))
    )
    assert {answer.body for answer in answers} == {(await first).body}
    assert await count_effects(db, caller) == 1


async def test_work_continues_when_its_client_has_left_and_its_answer_is_there(
    db: Database, caller: Caller
) -> None:
    long_requests = LongRequests(db)
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def work(effect_id: UUID) -> StoredResponse:
        begun.set()
        await may_end.wait()
        return await make_domain_of(db, caller, effect_id)

    asking = asyncio.create_task(long_requests.run(caller, KEY, REQUEST, work))
    await begun.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    may_end.set()
    answer = await long_requests.run(caller, KEY, REQUEST, work)
    assert answer.status == 200
    assert await count_effects(db, caller) == 1


async def test_work_of_a_process_that_died_is_taken_up_under_the_same_id(
    db: Database, caller: Caller
) -> None:
    name = RequestKey(caller.user_id, KEY, REQUEST)

    async def die(connection: Connection) -> Claim | StoredResponse:
        return await idempotency.claim(connection, name, lease=LAPSED)

    dead = await db.transact(caller.tenant_id, die)
    assert isinstance(dead, Claim)
    await make_domain_of(db, caller, dead.effect_id)  # all but the answer

    answer = await LongRequests(db).run(
        caller, KEY, REQUEST, lambda effect_id: make_domain_of(db, caller, effect_id)
    )
    assert answer.body == dead.effect_id.bytes
    assert await count_effects(db, caller) == 1

    async def come_back(connection: Connection) -> None:
        await idempotency.save_response(connection, dead, StoredResponse(500, b"late"))

    with pytest.raises(InProgress):
        await db.transact(caller.tenant_id, come_back)


async def test_long_work_that_another_process_has_is_in_progress_after_a_while(
    db: Database, caller: Caller
) -> None:
    name = RequestKey(caller.user_id, KEY, REQUEST)
    await db.transact(caller.tenant_id, lambda c: idempotency.claim(c, name, lease=LEASE))
    impatient = LongRequests(db, wait_s=0.0)
    with pytest.raises(InProgress):
        await impatient.run(caller, KEY, REQUEST, lambda e: make_domain_of(db, caller, e))
    with pytest.raises(KeyReused):
        await impatient.run(caller, KEY, OTHER_REQUEST, lambda e: make_domain_of(db, caller, e))
    assert await count_effects(db, caller) == 0


async def test_long_work_whose_claim_is_lost_is_broken_off(db: Database, caller: Caller) -> None:
    begun, broken_off = asyncio.Event(), asyncio.Event()

    async def work(effect_id: UUID) -> StoredResponse:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            broken_off.set()
        raise AssertionError

    # It renews its claim at every turn of the loop, and the claim lapses as soon as it is made.
    hasty = LongRequests(db, lease=LAPSED)
    asking = asyncio.create_task(hasty.run(caller, KEY, REQUEST, work))
    await begun.wait()
    answer = await LongRequests(db).run(
        caller, KEY, REQUEST, lambda effect_id: make_domain_of(db, caller, effect_id)
    )
    with pytest.raises(InProgress):
        await asking
    assert broken_off.is_set()
    assert answer.status == 200


async def test_long_work_that_fails_gives_its_key_free(db: Database, caller: Caller) -> None:
    long_requests = LongRequests(db)

    async def fail(effect_id: UUID) -> StoredResponse:
        raise Conflict

    with pytest.raises(Conflict):
        await long_requests.run(caller, KEY, REQUEST, fail)
    answer = await long_requests.run(
        caller, KEY, OTHER_REQUEST, lambda effect_id: make_domain_of(db, caller, effect_id)
    )
    assert answer.status == 200


async def test_what_is_under_way_at_the_end_is_waited_for_and_then_left_to_others(
    db: Database, caller: Caller
) -> None:
    long_requests = LongRequests(db)
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def work(effect_id: UUID) -> StoredResponse:
        begun.set()
        await may_end.wait()
        return StoredResponse(200, b"")

    asking = asyncio.create_task(long_requests.run(caller, KEY, REQUEST, work))
    await begun.wait()
    may_end.set()
    await long_requests.close(10.0)
    assert (await asking).status == 200

    may_end.clear()
    begun.clear()
    leaving = asyncio.create_task(long_requests.run(caller, "another", REQUEST, work))
    await begun.wait()
    await long_requests.close(0.0)
    with pytest.raises(asyncio.CancelledError):
        await leaving


# -- how long answers are kept ---------------------------------------------------------------------


async def test_answers_are_kept_for_a_day_and_what_is_in_progress_for_as_long_as_it_takes(
    address: Address, db: Database, admin: asyncpg.Connection[asyncpg.Record], caller: Caller
) -> None:
    for key in ("young", "old"):
        await run_once(db, caller, key, REQUEST, make_domain)
    name = RequestKey(caller.user_id, "held", REQUEST)
    await db.transact(caller.tenant_id, lambda c: idempotency.claim(c, name, lease=LEASE))
    name = RequestKey(caller.user_id, "left", REQUEST)
    await db.transact(caller.tenant_id, lambda c: idempotency.claim(c, name, lease=LAPSED))
    await admin.execute(
        "update idempotency_keys set created_at = created_at - interval '24 hours'"
        " where user_id = $1 and key <> 'young'",
        caller.user_id,
    )
    async with connected(address, WORKER_ROLE) as connection:
        assert await account_store.sweep(connection) == 2
        assert await account_store.sweep(connection) == 0
    rows = await admin.fetch("select key from idempotency_keys where user_id = $1", caller.user_id)
    assert {row["key"] for row in rows} == {"young", "held"}


async def test_a_worker_forgets_what_is_too_old(
    address: Address,
    db: Database,
    worker_engine: Engine,
    admin: asyncpg.Connection[asyncpg.Record],
    caller: Caller,
) -> None:
    await run_once(db, caller, KEY, REQUEST, make_domain)
    await admin.execute("update idempotency_keys set created_at = '2020-01-01'")
    await admin.execute(
        "create trigger z_bell after delete on idempotency_keys"
        " for each statement execute function bell.ring()"
    )

    async def is_forgotten() -> bool:
        return not await admin.fetch(
            "select from idempotency_keys where user_id = $1", caller.user_id
        )

    async def run_nothing(_engine: Engine, _job: Job) -> None:
        raise AssertionError

    async with working(worker_engine, run_nothing):
        await until(address, is_forgotten)
