"""The two login roles neither see nor change rows of another tenant."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import UUID

import asyncpg
import pytest

from dialectic.db.pool import APP_ROLE, OWNER_ROLE, WORKER_ROLE, Address, Connection, Database
from dialectic.db.tables import jobs
from dialectic.db.tables.records import open_account
from dialectic.postgres import embedded
from tests.cases import each_case
from tests.database.connections import connected, undone
from tests.database.tenant_rows import (
    TABLES,
    Row,
    Tenant,
    become,
    build_row,
    create_database,
    delete_row,
    insert_row,
    insert_tenant,
    select_row,
    update_row,
)

ROLES = (APP_ROLE, WORKER_ROLE)
OURS, THEIRS = Tenant("ours"), Tenant("theirs")
COMMANDS = ("select", "insert", "update", "delete")

# Who there is, is written by the owner's functions alone, and so is money.
MONEY = frozenset(
    {
        "token_wallets",
        "token_wallet_transactions",
        "token_wallet_holds",
        "dialectic_session_spending",
    }
)
# What is being written at the moment, and who watches.
DRAFTS = frozenset({"dialectic_drafts", "dialectic_draft_watches"})
PEOPLE = frozenset(
    {"tenants", "users", "memberships", "notification_counters", "dialectic_removals"}
)
READ_ONLY = PEOPLE | MONEY | DRAFTS | {"dialectic_removals"}
# Who comes in is no business of a worker.
ONLY_OF_THE_APP = frozenset({"access_tokens", "idempotency_keys", "dialectic_shares"})
# A worker ends jobs; it never makes them disappear.
NOT_DELETED_BY_WORKERS = frozenset({"dialectic_generation_jobs"})
# A worker uses what a tenant added; it never changes it.
ONLY_READ_BY_WORKERS = frozenset({"tenant_endpoints"})
# What was said is never changed.
UNCHANGING = frozenset({"dialectic_chunks"})
# Tables that say nothing about anyone.
WITHOUT_TENANT = frozenset(
    {
        *("schema_migrations", "dialectic_job_moves", "dialectic_session_moves"),
        "dialectic_storage",
        *("dialectic_endpoints", "dialectic_endpoint_calls", "request_buckets"),
        "dialectic_tallies",
    }
)
# Touched by the owner's functions alone.
HIDDEN = frozenset(
    {
        *("dialectic_endpoints", "dialectic_endpoint_calls", "request_buckets"),
        "dialectic_tallies",
    }
)
# Written once, by whoever comes first.
WRITTEN_ONCE = frozenset({"dialectic_storage"})
INDEXES_ACROSS_TENANTS = {
    "jobs_alive": "the sweeper looks at the few living jobs of all tenants",
    "files_waiting": "any worker carries to storage what another one left, of all tenants",
    "discarded_files_due": "any worker deletes what another process left, of all tenants",
    "tokens_by_secret": "a token is looked up before its tenant is known",
    "shares_by_secret": "a link is looked up before its tenant is known",
    "sessions_by_end": "the sweeper looks at the sessions of all tenants that ended",
    "keys_by_age": "the sweeper looks at the oldest answers of all tenants",
    **{
        f"memory_vectors_{size}": "an index of vectors has no other column; rows are filtered after"
        for size in (256, 384, 768, 1024, 1536)
    },
    "tenants_pkey": "its id is the tenant",
    "users_pkey": "a user may belong to several tenants",
    "users_name_key": "a name is given once; only the owner's functions write it",
}
KEYS_WITHOUT_TENANT = {"users": "a user may belong to several tenants"}
FUNCTIONS_OF_BOTH = {
    *("now", "current_tenant", "act_for", "is_runnable", "is_ended", "error_entry"),
    *(
        "announce",
        "announce_to_user",
        "begin_stage",
        "read_events",
        *("list_news", "list_changed_tenants", "is_newer"),
        "allow_probes",
        "list_endpoints",
    ),
    *("admit_call", "report_call", "match_dialectic_chunks", "add_tallies"),
    *("reserve_funds", "load_funds", "read_funds", "is_under_way", "list_read_versions"),
    *("settle_hold", "void_hold", "lose_hold"),
    *("mark_files_written", "make_description_due", "name_session_lock", "put_resources"),
    *("hold_session", "resolve"),
}
MAKING_MONEY = {
    *("open_wallet", "fund_wallet", "set_wallet_count_only", "limit_wallet"),
    "set_session_budget",
}
KNOWING_PEOPLE = {
    *("open_account", "add_account", "find_account", "list_users", "find_token", "has_tokens"),
    *("list_ended_tokens", "find_share"),
    *("create_organization", "set_member", "remove_member", "list_tenants"),
    *("claim_key", "clock"),
}
FUNCTIONS = {
    APP_ROLE: FUNCTIONS_OF_BOTH
    | MAKING_MONEY
    | KNOWING_PEOPLE
    | {"load_figures"}
    | {"drop_seat", "settle_stages"}
    | {"watch_drafts", "read_drafts"},
    WORKER_ROLE: FUNCTIONS_OF_BOTH
    | {"sweep_access"}
    | {"claim_jobs", "turn_away_jobs", "extend_leases", "sweep_jobs", "take_waiting_files"}
    | {"save_document"}
    | {"list_taken", "list_lanes", "sweep_holds", "prune_notifications"}
    | {
        "watch_funds",
        "find_due",
        "take_messages",
        "find_session_due",
        "rerun_needed",
        *("hold_lease", "hold_plan", "list_unjudged", "wait_after_stage"),
        "take_discarded_files",
        "write_drafts",
        "sweep_drafts",
    },
}

every_table = each_case("table", TABLES)
every_role = each_case("role", ROLES)


def may(role: str, command: str, table: str) -> bool:
    if table in HIDDEN or (role == WORKER_ROLE and table in ONLY_OF_THE_APP):
        return False
    if table in WRITTEN_ONCE:
        return command in ("select", "insert")
    if table in READ_ONLY | WITHOUT_TENANT:
        return command == "select"
    if table in UNCHANGING:
        return command != "update"
    if role == WORKER_ROLE and table in ONLY_READ_BY_WORKERS:
        return command == "select"
    return not (role == WORKER_ROLE and command == "delete" and table in NOT_DELETED_BY_WORKERS)


# -- the catalogue ---------------------------------------------------------------------------------


async def find_breaches(connection: Connection) -> list[str]:
    """List everything in the catalogue that would let one tenant learn of another."""
    looks = (_look_at_tables, _look_at_policies, _look_at_keys, _look_at_rights)
    found = [breach for look in looks for breach in await look(connection)]
    found += await _look_at_roles(connection)
    return found + await _look_at_functions(connection)


async def _look_at_tables(connection: Connection) -> list[str]:
    rows = await connection.fetch(
        """
        select c.relname as name, c.relkind::text as kind, pg_get_userbyid(c.relowner) as owner,
          c.relrowsecurity as enabled, c.relforcerowsecurity as forced,
          coalesce(c.reloptions::text[] @> array['security_invoker=true'], false) as as_invoker,
          (select a.attnotnull from pg_attribute a where a.attrelid = c.oid
            and a.attname = 'tenant_id' and not a.attisdropped) as tenant_is_needed
        from pg_class c
        where c.relnamespace = 'dialectic'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f')
        order by 1
        """
    )
    found = []
    for row in rows:
        name = row["name"]
        if row["owner"] != OWNER_ROLE:
            found.append(f"{name} belongs to {row['owner']}")
        if row["kind"] == "v" and not row["as_invoker"]:
            found.append(f"{name} shows what its owner sees")
        if row["kind"] in "mf":
            found.append(f"{name} is outside row security")
        if row["kind"] not in "rp" or name in WITHOUT_TENANT:
            continue
        if not row["enabled"]:
            found.append(f"{name} has no row security")
        if row["forced"]:
            found.append(f"{name} forces row security on the owner's functions")
        if row["tenant_is_needed"] is None and name not in ("tenants", "users"):
            found.append(f"{name} has no tenant_id")
        if row["tenant_is_needed"] is False:
            found.append(f"{name} has rows without tenant_id")
    return found


def _expected_policies(table: str) -> dict[str, tuple[str | None, str | None]]:
    current = "( SELECT dialectic.current_tenant() AS current_tenant)"
    test = {
        "tenants": f"(id = {current})",
        "users": "(EXISTS ( SELECT FROM dialectic.memberships m"
        f" WHERE ((m.user_id = users.id) AND (m.tenant_id = {current}))))",
    }.get(table, f"(tenant_id = {current})")
    return {"r": (test, None), "a": (None, test), "w": (test, test), "d": (test, None)}


async def _look_at_policies(connection: Connection) -> list[str]:
    rows = await connection.fetch(
        """
        select c.relname as table, p.polname as name, p.polcmd::text as command, p.polpermissive,
          p.polroles = array[0::oid] as for_all,
          regexp_replace(pg_get_expr(p.polqual, c.oid), '\\s+', ' ', 'g') as seen,
          regexp_replace(pg_get_expr(p.polwithcheck, c.oid), '\\s+', ' ', 'g') as written
        from pg_class c
        left join pg_policy p on p.polrelid = c.oid
        where c.relnamespace = 'dialectic'::regnamespace and c.relkind in ('r', 'p')
          and c.relname <> all ($1)
        order by 1, 2
        """,
        list(WITHOUT_TENANT),
    )
    found = []
    for table in sorted({row["table"] for row in rows}):
        missing = _expected_policies(table)
        for row in (row for row in rows if row["table"] == table and row["name"] is not None):
            tests = missing.pop(row["command"], None)
            is_plain = row["polpermissive"] and row["for_all"]
            if tests != (row["seen"], row["written"]) or not is_plain:
                found.append(f"{table}: policy {row['name']} is not the one for its command")
        found += [f"{table} has no policy for {command!r}" for command in missing]
    return found


async def _look_at_keys(connection: Connection) -> list[str]:
    indexes = await connection.fetch(
        """
        select t.relname as table, i.relname as name,
          (select a.attname from pg_attribute a
            where a.attrelid = t.oid and a.attnum = x.indkey[0]) as first
        from pg_index x
        join pg_class t on t.oid = x.indrelid
        join pg_class i on i.oid = x.indexrelid
        where t.relnamespace = 'dialectic'::regnamespace and t.relname <> all ($1)
        order by 1, 2
        """,
        list(WITHOUT_TENANT),
    )
    references = await connection.fetch(
        """
        select k.conname as name, t.relname as table, r.relname as target,
          array(
            select a.attname || ' ' || b.attname
            from unnest(k.conkey, k.confkey) as pair (here, there)
            join pg_attribute a on a.attrelid = k.conrelid and a.attnum = pair.here
            join pg_attribute b on b.attrelid = k.confrelid and b.attnum = pair.there
          ) as pairs
        from pg_constraint k
        join pg_class t on t.oid = k.conrelid
        join pg_class r on r.oid = k.confrelid
        where k.contype = 'f' and t.relnamespace = 'dialectic'::regnamespace
        order by 1
        """
    )
    found = [
        f"{row['table']}: index {row['name']} does not start with tenant_id"
        for row in indexes
        if row["first"] != "tenant_id" and row["name"] not in INDEXES_ACROSS_TENANTS
    ]
    for row in references:
        wanted = "tenant_id id" if row["target"] == "tenants" else "tenant_id tenant_id"
        if wanted not in row["pairs"] and row["target"] not in KEYS_WITHOUT_TENANT:
            found.append(f"{row['table']}: key {row['name']} may lead to another tenant")
    return found


async def _look_at_rights(connection: Connection) -> list[str]:
    rows = await connection.fetch(
        """
        select r.role, c.relname as name, c.relkind::text as kind,
          array(
            select lower(a.privilege_type) from aclexplode(c.relacl) a
            where a.grantee = case r.role when 'public' then 0 else r.role::regrole end
          ) as rights
        from unnest($1::text[]) r (role)
        cross join pg_class c
        where c.relnamespace = 'dialectic'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'S')
        order by 1, 2
        """,
        ["public", *ROLES],
    )
    found = []
    for row in rows:
        role, name = row["role"], row["name"]
        wanted = {command for command in COMMANDS if may(role, command, name)}
        if role == "public" or row["kind"] == "S":
            wanted = set()
        if set(row["rights"]) != wanted:
            found.append(f"{role} may {', '.join(sorted(row['rights']))} on {name}")
    for schema, guests in (("dialectic", set(ROLES)), ("queue", {WORKER_ROLE})):
        holders = await connection.fetchval(
            """
            select array_agg(distinct case a.grantee when 0 then 'public'
              else pg_get_userbyid(a.grantee) end)
            from pg_namespace n, aclexplode(n.nspacl) a where n.nspname = $1
            """,
            schema,
        )
        if set(holders) != guests | {OWNER_ROLE}:
            found.append(f"schema {schema} is open to {', '.join(sorted(holders))}")
    return found


async def _look_at_roles(connection: Connection) -> list[str]:
    rows = await connection.fetch(
        """
        select r.rolname as name, r.rolcanlogin, r.rolbypassrls, r.rolsuper,
          r.rolcreaterole or r.rolcreatedb or r.rolreplication as may_create,
          pg_has_role(r.oid, $2::text::regrole, 'member') as is_owner,
          exists (select from pg_shdepend d where d.refclassid = 'pg_authid'::regclass
            and d.refobjid = r.oid and d.deptype = 'o') as owns
        from pg_roles r where r.rolname = any ($1)
        """,
        [OWNER_ROLE, *ROLES],
        OWNER_ROLE,
    )
    found = []
    for row in rows:
        name, is_owner = row["name"], row["name"] == OWNER_ROLE
        if row["rolbypassrls"] or row["rolsuper"]:
            found.append(f"{name} is above row security")
        if row["may_create"]:
            found.append(f"{name} may create roles or databases")
        if is_owner and row["rolcanlogin"]:
            found.append(f"{name} can log in")
        if not is_owner and (row["owns"] or row["is_owner"]):
            found.append(f"{name} owns something")
    return found


async def _look_at_functions(connection: Connection) -> list[str]:
    rows = await connection.fetch(
        """
        select p.proname as name, p.prosecdef as as_owner, pg_get_userbyid(p.proowner) as owner,
          coalesce(p.proconfig @> array['search_path=pg_catalog, pg_temp'], false) as is_fenced,
          array(
            select case a.grantee when 0 then 'public' else pg_get_userbyid(a.grantee) end::text
            from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
          ) as callers
        from pg_proc p where p.pronamespace = 'dialectic'::regnamespace order by 1
        """
    )
    found = []
    for row in rows:
        name = row["name"]
        if row["owner"] != OWNER_ROLE:
            found.append(f"function {name} belongs to {row['owner']}")
        if row["as_owner"] and not row["is_fenced"]:
            found.append(f"function {name} looks names up where its caller says")
        wanted = {OWNER_ROLE} | {role for role in ROLES if name in FUNCTIONS[role]}
        if set(row["callers"]) != wanted:
            found.append(f"function {name} may be called by {', '.join(sorted(row['callers']))}")
    return found


@pytest.fixture(scope="module")
def shared(server: embedded.Server, template: str) -> Address:
    """A database with two tenants, for tests that roll back whatever they do."""

    async def make() -> Address:
        address = await create_database(server, template)
        connection = await asyncpg.connect(address.url)
        for tenant in (OURS, THEIRS):
            await insert_tenant(connection, tenant)
        await connection.close()
        return address

    return asyncio.run(make())


@asynccontextmanager
async def mutated(address: Address, *statements: str) -> AsyncIterator[Connection]:
    """A superuser's transaction in which something is changed; it comes to nothing."""
    connection = await asyncpg.connect(address.url)
    try:
        async with undone(connection):
            for statement in statements:
                await connection.execute(statement)
            yield connection
    finally:
        await connection.close()


