"""A token acts for one user in one tenant until it ends, and reveals nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from urllib.parse import urlencode
from uuid import UUID, uuid4

import asyncpg
import pytest

from dialectic.app import accounts
from dialectic.app.accounts import IssuedToken, build_owner
from dialectic.core.access import EVERY_SCOPE, Caller, RequestOrigin, Role, Scope, build_csrf_token
from dialectic.db.pool import APP_ROLE, WORKER_ROLE, Address, Connection, Database
from dialectic.db.tables import accounts as store
from dialectic.db.tables.records import Account
from dialectic.errors import (
    Conflict,
    DialecticError,
    Forbidden,
    NotFound,
    TokenExpired,
    TokenInvalid,
    TokenMissing,
    TooManyRequests,
    UsageError,
)
from dialectic.postgres import embedded
from tests.database.connections import connected
from tests.database.job_table import AdminConnection, database_of_a_module, set_clock
from tests.problems import refusing

MANY = 1_000_000
NOW = datetime(2030, 1, 1, tzinfo=UTC)
_names = (f"user {n}" for n in count())


@pytest.fixture(scope="module")
def address(server: embedded.Server, template: str) -> Iterator[Address]:
    """One database for all of these tests; each has users of its own."""
    with database_of_a_module(server, template) as made:
        yield made


@pytest.fixture
async def db(address: Address) -> AsyncIterator[Database]:
    async with Database.open(address, APP_ROLE, size=3) as opened:
        yield opened


@asynccontextmanager
async def stopped_clock(address: Address) -> AsyncIterator[tuple[Database, datetime]]:
    """A single connection whose clock stands still until the test sets it."""
    async with Database.open(address, APP_ROLE, size=1) as db:
        await set_clock(db.fetch, NOW)
        yield db, NOW


async def create_organization(db: Database, caller: Caller, name: str) -> UUID:
    return await db.transact(
        caller.tenant_id, lambda c: accounts.create_organization(c, caller, name)
    )


async def add_user(db: Database) -> Caller:
    return build_owner(await accounts.add_user(db, next(_names)))


async def name_of(db: Database, caller: Caller) -> str:
    return (await accounts.list_tenants(db, caller))[0].name


async def issue(db: Database, caller: Caller) -> IssuedToken:
    return await accounts.issue_token(db, caller, name="laptop")


async def authenticate(db: Database, token: str | None, *, limit: int = MANY) -> Caller:
    return await accounts.authenticate(db, token, requests_per_minute=limit)


async def enter(db: Database, cookie: str, *, csrf: str | None = None, safe: bool = True) -> Caller:
    return await accounts.authenticate_browser(
        db, cookie, csrf_token=csrf, is_safe=safe, requests_per_minute=MANY
    )


# -- users -----------------------------------------------------------------------------------------


async def test_a_name_is_given_once(db: Database) -> None:
    name = next(_names)
    made = await accounts.add_user(db, f"  {name} ")
    assert await accounts.load_user(db, name) == made
    with refusing(Conflict, name, reason="user_name_is_free"):
        await accounts.add_user(db, name)


@pytest.mark.parametrize("name", ["", "  ", "a" * 201, "a\0b", "a\x1b[2J", "\u202eeve"])
async def test_a_name_can_be_seen(db: Database, name: str) -> None:
    with pytest.raises(UsageError):
        await accounts.add_user(db, name)


async def test_a_user_who_is_not_there_is_not_made_by_looking(db: Database) -> None:
    with pytest.raises(NotFound):
        await accounts.load_user(db, "nobody")
    assert "nobody" not in {user.name for user in await store.list_users(db)}


async def test_the_owner_of_the_machine_is_made_at_the_first_start_and_found_at_the_next(
    db: Database,
) -> None:
    first, second = await asyncio.gather(*(accounts.load_owner(db) for _ in range(2)))
    assert first == second == await accounts.load_owner(db)


# -- tokens ----------------------------------------------------------------------------------------


async def test_a_token_acts_for_the_user_it_was_made_for(db: Database) -> None:
    user = await add_user(db)
    issued = await issue(db, user)
    assert await authenticate(db, issued.secret.reveal()) == Caller(
        user.tenant_id, user.user_id, EVERY_SCOPE, issued.id, issued.expires_at
    )


async def test_no_token_and_no_such_token_are_told_apart(db: Database) -> None:
    with pytest.raises(TokenMissing):
        await authenticate(db, None)
    for wrong in ("", "dlk_", "dlk_" + "A" * 43, "eyJhbGciOiJub25lIn0.e30.", "dlk_\0" + "A" * 42):
        with pytest.raises(TokenInvalid):
            await authenticate(db, wrong)


async def test_a_revoked_token_is_refused_in_the_words_for_an_unknown_one(db: Database) -> None:
    user = await add_user(db)
    issued = await issue(db, user)
    await accounts.revoke_token(db, user, issued.id)
    await accounts.revoke_token(db, user, issued.id)
    said = []
    for token in (issued.secret.reveal(), "dlk_" + "B" * 43):
        with pytest.raises(DialecticError) as refused:
            await authenticate(db, token)
        said.append((type(refused.value), refused.value.message))
    assert said[0] == said[1] == (TokenInvalid, TokenInvalid().message)


async def test_a_token_ends_when_its_time_has_come(address: Address) -> None:
    async with stopped_clock(address) as (db, now):
        user = await add_user(db)
        issued = await accounts.issue_token(db, user, name="short", life_days=2)
        assert issued.expires_at == now + timedelta(days=2)
        await set_clock(db.fetch, issued.expires_at - timedelta(seconds=1))
        await authenticate(db, issued.secret.reveal())
        await set_clock(db.fetch, issued.expires_at)
        with pytest.raises(TokenExpired) as refused:
            await authenticate(db, issued.secret.reveal())
    assert refused.value.status == 401


@pytest.mark.parametrize("life_days", [0, -1, 3651])
async def test_no_token_lives_for_ever(db: Database, life_days: int) -> None:
    with refusing(UsageError, reason="bad_life", limit=3650):
        await accounts.issue_token(db, await add_user(db), name="a", life_days=life_days)


async def test_when_a_token_was_used_is_noted_seldom(
    address: Address, admin: AdminConnection
) -> None:
    async with stopped_clock(address) as (db, now):
        issued = await issue(db, await add_user(db))
        noted = []
        for minutes in (0, 4, 6):
            await set_clock(db.fetch, now + timedelta(minutes=minutes))
            await authenticate(db, issued.secret.reveal())
            noted.append(
                await admin.fetchval(
                    "select last_used_at from access_tokens where id = $1", issued.id
                )
            )
    assert noted == [now, now, now + timedelta(minutes=6)]


async def test_a_token_makes_none_that_may_do_more_than_itself(db: Database) -> None:
    user = await add_user(db)
    manager = replace(user, scopes=frozenset({Scope.READ, Scope.ADMIN}))
    made = await accounts.issue_token(db, manager, name="a")
    assert made.scopes == manager.scopes
    with refusing(Forbidden, reason="missing_scope", subject="spend"):
        await accounts.issue_token(db, manager, name="a", scopes=[Scope.SPEND])
    with pytest.raises(UsageError):
        await accounts.issue_token(db, manager, name="a", scopes=[])
    reader = replace(user, scopes=frozenset({Scope.READ}))
    for act in (
        accounts.issue_token(db, reader, name="a"),
        accounts.list_tokens(db, reader),
        accounts.revoke_token(db, reader, made.id),
        create_organization(db, reader, "Bakers"),
    ):
        with refusing(Forbidden, reason="missing_scope", subject="admin"):
            await act


async def test_no_token_lasts_for_ever(db: Database) -> None:
    user = await add_user(db)
    await accounts.issue_token(db, user, name="first", tokens_max=1)
    with refusing(Conflict, reason="too_many_tokens", limit=1):
        await accounts.issue_token(db, user, name="second", tokens_max=1)


async def test_tokens_of_others_are_neither_listed_nor_found(db: Database) -> None:
    ours, theirs = await add_user(db), await add_user(db)
    issued = await issue(db, theirs)
    assert await accounts.list_tokens(db, ours) == []
    with pytest.raises(NotFound):
        await accounts.revoke_token(db, ours, issued.id)
    (listed,) = await accounts.list_tokens(db, theirs)
    assert (listed.id, listed.name, frozenset(listed.scopes)) == (issued.id, "laptop", EVERY_SCOPE)


async def test_only_the_hash_of_a_token_is_kept(
    db: Database, admin: AdminConnection, caplog: pytest.LogCaptureFixture
) -> None:
    user = await add_user(db)
    issued = await issue(db, user)
    word = issued.secret.reveal()
    session = await accounts.open_session(db, word, requests_per_minute=MANY)
    words = [word.removeprefix("dlk_"), session.cookie.reveal().removeprefix("dls_")]
    tables = await admin.fetch(
        "select relname from pg_class where relnamespace = 'dialectic'::regnamespace"
        " and relkind = 'r'"
    )
    kept = ""
    for table in tables:
        rows = await admin.fetch(f"select t::text as line from {table['relname']} t")
        kept += "\n".join(row["line"] for row in rows)
    assert str(issued.id) in kept
    for secret in [*words, session.csrf_token]:
        assert secret not in kept
        assert secret not in f"{issued!r} {session.cookie!r} {caplog.text}"


# -- how often -------------------------------------------------------------------------------------


async def test_a_minutes_requests_may_come_at_once_and_more_at_its_pace(address: Address) -> None:
    async with stopped_clock(address) as (db, now):
        token = (await issue(db, await add_user(db))).secret.reveal()
        for _ in range(6):
            await authenticate(db, token, limit=6)
        with pytest.raises(TooManyRequests) as refused:
            await authenticate(db, token, limit=6)
        assert refused.value.retry_after_s == pytest.approx(10.0)
        assert refused.value.status == 429
        await set_clock(db.fetch, now + timedelta(seconds=10))
        await authenticate(db, token, limit=6)
        with pytest.raises(TooManyRequests):
            await authenticate(db, token, limit=6)


async def test_the_limit_holds_for_all_processes_together_and_for_each_token_alone(
    address: Address,
) -> None:
    stopped = replace(address, url=f"{address.url}&{urlencode({'dialectic.fake_now': str(NOW)})}")
    async with (
        Database.open(stopped, APP_ROLE, size=3) as here,
        Database.open(stopped, APP_ROLE, size=3) as there,
    ):
        user = await add_user(here)
        token, other = [(await issue(here, user)).secret.reveal() for _ in range(2)]
        outcomes = await asyncio.gather(
            *(authenticate(db, token, limit=10) for db in (here, there) for _ in range(10)),
            return_exceptions=True,
        )
        assert sum(isinstance(outcome, Caller) for outcome in outcomes) == 10
        assert sum(isinstance(outcome, TooManyRequests) for outcome in outcomes) == 10
        await authenticate(there, other, limit=10)


# -- at the machine itself -------------------------------------------------------------------------


async def test_the_owner_needs_no_token_until_someone_has_one(address: Address) -> None:
    local = RequestOrigin("127.0.0.1:8000")
    async with Database.open(address, APP_ROLE, size=1) as db:
        await _revoke_all(address)
        caller = await accounts.enter_without_token(db, "127.0.0.1", local)
        owner = await accounts.load_owner(db)
        assert (caller.tenant_id, caller.scopes) == (owner.tenant_id, EVERY_SCOPE)
        with refusing(Forbidden, reason="foreign_page"):
            await accounts.enter_without_token(db, "127.0.0.1", RequestOrigin("evil.example"))
        with pytest.raises(TokenMissing):
            await accounts.enter_without_token(db, "0.0.0.0", local)
        await issue(db, await add_user(db))
        with pytest.raises(TokenMissing):
            await accounts.enter_without_token(db, "127.0.0.1", local)


async def test_the_door_does_not_open_because_time_passes(address: Address) -> None:
    async with stopped_clock(address) as (db, _):
        await _revoke_all(address)
        issued = await issue(db, await add_user(db))
        await set_clock(db.fetch, issued.expires_at + timedelta(days=1))
        with pytest.raises(TokenMissing):
            await accounts.enter_without_token(db, "127.0.0.1", RequestOrigin("127.0.0.1:8000"))


async def _revoke_all(address: Address) -> None:
    connection = await asyncpg.connect(address.url)
    await connection.execute("update dialectic.access_tokens set revoked_at = now()")
    await connection.close()


# -- browsers --------------------------------------------------------------------------------------


async def test_a_browser_comes_in_with_a_token_and_acts_as_it_would(db: Database) -> None:
    user = await add_user(db)
    token = (await issue(db, user)).secret.reveal()
    session = await accounts.open_session(db, token, requests_per_minute=MANY)
    cookie = session.cookie.reveal()
    caller = await enter(db, cookie)
    assert (caller.tenant_id, caller.user_id) == (user.tenant_id, user.user_id)
    assert await enter(db, cookie, csrf=session.csrf_token, safe=False) == caller
    for csrf in (None, "", build_csrf_token("dls_" + "A" * 43)):
        with refusing(Forbidden, reason="csrf"):
            await enter(db, cookie, csrf=csrf, safe=False)
    with pytest.raises(TokenInvalid):
        await authenticate(db, cookie)
    with pytest.raises(TokenInvalid):
        await enter(db, token)


async def test_a_session_ends_when_it_is_closed_and_its_token_lives_on(db: Database) -> None:
    token = (await issue(db, await add_user(db))).secret.reveal()
    session = await accounts.open_session(db, token, requests_per_minute=MANY)
    await accounts.close_session(db, await enter(db, session.cookie.reveal()))
    with pytest.raises(TokenInvalid):
        await enter(db, session.cookie.reveal())
    # A program that says goodbye keeps its token.
    await accounts.close_session(db, await authenticate(db, token))
    await authenticate(db, token)


async def test_a_session_is_worth_nothing_without_the_token_it_was_begun_with(
    db: Database,
) -> None:
    user = await add_user(db)
    issued = await issue(db, user)
    session = await accounts.open_session(db, issued.secret.reveal(), requests_per_minute=MANY)
    organization = await create_organization(db, user, "Bakers")
    there = await accounts.switch_session(
        db, await enter(db, session.cookie.reveal()), organization
    )
    assert (await enter(db, there.cookie.reveal())).tenant_id == organization
    await accounts.revoke_token(db, user, issued.id)
    for cookie in (session.cookie, there.cookie):
        with pytest.raises(TokenInvalid):
            await enter(db, cookie.reveal())


async def test_a_session_lasts_twelve_hours_and_is_forgotten_after_them(
    address: Address, admin: AdminConnection
) -> None:
    async with stopped_clock(address) as (db, now):
        issued = await issue(db, await add_user(db))
        session = await accounts.open_session(db, issued.secret.reveal(), requests_per_minute=MANY)
        assert session.expires_at == now + timedelta(hours=12)
        await set_clock(db.fetch, session.expires_at)
        with pytest.raises(TokenExpired):
            await enter(db, session.cookie.reveal())
    async with connected(address, WORKER_ROLE) as connection:
        await set_clock(connection.fetch, session.expires_at + timedelta(hours=2))
        await store.sweep(connection)
    left = await admin.fetch(
        "select kind from access_tokens where tenant_id ="
        " (select tenant_id from access_tokens where id = $1)",
        issued.id,
    )
    assert [row["kind"] for row in left] == ["api"]
    buckets = await admin.fetch("select from request_buckets where token_id = $1", issued.id)
    assert buckets == []


async def test_which_tokens_have_ended_is_told_of_each_that_is_shown(address: Address) -> None:
    async with stopped_clock(address) as (db, _):
        user = await add_user(db)
        lasting, short, revoked = [
            await accounts.issue_token(db, user, name="a", life_days=days) for days in (30, 1, 30)
        ]
        root = await issue(db, user)
        session = await accounts.open_session(db, root.secret.reveal(), requests_per_minute=MANY)
        browser = await enter(db, session.cookie.reveal())
        shown = [lasting.id, short.id, revoked.id, browser.token_id, uuid4()]
        assert await list_ended(db, user, shown) == {shown[-1]}
        stranger = await add_user(db)
        assert await list_ended(db, stranger, shown) == set(shown)
        await accounts.revoke_token(db, user, revoked.id)
        await accounts.revoke_token(db, user, root.id)
        assert await list_ended(db, user, shown) == {revoked.id, browser.token_id, shown[-1]}
        await set_clock(db.fetch, short.expires_at)
        assert await list_ended(db, user, shown) == {*shown[1:]}


async def test_a_caller_without_a_token_is_out_once_one_exists(address: Address) -> None:
    nobody = UUID(int=0)
    async with Database.open(address, APP_ROLE, size=1) as db:
        await _revoke_all(address)
        owner = accounts.build_owner(await accounts.load_owner(db))
        assert await list_ended(db, owner, [nobody]) == set()
        await issue(db, await add_user(db))
        assert await list_ended(db, owner, [nobody]) == {nobody}


async def list_ended(db: Database, caller: Caller, token_ids: list[Any]) -> set[UUID]:
    shown = [(caller.tenant_id, token_id) for token_id in token_ids]
    return await db.transact(caller.tenant_id, lambda c: store.list_ended_tokens(c, shown))


# -- organisations ---------------------------------------------------------------------------------


async def found_organization(db: Database) -> tuple[Caller, Caller]:
    """An organisation's owner, at home and in it."""
    owner = await add_user(db)
    organization = await create_organization(db, owner, "Bakers")
    return owner, replace(owner, tenant_id=organization)


