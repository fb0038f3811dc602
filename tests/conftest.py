"""What every test may use: a real server, and a database of one's own that costs 40 ms."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import asyncpg
import hypothesis
import pytest

from dialectic import embedded
from dialectic.domain.endpoint import KEY_VARIABLES
from dialectic.engine import Engine
from dialectic.failpoints import Failpoints
from dialectic.providers.catalog import Catalog, build_catalog
from dialectic.settings import Settings
from dialectic.storage.files import open_store
from dialectic.store import migrate as migration
from dialectic.store.database import APP_ROLE, WORKER_ROLE, Address, Database
from dialectic.store.migrate import migrate
from dialectic.store.records import Account, open_account
from tests.waiting import hang_bell

# A loaded machine is no reason to fail: tests bound work, not time.
hypothesis.settings.register_profile("house", deadline=None)
hypothesis.settings.load_profile("house")

BARE_TEMPLATE = "bare_template_dialectic"
TEMPLATE = "template_dialectic"
_numbers = itertools.count(1)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep together what shares a set-up, which would be made again in every process of tests."""
    for item in items:
        if isinstance(item, pytest.Function):
            found = itertools.chain(*item._fixtureinfo.name2fixturedefs.values())
            if any(fixture.scope == "module" for fixture in found):
                file = item.nodeid.partition("::")[0]
                item.add_marker(pytest.mark.xdist_group(file))


@pytest.fixture(scope="session", autouse=True)
def _no_settings_from_outside() -> None:
    for name in [name for name in os.environ if name.startswith(("DIALECTIC_", *KEY_VARIABLES))]:
        del os.environ[name]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[embedded.Server]:
    """One embedded server for all tests of this process."""
    with embedded.join_server(tmp_path_factory.mktemp("server")) as joined:
        yield joined


async def execute_as_superuser(server: embedded.Server, statement: str, database: str) -> None:
    connection = await asyncpg.connect(server.url(user="postgres", database=database))
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@pytest.fixture(scope="session")
def bare_template(server: embedded.Server) -> str:
    """A migrated database, as the product makes it."""

    async def make() -> None:
        await execute_as_superuser(server, f"create database {BARE_TEMPLATE}", "postgres")
        url = server.url(user="postgres", database=BARE_TEMPLATE)
        await migrate(Address(url, is_embedded=True))

    asyncio.run(make())
    return BARE_TEMPLATE


@pytest.fixture(scope="session")
def template(server: embedded.Server, bare_template: str) -> str:
    """A migrated database that tests are copied from: it tells its changes."""

    async def make() -> None:
        create = f"create database {TEMPLATE} template {bare_template} strategy file_copy"
        await execute_as_superuser(server, create, "postgres")
        connection = await asyncpg.connect(server.url(user="postgres", database=TEMPLATE))
        try:
            await hang_bell(connection)
            # For what the product made: it would lock all tables to put this right.
            await connection.execute("set search_path = dialectic, public, extensions")
            bindings = await migration._hash_bindings(connection)
            await migration._note(connection, migration.BINDINGS_ROW, bindings)
        finally:
            await connection.close()

    asyncio.run(make())
    return TEMPLATE


@pytest.fixture
async def address(server: embedded.Server, template: str) -> AsyncIterator[Address]:
    """A database of this test's own."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    await execute_as_superuser(
        server, f"create database {name} template {template} strategy file_copy", "postgres"
    )
    yield Address(server.url(user="postgres", database=name), is_embedded=True)
    await execute_as_superuser(server, f"drop database {name} with (force)", "postgres")


@pytest.fixture
async def admin(address: Address) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A superuser's connection, to look behind the scenes."""
    connection = await asyncpg.connect(
        address.url, server_settings={"search_path": "dialectic,public"}
    )
    yield connection
    await connection.close()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", lease_s=1.2)


@pytest.fixture
def catalog(settings: Settings) -> Catalog:
    return build_catalog(settings)


@pytest.fixture
async def engine(address: Address, settings: Settings, catalog: Catalog) -> AsyncIterator[Engine]:
    """An engine as a person's command has it."""
    async with Database.open(address, APP_ROLE, size=5, patience_s=5.0) as db:
        yield build_engine(address, settings, catalog, db)


@pytest.fixture
async def worker_engine(
    address: Address, settings: Settings, catalog: Catalog
) -> AsyncIterator[Engine]:
    """An engine as a worker has it."""
    async with Database.open(address, WORKER_ROLE, size=10, patience_s=5.0) as db:
        yield build_engine(address, settings, catalog, db)


def build_engine(address: Address, settings: Settings, catalog: Catalog, db: Database) -> Engine:
    return Engine(
        settings=settings,
        address=address,
        db=db,
        files=open_store(settings.storage_location, settings.storage_access),
        catalog=catalog,
        failpoints=Failpoints.parse(settings.failpoints),
    )


@pytest.fixture
async def account(engine: Engine) -> Account:
    return await open_account(engine.db, "local")


@pytest.fixture
def as_tenant() -> Callable[[Account], str]:
    """The statement that makes a raw connection belong to a tenant for one transaction."""
    return lambda account: f"select set_config('dialectic.tenant', '{account.tenant_id}', true)"