async def test_the_catalogue_has_no_breach(shared: Address) -> None:
    async with mutated(shared) as connection:
        assert await find_breaches(connection) == []


async def test_every_table_of_tenant_data_is_in_the_matrix(shared: Address) -> None:
    async with mutated(shared) as connection:
        names = await connection.fetch(
            "select relname from pg_class where relnamespace = 'dialectic'::regnamespace"
            " and relkind in ('r', 'p')"
        )
    assert {row["relname"] for row in names} == TABLES.keys() | WITHOUT_TENANT


# -- the matrix ------------------------------------------------------------------------------------

ALLOWED = "1 row"
REFUSED, NO_RIGHT, GUARDED = "refused by row security", "no right", "refused by a trigger"
Act = Callable[[Connection], Awaitable[str]]


async def attempt(connection: Connection, tenant: Tenant | None, act: Act) -> str:
    """Do something as a tenant, take it back, and say in words what came of it."""
    try:
        async with undone(connection):
            await become(connection, tenant)
            return f"{(await act(connection)).split()[-1]} row"
    except asyncpg.InsufficientPrivilegeError as error:
        return REFUSED if "row-level security" in str(error) else NO_RIGHT
    except asyncpg.PostgresError as error:
        if error.sqlstate == "DJ002":
            return GUARDED
        raise


