"""The job machine, for every module of tests that moves jobs by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from dialectic.db.pool import Address
from dialectic.engine import Engine
from dialectic.postgres import embedded
from tests.database.job_table import AdminConnection, JobTable, database_of_a_module, forget_jobs


@pytest.fixture(scope="module")
def module_address(server: embedded.Server, template: str) -> Iterator[Address]:
    """A database for all tests of a module, whose `address` must then be this one."""
    with database_of_a_module(server, template) as made:
        yield made


@pytest.fixture
async def job_table(engine: Engine, admin: AdminConnection) -> AsyncIterator[JobTable]:
    """A session of this test's own; its module has a database of its own."""
    async with JobTable.open(engine) as opened:
        yield opened
    await forget_jobs(admin)
