"""Authenticates each request once, from its headers. Stores no secret.

Accepts a bearer token, a browser's cookie, or the owner on the local machine.
Caches the account of each user.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from starlette.requests import HTTPConnection

from dialectic.app import accounts
from dialectic.core.access import Caller, RequestOrigin, find_cookie, parse_authorization
from dialectic.db.tables.records import Account
from dialectic.engine import Engine
from dialectic.errors import UsageError


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of a request and the account it acts on."""

    caller: Caller
    account: Account


# Returns the sender of a request, or raises if its credentials are invalid.
Authenticate: TypeAlias = Callable[[HTTPConnection], Awaitable[Principal]]

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
CSRF_HEADER = "x-csrf-token"
ACCOUNTS_KEPT_MAX = 10_000


class Authenticator:
    """Authenticates requests."""

    def __init__(self, engine: Engine, *, listens_at: str) -> None:
        self._engine, self._listens_at = engine, listens_at
        self._per_minute = engine.settings.requests_per_minute
        # A user's wallet in a tenant never changes.
        self._accounts: dict[tuple[UUID, UUID], Account] = {}

    async def authenticate(self, request: HTTPConnection) -> Principal:
        """Find the sender of a request; raise if its credentials are invalid."""
        caller = await self._identify(request)
        return Principal(caller, await self._load_account(caller))

    async def _identify(self, request: HTTPConnection) -> Caller:
        db, headers = self._engine.db, request.headers
        if given := headers.getlist("authorization"):
            if len(given) > 1:
                raise UsageError(
                    "The request has several Authorization headers. Send one.",
                    reason="repeated_header",
                    subject="Authorization",
                )
            token = parse_authorization(given[0])
            return await accounts.authenticate(db, token, requests_per_minute=self._per_minute)
        origin = RequestOrigin.read(headers, request.scope.get("scheme", "http"))
        cookie = find_cookie(headers.get("cookie"), origin)
        if cookie is not None:
            return await accounts.authenticate_browser(
                db,
                cookie,
                csrf_token=headers.get(CSRF_HEADER),
                is_safe=request.scope["method"] in SAFE_METHODS,
                requests_per_minute=self._per_minute,
            )
        return await accounts.enter_without_token(db, self._listens_at, origin)

    async def _load_account(self, caller: Caller) -> Account:
        key = (caller.tenant_id, caller.user_id)
        if key not in self._accounts:
            if len(self._accounts) >= ACCOUNTS_KEPT_MAX:
                self._accounts.clear()
            self._accounts[key] = await accounts.load_account(self._engine.db, caller)
        return self._accounts[key]
