"""Recognise a connection pooler between us and PostgreSQL, and reject one that shares sessions.

Dialectic listens for notifications and sets up each session once, so a session must stay ours until
we close it. PgBouncer keeps it so with `pool_mode = session`; with `transaction` or `statement` it
gives the session to others in between. Knows the protocol, not our schema.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeAlias
from uuid import uuid4

import asyncpg

from dialectic.errors import DatabaseUnreachable, PoolerUnsupported

# Our statement names are unique in a session: a name that exists already or exists no more means
# that others have used the session.
SHARED_SESSION = ("42P05", "26000")
PROTOCOL_VIOLATION = "08P01"
# PgBouncer's own messages, which have this SQLSTATE.
REJECTED_PARAMETER = "startup parameter"
STATEMENT_POOLING = "pooling mode"
ONE_ROW = "SELECT 1"

SHARES_SESSIONS = (
    "DIALECTIC_DATABASE_URL leads to a connection pooler that shares sessions between its clients "
    "(transaction pooling), which Dialectic cannot use: set it to the PostgreSQL server itself, or "
    "to a pooler with session pooling."
)

Connect: TypeAlias = Callable[[], Awaitable["asyncpg.Connection[asyncpg.Record]"]]


def find_pooler_error(error: BaseException) -> PoolerUnsupported | None:
    """Return our error if a driver error shows that a pooler rejects or shares our sessions."""
    if not isinstance(error, asyncpg.PostgresError):
        return None
    said = str(error).splitlines()[0]
    if error.sqlstate in SHARED_SESSION or STATEMENT_POOLING in said:
        return PoolerUnsupported(SHARES_SESSIONS, reason="shares_sessions", subject=SETTING)
    if error.sqlstate == PROTOCOL_VIOLATION and REJECTED_PARAMETER in said:
        return PoolerUnsupported(
            f"The connection pooler that DIALECTIC_DATABASE_URL leads to rejects our sessions "
            f"({said}): let it ignore that parameter, or set DIALECTIC_DATABASE_URL to the "
            "PostgreSQL server itself.",
            reason="rejects_parameter",
            subject=SETTING,
        )
    return None


SETTING = "DIALECTIC_DATABASE_URL"


async def require_own_session(
    connection: asyncpg.Connection[asyncpg.Record], connect: Connect
) -> None:
    """Raise if a pooler gives this connection's session to others.

    A direct connection costs one round trip. Only simple statements are sent: the others would
    leave their names in a session that is shared.
    """
    # A pooler announces a number of its own in place of the backend's.
    if await _holds(connection, f"pg_backend_pid() = {connection.get_server_pid()}"):
        return
    mark = uuid4().hex
    has_mark = f"current_setting('dialectic.session', true) = '{mark}'"
    await connection.execute(f"set dialectic.session = '{mark}'")
    try:
        other = await connect()
    except TimeoutError as error:
        raise DatabaseUnreachable(
            "The connection pooler that DIALECTIC_DATABASE_URL leads to gave us only one session. "
            "Raise its pool size.",
            reason="pool_too_small",
            subject=SETTING,
        ) from error
    try:
        # While the other one is in a transaction it keeps the session that it was given.
        await other.execute("begin")
        is_shared = await _holds(other, has_mark) or not await _holds(connection, has_mark)
        await other.execute("rollback")
    finally:
        other.terminate()
    if is_shared:
        with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError):
            await asyncio.wait_for(connection.execute("reset dialectic.session"), timeout=1.0)
        raise PoolerUnsupported(SHARES_SESSIONS, reason="shares_sessions", subject=SETTING)


async def _holds(connection: asyncpg.Connection[asyncpg.Record], condition: str) -> bool:
    return await connection.execute(f"select 1 where {condition}") == ONE_ROW
