"""Connection pools that log in as one role, and transactions of one tenant.

Independent of jobs and texts. A transaction sets its tenant first and is never open during a model
call. This module retries a transaction when the server is unreachable or full, or when two writers
collide. The retry is safe: every write is keyed by the work and fenced by its attempt. An error
that persists is translated into a `DialecticError`; a statement that can never succeed raises the
driver's own exception.

Connections share a cache of built-in types. The driver introspects a type before it can pass an
array, with a query slower than any of ours, once per connection. Built-in types are the same on all
servers of one version, so the cache asks once per process. Types that a database defines have OIDs
of their own and are not cached.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import parse_qsl, urlsplit
from uuid import UUID

import asyncpg

from dialectic.core.backoff import iterate_delays
from dialectic.db.pooler import find_pooler_error
from dialectic.db.statistics import CounterName, Counters
from dialectic.errors import (
    Conflict,
    DatabaseBusy,
    DatabaseFull,
    DatabaseUnreachable,
    DialecticError,
    IllegalMove,
    Remedy,
    RemedyAction,
)

if TYPE_CHECKING:
    DriversConnection = asyncpg.Connection[asyncpg.Record]
else:
    DriversConnection = asyncpg.Connection

# The driver has no public hook for introspection; a test checks that it still calls this method.
_QUESTION = "_introspect_types"
# OIDs below this are fixed in PostgreSQL's source; higher ones may differ between servers.
FIRST_OWN_TYPE = 10_000

_KNOWN: dict[tuple[int, frozenset[int]], Any] = {}


@dataclass(frozen=True, slots=True)
class _Remembered:
    """Placeholder for the introspection statement that the driver expects: none was sent."""

    name: str = "remembered"


class TypeCachingConnection(DriversConnection):
    """A driver connection that caches built-in types for all connections of the process."""

    async def _introspect_types(
        self,
        typeoids: Iterable[int],
        timeout: float | None,  # noqa: ASYNC109  the driver's signature
    ) -> tuple[Any, Any]:
        key = (self.get_server_version().major, frozenset(typeoids))
        if key in _KNOWN:
            return _KNOWN[key], _Remembered()
        types, statement = await getattr(super(), _QUESTION)(typeoids, timeout)
        if all(oid < FIRST_OWN_TYPE for oid in key[1]):
            _KNOWN[key] = types
        return types, statement


Connection: TypeAlias = (
    "asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
)
T = TypeVar("T")

APP_ROLE = "dialectic_app"
WORKER_ROLE = "dialectic_worker"
OWNER_ROLE = "dialectic_owner"

BEGIN = "begin"
# All statements see the same moment; nothing can be written.
BEGIN_SNAPSHOT = "begin isolation level repeatable read read only"

COLLISION_TRIES = 5
DELAY_FIRST_S = 0.05
DELAY_MAX_S = 1.0
CONNECT_TIMEOUT_S = 5.0
COMMAND_TIMEOUT_S = 60.0
# A transaction waits for the server only. A client that is silent for this long inside one is
# frozen or disconnected, and its row locks block everyone else. The second limit also covers a
# client that froze in the middle of a statement, which PostgreSQL does not count as idle.
IDLE_IN_TRANSACTION_S = 5.0
TRANSACTION_S = 10.0
TRANSACTION_TIMEOUT_SINCE = 17
# How long a call waits for a connection while others get one.
LINE_MAX_S = 30.0
# How long a call waits for disk space. A person must make room, and learns of it afterwards.
NO_ROOM_PATIENCE_S = 20.0
# A timer that fires later than this says more about this process than about the server.
LOOP_LAG_S = 0.5

COLLISIONS = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.LockNotAvailableError,
)
CONNECTION_LOST = (
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the driver, when the connection breaks mid-protocol
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.TransactionTimeoutError,
    asyncpg.TooManyConnectionsError,
    ConnectionError,
    FileNotFoundError,  # the socket of an embedded server that is not running
    TimeoutError,
)

# SQLSTATEs, or their first two characters (the class), by what they mean for the caller.
NO_ROOM = ("53100", "53200", "54")
# Not retried: cardinality violation, data exception, integrity violation, invalid statement, and
# DJ, the class that our own functions raise.
NEVER_PASSES = ("21", "22", "23", "42", "DJ")
# A table, column or function is missing or not permitted: a bug, or the schema has another version.
WRONG_STATEMENT = ("42",)
# SQLSTATEs of the guards of jobs and sessions, and the error that each becomes.
REFUSALS: dict[str | None, type[Conflict]] = {"DJ001": IllegalMove, "DJ003": Conflict}


@dataclass(frozen=True, slots=True)
class Address:
    """Where the database is and how a role logs in.

    On the embedded server each role logs in by its own name. On other servers the URL's login
    assumes the role (`set role`) when it connects; the role survives the pool's reset.
    """

    url: str
    is_embedded: bool

    def connect_arguments(self, role: str) -> dict[str, Any]:
        """Build the arguments with which asyncpg connects as a role.

        Few startup parameters: connection poolers reject those that they do not track.
        """
        arguments: dict[str, Any] = {
            "dsn": self.url,
            "timeout": CONNECT_TIMEOUT_S,
            "command_timeout": COMMAND_TIMEOUT_S,
            "server_settings": {"application_name": role},
            "connection_class": TypeCachingConnection,
        }
        if self.is_embedded:
            arguments["user"] = role
        return arguments

    async def set_up(self, role: str, connection: Any, *, waits_for_disk: bool = True) -> None:
        """Set up a new session, in one round trip.

        Without `waits_for_disk` commits are asynchronous: a server crash may lose the last ones.
        """
        settings = {
            "search_path": "dialectic, public, extensions",
            "idle_in_transaction_session_timeout": f"{IDLE_IN_TRANSACTION_S * 1000:.0f}",
            # Statements look rows up by key, so a generic plan is good. Custom plans for the first
            # uses would take the server longer than the statements themselves.
            "plan_cache_mode": "force_generic_plan",
        }
        if not waits_for_disk:
            settings["synchronous_commit"] = "off"
        if connection.get_server_version().major >= TRANSACTION_TIMEOUT_SINCE:
            settings["transaction_timeout"] = f"{TRANSACTION_S * 1000:.0f}"
        if not self.is_embedded:
            settings["role"] = role
        sets = ", ".join(f"set_config('{name}', '{v}', false)" for name, v in settings.items())
        await connection.execute(f"select {sets}")


async def _add_codecs(connection: Any) -> None:
    for kind in ("json", "jsonb"):
        await connection.set_type_codec(
            kind, encoder=json.dumps, decoder=json.loads, schema="pg_catalog"
        )


async def _reset_connection(connection: Any) -> None:
    """Check only: all settings are local to a transaction, so there is nothing to reset."""
    assert not connection.is_in_transaction(), "a transaction was left open"


async def open_session(
    address: Address, role: str, *, waits_for_disk: bool = True
) -> asyncpg.Connection[asyncpg.Record]:
    """Open one connection outside any pool, with the driver's own codecs; the caller closes it."""
    try:
        connection: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(
            **address.connect_arguments(role)
        )
    except OSError as error:
        raise ConnectionError(str(error)) from error
    try:
        await address.set_up(role, connection, waits_for_disk=waits_for_disk)
    except BaseException:
        connection.terminate()
        raise
    return connection


