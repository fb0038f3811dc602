"""Migrate a database to this program's schema: forward only, restart-safe, one process at a time.

Each migration runs once, in order, in a transaction that also records it. Functions and grants are
reapplied when any of them changed; triggers and policies when the catalogue differs from the
recorded hash. PgQueuer installs or upgrades its own schema. A digest over all scripts makes the
usual start one query. Workers and clients may run during a migration.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

import asyncpg

from dialectic.db.pool import (
    COLLISIONS,
    CONNECT_TIMEOUT_S,
    CONNECTION_LOST,
    OWNER_ROLE,
    Address,
    explain_failure,
)
from dialectic.db.pooler import find_pooler_error, require_own_session
from dialectic.errors import (
    ConfigurationError,
    DatabaseBusy,
    Remedy,
    RemedyAction,
    SchemaOutdated,
)

FOLDER = Path(__file__).parent / "sql"
LOCK_KEY = 0x6469616C65637469
QUEUE_SCHEMA = "queue"  # spelled out: importing the queue costs 0.3 s
SERVER_VERSION_MIN = 150000
# Rows of schema_migrations that hold a hash: of all scripts, and of the triggers and policies.
DIGEST_ROW = "(digest)"
BINDINGS_ROW = "(bindings)"
# The first migration of version 0.1. Its history was squashed (ADR 28), so a database that has it
# can be neither used nor upgraded.
FIRST_OF_0_1 = "0001_tenants.sql"
READ_DIGEST = "select sha256 from dialectic.schema_migrations where name = $1"
LIST_APPLIED = "select name, sha256 from dialectic.schema_migrations order by name"

# Workers run while the schema changes. The migration locks all tables before it changes the first.
# If one is locked, the migration soon releases the others: the transaction that holds it may be
# waiting for one of them. Each try waits longer, but less than deadlock_timeout (1 s), after which
# PostgreSQL could cancel a worker's transaction instead of ours.
LOCK_TRIES = 80
LOCK_WAIT_FIRST_MS = 50
LOCK_WAIT_MAX_MS = 700
LOCK_PAUSE_MAX_S = 0.3
NO_LOCK = (*COLLISIONS, asyncpg.QueryCanceledError)
# In the order in which workers lock them: the holder of one table proceeds to those after it.
HOT_TABLES = (
    "generation_jobs",
    "files",
    "projects",
    "chunks",
    "contributions",
    "sessions",
    "project_resources",
    "stage_runs",
    "notifications",
)
LIST_TABLES = """
select format('dialectic.%I', relname) as name from pg_class
where relnamespace = 'dialectic'::regnamespace and relkind = 'r'
order by array_position($1::text[], regexp_replace(relname, '^dialectic_', '')), relname
"""
# Every trigger and policy, and which tables have row-level security, as text.
DESCRIBE_BINDINGS = """
select string_agg(line, E'\n' order by line) from (
  select concat_ws(' ', pg_get_triggerdef(t.oid), t.tgenabled) as line
  from pg_trigger t join pg_class c on c.oid = t.tgrelid
  where c.relnamespace = 'dialectic'::regnamespace and not t.tgisinternal
  union all
  select concat_ws(' ', c.relname, p.polname, p.polcmd, p.polpermissive, p.polroles::text,
    pg_get_expr(p.polqual, c.oid), pg_get_expr(p.polwithcheck, c.oid))
  from pg_policy p join pg_class c on c.oid = p.polrelid
  where c.relnamespace = 'dialectic'::regnamespace
  union all
  select concat_ws(' ', relname, relrowsecurity, relforcerowsecurity)
  from pg_class where relnamespace = 'dialectic'::regnamespace and relkind = 'r'
) described
"""


@dataclass(frozen=True, slots=True)
class Script:
    """One SQL file of the package."""

    name: str
    text: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


def _read(path: Path) -> Script:
    return Script(path.name, path.read_text(encoding="utf-8"))


def _read_one(name: str) -> Script:
    return _read(FOLDER / name)


def _read_folder(name: str) -> list[Script]:
    scripts = (_read(path) for path in (FOLDER / name).iterdir())
    return sorted(scripts, key=lambda script: script.name)


@functools.cache
def list_migrations() -> list[Script]:
    """List the migrations in the order in which they are applied."""
    return _read_folder("migrations")


def list_reapplied() -> list[Script]:
    """List the scripts reapplied on every change: functions, triggers, policies, grants."""
    return [*_read_folder("functions"), _read_one("bindings.sql"), _read_one("rights.sql")]


@functools.cache
def compute_digest() -> str:
    """Compute one hash over everything a database must have.

    Once per process: an installation may be replaced while the process runs.
    """
    from importlib.metadata import version  # most modules that use this one never need it

    scripts = [_read_one(name) for name in ("roles.sql", "bootstrap.sql")]
    scripts += list_migrations() + list_reapplied()
    parts = [f"{script.name}:{script.sha256}" for script in scripts]
    return hashlib.sha256(
        "\n".join([*parts, f"pgqueuer:{version('pgqueuer')}"]).encode()
    ).hexdigest()


async def migrate(address: Address, *, lock_tries: int = LOCK_TRIES) -> list[str]:
    """Migrate the database and return the names of the migrations applied, none if up to date."""
    connect = functools.partial(
        asyncpg.connect, dsn=address.url, timeout=CONNECT_TIMEOUT_S, command_timeout=None
    )
    try:
        connection = await _connect(connect, address)
    except (*CONNECTION_LOST, OSError, asyncpg.PostgresError, ValueError) as error:
        raise explain_failure(address, error) from error
    try:
        if not address.is_embedded:
            await require_own_session(connection, connect)
        if is_up_to_date(await _read_applied(connection)):
            return []
        await connection.execute("select pg_advisory_lock($1)", LOCK_KEY)
        if is_up_to_date(await _read_applied(connection)):
            return []
        return await _apply_all(connection, address, lock_tries)
    except CONNECTION_LOST as error:
        raise explain_failure(address, error) from error
    except (asyncpg.DuplicatePreparedStatementError, asyncpg.InvalidSQLStatementNameError) as error:
        raise find_pooler_error(error) or error from error
    except (
        asyncpg.InsufficientPrivilegeError,
        asyncpg.FeatureNotSupportedError,
        asyncpg.UndefinedFileError,
    ) as error:
        raise ConfigurationError(
            "The login of DIALECTIC_DATABASE_URL cannot prepare the database: "
            f"{str(error).splitlines()[0]}. Let it create roles, schemas and the extension "
            "`vector` (pgvector), or ask an administrator to migrate the database once.",
            reason="missing_rights",
            subject="DIALECTIC_DATABASE_URL",
            remedy=Remedy(RemedyAction.MIGRATE_DATABASE),
        ) from error
    finally:
        await connection.close()


Connect: TypeAlias = "Callable[..., Awaitable[asyncpg.Connection[asyncpg.Record]]]"


async def _connect(connect: Connect, address: Address) -> asyncpg.Connection[asyncpg.Record]:
    """Connect to the database; create that of a new embedded server."""
    try:
        return await connect()
    except asyncpg.InvalidCatalogNameError:
        if not address.is_embedded:
            raise
    name = urlsplit(address.url).path.lstrip("/")
    connection = await connect(database="postgres")
    try:
        # Two first starts may race here; one of them finds that the database exists.
        with contextlib.suppress(asyncpg.DuplicateDatabaseError, asyncpg.UniqueViolationError):
            await connection.execute(f"create database {name}")
    finally:
        await connection.close()
    return await connect()


async def find_upgrade(fetch: Callable[[str], Awaitable[list[asyncpg.Record]]]) -> str | None:
    """Say what another version of the program changed since this one migrated the database."""
    applied = {row["name"]: row["sha256"] for row in await fetch(LIST_APPLIED)}
    if unknown := _list_unknown(applied):
        return f"migration {unknown[-1]}"
    return None if is_up_to_date(applied) else "its functions"


def is_current(rows: Sequence[asyncpg.Record]) -> bool:
    """Say whether what `READ_DIGEST` returned is the digest of this version's schema."""
    return bool(rows) and rows[0]["sha256"] == compute_digest()


