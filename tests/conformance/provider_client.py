"""What the suite asks, and what it gets."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from typing import Any

import pytest

from dialectic.core.access import Secret
from dialectic.core.models.endpoint import Endpoint
from dialectic.core.models.messages import Message, Reply, Request, Role
from dialectic.core.models.model import ModelCard
from dialectic.errors import DialecticError, ProviderError
from dialectic.providers.catalog import open_provider
from dialectic.providers.exchange import Caps
from tests.conformance.scripted_socket import Wire
from tests.conformance.wire_formats import Dialect

KEY = "sk-canary-2f9d77"
KEY_VARIABLE = "CANARY_API_KEY"
CARD = ModelCard(
    name="play/m-1",
    context_window_tokens=8_000,
    max_input_tokens=8_000,
    max_output_tokens=1_000,
    input_credits_per_token=Decimal(1),
    output_credits_per_token=Decimal(2),
    tokenizer="chars:4",
)
REQUEST = Request(
    model="play/m-1",
    system="Be brief.",
    messages=(
        Message(Role.USER, "Why is the sky blue?"),
        Message(Role.ASSISTANT, "Because"),
        Message(Role.USER, "Go on."),
    ),
    max_output_tokens=500,
)


@dataclasses.dataclass
class Client:
    """One endpoint at the wire, asked as the engine asks."""

    wire: Wire
    dialect: Dialect
    # What arrived piece by piece.
    pieces: list[str] = dataclasses.field(default_factory=list)
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    card: ModelCard = CARD
    key: Secret | None = dataclasses.field(default_factory=lambda: Secret(KEY))
    caps: Caps = dataclasses.field(default_factory=Caps)

    def endpoint(self) -> Endpoint:
        given: dict[str, Any] = {
            "name": "play",
            "kind": self.dialect.kind,
            "base_url": f"{self.wire.url}/{self.dialect.version}",
            "api_key_env": KEY_VARIABLE,
            "first_byte_s": 5.0,
            "idle_s": 5.0,
            "timeout_s": 20.0,
        }
        return Endpoint(**given | self.options)

    async def ask(self, request: Request = REQUEST) -> Reply:
        provider = open_provider(self.endpoint(), self.key, caps=self.caps)
        try:
            return await provider.complete(self.card, request, self.pieces.append)
        finally:
            await provider.close()

    async def fail(self, kind: type[DialecticError]) -> Any:
        """Ask what cannot be answered; give the error, which must show no key."""
        with pytest.raises(DialecticError) as caught:
            await self.ask()
        assert type(caught.value) is kind, caught.value
        assert_shows_no_key(caught.value)
        assert "play" in caught.value.message
        return caught.value


def assert_shows_no_key(error: DialecticError) -> None:
    remains = error.remains if isinstance(error, ProviderError) else None
    assert KEY not in f"{error.message} {remains}"
