"""Split a text into passages, and render some of them as a text again. Does not rank them.

Passages are sentences, list items, table rows and lines of code, with their frames. Markdown is
parsed line by line, in one pass. Passages are rendered in reading order, under their headings, with
the gaps marked; everything in the result except the marks is the source's own text.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

# The maximum length: a sentence without an end is cut between words, or anywhere.
PASSAGE_CHARS_MAX = 480
CODE_LINES_MAX = 8

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})(.*)")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]|$)")
_RULE = re.compile(r"[ \t]*(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,}|={3,}[ \t]*)$")
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+\S")
_ROW = re.compile(r"[ \t]*\|")
_TABLE_RULE = re.compile(r"[ \t]*\|[ \t]*:?-[ \t|:-]*$")
# Where a sentence may end. Only one blank is matched, so that a run of blanks is not scanned twice.
# The pattern starts with the characters themselves, not with a choice: that skips quickly.
_END = re.compile(r"[.!?…。！？](?:(?<=[。！？])|[\"'”’)\]*_]{0,3}(?=\s))")
_SIGN = re.compile(r"\S")
_LAST_WORD = re.compile(r"[\w.]{1,12}$")
_ABBREVIATIONS = frozenset(
    "al approx art bzw ca cf ch co corp dr e.g eg eq etc fig i.e ie inc jr ltd max min mr mrs ms "
    "no nos p pp prof ref resp sec sr st u.k u.s usw viz vol vs z.b".split()
)
# The start of a line that may be more than a line of a paragraph.
_BEGINNINGS = frozenset("#-*+_=`~|0123456789")
_BREAKS = ("\n", "; ", ": ", ", ", " ")


class Kind(enum.Enum):
    """What a passage is part of; decides how a gap next to it is shown."""

    PROSE = "prose"
    ITEM = "item"
    ROW = "row"
    CODE = "code"


@dataclass(frozen=True, slots=True)
class Frame:
    """What passages need around them: a heading, a table head, a code fence."""

    start: int
    end: int
    # The text after the last passage inside; empty for headings and tables.
    closing: str = ""


class Passage(NamedTuple):
    """The smallest part that is kept or left out as a whole. Created by the thousand."""

    start: int
    end: int
    kind: Kind
    # Passages of one block follow each other without a break: a paragraph, an item, a table.
    block: int
    # The frames around it, outermost first, as indices into the list of frames.
    frames: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Passages:
    """A whole text, in reading order."""

    frames: tuple[Frame, ...]
    passages: tuple[Passage, ...]


def split_passages(text: str) -> Passages:
    """Split a text into passages; the rest is frames, blanks and rules."""
    return _Reader(text).read()


class _Reader:
    """One pass over the lines of a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._written = text.split("\n")
        if not self._written[-1]:
            self._written.pop()
        self._lines = _find_lines(self._written)
        self._at = 0
        self._block = 0
        self._frames: list[Frame] = []
        self._passages: list[Passage] = []
        # The headings above the current line: their levels and their indices among the frames.
        self._levels: list[int] = []
        self._path: tuple[int, ...] = ()

    def read(self) -> Passages:
        while self._at < len(self._lines):
            line = self._written[self._at]
            if not line.strip() or _RULE.match(line):
                self._at += 1
            elif mark := _read_fence(line):
                self._read_code(mark)
            elif heading := _HEADING.match(line):
                self._read_heading(len(heading[1]))
            elif self._is_table():
                self._read_table()
            else:
                self._read_prose(Kind.ITEM if _ITEM.match(line) else Kind.PROSE)
            self._block += 1
        return Passages(tuple(self._frames), tuple(self._passages))

    def _add(self, start: int, end: int, kind: Kind, frame: int | None = None) -> None:
        frames = self._path if frame is None else (*self._path, frame)
        self._passages.append(Passage(start, end, kind, self._block, frames))

    def _add_frame(self, start: int, end: int, closing: str = "") -> int:
        self._frames.append(Frame(start, end, closing))
        return len(self._frames) - 1

    def _read_heading(self, level: int) -> None:
        while self._levels and self._levels[-1] >= level:
            self._levels.pop()
        above = self._path[: len(self._levels)]
        self._levels.append(level)
        self._path = (*above, self._add_frame(*self._lines[self._at]))
        self._at += 1

    def _is_table(self) -> bool:
        if self._at + 1 >= len(self._lines) or not _ROW.match(self._written[self._at]):
            return False
        return _TABLE_RULE.match(self._written[self._at + 1]) is not None

    def _read_table(self) -> None:
        head = self._add_frame(self._lines[self._at][0], self._lines[self._at + 1][1])
        self._at += 2
        while self._at < len(self._lines) and _ROW.match(self._written[self._at]):
            self._add(*self._lines[self._at], Kind.ROW, head)
            self._at += 1

    def _read_code(self, mark: str) -> None:
        opening = self._at
        self._at += 1
        groups: list[tuple[int, int]] = []
        count = 0
        while self._at < len(self._lines) and not _closes(self._written[self._at], mark):
            start, end = self._lines[self._at]
            if not self._written[self._at].strip():
                count = 0
            elif count and count < CODE_LINES_MAX and end - groups[-1][0] <= PASSAGE_CHARS_MAX:
                groups[-1] = groups[-1][0], end
                count += 1
            else:
                groups.append((start, end))
                count = 1
            self._at += 1
        is_closed = self._at < len(self._lines)
        frame = self._add_frame(
            *self._lines[opening], self._written[self._at] if is_closed else mark
        )
        self._at += 1
        for start, end in groups:
            for cut in _cut_long(self._text, start, end):
                self._add(*cut, Kind.CODE, frame)

    def _read_prose(self, kind: Kind) -> None:
        start, end = self._lines[self._at]
        self._at += 1
        while self._at < len(self._lines) and not self._begins_block(self._written[self._at]):
            end = self._lines[self._at][1]
            self._at += 1
        for begin, stop in _find_sentences(self._text, start, end):
            if stop - begin <= PASSAGE_CHARS_MAX:
                self._add(begin, stop, kind)
                continue
            for cut in _cut_long(self._text, begin, stop):
                self._add(*cut, kind)

    def _begins_block(self, line: str) -> bool:
        bare = line.lstrip()
        if bare and bare[0] not in _BEGINNINGS:
            return False  # most lines end here
        return (
            not bare
            or any(form.match(line) for form in (_RULE, _HEADING, _ITEM))
            or _read_fence(line) != ""
            or self._is_table()
        )