async def take_in(db: Database, acting: Caller, role: Role) -> Caller:
    """Take a new user in, and give them as they are in the organisation."""
    user = await add_user(db)
    assert await accounts.set_member(db, acting, await name_of(db, user), role) == user.user_id
    return replace(user, tenant_id=acting.tenant_id)


async def list_roles(db: Database, caller: Caller) -> list[Role]:
    return [member.role for member in await accounts.list_members(db, caller)]


async def test_the_creator_of_an_organisation_owns_it_and_all_spend_from_its_wallet(
    db: Database,
) -> None:
    owner, there = await found_organization(db)
    tenants = [(t.kind, t.role) for t in await accounts.list_tenants(db, owner)]
    assert tenants == [("personal", Role.OWNER), ("organization", Role.OWNER)]
    member = await take_in(db, there, Role.MEMBER)
    wallets = [(await accounts.load_account(db, who)).wallet_id for who in (owner, there, member)]
    assert wallets[1] == wallets[2] != wallets[0]


async def test_a_users_own_account_stays_theirs_whatever_they_own_besides(db: Database) -> None:
    owner, _ = await found_organization(db)
    account = await accounts.load_user(db, await name_of(db, owner))
    assert isinstance(account, Account)
    assert account.tenant_id == owner.tenant_id


