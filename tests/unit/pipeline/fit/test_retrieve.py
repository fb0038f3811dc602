"""Passages of all documents together: as many as fit, in the order in which they are read."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from dialectic.db.tables.memory import Match
from dialectic.pipeline.fit.retrieve import Searched, choose_passages, render_passages
from dialectic.pipeline.gather import Item

WORDS = [f"sentence number {number} says so." for number in range(12)]
TEXT = " ".join(WORDS)
SEARCHED = [
    Searched(UUID(int=n), Item(f"Thesis {letter}", TEXT, UUID(int=100 + n)))
    for n, letter in enumerate("ABC", start=1)
]


def build_found(source: int, position: int, *path: str) -> Match:
    start = TEXT.index(WORDS[position])
    return build_match(source, position, start, WORDS[position], path)


def build_match(source: int, position: int, start: int, text: str, path: tuple[str, ...]) -> Match:
    return Match(
        id=position,
        source_id=UUID(int=source),
        position=position,
        start=start,
        end=start + len(text),
        heading_path=path,
        text=text,
        tokens=5,
        vector=(),
        score=1.0,
        likeness=None,
        word_score=0.0,
    )


def measure(items: Sequence[Item]) -> list[int]:
    return [len(item.label) + len(item.text) for item in items]


FOUND = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, len(WORDS) - 1)), unique=True, max_size=30
)


@given(FOUND, st.integers(0, 1_500))
def test_what_is_chosen_fits_and_is_the_best_that_was_found(
    places: list[tuple[int, int]], room: int
) -> None:
    found = [build_found(*place) for place in places]
    items = choose_passages(found, SEARCHED, room, measure)
    assert sum(measure(items)) <= room
    assert items == choose_passages(found, SEARCHED, room, measure)
    told = {
        (item.source_id, sentence) for item in items for sentence in WORDS if sentence in item.text
    }
    best = [(UUID(int=100 + source), WORDS[position]) for source, position in places[: len(told)]]
    assert told == set(best)


@given(FOUND)
def test_passages_are_in_the_order_of_the_documents_each_under_its_label(
    places: list[tuple[int, int]],
) -> None:
    items = choose_passages([build_found(*p) for p in places], SEARCHED, 10_000, measure)
    assert [item.label.removesuffix(", passages") for item in items] == [
        f"Thesis {letter}" for n, letter in enumerate("ABC", 1) if n in dict(places)
    ]
    for item in items:
        kept = [sentence for sentence in WORDS if sentence in item.text]
        assert kept == sorted(kept, key=item.text.index)


def test_neighbours_stand_together_gaps_are_marked_and_headings_named() -> None:
    pieces = [
        build_found(1, 0, "Costs"),
        build_found(1, 1, "Costs"),
        build_found(1, 5, "Costs", "Roof"),
    ]
    assert render_passages(TEXT, pieces) == (
        f"(Costs)\n\n{WORDS[0]} {WORDS[1]}\n\n[…]\n\n(Costs > Roof)\n\n{WORDS[5]}\n\n[…]"
    )
    text = "# House\n\n## Roof\n\nIt leaks."
    for start, path in ((0, ("House", "Roof")), (9, ("House", "Roof"))):
        piece = build_match(1, 0, start, text[start:], path)
        assert render_passages(text, [piece]) == text[start:], "what stands there is not said twice"


def test_a_document_of_which_all_is_told_is_told_as_it_is() -> None:
    found = [build_found(1, position) for position in range(len(WORDS))]
    assert choose_passages(found, SEARCHED, 10_000, measure) == [SEARCHED[0].item]
