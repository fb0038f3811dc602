"""A database that another test has used is as good as new, or it is not used again."""

from __future__ import annotations

import asyncpg
import pytest

from dialectic.db.pool import APP_ROLE, Address, Database
from dialectic.engine import Engine
from dialectic.postgres import embedded
from dialectic.providers.catalog import Catalog
from dialectic.settings import Settings
from tests.conftest import build_engine
from tests.database.job_table import make_session, new_account
from tests.databases import LIST_COUNTED, LIST_USED, Pool

COUNT = "select count(*) from {}"


@pytest.fixture
def pool(server: embedded.Server, template: str) -> Pool:
    return Pool(server, template)


async def run(pool: Pool, name: str, *statements: str) -> None:
    connection = await asyncpg.connect(pool.url(name))
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def describe(pool: Pool, name: str) -> dict[str, int]:
    """How many rows each table has, and how far each sequence has come."""
    connection = await asyncpg.connect(pool.url(name))
    try:
        tables = [row["name"] for row in await connection.fetch(LIST_USED)]
        rows = {table: await connection.fetchval(COUNT.format(table)) for table in tables}
        counted = {row["name"]: row["last_value"] for row in await connection.fetch(LIST_COUNTED)}
        return {**{table: count for table, count in rows.items() if count}, **counted}
    finally:
        await connection.close()


async def use(engine: Engine) -> None:
    for _ in range(2):
        await make_session(engine, await new_account(engine))


async def test_what_a_test_has_written_is_gone_for_the_next(
    pool: Pool, settings: Settings, catalog: Catalog
) -> None:
    name, times = await pool.take()
    new = await describe(pool, name)
    address = Address(pool.url(name), is_embedded=True)
    async with Database.open(address, APP_ROLE, size=2) as db:
        await use(build_engine(address, settings, catalog, db))
    assert len(await describe(pool, name)) > len(new) + 5

    await pool.give_back(name, times)
    assert await pool.take() == (name, times + 1)
    assert await describe(pool, name) == new
    await pool.give_back(name, times + 1)


@pytest.mark.parametrize(
    "change",
    [
        "create table dialectic.more ()",
        "alter table dialectic.chats add column more text",
        "alter table dialectic.chats disable row level security",
        "alter table dialectic.dialectic_generation_jobs disable trigger jobs_guard",
        "drop policy tenant_select on dialectic.chats",
        "grant delete on dialectic.users to dialectic_app",
        "create or replace function dialectic.now() returns timestamptz"
        " language sql stable as 'select clock_timestamp()'",
        "update dialectic.schema_migrations set sha256 = 'another'",
        "delete from dialectic.dialectic_job_moves where from_status = 'pending'",
        "do $$ begin execute format('alter database %I set work_mem = ''1MB''',"
        " current_database()); end $$",
    ],
)
async def test_a_database_that_is_more_than_written_to_is_not_lent_again(
    pool: Pool, change: str
) -> None:
    name, times = await pool.take()
    await run(pool, name, change)
    await pool.give_back(name, times)
    assert pool.free == []


async def test_a_token_that_the_database_has_forgotten_is_refused(pool: Pool) -> None:
    name, times = await pool.take()
    forgotten = await asyncpg.connect(pool.url(name))
    await forgotten.execute("begin")
    await forgotten.execute("lock table dialectic.users")
    await pool.give_back(name, times)
    assert pool.free == [(name, times + 1)]
    assert forgotten.is_closed()
    forgotten.terminate()