async def test_a_token_acts_in_one_tenant(db: Database) -> None:
    owner, there = await found_organization(db)
    for caller in (owner, there):
        token = (await issue(db, caller)).secret.reveal()
        assert (await authenticate(db, token)).tenant_id == caller.tenant_id
        with pytest.raises(Forbidden):
            await accounts.switch_session(db, await authenticate(db, token), there.tenant_id)


async def test_a_browser_goes_over_only_to_where_its_user_belongs(db: Database) -> None:
    _, elsewhere = await found_organization(db)
    owner, there = await found_organization(db)
    session = await accounts.open_session(
        db, (await issue(db, owner)).secret.reveal(), requests_per_minute=MANY
    )
    caller = await enter(db, session.cookie.reveal())
    for unknown in (elsewhere.tenant_id, uuid4()):
        with pytest.raises(NotFound):
            await accounts.switch_session(db, caller, unknown)
    switched = await accounts.switch_session(db, caller, there.tenant_id)
    with pytest.raises(TokenInvalid):
        await enter(db, session.cookie.reveal())
    back = await accounts.switch_session(
        db, await enter(db, switched.cookie.reveal()), owner.tenant_id
    )
    assert (await enter(db, back.cookie.reveal())).tenant_id == owner.tenant_id


async def test_signing_out_everywhere_ends_the_sessions_of_a_user_in_every_tenant(
    db: Database,
) -> None:
    owner, there = await found_organization(db)
    other, _ = await found_organization(db)

    async def sign_in(caller: Caller) -> str:
        token = (await issue(db, caller)).secret.reveal()
        begun = await accounts.open_session(db, token, requests_per_minute=MANY)
        return begun.cookie.reveal()

    ended = [await sign_in(owner), await sign_in(owner), await sign_in(there)]
    kept = await sign_in(other)
    program = (await issue(db, owner)).secret.reveal()

    await accounts.close_sessions(db, await enter(db, ended[0]))

    for cookie in ended:
        with pytest.raises(TokenInvalid):
            await enter(db, cookie)
    assert (await enter(db, kept)).user_id == other.user_id
    assert (await authenticate(db, program)).user_id == owner.user_id


