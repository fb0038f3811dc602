"""Who asks: found once per request, by what its headers carry. Keeps no secret.

Lets requests in: by a bearer token, by a browser's cookie, or as the owner at their machine.

Knows no routes. Whoever was let in once has their wallet looked up once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from starlette.requests import HTTPConnection

from dialectic.app import accounts
from dialectic.core.access import Caller, parse_authorization
from dialectic.core.local_trust import RequestOrigin, find_cookie
from dialectic.db.tables.records import Account
from dialectic.engine import Engine


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever a request acts for, and the account they act with."""

    caller: Caller
    account: Account


# Finds who sent a request, or raises what is wrong with what it carries.
Authenticate: TypeAlias = Callable[[HTTPConnection], Awaitable[Principal]]

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
CSRF_HEADER = "x-csrf-token"
ACCOUNTS_KEPT_MAX = 10_000


class Authenticator:
    """Finds out who sent a request."""

    def __init__(self, engine: Engine, *, listens_at: str) -> None:
        self._engine, self._listens_at = engine, listens_at
        self._per_minute = engine.settings.requests_per_minute
        # A user's wallet in a tenant never changes.
        self._accounts: dict[tuple[UUID, UUID], Account] = {}

    async def authenticate(self, request: HTTPConnection) -> Principal:
        """Find who sent a request, or raise what is wrong with what it carries."""
        caller = await self._identify(request)
        return Principal(caller, await self._load_account(caller))

    async def _identify(self, request: HTTPConnection) -> Caller:
        db, headers = self._engine.db, request.headers
        if "authorization" in headers:
            token = parse_authorization(headers["authorization"])
            return await accounts.authenticate(db, token, requests_per_minute=self._per_minute)
        knock = RequestOrigin.read(headers, request.scope.get("scheme", "http"))
        cookie = find_cookie(headers.get("cookie"), knock)
        if cookie is not None:
            return await accounts.authenticate_browser(
                db,
                cookie,
                csrf_token=headers.get(CSRF_HEADER),
                is_safe=request.scope["method"] in SAFE_METHODS,
                requests_per_minute=self._per_minute,
            )
        return await accounts.enter_without_token(db, self._listens_at, knock)

    async def _load_account(self, caller: Caller) -> Account:
        key = (caller.tenant_id, caller.user_id)
        if key not in self._accounts:
            if len(self._accounts) >= ACCOUNTS_KEPT_MAX:
                self._accounts.clear()
            self._accounts[key] = await accounts.load_account(self._engine.db, caller)
        return self._accounts[key]