def _read_fence(line: str) -> str:
    """Find the characters that open a fence; after backquotes the line may contain no others."""
    found = _FENCE.match(line)
    return "" if found is None or (found[1][0] == "`" and "`" in found[2]) else found[1]


def _closes(line: str, mark: str) -> bool:
    found = _FENCE.match(line)
    return found is not None and found[1].startswith(mark) and not found[2].strip()


def _find_lines(written: list[str]) -> list[tuple[int, int]]:
    lines = []
    start = 0
    for line in written:
        end = start + len(line)
        lines.append((start, end))
        start = end + 1
    return lines


def _find_sentences(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Find the sentences between two positions, without the blanks between them."""
    spans = []
    begin = start
    for found in _END.finditer(text, start, end):
        stop = found.end()
        if found[0] == "." and _is_abbreviated(text, begin, found.start()):
            continue
        spans.append((begin, stop))
        after = _SIGN.search(text, stop, end)
        begin = end if after is None else after.start()
    if rest := text[begin:end].rstrip():
        spans.append((begin, begin + len(rest)))
    return spans


def _is_abbreviated(text: str, begin: int, point: int) -> bool:
    """Return whether a full stop ends an abbreviation, an initial or an item number."""
    word = _LAST_WORD.search(text, max(begin, point - 13), point)
    if word is None:
        return False
    is_first = not text[begin : word.start()].strip() if word.start() - begin < 9 else False
    written = word[0].lower()
    return (
        written in _ABBREVIATIONS
        or (len(written) == 1 and written.isalpha())
        or (is_first and written.isdigit())
    )


def _cut_long(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Cut an overlong passage at the best break, or anywhere."""
    while end - start > PASSAGE_CHARS_MAX:
        middle, limit = start + PASSAGE_CHARS_MAX // 2, start + PASSAGE_CHARS_MAX
        ends = (text.rfind(mark, middle, limit) + len(mark) for mark in _BREAKS)
        cut = next((place for place in ends if place > middle), limit)
        yield from _trim(text, start, cut)
        start = cut
    yield from _trim(text, start, end)


def _trim(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Strip the blanks around a passage, but keep the indentation at the start of a line."""
    inner = text[start:end]
    if not (stripped := inner.strip()):
        return
    lead = len(inner) - len(inner.lstrip())
    begins_line = start == 0 or text[start - 1] == "\n"
    begin = start if begins_line and "\n" not in inner[:lead] else start + lead
    yield begin, start + lead + len(stripped)


# -- rendering ------------------------------------------------------------------------------------

MARK = "[…]"


def build_last_mark(left_out: int) -> str:
    """Build the last line of a text from which passages were left out."""
    return f"[… {left_out} {'passage' if left_out == 1 else 'passages'} left out …]"


def render(text: str, parts: Passages, kept: Sequence[int]) -> str:
    """Render passages of a text, given by their indices in ascending order."""
    written: list[str] = []
    before: int | None = None
    for number in kept:
        one = parts.passages[number]
        if before is not None and number == before + 1:
            written.append(text[parts.passages[before].end : one.end])
        else:
            written += _render_gap(text, parts, before, number)
            written.append(text[one.start : one.end])
        before = number
    if before is not None:
        written.append(_close(parts, parts.passages[before]))
    left_out = len(parts.passages) - len(kept)
    return "".join([*written, f"\n\n{build_last_mark(left_out)}\n"])


def _render_gap(text: str, parts: Passages, before: int | None, number: int) -> list[str]:
    """Render the gap between two passages that are not neighbours."""
    one = parts.passages[number]
    previous = None if before is None else parts.passages[before]
    if previous is not None and previous.block == one.block:
        return [_MARKS[one.kind]]
    begins = number == 0 or parts.passages[number - 1].block != one.block
    written = []
    if previous is not None and before is not None:
        ends = parts.passages[before + 1].block != previous.block
        if begins and not ends:
            written.append(_MARKS[previous.kind].rstrip())
        written.append(_close(parts, previous))
        is_list = previous.kind is Kind.ITEM and one.kind is Kind.ITEM
        if begins and ends:
            written.append(f"\n{MARK}" if is_list else f"\n\n{MARK}")
        new = one.frames[_count_shared(previous, one) :]
        written.append("\n" if is_list and not new else "\n\n")
    elif begins and number > 0:
        written.append(f"{MARK}\n\n")
    shared = 0 if previous is None else _count_shared(previous, one)
    frames = [parts.frames[place] for place in one.frames[shared:]]
    for frame in frames:
        written.append(text[frame.start : frame.end])
        written.append("\n" if one.kind in _LINES and frame is frames[-1] else "\n\n")
    if not begins:
        written.append(_MARKS[one.kind].lstrip())
    return written


def _count_shared(one: Passage, other: Passage) -> int:
    """Count the frames that are open already."""
    shared = 0
    for mine, theirs in zip(one.frames, other.frames, strict=False):
        if mine != theirs:
            break
        shared += 1
    return shared


def _close(parts: Passages, one: Passage) -> str:
    closing = parts.frames[one.frames[-1]].closing if one.kind is Kind.CODE else ""
    return f"\n{closing}" if closing else ""


_LINES = (Kind.ROW, Kind.CODE)
# The mark of a gap inside a block; before or after a passage it lacks the blank on that side.
_MARKS = {
    Kind.PROSE: f" {MARK} ",
    Kind.ITEM: f" {MARK} ",
    Kind.ROW: f"\n| {MARK} |\n",
    Kind.CODE: f"\n{MARK}\n",
}
