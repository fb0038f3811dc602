"""Changes are told oldest first, and each frame's id says up to where they were told."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from dialectic.core.sse import EventParser
from dialectic.core.stream_position import parse_id
from dialectic.db.tables.board import Moment
from dialectic.events.changes import Change, ChangePage, Told
from dialectic.events.frames import build_change_frames

TENANT, SESSION = UUID(int=1), UUID(int=5)
MOMENT = Moment(seq=9, seen="50:60:50,55", read_at=datetime(2026, 11, 18, tzinfo=UTC))


def build_change(since: int) -> Change:
    return Change("jobs_changed", SESSION, None, {"since": since}, since)


def test_a_client_that_is_cut_off_among_changes_continues_with_the_first_it_lacks() -> None:
    page = ChangePage(MOMENT, [build_change(since) for since in (52, 41, 45)])
    frames = build_change_frames(TENANT, 7, 40, page)
    ids = [EventParser().feed(frame.wire)[0].id or "" for frame in frames]
    # A change by a transaction after the horizon may be told again: others may still be running.
    assert [parse_id(TENANT, one) for one in ids] == [(7, 45), (7, 50), (7, 50)]
    assert {frame.end for frame in frames} == {60}
    assert build_change_frames(TENANT, 7, 40, ChangePage(MOMENT, [])) == []


def test_money_is_told_once_a_second_and_then_what_is_owed() -> None:
    told = Told(money_at_s={SESSION: 10.0}, owed={SESSION})
    assert told.list_due(10.5) == set()
    assert told.list_due(11.0) == {SESSION}
