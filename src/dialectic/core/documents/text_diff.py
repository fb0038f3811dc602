"""What changed between two texts, section by section and word by word. Pure, and bounded in time.

Sections are matched by their headings. In a section, lines that both texts have once and in the
same order are anchors; between them words are compared (Myers). A text differs from another in its
words: white space alone is not a change, and unchanged text has the white space of the newer text.

The comparison of words may take a number of steps; what would take more is shown as removed and
added whole (`is_coarse`). So a comparison is linear in the texts, and the same texts always give
the same result.
"""

from __future__ import annotations

import enum
import functools
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dialectic.core.documents.headings import find_firm_headings, fold_title

# About a second in all, and a tenth of it for one passage.
STEPS_MAX = 2_000_000
PASSAGE_STEPS_MAX = 200_000
# A text with more headings is compared as one section.
SECTIONS_MAX = 5_000

_TOKEN = re.compile(r"\s+|(?:\w+|[^\w\s])\s*")
_WORD = re.compile(r"\w+")


class Op(enum.StrEnum):
    """What happened to a passage."""

    SAME = "same"
    ADD = "add"
    REMOVE = "remove"


class SectionState(enum.StrEnum):
    """What happened to a section."""

    SAME = "same"
    CHANGED = "changed"
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Span:
    """A passage of one kind."""

    op: Op
    text: str


@dataclass(frozen=True, slots=True)
class SectionDiff:
    """A section of one text or of both; the text before the first heading has no heading."""

    heading: str | None
    level: int
    state: SectionState
    spans: tuple[Span, ...]
    is_coarse: bool = False


@dataclass(frozen=True, slots=True)
class TextDiff:
    """What changed from one text to another."""

    sections: tuple[SectionDiff, ...]
    words_added: int
    words_removed: int


@dataclass(frozen=True, slots=True)
class _Section:
    heading: str | None
    level: int
    text: str

    @property
    def key(self) -> str:
        return "" if self.heading is None else _fold(self.heading)


@functools.lru_cache(4096)
def _fold(title: str) -> str:
    return f"#{fold_title(title)}"


@dataclass(slots=True)
class _Budget:
    steps: int = STEPS_MAX
    # Whether the passage under way was too costly.
    was_coarse: bool = False


def compare_texts(old: str, new: str) -> TextDiff:
    """Compare two texts."""
    budget = _Budget()
    before, after = list(_split_sections(old)), list(_split_sections(new))
    sections = tuple(
        _compare_sections(one, other, budget) for one, other in _pair(before, after, budget)
    )
    changes = Counter[Op]()
    for span in (span for section in sections for span in section.spans):
        changes[span.op] += 0 if span.op is Op.SAME else len(_WORD.findall(span.text))
    return TextDiff(sections, changes[Op.ADD], changes[Op.REMOVE])


def _split_sections(text: str) -> Iterator[_Section]:
    headings = list(find_firm_headings(text))
    if len(headings) > SECTIONS_MAX:
        headings = []
    ends = [*(heading.start for heading in headings), len(text)]
    if text[: ends[0]].strip():
        yield _Section(None, 0, text[: ends[0]])
    for heading, end in zip(headings, ends[1:], strict=True):
        yield _Section(heading.title, heading.level, text[heading.start : end])


# -- sections --------------------------------------------------------------------------------------


def _pair(
    before: Sequence[_Section], after: Sequence[_Section], budget: _Budget
) -> Iterator[tuple[_Section | None, _Section | None]]:
    """Pair the sections of two texts, in order; one without a partner is removed or added."""
    keys = [section.key for section in before], [section.key for section in after]
    for (first, last), (start, end), is_same in _align(*keys, budget):
        olds, news = before[first:last], after[start:end]
        # One section in the place of one other was renamed.
        if is_same or len(olds) == len(news) == 1:
            yield from zip(olds, news, strict=True)
            continue
        for old in olds:
            yield old, None
        for new in news:
            yield None, new


def _compare_sections(old: _Section | None, new: _Section | None, budget: _Budget) -> SectionDiff:
    if new is None:
        assert old is not None, "a pair has a section"
        return _build_section(old, SectionState.REMOVED, [Span(Op.REMOVE, old.text)])
    if old is None:
        return _build_section(new, SectionState.ADDED, [Span(Op.ADD, new.text)])
    if old.text.split() == new.text.split():
        return _build_section(new, SectionState.SAME, [Span(Op.SAME, new.text)])
    budget.was_coarse = False
    spans = _join_spans(_compare_lines(old.text, new.text, budget))
    section = _build_section(new, SectionState.CHANGED, spans)
    return SectionDiff(
        section.heading, section.level, section.state, section.spans, is_coarse=budget.was_coarse
    )


def _build_section(section: _Section, state: SectionState, spans: Sequence[Span]) -> SectionDiff:
    return SectionDiff(section.heading, section.level, state, tuple(spans))


def _join_spans(spans: Iterator[Span]) -> list[Span]:
    """Join neighbours of one kind; what was removed comes before what was added in its place."""
    joined: list[Span] = []
    removed, added = list[str](), list[str]()

    def flush() -> None:
        for op, parts in ((Op.REMOVE, removed), (Op.ADD, added)):
            if parts:
                joined.append(Span(op, "".join(parts)))
            parts.clear()

    same = list[str]()
    for span in spans:
        if span.op is Op.SAME:
            flush()
            same.append(span.text)
            continue
        if same:
            joined.append(Span(Op.SAME, "".join(same)))
            same.clear()
        (removed if span.op is Op.REMOVE else added).append(span.text)
    flush()
    if same:
        joined.append(Span(Op.SAME, "".join(same)))
    return joined


