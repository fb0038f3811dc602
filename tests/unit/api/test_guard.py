"""How deep JSON is nested is told without parsing it; and no body is waited for for ever."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send

from dialectic.api import guard
from dialectic.api.caller import Visitor
from dialectic.api.guard import Guard, Limits, is_too_deep

texts = st.text(alphabet='[]{}"\\ax\n', max_size=12)
values = st.recursive(
    st.none() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=20,
)


def measure(value: Any) -> int:
    match value:
        case list():
            return 1 + max((measure(one) for one in value), default=0)
        case dict():
            return 1 + max((measure(one) for one in value.values()), default=0)
        case _:
            return 0


@given(values, st.integers(1, 6), st.sampled_from([1, 2, 7, 1 << 18]))
def test_depth_is_what_the_parser_finds_wherever_it_is_cut(
    value: Any, depth_max: int, window_bytes: int
) -> None:
    body = json.dumps(value, ensure_ascii=False).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guard, "WINDOW_BYTES", window_bytes)
        assert is_too_deep(body, depth_max) == (measure(value) > depth_max)


@pytest.mark.parametrize(
    "body",
    [b"[" * 1_000_000, b'{"a":' * 500_000, b"[" * 100 + b"]" * 100 + b"[" * 65],
    ids=["lists", "objects", "side by side"],
)
def test_what_never_ends_is_too_deep(body: bytes) -> None:
    assert is_too_deep(body, 64)


def test_what_is_long_and_flat_is_not() -> None:
    assert not is_too_deep(b"[" + b"[],{}," * 100_000 + b"[]]", 64)


def test_what_is_cut_off_is_not_deep() -> None:
    assert not is_too_deep(b"[" + b"[]," * 100 + b'[{"a":', 64)


# -- slow bodies ----------------------------------------------------------------------------------


class Sender:
    """A client that sends pieces of a body, and then nothing for a while."""

    def __init__(self, *pieces: Message, behind: Callable[[], None] = lambda: None) -> None:
        self._pieces, self._behind = list(pieces), behind

    async def receive(self) -> Message:
        await asyncio.sleep(0)
        if len(self._pieces) == 1:
            self._behind()
        if self._pieces:
            return self._pieces.pop(0)
        for _ in range(5):
            await asyncio.sleep(0)
        return {"type": "http.disconnect"}


async def send_to(path: str, media_type: str, sender: Sender) -> list[Message]:
    """Send a body through a guard to an application that reads what it is let."""
    told: list[Message] = []

    async def send(message: Message) -> None:
        told.append(message)

    async def read(_scope: Scope, receive: Receive, _send: Send) -> None:
        while (message := await receive())["type"] != "http.disconnect":
            told.append(message)
        told.append(message)

    async def know(_request: Any) -> Visitor:
        return cast("Visitor", None)

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [(b"content-type", media_type.encode())],
        "state": {},
    }
    limits = Limits(json_bytes_max=10_000_000, uploads={"/import": 1000})
    await Guard(read, know, limits, frozenset())(scope, sender.receive, send)
    return told


PIECE: Message = {"type": "http.request", "body": b"[", "more_body": True}
LAST: Message = {"type": "http.request", "body": b"]", "more_body": False}


async def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_GRACE_S", -1.0)
    start, body = await send_to("/api/v1/projects", "application/json", Sender(PIECE))
    assert start["status"] == 408
    assert json.loads(body["body"])["code"] == "request_timeout"


async def test_a_body_that_breaks_off_is_passed_on_to_nobody() -> None:
    start, body = await send_to("/api/v1/projects", "application/json", Sender(PIECE))
    assert (start["type"], start["status"]) == ("http.response.start", 400)
    assert "left before its request was whole" in json.loads(body["body"])["detail"]


async def test_one_that_is_whole_is_waited_behind_as_long_as_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # From then on nothing may take any time.
    sender = Sender(PIECE, LAST, behind=lambda: monkeypatch.setattr(guard, "BODY_GRACE_S", -1e9))
    *pieces, end = await send_to("/api/v1/import", "application/zip", sender)
    assert (pieces, end["type"]) == ([PIECE, LAST], "http.disconnect")


async def test_others_are_served_while_a_large_body_is_judged() -> None:
    body = b"[" + b'"",' * 1_000_000 + b"[]," * 70 + b"0]"
    whole: Message = {"type": "http.request", "body": body, "more_body": False}
    judging = asyncio.create_task(send_to("/api/v1/a", "application/json", Sender(whole)))
    turns = 0
    while not judging.done():
        turns += 1
        await asyncio.sleep(0)
    assert [message["type"] for message in await judging] == ["http.request", "http.disconnect"]
    assert turns > 50
