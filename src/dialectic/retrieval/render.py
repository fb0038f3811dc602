"""Kept passages as one text again: in reading order, under their headings, gaps marked.

Everything in it but the marks is the source's own text. Knows nothing of why they were kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from dialectic.retrieval.passages import Kind, Passage, Passages

MARK = "[…]"
ROW_MARK = f"| {MARK} |"


def build_last_mark(left_out: int) -> str:
    """Build the last line of a text from which passages were left out."""
    return f"[… {left_out} {'passage' if left_out == 1 else 'passages'} left out …]"


def render(text: str, parts: Passages, kept: Sequence[int]) -> str:
    """Render passages of a text, given by their places in ascending order."""
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
    """Render what stands between two passages that do not follow each other."""
    one = parts.passages[number]
    previous = None if before is None else parts.passages[before]
    if previous is not None and previous.block == one.block:
        return [_MARKS_INSIDE[one.kind]]
    begins = number == 0 or parts.passages[number - 1].block != one.block
    written = []
    if previous is not None and before is not None:
        ends = parts.passages[before + 1].block != previous.block
        if begins and not ends:
            written.append(_MARKS_AFTER[previous.kind])
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
        written.append(_MARKS_BEFORE[one.kind])
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
_MARKS_INSIDE = {
    Kind.PROSE: f" {MARK} ",
    Kind.ITEM: f" {MARK} ",
    Kind.ROW: f"\n{ROW_MARK}\n",
    Kind.CODE: f"\n{MARK}\n",
}
_MARKS_BEFORE = {
    Kind.PROSE: f"{MARK} ",
    Kind.ITEM: f"{MARK} ",
    Kind.ROW: f"{ROW_MARK}\n",
    Kind.CODE: f"{MARK}\n",
}
_MARKS_AFTER = {
    Kind.PROSE: f" {MARK}",
    Kind.ITEM: f" {MARK}",
    Kind.ROW: f"\n{ROW_MARK}",
    Kind.CODE: f"\n{MARK}",
}
