"""Whatever parses is understood or refused: no reader knows a third way."""

from __future__ import annotations

import contextlib
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.models.messages import Message, Reply, Request, Role
from dialectic.core.models.model import ModelCard
from dialectic.core.strict_json import MalformedJson
from dialectic.errors import ProviderMalformed
from dialectic.providers.anthropic import MessageReader
from dialectic.providers.exchange import Reader
from dialectic.providers.google import ContentReader
from dialectic.providers.openai import ChatReader
from dialectic.providers.response import ResponseBuilder
from tests.properties import examples

CARD = ModelCard(
    name="play/m",
    context_window_tokens=8_000,
    max_input_tokens=8_000,
    max_output_tokens=1_000,
    input_credits_per_token=Decimal(1),
    output_credits_per_token=Decimal(2),
    tokenizer="chars:4",
)
REQUEST = Request("play/m", "", (Message(Role.USER, "Why?"),), max_output_tokens=500)
NAMES = """id choices delta message content text type index finish_reason refusal tool_calls usage
prompt_tokens completion_tokens content_block stop_reason input_tokens output_tokens candidates
parts cache_read_input_tokens thought functionCall finishReason promptFeedback blockReason
usageMetadata promptTokenCount candidatesTokenCount thoughtsTokenCount responseId self""".split()
WORDS = """text text_delta message_start content_block_start content_block_delta content_block_stop
message_delta message_stop ping tool_use stop end_turn STOP SAFETY""".split()
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.floats(allow_nan=False)
    | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5)
    ),
    max_leaves=30,
)
EVENTS = st.lists(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5), max_size=4)


@pytest.mark.parametrize("kind", [ChatReader, MessageReader, ContentReader])
@examples(60)
@given(events=EVENTS, body=VALUES)
def test_any_events_are_taken_or_refused(kind: Any, events: list[Any], body: Any) -> None:
    pieces: list[str] = []
    reader: Reader = kind(ResponseBuilder(CARD, REQUEST, pieces.append, None))
    with contextlib.suppress(MalformedJson):
        for event in events:
            reader.take(event)
    with contextlib.suppress(MalformedJson):
        reader.take_whole(body)
        assert reader.draft.has_ended
    remains = reader.draft.build_remains()
    assert remains.partial_text == "".join(pieces)
    json.dumps(remains.raw)
    if reader.draft.has_ended:
        with contextlib.suppress(ProviderMalformed):
            assert isinstance(reader.draft.build_reply(), Reply)
