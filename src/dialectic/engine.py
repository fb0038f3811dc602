"""The resources of a process, opened once and passed explicitly. Pure functions are imported.

Opening an engine joins the embedded server (unless a server elsewhere is set), brings the schema
up to date, opens a pool for one role and checks that the store belongs to the database. The engine
also has the failpoints: DIALECTIC_FAILPOINTS holds `point=action` pairs with commas between them;
`@n` after the action means the n-th time the point is reached.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from uuid import UUID
from weakref import WeakValueDictionary

import asyncpg

from dialectic.core.process.definition import Process
from dialectic.db.migrate import migrate
from dialectic.db.pool import APP_ROLE, Address, Database
from dialectic.db.statistics import Counters
from dialectic.errors import (
    ConfigurationError,
    DialecticError,
    EmbeddedServerError,
    ProviderTransient,
)
from dialectic.limits.admission import HealthCache
from dialectic.live_calls import LiveCalls
from dialectic.postgres import embedded
from dialectic.providers.catalog import Catalog
from dialectic.retrieval.embedders import Embedder, Embedders, check_embedder
from dialectic.settings import Settings
from dialectic.storage.file_store import FileStore, open_store, require_identity
from dialectic.telemetry import OFF, Telemetry, open_telemetry

POINTS = (
    "after_claim",  # the job is ours, nothing is read yet
    "before_send",  # the prompt is ready; no money is reserved, no byte is sent
    "after_reply",  # the response has arrived, nothing is saved
    "before_commit",  # everything is written in the transaction, which is still open
    "after_commit",  # saved; files are not in storage yet
    "after_files",  # files are in storage, not marked as written
)
ACTIONS = ("kill", "stop", "error")


@dataclass(slots=True)
class Failpoints:
    """The armed failpoints and how often each was reached."""

    armed: dict[str, tuple[str, int]]
    reached: Counter[str] = field(default_factory=Counter)

    @classmethod
    def parse(cls, text: str) -> Failpoints:
        """Parse the setting; an unknown point or action is an error that names the known ones."""
        armed: dict[str, tuple[str, int]] = {}
        for pair in filter(None, (part.strip() for part in text.split(","))):
            point, _, rest = pair.partition("=")
            action, _, nth = rest.partition("@")
            is_count = (nth or "1").isdecimal() and int(nth or "1") >= 1
            if point not in POINTS or action not in ACTIONS or not is_count:
                raise ConfigurationError(
                    f"Failpoint {pair!r} is not known. Write `point=action@n` with a point of "
                    f"{', '.join(POINTS)} and an action of {', '.join(ACTIONS)}.",
                    reason="no_failpoint",
                    subject=pair,
                )
            armed[point] = (action, int(nth or "1"))
        return cls(armed)

    def reach(self, point: str) -> None:
        """Report that the process has reached this point."""
        assert point in POINTS, point
        if point not in self.armed:
            return
        self.reached[point] += 1
        action, nth = self.armed[point]
        if self.reached[point] != nth:
            return
        if action == "error":
            raise ProviderTransient(f"Failpoint {point} is armed.")
        os.kill(os.getpid(), signal.SIGKILL if action == "kill" else signal.SIGSTOP)


logger = logging.getLogger(__name__)

DATABASE = "dialectic"
SUPERUSER = "postgres"
WATCH_INTERVAL_S = 0.5
# How long to wait for a lost server before the caller gets an error.
PATIENCE_S = 60.0


class KeyedLocks:
    """Per-key locks: one coroutine at a time for each key; different keys do not block."""

    def __init__(self) -> None:
        # A lock is dropped when its last waiter has left.
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    def lock(self, name: Hashable) -> asyncio.Lock:
        """Return the lock of a key; hold it while finding or creating the thing."""
        found = self._locks.get(name)
        if found is None:
            found = self._locks[name] = asyncio.Lock()
        return found


@dataclass(slots=True)
class Outage:
    """A fault that lasts: it is logged when it begins or changes, not at every try."""

    error: Exception | None = None

    def begins(self, error: Exception) -> bool:
        """Remember the newest error; return whether it differs in kind from the one before."""
        is_new = self.error is None or _name_kind(self.error) != _name_kind(error)
        self.error = error
        return is_new

    def ends(self) -> bool:
        """Forget the error; return whether there was one."""
        had_error, self.error = self.error is not None, None
        return had_error


def _name_kind(error: Exception) -> tuple[object, ...]:
    return (type(error), getattr(error, "reason", None), getattr(error, "sqlstate", None))


@dataclass(frozen=True, slots=True)
class Engine:
    """The live resources of one process."""

    settings: Settings
    address: Address
    db: Database
    files: FileStore
    catalog: Catalog
    failpoints: Failpoints
    # Processes as pinned, by the id of their version: a version never changes.
    processes: dict[UUID, Process] = field(default_factory=dict)
    # The cached state of endpoints, which saves queries.
    calm: HealthCache = field(default_factory=HealthCache)
    embedders: Embedders = field(default_factory=Embedders)
    # Per-key locks: one coroutine at a time compresses a given text.
    turns: KeyedLocks = field(default_factory=KeyedLocks)
    # Why files cannot be written to storage at the moment, if they cannot.
    storage_outage: Outage = field(default_factory=Outage)
    telemetry: Telemetry = OFF
    # The calls in flight in this process, for those who watch.
    live_calls: LiveCalls = field(default_factory=LiveCalls)

    @property
    def counters(self) -> Counters:
        """The counters of this process; they are flushed to the database."""
        return self.db.counters

    @property
    def spend_fraction(self) -> Decimal:
        """The share of the available funds that one call may cost without an approval."""
        return Decimal(str(self.settings.max_spend_fraction))

    @property
    def embedder(self) -> Embedder:
        """The configured embedder; opened on first use."""
        return self.embedders.load(self.settings.embedder, self.catalog)


@asynccontextmanager
async def open_engine(
    settings: Settings,
    catalog: Catalog,
    *,
    role: str = APP_ROLE,
    pool_size: int = 10,
    patience_s: float = PATIENCE_S,
    checks_storage: bool = True,
) -> AsyncIterator[Engine]:
    """Open what a command needs; close everything in the reverse order."""
    failpoints = Failpoints.parse(settings.failpoints)
    check_embedder(settings.embedder, catalog)
    files = open_store(settings.storage_location, settings.storage_access)
    async with contextlib.AsyncExitStack() as stack:
        tracing = open_telemetry(settings)
        telemetry = tracing.__enter__()
        # At exit a collector may be slow.
        stack.push_async_callback(asyncio.to_thread, tracing.__exit__, None, None, None)
        stack.push_async_callback(catalog.close)
        address = await stack.enter_async_context(open_address(settings))
        await migrate(address)
        db = await stack.enter_async_context(
            Database.open(address, role, size=pool_size, patience_s=patience_s)
        )
        stack.push_async_callback(_tell, db)
        engine = Engine(settings, address, db, files, catalog, failpoints, telemetry=telemetry)
        if checks_storage:
            await check_storage(engine)
        yield engine


async def _tell(db: Database) -> None:
    """Flush the counters at exit; do not wait for an unreachable database."""
    with contextlib.suppress(DialecticError, asyncpg.PostgresError):
        await db.counters.flush(functools.partial(db.fetch, patience_s=0.0))


async def check_storage(engine: Engine) -> None:
    """Reject a store that does not hold this database's documents."""
    is_in_home = engine.address.is_embedded and not engine.settings.storage_url
    await require_identity(engine.files, engine.db, belongs_together=is_in_home)


