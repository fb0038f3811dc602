"""Accounts: users, access tokens, browser sessions and organisations. Independent of HTTP.

A token acts for one user in one tenant. Its secret is generated here and shown once; only its hash
is stored. A resource that the caller may not see is "not found"; an action that the caller's token
or role does not allow is "forbidden".
"""

from __future__ import annotations

import dataclasses
import secrets
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from dialectic.core.access import (
    EVERY_SCOPE,
    LIFE_DAYS,
    LIFE_DAYS_MAX,
    SECRET_BYTES,
    Access,
    Caller,
    RequestOrigin,
    Role,
    Scope,
    Secret,
    TokenKind,
    build_csrf_token,
    check_csrf_token,
    decide_access,
    format_token,
    hash_token,
    is_loopback,
)
from dialectic.db.pool import Connection, Database
from dialectic.db.tables import accounts as store
from dialectic.db.tables.accounts import Member, Membership, NewToken, Token
from dialectic.db.tables.records import Account, open_account
from dialectic.errors import (
    Conflict,
    Forbidden,
    NotFound,
    Remedy,
    RemedyAction,
    TokenExpired,
    TokenInvalid,
    TokenMissing,
    TooManyRequests,
    UsageError,
)

LOCAL_USER = "local"
NAME_CHARS_MAX = 200
TOKENS_MAX = 100
SESSION_LIFE = timedelta(hours=12)


# -- authentication --------------------------------------------------------------------------------


async def authenticate(db: Database, token: str | None, *, requests_per_minute: int) -> Caller:
    """Authenticate a token; count one request against its rate limit."""
    if token is None:
        raise TokenMissing
    return await _identify(db, TokenKind.API, token, requests_per_minute)


async def authenticate_browser(
    db: Database,
    cookie: str,
    *,
    csrf_token: str | None,
    is_safe: bool,
    requests_per_minute: int,
) -> Caller:
    """Authenticate a browser's cookie. Only safe methods (GET, HEAD) need no CSRF token."""
    if not is_safe:
        check_csrf_token(cookie, csrf_token)
    return await _identify(db, TokenKind.BROWSER, cookie, requests_per_minute)


async def _identify(db: Database, kind: TokenKind, token: str, requests_per_minute: int) -> Caller:
    found = await store.find_token(
        db, hash_token(kind, token), requests_per_minute=requests_per_minute
    )
    # Unknown and revoked tokens get the same message.
    if found is None or found.kind is not kind:
        raise TokenInvalid
    if found.is_expired:
        raise TokenExpired
    if found.wait_s > 0:
        raise TooManyRequests(
            f"Rate limit reached: this token allows {requests_per_minute} requests per minute. "
            f"Retry in {found.wait_s:.1f} s.",
            retry_after_s=found.wait_s,
        )
    return Caller(found.tenant_id, found.user_id, found.scopes, found.token_id, found.expires_at)


async def enter_without_token(db: Database, listens_at: str, origin: RequestOrigin) -> Caller:
    """Admit the owner of this machine while no token exists; refuse all other callers."""
    # On any other than a loopback address a token is required: skip the query.
    has_tokens = not is_loopback(listens_at) or await store.has_tokens(db)
    match decide_access(listens_at, origin, has_tokens=has_tokens):
        case Access.AS_OWNER:
            return build_owner(await load_owner(db))
        case Access.UNKNOWN:
            raise TokenMissing
        case Access.FOREIGN:
            raise Forbidden(
                "The request comes from a page of another site. This server accepts only requests "
                "of its owner. Open the server at the address it listens on.",
                reason="foreign_page",
            )


async def load_owner(db: Database, *, is_own_home: bool = False) -> Account:
    """Load the account of this installation's owner; the first call creates it.

    In a home of their own the owner pays the providers directly, so the wallet only counts.
    """
    found = await store.find_account(db, LOCAL_USER)
    return found or await open_account(db, LOCAL_USER, is_count_only=is_own_home)


async def require_owner(db: Database, caller: Caller) -> None:
    """Raise unless a caller is the owner of this installation, who pays the providers."""
    owner = await store.find_account(db, LOCAL_USER)
    if owner is None or (owner.user_id, owner.tenant_id) != (caller.user_id, caller.tenant_id):
        raise Forbidden(
            "Only the owner of this installation adds money: calls are paid with the owner's keys.",
            reason="not_the_owner",
            remedy=Remedy(RemedyAction.TOP_UP),
        )


def build_owner(account: Account) -> Caller:
    """Build the caller for the owner of this machine, with all scopes."""
    return Caller(account.tenant_id, account.user_id, EVERY_SCOPE, token_id=None)


async def load_account(db: Database, caller: Caller) -> Account:
    """Load a caller's account: tenant, user and wallet."""

    async def work(connection: Connection) -> UUID:
        return await store.load_wallet_id(connection, caller.user_id)

    return Account(caller.tenant_id, caller.user_id, await db.transact(caller.tenant_id, work))


