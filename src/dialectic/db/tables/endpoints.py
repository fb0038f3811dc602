"""Tenants' own endpoints as rows. Statements: sql/queries/endpoints.sql.

Functions take the connection of a tenant's transaction. A key passes through encrypted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from dialectic.core.strict_json import Json
from dialectic.db.pool import Connection
from dialectic.db.queries import find_row, list_rows, load_queries

SQL = load_queries("endpoints")


@dataclass(frozen=True, slots=True)
class EndpointRow:
    """An endpoint that a tenant added, with its encrypted key."""

    name: str
    # As in config.toml, without a key.
    definition: Json
    key_ciphertext: bytes | None = field(repr=False)
    created_at: datetime


async def list_endpoints(connection: Connection) -> list[EndpointRow]:
    """List the tenant's own endpoints."""
    return await list_rows(connection, EndpointRow, SQL["list_endpoints"])


async def find_endpoint(connection: Connection, name: str) -> EndpointRow | None:
    """Find an endpoint of the tenant."""
    return await find_row(connection, EndpointRow, SQL["find_endpoint"], name)


async def insert_endpoint(
    connection: Connection, name: str, definition: Json, key_ciphertext: bytes | None
) -> bool:
    """Add an endpoint; False if the tenant has one of this name."""
    found = await connection.fetchval(SQL["insert_endpoint"], name, definition, key_ciphertext)
    return found is not None


async def replace_endpoint(
    connection: Connection, name: str, definition: Json, key_ciphertext: bytes | None
) -> bool:
    """Replace an endpoint and its key; False if the tenant has none of this name."""
    found = await connection.fetchval(SQL["replace_endpoint"], name, definition, key_ciphertext)
    return found is not None


async def delete_endpoint(connection: Connection, name: str) -> bool:
    """Delete an endpoint with its key; False if the tenant has none of this name."""
    return await connection.fetchval(SQL["delete_endpoint"], name) is not None