# -- lines and words -------------------------------------------------------------------------------


def _compare_lines(old: str, new: str, budget: _Budget) -> Iterator[Span]:
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    keys = [[" ".join(line.split()) for line in lines] for lines in (before, after)]
    place_old = place_new = 0
    for anchor_old, anchor_new in [*_find_anchors(*keys), (len(before), len(after))]:
        gap_old, gap_new = before[place_old:anchor_old], after[place_new:anchor_new]
        yield from _compare_words("".join(gap_old), "".join(gap_new), budget)
        if anchor_new < len(after):
            yield Span(Op.SAME, after[anchor_new])
        place_old, place_new = anchor_old + 1, anchor_new + 1


def _compare_words(old: str, new: str, budget: _Budget) -> Iterator[Span]:
    before, after = _TOKEN.findall(old), _TOKEN.findall(new)
    keys = [token.strip() for token in before], [token.strip() for token in after]
    for (first, last), (start, end), is_same in _align(*keys, budget):
        if is_same:
            yield Span(Op.SAME, "".join(after[start:end]))
            continue
        if first < last:
            yield Span(Op.REMOVE, "".join(before[first:last]))
        if start < end:
            yield Span(Op.ADD, "".join(after[start:end]))


# -- sequences -------------------------------------------------------------------------------------

_Range = tuple[int, int]


def _find_anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Find the longest run of pairs that are unique in both sequences and in the same order."""
    counts_old, counts_new = Counter(old), Counter(new)
    places = {key: place for place, key in enumerate(new)}
    pairs = [
        (place, places[key])
        for place, key in enumerate(old)
        if key and counts_old[key] == 1 and counts_new.get(key) == 1
    ]
    # The longest increasing subsequence of the places in the new text.
    tails: list[int] = []
    last: list[int] = []
    links: list[int] = []
    for index, (_, place) in enumerate(pairs):
        rank = bisect_left(tails, place)
        tails[rank : rank + 1] = [place]
        last[rank : rank + 1] = [index]
        links.append(last[rank - 1] if rank else -1)
    chosen, index = list[tuple[int, int]](), last[-1] if last else -1
    while index >= 0:
        chosen.append(pairs[index])
        index = links[index]
    return chosen[::-1]


def _align(
    old: Sequence[str], new: Sequence[str], budget: _Budget
) -> Iterator[tuple[_Range, _Range, bool]]:
    """Cut two sequences into ranges that are the same in both, and ranges that are not."""
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    if head:
        yield (0, head), (0, head), True
    inner_old, inner_new = old[head : len(old) - tail], new[head : len(new) - tail]
    place_old = place_new = 0
    for first, start, length in [
        *_find_common(inner_old, inner_new, budget),
        (len(inner_old), len(inner_new), 0),
    ]:
        if place_old < first or place_new < start:
            yield (head + place_old, head + first), (head + place_new, head + start), False
        if length:
            ends = first + length, start + length
            yield (head + first, head + ends[0]), (head + start, head + ends[1]), True
        place_old, place_new = first + length, start + length
    if tail:
        yield (len(old) - tail, len(old)), (len(new) - tail, len(new)), True


@dataclass(slots=True)
class _Frontier:
    """How far each diagonal was followed, by the number of changes so far."""

    reached: dict[int, int] = field(default_factory=lambda: {1: 0})
    trace: list[dict[int, int]] = field(default_factory=list)


def _find_common(
    old: Sequence[str], new: Sequence[str], budget: _Budget
) -> list[tuple[int, int, int]]:
    """Find the parts of a shortest edit script that stay: (place, place, length), in order.

    Nothing is found if that takes too many steps.
    """
    if not old or not new:
        return []
    # Reading both once is not counted.
    steps_max = min(budget.steps, PASSAGE_STEPS_MAX) + len(old) + len(new)
    frontier, steps = _Frontier(), 0
    for changes in range(len(old) + len(new) + 1):
        frontier.trace.append(dict(frontier.reached))
        for diagonal in range(-changes, changes + 1, 2):
            at_old = _step(frontier.reached, diagonal, changes)
            at_new = at_old - diagonal
            while at_old < len(old) and at_new < len(new) and old[at_old] == new[at_new]:
                at_old, at_new, steps = at_old + 1, at_new + 1, steps + 1
            frontier.reached[diagonal] = at_old
            if at_old >= len(old) and at_new >= len(new):
                budget.steps -= steps
                return _walk_back(frontier.trace, len(old), len(new))
        # Copying the frontier costs as much as a step for each diagonal.
        steps += 2 * changes + 1
        if steps > steps_max:
            break
    budget.steps = max(0, budget.steps - steps)
    budget.was_coarse = True
    return []


def _step(reached: dict[int, int], diagonal: int, changes: int) -> int:
    """Decide from which neighbour a diagonal is reached: by a removal or by an addition."""
    below, above = reached.get(diagonal - 1, -1), reached.get(diagonal + 1, -1)
    if diagonal == -changes or (diagonal != changes and below < above):
        return above
    return below + 1


def _walk_back(
    trace: Sequence[dict[int, int]], at_old: int, at_new: int
) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []
    for changes in range(len(trace) - 1, -1, -1):
        reached, diagonal = trace[changes], at_old - at_new
        start = _step(reached, diagonal, changes)
        # Where the last change left off: the matches after it are common to both.
        start_new = start - diagonal
        if at_old > start:
            found.append((start, start_new, at_old - start))
        is_addition = diagonal == -changes or (
            diagonal != changes and reached.get(diagonal - 1, -1) < reached.get(diagonal + 1, -1)
        )
        at_old, at_new = (start, start_new - 1) if is_addition else (start - 1, start_new)
    return found[::-1]
