"""How much two points say the same: shared words by their worth, and the nearness of vectors. Pure.

The worth of a word and the mean vector are those of a document and everything it descends from, so
the score of what is written never changes when more is written. Words and vectors are whole numbers
inside, so every sum is exact: scores do not depend on the order of documents or on the machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dialectic.provenance.points import Point
from dialectic.provenance.words import is_dense, read_words
from dialectic.retrieval.built_in import load_static_model
from dialectic.retrieval.weigh import rate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Whole = NDArray[np.float32]
    Places = NDArray[np.intp]

# Whole numbers up to 2**24 are exact in single precision: of sums of worth, and of products of
# vectors of this length.
WORTH_UNITS = 1024
VECTOR_UNITS = 4000
# The mean of few points says little: as many points as these at zero are added to it.
MEAN_PRIOR = 16
# Words alone score lower than words and vectors together, by the ratio of what is best for each.
DENSE_FACTOR = 1.4


@dataclass(frozen=True, slots=True)
class Weights:
    """How a score is composed; `words_share` 1 is words alone, 0 is vectors alone."""

    words_share: float = 0.5
    # How much it counts that one point holds all of the other.
    containment: float = 0.85
    # And the worth that they must share for that: one common word is not yet a statement.
    contained_worth: float = 2.0


def limit_threads() -> AbstractContextManager[object]:
    """Multiply in one thread: the matrices are small, and threads would wait for each other."""
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[object] = threadpool_limits(1, user_api="blas")
    return limits


class Vocabulary:
    """The stems of a set of texts, as numbers, and their worth by rank."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._known: dict[str, tuple[int, ...]] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def read(self, normal: str) -> tuple[int, ...]:
        """Read the stems of a point, each once, in ascending order."""
        found = self._known.get(normal)
        if found is None:
            numbers = self._numbers
            stems = {numbers.setdefault(each, len(numbers)) for each in read_words(normal)}
            found = self._known[normal] = tuple(sorted(stems))
        return found

    @cached_property
    def rates(self) -> Floats:
        """Rate every stem; asked for when all texts are read."""
        return np.array([rate(each) for each in self._numbers], dtype=np.float64)


@dataclass
class Sheet:
    """The points of one text as numbers."""

    points: Sequence[Point]
    words: list[tuple[int, ...]]
    vectors: Whole
    # The stems of all points one after another, and the point of each.
    flat: Places = field(init=False)
    rows: Places = field(init=False)
    columns: Places = field(init=False)

    def __post_init__(self) -> None:
        lengths = [len(each) for each in self.words]
        self.flat = np.fromiter(
            (word for each in self.words for word in each), np.intp, count=sum(lengths)
        )
        self.rows = np.repeat(np.arange(len(self.words)), lengths)
        self.columns = np.unique(self.flat)

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def dense(self) -> NDArray[np.bool_]:
        """Which points are in a script without blanks, whose words the vectors do not know."""
        return np.array([is_dense(point.normal) for point in self.points], dtype=bool)

    @cached_property
    def incidence(self) -> Whole:
        """Which point has which of the sheet's own stems."""
        return self.spread(self.columns)

    def spread(self, columns: Places) -> Whole:
        """Say which point has which of the given stems."""
        matrix = np.zeros((len(self), len(columns)), dtype=np.float32)
        if len(columns):
            places = np.minimum(np.searchsorted(columns, self.flat), len(columns) - 1)
            has = columns[places] == self.flat
            matrix[self.rows[has], places[has]] = 1
        return matrix


def build_sheets(texts: Sequence[Sequence[Point]]) -> tuple[list[Sheet], Vocabulary]:
    """Read the points of all texts; equal points are embedded once."""
    normals = list(dict.fromkeys(point.normal for each in texts for point in each))
    vocabulary = Vocabulary()
    place = {normal: number for number, normal in enumerate(normals)}
    if normals:
        rows = load_static_model().embed(normals).rows
        vectors = np.rint(rows.astype(np.float64) * VECTOR_UNITS).astype(np.float32)
    else:
        vectors = np.zeros((0, 1), dtype=np.float32)
    sheets = [
        Sheet(
            points,
            [vocabulary.read(point.normal) for point in points],
            vectors[np.array([place[point.normal] for point in points], dtype=np.intp)],
        )
        for points in texts
    ]
    return sheets, vocabulary


