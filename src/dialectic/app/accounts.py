"""Accounts: users, the tokens they come in with, organisations. Knows no HTTP.

A token acts for one user in one tenant. Its secret is made here, shown once, and gone: only its
hash is kept. Whatever a caller may not see is not found; only what their token or their role does
not allow is forbidden.
"""

from __future__ import annotations

import dataclasses
import secrets
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from dialectic.contract.accounts import LIFE_DAYS, LIFE_DAYS_MAX
from dialectic.core.access import (
    EVERY_SCOPE,
    SECRET_BYTES,
    Caller,
    Role,
    Scope,
    Secret,
    TokenKind,
    build_csrf_token,
    check_csrf_token,
    format_token,
    hash_token,
)
from dialectic.core.local_trust import Access, RequestOrigin, decide_access, is_loopback
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


# -- who asks --------------------------------------------------------------------------------------


async def authenticate(db: Database, token: str | None, *, requests_per_minute: int) -> Caller:
    """Find out whom a token acts for; count one request against it."""
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
    """Find out whom a browser's cookie acts for. Only a safe method (GET, HEAD) needs no CSRF."""
    if not is_safe:
        check_csrf_token(cookie, csrf_token)
    return await _identify(db, TokenKind.BROWSER, cookie, requests_per_minute)


async def _identify(db: Database, kind: TokenKind, token: str, requests_per_minute: int) -> Caller:
    found = await store.find_token(
        db, hash_token(kind, token), requests_per_minute=requests_per_minute
    )
    # Unknown and revoked are told in the same words.
    if found is None or found.kind is not kind:
        raise TokenInvalid
    if found.is_expired:
        raise TokenExpired
    if found.wait_s > 0:
        raise TooManyRequests(
            f"This token may make {requests_per_minute} requests a minute. Come back in "
            f"{found.wait_s:.1f} s.",
            retry_after_s=found.wait_s,
        )
    return Caller(found.tenant_id, found.user_id, found.scopes, found.token_id, found.expires_at)


async def enter_without_token(db: Database, listens_at: str, knock: RequestOrigin) -> Caller:
    """Let the owner of this machine in, as long as nobody has a token; refuse everyone else."""
    # Elsewhere than at a loopback address the database need not be asked: a token is needed.
    has_tokens = not is_loopback(listens_at) or await store.has_tokens(db)
    match decide_access(listens_at, knock, has_tokens=has_tokens):
        case Access.AS_OWNER:
            return build_owner(await load_owner(db))
        case Access.UNKNOWN:
            raise TokenMissing
        case Access.FOREIGN:
            raise Forbidden(
                "This server acts for its owner, and the request was made by a page of another "
                "site. Use the server by the address it listens at.",
                reason="foreign_page",
            )


async def load_owner(db: Database) -> Account:
    """Load the account of whoever owns this installation; the first call makes it."""
    return await store.find_account(db, LOCAL_USER) or await open_account(db, LOCAL_USER)


def build_owner(account: Account) -> Caller:
    """Build the caller for whoever sits at the machine itself: they may do everything."""
    return Caller(account.tenant_id, account.user_id, EVERY_SCOPE, token_id=None)


async def load_account(db: Database, caller: Caller) -> Account:
    """Load what a caller acts with: tenant, user, and the wallet they spend from."""

    async def work(connection: Connection) -> UUID:
        return await store.load_wallet_id(connection, caller.user_id)

    return Account(caller.tenant_id, caller.user_id, await db.transact(caller.tenant_id, work))


# -- users -----------------------------------------------------------------------------------------


async def add_user(db: Database, name: str) -> Account:
    """Make a user with an account of their own."""
    return await store.add_account(db, _clean_name(name))


async def load_user(db: Database, name: str) -> Account:
    """Load a user's own account."""
    account = await store.find_account(db, name)
    if account is None:
        raise NotFound(
            f"There is no user {name!r}.",
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
            f"A name has 1 to {NAME_CHARS_MAX} characters that can be seen. Choose another one.",
            reason="bad_name",
            subject="name",
            limit=NAME_CHARS_MAX,
        )
    return cleaned


# -- tokens ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token, with its secret for the first and last time."""

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
    """Make a token that acts for the caller, with their scopes or fewer."""
    caller.require(Scope.ADMIN)
    wanted = caller.scopes if scopes is None else frozenset(scopes)
    if not wanted:
        raise UsageError("A token needs at least one scope.", reason="no_scope", subject="scopes")
    if missing := wanted - caller.scopes:
        raise Forbidden(
            f"This token lacks the scope `{min(missing)}`, so it can make none that has it.",
            reason="missing_scope",
            subject=min(missing).value,
        )
    if not 1 <= life_days <= LIFE_DAYS_MAX:
        raise UsageError(
            f"A token lives for 1 to {LIFE_DAYS_MAX} days, not {life_days}.",
            reason="bad_life",
            subject="life_days",
            limit=LIFE_DAYS_MAX,
        )
    secret, token = _draw(TokenKind.API, caller, name, wanted, timedelta(days=life_days))

    async def work(connection: Connection) -> datetime:
        if await store.count_tokens(connection, caller.user_id) >= tokens_max:
            raise Conflict(
                f"There are {tokens_max} tokens already. Revoke one that is not needed.",
                reason="too_many_tokens",
                limit=tokens_max,
            )
        return await store.insert_token(connection, token)

    expires_at = await db.transact(caller.tenant_id, work)
    return IssuedToken(token.id, token.name, wanted, expires_at, secret)


