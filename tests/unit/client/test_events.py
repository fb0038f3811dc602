"""Streams of events, however they are cut, and the place from which they are resumed."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.client.events import LOSSES_MAX, Event, StreamPosition, read_events
from dialectic.core.sse import EVENT_BYTES_MAX, EventParser

texts = st.text(st.characters(exclude_categories=["Cs"]))
events = st.lists(
    st.builds(Event, st.just("a.1"), st.just("x"), st.fixed_dictionaries({"t": texts}))
)


def write(told: list[Event], end: str = "\n") -> bytes:
    lines = [
        f"id: {e.id}{end}event: {e.type}{end}data: {json.dumps(e.data)}{end}{end}" for e in told
    ]
    return "".join(lines).encode()


@given(events, st.sampled_from(["\n", "\r\n"]), st.data())
def test_events_are_the_same_however_the_stream_is_cut(
    told: list[Event], end: str, data: st.DataObject
) -> None:
    stream = write(told, end)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    parser = EventParser()

    found = [
        event
        for start, stop in pairwise([0, *cuts, len(stream)])
        for event in read_events(parser, stream[start:stop])
    ]

    assert found == told


def test_half_an_event_is_none_and_is_told_again_from_the_place_before_it() -> None:
    place = StreamPosition("a.1")
    place.begin()
    assert [event.id for event in place.feed(b"id: a.2\ndata: {}\n\nid: a.3\nda")] == ["a.2"]

    assert place.after == "a.2"


def test_a_sign_of_life_moves_the_position_and_is_not_an_event() -> None:
    place = StreamPosition(None)

    assert place.feed(b": alive\nid: a.9\n\n") == []
    assert place.after == "a.9"


def test_a_stream_that_cannot_be_had_is_given_up_after_some_tries() -> None:
    place = StreamPosition(None)
    waits = [place.decide_wait() for _ in range(LOSSES_MAX + 1)]

    assert waits == [float(tries) for tries in range(1, LOSSES_MAX + 1)] + [None]


def test_what_was_heard_resets_the_count() -> None:
    place = StreamPosition(None)
    for _ in range(LOSSES_MAX):
        place.decide_wait()
    place.feed(b"retry: 2000\n\n")

    assert place.decide_wait() == 2.0


def test_broken_characters_are_replaced() -> None:
    (event,) = read_events(EventParser(), b'data: {"t": "a\xffb"}\n\n')

    assert event.data == {"t": "a\ufffdb"}


@pytest.mark.parametrize("stream", [b"data: [1]\n\n", b"data: {\n\n", b"x" * (EVENT_BYTES_MAX + 1)])
def test_an_event_that_makes_no_sense_or_has_no_end_is_refused(stream: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  which one does not matter to the client
        read_events(EventParser(), stream)
