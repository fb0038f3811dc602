"""The calls in flight are listed while they last, with what has arrived so far."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from dialectic.live_calls import LiveCall, LiveCalls
from tests.cases import each_case


def build_call(session_id: UUID | None = None) -> LiveCall:
    return LiveCall(
        session_id=session_id or uuid4(),
        job_id=uuid4(),
        stage_slug="thesis",
        output_type="thesis",
        model_name="play/m",
        seat=1,
        input_tokens=100,
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
