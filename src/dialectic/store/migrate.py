"""Bring a database to this program's schema. Forward only, restart-safe, one at a time.

Migrations run once, in order, each in a transaction that also records it; functions, triggers,
policies and grants are applied again whenever any of them changed; the queue's own schema is
installed or upgraded by its own code. A digest of all of it makes the usual start one query.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable

import asyncpg

from dialectic.errors import ConfigurationError, DatabaseUnreachable
from dialectic.store.database import (
    CONNECT_TIMEOUT_S,
    CONNECTION_LOST,
    OWNER_ROLE,
    Address,
    describe_failure,
)

LOCK_KEY = 0x6469616C65637469
QUEUE_SCHEMA = "queue"  # spelled out: importing the queue costs 0.3 s
SERVER_VERSION_MIN = 150000
DIGEST_ROW = "(digest)"


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


def _read_folder(name: str) -> list[Script]:
    folder = files("dialectic.sql").joinpath(name)
    return sorted((_read(p) for p in folder.iterdir()), key=lambda script: script.name)


def list_migrations() -> list[Script]:
    """List the migrations in the order in which they are applied."""
    return _read_folder("migrations")


def list_reapplied() -> list[Script]:
    """List what is applied again on every change: functions, then what binds them."""
    return [*_read_folder("functions"), _read(files("dialectic.sql").joinpath("bindings.sql"))]


def compute_digest() -> str:
    """Compute one hash over everything a database must have."""
    scripts = [_read(files("dialectic.sql").joinpath(n)) for n in ("roles.sql", "bootstrap.sql")]
    scripts += list_migrations() + list_reapplied()
    parts = [f"{script.name}:{script.sha256}" for script in scripts]
    return hashlib.sha256(
        "\n".join([*parts, f"pgqueuer:{version('pgqueuer')}"]).encode()
    ).hexdigest()


async def migrate(address: Address) -> list[str]:
    """Migrate the database and return the names of the migrations applied, none if up to date."""
    try:
        connection = await asyncpg.connect(
            dsn=address.url, timeout=CONNECT_TIMEOUT_S, command_timeout=None
        )
    except (*CONNECTION_LOST, OSError, asyncpg.PostgresError, ValueError) as error:
        raise DatabaseUnreachable(describe_failure(address, error)) from error
    try:
        if await _is_up_to_date(connection):
            return []
        await connection.execute("select pg_advisory_lock($1)", LOCK_KEY)
        if await _is_up_to_date(connection):
            return []
        return await _apply_all(connection, address)
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
            "extension `vector` (pgvector); or have an administrator run `dialectic db migrate` "
            "once."
        ) from error
    finally:
        await connection.close()


async def _is_up_to_date(connection: asyncpg.Connection[asyncpg.Record]) -> bool:
    try:
        found = await connection.fetchval(
            "select sha256 from dialectic.schema_migrations where name = $1", DIGEST_ROW
        )
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        return False
    except asyncpg.InsufficientPrivilegeError:
        # The login of the URL may do nothing by itself before it takes on a role.
        await connection.execute(f"set role {OWNER_ROLE}")
        return await _is_up_to_date(connection)
    return bool(found == compute_digest())


async def _apply_all(connection: asyncpg.Connection[asyncpg.Record], address: Address) -> list[str]:
    await connection.execute("reset role")
    await _prepare_server(connection, address)
    await connection.execute(f"set role {OWNER_ROLE}")
    await connection.execute("set search_path = dialectic, public, extensions")
    async with connection.transaction():  # a database that is refused stays as it was
        await connection.execute(_read(files("dialectic.sql").joinpath("bootstrap.sql")).text)
        missing = await _list_missing(connection)
    for script in missing:
        async with connection.transaction():
            await connection.execute(script.text)
            await connection.execute(
                "insert into schema_migrations (name, sha256) values ($1, $2)",
                script.name,
                script.sha256,
            )
    await _upgrade_queue(connection)
    async with connection.transaction():
        # Functions call each other; a test calls them all, so no body goes unchecked.
        await connection.execute("set local check_function_bodies = off")
        for script in list_reapplied():
            await connection.execute(script.text)
        await connection.execute(
            "insert into schema_migrations (name, sha256) values ($1, $2)"
            " on conflict (name) do update set sha256 = excluded.sha256,"
            " applied_at = clock_timestamp()",
            DIGEST_ROW,
            compute_digest(),
        )
    return [script.name for script in missing]


async def _prepare_server(connection: asyncpg.Connection[asyncpg.Record], address: Address) -> None:
    """Make what only the login of the URL can make: roles, the extension, the schemas."""
    number = int(await connection.fetchval("show server_version_num"))
    if number < SERVER_VERSION_MIN:
        raise ConfigurationError(
            f"The server is PostgreSQL {number // 10000}; version 15 or later is needed. "
            "Point DIALECTIC_DATABASE_URL at a newer one."
        )
    await connection.execute(_read(files("dialectic.sql").joinpath("roles.sql")).text)
    if address.is_embedded:
        await connection.execute("alter role dialectic_app login")
        await connection.execute("alter role dialectic_worker login")
    await connection.execute("create extension if not exists vector")
    for schema in ("dialectic", QUEUE_SCHEMA):
        await connection.execute(f"create schema if not exists {schema} authorization {OWNER_ROLE}")


async def _list_missing(connection: asyncpg.Connection[asyncpg.Record]) -> list[Script]:
    """List the migrations to apply, or refuse a database that another version has gone on with."""
    rows = await connection.fetch(
        "select name, sha256 from schema_migrations where name <> $1", DIGEST_ROW
    )
    recorded = {row["name"]: row["sha256"] for row in rows}
    scripts = list_migrations()
    if unknown := sorted(recorded.keys() - {script.name for script in scripts}):
        raise ConfigurationError(
            f"The database has migration {unknown[-1]}, which this version does not know. "
            "It was used by a newer version: upgrade this one."
        )
    for script in scripts:
        if recorded.get(script.name, script.sha256) != script.sha256:
            raise ConfigurationError(
                f"Migration {script.name} was applied in another form than the one in this "
                "version. The installation is damaged: install it again."
            )
    return [script for script in scripts if script.name not in recorded]


async def _upgrade_queue(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    from dialectic.store.queue import open_queries  # only here and in the worker: 0.3 s to import

    queries = open_queries(connection)
    if await queries.schema_is_installed():
        await queries.apply_upgrade()
    else:
        async with connection.transaction():
            await queries.install(create_schema=False)
