"""The servers of tests: copies of one that was made once, and quick rather than durable.

To make a data folder and a schema takes seconds, to copy both takes a tenth of one. How a command
makes them by itself is shown on homes that are not copied.
"""

from __future__ import annotations

import asyncio
import fcntl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg

from dialectic.db.migrate import migrate
from dialectic.db.pool import Address
from dialectic.engine import DATABASE, SUPERUSER
from dialectic.postgres import embedded

# No test cuts the power. A process that is killed loses nothing of what it gave to the system.
QUICK = embedded.Start(
    settings=[*embedded.SETTINGS, "fsync=off", "full_page_writes=off", "synchronous_commit=off"]
)


def make_home(folder: Path) -> Path:
    """Make a home with the product's own database in it, once for all processes of tests."""
    made = folder / "made"
    with (folder / "made.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            unfinished = folder / "unfinished"
            with embedded.join_server(unfinished, QUICK) as server:
                asyncio.run(_make_database(server))
            unfinished.rename(made)
    return made


async def _make_database(server: embedded.Server) -> None:
    connection = await asyncpg.connect(server.url(user=SUPERUSER, database="postgres"))
    try:
        await connection.execute(f"create database {DATABASE}")
    finally:
        await connection.close()
    await migrate(Address(server.url(user=SUPERUSER, database=DATABASE), is_embedded=True))


def copy_server(made: Path, home: Path) -> None:
    """Copy what a server needs to a new home, where it has not been started."""
    home.mkdir(parents=True, exist_ok=True)
    # With its owners: root's server runs as another user.
    subprocess.run(["cp", "-a", made / "postgres", home / "postgres"], check=True)


@contextmanager
def join_copy(made: Path, home: Path) -> Iterator[embedded.Server]:
    """Take part in the server of a new home, whose data is copied from another one."""
    copy_server(made, home)
    with embedded.join_server(home, QUICK) as server:
        yield server