def is_up_to_date(applied: Mapping[str, str]) -> bool:
    """Say whether a database has exactly the schema of this version."""
    return applied.get(DIGEST_ROW) == compute_digest()


def decide_missing(applied: Mapping[str, str]) -> list[Script]:
    """List the migrations to apply; raise if another version made the database."""
    if FIRST_OF_0_1 in applied:
        raise SchemaOutdated(
            "The database was made by version 0.1. This version cannot upgrade it. To keep its "
            "projects, export each with version 0.1 and import it with this version into a new "
            "DIALECTIC_HOME or DIALECTIC_DATABASE_URL."
        )
    if unknown := _list_unknown(applied):
        raise ConfigurationError(
            f"The database has migration {unknown[-1]}, which this version does not know. "
            "A newer version migrated it. Upgrade Dialectic."
        )
    scripts = list_migrations()
    for script in scripts:
        if applied.get(script.name, script.sha256) != script.sha256:
            raise ConfigurationError(
                f"Migration {script.name} differs from the one that was applied to the "
                "database. The installation is damaged. Reinstall Dialectic."
            )
    return [script for script in scripts if script.name not in applied]


def _list_unknown(applied: Mapping[str, str]) -> list[str]:
    known = {script.name for script in list_migrations()} | {DIGEST_ROW, BINDINGS_ROW}
    return sorted(applied.keys() - known)


async def _read_applied(connection: asyncpg.Connection[asyncpg.Record]) -> dict[str, str]:
    """Read the recorded hashes by name; none in a new database."""
    try:
        rows = await connection.fetch(LIST_APPLIED)
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        return {}
    except asyncpg.InsufficientPrivilegeError:
        # The URL's login may have no rights of its own before it assumes a role.
        await connection.execute(f"set role {OWNER_ROLE}")
        return await _read_applied(connection)
    return {row["name"]: row["sha256"] for row in rows}