# -- users -----------------------------------------------------------------------------------------


async def add_user(db: Database, name: str) -> Account:
    """Create a user with a personal account."""
    return await store.add_account(db, _clean_name(name))


async def load_user(db: Database, name: str) -> Account:
    """Load a user's personal account."""
    account = await store.find_account(db, name)
    if account is None:
        raise NotFound(
            f"User {name!r} does not exist.",
            reason="no_user",
            subject=name,
            remedy=Remedy(RemedyAction.LIST_USERS),
        )
    return account


def _clean_name(name: str) -> str:
    cleaned = " ".join(name.split())
    is_plain = all(unicodedata.category(char)[0] != "C" for char in cleaned)
    if not cleaned or len(cleaned) > NAME_CHARS_MAX or not is_plain:
        raise UsageError(
            f"The name must have 1 to {NAME_CHARS_MAX} visible characters. Choose another one.",
            reason="bad_name",
            subject="name",
            limit=NAME_CHARS_MAX,
        )
    return cleaned


# -- tokens ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token with its secret, which is never shown again."""

    id: UUID
    name: str
    scopes: frozenset[Scope]
    expires_at: datetime
    secret: Secret


async def issue_token(
    db: Database,
    caller: Caller,
    *,
    name: str,
    scopes: Iterable[Scope] | None = None,
    life_days: int = LIFE_DAYS,
    tokens_max: int = TOKENS_MAX,
) -> IssuedToken:
    """Create a token for the caller, with the caller's scopes or fewer."""
    caller.require(Scope.ADMIN)
    wanted = caller.scopes if scopes is None else frozenset(scopes)
    if not wanted:
        raise UsageError("A token needs at least one scope.", reason="no_scope", subject="scopes")
    if missing := wanted - caller.scopes:
        raise Forbidden(
            f"Your token lacks the scope `{min(missing)}`, so it cannot grant that scope.",
            reason="missing_scope",
            subject=min(missing).value,
        )
    if not 1 <= life_days <= LIFE_DAYS_MAX:
        raise UsageError(
            f"The lifetime of a token must be 1 to {LIFE_DAYS_MAX} days, not {life_days}.",
            reason="bad_life",
            subject="life_days",
            limit=LIFE_DAYS_MAX,
        )
    secret, token = _draw(TokenKind.API, caller, name, wanted, timedelta(days=life_days))

    async def work(connection: Connection) -> datetime:
        if await store.count_tokens(connection, caller.user_id) >= tokens_max:
            raise Conflict(
                f"Token limit reached ({tokens_max}). Revoke a token that you do not need.",
                reason="too_many_tokens",
                limit=tokens_max,
            )
        return await store.insert_token(connection, token)

    expires_at = await db.transact(caller.tenant_id, work)
    return IssuedToken(token.id, token.name, wanted, expires_at, secret)


def _draw(
    kind: TokenKind, caller: Caller, name: str, scopes: frozenset[Scope], life: timedelta
) -> tuple[Secret, NewToken]:
    """Generate a secret and its stored hash."""
    word = format_token(kind, secrets.token_bytes(SECRET_BYTES))
    token = NewToken(
        tenant_id=caller.tenant_id,
        id=uuid4(),
        user_id=caller.user_id,
        kind=kind,
        name=_clean_name(name),
        secret_sha256=hash_token(kind, word),
        scopes=scopes,
        life=life,
    )
    return Secret(word), token


async def list_tokens(db: Database, caller: Caller) -> list[Token]:
    """List the tokens that a caller may manage: their own, or all if they manage members."""
    caller.require(Scope.ADMIN)

    async def work(connection: Connection) -> list[Token]:
        return await store.list_tokens(connection, caller.user_id)

    return await db.transact(caller.tenant_id, work)


async def revoke_token(db: Database, caller: Caller, token_id: UUID) -> None:
    """Revoke a token and every browser session opened with it. Idempotent."""
    caller.require(Scope.ADMIN)

    async def work(connection: Connection) -> bool:
        return await store.revoke_token(connection, token_id, caller.user_id)

    if not await db.transact(caller.tenant_id, work):
        raise NotFound(
            f"Token {token_id} does not exist.", reason="no_token", subject=str(token_id)
        )


# -- browser sessions ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A new browser session: the secret of its cookie, and its CSRF token."""

    cookie: Secret
    csrf_token: str
    expires_at: datetime


async def open_session(db: Database, token: str, *, requests_per_minute: int) -> BrowserSession:
    """Open a browser session with a token; it ends with the token at the latest."""
    caller = await authenticate(db, token, requests_per_minute=requests_per_minute)
    assert caller.token_id is not None
    return await _begin_session(db, caller, (caller.tenant_id, caller.token_id))


