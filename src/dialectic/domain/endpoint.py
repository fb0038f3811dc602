"""Where models are asked: an address, the words it understands, and the limits it sets."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from dialectic.domain.address import check_base_url

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