async def test_a_browser_that_came_in_with_an_organisations_token_stays_there(db: Database) -> None:
    owner, there = await found_organization(db)
    session = await accounts.open_session(
        db, (await issue(db, there)).secret.reveal(), requests_per_minute=MANY
    )
    caller = await enter(db, session.cookie.reveal())
    another = await create_organization(db, owner, "Millers")
    for elsewhere in (owner.tenant_id, another):
        with refusing(Forbidden, reason="token_of_organization"):
            await accounts.switch_session(db, caller, elsewhere)
    same = await accounts.switch_session(db, caller, there.tenant_id)
    assert (await enter(db, same.cookie.reveal())).tenant_id == there.tenant_id


async def test_members_work_admins_manage_members_and_owners_all(db: Database) -> None:
    _, owner = await found_organization(db)
    admin = await take_in(db, owner, Role.ADMIN)
    member = await take_in(db, admin, Role.MEMBER)
    stranger = await name_of(db, await add_user(db))
    owners_name = (await accounts.list_members(db, owner))[0].name
    for refused in (
        accounts.set_member(db, member, stranger, Role.MEMBER),
        accounts.set_member(db, admin, stranger, Role.OWNER),
        accounts.set_member(db, admin, owners_name, Role.MEMBER),
        accounts.remove_member(db, admin, owner.user_id),
        accounts.remove_member(db, member, admin.user_id),
    ):
        with refusing(Forbidden, reason="role_allows_it"):
            await refused
    assert await list_roles(db, owner) == [Role.OWNER, Role.ADMIN, Role.MEMBER]
    await accounts.remove_member(db, member, member.user_id)
    await accounts.remove_member(db, owner, admin.user_id)
    assert await list_roles(db, owner) == [Role.OWNER]


