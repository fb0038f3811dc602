"""Bring a database to this program's schema. Forward only, restart-safe, one at a time.

Migrations run once, in order, each in a transaction that also records it; functions and grants are
applied again whenever any of them changed, triggers and policies whenever they differ from what
was made of them; the queue's own schema is installed or upgraded by its own code. A digest of all
of it makes the usual start one query. Others may work meanwhile.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable

import asyncpg

from dialectic.db.pool import (
    COLLISIONS,
    CONNECT_TIMEOUT_S,
    CONNECTION_LOST,
    OWNER_ROLE,
    Address,
    describe_failure,
)
from dialectic.errors import (
    ConfigurationError,
    DatabaseBusy,
    DatabaseUnreachable,
    Remedy,
    RemedyAction,
    SchemaOutdated,
)

LOCK_KEY = 0x6469616C65637469
QUEUE_SCHEMA = "queue"  # spelled out: importing the queue costs 0.3 s
SERVER_VERSION_MIN = 150000
# Notes among the migrations: all this program brings, and the bindings as they were made.
DIGEST_ROW = "(digest)"
BINDINGS_ROW = "(bindings)"
# The first migration of version 0.1, whose history became one schema (ADR 28): a database that has
# it can be neither used nor upgraded.
FIRST_OF_0_1 = "0001_tenants.sql"
LIST_APPLIED = "select name, sha256 from dialectic.schema_migrations order by name"

# Others work while the schema changes. All tables are locked before the first is touched, and given
# free again soon if one is taken: the transaction that holds it may be waiting for another one that
# we have. Each try waits longer, but never as long as the server does before it looks for deadlocks
# (1 s): it could send the others away instead of us.
LOCK_TRIES = 80
LOCK_WAIT_FIRST_MS = 50
LOCK_WAIT_MAX_MS = 700
LOCK_PAUSE_MAX_S = 0.3
NO_LOCK = (*COLLISIONS, asyncpg.QueryCanceledError)
# In the order in which workers come to them: one that holds a table goes on to those behind it.
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
# Every trigger and policy, and which tables are under row-level security, in words.
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


def _read(path: Traversable) -> Script:
    return Script(path.name, path.read_text(encoding="utf-8"))


def _read_one(name: str) -> Script:
    return _read(files("dialectic.db.sql").joinpath(name))


def _read_folder(name: str) -> list[Script]:
    folder = files("dialectic.db.sql").joinpath(name)
    return sorted((_read(p) for p in folder.iterdir()), key=lambda script: script.name)


@functools.cache
def list_migrations() -> list[Script]:
    """List the migrations in the order in which they are applied."""
    return _read_folder("migrations")


def list_reapplied() -> list[Script]:
    """List what is applied again on every change: functions, what binds them, who may call them."""
    return [*_read_folder("functions"), _read_one("bindings.sql"), _read_one("rights.sql")]


@functools.cache
def compute_digest() -> str:
    """Compute one hash over everything a database must have.

    Once per process: an installation may be replaced while the process runs.
    """
    scripts = [_read_one(name) for name in ("roles.sql", "bootstrap.sql")]
    scripts += list_migrations() + list_reapplied()
    parts = [f"{script.name}:{script.sha256}" for script in scripts]
    return hashlib.sha256(
        "\n".join([*parts, f"pgqueuer:{version('pgqueuer')}"]).encode()
    ).hexdigest()


async def migrate(address: Address, *, lock_tries: int = LOCK_TRIES) -> list[str]:
    """Migrate the database and return the names of the migrations applied, none if up to date."""
    try:
        connection = await asyncpg.connect(
            dsn=address.url, timeout=CONNECT_TIMEOUT_S, command_timeout=None
        )
    except (*CONNECTION_LOST, OSError, asyncpg.PostgresError, ValueError) as error:
        raise DatabaseUnreachable(describe_failure(address, error)) from error
    try:
        if is_up_to_date(await _read_applied(connection)):
            return []
        await connection.execute("select pg_advisory_lock($1)", LOCK_KEY)
        if is_up_to_date(await _read_applied(connection)):
            return []
        return await _apply_all(connection, address, lock_tries)
    except CONNECTION_LOST as error:
        raise DatabaseUnreachable(describe_failure(address, error)) from error
    except (
        asyncpg.InsufficientPrivilegeError,
        asyncpg.FeatureNotSupportedError,
        asyncpg.UndefinedFileError,
    ) as error:
        raise ConfigurationError(
            "The login of DIALECTIC_DATABASE_URL cannot prepare the database: "
            f"{str(error).splitlines()[0]}. It must be able to create roles, schemas and the "
            "extension `vector` (pgvector); or have an administrator migrate the database once.",
            reason="missing_rights",
            subject="DIALECTIC_DATABASE_URL",
            remedy=Remedy(RemedyAction.MIGRATE_DATABASE),
        ) from error
    finally:
        await connection.close()


async def find_upgrade(fetch: Callable[[str], Awaitable[list[asyncpg.Record]]]) -> str | None:
    """Say what another version has done to the database since we brought it up to date."""
    applied = {row["name"]: row["sha256"] for row in await fetch(LIST_APPLIED)}
    if unknown := _list_unknown(applied):
        return f"migration {unknown[-1]}"
    return None if is_up_to_date(applied) else "its functions"


def is_up_to_date(applied: Mapping[str, str]) -> bool:
    """Say whether a database has everything this program brings, and nothing of another version."""
    return applied.get(DIGEST_ROW) == compute_digest()


def decide_missing(applied: Mapping[str, str]) -> list[Script]:
    """List the migrations to apply, or refuse a database that another version has made."""
    if FIRST_OF_0_1 in applied:
        raise SchemaOutdated(
            "The database was made by version 0.1, which this version cannot upgrade. To keep its "
            "projects, export each with version 0.1 and import it with this version into a new "
            "DIALECTIC_HOME or DIALECTIC_DATABASE_URL."
        )
    if unknown := _list_unknown(applied):
        raise ConfigurationError(
            f"The database has migration {unknown[-1]}, which this version does not know. "
            "It was used by a newer version: upgrade this one."
        )
    scripts = list_migrations()
    for script in scripts:
        if applied.get(script.name, script.sha256) != script.sha256:
            raise ConfigurationError(
                f"Migration {script.name} was applied in another form than the one in this "
                "version. The installation is damaged: install it again."
            )
    return [script for script in scripts if script.name not in applied]


def _list_unknown(applied: Mapping[str, str]) -> list[str]:
    known = {script.name for script in list_migrations()} | {DIGEST_ROW, BINDINGS_ROW}
    return sorted(applied.keys() - known)


async def _read_applied(connection: asyncpg.Connection[asyncpg.Record]) -> dict[str, str]:
    """Read the hash of each migration and note that is recorded; none in a new database."""
    try:
        rows = await connection.fetch(LIST_APPLIED)
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        return {}
    except asyncpg.InsufficientPrivilegeError:
        # The login of the URL may do nothing by itself before it takes on a role.
        await connection.execute(f"set role {OWNER_ROLE}")
        return await _read_applied(connection)
    return {row["name"]: row["sha256"] for row in rows}


async def _apply_all(
    connection: asyncpg.Connection[asyncpg.Record], address: Address, lock_tries: int = LOCK_TRIES
) -> list[str]:
    missing = decide_missing(await _read_applied(connection))  # before anything is touched
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
    """Change the schema in one transaction that has all tables to itself."""
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
        "The database could not be upgraded: someone keeps its tables locked. Look for "
        "transactions that stay open (`select * from pg_stat_activity`), end them, and try again."
    )


async def _apply_migration(connection: asyncpg.Connection[asyncpg.Record], script: Script) -> None:
    await connection.execute(script.text)
    await connection.execute(
        "insert into schema_migrations (name, sha256) values ($1, $2)", script.name, script.sha256
    )


async def _apply_again(
    connection: asyncpg.Connection[asyncpg.Record], *, with_bindings: bool
) -> None:
    # Functions call each other; a test calls them all, so no body goes unchecked.
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
    """Hash the bindings as they stand in the catalogue, with the file that made them."""
    made = await connection.fetchval(DESCRIBE_BINDINGS) or ""
    return hashlib.sha256(f"{_read_one('bindings.sql').text}{made}".encode()).hexdigest()


async def _are_bindings_sound(connection: asyncpg.Connection[asyncpg.Record]) -> bool:
    """Say whether triggers and policies are what this program made: then no table is locked."""
    noted = await connection.fetchval(
        "select sha256 from schema_migrations where name = $1", BINDINGS_ROW
    )
    return bool(noted == await _hash_bindings(connection))


async def _prepare_server(connection: asyncpg.Connection[asyncpg.Record], address: Address) -> None:
    """Make what only the login of the URL can make: roles, the extension, the schemas."""
    number = int(await connection.fetchval("show server_version_num"))
    if number < SERVER_VERSION_MIN:
        raise ConfigurationError(
            f"The server is PostgreSQL {number // 10000}; version 15 or later is needed. "
            "Point DIALECTIC_DATABASE_URL at a newer one."
        )
    await connection.execute(_read_one("roles.sql").text)
    if address.is_embedded:
        name = await connection.fetchval("select quote_ident(current_database())")
        await connection.execute("alter role dialectic_app login")
        await connection.execute("alter role dialectic_worker login")
        # Only we work in this database, and we make no temporary objects: the names of others'
        # could otherwise hide the real ones.
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