async def connect(address: Address, role: str) -> asyncpg.Connection[asyncpg.Record]:
    """Open one connection outside any pool; the caller closes it."""
    connection = await open_session(address, role)
    await _add_codecs(connection)
    return connection


class Database:
    """A pool of connections that are all logged in as one role."""

    def __init__(self, pool: asyncpg.Pool[asyncpg.Record], *, patience_s: float) -> None:
        self._pool = pool
        self._patience_s = patience_s
        # When a call last got a connection.
        self._moved_at = -math.inf
        self.counters = Counters()

    @classmethod
    @asynccontextmanager
    async def open(
        cls, address: Address, role: str, *, size: int = 10, patience_s: float = 60.0
    ) -> AsyncIterator[Database]:
        """Open a pool. `patience_s` limits how long a call retries while the server is down."""

        async def prepare(connection: Any) -> None:
            await address.set_up(role, connection)
            await _add_codecs(connection)

        try:
            pool = await asyncpg.create_pool(
                **address.connect_arguments(role),
                min_size=1,
                max_size=size,
                init=prepare,
                reset=_reset_connection,
            )
        except (*CONNECTION_LOST, OSError, asyncpg.PostgresError) as error:
            raise explain_failure(address, error) from error
        try:
            yield cls(pool, patience_s=patience_s)
        finally:
            await _close(pool)

    async def transact(
        self,
        tenant_id: UUID,
        work: Callable[[Connection], Awaitable[T]],
        *,
        patience_s: float | None = None,
    ) -> T:
        """Run work in one transaction of one tenant; retry on transient errors.

        Work may run several times, so its writes must be keyed or fenced.
        """
        return await self._insist(
            lambda: self._transact_once(tenant_id, work),
            self._patience_s if patience_s is None else patience_s,
        )

    async def read(self, tenant_id: UUID, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run work that only reads, with one snapshot for all its statements."""

        async def attempt() -> T:
            async with self._acquire() as connection:
                return await transact_on(connection, tenant_id, work, begin=BEGIN_SNAPSHOT)

        return await self._insist(attempt, self._patience_s)

    async def fetch(
        self, query: str, *arguments: Any, patience_s: float | None = None
    ) -> list[asyncpg.Record]:
        """Run one statement without a tenant; the SQL function sets or checks its own."""

        async def ask() -> list[asyncpg.Record]:
            async with self._acquire() as connection:
                return await connection.fetch(query, *arguments)

        return await self._insist(ask, self._patience_s if patience_s is None else patience_s)

    def count_connections(self) -> tuple[int, int]:
        """Count the pool's connections: idle, and total."""
        return self._pool.get_idle_size(), self._pool.get_size()

    async def _insist(self, attempt: Callable[[], Awaitable[T]], patience_s: float) -> T:
        """Retry until the attempt succeeds, fails permanently, or `patience_s` has passed."""
        clock = asyncio.get_running_loop().time
        begun_at = clock()
        collisions, delays = 0, iterate_delays(DELAY_FIRST_S, DELAY_MAX_S, random.uniform)
        while True:
            try:
                return await attempt()
            except (*CONNECTION_LOST, asyncpg.PostgresError) as error:
                refusal = REFUSALS.get(getattr(error, "sqlstate", None))
                if refusal is not None:
                    raise refusal(f"{error}.", reason=read_rule(error)) from error
                if (pooler := find_pooler_error(error)) is not None:
                    raise pooler from error
                if has_code(error, *NEVER_PASSES):
                    raise
                if isinstance(error, COLLISIONS):
                    collisions += 1
                    self.counters.count(name_collision(error))
                if collisions >= COLLISION_TRIES or clock() >= begun_at + _limit(error, patience_s):
                    raise translate_fault(error) from error
            await asyncio.sleep(next(delays))

    @asynccontextmanager
    async def _acquire(self) -> AsyncIterator[Connection]:
        try:
            connection = await self._stand_in_line()
        except TimeoutError as error:
            if self._pool.get_size() < self._pool.get_max_size():
                raise ConnectionError("the server does not respond") from error
            raise DatabaseBusy(
                f"All {self._pool.get_max_size()} database connections are in use. Retry later.",
                reason="pool_used_up",
                limit=self._pool.get_max_size(),
            ) from error
        except OSError as error:  # no route, no DNS name, bad certificate: treat as unreachable
            raise ConnectionError(str(error)) from error
        try:
            yield connection
        finally:
            await self._pool.release(connection)

    async def _stand_in_line(self) -> asyncpg.pool.PoolConnectionProxy[asyncpg.Record]:
        """Wait for a free connection.

        While the line moves, the server is well and only busy: wait `LINE_MAX_S`. If no call gets a
        connection any more, wait no longer than for an unreachable server.
        """
        loop = asyncio.get_running_loop()
        begun_at = loop.time()
        latest_at = begun_at + max(self._patience_s, LINE_MAX_S)
        limit, timers = asyncio.timeout(None), list[asyncio.TimerHandle]()

        def look() -> None:
            """End the wait, or look again when it must end unless the line moves."""
            due_at = min(latest_at, max(begun_at, self._moved_at) + self._patience_s)
            if loop.time() >= due_at:
                limit.reschedule(due_at)
            else:
                timers[:] = [loop.call_at(due_at, look)]

        look()
        try:
            async with limit:
                connection = await self._pool.acquire()
        finally:
            for timer in timers:
                timer.cancel()
        self._moved_at = loop.time()
        return connection

    async def _transact_once(
        self, tenant_id: UUID, work: Callable[[Connection], Awaitable[T]]
    ) -> T:
        async with self._acquire() as connection:
            return await transact_on(connection, tenant_id, work)


def _limit(error: BaseException, patience_s: float) -> float:
    """Limit how long an error is retried: PostgreSQL comes back by itself, disk space does not."""
    return min(patience_s, NO_ROOM_PATIENCE_S) if has_code(error, *NO_ROOM) else patience_s


async def transact_on(
    connection: Connection,
    tenant_id: UUID,
    work: Callable[[Connection], Awaitable[T]],
    *,
    begin: str = BEGIN,
) -> T:
    """Run work in one transaction of one tenant on this connection, once."""
    try:
        # One round trip for both. A parsed UUID is safe to interpolate.
        await connection.execute(
            f"{begin}; select set_config('dialectic.tenant', '{UUID(str(tenant_id))}', true)"
        )
        result = await work(connection)
    except BaseException:
        # Re-raise the original exception even if the rollback fails: a cancelled caller must not
        # retry.
        try:
            await connection.execute("rollback")
        except CONNECTION_LOST:
            with contextlib.suppress(asyncpg.InterfaceError):
                connection.terminate()
        raise
    await connection.execute("commit")
    return result


@contextlib.contextmanager
def given_up_in_time(
    connection: asyncpg.Connection[asyncpg.Record], patience_s: float
) -> Iterator[None]:
    """Close the connection if the server does not respond in time; raise `ConnectionError` then.

    Time that this process lost itself (a busy event loop, a stopped process) is not the server's
    delay: a timer that fires late grants the server its time once more.
    """
    patience = _Patience(connection, patience_s)
    try:
        yield
    except Exception as error:
        # A statement that loses its connection between two steps fails inside the driver, in ways
        # that the driver does not declare (AttributeError on its own protocol object).
        if patience.has_ended:
            message = f"the database did not answer within {patience_s:g} s"
            raise ConnectionError(message) from error
        if connection.is_closed() and isinstance(error, AttributeError):
            raise ConnectionError("the connection to the database was lost") from error
        raise
    finally:
        patience.timer.cancel()


class _Patience:
    """Terminates a connection after a time, unless the timer is cancelled before."""

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record], patience_s: float) -> None:
        self._connection = connection
        self._patience_s = patience_s
        self._loop = asyncio.get_running_loop()
        self.has_ended = False
        self._wait()

    def _wait(self) -> None:
        self._due_s = self._loop.time() + self._patience_s
        self.timer = self._loop.call_at(self._due_s, self._expire)

    def _expire(self) -> None:
        if self._loop.time() > self._due_s + LOOP_LAG_S:
            self._wait()
        else:
            self.has_ended = True
            self._connection.terminate()


