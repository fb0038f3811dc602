"""The schema comes about once, whole, and whatever happens on the way."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from dialectic.db.migrate import BINDINGS_ROW, DIGEST_ROW, list_migrations, list_reapplied, migrate
from dialectic.db.pool import APP_ROLE, OWNER_ROLE, WORKER_ROLE, Address, connect
from dialectic.errors import ConfigurationError, DatabaseUnreachable, SchemaOutdated
from dialectic.postgres import embedded
from tests.database.tenant_rows import Tenant, create_database, insert_tenant, run_as_superuser
from tests.outdated import make_outdated, read_traces

ALL = [script.name for script in list_migrations()]
# The digest of something else, as if another version had been here.
FORGET_DIGEST = (
    f"update dialectic.schema_migrations set sha256 = 'another' where name = '{DIGEST_ROW}'"
)


@pytest.fixture
async def fresh(server: embedded.Server) -> Address:
    """An empty database."""
    return await create_database(server)


async def ask(address: Address, query: str, *arguments: Any) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(address.url)
    try:
        return await connection.fetch(query, *arguments)
    finally:
        await connection.close()


async def recorded(address: Address) -> dict[str, tuple[Any, ...]]:
    """What is written about each migration: its hash, and when it was applied."""
    known = await ask(address, "select to_regclass('dialectic.schema_migrations') is not null")
    if not known[0][0]:
        return {}
    query = "select * from dialectic.schema_migrations where name <> all ($1) order by name"
    notes = [DIGEST_ROW, BINDINGS_ROW]
    return {row["name"]: tuple(row) for row in await ask(address, query, notes)}


async def describe_schema(address: Address) -> set[tuple[Any, ...]]:
    """Everything there is in both schemas, in words that can be compared."""
    rows = await ask(
        address,
        """
        select 'column', format('%s.%s', a.attrelid::regclass, a.attname),
          format('%s %s %s', format_type(a.atttypid, a.atttypmod), a.attnotnull,
            (select pg_get_expr(d.adbin, d.adrelid) from pg_attrdef d
              where d.adrelid = a.attrelid and d.adnum = a.attnum))
        from pg_attribute a join pg_class c on c.oid = a.attrelid
        where c.relnamespace in ('dialectic'::regnamespace, 'queue'::regnamespace)
          and a.attnum > 0 and not a.attisdropped
        union all
        select 'index', i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid)
        from pg_index i join pg_class c on c.oid = i.indrelid
        where c.relnamespace in ('dialectic'::regnamespace, 'queue'::regnamespace)
        union all
        select 'constraint', conrelid::regclass || '.' || conname, pg_get_constraintdef(oid)
        from pg_constraint
        where connamespace in ('dialectic'::regnamespace, 'queue'::regnamespace)
        union all
        select 'function', oid::regprocedure::text, pg_get_functiondef(oid) || proacl::text
        from pg_proc where pronamespace = 'dialectic'::regnamespace
        union all
        select 'trigger', tgname, pg_get_triggerdef(oid) from pg_trigger where not tgisinternal
        union all
        select 'policy', polrelid::regclass || '.' || polname, pg_get_expr(polqual, polrelid)
        from pg_policy
        union all
        select 'rights', oid::regclass::text, relacl::text
        from pg_class where relnamespace = 'dialectic'::regnamespace
        """,
    )
    return {tuple(row) for row in rows}


# -- the usual -------------------------------------------------------------------------------------


async def test_an_empty_database_gets_every_migration_in_order(fresh: Address) -> None:
    assert await migrate(fresh) == ALL
    assert list(await recorded(fresh)) == ALL
    for role in (APP_ROLE, WORKER_ROLE):
        connection = await connect(fresh, role)
        assert await connection.fetchval("select count(*) from dialectic_projects") == 0
        await connection.close()


def find_log(server: embedded.Server) -> Path:
    return Path(server.socket_dir).resolve().parent / "server.log"


async def test_a_second_run_applies_nothing_and_asks_one_question(
    server: embedded.Server, fresh: Address
) -> None:
    await migrate(fresh)
    log = find_log(server)
    name = fresh.url.partition("@/")[2].partition("?")[0]
    await run_as_superuser(fresh.url, f"alter database {name} set log_statement = 'all'")
    before = await recorded(fresh)
    log_start = log.stat().st_size
    assert await migrate(fresh) == []
    said = log.read_text()[log_start:].splitlines()
    asked = [line for line in said if "LOG:  statement:" in line or "LOG:  execute" in line]
    assert len(asked) == 1, asked
    assert "select name, sha256 from dialectic.schema_migrations" in asked[0]
    assert await recorded(fresh) == before


async def test_migrations_that_meet_apply_everything_once_and_all_succeed(fresh: Address) -> None:
    outcomes = await asyncio.gather(*(migrate(fresh) for _ in range(4)))
    assert sorted(outcomes) == [[], [], [], ALL]
    assert list(await recorded(fresh)) == ALL


# -- interruptions ---------------------------------------------------------------------------------


async def test_a_migration_that_fails_half_way_is_completed_by_the_next_run(
    fresh: Address,
) -> None:
    """A table that blocks a migration, after its first tables were made."""
    obstacle = (
        "create schema dialectic authorization dialectic_owner",
        "set role dialectic_owner",
        "create table dialectic.chats ()",
    )
    await run_as_superuser(fresh.url, *obstacle)
    with pytest.raises(asyncpg.DuplicateTableError, match="chats"):
        await migrate(fresh)
    done = await recorded(fresh)
    assert list(done) == ALL[: ALL.index("0007_texts.sql")]
    assert (await ask(fresh, "select to_regclass('dialectic.dialectic_feedback')"))[0][0] is None

    await run_as_superuser(fresh.url, "drop table dialectic.chats")
    assert await migrate(fresh) == ALL[len(done) :]
    assert (await recorded(fresh)).items() >= done.items()


# Ends the session that runs it when the n-th object is made, for each of some n. A sequence keeps
# count, because what it has counted stays counted when the transaction does not.
CUT = """
create sequence public.objects_made;
grant usage on sequence public.objects_made to public;
create function public.cut() returns event_trigger language plpgsql security definer as $$
begin
  if nextval('public.objects_made') in (2, 9, 35, 60, 95, 130, 165, 200, 260, 330) then
    perform pg_terminate_backend(pg_backend_pid());
  end if;