def acts(table: str, command: str, row: Row) -> Act:
    """The plain deed: what the program itself would do with a row."""
    deed = {
        "select": select_row,
        "insert": insert_row,
        "update": update_row,
        "delete": delete_row,
    }[command]
    return lambda connection: deed(connection, table, row)


def forges(table: str, command: str) -> Act:
    """What an intruder would do in their own name: name the victim in the row."""
    if command == "update":
        own = build_row(table, OURS, 1)
        return lambda connection: update_row(connection, table, own, new_owner=THEIRS)
    return acts(table, command, build_row(table, THEIRS, row_number(command)))


def row_number(command: str) -> int:
    return {"insert": 3, "delete": 2}.get(command, 1)


def denied(command: str) -> str:
    """What becomes of a row that is not there for this tenant."""
    return REFUSED if command == "insert" else "0 row"


@every_role
@every_table
async def test_a_role_reaches_its_tenants_rows_and_no_others(
    shared: Address, role: str, table: str
) -> None:
    async with connected(shared, role) as connection:
        for command in COMMANDS:
            act = acts(table, command, build_row(table, OURS, row_number(command)))
            outcomes = {
                # Nobody first: the connection has not heard of any tenant yet.
                "none": await attempt(connection, None, act),
                "own": await attempt(connection, OURS, act),
                "other": await attempt(connection, THEIRS, act),
                "none again": await attempt(connection, None, act),
                "forged": await attempt(connection, OURS, forges(table, command)),
            }
            if may(role, command, table):
                no = denied(command)
                forged = no if command != "update" else REFUSED
                if table == "dialectic_generation_jobs" and command == "update":
                    forged = GUARDED  # the trigger comes before the policy
                assert outcomes == {
                    "none": no,
                    "own": ALLOWED,
                    "other": no,
                    "none again": no,
                    "forged": forged,
                }, command
            else:
                assert set(outcomes.values()) == {NO_RIGHT}, command


