"""Many pieces of text with vectors, the same each time: words and vectors follow topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = NDArray[np.float32]

DIMENSIONS = 256
TOPICS = 500
VOCABULARY = 20_000
WORDS_PER_PIECE, WORDS_PER_QUERY = 80, 8
# How much of a piece is about its topic.
TOPIC_SHARE = 0.4
SEED = 7


@dataclass(frozen=True)
class Pieces:
    """Texts and unit vectors, and questions in the same form."""

    texts: list[str]
    rows: Rows
    questions: list[str]
    question_rows: Rows


def build_pieces(count: int, questions: int) -> Pieces:
    """Build pieces and questions; topics are as unequal in size as words are in frequency."""
    import numpy as np

    rng = np.random.default_rng(SEED)
    words = np.asarray([f"word{number}" for number in range(VOCABULARY)])
    shares = 1 / np.arange(1, VOCABULARY + 1)
    shares /= shares.sum()
    of_topics = rng.integers(200, VOCABULARY, size=(TOPICS, 40))
    centres = rng.normal(size=(TOPICS, DIMENSIONS)).astype(np.float32)

    def make(number: int, length: int) -> tuple[list[str], Rows]:
        topics = rng.integers(0, TOPICS, size=number)
        usual = rng.choice(VOCABULARY, size=(number, length), p=shares)
        topical = np.take_along_axis(
            of_topics[topics], rng.integers(0, 40, size=(number, length)), axis=1
        )
        chosen = np.where(rng.random((number, length)) < TOPIC_SHARE, topical, usual)
        rows = centres[topics] + rng.normal(size=(number, DIMENSIONS)).astype(np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return [" ".join(line) for line in words[chosen]], rows.astype(np.float32)

    texts, rows = make(count, WORDS_PER_PIECE)
    asked, asked_rows = make(questions, WORDS_PER_QUERY)
    return Pieces(texts, rows, asked, asked_rows)


def find_nearest(pieces: Pieces, count: int) -> list[set[int]]:
    """Find the nearest pieces of each question, by comparing all."""
    import numpy as np

    likeness = pieces.question_rows @ pieces.rows.T
    nearest = np.argpartition(-likeness, count, axis=1)[:, :count]
    return [set(row.tolist()) for row in nearest]


def find_recall(found: list[set[int]], wanted: list[set[int]]) -> float:
    """Find the share of what was wanted that was found."""
    pairs = zip(found, wanted, strict=True)
    return sum(len(got & want) for got, want in pairs) / sum(map(len, wanted))
