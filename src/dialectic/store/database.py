"""Connections: a pool that logs in as one role, and transactions that belong to one tenant.

Knows nothing of jobs or texts. A transaction sets its tenant first and is never open across a
model call. What fails because the server went away or two writers collided is tried again here;
that is safe because every write is keyed by the work and fenced by its attempt.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

import asyncpg

from dialectic.errors import Conflict, DatabaseUnreachable, IllegalMove

Connection: TypeAlias = (
    "asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
)
T = TypeVar("T")

APP_ROLE = "dialectic_app"
WORKER_ROLE = "dialectic_worker"
OWNER_ROLE = "dialectic_owner"

COLLISION_TRIES = 5
CONNECT_TIMEOUT_S = 5.0
COMMAND_TIMEOUT_S = 60.0
# No transaction waits for anything but the server. A client that is silent for so long in the
# middle of one is frozen or cut off, and everyone else waits for the rows it has locked. The second
# limit also meets a client that froze between the two halves of a statement: that is not idle.
IDLE_IN_TRANSACTION_S = 5.0
TRANSACTION_S = 10.0
TRANSACTION_TIMEOUT_SINCE = 17

COLLISIONS = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
CONNECTION_LOST = (
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the driver, when the line breaks between two of its states
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.TransactionTimeoutError,
    asyncpg.TooManyConnectionsError,
    ConnectionError,
    FileNotFoundError,  # the socket of an embedded server that is down
    TimeoutError,
)

# What the job guard refuses, by the code it raises.
REFUSALS: dict[str | None, type[Conflict]] = {"DJ001": IllegalMove, "DJ003": Conflict}


@dataclass(frozen=True, slots=True)
class Address:
    """Where the database is and how a role gets in.

    The embedded server lets each role log in by its own name. Elsewhere the one login of the URL
    takes the role on when it connects, and the role survives the pool's reset.
    """

    url: str
    is_embedded: bool

    def connect_arguments(self, role: str) -> dict[str, Any]:
        """Build what asyncpg needs to connect as a role."""
        settings = {
            "search_path": "dialectic,public,extensions",
            "application_name": role,
            "idle_in_transaction_session_timeout": f"{IDLE_IN_TRANSACTION_S * 1000:.0f}",
        }
        arguments: dict[str, Any] = {
            "dsn": self.url,
            "timeout": CONNECT_TIMEOUT_S,
            "command_timeout": COMMAND_TIMEOUT_S,
            "server_settings": settings,
        }
        if self.is_embedded:
            arguments["user"] = role
        else:
            settings["role"] = role
        return arguments


async def _prepare_connection(connection: Any) -> None:
    for kind in ("json", "jsonb"):
        await connection.set_type_codec(
            kind, encoder=json.dumps, decoder=json.loads, schema="pg_catalog"
        )
    if connection.get_server_version().major >= TRANSACTION_TIMEOUT_SINCE:
        await connection.execute(f"set transaction_timeout = {TRANSACTION_S * 1000:.0f}")


async def _reset_connection(connection: Any) -> None:
    """Nothing outlives a transaction here, so a connection needs no cleaning between two uses."""
    assert not connection.is_in_transaction(), "a transaction was left open"


async def connect(address: Address, role: str) -> asyncpg.Connection[asyncpg.Record]:
    """Open one connection of its own, outside any pool; the caller closes it."""
    connection: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(
        **address.connect_arguments(role)
    )
    await _prepare_connection(connection)
    return connection


class Database:
    """A pool of connections that are all logged in as one role."""

    def __init__(self, pool: asyncpg.Pool[asyncpg.Record], *, patience_s: float) -> None:
        self._pool = pool
        self._patience_s = patience_s

    @classmethod
    @asynccontextmanager
    async def open(
        cls, address: Address, role: str, *, size: int = 10, patience_s: float = 60.0
    ) -> AsyncIterator[Database]:
        """Open a pool. `patience_s` is how long a lost server is waited for."""
        try:
            pool = await asyncpg.create_pool(
                **address.connect_arguments(role),
                min_size=1,
                max_size=size,
                init=_prepare_connection,
                reset=_reset_connection,
            )
        except (*CONNECTION_LOST, OSError, asyncpg.PostgresError) as error:
            raise DatabaseUnreachable(describe_failure(address, error)) from error
        try:
            yield cls(pool, patience_s=patience_s)
        finally:
            await _close(pool)

    async def transact(self, tenant_id: UUID, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run work in one transaction of one tenant; again if writers collided or the server left.

        Work may run several times and must be keyed or fenced so that this is harmless.
        """
        give_up_at = asyncio.get_running_loop().time() + self._patience_s
        collisions, delay_s = 0, 0.05
        while True:
            try:
                return await self._transact_once(tenant_id, work)
            except COLLISIONS:
                collisions += 1
                if collisions >= COLLISION_TRIES:
                    raise
            except CONNECTION_LOST as error:
                await self._be_patient(error, give_up_at, delay_s)
                delay_s = min(delay_s * 2, 1.0)
            except asyncpg.PostgresError as error:
                if error.sqlstate in REFUSALS:
                    raise REFUSALS[error.sqlstate](f"{error}.") from error
                raise

    async def _be_patient(self, error: Exception, give_up_at: float, delay_s: float) -> None:
        if asyncio.get_running_loop().time() >= give_up_at:
            raise DatabaseUnreachable(
                f"The database did not come back within {self._patience_s:g} s."
            ) from error
        await asyncio.sleep(delay_s)

    async def _transact_once(
        self, tenant_id: UUID, work: Callable[[Connection], Awaitable[T]]
    ) -> T:
        async with self._pool.acquire() as connection:
            try:
                # One round trip for both; a UUID needs no quoting beyond its own form.
                await connection.execute(
                    f"begin; select set_config('dialectic.tenant', '{UUID(str(tenant_id))}', true)"
                )
                result = await work(connection)
            except BaseException:
                if not connection.is_closed():
                    await connection.execute("rollback")
                raise
            await connection.execute("commit")
            return result

    async def fetch(self, query: str, *arguments: Any) -> list[asyncpg.Record]:
        """Run one statement outside any tenant: only functions that check for themselves."""
        return await self._pool.fetch(query, *arguments)


async def _close(pool: asyncpg.Pool[asyncpg.Record]) -> None:
    try:
        await asyncio.wait_for(pool.close(), timeout=5.0)
    except (TimeoutError, *CONNECTION_LOST):
        pool.terminate()


def describe_failure(address: Address, error: BaseException) -> str:
    """Say what could not be reached and what to do, without the password of the URL."""
    if address.is_embedded:
        return f"The embedded database does not answer: {error}. Try `dialectic doctor`."
    return (
        f"The database at {redact(address.url)} cannot be used: "
        f"{str(error) or type(error).__name__}. "
        "Check DIALECTIC_DATABASE_URL, that the server runs and lets you in, or unset it to use "
        "the embedded one."
    )


def redact(url: str) -> str:
    """Hide the password of a database URL."""
    head, at, tail = url.rpartition("@")
    if not at:
        return url
    scheme, _, login = head.partition("://")
    return f"{scheme}://{login.partition(':')[0]}@{tail}"
