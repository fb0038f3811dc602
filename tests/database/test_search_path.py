"""Names of one's own never stand before the real ones in what the owner's functions do."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest

from dialectic.db.migrate import migrate
from dialectic.db.pool import APP_ROLE, WORKER_ROLE, Address, Connection, connect
from dialectic.postgres import embedded
from tests.cases import naming
from tests.database.connections import connected
from tests.database.job_table import AdminConnection
from tests.database.tenant_rows import create_database

# Types of the intruder's own under the names of common ones; each runs a function of theirs, which
# notes when it runs in the owner's name.
TRAPS = """
create temp table loot (who text);
grant all on loot to public;
create function pg_temp.note() returns boolean language plpgsql as $$
begin
  if current_user = 'dialectic_owner' then
    insert into pg_temp.loot values (current_user);
  end if;
  return true;
end $$;
create function pg_temp.evil(v pg_catalog.uuid) returns boolean
  language sql as 'select pg_temp.note()';
create function pg_temp.evil(v pg_catalog.text) returns boolean
  language sql as 'select pg_temp.note()';
create function pg_temp.evil(v pg_catalog.timestamptz) returns boolean
  language sql as 'select pg_temp.note()';
create function pg_temp.evil(v pg_catalog.int4) returns boolean
  language sql as 'select pg_temp.note()';
create function pg_temp.evil(v pg_catalog.jsonb) returns boolean
  language sql as 'select pg_temp.note()';
create domain pg_temp.uuid as pg_catalog.uuid check (pg_temp.evil(value));
create domain pg_temp.text as pg_catalog.text check (pg_temp.evil(value));
create domain pg_temp.timestamptz as pg_catalog.timestamptz check (pg_temp.evil(value));
create domain pg_temp.int4 as pg_catalog.int4 check (pg_temp.evil(value));
create domain pg_temp.jsonb as pg_catalog.jsonb check (pg_temp.evil(value));
"""
COUNT_LOOT = "select count(*) from pg_temp.loot"
CALLS = {
    APP_ROLE: [
        "select * from dialectic.read_events(0, null, 10)",
        "select dialectic.list_news(array[gen_random_uuid()], array[0::bigint])",
        "select * from dialectic.open_account('intruder', false)",
        "select dialectic.allow_probes(gen_random_uuid())",
        "select dialectic.begin_stage(gen_random_uuid(), 1, 'thesis')",
        "select dialectic.add_tallies(array['deadlock'], array[1])",
        "select * from dialectic.load_figures()",
        "select * from dialectic.list_endpoints()",
    ],
    WORKER_ROLE: [
        "select * from dialectic.read_events(0, null, 10)",
        "select * from dialectic.claim_jobs(array[gen_random_uuid()], array[gen_random_uuid()],"
        " 'me', interval '1 s', interval '1 s', 3)",
        "select * from dialectic.turn_away_jobs(array[gen_random_uuid()],"
        " array[gen_random_uuid()], interval '1 s', 3)",
        "select * from dialectic.extend_leases(array[gen_random_uuid()],"
        " array[gen_random_uuid()], array[1], interval '1 s')",
        "select dialectic.prune_notifications(interval '1 s', 10, 10)",
        "select dialectic.sweep_jobs(interval '1 s', 10)",
        "select dialectic.sweep_holds(interval '1 s', 10)",
        "select * from dialectic.watch_funds(gen_random_uuid(), true)",
        "select * from dialectic.take_waiting_files(interval '1 s', interval '1 s', 10)",
        "select * from dialectic.take_discarded_files(interval '1 s', 10)",
        "select * from dialectic.list_lanes()",
        "select dialectic.find_due(array['job'])",
        "select * from dialectic.list_taken(array[gen_random_uuid()], array[gen_random_uuid()],"
        " array[1])",
        "select * from dialectic.admit_call('somewhere', gen_random_uuid(), gen_random_uuid(), 1,"
        " 60, 1000, 4, 10, interval '1 s', 1)",
        "select dialectic.report_call('somewhere', gen_random_uuid(), gen_random_uuid(), 1,"
        " 'throttled', 'Later.', interval '1 s', 60, 1000, 10, 1)",
    ],
}


@pytest.fixture
async def intruder(
    address: Address, admin: AdminConnection, role: str
) -> AsyncIterator[Connection]:
    """A login that may make temporary things, as anyone may on a server that is not ours."""
    database = await admin.fetchval("select quote_ident(current_database())")
    await admin.execute(f"grant temporary on database {database} to public")
    connection = await connect(address, role)
    await connection.execute(TRAPS)
    await connection.execute(
        "select pg_catalog.set_config('dialectic.tenant', pg_catalog.gen_random_uuid()::pg_catalog"
        ".text, false)"
    )
    yield connection
    await connection.close()


@pytest.mark.parametrize("role", CALLS)
async def test_no_function_of_the_owner_runs_what_its_caller_made(
    intruder: Connection, role: str
) -> None:
    for call in CALLS[role]:
        with naming(call):
            await intruder.execute(call)
            assert await intruder.fetchval(COUNT_LOOT) == 0


@pytest.mark.parametrize("role", [APP_ROLE])
async def test_the_traps_would_catch_a_function_that_looks_names_up_elsewhere(
    intruder: Connection, admin: AdminConnection, role: str
) -> None:
    await admin.execute("alter function dialectic.read_events set search_path = ''")
    await intruder.execute(CALLS[role][0])
    assert await intruder.fetchval(COUNT_LOOT) > 0


async def test_in_a_database_of_our_own_no_role_makes_temporary_objects(
    server: embedded.Server,
) -> None:
    address = await create_database(server)
    await migrate(address)
    for role in (APP_ROLE, WORKER_ROLE):
        async with connected(address, role) as connection:
            with naming(role), pytest.raises(asyncpg.InsufficientPrivilegeError, match="temporary"):
                await connection.execute("create temp table loot (who text)")