async def test_an_organisation_always_has_an_owner(db: Database) -> None:
    _, owner = await found_organization(db)
    name = (await accounts.list_members(db, owner))[0].name
    with refusing(Conflict, reason="organization_has_an_owner"):
        await accounts.set_member(db, owner, name, Role.ADMIN)
    with refusing(Conflict, reason="organization_has_an_owner"):
        await accounts.remove_member(db, owner, owner.user_id)
    other = await take_in(db, owner, Role.OWNER)
    # Both leave at the same moment: one of them stays.
    left = await asyncio.gather(
        *(accounts.remove_member(db, who, who.user_id) for who in (owner, other)),
        return_exceptions=True,
    )
    assert {type(outcome) for outcome in left} == {Conflict, type(None)}


async def test_a_member_who_leaves_loses_their_tokens(db: Database) -> None:
    _, owner = await found_organization(db)
    member = await take_in(db, owner, Role.MEMBER)
    token = (await issue(db, member)).secret.reveal()
    await authenticate(db, token)
    await accounts.remove_member(db, owner, member.user_id)
    with pytest.raises(TokenInvalid):
        await authenticate(db, token)


async def test_a_user_who_manages_members_sees_and_revokes_their_tokens(db: Database) -> None:
    _, owner = await found_organization(db)
    member = await take_in(db, owner, Role.MEMBER)
    mine, theirs = await issue(db, owner), await issue(db, member)
    assert [token.id for token in await accounts.list_tokens(db, member)] == [theirs.id]
    assert [token.id for token in await accounts.list_tokens(db, owner)] == [mine.id, theirs.id]
    with pytest.raises(NotFound):
        await accounts.revoke_token(db, member, mine.id)
    await accounts.revoke_token(db, owner, theirs.id)
    with pytest.raises(TokenInvalid):
        await authenticate(db, theirs.secret.reveal())


