"""Questions from several angles, one superset, pieces that differ."""

from __future__ import annotations

from uuid import UUID, uuid5

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dialectic.db.tables.memory import Match
from dialectic.retrieval.built_in import StaticEmbedder
from dialectic.retrieval.search import (
    ALL_ANGLES,
    Angle,
    build_queries,
    choose,
    choose_diverse,
    order_for_reading,
    share_places,
    turn_rows,
)

EMBEDDER = StaticEmbedder()
SPACE = UUID(int=1)


def match(number: int, score: float, vector: tuple[float, ...]) -> Match:
    return Match(
        id=number,
        source_id=uuid5(SPACE, str(number % 2)),
        position=number,
        start=0,
        end=1,
        heading_path=(),
        text="a",
        tokens=1,
        vector=vector,
        score=score,
        likeness=None,
        word_score=0.0,
    )


def test_a_need_is_asked_from_each_angle() -> None:
    queries = build_queries("  booking\n the hall ", EMBEDDER)
    assert [query.angle for query in queries] == list(ALL_ANGLES)
    assert queries[0].text == queries[0].words == "booking the hall"
    assert len({query.text for query in queries}) == len({query.words for query in queries}) == 3
    assert all("booking" in query.words for query in queries)


def test_an_angle_asks_with_its_cues_and_the_longest_words_of_the_need() -> None:
    need = "A booking service for the village hall, which volunteers from neighbourhoods can run."
    _, novel, conflicting = build_queries(need, EMBEDDER)
    assert novel.words == f"{Angle.NOVEL.cues} booking volunteers neighbourhoods"
    assert conflicting.words == f"{Angle.CONFLICTING.cues} booking volunteers neighbourhoods"


def test_the_vector_of_an_angle_lies_between_its_cues_and_the_need() -> None:
    queries = build_queries("booking the hall", EMBEDDER)
    rows = np.asarray([[1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=np.float32)
    turned = turn_rows(queries, rows)
    assert np.allclose(turned[0], rows[0])
    assert np.allclose(np.linalg.norm(turned, axis=1), 1.0)
    for row, cues in zip(turned[1:], rows[1:], strict=True):
        assert row @ rows[0] > row @ cues > 0.5


def test_what_only_an_angle_has_found_gets_every_fifth_place_after_the_first_ten() -> None:
    shared = share_places(range(40), [[0, 100, 101], [102]], 25)
    assert shared[:14] == list(range(14))
    assert [shared[14], shared[19], shared[24]] == [100, 102, 101]
    assert len(shared) == len(set(shared)) == 25
    assert share_places(range(40), [], 25) == list(range(25))
    assert share_places(range(3), [[7], [8]], 25) == [0, 1, 2]


def test_a_long_need_keeps_its_start_and_its_end() -> None:
    (query,) = build_queries(f"Alpha {'middle ' * 3000} omega", EMBEDDER, (Angle.BROAD,))
    assert query.text.startswith("Alpha middle")
    assert query.text.endswith("middle omega")
    assert EMBEDDER.count(query.text) > EMBEDDER.piece_tokens_max // 2


@given(st.text(max_size=3000).map(lambda text: text * 5))
def test_no_question_is_longer_than_the_embedder_reads(need: str) -> None:
    for query in build_queries(need, EMBEDDER):
        assert EMBEDDER.count(query.text) <= EMBEDDER.piece_tokens_max


def test_of_two_pieces_that_say_the_same_the_second_gives_way() -> None:
    relevance = np.asarray([1.0, 0.99, 0.95])
    rows = np.asarray([[1, 0], [1, 0], [0, 1]], dtype=np.float32)
    assert choose_diverse(relevance, rows, 2) == [0, 2]
    assert choose_diverse(relevance, rows, 9) == [0, 2, 1]
    assert choose_diverse(relevance, rows, 2, trade=1.0) == [0, 1]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.integers(1, 40), st.integers(0, 99))
def test_each_place_is_chosen_at_most_once_and_the_best_first(
    relevance: list[float], limit: int, seed: int
) -> None:
    rows = np.random.default_rng(seed).normal(size=(len(relevance), 4)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    chosen = choose_diverse(np.asarray(relevance), rows, limit)
    assert len(chosen) == len(set(chosen)) == min(limit, len(relevance))
    assert relevance[chosen[0]] == max(relevance)


def test_the_need_alone_ranks_and_what_only_an_angle_brings_comes_after_it() -> None:
    broad = [match(1, 0.5, (1.0, 0.0)), match(2, 0.4, (0.0, 1.0))]
    novel = [match(3, 0.9, (0.6, 0.8)), match(2, 0.9, (0.0, 1.0))]
    found = choose([broad, novel], 3)
    assert [piece.position for piece in found] == [1, 2, 3]
    assert [piece.score for piece in found] == [1.0, 0.8, 0.0]
    assert [piece.position for piece in choose([[], novel], 3)] == [2, 3]
    assert choose([[], []], 3) == []


def test_pieces_are_put_into_the_order_of_their_sources() -> None:
    found = choose([[match(n, 1.0 / n, (1.0, 0.0)) for n in (1, 2, 3, 4)]], 4)
    first, second = uuid5(SPACE, "1"), uuid5(SPACE, "0")
    ordered = order_for_reading(found, [first, second])
    assert [piece.position for piece in ordered] == [1, 3, 2, 4]
