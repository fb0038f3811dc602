"""The temperature of a request, as each wire sends it to the models that accept one."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from dialectic.core.models.endpoint import Endpoint, WireFormat
from dialectic.core.models.endpoint_config import Place, parse_models
from dialectic.core.models.messages import Message, Request, Role
from dialectic.core.models.model import ModelCard
from dialectic.providers.catalog import load_shipped, open_provider

CARD = ModelCard(
    name="acme/large",
    context_window_tokens=64_000,
    max_input_tokens=60_000,
    max_output_tokens=2_000,
    input_credits_per_token=Decimal(1),
    output_credits_per_token=Decimal(1),
    tokenizer="chars:4",
)
REQUEST = Request("acme/large", "Be short.", (Message(Role.USER, "Hi."),), 100, temperature=1.3)
# Where each wire has the temperature, and what it allows.
WIRES = [(WireFormat.OPENAI, 1.3), (WireFormat.ANTHROPIC, 1.0), (WireFormat.GOOGLE, 1.3)]


def build_body(wire: WireFormat, card: ModelCard, request: Request) -> dict[str, Any]:
    endpoint = Endpoint(name="acme", kind=wire, base_url="https://acme.example/v1")
    _, body = open_provider(endpoint, None).build_call(card, request)
    inner = body["generationConfig"] if wire is WireFormat.GOOGLE else body
    assert isinstance(inner, dict)
    return inner


@pytest.mark.parametrize(("wire", "sent"), WIRES)
def test_a_temperature_is_sent_within_what_the_wire_allows(wire: WireFormat, sent: float) -> None:
    assert build_body(wire, CARD, REQUEST)["temperature"] == sent


@pytest.mark.parametrize("wire", list(WireFormat))
def test_without_a_temperature_none_is_sent(wire: WireFormat) -> None:
    assert "temperature" not in build_body(wire, CARD, replace(REQUEST, temperature=None))


@pytest.mark.parametrize("wire", list(WireFormat))
def test_the_operators_own_temperature_wins(wire: WireFormat) -> None:
    own: dict[str, Any] = {"temperature": 0.1}
    extra = {"generationConfig": own} if wire is WireFormat.GOOGLE else own
    assert build_body(wire, replace(CARD, extra_body=extra), REQUEST)["temperature"] == 0.1


def test_a_reasoning_model_accepts_no_temperature_unless_it_is_said() -> None:
    facts = {
        "context_window_tokens": 1000,
        "max_output_tokens": 100,
        "input_usd_per_million": 1,
        "output_usd_per_million": 1,
        "tokenizer": "chars:4",
    }
    thinker = {**facts, "is_reasoning": True}
    models = {"plain": facts, "thinker": thinker, "both": {**thinker, "accepts_temperature": True}}
    cards = parse_models("acme", models, Place("config.toml"))
    assert [card.accepts_temperature for card in cards] == [True, False, True]
    for shipped in load_shipped().values():
        assert not any(card.accepts_temperature and card.is_reasoning for card in shipped.cards)
