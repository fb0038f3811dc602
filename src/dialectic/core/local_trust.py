"""The door of a server: where it may listen, whom it lets in without a token, its cookie.

Pure. The owner of a machine needs no ceremony there, and nobody else must pass for the owner: not
a page of another site that calls this machine by its address, nor one whose name was made to lead
here (DNS rebinding), nor whoever stands behind a proxy.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address

from dialectic.errors import ConfigurationError, Remedy, RemedyAction

# A proxy says in one of these for whom it asks.
FORWARDING_HEADERS = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
# With the prefix, browsers take it from this host alone, over TLS alone.
COOKIE, SECURE_COOKIE = "dialectic_session", "__Host-dialectic_session"

_HOST_HEADER = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^:\[\]/@]+)(?::\d{1,5})?")


class Access(enum.Enum):
    """What becomes of a request without a token."""

    AS_OWNER = "it acts for the owner of this machine"
    UNKNOWN = "it needs a token"
    FOREIGN = "it was made by a page of another site"


@dataclass(frozen=True, slots=True)
class RequestOrigin:
    """What a request says about where it comes from: headers, None where there is none."""

    host: str | None
    origin: str | None = None
    scheme: str = "http"
    is_forwarded: bool = False
    # Whether a browser says that a page of another site or port asks, as it does also of requests
    # that have no Origin: pictures, scripts, links.
    is_by_stranger: bool = False

    @classmethod
    def read(cls, headers: Mapping[str, str], scheme: str = "http") -> RequestOrigin:
        """Read the headers of a request, whose names are in lower case."""
        is_forwarded = any(name in headers for name in FORWARDING_HEADERS)
        is_by_stranger = headers.get("sec-fetch-site") in ("cross-site", "same-site")
        return cls(headers.get("host"), headers.get("origin"), scheme, is_forwarded, is_by_stranger)


def is_loopback(host: str) -> bool:
    """Say whether a host is this very machine and nothing else; in doubt it is not."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


def check_opening(host: str, *, has_tokens: bool) -> None:
    """Refuse to listen where others can come and nobody could say who they are."""
    if not is_loopback(host) and not has_tokens:
        raise ConfigurationError(
            f"At {host} others can reach this server, and no token is there to know them by. Make "
            "one, or listen at 127.0.0.1.",
            reason="no_token",
            subject=host,
            remedy=Remedy(RemedyAction.ADD_USER),
        )


def decide_access(listens_at: str, knock: RequestOrigin, *, has_tokens: bool) -> Access:
    """Decide about a request without a token, at a server that listens at some host.

    As long as there is no token at all, whoever is at the machine itself is its owner.
    """
    if not is_loopback(listens_at) or has_tokens or knock.is_forwarded:
        return Access.UNKNOWN
    own_origin = f"{knock.scheme}://{knock.host}".lower()
    is_foreign = knock.origin is not None and knock.origin.lower() != own_origin
    if not is_local(knock) or is_foreign or knock.is_by_stranger:
        return Access.FOREIGN
    return Access.AS_OWNER


def is_local(knock: RequestOrigin) -> bool:
    """Say whether a request calls the server by a name of the machine itself, and not by proxy."""
    called = _HOST_HEADER.fullmatch(knock.host or "")
    return called is not None and is_loopback(called["host"]) and not knock.is_forwarded


def build_set_cookie(value: str, knock: RequestOrigin, *, max_age_s: int) -> str:
    """Build the Set-Cookie header of a browser's session; no value and no age take it away.

    No script can read it; other sites' forms do not send it; it goes over TLS alone, unless it
    does not leave the machine.
    """
    shared = f"Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Lax"
    if is_local(knock):
        return f"{COOKIE}={value}; {shared}"
    return f"{SECURE_COOKIE}={value}; {shared}; Secure"


def find_cookie(header: str | None, knock: RequestOrigin) -> str | None:
    """Find the cookie of a browser's session in a Cookie header."""
    wanted = COOKIE if is_local(knock) else SECURE_COOKIE
    for pair in (header or "").split(";"):
        name, _, value = pair.strip().partition("=")
        if name == wanted and value:
            return value
    return None


def build_removal(headers: Mapping[str, str], knock: RequestOrigin) -> str | None:
    """Build what takes the cookie of a refused request away; None if it was not let in by one."""
    if "authorization" in headers or find_cookie(headers.get("cookie"), knock) is None:
        return None
    return build_set_cookie("", knock, max_age_s=0)
