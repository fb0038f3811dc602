"""Opens the adapter that speaks an endpoint's words. Knows no vendor; opens no connection yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never
from urllib.parse import urlsplit

from dialectic.domain.endpoint import Endpoint, WireFormat
from dialectic.domain.secret import Secret
from dialectic.errors import ConfigurationError
from dialectic.providers.base import RemoteProvider

if TYPE_CHECKING:
    from dialectic.providers.conversation import Caps


def open_provider(
    endpoint: Endpoint, key: Secret | None, *, caps: Caps | None = None
) -> RemoteProvider:
    """Open the provider behind an endpoint. Its first call connects; `close` lets go."""
    from dialectic.providers.conversation import Caps

    _check_address(endpoint)
    # A key read from a file often ends in a line feed, which no header can carry.
    word = "" if key is None else key.reveal().strip()
    key, caps = Secret(word) if word else None, caps or Caps()
    match endpoint.kind:
        case WireFormat.OPENAI:
            from dialectic.providers.openai import OpenAIProvider

            return OpenAIProvider(endpoint, key, caps)
        case WireFormat.ANTHROPIC:
            from dialectic.providers.anthropic import AnthropicProvider

            return AnthropicProvider(endpoint, key, caps)
        case WireFormat.GOOGLE:
            from dialectic.providers.google import GoogleProvider

            return GoogleProvider(endpoint, key, caps)
        case unreachable:
            assert_never(unreachable)


def _check_address(endpoint: Endpoint) -> None:
    try:
        parts = urlsplit(endpoint.base_url)
        port_is_sound = parts.port is None or parts.port > 0
    except ValueError:
        parts, port_is_sound = urlsplit(""), False
    is_sound = parts.scheme in ("http", "https") and parts.hostname and port_is_sound
    if not is_sound or parts.query or parts.fragment or parts.username or parts.password:
        # It is not repeated: a key may stand in it.
        raise ConfigurationError(
            f"The base_url of {endpoint.name} is no address that can be asked. Write it as "
            "`https://host/version`, without a key in it; the key belongs into a variable."
        )
