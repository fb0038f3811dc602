"""Which addresses may be called for a tenant that names them: public ones over TLS, no others.

Pure: looks no name up. A name is judged when it is given (`check_base_url`) and each address that
it leads to when it is called (`is_public`), since both may change in between. What the operator
writes into config.toml is not asked about: that may be any address.

Where models are asked: an address, the words it understands, and the limits it sets.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address
from urllib.parse import urlsplit

from dialectic.errors import ForbiddenAddress

# Everything of IANA's special-purpose registry that leads nowhere public, spelled out because the
# library's own list differs from version to version.
CLOSED_V4 = tuple(
    IPv4Network(text)
    for text in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
        *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16"),
        *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        "168.63.129.16/32",  # a cloud's own service at an address that looks public
    )
)
# Of the newer kind only what is given out to networks, and of that nothing which wraps an old one.
OPEN_V6 = IPv6Network("2000::/3")
CLOSED_V6 = tuple(
    IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)
# Names that belong to a local network, or that lead to whatever address stands in them.
CLOSED_SUFFIXES = (
    *("localhost", "local", "internal", "intranet", "lan", "home.arpa", "in-addr.arpa"),
    *("nip.io", "sslip.io", "xip.io", "localtest.me", "lvh.me", "vcap.me", "lacolhost.com"),
)

_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_]([a-z0-9_-]{0,62}))+")
# Any of the ways to write an old address as numbers: 2852039166, 0xa9fea9fe, 0251.0376.169.254.
_NUMBERS = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*")


def is_public(address: str) -> bool:
    """Say whether an address, as it comes out of a lookup, may be called; in doubt it may not."""
    try:
        found = ip_address(address)
    except ValueError:
        return False
    if isinstance(found, IPv4Address):
        return not any(found in closed for closed in CLOSED_V4)
    return found in OPEN_V6 and not any(found in closed for closed in CLOSED_V6)


def check_base_url(url: str) -> None:
    """Refuse a URL that may lead anywhere but to a public server over TLS."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").removesuffix("."), parts.port
    except ValueError:
        raise ForbiddenAddress("The base_url is no address. Write https://host/path.") from None
    if parts.scheme != "https":
        raise ForbiddenAddress("The base_url must begin with https://.")
    if "@" in parts.netloc or parts.query or parts.fragment or port == 0:
        raise ForbiddenAddress("The base_url holds more than host, port and path. Leave that out.")
    if not _is_open_host(host):
        raise ForbiddenAddress(
            "The host of the base_url may not be called: it must be the full name, or the plain "
            "address, of a public server."
        )


def _is_open_host(host: str) -> bool:
    if ":" in host:
        return is_public(host)
    if _NUMBERS.fullmatch(host):
        return is_public(host)  # which reads plain numbers only
    if not _NAME.fullmatch(host):
        return False
    return not any(host == closed or host.endswith(f".{closed}") for closed in CLOSED_SUFFIXES)


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
    """One endpoint. Its name is the first part of the names of its models.

    The key itself is never kept here: only the name of the environment variable that holds it.
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
    # Named by a tenant and not by the operator: only public addresses may be called.
    is_guarded: bool = False

    def __post_init__(self) -> None:
        if self.is_guarded:
            check_base_url(self.base_url)


# There from the start, and used as soon as their keys are set.
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
# What some know a variable by: it is looked at when the first is not set.
SECOND_NAMES = {"GEMINI_API_KEY": "GOOGLE_API_KEY"}
KEY_VARIABLES = (
    *(endpoint.api_key_env for endpoint in BUILT_IN.values() if endpoint.api_key_env),
    *SECOND_NAMES.values(),
)
# First parts of names that mean something else.
RESERVED = ("offline", "builtin")
