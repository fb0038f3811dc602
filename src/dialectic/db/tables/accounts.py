"""Users, tokens and organisations as rows. The statements are in sql/queries/accounts.sql.

This module sees token hashes, never tokens. Lookups before the tenant is known go through SQL
functions that read all tenants and return rows of one.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from dialectic.core.access import Role, Scope, TokenKind
from dialectic.core.strict_json import Json
from dialectic.db.pool import Connection, Database, read_rule
from dialectic.db.queries import find_row, get_row, list_rows, load_queries
from dialectic.db.tables.records import Account
from dialectic.errors import Forbidden, NotFound

SQL = load_queries("accounts")

NO_SUCH, NOT_ALLOWED = "DJ103", "DJ106"
ANSWERS_KEPT = timedelta(hours=24)
SWEPT_MAX = 1000


# -- users -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class User:
    """A user as the operator sees them."""

    name: str
    created_at: datetime
    # Valid tokens only.
    tokens: int


async def add_account(db: Database, user_name: str) -> Account:
    """Create the account of a new user; raise `Conflict` if the name is taken."""
    return await get_row(db, Account, SQL["add_account"], user_name)


async def find_account(db: Database, user_name: str) -> Account | None:
    """Find a user's own account by name."""
    return await find_row(db, Account, SQL["find_account"], user_name)


async def list_users(db: Database) -> list[User]:
    """List all users, for the operator."""
    return await list_rows(db, User, SQL["list_users"])


async def find_role(connection: Connection, user_id: UUID) -> Role | None:
    """Find a user's role in the tenant; None if they are not a member."""
    found: str | None = await connection.fetchval(SQL["find_role"], user_id)
    return None if found is None else Role(found)


async def load_wallet_id(connection: Connection, user_id: UUID) -> UUID:
    """Load the wallet that a user spends from in this tenant."""
    found: UUID | None = await connection.fetchval(SQL["find_wallet"], user_id)
    if found is None:
        raise NotFound(f"User {user_id} has no wallet in this account.")
    return found


@dataclass(frozen=True, slots=True)
class Profile:
    """A user of a tenant, as they see themselves."""

    name: str
    preferences: Json
    # Notifications not read yet.
    unread: int


async def load_profile(connection: Connection, user_id: UUID) -> Profile:
    """Load a user of the tenant, their preferences and their unread notifications."""
    return await get_row(connection, Profile, SQL["load_profile"], user_id)


async def change_preferences(connection: Connection, user_id: UUID, changes: Json) -> Json:
    """Change some preferences of a user; a null removes one. Return all of them."""
    found: Json = await connection.fetchval(SQL["change_preferences"], user_id, changes)
    return found


# -- tokens ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FoundToken:
    """A token that a request carried, and how long its rate limit blocks it."""

    tenant_id: UUID
    user_id: UUID
    token_id: UUID
    kind: TokenKind
    scopes: frozenset[Scope]
    expires_at: datetime
    is_expired: bool
    wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """A token to be inserted."""

    tenant_id: UUID
    id: UUID
    user_id: UUID
    kind: TokenKind
    name: str
    secret_sha256: bytes
    scopes: frozenset[Scope]
    life: timedelta
    # For a browser session: the tenant and the id of the token it was started with.
    stands_for: tuple[UUID, UUID] | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """A token as listed: everything except its secret."""

    id: UUID
    user_id: UUID
    user_name: str
    name: str
    scopes: tuple[Scope, ...]
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime | None


async def find_token(
    db: Database, secret_sha256: bytes, *, requests_per_minute: int
) -> FoundToken | None:
    """Find a token that is not revoked and count one request against its rate limit."""
    return await find_row(db, FoundToken, SQL["find_token"], secret_sha256, requests_per_minute)


async def has_tokens(db: Database) -> bool:
    """Say whether any token exists."""
    (row,) = await db.fetch(SQL["has_tokens"])
    return bool(row["has_tokens"])


async def list_ended_tokens(
    connection: Connection, tokens: Collection[tuple[UUID, UUID]]
) -> set[UUID]:
    """List which of these tokens have become invalid; each is given as (tenant id, token id)."""
    tenant_ids, token_ids = zip(*tokens, strict=True)
    rows = await connection.fetch(SQL["list_ended_tokens"], tenant_ids, token_ids)
    return {row["token_id"] for row in rows}


