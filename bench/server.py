"""The one PostgreSQL that everything is measured on: embedded, in a folder of its own, durable.

Each contender has a database of its own, copied afresh for each round from one that its own code
prepared. The server is the product's embedded one with its settings: fsync and synchronous commit
are on for everybody.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg

from bench.child import ask
from dialectic.postgres import embedded

CONNECT_MAX_S = 10.0
PREPARE_TIMEOUT_S = 120.0
# What the figures would mean nothing without.
REQUIRED = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
# A folder for profiles; if it is set, the server counts what each statement takes.
PROFILE = os.environ.get("BENCH_PROFILE", "")
COUNTING = {
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track": "all",
    "pg_stat_statements.track_utility": "on",
    "pg_stat_statements.track_planning": "on",
}


Fetch = Callable[..., list[Any]]


class Server:
    """The running server, and the databases on it."""

    def __init__(self, joined: embedded.Server, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self._joined = joined
        self._prepared: dict[str, str] = {}
        self._numbers = itertools.count(1)
        self._copying = threading.Lock()

    def url(self, database: str = "postgres") -> str:
        return self._joined.url(user="postgres", database=database)

    def fetch(self, statement: str, *arguments: Any, database: str = "postgres") -> list[Any]:
        """Run one statement as the superuser."""
        with self.connected(database) as fetch:
            return fetch(statement, *arguments)

    @contextlib.contextmanager
    def connected(self, database: str) -> Iterator[Fetch]:
        """Connect as the superuser, for many statements: each new connection costs the server."""
        with asyncio.Runner() as runner:
            connection = runner.run(asyncpg.connect(self.url(database), timeout=CONNECT_MAX_S))
            try:
                yield lambda *given: [tuple(row) for row in runner.run(connection.fetch(*given))]
            finally:
                runner.run(connection.close())

    def _prepare(self, module: str) -> str:
        """Let a contender's own code install its schema, once; return that database's name."""
        if module not in self._prepared:
            name = f"template_{module.rpartition('.')[2]}"
            self.fetch(f"create database {name}")
            with self.scratch_folder() as folder:
                given = {"url": self.url(name), "folder": folder}
                ask(module, "prepare", given, timeout_s=PREPARE_TIMEOUT_S)
            self._prepared[module] = name
        return self._prepared[module]

    @contextlib.contextmanager
    def database_for(self, module: str) -> Iterator[str]:
        """Give a contender a new database with its schema in it; yield the database's name."""
        name = f"{module.rpartition('.')[2]}_{next(self._numbers)}"
        with self._copying:
            template = self._prepare(module)
            # A copy by files ends in a checkpoint: each round begins with an equally clean server.
            self.fetch(f"create database {name} template {template} strategy file_copy")
        try:
            yield name
        finally:
            self.fetch(f"drop database {name} with (force)")

    def ask(
        self,
        module: str,
        action: str,
        options: dict[str, Any] | None = None,
        timeout_s: float = 120,
    ) -> Any:
        """Run one action of a contender on a new database; return what it says."""
        with self.database_for(module) as name, self.scratch_folder() as folder:
            given = {"url": self.url(name), "folder": folder, **(options or {})}
            return ask(module, action, given, timeout_s=timeout_s)

    @contextlib.contextmanager
    def scratch_folder(self) -> Iterator[str]:
        """Make a folder on the same disk, for those who write files."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            yield folder


@contextlib.contextmanager
def open_server(parent: Path | None) -> Iterator[Server]:
    """Start the server in a temporary folder and remove both afterwards."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=parent) as name:
        folder = Path(name)
        if PROFILE:
            _count_statements(folder)
        with embedded.join_server(folder / "home") as joined:
            server = Server(joined, folder)
            for setting, wanted in REQUIRED.items():
                found = server.fetch(f"show {setting}")[0][0]
                assert found == wanted, f"{setting} is {found}"
            yield server


def _count_statements(folder: Path) -> None:
    """Let the server count statements from its next start on."""
    with embedded.join_server(folder / "home") as joined:
        server = Server(joined, folder)
        for setting, wanted in COUNTING.items():
            server.fetch(f"alter system set {setting} = '{wanted}'")
    embedded.stop_server(folder / "home")
