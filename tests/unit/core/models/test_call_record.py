"""A record of a call rebuilds what was sent and what came back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.models.call_record import (
    Refusal,
    build_call_record,
    read_call_record,
)
from dialectic.core.models.messages import (
    FinishReason,
    Message,
    Reply,
    Request,
    Role,
    Usage,
    UsageSource,
)
from dialectic.errors import InvalidRecord
from tests.cases import each_case

REQUEST = Request("acme/m", "Be brief.", (Message(Role.USER, "Why?"),), 100, variant=2)
REPLY = Reply(
    text="\ufeffBecause\u200b.\r\n",
    finish_reason=FinishReason.STOP,
    raw_finish_reason="end_turn",
    usage=Usage(7, 3, UsageSource.REPORTED),
    request_id="req-1",
    raw={"id": "req-1", "model": "m-2026"},
)

# A text as an adapter returns it: single halves of characters, but no two that make one.
texts = st.text(st.characters(), max_size=60).filter(
    lambda text: text == text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
)
counts = st.integers(0, 2**31 - 1)
odd = st.none() | st.booleans() | st.integers() | texts | st.lists(texts, max_size=2)
replies = st.builds(
    Reply,
    text=texts,
    finish_reason=st.sampled_from(FinishReason),
    raw_finish_reason=st.none() | texts,
    usage=st.builds(Usage, counts, counts, st.sampled_from(UsageSource)),
    request_id=st.none() | texts,
    raw=st.dictionaries(texts, st.none() | st.integers() | texts, max_size=3),
    odd_usage=st.none() | st.tuples(odd, odd),
)


@given(replies)
def test_the_answer_is_rebuilt_field_by_field(reply: Reply) -> None:
    record = read_call_record(build_call_record(REQUEST, reply))
    assert record.answer == reply
    assert record.request == REQUEST


def test_a_record_has_the_documented_form() -> None:
    data = json.loads(build_call_record(REQUEST, REPLY, [Refusal(131_072, 128_000)]))
    assert data == {
        "record": 2,
        "request": {
            "model": "acme/m",
            "system": "Be brief.",
            "messages": [{"role": "user", "content": "Why?"}],
            "max_output_tokens": 100,
            "variant": 2,
            "temperature": None,
        },
        "answer": {
            "text": REPLY.text,
            "finish_reason": "stop",
            "raw_finish_reason": "end_turn",
            "usage": {"input_tokens": 7, "output_tokens": 3, "source": "reported"},
            "request_id": "req-1",
        },
        "refused": [{"had_tokens": 131_072, "max_tokens": 128_000}],
        "response": {"id": "req-1", "model": "m-2026"},
    }


def test_what_the_provider_refused_is_read_in_order() -> None:
    refused = (Refusal(9, 8), Refusal(None, 7))
    assert read_call_record(build_call_record(REQUEST, REPLY, refused)).refused == refused
    assert "refused" not in json.loads(build_call_record(REQUEST, REPLY))


def test_a_record_of_version_1_has_its_request_and_no_answer() -> None:
    request = {
        "model": "acme/m",
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "Why?"}],
        "max_output_tokens": 100,
    }
    record = read_call_record(json.dumps({"request": request, "response": {}}).encode())
    assert record.version == 1
    assert record.request == replace(REQUEST, variant=1)
    assert record.answer is None


BAD = {
    "not JSON": (b"{", "not_json", None),
    "not UTF-8": (b"\xff", "not_json", None),
    "not an object": (b"[]", "not_json", None),
    "a version of the future": (b'{"record": 3}', "unknown_version", "3"),
    "a version that is true": (b'{"record": true}', "unknown_version", "True"),
    "no request": (b'{"record": 2}', "bad_form", "request"),
    "a request without messages": (b'{"request": {"messages": []}}', "bad_form", "request.model"),
}


@each_case(("data", "reason", "subject"), list(BAD.values()), ids=list(BAD))
def test_a_damaged_record_is_refused_with_the_place(
    data: bytes, reason: str, subject: str | None
) -> None:
    with pytest.raises(InvalidRecord) as caught:
        read_call_record(data)
    assert (caught.value.code, caught.value.reason) == ("invalid_record", reason)
    assert caught.value.subject == subject


def test_an_answer_that_was_tampered_with_is_refused() -> None:
    record = json.loads(build_call_record(REQUEST, REPLY))
    del record["answer"]["usage"]["source"]
    with pytest.raises(InvalidRecord) as caught:
        read_call_record(json.dumps(record).encode())
    assert caught.value.subject == "answer.usage.source"
