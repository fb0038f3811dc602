"""Links to reports: made, listed, found by their secret, revoked. See sql/queries/shares.sql."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from datetime import timedelta
from uuid import UUID

from dialectic.core.strict_json import Json
from dialectic.db.pool import Connection, Database
from dialectic.db.queries import list_plain, load_queries

SQL = load_queries("shares")


@dataclass(frozen=True, slots=True)
class NewShare:
    """A share to insert."""

    tenant_id: UUID
    id: UUID
    session_id: UUID
    user_id: UUID
    secret_sha256: bytes
    pass_salt: bytes | None
    pass_hash: bytes | None
    has_drafts: bool
    has_names: bool
    life: timedelta


@dataclass(frozen=True, slots=True)
class FoundShare:
    """A share that its secret has found; it has not ended."""

    tenant_id: UUID
    share_id: UUID
    session_id: UUID
    pass_salt: bytes | None
    pass_hash: bytes | None
    has_drafts: bool
    has_names: bool


async def find_share(db: Database, secret_sha256: bytes) -> FoundShare | None:
    """Find a share before its tenant is known; None if it has ended, or never was."""
    rows = await db.fetch(SQL["find_share"], secret_sha256)
    return FoundShare(**rows[0]) if rows else None


async def count_shares(connection: Connection, session_id: UUID) -> int:
    """Delete the shares of a session that have ended; count the others."""
    await connection.execute(SQL["delete_expired"], session_id)
    count: int = await connection.fetchval(SQL["count_shares"], session_id)
    return count


async def insert_share(connection: Connection, new: NewShare) -> None:
    """Insert a share."""
    await connection.execute(SQL["insert_share"], *astuple(new))


async def list_shares(
    connection: Connection, session_id: UUID, share_id: UUID | None = None
) -> list[Json]:
    """List the shares of a session, or one of them, oldest first."""
    return await list_plain(connection, SQL["list_shares"], session_id, share_id)


async def delete_share(connection: Connection, share_id: UUID) -> bool:
    """Delete a share; return whether there was one."""
    return await connection.fetchval(SQL["delete_share"], share_id) is not None
