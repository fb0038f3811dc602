"""Databases that are lent to tests, one at a time, and emptied when they come back.

A copy of the template costs more than most tests that need one. So a database is used again: its
rows are deleted and its sequences set back. It is thrown away instead if a test did more to it than
write rows, or left someone in it who does not go. Knows nothing of what the tables are for.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import asyncpg

from dialectic.db.pool import Address
from dialectic.postgres import embedded

# What is deleted stays in the files until someone cleans up: so often is a database lent.
LENT_MAX = 60
ASKED_MAX = 500

_numbers = itertools.count(1)

# Whoever changes the schema writes a row of the catalogue, and a row that is written bears the
# number of its transaction. Rows of tables that are never emptied are watched in the same way.
CATALOGUE = {
    "pg_attribute": "attrelid >= 16384",
    "pg_class": "oid >= 16384",
    "pg_constraint": "oid >= 16384",
    "pg_default_acl": "true",
    "pg_enum": "true",
    "pg_event_trigger": "true",
    "pg_extension": "oid >= 16384",
    "pg_namespace": "oid >= 16384 and nspname !~ '^pg_(toast_)?temp_'",
    "pg_policy": "true",
    "pg_proc": "oid >= 16384",
    "pg_rewrite": "oid >= 16384",
    "pg_trigger": "oid >= 16384",
    "pg_type": "oid >= 16384",
}
SETTINGS = """
select 'database', count(*), sum(hashtextextended(concat(d.datacl, s.setconfig), 0))
from pg_database d left join pg_db_role_setting s on s.setdatabase = d.oid
where d.datname = current_database()
"""
OURS = "c.relkind = 'r' and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'"
# By the size of its file: to open a table costs more than to look at its file.
LIST_USED = f"""
select format('%I.%I', n.nspname, c.relname) as name, exists (
  select from pg_index i join pg_class x on x.oid = i.indexrelid join pg_am m on m.oid = x.relam
  where i.indrelid = c.oid and m.amname = 'hnsw') as is_graphed
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where {OURS} and (pg_stat_file(pg_relation_filepath(c.oid))).size > 0
"""
LIST_COUNTED = """
select format('%I.%I', schemaname, sequencename) as name, last_value
from pg_sequences where last_value is not null
"""
SEND_AWAY = """
select pg_terminate_backend(pid) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
"""


@dataclass(frozen=True, slots=True)
class Mint:
    """How a copy of a template is before anyone has touched it."""

    kept: frozenset[str]
    counted: dict[str, int]
    catalogue: tuple[tuple[object, ...], ...]


@dataclass(slots=True)
class Pool:
    """The unused copies of one template, and how often each was lent."""

    server: embedded.Server
    template: str
    mint: Mint | None = None
    free: list[tuple[str, int]] = field(default_factory=list)

    async def take(self) -> tuple[str, int]:
        if self.free:
            return self.free.pop()
        name = f"lent_{os.getpid()}_{next(_numbers)}"
        await self._order(f"create database {name} template {self.template} strategy file_copy")
        if self.mint is None:
            self.mint = await self._look(name)
        return name, 0

    async def give_back(self, name: str, times: int) -> None:
        if times + 1 < LENT_MAX and await self._empty(name):
            self.free.append((name, times + 1))
        else:
            await self._order(f"drop database {name} with (force)")

    def url(self, name: str) -> str:
        return self.server.url(user="postgres", database=name)

    async def _order(self, statement: str) -> None:
        connection = await asyncpg.connect(self.url("postgres"))
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    async def _look(self, name: str) -> Mint:
        connection = await asyncpg.connect(self.url(name))
        try:
            kept = frozenset(row["name"] for row in await connection.fetch(LIST_USED))
            counted = {
                row["name"]: row["last_value"] for row in await connection.fetch(LIST_COUNTED)
            }
            return Mint(kept, counted, await read_catalogue(connection, kept))
        finally:
            await connection.close()

    async def _empty(self, name: str) -> bool:
        """Delete what a test has left; say whether the database is as good as new."""
        assert self.mint is not None, "nothing comes back that was not taken"
        # No trigger and no foreign key has a say in what is deleted.
        connection = await asyncpg.connect(
            self.url(name), server_settings={"session_replication_role": "replica"}
        )
        try:
            if not await _is_alone(connection):
                return False
            if await read_catalogue(connection, self.mint.kept) != self.mint.catalogue:
                return False
            used = await connection.fetch(LIST_USED)
            # In a graph the dead stand in the way of the living until someone cleans up.
            if any(row["is_graphed"] for row in used):
                return False
            names = {row["name"] for row in used} - self.mint.kept
            statements = [f"delete from {each}" for each in sorted(names)]
            for row in await connection.fetch(LIST_COUNTED):
                before = self.mint.counted.get(row["name"])
                value = f"{before}, true" if before is not None else "1, false"
                statements.append(f"select setval('{row['name']}', {value})")
            if statements:
                await connection.execute(";".join(statements))
        finally:
            await connection.close()
        return True


async def _is_alone(connection: asyncpg.Connection[asyncpg.Record]) -> bool:
    """Disconnect all clients of the database; say whether they left."""
    for _ in range(ASKED_MAX):
        if not await connection.fetch(SEND_AWAY):
            return True
    return False


async def read_catalogue(
    connection: asyncpg.Connection[asyncpg.Record], kept: frozenset[str]
) -> tuple[tuple[object, ...], ...]:
    """Read how often the catalogue and some tables were written to, as far as it shows."""
    watched = {**CATALOGUE, **dict.fromkeys(sorted(kept), "true")}
    looks = [
        f"select '{table}', count(*), sum(hashtextextended(xmin::text, 0))"
        f" from {table} where {condition}"
        for table, condition in watched.items()
    ]
    rows = await connection.fetch(" union all ".join([*looks, SETTINGS]))
    return tuple(sorted(tuple(row) for row in rows))


_pools: dict[tuple[embedded.Server, str], Pool] = {}


@asynccontextmanager
async def lend_database(server: embedded.Server, template: str) -> AsyncIterator[Address]:
    """Lend a database that is as good as a new copy of the template."""
    pool = _pools.setdefault((server, template), Pool(server, template))
    name, times = await pool.take()
    yield Address(pool.url(name), is_embedded=True)
    await pool.give_back(name, times)
