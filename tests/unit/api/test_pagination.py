"""A cursor gives back the key it was made of, and nothing else is one."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.api.pagination import build_cursor, build_listing, build_page, parse_number
from dialectic.errors import InvalidCursor

times = st.datetimes(datetime(1970, 1, 2), datetime(9999, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@given(times, st.uuids(), st.integers(1, 200))
def test_a_page_begins_behind_the_row_that_its_cursor_was_made_of(
    when: datetime, row_id: UUID, limit: int
) -> None:
    page = build_page("jobs", build_cursor("jobs", when, row_id), limit)
    assert page.arguments == (when, row_id, limit + 1)


@given(st.text(max_size=80))
def test_an_invalid_cursor_is_refused_and_breaks_nothing(text: str) -> None:
    with pytest.raises(InvalidCursor):
        build_page("jobs", text, 10)
    with pytest.raises(InvalidCursor):
        parse_number("jobs", text)


@given(times, st.uuids())
def test_a_cursor_of_another_list_is_refused(when: datetime, row_id: UUID) -> None:
    cursor = build_cursor("chats", when, row_id)
    with pytest.raises(InvalidCursor):
        build_page("jobs", cursor, 10)


@given(st.integers(0, 20), st.integers(1, 10))
def test_there_is_a_next_page_exactly_if_there_is_more(count: int, limit: int) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [{"id": UUID(int=n), "created_at": now} for n in range(count)][: limit + 1]
    page = build_listing("jobs", rows, limit, lambda row: row["id"], ("created_at", "id"))
    assert len(page.items) == min(count, limit)
    assert (page.next_cursor is not None) == (count > limit)
