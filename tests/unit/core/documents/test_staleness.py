"""Stale documents are written again in an order in which each follows what it reads."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.documents.staleness import Kept, StaleDocument, count_by, plan_rewrites


def build(number: int, *sources: int, **more: bool) -> StaleDocument:
    return StaleDocument(UUID(int=number), tuple(UUID(int=one) for one in sources), **more)


@st.composite
def graphs(draw: st.DrawFn) -> list[StaleDocument]:
    """Documents that read only earlier ones, listed in any order."""
    size = draw(st.integers(0, 12))
    stale = [
        build(
            number,
            # Some read documents that are not stale.
            *draw(st.sets(st.integers(100, 103) if number == 0 else st.integers(0, number - 1))),
            is_by_user=draw(st.integers(0, 5)) == 0,
            has_job=draw(st.integers(0, 5)) > 0,
            is_means=draw(st.integers(0, 3)) == 0,
        )
        for number in range(size)
    ]
    return draw(st.permutations(stale))


@given(graphs())
def test_each_document_follows_what_it_reads(stale: list[StaleDocument]) -> None:
    rewrites = plan_rewrites(stale)
    place = {one.first_id: n for n, one in enumerate(rewrites)}
    assert len(place) == len(rewrites)
    assert place.keys() == {o.first_id for o in stale if o.kept is None and not o.is_means}
    by_id = {one.first_id: one for one in stale}
    for one in rewrites:
        direct = [source for source in by_id[one.first_id].sources if source in place]
        assert set(direct) <= set(one.after)
        assert all(place[needed] < place[one.first_id] for needed in one.after)


def test_a_document_waits_for_what_it_reads_through_a_means() -> None:
    stale = [build(1), build(2, 1, is_means=True), build(3, 2)]
    assert plan_rewrites(stale)[-1].after == (UUID(int=1),)


def test_a_persons_version_is_kept_and_nothing_waits_for_it() -> None:
    stale = [build(1), build(2, 1, is_by_user=True), build(3, 2), build(4, 1, has_job=False)]
    assert [one.kept for one in stale] == [None, Kept.EDITED, None, Kept.IMPORTED]
    assert {one.first_id.int: one.after for one in plan_rewrites(stale)} == {1: (), 3: ()}


def test_kinds_are_counted_in_order() -> None:
    assert count_by(["b", "a", "b"]) == "2 b, 1 a"
