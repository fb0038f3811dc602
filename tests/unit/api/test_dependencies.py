"""An answer holds, whatever becomes of what is left to do behind it."""

from __future__ import annotations

from dialectic.api.dependencies import build_etag, build_response, matches
from dialectic.db.tables.idempotency import StoredResponse
from dialectic.errors import DatabaseUnreachable


async def test_what_fails_behind_an_answer_fails_quietly() -> None:
    tried = []

    async def fail() -> None:
        tried.append("once")
        raise DatabaseUnreachable

    response = build_response(StoredResponse(201, b"{}"), fail)
    assert response.background is not None
    await response.background()
    assert tried == ["once"]


def test_a_state_is_matched_by_its_name_alone() -> None:
    etag = build_etag(b"one")
    assert matches(etag, etag)
    assert matches(f'"x", W/{etag}', etag)
    assert matches("*", etag)
    assert not matches(build_etag(b"two"), etag)
    assert not matches(None, etag)
