"""Access without a token: where a server may listen, whom it trusts, and its cookie. Pure.

The owner needs no token on the local machine. No other client may pass for the owner: not a page
of another site that calls this machine by its address, not a page whose host name resolves to this
machine (DNS rebinding), not a client behind a proxy.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address

from dialectic.errors import ConfigurationError, Remedy, RemedyAction

# A proxy names its client in one of these.
FORWARDING_HEADERS = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
# With the `__Host-` prefix, browsers accept it only from this host and only over TLS.
COOKIE, SECURE_COOKIE = "dialectic_session", "__Host-dialectic_session"

_HOST_HEADER = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^:\[\]/@]+)(?::\d{1,5})?")


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
    if is_local(origin):
        return f"{COOKIE}={value}; {shared}"
    return f"{SECURE_COOKIE}={value}; {shared}; Secure"


def find_cookie(header: str | None, origin: RequestOrigin) -> str | None:
    """Find the cookie of a browser session in a Cookie header."""
    wanted = COOKIE if is_local(origin) else SECURE_COOKIE
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