@every_role
async def test_without_a_tenant_there_is_nothing_anywhere(shared: Address, role: str) -> None:
    tables = {name: made for name, made in TABLES.items() if may(role, "select", name)}
    async with connected(shared, role) as connection:

        async def count_all() -> dict[str, int]:
            counts = (f"(select count(*) from dialectic.{table}) as {table}" for table in tables)
            (row,) = await connection.fetch(f"select {', '.join(counts)}")
            return dict(row)

        nothing = dict.fromkeys(tables, 0)
        assert await count_all() == nothing
        async with connection.transaction():
            await become(connection, OURS)
            assert await count_all() == {name: table.seeded for name, table in tables.items()}
        assert await count_all() == nothing


@every_role
async def test_a_tenant_that_is_not_a_uuid_is_an_error_not_an_open_door(
    shared: Address, role: str
) -> None:
    async with connected(shared, role) as connection:
        await connection.execute("begin; select set_config('dialectic.tenant', '%', true)")
        with pytest.raises(asyncpg.InvalidTextRepresentationError):
            await connection.fetch("select * from dialectic.dialectic_projects")


# -- the mutation ----------------------------------------------------------------------------------


@every_table
async def test_a_lost_policy_is_noticed(shared: Address, table: str) -> None:
    short = {"select": "r", "insert": "a", "update": "w", "delete": "d"}
    async with mutated(shared) as connection:
        for command in COMMANDS:
            async with undone(connection):
                await connection.execute(f"drop policy tenant_{command} on dialectic.{table}")
                breach = f"{table} has no policy for {short[command]!r}"
                assert await find_breaches(connection) == [breach]
                await connection.execute(f"set local role {APP_ROLE}")
                act = acts(table, command, build_row(table, OURS, row_number(command)))
                if may(APP_ROLE, command, table):
                    assert await attempt(connection, OURS, act) == denied(command)


