"""Streams of events, however they are cut, and the place from which they are resumed."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.client.events import LOSSES_MAX, StreamPosition
from dialectic.core.sse import EVENT_BYTES_MAX
from tests.sample_events import build_frame, get_word

texts = st.text(st.characters(exclude_categories=["Cs"]))


def write(words: list[str], end: str = "\n") -> bytes:
    lines = []
    for number, word in enumerate(words):
        data = build_frame("news", {"word": word}, id=number).data
        lines.append(f"id: a.{number}{end}event: news{end}data: {data}{end}{end}")
    return "".join(lines).encode()


@given(st.lists(texts), st.sampled_from(["\n", "\r\n"]), st.data())
def test_events_are_the_same_however_the_stream_is_cut(
    words: list[str], end: str, data: st.DataObject
) -> None:
    stream = write(words, end)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    place = StreamPosition(None)

    found = [
        event
        for start, stop in pairwise([0, *cuts, len(stream)])
        for event in place.feed(stream[start:stop])
    ]

    assert [get_word(event.data) for event in found] == words  # type: ignore[union-attr]
    assert [event.resume_id for event in found] == [f"a.{n}" for n in range(len(words))]


def test_half_an_event_is_none_and_is_told_again_from_the_place_before_it() -> None:
    place, stream = StreamPosition("a.x"), write(["one", "two"])
    place.begin()
    assert [event.resume_id for event in place.feed(stream[:-9])] == ["a.0"]

    assert place.after == "a.0"


def test_a_sign_of_life_moves_the_position_and_is_not_an_event() -> None:
    place = StreamPosition(None)

    assert place.feed(b": alive\nid: a.9\n\n") == []
    assert place.after == "a.9"


def test_a_stream_that_cannot_be_opened_is_given_up_after_some_tries() -> None:
    place = StreamPosition(None)
    waits = [place.decide_wait() for _ in range(LOSSES_MAX + 1)]

    assert waits == [float(tries) for tries in range(1, LOSSES_MAX + 1)] + [None]


def test_what_was_heard_resets_the_count() -> None:
    place = StreamPosition(None)
    for _ in range(LOSSES_MAX):
        place.decide_wait()
    place.feed(b"retry: 2000\n\n")

    assert place.decide_wait() == 2.0


def test_an_event_that_lacks_a_field_is_refused_and_is_told_again() -> None:
    place = StreamPosition("a.5")
    half = json.dumps({"id": 6, "type": "session_paused", "data": {}})

    with pytest.raises(ValueError, match="sessionId"):
        place.feed(f"id: a.6\nevent: session_paused\ndata: {half}\n\n".encode())

    assert place.after == "a.5"


@pytest.mark.parametrize("stream", [b"data: [1]\n\n", b"data: {\n\n", b"x" * (EVENT_BYTES_MAX + 1)])
def test_an_event_that_makes_no_sense_or_has_no_end_is_refused(stream: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  which one does not matter to the client
        StreamPosition(None).feed(stream)
