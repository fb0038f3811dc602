"""Callers, scopes, roles, tokens and secrets. Uses no database.

A token is `dlk_` and 256 random bits; a browser session has the same form with `dls_`. Only their
hashes are stored. A `Secret` never shows its value in a log, an error or a repr.
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
    """What a token may be used for. No scope includes another."""

    READ = "read"  # read everything of the tenant
    WRITE = "write"  # create and change things that cost nothing
    SPEND = "spend"  # start what may cost money: generate, chat, retry
    ADMIN = "admin"  # tokens, members, adding money


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
    """The user and tenant that a request acts for, and the scopes of the token."""

    tenant_id: UUID
    user_id: UUID
    scopes: frozenset[Scope]
    # None: the owner on the local machine, who needs no token.
    token_id: UUID | None
    expires_at: datetime | None = None

    def require(self, scope: Scope) -> None:
        """Raise `Forbidden` if the token lacks the scope."""
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
    """Compute the hash that is stored for a token; reject a malformed token."""
    if not _FORMS[kind].fullmatch(token):
        raise TokenInvalid
    return hashlib.sha256(token.encode()).digest()


def build_csrf_token(session_token: str) -> str:
    """Build the CSRF token that our own pages send with the cookie.

    It is derived from the cookie, which other sites cannot read, so it is not stored.
    """
    mac = hmac.digest(session_token.encode(), CSRF_PURPOSE, "sha256")
    return base64.urlsafe_b64encode(mac).rstrip(b"=").decode()


def check_csrf_token(session_token: str, shown: str | None) -> None:
    """Reject a request that has the cookie but not the CSRF token of our pages."""
    expected = build_csrf_token(session_token).encode()
    if not hmac.compare_digest(expected, (shown or "").encode(errors="replace")):
        raise Forbidden(
            "The request was not made by a page of this server: its CSRF token is missing or "
            "wrong. Load the page again.",
            reason="csrf",
        )


HIDDEN = "***"


class Secret:
    """Holds a key. Only `reveal` returns it, when it is sent."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def redact(self, text: str) -> str:
        """Remove the key from a text."""
        return text.replace(self._value, HIDDEN) if self._value else text

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"

    __str__ = __repr__

    def __reduce__(self) -> str:
        message = "a secret cannot be pickled"
        raise TypeError(message)
