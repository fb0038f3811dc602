"""A connection that asks what a built-in type is once a process, not once a connection.

Knows nothing of tables. Before the driver can pass an array it asks the server what its type is
made of, by a question that takes longer than any of ours and that every connection would ask again.
What a built-in type is made of never changes between two servers of one version, so one answer
serves all. Types that a database defines for itself are still asked for: their numbers are its own.

Connections: a pool that logs in as one role, and transactions that belong to one tenant.

Knows nothing of jobs or texts. A transaction sets its tenant first and is never open across a
model call. What fails because the server went away, is full or two writers collided is tried again
here, with what was to be written still in memory; that is safe because every write is keyed by the
work and fenced by its attempt. What does not pass leaves as an error of ours with its fate; only
statements that can never succeed leave as the driver raised them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
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
from dialectic.db.counters import CounterName, Counters
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

# The driver's own question. It offers no public way to be handed an answer; a test sees to it that
# it still asks here.
_QUESTION = "_introspect_types"
# Below this every number stands in PostgreSQL's source; some above are given with a new server.
FIRST_OWN_TYPE = 10_000

_KNOWN: dict[tuple[int, frozenset[int]], Any] = {}


@dataclass(frozen=True, slots=True)
class _Remembered:
    """Stands where the driver expects the statement by which it asked: none was sent."""

    name: str = "remembered"


class TypeCachingConnection(DriversConnection):
    """A connection of the driver's that remembers what all of them have learnt."""

    async def _introspect_types(
        self,
        typeoids: Iterable[int],
        timeout: float | None,  # noqa: ASYNC109  the driver's
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

COLLISION_TRIES = 5
DELAY_FIRST_S = 0.05
DELAY_MAX_S = 1.0
CONNECT_TIMEOUT_S = 5.0
COMMAND_TIMEOUT_S = 60.0
# No transaction waits for anything but the server. A client that is silent for so long in the
# middle of one is frozen or cut off, and everyone else waits for the rows it has locked. The second
# limit also meets a client that froze between the two halves of a statement: that is not idle.
IDLE_IN_TRANSACTION_S = 5.0
TRANSACTION_S = 10.0
TRANSACTION_TIMEOUT_SINCE = 17

COLLISIONS = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.LockNotAvailableError,
)
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

