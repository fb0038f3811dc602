"""Connections and transactions that leave nothing behind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dialectic.db.pool import Address, Connection, connect


@asynccontextmanager
async def connected(address: Address, role: str) -> AsyncIterator[Connection]:
    """A connection of a role, closed in the end."""
    connection = await connect(address, role)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def undone(connection: Connection) -> AsyncIterator[None]:
    """A transaction that comes to nothing."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        yield
    finally:
        await transaction.rollback()