end
$$;
create event trigger cut on ddl_command_end execute function public.cut();
"""


async def test_a_migration_whose_connection_dies_again_and_again_gets_there(
    server: embedded.Server, bare_template: str, fresh: Address
) -> None:
    await run_as_superuser(fresh.url, CUT)
    deaths, done = 0, await recorded(fresh)
    while True:
        with contextlib.suppress(DatabaseUnreachable):
            applied = await migrate(fresh)
            break
        deaths += 1
        now_done = await recorded(fresh)
        assert now_done.items() >= done.items(), "what is applied is not applied again"
        done = now_done
    assert deaths >= 8
    assert applied == [name for name in ALL if name not in done]
    assert (await recorded(fresh)).items() >= done.items()
    whole = Address(server.url(user="postgres", database=bare_template), is_embedded=True)
    assert await describe_schema(fresh) == await describe_schema(whole)


# -- other versions --------------------------------------------------------------------------------


async def test_an_edited_migration_is_refused_by_name(address: Address) -> None:
    edit = f"update dialectic.schema_migrations set sha256 = 'x' where name = '{ALL[2]}'"
    await run_as_superuser(address.url, edit, FORGET_DIGEST)
    with pytest.raises(ConfigurationError, match=ALL[2]):
        await migrate(address)


@pytest.mark.parametrize("migrations", [None, 1], ids=["a whole one", "one it had just begun"])
async def test_a_database_of_version_0_1_is_refused_and_left_alone(
    fresh: Address, migrations: int | None
) -> None:
    await make_outdated(fresh.url, migrations=migrations)
    before = await read_traces(fresh.url)
    with pytest.raises(SchemaOutdated) as caught:
        await migrate(fresh)
    assert (caught.value.code, caught.value.exit_code) == ("schema_outdated", 4)
    assert await read_traces(fresh.url) == before


async def test_a_database_of_a_newer_version_is_refused_and_left_alone(address: Address) -> None:
    await run_as_superuser(
        address.url,
        "insert into dialectic.schema_migrations values ('9999_wings.sql', 'x')",
        "create or replace function dialectic.now() returns timestamptz"
        " language sql stable as 'select clock_timestamp()'",
        FORGET_DIGEST,
    )
    before = await describe_schema(address)
    with pytest.raises(ConfigurationError, match=r"9999_wings\.sql.*newer"):
        await migrate(address)
    assert await describe_schema(address) == before


async def test_what_can_be_applied_again_is_put_back_when_anything_changed(
    address: Address,
) -> None:
    before, done = await describe_schema(address), await recorded(address)
    await run_as_superuser(
        address.url,
        "drop function dialectic.sweep_waiting(integer)",
        "create or replace function dialectic.is_ended(p_status dialectic.dialectic_job_status)"
        " returns boolean language sql as 'select true'",
        "drop trigger jobs_guard on dialectic.dialectic_generation_jobs",
        "drop policy tenant_select on dialectic.chats",
        "alter table dialectic.chats disable row level security",
        "grant delete on dialectic.users to dialectic_app",
        "grant execute on function dialectic.sweep_jobs(interval, integer) to dialectic_app",
        FORGET_DIGEST,
    )
    assert await migrate(address) == []
    assert await describe_schema(address) == before
    assert await recorded(address) == done


async def test_every_function_compiles(address: Address) -> None:
    """They are installed unchecked, since they call each other; here they all exist."""
    connection = await asyncpg.connect(address.url)
    await connection.execute(f"set role {OWNER_ROLE}")
    await connection.execute("set check_function_bodies = on")
    for script in list_reapplied():
        await connection.execute(script.text)
    await connection.close()


async def test_roles_can_be_made_again(fresh: Address) -> None:
    roles = files("dialectic.db.sql").joinpath("roles.sql").read_text(encoding="utf-8")
    await run_as_superuser(fresh.url, roles, roles)


# -- servers elsewhere -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[embedded.Server]:
    """A server without our schema, with an operator who is not a superuser, and a guest."""
    with embedded.join_server(tmp_path_factory.mktemp("elsewhere")) as server:
        asyncio.run(
            run_as_superuser(
                server.url(user="postgres", database="postgres"),
                "create role operator login createrole createdb",
                "create role guest login",
            )
        )
        yield server


@pytest.fixture
async def prepared(elsewhere: embedded.Server) -> str:
    """The name of an empty database of the operator's, in which vectors are known."""
    address = await create_database(elsewhere, options="owner operator")
    await run_as_superuser(address.url, "create extension vector")
    return address.url.partition("@/")[2].partition("?")[0]


