"""Endpoints of models: address, wire format and limits; which addresses a tenant may use. Pure.

A tenant may only use public addresses over TLS. A host name is checked when the tenant sets it
(`check_base_url`), and every address it resolves to when it is called (`is_public`), because DNS
may change in between. The operator may set any address in config.toml, and may allow tenants
further origins.

The name of a tenant's own endpoint begins with `@`, which no endpoint of the operator does.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address
from urllib.parse import urlsplit
from uuid import UUID

from dialectic.errors import ForbiddenAddress

# The non-public ranges of IANA's special-purpose registry, written out because the list in
# `ipaddress` differs between Python versions.
CLOSED_V4 = tuple(
    IPv4Network(text)
    for text in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
        *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16"),
        *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        "168.63.129.16/32",  # a cloud's metadata service at an address that looks public
    )
)
# The first character of the names of tenants' own endpoints, and so of their models.
OWN = "@"
# IPv6: only allocated global unicast addresses, without those that embed an IPv4 address.
OPEN_V6 = IPv6Network("2000::/3")
CLOSED_V6 = tuple(
    IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)
# Names of local networks, and names that resolve to the address they contain.
CLOSED_SUFFIXES = (
    *("localhost", "local", "internal", "intranet", "lan", "home.arpa", "in-addr.arpa"),
    *("nip.io", "sslip.io", "xip.io", "localtest.me", "lvh.me", "vcap.me", "lacolhost.com"),
)

_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_]([a-z0-9_-]{0,62}))+")
# IPv4 addresses as plain numbers: 2852039166, 0xa9fea9fe, 0251.0376.169.254.
_NUMBERS = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*")


def is_public(address: str) -> bool:
    """Tell whether a resolved address is certainly public."""
    try:
        found = ip_address(address)
    except ValueError:
        return False
    if isinstance(found, IPv4Address):
        return not any(found in closed for closed in CLOSED_V4)
    return found in OPEN_V6 and not any(found in closed for closed in CLOSED_V6)


def check_base_url(url: str) -> None:
    """Reject a URL unless it leads to a public server over TLS."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").removesuffix("."), parts.port
    except ValueError:
        raise ForbiddenAddress("The base_url is not a URL. Write https://host/path.") from None
    if parts.scheme != "https":
        raise ForbiddenAddress("The base_url must begin with https://.")
    if "@" in parts.netloc or parts.query or parts.fragment or port == 0:
        raise ForbiddenAddress(
            "The base_url may only have a host, a port and a path. Remove the rest."
        )
    if not _is_open_host(host):
        raise ForbiddenAddress(
            "The host of the base_url is not allowed. Use the full name or the IP address of a "
            "public server."
        )


def _is_open_host(host: str) -> bool:
    if ":" in host:
        return is_public(host)
    if _NUMBERS.fullmatch(host):
        return is_public(host)  # accepts dotted decimals only
    if not _NAME.fullmatch(host):
        return False
    return not any(host == closed or host.endswith(f".{closed}") for closed in CLOSED_SUFFIXES)


def is_own(name: str) -> bool:
    """Tell whether a model or an endpoint is a tenant's own, by its name."""
    return name.startswith(OWN)


def parse_origin(url: str) -> str:
    """Read the origin of a URL, `scheme://host:port`; raise ValueError if it has none."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ValueError
    default = 443 if parts.scheme == "https" else 80
    port = default if parts.port is None else parts.port
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port}"


CONNECT_S = 5.0
FIRST_BYTE_S = 120.0
IDLE_S = 60.0
WHOLE_CALL_S = 1800.0


class WireFormat(enum.StrEnum):
    """The protocol an endpoint speaks."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    GOOGLE = "google"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One endpoint. Its name is the first part of its models' names.

    It holds the name of the environment variable with the API key, never the key. The key of a
    tenant's own endpoint is stored with its row.
    """

    name: str
    kind: WireFormat
    base_url: str
    api_key_env: str | None = None
    max_concurrency: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    timeout_s: float = WHOLE_CALL_S
    first_byte_s: float = FIRST_BYTE_S
    idle_s: float = IDLE_S
    # Whose own it is; None if it is the operator's.
    tenant_id: UUID | None = None
    # Only public addresses are allowed: a tenant set it, not the operator.
    is_guarded: bool = False

    def __post_init__(self) -> None:
        if self.is_guarded:
            check_base_url(self.base_url)

    @property
    def state_key(self) -> str:
        """The key of its limits and its health: tenants' endpoints of one name share nothing."""
        return self.name if self.tenant_id is None else f"{self.tenant_id}/{self.name}"


# Available without configuration, once their API keys are set.
BUILT_IN = {
    endpoint.name: endpoint
    for endpoint in (
        Endpoint(
            name="openai",
            kind=WireFormat.OPENAI,
            base_url="https://api.openai.com/v1",
            api_key_env="OPENAI_API_KEY",
        ),
        Endpoint(
            name="anthropic",
            kind=WireFormat.ANTHROPIC,
            base_url="https://api.anthropic.com/v1",
            api_key_env="ANTHROPIC_API_KEY",
        ),
        Endpoint(
            name="google",
            kind=WireFormat.GOOGLE,
            base_url="https://generativelanguage.googleapis.com/v1beta",
            api_key_env="GEMINI_API_KEY",
        ),
    )
}
# Alternative names of variables, used if the first is not set.
SECOND_NAMES = {"GEMINI_API_KEY": "GOOGLE_API_KEY"}
KEY_VARIABLES = (
    *(endpoint.api_key_env for endpoint in BUILT_IN.values() if endpoint.api_key_env),
    *SECOND_NAMES.values(),
)
# Names that an endpoint may not have.
RESERVED = ("offline", "builtin")