async def _apply_all(
    connection: asyncpg.Connection[asyncpg.Record], address: Address, lock_tries: int = LOCK_TRIES
) -> list[str]:
    missing = decide_missing(await _read_applied(connection))  # before any change
    await connection.execute("reset role")
    await _prepare_server(connection, address)
    await connection.execute(f"set role {OWNER_ROLE}")
    await connection.execute("set search_path = dialectic, public, extensions")
    await connection.execute(_read_one("bootstrap.sql").text)
    for script in missing:
        change = functools.partial(_apply_migration, connection, script)
        await _with_all_tables(connection, change, lock_tries)
    await _upgrade_queue(connection)
    if await _are_bindings_sound(connection):
        async with connection.transaction():
            await _apply_again(connection, with_bindings=False)
    else:
        change = functools.partial(_apply_again, connection, with_bindings=True)
        await _with_all_tables(connection, change, lock_tries)
    return [script.name for script in missing]


async def _with_all_tables(
    connection: asyncpg.Connection[asyncpg.Record],
    change: Callable[[], Awaitable[None]],
    tries: int,
) -> None:
    """Change the schema in one transaction that has locked all tables."""
    wait_ms: float = LOCK_WAIT_FIRST_MS
    for _ in range(tries):
        try:
            async with connection.transaction():
                await connection.execute(f"set local statement_timeout = {wait_ms:.0f}")
                rows = await connection.fetch(LIST_TABLES, HOT_TABLES)
                if tables := ", ".join(row["name"] for row in rows):
                    await connection.execute(f"lock table {tables} in access exclusive mode")
                await connection.execute("set local statement_timeout = 0")
                return await change()
        except NO_LOCK:
            await asyncio.sleep(random.uniform(0.0, LOCK_PAUSE_MAX_S))  # noqa: S311  no secret
            wait_ms = min(wait_ms * 1.2, LOCK_WAIT_MAX_MS)
    raise DatabaseBusy(
        "The database could not be upgraded: another client keeps its tables locked. Find the "
        "open transactions (`select * from pg_stat_activity`), end them, and retry."
    )


async def _apply_migration(connection: asyncpg.Connection[asyncpg.Record], script: Script) -> None:
    await connection.execute(script.text)
    await connection.execute(
        "insert into schema_migrations (name, sha256) values ($1, $2)", script.name, script.sha256
    )


async def _apply_again(
    connection: asyncpg.Connection[asyncpg.Record], *, with_bindings: bool
) -> None:
    # Functions call each other, so no order satisfies the check; a test calls them all.
    await connection.execute("set local check_function_bodies = off")
    for script in list_reapplied():
        if with_bindings or script.name != "bindings.sql":
            await connection.execute(script.text)
    await _note(connection, BINDINGS_ROW, await _hash_bindings(connection))
    await _note(connection, DIGEST_ROW, compute_digest())


async def _note(connection: asyncpg.Connection[asyncpg.Record], name: str, sha256: str) -> None:
    await connection.execute(
        "insert into schema_migrations (name, sha256) values ($1, $2)"
        " on conflict (name) do update set sha256 = excluded.sha256,"
        " applied_at = clock_timestamp()",
        name,
        sha256,
    )


async def _hash_bindings(connection: asyncpg.Connection[asyncpg.Record]) -> str:
    """Hash the triggers and policies of the catalogue, and the file that made them."""
    made = await connection.fetchval(DESCRIBE_BINDINGS) or ""
    return hashlib.sha256(f"{_read_one('bindings.sql').text}{made}".encode()).hexdigest()


async def _are_bindings_sound(connection: asyncpg.Connection[asyncpg.Record]) -> bool:
    """Say whether triggers and policies are unchanged; then no table lock is needed."""
    noted = await connection.fetchval(
        "select sha256 from schema_migrations where name = $1", BINDINGS_ROW
    )
    return bool(noted == await _hash_bindings(connection))


async def _prepare_server(connection: asyncpg.Connection[asyncpg.Record], address: Address) -> None:
    """Create what only the URL's login can create: roles, the extension, the schemas."""
    number = int(await connection.fetchval("show server_version_num"))
    if number < SERVER_VERSION_MIN:
        raise ConfigurationError(
            f"The server runs PostgreSQL {number // 10000}; version 15 or later is required. "
            "Set DIALECTIC_DATABASE_URL to a newer server."
        )
    await connection.execute(_read_one("roles.sql").text)
    if address.is_embedded:
        name = await connection.fetchval("select quote_ident(current_database())")
        await connection.execute("alter role dialectic_app login")
        await connection.execute("alter role dialectic_worker login")
        # Dialectic makes no temporary objects; those of another login could shadow its tables.
        await connection.execute(f"revoke temporary on database {name} from public")
    await connection.execute("create extension if not exists vector")
    for schema in ("dialectic", QUEUE_SCHEMA):
        await connection.execute(f"create schema if not exists {schema} authorization {OWNER_ROLE}")


async def _upgrade_queue(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    from dialectic.db.queue import open_queries  # only here and in the worker: 0.3 s to import

    queries = open_queries(connection)
    if await queries.schema_is_installed():
        await queries.apply_upgrade()
    else:
        async with connection.transaction():
            await queries.install(create_schema=False)