async def insert_token(connection: Connection, token: NewToken) -> datetime:
    """Insert a token; return when it expires."""
    stands_for_tenant_id, stands_for_token_id = token.stands_for or (None, None)
    expires_at: datetime = await connection.fetchval(
        SQL["insert_token"],
        token.tenant_id,
        token.id,
        token.user_id,
        token.kind.value,
        token.name,
        token.secret_sha256,
        sorted(token.scopes),
        token.life,
        stands_for_tenant_id,
        stands_for_token_id,
    )
    return expires_at


async def count_tokens(connection: Connection, user_id: UUID) -> int:
    """Count a user's valid tokens in this tenant."""
    return int(await connection.fetchval(SQL["count_tokens"], user_id))


async def list_tokens(connection: Connection, user_id: UUID) -> list[Token]:
    """List the tokens a user may manage: their own, or all if they manage the members."""
    return await list_rows(connection, Token, SQL["list_tokens"], user_id)


async def revoke_token(connection: Connection, token_id: UUID, user_id: UUID) -> bool:
    """Revoke a token that a user may manage; say whether it was found."""
    return await connection.fetchval(SQL["revoke_token"], token_id, user_id) is not None


async def revoke_sessions(connection: Connection, user_id: UUID) -> None:
    """End all browser sessions of a user in this tenant."""
    await connection.execute(SQL["revoke_sessions"], user_id)


async def find_root(connection: Connection, session_id: UUID) -> tuple[UUID, UUID] | None:
    """Find the tenant and the id of the token that a browser session was started with."""
    row = await connection.fetchrow(SQL["find_root"], session_id)
    return None if row is None else (row["stands_for_tenant_id"], row["stands_for_token_id"])


async def renew_session(connection: Connection, session_id: UUID, life: timedelta) -> datetime:
    """Let a browser session last this long from now on; return when it expires."""
    found: datetime | None = await connection.fetchval(SQL["renew_session"], session_id, life)
    if found is None:
        raise NotFound("This request has no browser session. Sign in to start one.")
    return found


# -- organisations ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Member:
    """A user in a tenant."""

    user_id: UUID
    name: str
    role: Role
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Membership:
    """A tenant that a user belongs to, and the user's role in it."""

    id: UUID
    name: str
    kind: str
    role: Role


async def create_organization(connection: Connection, user_id: UUID, name: str) -> UUID:
    """Create an organisation that a user of this tenant owns."""
    made: UUID = await _ask(connection, SQL["create_organization"], user_id, name)
    return made


async def set_member(connection: Connection, acting_id: UUID, user_name: str, role: Role) -> UUID:
    """Add a user as a member, or change their role; return their id."""
    member: UUID = await _ask(connection, SQL["set_member"], acting_id, user_name, role.value)
    return member


async def remove_member(connection: Connection, acting_id: UUID, user_id: UUID) -> None:
    """Remove a member and revoke their tokens in this tenant."""
    await _ask(connection, SQL["remove_member"], acting_id, user_id)


async def list_members(connection: Connection) -> list[Member]:
    """List the members of this tenant."""
    return await list_rows(connection, Member, SQL["list_members"])


async def list_tenants(connection: Connection, user_id: UUID) -> list[Membership]:
    """List all tenants that a user of this one belongs to, their own first."""
    return await list_rows(connection, Membership, SQL["list_tenants"], user_id)


async def _ask(connection: Connection, statement: str, *arguments: Any) -> Any:
    try:
        return await connection.fetchval(statement, *arguments)
    except asyncpg.PostgresError as error:
        if error.sqlstate == NO_SUCH:
            raise NotFound(f"{str(error).capitalize()}.", reason=read_rule(error)) from error
        if error.sqlstate == NOT_ALLOWED:
            raise Forbidden(
                f"{error}. Ask an owner of the organisation.", reason=read_rule(error)
            ) from error
        raise


# -- cleanup ---------------------------------------------------------------------------------------


async def sweep(connection: Connection) -> int:
    """Delete old responses, expired browser sessions and idle buckets, of all tenants."""
    return int(await connection.fetchval(SQL["sweep"], ANSWERS_KEPT, SWEPT_MAX))
