"""A stream gives the same events however it is cut, in time that grows with its length only."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.sse import EVENT_BYTES_MAX, SKIPPED_LINES_MAX, Event, EventParser, Numbering
from dialectic.core.strict_json import MalformedJson


def parse(*pieces: bytes) -> list[Event]:
    parser = EventParser()
    events = [event for piece in pieces for event in parser.feed(piece)]
    last = parser.finish()
    return events + ([last] if last else [])


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\ndata: b\n\n", [Event("a"), Event("b")]),
        (b"data:a\n\n", [Event("a")]),
        (b"data:  a\n\n", [Event(" a")]),
        (b"data: a\ndata: b\n\n", [Event("a\nb")]),
        (b"data\n\n", [Event("")]),
        (b"data: a\r\n\r\ndata: b\r\rdata: c\n\n", [Event("a"), Event("b"), Event("c")]),
        (b"\xef\xbb\xbfdata: a\n\n", [Event("a")]),
        (b": comment\n\n:\n\ndata: a\n: more\n\n", [Event("a")]),
        (
            b"event: ping\ndata: a\nid: 7\nretry: 9\n\ndata: b\n\n",
            [Event("a", "ping", "7"), Event("b")],
        ),
        (b"event: lonely\n\ndata: a\n\n", [Event("a")]),
        (b"id: a\x00b\ndata: a\n\n", [Event("a")]),
        (b"novelty: a\nDATA: b\n data: c\ndata: d\n\n", [Event("d")]),
        (b"data: a", [Event("a")]),
        (b"data: a\n", [Event("a")]),
        (b"data: [DONE]\n\n", [Event("[DONE]")]),
        (b"\n\n\n", []),
        (b"", []),
        ("data: é🧭\n\n".encode(), [Event("é🧭")]),
        (b"data: \xff\xc3\n\n", [Event("\udcff\udcc3")]),
        (
            "data: a\u2028b\u0085c\x0bd\x0ce\x1cf\n\n".encode(),
            [Event("a\u2028b\u0085c\x0bd\x0ce\x1cf")],
        ),
    ],
)
def test_a_stream_is_read_as_the_standard_says(stream: bytes, expected: list[Event]) -> None:
    assert parse(stream) == expected
    assert parse(*(stream[at : at + 1] for at in range(len(stream)))) == expected


LINES = st.sampled_from(
    ["data: a", "data:b", "data: é🧭", "data", "event: e", "id: 3", ": c", "", "", "x"]
)
ENDS = st.sampled_from(["\n", "\r", "\r\n"])
STREAMS = st.lists(st.tuples(LINES, ENDS).map("".join)).map(lambda lines: "".join(lines).encode())


@given(stream=STREAMS | st.binary(), data=st.data())
def test_any_cut_gives_the_same_events(stream: bytes, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(stream))))
    edges = [0, *sorted(cuts), len(stream)]
    assert parse(*(stream[a:b] for a, b in pairwise(edges))) == parse(stream)


def feed_all(parser: EventParser, piece: bytes, times: int) -> None:
    for _ in range(times):
        parser.feed(piece)


@pytest.mark.parametrize("start", [b"data: ", b"", b": ", b"data: a\n" * 10 + b"data: "])
def test_a_line_of_ten_megabytes_is_refused_and_not_held(start: bytes) -> None:
    parser, piece = EventParser(), b"x" * 10_000
    parser.feed(start)
    tracemalloc.start()
    with pytest.raises(MalformedJson, match=str(EVENT_BYTES_MAX)):
        feed_all(parser, piece, 1_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 << 20


def test_an_event_of_many_lines_is_bounded_too() -> None:
    parser = EventParser(bytes_max=10_000)
    with pytest.raises(MalformedJson):
        feed_all(parser, b"data: some words\n", 1_000)


def test_the_id_to_resume_from_is_that_of_the_last_complete_block() -> None:
    parser = EventParser()
    parser.feed(b"id: 1\ndata: a\n\ndata: b\n\nid: 2\n")
    assert parser.last_id == "1"
    assert parser.feed(b"\n") == []
    assert parser.last_id == "2"


@pytest.mark.parametrize(
    ("sent", "retry_s"),
    [(b"2000", 2.0), (b"0", 0.0), (b"-1", None), ("²".encode(), None), (b"9" * 400, None)],
)
def test_a_server_may_say_how_long_to_wait_in_milliseconds(
    sent: bytes, retry_s: float | None
) -> None:
    parser = EventParser()
    parser.feed(b"retry: " + sent + b"\n")
    assert parser.retry_s == retry_s


def is_repeat(*events: tuple[str | None, str]) -> list[bool]:
    numbering = Numbering()
    return [numbering.is_repeat(Event(data, id=event_id)) for event_id, data in events]


def test_events_that_come_again_are_found_by_their_numbers() -> None:
    assert is_repeat(("1", "a"), ("2", "b"), ("2", "b"), ("1", "a"), ("3", "c")) == [
        *(False, False, True, True, False)
    ]


def test_an_event_that_comes_too_late_is_refused() -> None:
    with pytest.raises(MalformedJson, match=r"2.*3"):
        is_repeat(("1", "a"), ("3", "c"), ("2", "b"))


def test_ids_that_are_not_numbers_are_ignored() -> None:
    assert not any(
        is_repeat(("x", "a"), ("x", "a"), (None, "a"), (None, "a"), ("²", "a"), ("²", "a"))
    )
    assert not any(is_repeat(("7", "a"), ("7", "b"), ("7", "b"), ("1", "b")))
    assert not any(is_repeat(("9" * 30, "a"), ("9" * 30, "a")))


@pytest.mark.parametrize("line", [b": keep\n", b"\n", b"novelty: x\n"])
def test_lines_without_data_between_two_events_have_a_limit(line: bytes) -> None:
    parser = EventParser()
    for _ in range(3):
        assert parser.feed(line * (SKIPPED_LINES_MAX - 2) + b"data: a\n\n") == [Event("a")]
    with pytest.raises(MalformedJson):
        parser.feed(line * (SKIPPED_LINES_MAX + 1))