def _draw(
    kind: TokenKind, caller: Caller, name: str, scopes: frozenset[Scope], life: timedelta
) -> tuple[Secret, NewToken]:
    """Draw a secret, and what is kept of it."""
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
    """List the tokens a caller may manage: their own, or all if they manage the members."""
    caller.require(Scope.ADMIN)

    async def work(connection: Connection) -> list[Token]:
        return await store.list_tokens(connection, caller.user_id)

    return await db.transact(caller.tenant_id, work)


async def revoke_token(db: Database, caller: Caller, token_id: UUID) -> None:
    """Revoke a token, and with it every browser that came in with it. Again is harmless."""
    caller.require(Scope.ADMIN)

    async def work(connection: Connection) -> bool:
        return await store.revoke_token(connection, token_id, caller.user_id)

    if not await db.transact(caller.tenant_id, work):
        raise NotFound(f"There is no token {token_id}.", reason="no_token", subject=str(token_id))


# -- browsers --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A browser that came in: what goes into its cookie, and what its pages send beside it."""

    cookie: Secret
    csrf_token: str
    expires_at: datetime


async def open_session(db: Database, token: str, *, requests_per_minute: int) -> BrowserSession:
    """Let a browser in with a token; the session ends with the token at the latest."""
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


async def close_session(db: Database, caller: Caller) -> None:
    """Let a browser out. Whoever came without a session has none to close."""
    session_id = caller.token_id
    if session_id is None:
        return

    async def work(connection: Connection) -> None:
        if await store.find_root(connection, session_id) is not None:
            await store.revoke_token(connection, session_id, caller.user_id)

    await db.transact(caller.tenant_id, work)


async def switch_session(db: Database, caller: Caller, tenant_id: UUID) -> BrowserSession:
    """Go over to another tenant of the user, if their own token let them in; ends the session."""
    session_id = caller.token_id
    if session_id is None:
        raise Forbidden(
            "Only a browser that came in with a token can go over. Sign in first.",
            reason="no_browser_session",
        )

    async def work(connection: Connection) -> tuple[UUID, UUID]:
        root = await store.find_root(connection, session_id)
        if root is None:
            raise Forbidden(
                "A token acts in one tenant. Make another one for the other tenant.",
                reason="token_of_one_tenant",
            )
        tenants = await store.list_tenants(connection, caller.user_id)
        kinds = {tenant.id: tenant.kind for tenant in tenants}
        if tenant_id not in kinds:
            raise NotFound(
                f"There is no organisation {tenant_id}.",
                reason="no_organization",
                subject=str(tenant_id),
            )
        # Whoever holds a token of an organisation was given that organisation, and nothing else.
        if root[0] != tenant_id and kinds.get(root[0]) != "personal":
            raise Forbidden(
                "You signed in with a token of an organisation, which opens that one alone. "
                "Sign in with a token of your own account to go over.",
                reason="token_of_organization",
            )
        return root

    root = await db.transact(caller.tenant_id, work)
    begun = await _begin_session(db, dataclasses.replace(caller, tenant_id=tenant_id), root)
    await close_session(db, caller)
    return begun


# -- organisations ---------------------------------------------------------------------------------


async def list_tenants(db: Database, caller: Caller) -> list[Membership]:
    """List the caller's own account and the organisations they belong to."""
    caller.require(Scope.READ)

    async def work(connection: Connection) -> list[Membership]:
        return await store.list_tenants(connection, caller.user_id)

    return await db.transact(caller.tenant_id, work)


async def create_organization(connection: Connection, caller: Caller, name: str) -> UUID:
    """Create an organisation that the caller owns; return its id."""
    caller.require(Scope.ADMIN)
    return await store.create_organization(connection, caller.user_id, _clean_name(name))


async def list_members(db: Database, caller: Caller) -> list[Member]:
    """List who belongs to the tenant."""
    caller.require(Scope.READ)
    return await db.transact(caller.tenant_id, store.list_members)


async def set_member(db: Database, caller: Caller, user_name: str, role: Role) -> UUID:
    """Take a user into the organisation, or give a member another role; return their id."""
    caller.require(Scope.ADMIN)

    async def work(connection: Connection) -> UUID:
        return await store.set_member(connection, caller.user_id, user_name, role)

    return await db.transact(caller.tenant_id, work)


async def remove_member(db: Database, caller: Caller, user_id: UUID) -> None:
    """Let a member of the organisation go; what they made stays, their tokens there end."""
    caller.require(Scope.ADMIN)

    async def work(connection: Connection) -> None:
        await store.remove_member(connection, caller.user_id, user_id)

    await db.transact(caller.tenant_id, work)
