"""What every test may use: a real server, and a database of one's own."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import hypothesis
import pytest

from dialectic.core.models.endpoint import KEY_VARIABLES
from dialectic.db import migrate as migration
from dialectic.db.pool import APP_ROLE, WORKER_ROLE, Address, Database
from dialectic.db.tables.records import Account, open_account
from dialectic.engine import DATABASE, Engine, Failpoints
from dialectic.postgres import embedded
from dialectic.providers.catalog import Catalog, build_catalog
from dialectic.settings import Settings
from dialectic.storage.file_store import open_store
from tests.databases import lend_database
from tests.properties import PROFILE
from tests.servers import join_copy, make_home
from tests.waiting import hang_bell

hypothesis.settings.load_profile(PROFILE)

# Commands that are tested hear of a closed terminal, whatever whoever runs the tests ignores.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

TEMPLATE = "template_dialectic"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep together what shares a set-up, which would be made again in every process of tests."""
    from tests.scheduling import Scheduling  # only where tests are dealt out

    return Scheduling(config, log)


@pytest.fixture(scope="session", autouse=True)
def _no_settings_from_outside() -> None:
    for name in [name for name in os.environ if name.startswith(("DIALECTIC_", *KEY_VARIABLES))]:
        del os.environ[name]
    # Servers of tests end with the commands that use them.
    os.environ["DIALECTIC_DATABASE_IDLE_S"] = "0"


@pytest.fixture(scope="session")
def made_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a migrated database and a server that is down, to be copied."""
    folder = tmp_path_factory.getbasetemp()
    return make_home(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder)


@pytest.fixture(scope="session")
def server(made_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[embedded.Server]:
    """One embedded server for all tests of this process."""
    with join_copy(made_home, tmp_path_factory.mktemp("server")) as joined:
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
    del server  # which has it
    return DATABASE


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
    async with lend_database(server, template) as lent:
        yield lent


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