def read_rule(error: BaseException) -> str:
    """Find the name of the violated constraint; our SQL functions set one too."""
    return str(getattr(error, "constraint_name", None) or "")


def has_code(error: BaseException, *codes: str) -> bool:
    """Say whether the error has one of these SQLSTATEs, or is of one of these classes."""
    code = error.sqlstate if isinstance(error, asyncpg.PostgresError) else None
    return code is not None and code.startswith(codes)


def name_collision(error: BaseException) -> CounterName:
    """Name the counter for a collision of two writers."""
    match error:
        case asyncpg.DeadlockDetectedError():
            return CounterName.DEADLOCK
        case asyncpg.LockNotAvailableError():
            return CounterName.LOCK_TIMEOUT
        case _:
            return CounterName.SERIALIZATION


def translate_fault(error: BaseException) -> DialecticError:
    """Translate a driver error that outlasted the retries into a `DialecticError`."""
    said = (str(error) or type(error).__name__).splitlines()[0]
    if has_code(error, *NO_ROOM):
        return DatabaseFull(
            f"The database is out of space: {said}. Free disk space, then resume the session.",
            remedy=Remedy(RemedyAction.RESUME),
        )
    if isinstance(error, CONNECTION_LOST):
        return DatabaseUnreachable(f"The database is unreachable: {said}.")
    return DatabaseBusy(f"The database could not complete the statement: {said}. Retry later.")


