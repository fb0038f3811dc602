"""Where a text changes its subject: TextTiling over vectors of its sentences. Pure, linear.

What stands before a gap between two sentences is compared with what stands after it. Where the two
are far less alike than around it, the subject changes. Knows no markdown and no database.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from dialectic.retrieval.static import load_static_model

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dialectic.retrieval.base import Matrix

# Sentences on each side that are compared; a cut where the gap is this much deeper than most.
WINDOW = 3
DEPTH_DEVIATIONS = 0.5
# Shorter sentences are taken together with the next one: they say too little.
SENTENCE_CHARS_MIN = 60
# So many sentences are compared at a time, so that no text needs memory beyond measure.
SENTENCES_MAX = 2_000

_SENTENCE_END = re.compile(
    r"[.!?…]['\"”’)\]*_]{0,3}(?=\s)\s*|[。！？]\s*|\n[ \t]{0,8}\n\s*"
    r"|\n(?=[ \t]{0,8}(?:[-+*>|#]|\d{1,9}[.)]))"
)


def find_sentences(text: str) -> list[int]:
    """Find where sentences begin, the first at 0; short ones are joined to the next."""
    starts = [0]
    for found in _SENTENCE_END.finditer(text):
        if starts[-1] + SENTENCE_CHARS_MIN <= found.end() < len(text):
            starts.append(found.end())
    return starts


def find_shifts(text: str) -> list[int]:
    """Find the places in a text at which a new subject begins, each the start of a sentence."""
    starts = find_sentences(text)
    shifts: list[int] = []
    for begin in range(0, len(starts), SENTENCES_MAX):
        some = starts[begin : begin + SENTENCES_MAX + 1]
        if begin + SENTENCES_MAX >= len(starts):
            some = [*some, len(text)]
        if len(some) - 1 < 2 * WINDOW:
            continue
        sentences = [text[low:high] for low, high in itertools.pairwise(some)]
        told = [sentence if sentence.strip() else "." for sentence in sentences]
        rows = load_static_model().embed(told).rows
        shifts += [some[gap] for gap in decide_shifts(rows)]
    return shifts


def decide_shifts(rows: Matrix) -> list[int]:
    """Decide before which sentences the subject changes, by their vectors."""
    import numpy as np

    likeness = _compare(rows)
    depths = _climb(likeness) + _climb(likeness[::-1])[::-1] - 2 * likeness
    limit = depths.mean() + DEPTH_DEVIATIONS * depths.std()
    padded = np.concatenate(([-np.inf], depths, [-np.inf]))
    is_peak = (depths > padded[:-2]) & (depths >= padded[2:])
    return [int(gap) + WINDOW for gap in np.flatnonzero(is_peak & (depths > limit))]


def _compare(rows: Matrix) -> NDArray[np.float64]:
    """Compare what stands on both sides of each gap that has enough on both."""
    import numpy as np

    sums = np.concatenate((np.zeros((1, rows.shape[1])), np.cumsum(rows, axis=0, dtype=np.float64)))
    windows = sums[WINDOW:] - sums[:-WINDOW]
    windows /= np.maximum(np.linalg.norm(windows, axis=1, keepdims=True), 1e-9)
    return np.asarray((windows[:-WINDOW] * windows[WINDOW:]).sum(axis=1))


def _climb(likeness: NDArray[np.float64]) -> NDArray[np.float64]:
    """Find, for each gap, the peak that is reached by climbing to the left."""
    peaks = likeness.copy()
    for gap in range(1, len(peaks)):
        if likeness[gap - 1] >= likeness[gap]:
            peaks[gap] = peaks[gap - 1]
    return peaks