# What the server says, by the code it says it with or that code's first two characters.
NO_ROOM = ("53100", "53200", "54")
# The same row twice in one statement, wrong data, a broken rule, a wrong statement: no second try
# mends these. DJ is our own guard.
NEVER_PASSES = ("21", "22", "23", "42", "DJ")
# A table, column or function that is not there or not for us: the program's fault, or it is older
# or newer than the database.
WRONG_STATEMENT = ("42",)
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

    def connect_arguments(self, role: str, *, waits_for_disk: bool = True) -> dict[str, Any]:
        """Build what asyncpg needs to connect as a role.

        A commit that need not outlive a crash of the server does not wait for its disk.
        """
        settings = {
            "search_path": "dialectic,public,extensions",
            "application_name": role,
            "idle_in_transaction_session_timeout": f"{IDLE_IN_TRANSACTION_S * 1000:.0f}",
            # Statements go by keys: planned once a connection, not again for each of their first
            # uses, which takes the server longer than to carry them out.
            "plan_cache_mode": "force_generic_plan",
        }
        if not waits_for_disk:
            settings["synchronous_commit"] = "off"
        arguments: dict[str, Any] = {
            "dsn": self.url,
            "timeout": CONNECT_TIMEOUT_S,
            "command_timeout": COMMAND_TIMEOUT_S,
            "server_settings": settings,
            "connection_class": TypeCachingConnection,
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
    try:
        connection: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(
            **address.connect_arguments(role)
        )
    except OSError as error:
        raise ConnectionError(str(error)) from error
    await _prepare_connection(connection)
    return connection


class Database:
    """A pool of connections that are all logged in as one role."""

    def __init__(self, pool: asyncpg.Pool[asyncpg.Record], *, patience_s: float) -> None:
        self._pool = pool
        self._patience_s = patience_s
        self.counters = Counters()

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
        """Run work in one transaction of one tenant; again while what goes wrong may pass.

        Work may run several times and must be keyed or fenced so that this is harmless.
        """
        return await self._insist(lambda: self._transact_once(tenant_id, work), self._patience_s)

    async def fetch(
        self, query: str, *arguments: Any, patience_s: float | None = None
    ) -> list[asyncpg.Record]:
        """Run one statement outside any tenant: only functions that are told for whom they act."""

        async def ask() -> list[asyncpg.Record]:
            async with self._acquire() as connection:
                return await connection.fetch(query, *arguments)

        return await self._insist(ask, self._patience_s if patience_s is None else patience_s)

    def count_connections(self) -> tuple[int, int]:
        """Count the connections of the pool: those that are idle, and all."""
        return self._pool.get_idle_size(), self._pool.get_size()

    async def _insist(self, attempt: Callable[[], Awaitable[T]], patience_s: float) -> T:
        """Try until it succeeds, can never succeed, or patience is at its end."""
        clock = asyncio.get_running_loop().time
        give_up_at = clock() + patience_s
        collisions, delays = 0, iterate_delays(DELAY_FIRST_S, DELAY_MAX_S, random.uniform)
        while True:
            try:
                return await attempt()
            except (*CONNECTION_LOST, asyncpg.PostgresError) as error:
                refusal = REFUSALS.get(getattr(error, "sqlstate", None))
                if refusal is not None:
                    raise refusal(f"{error}.", reason=read_rule(error)) from error
                if has_code(error, *NEVER_PASSES):
                    raise
                if isinstance(error, COLLISIONS):
                    collisions += 1
                    self.counters.count(name_collision(error))
                if clock() >= give_up_at or collisions >= COLLISION_TRIES:
                    raise translate_fault(error) from error
            await asyncio.sleep(next(delays))

    @asynccontextmanager
    async def _acquire(self) -> AsyncIterator[Connection]:
        # A full pool is waited for as long as a server that is away, and no longer.
        try:
            async with asyncio.timeout(self._patience_s):
                connection = await self._pool.acquire()
        except TimeoutError as error:
            if self._pool.get_size() < self._pool.get_max_size():
                raise ConnectionError("it does not answer") from error
            raise DatabaseBusy(
                f"All {self._pool.get_max_size()} connections to the database are in use, for "
                f"{self._patience_s:g} s now. Come back a little later.",
                reason="pool_used_up",
                limit=self._pool.get_max_size(),
            ) from error
        except OSError as error:  # no route, no name, no certificate: faces of a server that moved
            raise ConnectionError(str(error)) from error
        try:
            yield connection
        finally:
            await self._pool.release(connection)

    async def _transact_once(
        self, tenant_id: UUID, work: Callable[[Connection], Awaitable[T]]
    ) -> T:
        async with self._acquire() as connection:
            return await transact_on(connection, tenant_id, work)


async def transact_on(
    connection: Connection, tenant_id: UUID, work: Callable[[Connection], Awaitable[T]]
) -> T:
    """Run work in one transaction of one tenant on this connection, once."""
    try:
        # One round trip for both; a UUID needs no quoting beyond its own form.
        await connection.execute(
            f"begin; select set_config('dialectic.tenant', '{UUID(str(tenant_id))}', true)"
        )
        result = await work(connection)
    except BaseException:
        # What is on its way goes on, also if the connection is lost with it: who is told to leave
        # must not take that for something to be tried again.
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
    """Hang up on a server that does not answer, which ends the wait of its callers."""
    timer = asyncio.get_running_loop().call_later(patience_s, connection.terminate)
    try:
        yield
    finally:
        timer.cancel()


def read_rule(error: BaseException) -> str:
    """Read the name of the rule that a statement broke: constraints and our functions have one."""
    return str(getattr(error, "constraint_name", None) or "")


def has_code(error: BaseException, *codes: str) -> bool:
    """Say whether the server gave one of these codes, or one of these classes of codes."""
    code = error.sqlstate if isinstance(error, asyncpg.PostgresError) else None
    return code is not None and code.startswith(codes)


def name_collision(error: BaseException) -> CounterName:
    """Name the way in which two writers met."""
    match error:
        case asyncpg.DeadlockDetectedError():
            return CounterName.DEADLOCK
        case asyncpg.LockNotAvailableError():
            return CounterName.LOCK_TIMEOUT
        case _:
            return CounterName.SERIALIZATION


def translate_fault(error: BaseException) -> DialecticError:
    """Turn a fault that did not pass into an error of ours: what became of it, and its fate."""
    said = (str(error) or type(error).__name__).splitlines()[0]
    if has_code(error, *NO_ROOM):
        return DatabaseFull(
            f"The database has no room: {said}. Make room on its disk, then resume the session.",
            remedy=Remedy(RemedyAction.RESUME),
        )
    if isinstance(error, CONNECTION_LOST):
        return DatabaseUnreachable(f"The database did not come back: {said}.")
    return DatabaseBusy(f"The database could not do it just now: {said}.")


async def _close(pool: asyncpg.Pool[asyncpg.Record]) -> None:
    try:
        await asyncio.wait_for(pool.close(), timeout=5.0)
    except (TimeoutError, *CONNECTION_LOST):
        pool.terminate()


def describe_failure(address: Address, error: BaseException) -> str:
    """Say what could not be reached and what to do, without the password of the URL."""
    if address.is_embedded:
        return f"The embedded database does not answer: {error}."
    # What is said of an address that makes no sense may repeat any part of it.
    reason = "it is not an address" if isinstance(error, ValueError) else str(error)
    return (
        f"The database at {redact(address.url)} cannot be used: {reason or type(error).__name__}. "
        "Check DIALECTIC_DATABASE_URL (postgresql://user:password@host:port/database), that the "
        "server runs and lets you in, or unset it to use the embedded one."
    )


_HOST = r"(?:[\w.%-]*|\[[0-9a-fA-F:.%]+\])(?::\d*)?"
HOSTS = re.compile(f"{_HOST}(?:,{_HOST})*")
UNREADABLE = "(an address that cannot be read)"


def redact(url: str) -> str:
    """Say user, host, port and database of a URL, and nothing else; nothing at all if in doubt."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return UNREADABLE
    login, _, hosts = parts.netloc.rpartition("@")
    query = dict(parse_qsl(parts.query))
    # An @ anywhere else may belong to a password that was not quoted.
    is_cut_off = "@" in f"{login}{parts.path}{parts.query}{parts.fragment}"
    if parts.scheme not in ("postgresql", "postgres") or is_cut_off or not HOSTS.fullmatch(hosts):
        return UNREADABLE
    user = login.partition(":")[0] or query.get("user", "")
    place = hosts or ":".join(query[key] for key in ("host", "port") if key in query)
    database = parts.path.lstrip("/") or query.get("dbname", "")
    return f"{parts.scheme}://{user}{'@' if user else ''}{place}/{database}"
