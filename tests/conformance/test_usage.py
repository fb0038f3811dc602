"""Usage is what the provider says, or counted; the record keeps what it said."""

from __future__ import annotations

from typing import Any

import pytest

from dialectic.core.models.messages import Usage, UsageSource
from dialectic.errors import StreamTruncated
from dialectic.tokens.counting import count_request_tokens
from tests.conformance.fault_rows import row, spoken_by
from tests.conformance.provider_client import CARD, REQUEST, Client
from tests.conformance.wire_formats import Chat, Content

TEXT = "Because air scatters blue light."
COUNTED = Usage(count_request_tokens(REQUEST, CARD).tokens, -(-len(TEXT) // 4), UsageSource.COUNTED)


@row(28, "no usage")
async def test_tokens_that_are_not_reported_are_counted(client: Client) -> None:
    dialect = client.dialect
    end = dialect.encode_all(dialect.end(dialect.words["stop"], None))
    client.wire.play_answer(dialect.beginning(TEXT), end)

    assert (await client.ask()).usage == COUNTED


@row(29, "usage negative, a string, a fraction, nothing")
@pytest.mark.parametrize(
    ("read", "written"),
    [
        (-1, 7),
        (11, -7),
        ("11", 7),
        (11, "7"),
        (11.0, 7),
        (11, None),
        (None, 7),
        (True, 7),
        (11, []),
    ],
)
async def test_a_usage_that_is_not_a_count_is_counted_and_kept(
    client: Client, read: Any, written: Any
) -> None:
    usage = client.dialect.usage(read, written)
    client.wire.play_answer(client.dialect.stream(TEXT, usage=usage))

    reply = await client.ask()

    assert reply.usage == COUNTED
    kept = client.dialect.reported(reply.raw)
    assert {name: kept.get(name) for name in usage if usage[name] is not None} == {
        name: count for name, count in usage.items() if count is not None
    }


@row(30, "usage that is absurd")
@pytest.mark.parametrize(("read", "written"), [(0, 0), (11, 0), (11, 10**9), (10**9, 7)])
async def test_a_usage_that_is_absurd_is_passed_on_as_it_came(
    client: Client, read: int, written: int
) -> None:
    usage = client.dialect.usage(read, written)
    client.wire.play_answer(client.dialect.stream(TEXT, usage=usage))

    assert (await client.ask()).usage == Usage(read, written, UsageSource.REPORTED)


@row(30, "usage that no record holds")
@pytest.mark.parametrize("count", [2**31, 2**32 - 1, 2**64 - 1])
async def test_a_usage_beyond_all_that_is_counted_is_counted_here(
    client: Client, count: int
) -> None:
    usage = client.dialect.usage(count, 7)
    client.wire.play_answer(client.dialect.stream(TEXT, usage=usage))
    assert (await client.ask()).usage == COUNTED


@spoken_by(Chat(), Content())  # in the third it is part of an event that must have its form
@row(28, "usage that is no object")
async def test_a_usage_of_another_form_is_counted(client: Client) -> None:
    body = client.dialect.whole(TEXT)
    body["usage" if client.dialect.kind == Chat.kind else "usageMetadata"] = "eleven"
    client.wire.play_json(body)

    assert (await client.ask()).usage == COUNTED


@spoken_by(Chat())
async def test_the_latest_of_several_reports_counts(client: Client) -> None:
    first = {**Chat().text(TEXT), "usage": Chat().usage(11, 1)}
    events = [*Chat().begin(), first, *Chat().end("stop", Chat().usage(11, 9))]
    client.wire.play_answer(client.dialect.encode_all(events))

    assert (await client.ask()).usage == Usage(11, 9, UsageSource.REPORTED)


@spoken_by(Content())  # only Google reports on the way
async def test_a_report_that_came_before_a_break_is_left_behind(client: Client) -> None:
    event = {**client.dialect.text("Once"), "usageMetadata": client.dialect.usage(11, 7)}
    client.wire.play_answer(client.dialect.encode(event))

    assert (await client.fail(StreamTruncated)).remains.reported_usage == (11, 7)