@every_table
async def test_row_security_that_is_off_is_noticed(shared: Address, table: str) -> None:
    off = f"alter table dialectic.{table} disable row level security"
    async with mutated(shared, off) as connection:
        assert await find_breaches(connection) == [f"{table} has no row security"]
        await connection.execute(f"set local role {APP_ROLE}")
        for command in COMMANDS:
            act = acts(table, command, build_row(table, OURS, row_number(command)))
            if may(APP_ROLE, command, table):
                assert await attempt(connection, THEIRS, act) == ALLOWED


@each_case(
    ("statements", "breach"),
    [
        ("alter policy tenant_select on chats using (true)", "chats: policy tenant_select"),
        ("alter policy tenant_update on chats with check (true)", "chats: policy tenant_update"),
        ("create policy more on chats for select using (true)", "chats: policy more"),
        (
            "drop policy tenant_select on chats; create policy tenant_select on chats for select"
            " to dialectic_app using (tenant_id = (select dialectic.current_tenant()))",
            "chats: policy tenant_select",
        ),
        ("alter table chats force row level security", "chats forces"),
        ("alter table chats owner to postgres", "chats belongs to postgres"),
        ("create table diaries (id uuid)", "diaries has no tenant_id"),
        ("create table diaries (tenant_id uuid)", "diaries has rows without tenant_id"),
        ("create view titles as select title from chats", "titles shows what its owner sees"),
        ("create materialized view titles as select 1", "titles is outside row security"),
        ("create unique index on chats (id)", "does not start with tenant_id"),
        (
            "alter table chats add column twin uuid, add unique (tenant_id, twin);"
            " create unique index chats_id on chats (id);"
            " alter table chats add foreign key (twin) references chats (id)",
            "may lead to another tenant",
        ),
        ("grant truncate on chats to dialectic_app", "dialectic_app may delete, insert"),
        ("grant delete on users to dialectic_worker", "dialectic_worker may delete, select"),
        ("grant select on chats to public", "public may select on chats"),
        ("grant usage on schema queue to dialectic_app", "schema queue is open to dialectic_app"),
        ("grant usage on schema dialectic to public", "schema dialectic is open to"),
        ("alter role dialectic_owner login", "dialectic_owner can log in"),
        ("alter role dialectic_owner bypassrls", "dialectic_owner is above row security"),
        ("alter role dialectic_app superuser", "dialectic_app is above row security"),
        ("alter role dialectic_worker createrole", "dialectic_worker may create roles"),
        ("grant dialectic_owner to dialectic_worker", "dialectic_worker owns something"),
        ("alter table chats owner to dialectic_app", "dialectic_app owns something"),
        ("alter function open_account reset all", "function open_account looks names up"),
        (
            "alter function open_account set search_path = ''",
            "function open_account looks names up",
        ),
        ("alter function claim_jobs owner to postgres", "function claim_jobs belongs to postgres"),
        ("grant execute on function sweep_jobs to public", "function sweep_jobs may be called by"),
        (
            "create function peek() returns bigint security definer"
            " set search_path = pg_catalog, pg_temp"
            " as 'select count(*) from dialectic.chats' language sql",
            "function peek may be called by",
        ),
    ],
)
async def test_a_weakened_catalogue_is_noticed(
    shared: Address, statements: str, breach: str
) -> None:
    async with mutated(shared, "set local search_path = dialectic, public", statements) as changed:
        assert any(breach in found for found in await find_breaches(changed))


