"""A database as version 0.1 left it: what it noted of its migrations, and two of its tables."""

from __future__ import annotations

import asyncpg

from tests.databases import read_catalogue

MIGRATIONS = """
0001_tenants 0002_processes 0003_sessions 0004_jobs 0005_texts 0006_lighter_writes 0007_planning
0008_process_mirror 0009_recovery 0010_storage 0011_continuation 0012_limits 0013_ledger
0014_spending 0015_chat 0016_memory 0017_compressions 0019_accounts 0020_events
0021_discards_and_tallies 0022_words_in_their_index 0023_sent_with_its_hold 0024_paused_jobs
""".split()
NAMES = [*(f"{name}.sql" for name in MIGRATIONS), "(bindings)", "(digest)"]
MAKE = """
create schema dialectic authorization dialectic_owner;
set role dialectic_owner;
create table dialectic.schema_migrations (
  name text primary key,
  sha256 text not null,
  applied_at timestamptz not null default clock_timestamp()
);
create table dialectic.tenants (id uuid primary key, name text not null);
create table dialectic.chats (tenant_id uuid references dialectic.tenants (id), title text);
insert into dialectic.tenants values (gen_random_uuid(), 'ours');
insert into dialectic.chats select id, 'What was said' from dialectic.tenants;
reset role;
"""
NOTE = """
insert into dialectic.schema_migrations (name, sha256)
select name, encode(sha256(convert_to(name, 'UTF8')), 'hex') from unnest($1::text[]) name
"""
# Shared by all databases of the server.
ROLES = "select array_agg((oid, xmin::text) order by oid) from pg_authid"
TABLES = frozenset({"dialectic.schema_migrations", "dialectic.tenants", "dialectic.chats"})


async def make_outdated(url: str, *, migrations: int | None = None) -> None:
    """Fill an empty database as version 0.1 did, or as it had after its first migrations."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(MAKE)
        await connection.execute(NOTE, NAMES if migrations is None else NAMES[:migrations])
    finally:
        await connection.close()


async def read_traces(url: str) -> tuple[object, ...]:
    """Read what every write would change: who wrote each row of the catalogue and the tables."""
    connection = await asyncpg.connect(url)
    try:
        roles = await connection.fetchval(ROLES)
        return (*await read_catalogue(connection, TABLES), roles)
    finally:
        await connection.close()
