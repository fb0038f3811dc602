"""Cutting loses nothing, keeps to the limit, keeps the headings, and takes time in proportion."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.models.model import ModelCard
from dialectic.retrieval.built_in import StaticEmbedder
from dialectic.retrieval.embedders import Embedded, Embedder
from dialectic.retrieval.pieces import Piece, build_reading, cut, cut_evenly
from dialectic.retrieval.structure import build_outline, find_shifts
from tests.properties import examples

EMBEDDER = StaticEmbedder()


class WordReader:
    """Reads few words at a time, and counts how many characters were put to it."""

    name = "test/words"
    dimensions = 2
    piece_tokens_max = 24
    card: ModelCard | None = None

    def __init__(self) -> None:
        self.chars_read = 0

    def count(self, text: str) -> int:
        self.chars_read += len(text)
        return len(text.split()) + text.count("\n") + len(text) // 12

    async def embed(self, texts: Sequence[str]) -> Embedded:
        raise AssertionError("cutting asks for nothing but counts")


def require_lossless(text: str, pieces: tuple[Piece, ...]) -> None:
    end = 0
    for position, piece in enumerate(pieces):
        assert piece.position == position
        assert text[piece.start : piece.end] == piece.text
        assert piece.text.strip()
        assert not text[end : piece.start].strip()
        end = piece.end
    assert not text[end:].strip()


LINES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "",
                "# One",
                "## Two ##",
                "### " + "long " * 80,
                "```",
                "~~~ text",
                "- item",
                "    code",
            ]
        ),
        st.sampled_from(
            ["Title\n=====", "| a | b |\n|---|---|", "> said", "a" * 400, "👩‍👩‍👧" * 60]
        ),
        st.text(max_size=200),
        st.lists(st.sampled_from("ships fly over the cold sea. Why? No.".split()), max_size=60).map(
            " ".join
        ),
    ),
    max_size=30,
)


@given(LINES)
@examples(150)
def test_pieces_cover_any_text_and_every_reading_fits(lines: list[str]) -> None:
    text = "\n".join(lines)
    embedders: tuple[Embedder, ...] = (EMBEDDER, WordReader())
    for embedder in embedders:
        pieces = cut(text, embedder)
        require_lossless(text, pieces)
        for piece in pieces:
            assert piece.tokens == embedder.count(piece.text)
            assert embedder.count(build_reading(piece, embedder)) <= embedder.piece_tokens_max
        even = cut_evenly(text, embedder)
        require_lossless(text, even)
        for piece in even:
            room = embedder.piece_tokens_max
            assert len(piece.text) <= 4 * room
            assert piece.text.isascii() or embedder.count(piece.text) <= room


def test_pieces_of_one_length_stand_under_their_headings_and_end_with_lines() -> None:
    lines = "The hall is booked by the hour, and the key hangs at the bakery.\n" * 40
    pieces = cut_evenly(f"# Hall\n\n{lines}\n## Keys\n\n{lines}", EMBEDDER)
    assert {piece.heading_path for piece in pieces} == {("Hall",), ("Hall", "Keys")}
    assert all(piece.text.endswith("bakery.") for piece in pieces)
    assert len(pieces) < 14


@given(LINES)
@examples(50)
def test_sections_cover_any_text_without_a_gap(lines: list[str]) -> None:
    text = "\n".join(lines)
    sections = build_outline(text).sections
    assert "".join(text[section.start : section.end] for section in sections) == text


def test_a_piece_stands_under_the_headings_above_it() -> None:
    body = "The hall is booked by the hour. " * 20
    text = f"Before.\n\n# Hall\n\n{body}\n\n## Keys\n\n{body}\n\nCosts\n-----\n\n{body}\n"
    paths = {piece.heading_path for piece in cut(text, EMBEDDER)}
    assert paths == {(), ("Hall",), ("Hall", "Keys"), ("Hall", "Costs")}


def test_what_looks_like_a_heading_in_code_or_front_matter_is_none() -> None:
    text = (
        "---\ntitle: x\n---\n# Real\n\n```sh\n# comment\n```\n\n~~~\n# other\n```\n# still\n~~~\n"
    )
    assert [section.heading_path for section in build_outline(text).sections] == [(), ("Real",)]


def test_small_sections_join_their_neighbours_but_never_a_higher_one() -> None:
    text = "# A\n\n## One\n\nshort\n\n## Two\n\nshort\n\n# B\n\nshort\n"
    pieces = cut(text, EMBEDDER)
    assert [piece.heading_path for piece in pieces] == [("A",), ("B",)]
    assert "## One" in pieces[0].text
    assert "## Two" in pieces[0].text


def test_the_reading_names_the_headings_once() -> None:
    body = "The hall is booked by the hour. " * 60
    pieces = [p for p in cut(f"# Hall\n\n## Keys\n\n{body}", EMBEDDER) if len(p.heading_path) == 2]
    assert len(pieces) > 1
    assert build_reading(pieces[0], EMBEDDER).startswith("Hall\n## Keys\n")
    assert build_reading(pieces[1], EMBEDDER).startswith("Hall > Keys\n")


def test_a_long_section_is_cut_where_its_subject_changes() -> None:
    sea = "The trawler left the harbour at dawn and cast its nets over the cold sea for cod. "
    law = "The court held that the contract was void because the tenant had signed under duress. "
    bread = "Knead the dough with flour and yeast, then bake the loaf in a hot oven until brown. "
    text = sea * 12 + law * 12 + bread * 12
    assert find_shifts(text) == [len(sea) * 12, len(sea) * 12 + len(law) * 12]
    ends = {piece.end for piece in cut(text, EMBEDDER)}
    assert len((sea * 12).rstrip()) in ends
    assert len((sea * 12 + law * 12).rstrip()) in ends


def test_cutting_again_gives_the_same() -> None:
    text = "# A\n\n" + "Words about ships. And of law. " * 200
    assert cut(text, EMBEDDER) == cut(text, EMBEDDER)
