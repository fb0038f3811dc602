"""Who asks, and what they may: callers, scopes, the form of a token. Knows no database.

A token is `dlk_` and 256 random bits; a browser's session has the same form under `dls_`. Only the
hash of either is kept anywhere.

A key that never shows itself: not in a log, an error, a repr or a comparison that failed.
"""

from __future__ import annotations

import base64
import enum
import hashlib
import hmac
import re
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from dialectic.errors import Forbidden, Remedy, RemedyAction, TokenInvalid, TokenMissing

SECRET_BYTES = 32
CSRF_PURPOSE = b"dialectic: this request was made by our own page"


class Scope(enum.StrEnum):
    """What a token may be used for. None contains another one."""

    READ = "read"  # look at anything of the tenant
    WRITE = "write"  # make and change things that cost nothing
    SPEND = "spend"  # start what may cost money: generate, chat, retry
    ADMIN = "admin"  # tokens, members, money coming in


EVERY_SCOPE = frozenset(Scope)


class TokenKind(enum.StrEnum):
    """What holds a token: a program, or the cookie of a browser."""

    API = "api"
    BROWSER = "browser"

    @property
    def prefix(self) -> str:
        return {"api": "dlk_", "browser": "dls_"}[self.value]


class Role(enum.StrEnum):
    """What a user may do in a tenant beyond its projects: admins manage members, owners all."""

    OWNER = "owner"
    ADMIN = "admin"
    MEMBER = "member"


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever a request acts for: one user in one tenant, within the scopes of their token."""

    tenant_id: UUID
    user_id: UUID
    scopes: frozenset[Scope]
    # None: the owner at their own machine, who needs no token.
    token_id: UUID | None
    expires_at: datetime | None = None

    def require(self, scope: Scope) -> None:
        """Refuse what the token was not made for."""
        if scope not in self.scopes:
            raise Forbidden(
                f"This token lacks the scope `{scope}`. Use one that has it.",
                reason="missing_scope",
                subject=scope.value,
                remedy=Remedy(RemedyAction.CREATE_TOKEN, scope=scope.value),
            )


_FORMS = {kind: re.compile(rf"{kind.prefix}[A-Za-z0-9_-]{{43}}") for kind in TokenKind}


def format_token(kind: TokenKind, random: bytes) -> str:
    """Write 256 random bits as a token."""
    assert len(random) == SECRET_BYTES
    return kind.prefix + base64.urlsafe_b64encode(random).rstrip(b"=").decode()


def parse_authorization(header: str | None) -> str:
    """Take the token out of an Authorization header."""
    if header is None or not header.strip():
        raise TokenMissing
    scheme, _, word = header.strip().partition(" ")
    if scheme.lower() != "bearer":
        raise TokenInvalid("The Authorization header must be `Bearer dlk_…`. Send it in that form.")
    return word.strip()


def hash_token(kind: TokenKind, token: str) -> bytes:
    """Compute what is kept of a token; one that cannot be a token is refused here."""
    if not _FORMS[kind].fullmatch(token):
        raise TokenInvalid
    return hashlib.sha256(token.encode()).digest()


def build_csrf_token(session_token: str) -> str:
    """Build the word that our own pages send beside the cookie, and no other page can know.

    It follows from the cookie's secret, which scripts cannot read, so nothing of it is kept.
    """
    mac = hmac.digest(session_token.encode(), CSRF_PURPOSE, "sha256")
    return base64.urlsafe_b64encode(mac).rstrip(b"=").decode()


def check_csrf_token(session_token: str, shown: str | None) -> None:
    """Refuse a request that comes with the cookie but not from one of our pages."""
    expected = build_csrf_token(session_token).encode()
    if not hmac.compare_digest(expected, (shown or "").encode(errors="replace")):
        raise Forbidden(
            "The request was not made by a page of this server: its CSRF token is missing or "
            "wrong. Load the page again.",
            reason="csrf",
        )


HIDDEN = "***"


class Secret:
    """Holds a key. Only `reveal` gives it out, at the moment it is sent."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def redact(self, text: str) -> str:
        """Blank the key out of a text that came from elsewhere."""
        return text.replace(self._value, HIDDEN) if self._value else text

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"

    __str__ = __repr__

    def __reduce__(self) -> str:
        message = "a secret is not written anywhere"
        raise TypeError(message)
