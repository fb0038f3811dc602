"""A laboratory: a home of its own with an embedded server, an engine, and a record of every move.

Owns what an experiment stands on and the work that is fed to the workers. It does not watch over
the server: whoever is under test must bring it back. It knows nothing of what goes wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, TypeVar
from uuid import UUID

import asyncpg

from chaos.sabotage import NONE, Sabotage
from chaos.verdict import Report
from dialectic.app import sessions
from dialectic.app.projects import create_session
from dialectic.app.transaction import Tenant
from dialectic.contract.sessions import RunRequest
from dialectic.core.models.endpoint import KEY_VARIABLES
from dialectic.db.migrate import migrate
from dialectic.db.pool import APP_ROLE, CONNECTION_LOST, Address, Database
from dialectic.db.tables.records import Account, open_account
from dialectic.engine import DATABASE, SUPERUSER, Engine, Failpoints
from dialectic.errors import EmbeddedServerError
from dialectic.postgres import embedded
from dialectic.processes.loader import load_process
from dialectic.providers.catalog import build_catalog
from dialectic.settings import Settings
from dialectic.storage.file_store import open_store

ROOT = Path(__file__).resolve().parents[1]
AUDIT = Path(__file__).with_name("audit.sql")
LOST_LEASES_MAX = 1000
POLL_S = 0.05
PATIENCE_S = 90.0
FEED_AT_ONCE = 3
KEEP_FOLDER = "CHAOS_KEEP"

T = TypeVar("T")


class Stuck(Exception):
    """What was waited for did not come about in time."""


@dataclass(slots=True)
class Lab:
    """What an experiment works with."""

    report: Report
    home: Path
    rng: Random
    settings: Settings
    address: Address
    engine: Engine
    account: Account
    sabotage: Sabotage
    orders: dict[int, UUID] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _admin: asyncpg.Connection[asyncpg.Record] | None = None
    _admin_turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def calls_file(self) -> Path:
        return self.home / "calls.log"

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    def environment(self, **settings: object) -> dict[str, str]:
        """Build the environment of a process that works in this home."""
        return build_environment(
            self.home, max_lost_leases=LOST_LEASES_MAX, **{"lease_s": 1.2, **settings}
        )

    # -- looking behind the scenes ----------------------------------------------------------------

    async def fetch(self, query: str, *arguments: Any) -> list[asyncpg.Record]:
        """Ask the database as its superuser; a lost server is waited for."""
        return await self._ask(lambda connection: connection.fetch(query, *arguments))

    async def fetchval(self, query: str, *arguments: Any) -> Any:
        return await self._ask(lambda connection: connection.fetchval(query, *arguments))

    async def execute(self, query: str, *arguments: Any) -> str:
        return await self._ask(lambda connection: connection.execute(query, *arguments))

    async def _ask(
        self, question: Callable[[asyncpg.Connection[asyncpg.Record]], Awaitable[T]]
    ) -> T:
        give_up_at = time.monotonic() + PATIENCE_S
        while True:
            try:
                async with self._admin_turn:
                    if self._admin is None or self._admin.is_closed():
                        self._admin = await connect_as_superuser(self.address)
                    return await question(self._admin)
            except (*CONNECTION_LOST, OSError):
                if time.monotonic() > give_up_at:
                    raise
                await asyncio.sleep(POLL_S)

    async def wait_for(
        self,
        what: str,
        condition: Callable[[], Awaitable[bool]],
        *,
        patience_s: float = PATIENCE_S,
    ) -> float:
        """Wait until a condition holds; return how long that took, or raise `Stuck`."""
        started = time.monotonic()
        while not await condition():
            if time.monotonic() - started > patience_s:
                raise Stuck(f"{what}: not within {patience_s:g} s")
            await asyncio.sleep(POLL_S)
        return time.monotonic() - started

    async def count_jobs(self, condition: str = "true") -> int:
        count: int = await self.fetchval(
            f"select count(*) from dialectic.dialectic_generation_jobs j where {condition}"
        )
        return count

    async def count_open(self) -> int:
        return await self.count_jobs("not dialectic.is_ended(j.status)")

    # -- work -------------------------------------------------------------------------------------

    async def order(self, *, models_times: int = 2, starts: bool = True) -> UUID:
        """Ask for one more plan, as a person would: a session with its stage started."""
        number = next(self._numbers)
        models = [name for name in self.engine.catalog.cards if name.startswith("offline/")][:3]
        process = load_process("standard")
        ask = RunRequest(
            prompt=f"Order {number}: a small library lends tools to its neighbours.",
            models=models * models_times,
            process=process,
            until=process.order[0].slug,
        )
        begun = await Tenant(self.engine, self.account).run(create_session, ask)
        self.orders[number] = begun.session_id
        if starts:
            await Tenant(self.engine, self.account).run(sessions.generate, begun.session_id)
        return begun.session_id

    @asynccontextmanager
    async def feeding(self, open_min: int) -> AsyncIterator[None]:
        """Order more whenever fewer jobs than this are open."""

        async def feed() -> None:
            while True:
                if await self.count_open() < open_min:
                    await asyncio.gather(*(self.order() for _ in range(FEED_AT_ONCE)))
                else:
                    await asyncio.sleep(POLL_S)

        feeder = asyncio.create_task(feed())
        try:
            yield
            if feeder.done():
                feeder.result()
        finally:
            feeder.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await feeder

    async def wait_until_idle(self, *, patience_s: float = PATIENCE_S) -> bool:
        """Wait until nothing is left to do; say whether that came about.

        Nothing is left when every job has ended, every file is in storage, and the queue is empty.
        """
        left = """
            select (select count(*) from dialectic.dialectic_generation_jobs j
                    where not dialectic.is_ended(j.status))
                 + (select count(*) from dialectic.dialectic_files f where f.written_at is null)
                 + (select count(*) from queue.pgqueuer)
        """

        async def is_idle() -> bool:
            return bool(await self.fetchval(left) == 0)

        try:
            await self.wait_for("all work done", is_idle, patience_s=patience_s)
        except Stuck:
            return False
        return True


def build_environment(home: Path, **settings: object) -> dict[str, str]:
    """Build an environment without settings from outside."""
    dropped = ("DIALECTIC_", *KEY_VARIABLES)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
    environment["DIALECTIC_HOME"] = str(home)
    environment["DIALECTIC_DATABASE_IDLE_S"] = "0"  # what is killed is all that runs
    environment["PYTHONUNBUFFERED"] = "1"
    for name, value in settings.items():
        if value != "":
            environment[f"DIALECTIC_{name.upper()}"] = str(value)
    return environment


async def connect_as_superuser(address: Address) -> asyncpg.Connection[asyncpg.Record]:
    connection: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(
        address.url, timeout=5.0, command_timeout=120.0
    )
    return connection


@asynccontextmanager
async def temporary_home(report: Report) -> AsyncIterator[Path]:
    """Make a home, and leave neither it nor a server in it behind."""
    home = Path(tempfile.mkdtemp(prefix="chaos-"))
    try:
        yield home
    finally:
        for place in (home, home / "home"):
            await asyncio.to_thread(embedded.stop_server, place)
        if KEEP_FOLDER in os.environ:
            report.say(f"kept {home}")
        else:
            await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)


async def prepare_home(report: Report, home: Path) -> None:
    """Copy the server of a home that was made before, if there is one, owners included."""
    if report.made_home is not None:
        await asyncio.to_thread(home.mkdir, exist_ok=True)
        copy = ["cp", "-a", str(report.made_home / "postgres"), str(home / "postgres")]
        await asyncio.to_thread(subprocess.run, copy, check=True)


@asynccontextmanager
async def open_lab(
    report: Report, *, lease_s: float = 1.2, sabotage: Sabotage = NONE
) -> AsyncIterator[Lab]:
    """Open a laboratory on a fresh home."""
    # The driver reports each lost connection with a traceback, and here they are lost on purpose.
    logging.getLogger("asyncpg").setLevel(logging.CRITICAL)
    async with temporary_home(report) as home:
        (home / "logs").mkdir()
        await prepare_home(report, home)
        membership = embedded.join_server(home)
        server = await asyncio.to_thread(membership.__enter__)
        try:
            address = await _prepare_database(server, sabotage)
            settings = Settings(home=home, lease_s=lease_s, max_lost_leases=LOST_LEASES_MAX)
            async with Database.open(address, APP_ROLE, size=5) as db:
                engine = Engine(
                    settings=settings,
                    address=address,
                    db=db,
                    files=open_store(settings.storage_location, settings.storage_access),
                    catalog=build_catalog(settings),
                    failpoints=Failpoints.parse(""),
                )
                account = await open_account(db, "local")
                rng = Random(report.seed)
                lab = Lab(report, home, rng, settings, address, engine, account, sabotage)
                try:
                    yield lab
                finally:
                    if lab._admin is not None:
                        lab._admin.terminate()
        finally:
            with contextlib.suppress(EmbeddedServerError):
                await asyncio.to_thread(membership.__exit__, None, None, None)


async def _prepare_database(server: embedded.Server, sabotage: Sabotage) -> Address:
    first = await asyncpg.connect(server.url(user=SUPERUSER, database="postgres"))
    try:
        with contextlib.suppress(asyncpg.DuplicateDatabaseError):
            await first.execute(f"create database {DATABASE}")
    finally:
        await first.close()
    address = Address(server.url(user=SUPERUSER, database=DATABASE), is_embedded=True)
    await migrate(address)
    connection = await connect_as_superuser(address)
    try:
        await connection.execute(AUDIT.read_text(encoding="utf-8"))
        for statement in sabotage.build_statements():
            await connection.execute(statement)
    finally:
        await connection.close()
    return address


def kill_server(home: Path, number: int = signal.SIGKILL) -> int:
    """Send a signal to the home's server; return the pid it had."""
    pid = embedded.describe_server(home).pid
    if pid is None:
        raise Stuck(f"no server runs in {home}")
    os.kill(pid, number)
    return pid
