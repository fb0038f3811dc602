"""An endpoint is opened in its own words, cheaply, and only if it can be asked at all."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dialectic.core.access import Secret
from dialectic.core.models.endpoint import CONNECT_S, Endpoint, WireFormat
from dialectic.core.models.messages import Message, Request, Role
from dialectic.core.models.model import ModelCard
from dialectic.errors import ConfigurationError
from dialectic.providers import google, openai
from dialectic.providers.catalog import open_provider
from dialectic.providers.error_taxonomy import QUOTED_CHARS_MAX, RAW_CHARS_MAX
from dialectic.providers.exchange import AFTERWARDS_S, REASONING_FIRST_BYTE_S, Caps, build_sending
from dialectic.providers.response import RECORD_CHARS_MAX, TEXT_CHARS_MAX
from tests.cases import each_case

OPENAI = Endpoint(name="openai", kind=WireFormat.OPENAI, base_url="https://api.openai.com/v1")
LOCAL = dataclasses.replace(OPENAI, name="local", base_url="http://127.0.0.1:8080/v1")
CARD = ModelCard(
    name="openai/m",
    context_window_tokens=8_000,
    max_input_tokens=8_000,
    max_output_tokens=1_000,
    input_credits_per_token=Decimal(1),
    output_credits_per_token=Decimal(2),
    tokenizer="chars:4",
)
REQUEST = Request("openai/m", "", (Message(Role.USER, "Why?"),), max_output_tokens=500)


@pytest.mark.parametrize("kind", WireFormat)
def test_every_wire_has_its_adapter(kind: WireFormat) -> None:
    endpoint = dataclasses.replace(OPENAI, kind=kind)
    assert open_provider(endpoint, None).endpoint is endpoint


@each_case(
    "base_url",
    [
        "",
        "api.openai.com/v1",
        "ftp://api.openai.com/v1",
        "https://",
        "https:///v1",
        "https://host:port/v1",
        "https://host:99999/v1",
        "https://[::1/v1",
        "https://me:sesame@host/v1",
        "https://sesame@host/v1",
        "https://host/v1?key=sesame",
        "https://host/v1#sesame",
    ],
)
def test_an_address_that_cannot_be_asked_is_refused_without_repeating_it(base_url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_provider(dataclasses.replace(OPENAI, base_url=base_url), Secret("k"))
    assert "openai" in caught.value.message
    assert "sesame" not in caught.value.message


@each_case(
    ("endpoint", "extra", "name", "cap"),
    [
        (OPENAI, {}, "max_completion_tokens", 500),
        (
            dataclasses.replace(OPENAI, base_url="https://eu.api.openai.com/v1"),
            {},
            "max_completion_tokens",
            500,
        ),
        (
            dataclasses.replace(OPENAI, base_url="https://api.openai.com.evil.example/v1"),
            {},
            "max_tokens",
            500,
        ),
        (LOCAL, {}, "max_tokens", 500),
        (LOCAL, {"max_completion_tokens": 10**6}, "max_completion_tokens", 500),
        (LOCAL, {"max_completion_tokens": 200}, "max_completion_tokens", 200),
        (OPENAI, {"max_tokens": 10**6}, "max_tokens", 500),
        (OPENAI, {"max_tokens": "lots"}, "max_tokens", 500),
        (
            OPENAI,
            {"max_tokens": 10**6, "max_completion_tokens": 10**6},
            "max_completion_tokens",
            500,
        ),
    ],
)
def test_the_cap_goes_by_the_name_that_is_understood_and_is_never_exceeded(
    endpoint: Endpoint, extra: dict[str, Any], name: str, cap: int
) -> None:
    card = dataclasses.replace(CARD, extra_body=extra)
    body = openai.build_body(endpoint, card, REQUEST)
    caps = {key: value for key, value in body.items() if key.startswith("max_")}
    assert caps == {name: cap}


def test_an_empty_table_takes_a_field_out() -> None:
    card = dataclasses.replace(CARD, extra_body={"stream_options": {}})
    assert openai.build_body(OPENAI, CARD, REQUEST)["stream_options"] == {"include_usage": True}
    assert "stream_options" not in openai.build_body(OPENAI, card, REQUEST)


def test_what_the_operator_configures_for_google_is_joined_with_the_cap() -> None:
    config = {"temperature": 0.5, "maxOutputTokens": 10**6}
    card = dataclasses.replace(CARD, extra_body={"generationConfig": config, "safetySettings": []})
    body = google.build_body(card, REQUEST)
    assert body["generationConfig"] == {"temperature": 0.5, "maxOutputTokens": 500}
    assert body["safetySettings"] == []


def test_a_model_that_thinks_has_ten_minutes_to_begin() -> None:
    thinker = dataclasses.replace(CARD, is_reasoning=True)
    patient = dataclasses.replace(OPENAI, first_byte_s=900.0)
    limits = [
        build_sending(endpoint, card, "/", {}).first_byte_s
        for endpoint, card in ((OPENAI, CARD), (OPENAI, thinker), (patient, thinker))
    ]
    assert limits == [120.0, REASONING_FIRST_BYTE_S, 900.0]


def test_the_document_gives_the_limits_as_they_are() -> None:
    text = (Path(__file__).resolve().parents[3] / "docs" / "providers.md").read_text("utf-8")
    caps = Caps()
    for words, limit in (
        ("connect", f"{CONNECT_S:g} s"),
        ("first byte of the answer, from the start", f"{OPENAI.first_byte_s:g} s"),
        ("the same, for a reasoning model", f"{REASONING_FIRST_BYTE_S:g} s at least"),
        ("silence between two bytes", f"{OPENAI.idle_s:g} s"),
        ("the whole call", f"{OPENAI.timeout_s:g} s"),
        ("after the finish reason, for the usage", f"{AFTERWARDS_S:g} s"),
        ("one event", f"{caps.event_bytes >> 20} MiB"),
        ("an answer in one piece", f"{caps.body_bytes >> 20} MiB"),
        ("a stream in all, unpacked", f"{caps.stream_bytes >> 20} MiB"),
        ("text of one answer", f"{TEXT_CHARS_MAX >> 20} Mi characters"),
        ("record of one answer", f"{RECORD_CHARS_MAX:,} characters"),
        ("stored part of an error's body", f"{RAW_CHARS_MAX:,} characters"),
        ("quoted part of a vendor's message", f"{QUOTED_CHARS_MAX} characters"),
    ):
        assert f"| {words} | {limit} |" in text