@dataclass(frozen=True)
class Scale:
    """The worth of words and the mean of vectors in a document and all that it descends from."""

    count: int
    worth: Whole
    total: Floats
    # The square of the total's length; summed as whole numbers, which have no limit.
    square: int

    @classmethod
    def build(cls, count: int, holders: NDArray[np.int64], total: Floats, rates: Floats) -> Scale:
        """Build it from the number of points, the points that hold each stem, and all vectors."""
        rarity = np.log(1 + count / (1 + holders)) / np.log(1 + max(count, 1))
        worth = np.rint((rates + rarity) / 2 * WORTH_UNITS).astype(np.float32)
        square = sum(int(each) ** 2 for each in total)
        return cls(max(count, 1), np.maximum(worth, 1), total, square)


class Scorer:
    """Scores the points of one document against those of others."""

    def __init__(self, sheet: Sheet, scale: Scale, weights: Weights) -> None:
        self._sheet, self._scale, self._weights = sheet, scale, weights
        self._worth = scale.worth[sheet.columns]
        self._weighed = sheet.incidence * self._worth
        self.worth: Floats = self._weighed.sum(axis=1, dtype=np.float64)
        self._near = _Centred(sheet.vectors, scale)

    def score(self, other: Sheet) -> Floats:
        """Score all pairs: a row for each point of the document."""
        if not len(self._sheet) or not len(other):
            return np.zeros((len(self._sheet), len(other)))
        shared = (self._weighed @ other.spread(self._sheet.columns).T).astype(np.float64)
        theirs = np.bincount(
            other.rows, weights=self._scale.worth[other.flat], minlength=len(other)
        )
        left = shared / np.maximum(self.worth, 1)[:, None]
        right = shared / np.maximum(theirs, 1)[None, :]
        both = 2 * left * right / np.maximum(left + right, 1e-9)
        enough = np.minimum(shared / (self._weights.contained_worth * WORTH_UNITS), 1)
        within = self._weights.containment * enough * np.maximum(left, right)
        words = np.maximum(both, within)
        near = self._near.compare(_Centred(other.vectors, self._scale))
        share = self._weights.words_share
        dense = self._sheet.dense[:, None] | other.dense[None, :]
        alone = np.minimum(DENSE_FACTOR * words, 1)
        return np.where(dense, alone, share * words + (1 - share) * near)

    def sum_worth(self, words: Iterable[int]) -> float:
        """Sum the worth of words."""
        return float(sum(self._scale.worth[word] for word in words))

    def share_words(self, place: int, others: Sequence[tuple[int, ...]]) -> Floats:
        """Say how much of a point's worth each other point gives: one row per stem of the point."""
        mine = self._sheet.words[place]
        return np.array(
            [[self._scale.worth[word] * (word in each) for each in others] for word in mine]
        )


class _Centred:
    """Vectors seen from the mean of all points."""

    def __init__(self, vectors: Whole, scale: Scale) -> None:
        self._vectors = vectors
        count, total = scale.count + MEAN_PRIOR, scale.total
        wide = vectors.astype(np.float64)
        self._pull = (wide * total).sum(axis=1) / count
        self._rest = scale.square / count**2
        length = (wide * wide).sum(axis=1) - 2 * self._pull + self._rest
        self._length = np.sqrt(np.maximum(length, 1))

    def compare(self, other: _Centred) -> Floats:
        """Compute the cosine of all pairs, not below 0."""
        product = (self._vectors @ other._vectors.T).astype(np.float64)
        product = product - self._pull[:, None] - other._pull[None, :] + self._rest
        cosine: Floats = product / (self._length[:, None] * other._length[None, :])
        return np.maximum(cosine, 0)
