"""Callers, scopes, roles, tokens and secrets; and access without a token. Pure.

A token is `dlk_` and 256 random bits; a browser session has the same form with `dls_`. Only their
hashes are stored. A `Secret` never shows its value in a log, an error or a repr.

The owner needs no token on the local machine. No other client may pass for the owner: not a page
of another site that calls this machine by its address, not a page whose host name resolves to this
machine (DNS rebinding), not a client behind a proxy.
"""

from __future__ import annotations

import base64
import enum
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_address
from uuid import UUID

from dialectic.errors import (
    ConfigurationError,
    CsrfInvalid,
    Forbidden,
    Remedy,
    RemedyAction,
    TokenInvalid,
    TokenMissing,
)

SECRET_BYTES = 32
# The lifetime of a token, if its owner names none, and the longest.
LIFE_DAYS = 365
LIFE_DAYS_MAX = 3650
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
        raise CsrfInvalid(
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


# -- access without a token ------------------------------------------------------------------------

# A proxy names its client in one of these.
FORWARDING_HEADERS = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
# With the `__Host-` prefix, browsers accept it only from this host and only over TLS.
COOKIE, SECURE_COOKIE = "dialectic_session", "__Host-dialectic_session"

_HOST_HEADER = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^:\[\]/@]+)(?::(?P<port>\d{1,5}))?")


class Access(enum.Enum):
    """The decision about a request without a token."""

    AS_OWNER = "it acts for the owner of this machine"
    UNKNOWN = "it needs a token"
    FOREIGN = "it was made by a page of another site"


@dataclass(frozen=True, slots=True)
class RequestOrigin:
    """The headers that tell where a request comes from; None if a header is absent."""

    host: str | None
    origin: str | None = None
    scheme: str = "http"
    is_forwarded: bool = False
    # The browser says that another site or port made the request. Browsers say so for images,
    # scripts and links too, which have no Origin header.
    is_by_stranger: bool = False

    @classmethod
    def read(cls, headers: Mapping[str, str], scheme: str = "http") -> RequestOrigin:
        """Read the headers of a request, whose names are in lower case."""
        is_forwarded = any(name in headers for name in FORWARDING_HEADERS)
        is_by_stranger = headers.get("sec-fetch-site") in ("cross-site", "same-site")
        return cls(headers.get("host"), headers.get("origin"), scheme, is_forwarded, is_by_stranger)


def is_loopback(host: str) -> bool:
    """Tell whether a host is certainly the local machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


def check_opening(host: str, *, has_tokens: bool) -> None:
    """Refuse to listen on a public address while no token exists."""
    if not is_loopback(host) and not has_tokens:
        raise ConfigurationError(
            f"Other machines can reach this server at {host}, but no token exists. Create "
            "one, or listen on 127.0.0.1.",
            reason="no_token",
            subject=host,
            remedy=Remedy(RemedyAction.ADD_USER),
        )


def decide_access(listens_at: str, origin: RequestOrigin, *, has_tokens: bool) -> Access:
    """Decide about a request without a token.

    While no token exists, a local client is treated as the owner of the machine.
    """
    if not is_loopback(listens_at) or has_tokens or origin.is_forwarded:
        return Access.UNKNOWN
    own_origin = f"{origin.scheme}://{origin.host}".lower()
    is_foreign = origin.origin is not None and origin.origin.lower() != own_origin
    if not is_local(origin) or is_foreign or origin.is_by_stranger:
        return Access.FOREIGN
    return Access.AS_OWNER


def is_local(origin: RequestOrigin) -> bool:
    """Tell whether the Host header names the local machine and no proxy is involved."""
    called = _HOST_HEADER.fullmatch(origin.host or "")
    return called is not None and is_loopback(called["host"]) and not origin.is_forwarded


def build_set_cookie(value: str, origin: RequestOrigin, *, max_age_s: int) -> str:
    """Build the Set-Cookie header of a browser session; an empty value and age 0 delete it.

    Scripts cannot read the cookie, and forms of other sites do not send it. It needs TLS, except
    on the local machine.
    """
    shared = f"Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Lax"
    name = name_cookie(origin)
    return f"{name}={value}; {shared}" + ("; Secure" if name == SECURE_COOKIE else "")


def name_cookie(origin: RequestOrigin) -> str:
    """Name the cookie of a browser session.

    Browsers send cookies to every port of a host, and two servers on one machine share its name: on
    the local machine the port is part of the name.
    """
    if not is_local(origin):
        return SECURE_COOKIE
    called = _HOST_HEADER.fullmatch(origin.host or "")
    port = called["port"] if called else None
    return f"{COOKIE}_{port or (443 if origin.scheme == 'https' else 80)}"


def find_cookie(header: str | None, origin: RequestOrigin) -> str | None:
    """Find the cookie of a browser session in a Cookie header."""
    wanted = name_cookie(origin)
    for pair in (header or "").split(";"):
        name, _, value = pair.strip().partition("=")
        if name == wanted and value:
            return value
    return None


def build_removal(headers: Mapping[str, str], origin: RequestOrigin) -> str | None:
    """Build the header that deletes a rejected cookie; None if the request used none."""
    if "authorization" in headers or find_cookie(headers.get("cookie"), origin) is None:
        return None
    return build_set_cookie("", origin, max_age_s=0)