@asynccontextmanager
async def open_address(settings: Settings) -> AsyncIterator[Address]:
    """Find the database: the configured server, or the embedded one, which is joined."""
    if settings.database_url:
        yield Address(settings.database_url, is_embedded=False)
        return
    async with contextlib.AsyncExitStack() as stack:
        membership = embedded.join_server(settings.home)
        server = await asyncio.to_thread(membership.__enter__)
        stack.push_async_callback(asyncio.to_thread, membership.__exit__, None, None, None)
        await _create_database(server)
        watcher = asyncio.create_task(_keep_alive(settings))
        stack.push_async_callback(_cancel, watcher)
        yield Address(server.url(user=SUPERUSER, database=DATABASE), is_embedded=True)


async def _create_database(server: embedded.Server) -> None:
    try:
        probe = await asyncpg.connect(server.url(user=SUPERUSER, database=DATABASE), timeout=5.0)
        await probe.close()
    except asyncpg.InvalidCatalogNameError:
        connection = await asyncpg.connect(server.url(user=SUPERUSER, database="postgres"))
        try:
            # Two first starts may race here; one of them finds that the database exists.
            with contextlib.suppress(asyncpg.DuplicateDatabaseError, asyncpg.UniqueViolationError):
                await connection.execute(f"create database {DATABASE}")
        finally:
            await connection.close()


async def _keep_alive(settings: Settings) -> None:
    """Restart the embedded server when it dies, as an operator would do for another server."""
    outage = Outage()
    while True:
        await asyncio.sleep(WATCH_INTERVAL_S)
        try:
            if not (await asyncio.to_thread(embedded.describe_server, settings.home)).running:
                if outage.error is None:
                    logger.warning("the embedded PostgreSQL died; restarting it")
                await asyncio.to_thread(embedded.revive_server, settings.home)
            outage.ends()
        except EmbeddedServerError as error:
            if outage.begins(error):
                logger.warning("%s", error.message)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})
