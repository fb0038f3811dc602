"""The calls in flight are listed while they last, with what has arrived so far."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from dialectic.live_calls import LiveCall, LiveCalls, Phase
from tests.cases import each_case


def build_call(session_id: UUID | None = None) -> LiveCall:
    return LiveCall(
        tenant_id=uuid4(),
        session_id=session_id or uuid4(),
        job_id=uuid4(),
        attempt=1,
        stage_slug="thesis",
        output_type="thesis",
        model_name="play/m",
        seat=1,
        input_tokens=100,
        phase=Phase.CALLING,
    )


def test_a_call_is_listed_for_its_session_while_it_is_in_flight() -> None:
    calls, call, other = LiveCalls(), build_call(), build_call()
    with calls.track(call), calls.track(other):
        assert calls.list_of(call.session_id) == [call]
    assert calls.list_of(call.session_id) == []


def test_a_call_that_fails_is_listed_no_longer() -> None:
    calls, call = LiveCalls(), build_call()
    with pytest.raises(ZeroDivisionError), calls.track(call):
        raise ZeroDivisionError
    assert calls.list_of(call.session_id) == []


@each_case(
    ("pieces", "tokens"),
    [((), 0), (("a",), 1), (("four", "four"), 2), (("漢字漢字",), 3), (("\ud800",), 1)],
)
def test_tokens_are_estimated_from_the_text_so_far(pieces: tuple[str, ...], tokens: int) -> None:
    call = build_call()
    for piece in pieces:
        call.add(piece)
    assert call.output_tokens == tokens


def test_a_call_that_is_being_prepared_is_not_in_flight_yet() -> None:
    calls, call = LiveCalls(), build_call()
    call.phase = Phase.PREPARING
    with calls.track(call):
        assert calls.list_of(call.session_id) == []
        assert calls.list_documents() == [call]
        call.send(input_tokens=100)
        assert calls.list_of(call.session_id) == [call]


@each_case(
    ("pieces", "words"),
    [
        ((), 0),
        (("one two",), 2),
        (("on", "e tw", "o"), 2),
        (("one ", " two"), 2),
        (("one", " ", "two"), 2),
        (("\n", "one"), 1),
    ],
)
def test_words_are_counted_across_pieces(pieces: tuple[str, ...], words: int) -> None:
    call = build_call()
    for piece in pieces:
        call.add(piece)
    assert (call.words, call.read_text()) == (words, "".join(pieces))


def test_the_first_text_changes_the_phase_and_a_new_request_begins_again() -> None:
    call = build_call()
    call.add("Some text")
    assert (call.phase, call.read_text(5)) == (Phase.WRITING, "text")
    call.send(input_tokens=100)
    assert (call.phase, call.read_text(), call.words, call.chars) == (Phase.CALLING, "", 0, 0)
