"""The structure of a text: its sections, and where its topic changes. Pure, linear.

Headings follow CommonMark (`# …`, or a line underlined by `===` or `---`), outside code fences and
front matter. Topics are found by TextTiling over sentence vectors: the topic changes where the
text before and after a gap between two sentences is far less similar than around it. Knows no
database.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dialectic.retrieval.built_in import load_static_model

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dialectic.retrieval.embedders import Matrix

# Longer headings are shortened: every piece below repeats them.
HEADING_CHARS_MAX = 120

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]|$)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
_NO_PARAGRAPH = re.compile(r" {4}|\t|[ ]{0,3}(?:[>#|]|[-+*][ \t]|\d{1,9}[.)][ \t])")


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and the text up to the next one; or the text before the first."""

    start: int
    end: int
    heading_path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outline:
    """A text's sections, which cover it completely, and its code fences."""

    sections: tuple[Section, ...]
    fences: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Heading:
    start: int
    level: int
    words: str


def build_outline(text: str) -> Outline:
    """Find all sections and fences of a text."""
    fences: list[tuple[int, int]] = []
    headings = list(_find_headings(text, fences))
    sections = []
    open_path: list[tuple[int, str]] = []
    starts = [heading.start for heading in headings] + [len(text)]
    if starts[0] > 0:
        sections.append(Section(0, starts[0], ()))
    for heading, end in zip(headings, starts[1:], strict=True):
        while open_path and open_path[-1][0] >= heading.level:
            open_path.pop()
        open_path.append((heading.level, heading.words))
        path = tuple(words for _, words in open_path if words)
        sections.append(Section(heading.start, end, path))
    return Outline(tuple(sections), tuple(fences))


def _find_headings(text: str, fences: list[tuple[int, int]]) -> Iterator[_Heading]:
    """Yield the headings in order; record fences on the way."""
    fence, fence_start = "", 0
    # The previous line, if the next line can underline it as a heading.
    before: tuple[int, str] | None = None
    follows_blank = True
    for start, line in _find_lines(text, _skip_front_matter(text)):
        bare = line.strip()
        if fence:
            if _closes(fence, bare):
                fences.append((fence_start, start + len(line)))
                fence = ""
            continue
        if (found := _FENCE.match(line)) and not (
            found[1][0] == "`" and "`" in line[found.end() :]
        ):
            fence, fence_start, before, follows_blank = found[1], start, None, False
            continue
        if found := _HEADING.match(line):
            yield _Heading(start, len(found[1]), _clean(bare.strip("#")))
            before, follows_blank = None, True
            continue
        if before is not None and (found := _UNDERLINE.match(line)):
            yield _Heading(before[0], 1 if found[1][0] == "=" else 2, _clean(before[1]))
            before, follows_blank = None, True
            continue
        can_be = bool(bare) and follows_blank and not _NO_PARAGRAPH.match(line)
        before, follows_blank = ((start, bare) if can_be else None), not bare
    if fence:
        fences.append((fence_start, len(text)))


def _find_lines(text: str, start: int) -> Iterator[tuple[int, str]]:
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield start, text[start:end]
        start = end + 1


def _skip_front_matter(text: str) -> int:
    if not text.startswith("---\n"):
        return 0
    end = text.find("\n---\n", 3)
    return 0 if end < 0 else end + 5


def _closes(fence: str, bare: str) -> bool:
    return len(bare) >= len(fence) and not bare.strip(fence[0])


def _clean(words: str) -> str:
    words = " ".join(words[: 4 * HEADING_CHARS_MAX].split())
    return words if len(words) <= HEADING_CHARS_MAX else words[: HEADING_CHARS_MAX - 1] + "…"


# Sentences compared on each side; cut where the gap is this much deeper than most.
WINDOW = 3
DEPTH_DEVIATIONS = 0.5
# Shorter sentences are joined to the next one: they say too little.
SENTENCE_CHARS_MIN = 60
# The maximum number of sentences compared at a time, which bounds the memory.
SENTENCES_MAX = 2_000

_SENTENCE_END = re.compile(
    r"[.!?…]['\"”’)\]*_]{0,3}(?=\s)\s*|[。！？]\s*|\n[ \t]{0,8}\n\s*"
    r"|\n(?=[ \t]{0,8}(?:[-+*>|#]|\d{1,9}[.)]))"
)


def split_sentences(text: str) -> list[int]:
    """Find where sentences begin, the first at 0; short ones are joined to the next."""
    starts = [0]
    for found in _SENTENCE_END.finditer(text):
        if starts[-1] + SENTENCE_CHARS_MIN <= found.end() < len(text):
            starts.append(found.end())
    return starts


def find_shifts(text: str) -> list[int]:
    """Find where new topics begin in a text, each at the start of a sentence."""
    starts = split_sentences(text)
    shifts: list[int] = []
    for begin in range(0, len(starts), SENTENCES_MAX):
        some = starts[begin : begin + SENTENCES_MAX + 1]
        if begin + SENTENCES_MAX >= len(starts):
            some = [*some, len(text)]
        if len(some) - 1 < 2 * WINDOW:
            continue
        sentences = [text[low:high] for low, high in itertools.pairwise(some)]
        texts = [sentence if sentence.strip() else "." for sentence in sentences]
        rows = load_static_model().embed(texts).rows
        shifts += [some[gap] for gap in decide_shifts(rows)]
    return shifts


def decide_shifts(rows: Matrix) -> list[int]:
    """Decide from the vectors before which sentences the topic changes."""
    import numpy as np

    likeness = _compare(rows)
    depths = _climb(likeness) + _climb(likeness[::-1])[::-1] - 2 * likeness
    limit = depths.mean() + DEPTH_DEVIATIONS * depths.std()
    padded = np.concatenate(([-np.inf], depths, [-np.inf]))
    is_peak = (depths > padded[:-2]) & (depths >= padded[2:])
    return [int(gap) + WINDOW for gap in np.flatnonzero(is_peak & (depths > limit))]


def _compare(rows: Matrix) -> NDArray[np.float64]:
    """Compare the sentences on both sides of each gap that has enough of them."""
    import numpy as np

    sums = np.concatenate((np.zeros((1, rows.shape[1])), np.cumsum(rows, axis=0, dtype=np.float64)))
    windows = sums[WINDOW:] - sums[:-WINDOW]
    windows /= np.maximum(np.linalg.norm(windows, axis=1, keepdims=True), 1e-9)
    return np.asarray((windows[:-WINDOW] * windows[WINDOW:]).sum(axis=1))


def _climb(likeness: NDArray[np.float64]) -> NDArray[np.float64]:
    """Find, for each gap, the peak reached by climbing to the left."""
    peaks = likeness.copy()
    for gap in range(1, len(peaks)):
        if likeness[gap - 1] >= likeness[gap]:
            peaks[gap] = peaks[gap - 1]
    return peaks