# -- one connection, many tenants ------------------------------------------------------------------


@every_role
async def test_the_tenant_is_gone_with_the_transaction(shared: Address, role: str) -> None:
    current = "select dialectic.current_tenant(), (select count(*) from dialectic.chats)"

    async def look(connection: Connection) -> tuple[UUID, int]:
        ((tenant_id, count),) = await connection.fetch(current)
        return tenant_id, count

    async def fail(connection: Connection) -> None:
        assert await look(connection) == (OURS.id, 2)
        await connection.execute("select 1 / 0")

    async with Database.open(shared, role, size=1) as db:
        assert await db.transact(OURS.id, look) == (OURS.id, 2)
        assert tuple((await db.fetch(current))[0]) == (None, 0)
        with pytest.raises(asyncpg.DivisionByZeroError):
            await db.transact(OURS.id, fail)
        assert tuple((await db.fetch(current))[0]) == (None, 0)


async def test_four_connections_serve_fifty_tenants_without_mixing_them(
    admin: asyncpg.Connection[asyncpg.Record], address: Address
) -> None:
    tenants = [Tenant(f"tenant {n}") for n in range(50)]
    await admin.executemany(
        "insert into tenants (id, name, kind) values ($1, $2, 'personal')",
        [(tenant.id, tenant.name) for tenant in tenants],
    )
    chance = random.Random(50)
    kept: dict[UUID, int] = {tenant.id: 0 for tenant in tenants}
    foreign: list[UUID] = []

    async def visit(db: Database, nth: int, tenant: Tenant, aborts: bool) -> None:
        async def work(connection: Connection) -> None:
            rows = await connection.fetch("select tenant_id from dialectic_domains")
            foreign.extend(row["tenant_id"] for row in rows if row["tenant_id"] != tenant.id)
            await connection.execute(
                "insert into dialectic_domains (tenant_id, id, name)"
                " values ($1, gen_random_uuid(), $2)",
                tenant.id,
                str(nth),
            )
            if aborts:
                raise InterruptedError

        try:
            await db.transact(tenant.id, work)
            kept[tenant.id] += 1
        except InterruptedError:
            pass

    async with Database.open(address, APP_ROLE, size=4) as db:
        await asyncio.gather(
            *(
                visit(db, nth, chance.choice(tenants), aborts=chance.random() < 0.3)
                for nth in range(1000)
            )
        )
    counted = await admin.fetch("select tenant_id, count(*) from dialectic_domains group by 1")
    assert foreign == []
    assert {row["tenant_id"]: row["count"] for row in counted} == kept
    assert 600 < sum(kept.values()) < 800