async def _begin_session(db: Database, caller: Caller, root: tuple[UUID, UUID]) -> BrowserSession:
    secret, drawn = _draw(TokenKind.BROWSER, caller, "browser", caller.scopes, SESSION_LIFE)
    session = dataclasses.replace(drawn, stands_for=root)

    async def work(connection: Connection) -> datetime:
        return await store.insert_token(connection, session)

    expires_at = await db.transact(caller.tenant_id, work)
    return BrowserSession(secret, build_csrf_token(secret.reveal()), expires_at)


async def renew_session(db: Database, caller: Caller) -> datetime:
    """Let a browser session last its whole life from now on; return when it ends."""
    session_id = caller.token_id
    if session_id is None:
        raise NotFound("This request has no browser session. Sign in to start one.")

    async def work(connection: Connection) -> datetime:
        return await store.renew_session(connection, session_id, SESSION_LIFE)

    return await db.transact(caller.tenant_id, work)


async def close_session(db: Database, caller: Caller) -> None:
    """Close a browser session. Does nothing for a caller without one."""
    session_id = caller.token_id
    if session_id is None:
        return

    async def work(connection: Connection) -> None:
        if await store.find_root(connection, session_id) is not None:
            await store.revoke_token(connection, session_id, caller.user_id)

    await db.transact(caller.tenant_id, work)


async def close_sessions(db: Database, caller: Caller) -> None:
    """Close all browser sessions of the caller's user, in every tenant; the caller's tenant last.

    A failure on the way leaves the caller signed in, to try again.
    """
    tenants = await db.transact(caller.tenant_id, lambda c: store.list_tenants(c, caller.user_id))
    for tenant in sorted(tenants, key=lambda each: each.id == caller.tenant_id):
        await db.transact(tenant.id, lambda c: store.revoke_sessions(c, caller.user_id))


async def switch_session(db: Database, caller: Caller, tenant_id: UUID) -> BrowserSession:
    """Switch to another tenant, if the user has a personal token; close the old session."""
    session_id = caller.token_id
    if session_id is None:
        raise Forbidden(
            "Only a browser session can switch organisations. Sign in first.",
            reason="no_browser_session",
        )

    async def work(connection: Connection) -> tuple[UUID, UUID]:
        root = await store.find_root(connection, session_id)
        if root is None:
            raise Forbidden(
                "A token acts in one tenant. Create another token for the other tenant.",
                reason="token_of_one_tenant",
            )
        tenants = await store.list_tenants(connection, caller.user_id)
        kinds = {tenant.id: tenant.kind for tenant in tenants}
        if tenant_id not in kinds:
            raise NotFound(
                f"Organisation {tenant_id} does not exist.",
                reason="no_organization",
                subject=str(tenant_id),
            )
        # A token of an organisation gives access to that organisation only.
        if root[0] != tenant_id and kinds.get(root[0]) != "personal":
            raise Forbidden(
                "You signed in with a token of an organisation, which gives access to that one "
                "only. Sign in with a token of your personal account to switch.",
                reason="token_of_organization",
            )
        return root

    root = await db.transact(caller.tenant_id, work)
    begun = await _begin_session(db, dataclasses.replace(caller, tenant_id=tenant_id), root)
    await close_session(db, caller)
    return begun


# -- organisations ---------------------------------------------------------------------------------


async def list_tenants(db: Database, caller: Caller) -> list[Membership]:
    """List the caller's personal account and their organisations."""
    caller.require(Scope.READ)

    async def work(connection: Connection) -> list[Membership]:
        return await store.list_tenants(connection, caller.user_id)

    return await db.transact(caller.tenant_id, work)


async def create_organization(connection: Connection, caller: Caller, name: str) -> UUID:
    """Create an organisation that the caller owns; return its id."""
    caller.require(Scope.ADMIN)
    return await store.create_organization(connection, caller.user_id, _clean_name(name))


async def list_members(db: Database, caller: Caller) -> list[Member]:
    """List the members of the tenant."""
    caller.require(Scope.READ)
    return await db.transact(caller.tenant_id, store.list_members)


async def set_member(db: Database, caller: Caller, user_name: str, role: Role) -> UUID:
    """Add a user to the organisation, or change a member's role; return their id."""
    caller.require(Scope.ADMIN)

    async def work(connection: Connection) -> UUID:
        return await store.set_member(connection, caller.user_id, user_name, role)

    return await db.transact(caller.tenant_id, work)


async def remove_member(db: Database, caller: Caller, user_id: UUID) -> None:
    """Remove a member and revoke their tokens for the organisation; their work stays."""
    caller.require(Scope.ADMIN)

    async def work(connection: Connection) -> None:
        await store.remove_member(connection, caller.user_id, user_id)

    await db.transact(caller.tenant_id, work)