async def _close(pool: asyncpg.Pool[asyncpg.Record]) -> None:
    try:
        await asyncio.wait_for(pool.close(), timeout=5.0)
    except (TimeoutError, *CONNECTION_LOST):
        pool.terminate()


def explain_failure(address: Address, error: BaseException) -> DialecticError:
    """Say why no connection could be opened."""
    return find_pooler_error(error) or DatabaseUnreachable(describe_failure(address, error))


def describe_failure(address: Address, error: BaseException) -> str:
    """Say which database is unreachable and what to do, without the URL's password."""
    if address.is_embedded:
        return f"The embedded database does not respond: {error}."
    # The message about an invalid URL may repeat any part of it, including the password.
    reason = "the URL is invalid" if isinstance(error, ValueError) else str(error)
    return (
        f"Cannot connect to the database at {redact(address.url)}: "
        f"{reason or type(error).__name__}. Check that DIALECTIC_DATABASE_URL has the form "
        "postgresql://user:password@host:port/database and that the server runs and accepts the "
        "login. Or unset it to use the embedded database."
    )


_HOST = r"(?:[\w.%-]*|\[[0-9a-fA-F:.%]+\])(?::\d*)?"
HOSTS = re.compile(f"{_HOST}(?:,{_HOST})*")
UNREADABLE = "(an unreadable URL)"


def redact(url: str) -> str:
    """Reduce a URL to user, host, port and database; hide all of it if parsing is doubtful."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return UNREADABLE
    login, _, hosts = parts.netloc.rpartition("@")
    query = dict(parse_qsl(parts.query))
    # An @ anywhere else may belong to an unquoted password.
    is_cut_off = "@" in f"{login}{parts.path}{parts.query}{parts.fragment}"
    if parts.scheme not in ("postgresql", "postgres") or is_cut_off or not HOSTS.fullmatch(hosts):
        return UNREADABLE
    user = login.partition(":")[0] or query.get("user", "")
    place = hosts or ":".join(query[key] for key in ("host", "port") if key in query)
    database = parts.path.lstrip("/") or query.get("dbname", "")
    return f"{parts.scheme}://{user}{'@' if user else ''}{place}/{database}"