@contextlib.asynccontextmanager
async def session(address: Address, role: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await connect(address, role)
    try:
        yield connection
    finally:
        await connection.close()


def address_of(server: embedded.Server, user: str, database: str) -> Address:
    return Address(server.url(user=user, database=database), is_embedded=False)


async def test_first_starts_in_two_databases_of_one_server_make_the_roles_once(
    elsewhere: embedded.Server, prepared: str
) -> None:
    """Stands first: the server must not know the roles yet."""
    operator = address_of(elsewhere, "operator", prepared)
    other = await asyncpg.connect(address_of(elsewhere, "operator", "postgres").url)
    roles = files("dialectic.db.sql").joinpath("roles.sql").read_text(encoding="utf-8")
    await other.execute("begin")
    await other.execute(roles)
    migration = asyncio.create_task(migrate(operator))
    waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
    while not (await ask(operator, waiting))[0][0]:
        assert not migration.done()
    await other.execute("commit")
    await other.close()
    assert await migration == ALL


@pytest.mark.parametrize("role", [APP_ROLE, WORKER_ROLE])
async def test_an_operator_who_may_create_roles_needs_no_superuser(
    elsewhere: embedded.Server, prepared: str, role: str
) -> None:
    operator = address_of(elsewhere, "operator", prepared)
    assert await migrate(operator) == ALL
    assert await migrate(operator) == []
    ours, theirs = Tenant("ours"), Tenant("theirs")
    superuser = await asyncpg.connect(elsewhere.url(user="postgres", database=prepared))
    for tenant in (ours, theirs):
        await insert_tenant(superuser, tenant)
    await superuser.close()
    async with session(operator, role) as connection:
        who = await connection.fetchrow("select session_user, current_user")
        assert who is not None
        assert tuple(who) == ("operator", role)
        seen = "select array_agg(distinct tenant_id) from dialectic_projects"
        assert await connection.fetchval(seen) is None
        async with connection.transaction():
            await connection.execute(
                "select set_config('dialectic.tenant', $1, true)", str(ours.id)
            )
            assert await connection.fetchval(seen) == [ours.id]
        await connection.execute("reset all")
        assert await connection.fetchval("select current_user") == role


async def test_a_login_that_may_do_nothing_is_told_what_it_needs(
    elsewhere: embedded.Server, prepared: str
) -> None:
    guest = address_of(elsewhere, "guest", prepared)
    with pytest.raises(ConfigurationError, match=r"cannot prepare the database: .*create roles"):
        await migrate(guest)
    await migrate(address_of(elsewhere, "operator", prepared))
    with pytest.raises(ConfigurationError, match=r"cannot prepare the database: .*create roles"):
        await migrate(guest)


async def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    nowhere = Address("postgresql://me:secret@127.0.0.1:1/dialectic", is_embedded=False)
    with pytest.raises(DatabaseUnreachable, match=r"me@127\.0\.0\.1:1/dialectic") as caught:
        await migrate(nowhere)
    assert "secret" not in caught.value.message


async def test_a_database_that_is_not_there_is_named(server: embedded.Server) -> None:
    with pytest.raises(DatabaseUnreachable, match="does not exist"):
        await migrate(address_of(server, "postgres", "nowhere"))