async def test_a_transaction_that_is_cancelled_leaves_nothing_behind(
    address: Address, caplog: pytest.LogCaptureFixture
) -> None:
    """Wherever the cancellation strikes, the next user of the connection finds it clean."""
    current = "select dialectic.current_tenant()"

    async def work(connection: Connection) -> None:
        for _ in range(5):
            await connection.fetch(current)

    async with Database.open(address, APP_ROLE, size=1) as db:
        # Every turn of the loop at first, then in longer steps until it comes too late.
        for turns in itertools.accumulate(itertools.count(), lambda t, n: t + 1 + t // 10):
            task = asyncio.create_task(db.transact(OURS.id, work))
            for _ in range(turns):
                await asyncio.sleep(0)
            if task.done():
                break
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            assert (await db.fetch(current))[0][0] is None
    assert turns > 10
    assert caplog.messages == []


# -- functions that see all tenants ----------------------------------------------------------------

LEASE = timedelta(seconds=6)
CLAIM = ("me", LEASE, timedelta(seconds=1), 10, False)


@every_role
async def test_notifications_are_read_by_their_tenant_alone(shared: Address, role: str) -> None:
    read = "select title from dialectic.read_events(0, $1, 100) where seq is not null"
    async with connected(shared, role) as connection:
        for tenant in (OURS, THEIRS):
            other = THEIRS if tenant is OURS else OURS
            async with undone(connection):
                await become(connection, tenant)
                rows = await connection.fetch(read, None)
                assert [row["title"] for row in rows] == [f"{tenant.name} {n}" for n in (1, 2)]
                assert await connection.fetch(read, other.row_id("dialectic_sessions")) == []
        async with undone(connection):
            assert await connection.fetch(read, None) == []


@every_role
async def test_no_user_is_notified_in_the_name_of_another_tenant(
    shared: Address, role: str
) -> None:
    session_id = THEIRS.row_id("dialectic_sessions")

    def notify(connection: Connection) -> Awaitable[str]:
        return connection.execute("select dialectic.announce($1, 'news', '{}')", session_id)

    async with connected(shared, role) as connection:
        assert await attempt(connection, THEIRS, notify) == "1 row"
        with pytest.raises(asyncpg.ForeignKeyViolationError):
            await attempt(connection, OURS, notify)
        with pytest.raises(asyncpg.NotNullViolationError):
            await attempt(connection, None, notify)


async def test_an_account_is_opened_by_its_own_name_only(address: Address) -> None:
    async with Database.open(address, APP_ROLE, size=4) as db:
        opened = await asyncio.gather(*(open_account(db, name) for name in "abcabcabc"))
        accounts = dict(zip("abc", opened[:3], strict=True))
        assert [accounts[name] for name in "abcabcabc"] == opened
        assert len({account.tenant_id for account in opened}) == 3
        assert len({account.wallet_id for account in opened}) == 3
        for account in accounts.values():

            async def look(connection: Connection) -> list[UUID]:
                rows = await connection.fetch(
                    "select id from users union all select id from tenants"
                    " union all select id from token_wallets"
                )
                return [row["id"] for row in rows]

            assert set(await db.transact(account.tenant_id, look)) == {
                account.user_id,
                account.tenant_id,
                account.wallet_id,
            }


async def test_a_job_is_claimed_under_its_own_tenant_only(shared: Address) -> None:
    job_id = UUID(OURS.row_id("dialectic_generation_jobs"))
    claim = jobs.SQL["claim"]
    async with connected(shared, WORKER_ROLE) as connection, undone(connection):
        assert await connection.fetch(claim, [THEIRS.id], [job_id], *CLAIM) == []
        assert await connection.fetch(claim, [None], [job_id], *CLAIM) == []
        rows = await connection.fetch(claim, [THEIRS.id, OURS.id], [job_id, job_id], *CLAIM)
        assert [(row["tenant_id"], row["id"]) for row in rows] == [(OURS.id, job_id)]


async def test_a_lease_is_extended_under_its_own_tenant_only(shared: Address) -> None:
    job_id = UUID(OURS.row_id("dialectic_generation_jobs"))
    async with connected(shared, WORKER_ROLE) as connection, undone(connection):
        (job,) = await connection.fetch(jobs.SQL["claim"], [OURS.id], [job_id], *CLAIM)
        for tenant, kept in ((THEIRS, []), (OURS, [(OURS.id, job_id)])):
            rows = await connection.fetch(
                jobs.SQL["extend_leases"], [tenant.id], [job_id], [job["attempt"]], LEASE
            )
            assert [(row["tenant_id"], row["job_id"]) for row in rows] == kept


async def test_the_list_of_waiting_files_tells_whose_each_is_and_nothing_in_them(
    shared: Address,
) -> None:
    async with connected(shared, WORKER_ROLE) as connection, undone(connection):
        rows = await connection.fetch(
            "select * from dialectic.take_waiting_files(interval '0', interval '0', 100)"
        )
        assert {tuple(row.items()) for row in rows} == {
            (("tenant_id", tenant.id), ("path", f"{tenant.name}/{nth}.md"))
            for tenant in (OURS, THEIRS)
            for nth in (1, 2)
        }


async def test_the_list_of_discarded_files_tells_whose_each_is(shared: Address) -> None:
    async with connected(shared, WORKER_ROLE) as connection, undone(connection):
        rows = await connection.fetch(
            "select * from dialectic.take_discarded_files(interval '0', 100)"
        )
        assert {tuple(row.items()) for row in rows} == {
            (("tenant_id", tenant.id), ("path", f"{tenant.name}-gone/{nth}.md"))
            for tenant in (OURS, THEIRS)
            for nth in (1, 2)
        }


async def test_two_tenants_may_have_jobs_of_the_same_id_and_both_are_sent(
    shared: Address,
) -> None:
    theirs = build_row("dialectic_generation_jobs", THEIRS, 3)
    ours = build_row("dialectic_generation_jobs", OURS, 3) | {"id": theirs["id"]}
    async with mutated(shared) as connection:
        await insert_row(connection, "dialectic_generation_jobs", ours)
        await insert_row(connection, "dialectic_generation_jobs", theirs)
        sent = await connection.fetch(
            "select convert_from(payload, 'UTF8') from queue.pgqueuer where payload::text"
            " like '%' || encode(convert_to($1, 'UTF8'), 'hex')",
            theirs["id"],
        )
        assert {row[0] for row in sent} == {f"{t.id} {theirs['id']}" for t in (OURS, THEIRS)}


async def test_the_queue_is_closed_to_the_app(shared: Address) -> None:
    async with connected(shared, WORKER_ROLE) as connection:
        assert await connection.fetchval("select count(*) from queue.pgqueuer") > 0
    async with connected(shared, APP_ROLE) as connection:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.fetch("select from queue.pgqueuer")