async def test_no_user_acts_in_an_organisation_they_do_not_belong_to(db: Database) -> None:
    _, owner = await found_organization(db)
    intruder = replace(await add_user(db), tenant_id=owner.tenant_id)
    name = (await accounts.list_members(db, owner))[0].name
    assert await accounts.list_tenants(db, intruder) == []
    for refused in (
        accounts.set_member(db, intruder, name, Role.MEMBER),
        accounts.remove_member(db, intruder, owner.user_id),
        create_organization(db, intruder, "Thieves"),
    ):
        with pytest.raises(NotFound):
            await refused
    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await issue(db, intruder)


async def test_a_personal_account_takes_no_members(db: Database) -> None:
    user, other = await add_user(db), await add_user(db)
    with refusing(Conflict, reason="only_organizations_have_members"):
        await accounts.set_member(db, user, await name_of(db, other), Role.MEMBER)
    _, owner = await found_organization(db)
    with pytest.raises(NotFound):
        await accounts.set_member(db, owner, "nobody", Role.MEMBER)


async def test_a_stranger_learns_nothing_from_the_functions_that_see_all_tenants(
    db: Database,
) -> None:
    ours, theirs = await add_user(db), await add_user(db)

    async def peek(connection: Connection) -> list[asyncpg.Record]:
        return await connection.fetch(store.SQL["list_tenants"], theirs.user_id)

    assert await db.transact(ours.tenant_id, peek) == []
    assert await db.fetch(store.SQL["list_tenants"], theirs.user_id) == []
