"""A piece of a draft is one small frame without an id, and parses as a client reads it."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from dialectic.contract.events import Draft, parse_item
from dialectic.core.sse import EventParser
from dialectic.db.tables.drafts import DraftPiece
from dialectic.events.channel import DRAFTS_QUEUE_MAX, Subscription
from dialectic.events.drafts import cut_piece, render_draft


def build_piece(text: str, at: int = 10**6) -> DraftPiece:
    return DraftPiece(
        tenant_id=UUID(int=1),
        session_id=UUID(int=2),
        job_id=UUID(int=3),
        attempt=1,
        turn=0,
        phase="writing",
        at=at,
        text=text,
        words=10**6,
    )


storable = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4000)


@given(storable | storable.map(lambda text: "\x1b\n" * 1000 + text))
def test_a_frame_has_at_most_two_kilobytes_and_the_beginning_of_the_piece(text: str) -> None:
    piece = cut_piece(build_piece(text))
    wire = render_draft(piece)
    assert len(wire) <= 2048
    assert text.startswith(piece.text)
    assert piece.text or not text
    (frame,) = EventParser().feed(wire)
    draft = parse_item(frame)
    assert isinstance(draft, Draft)
    assert (draft.text, draft.at, draft.resume_id) == (piece.text, 10**6, None)


async def test_drafts_move_no_position_and_a_follower_that_lags_gets_no_more() -> None:
    subscription = Subscription(UUID(int=1), None, 7)
    for _ in range(DRAFTS_QUEUE_MAX + 5):
        subscription.offer_draft(b"piece")
    taken = await subscription.take(0.0)
    assert taken is not None
    assert len(taken) == DRAFTS_QUEUE_MAX
    assert {frame.seq for frame in taken} == {7}
