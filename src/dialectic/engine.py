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
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID
from weakref import WeakValueDictionary

import asyncpg

from dialectic.db.migrate import DIGEST_ROW, READ_DIGEST, is_current, migrate
from dialectic.db.pool import APP_ROLE, Address, Database
from dialectic.db.statistics import Counters
from dialectic.errors import (
    ConfigurationError,
    DialecticError,
    EmbeddedServerError,
    ProviderTransient,
)
from dialectic.live_calls import LiveCalls
from dialectic.postgres import embedded
from dialectic.settings import EMBEDDER, Settings
from dialectic.storage.file_store import FileStore, open_store, require_identity
from dialectic.telemetry import OFF, Telemetry, open_telemetry

if TYPE_CHECKING:
    from dialectic.core.process.definition import Process
    from dialectic.limits.admission import HealthCache
    from dialectic.providers.catalog import Catalog
    from dialectic.retrieval.embedders import Embedder, Embedders

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
# How long to wait before a fault that lasts is logged again.
TOLD_AGAIN_S = 60.0


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
    """A fault that lasts: each kind of it is logged once in a while, not at every try.

    A full disk lets some tries succeed, so a success between two errors does not make the second
    one news.
    """

    error: Exception | None = None
    _told_at_s: dict[tuple[object, ...], float] = field(default_factory=dict)

    def begins(self, error: Exception) -> bool:
        """Remember the newest error; return whether its kind was not logged lately."""
        self.error = error
        kind, now_s = _name_kind(error), time.monotonic()
        told_at_s = self._told_at_s.get(kind)
        if told_at_s is not None and now_s < told_at_s + TOLD_AGAIN_S:
            return False
        self._told_at_s[kind] = now_s
        return True

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
    # Shared by all copies of the engine, and made on first use: many commands call no model.
    made: dict[str, Any] = field(default_factory=dict)
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
    def calm(self) -> HealthCache:
        """The cached state of endpoints, which saves queries."""
        if "calm" not in self.made:
            from dialectic.limits.admission import HealthCache

            self.made["calm"] = HealthCache()
        return cast("HealthCache", self.made["calm"])

    @property
    def embedders(self) -> Embedders:
        """The embedders of this process."""
        if "embedders" not in self.made:
            from dialectic.retrieval.embedders import Embedders

            self.made["embedders"] = Embedders()
        return cast("Embedders", self.made["embedders"])

    @property
    def spend_fraction(self) -> Decimal:
        """The share of the available funds that one call may cost without an approval."""
        return Decimal(str(self.settings.max_spend_fraction))

    @property
    def embedder(self) -> Embedder:
        """The configured embedder; opened on first use."""
        return self.embedders.load(self.settings.embedder, self.catalog)


class DeferredCatalog:
    """The catalogue of the settings, built when it is first used: many commands call no model."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._built: Catalog | None = None

    def __getattr__(self, name: str) -> Any:
        if self._built is None:
            from dialectic.providers.catalog import build_catalog

            self._built = build_catalog(self._settings)
        return getattr(self._built, name)

    async def close(self) -> None:
        """Close the providers that were opened."""
        if self._built is not None:
            await self._built.close()


@asynccontextmanager
async def open_engine(
    settings: Settings,
    catalog: Catalog | None = None,
    *,
    role: str = APP_ROLE,
    pool_size: int = 10,
    patience_s: float = PATIENCE_S,
    checks_storage: bool = True,
) -> AsyncIterator[Engine]:
    """Open what a command needs; close everything in the reverse order."""
    failpoints = Failpoints.parse(settings.failpoints)
    if catalog is None:
        catalog = cast("Catalog", DeferredCatalog(settings))
    _check_embedder(settings, catalog)
    files = open_store(settings.storage_location, settings.storage_access)
    async with contextlib.AsyncExitStack() as stack:
        tracing = open_telemetry(settings)
        telemetry = tracing.__enter__()
        # At exit a collector may be slow.
        stack.push_async_callback(asyncio.to_thread, tracing.__exit__, None, None, None)
        stack.push_async_callback(catalog.close)
        address = await stack.enter_async_context(open_address(settings))
        open_pool = functools.partial(
            Database.open, address, role, size=pool_size, patience_s=patience_s
        )
        db = await _open_current(stack, open_pool) if address.is_embedded else None
        if db is None:
            await migrate(address)
            db = await stack.enter_async_context(open_pool())
        stack.push_async_callback(_tell, db)
        engine = Engine(settings, address, db, files, catalog, failpoints, telemetry=telemetry)
        if checks_storage:
            await check_storage(engine)
        yield engine


async def _open_current(
    stack: contextlib.AsyncExitStack, open_pool: Callable[[], AbstractAsyncContextManager[Database]]
) -> Database | None:
    """Open the pool of a database that has this version's schema; None if it is to be migrated.

    It saves a connection, and the time that the usual command needs for one. Whatever is wrong,
    `migrate` corrects or explains it.
    """
    async with contextlib.AsyncExitStack() as attempt:
        with contextlib.suppress(DialecticError, asyncpg.PostgresError):
            db = await attempt.enter_async_context(open_pool())
            if is_current(await db.fetch(READ_DIGEST, DIGEST_ROW, patience_s=0.0)):
                stack.push_async_exit(attempt.pop_all())
                return db
    return None


def _check_embedder(settings: Settings, catalog: Catalog) -> None:
    if settings.embedder != EMBEDDER:  # the default needs no check, and no import
        from dialectic.retrieval.embedders import check_embedder

        check_embedder(settings.embedder, catalog)


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
        start = embedded.Start(idle_s=settings.database_idle_s)
        membership = embedded.join_server(settings.home, start)
        server = await _join(membership)
        stack.push_async_callback(asyncio.to_thread, membership.__exit__, None, None, None)
        watcher = asyncio.create_task(_keep_alive(settings))
        stack.push_async_callback(_cancel, watcher)
        yield Address(server.url(user=SUPERUSER, database=DATABASE), is_embedded=True)


async def _join(membership: embedded.Membership) -> embedded.Server:
    """Join in a thread. If this is cancelled, wait for the thread and leave again."""
    joining = asyncio.ensure_future(asyncio.to_thread(membership.__enter__))
    try:
        return await asyncio.shield(joining)
    except asyncio.CancelledError:
        with contextlib.suppress(EmbeddedServerError):
            await joining
            await asyncio.to_thread(membership.__exit__, None, None, None)
        raise


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
