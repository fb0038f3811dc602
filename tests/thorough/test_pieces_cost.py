"""Cutting hostile text into pieces takes time in proportion to its length."""

from __future__ import annotations

from collections.abc import Callable

from dialectic.retrieval import pieces as chunk
from dialectic.retrieval.pieces import cut, cut_evenly
from tests.cases import each_case
from tests.unit.retrieval.test_pieces import EMBEDDER, WordReader, require_lossless


@each_case(
    "build",
    [
        lambda n: "a" * n,
        lambda n: "\n" * n,
        lambda n: " " * n,
        lambda n: "👩\u200d" * (n // 2),
        lambda n: ">" * n,
        lambda n: "# a\n" * (n // 4),
        lambda n: "- x\n" * (n // 4),
        lambda n: "```\n" * (n // 4),
        lambda n: "a. " * (n // 3),
        lambda n: "".join("  " * (i % 40) + "- x\n" for i in range(n // 43)),
    ],
    ids="letter newline blank joined quote heading item fence sentence nested".split(),
)
def test_hostile_text_is_read_in_proportion_to_its_length(build: Callable[[int], str]) -> None:
    read = []
    for length in (chunk.SLICE_CHARS * 2, chunk.SLICE_CHARS * 8):
        reader = WordReader()
        text = build(length)
        require_lossless(text, cut(text, reader))
        require_lossless(text, cut_evenly(text, reader))
        read.append(reader.chars_read)
    # Four times the text, and a little more for what is not a whole slice.
    assert read[1] <= 4.5 * read[0]


def test_a_word_without_end_is_cut() -> None:
    text = "a" * 200_000
    require_lossless(text, cut(text, EMBEDDER))
