"""Cut a text into pieces of bounded length: at headings, then where the topic changes. Pure.

Offsets are exact: between two pieces is only white space. The run time is linear in any text: no
counter and no splitter sees more than a bounded part of it at a time. Knows no database and no
money.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from dialectic.retrieval.embedders import Embedder
from dialectic.retrieval.structure import Outline, Section, build_outline, find_shifts

if TYPE_CHECKING:
    from semantic_text_splitter import MarkdownSplitter

# Increase this when the cutting changes: texts are then indexed again.
CUT_VERSION = 1
# The maximum characters per allowed token: some tokenizers count any long word as one token.
CHARS_PER_TOKEN_MAX = 8
# Few texts have more tokens per character than this: English texts, and others.
EVEN_CHARS_PER_TOKEN, OTHER_CHARS_PER_TOKEN = 4, 3
# The splitter's window; for some texts its work grows with the square of the window.
SLICE_CHARS = 8_000
# Headings take at most this share of the embedder's input.
BREADCRUMB_SHARE = 4
SEPARATOR = " > "
# A section or part below this share of a piece is joined to its neighbour.
SMALL_SHARE = 4
TINY_SHARE = 16


@dataclass(frozen=True, slots=True)
class Piece:
    """A passage of a text: its position, the headings above it, and its length."""

    position: int
    start: int
    end: int
    text: str
    heading_path: tuple[str, ...]
    # In tokens of the embedder that will read it.
    tokens: int


@dataclass(frozen=True, slots=True)
class _Span:
    """A span of text that will become a piece."""

    start: int
    end: int
    path: tuple[str, ...]
    tokens: int
    # Whether it covers whole sections; otherwise it is part of one.
    is_whole: bool
    # Whether it is only a heading: then the text that follows decides its place.
    is_bare: bool = False


def cut(text: str, embedder: Embedder) -> tuple[Piece, ...]:
    """Cut a text into pieces that the embedder can read, each with its breadcrumb, in order."""
    cutter = _Cutter(text, embedder)
    pieces: list[Piece] = []
    for span in _join(cutter.cut_sections(), embedder.piece_tokens_max):
        for start, end in cutter.fit(span):
            words = text[start:end]
            tokens = embedder.count(words)
            pieces.append(Piece(len(pieces), start, end, words, span.path, tokens))
    return tuple(pieces)


def cut_evenly(text: str, embedder: Embedder) -> tuple[Piece, ...]:
    """Cut a text at headings and lines into pieces of similar length, in order.

    Several times as fast as `cut`, which detects topics: enough to tell what each part of a text
    is about.
    """
    cutter = _Cutter(text, embedder)
    pieces: list[Piece] = []
    for span in _join(cutter.find_sections(), embedder.piece_tokens_max):
        for start, end, tokens in cutter.pack(span):
            pieces.append(Piece(len(pieces), start, end, text[start:end], span.path, tokens))
    return tuple(pieces)


def build_reading(piece: Piece, embedder: Embedder) -> str:
    """Build the embedder's input for a piece: the headings above it, and its text."""
    shown, _ = decide_breadcrumb(piece.heading_path, embedder)
    if shown and piece.text.lstrip("# \t").startswith(shown[-1].removesuffix("…")):
        shown = shown[:-1]
    return f"{SEPARATOR.join(shown)}\n{piece.text}" if shown else piece.text


def decide_breadcrumb(path: tuple[str, ...], embedder: Embedder) -> tuple[tuple[str, ...], int]:
    """Choose the headings for a piece, and count their tokens: the outermost are dropped first."""
    return _decide_breadcrumb(path, embedder.piece_tokens_max // BREADCRUMB_SHARE, embedder.count)


@lru_cache(maxsize=1_000)
def _decide_breadcrumb(
    path: tuple[str, ...], room: int, count: Callable[[str], int]
) -> tuple[tuple[str, ...], int]:
    for first in range(len(path)):
        # The line end between the headings and the text is counted with them.
        tokens = count(SEPARATOR.join(path[first:]) + "\n") + 1
        if tokens <= room:
            return path[first:], tokens
    return (), 0


class _Cutter:
    """One text being cut."""

    def __init__(self, text: str, embedder: Embedder) -> None:
        self._text = text
        self._embedder = embedder
        self._splitters: dict[int, MarkdownSplitter] = {}
        self._counted: dict[tuple[int, int], int] = {}

    def cut_sections(self) -> Iterator[_Span]:
        """Yield sections that fit unchanged, and cut the others where their topic changes."""
        outline = build_outline(self._text)
        for section in outline.sections:
            tokens = self._count(section.start, section.end)
            path = section.heading_path
            if self._fits(section.start, section.end, tokens, self._room(path)):
                is_bare = "\n" not in self._text[section.start : section.end].strip()
                yield _Span(section.start, section.end, path, tokens, True, is_bare)
            else:
                yield from self._cut_topics(section, outline)

    def fit(self, span: _Span) -> Iterator[tuple[int, int]]:
        """Yield a span that fits, stripped of white space; otherwise cut it."""
        room = self._room(span.path)
        if self._fits(span.start, span.end, self._count(span.start, span.end), room):
            yield from self._trim(span.start, span.end)
            return
        yield from self._split(span.start, span.end, room)

    def _split(self, start: int, end: int, room: int) -> Iterator[tuple[int, int]]:
        splitter = self._load_splitter(room)
        for low, high in self._slice(start, end):
            for offset, words in splitter.chunk_indices(self._text[low:high]):
                yield from self._trim(low + offset, low + offset + len(words))

    def find_sections(self) -> Iterator[_Span]:
        """Yield sections unchanged, with estimated tokens."""
        for section in build_outline(self._text).sections:
            start, end, path = section.start, section.end, section.heading_path
            tokens = (end - start) // EVEN_CHARS_PER_TOKEN
            is_whole = tokens <= self._room(path)
            is_bare = is_whole and "\n" not in self._text[start:end].strip()
            yield _Span(start, end, path, tokens, is_whole, is_bare)

    def pack(self, span: _Span) -> Iterator[tuple[int, int, int]]:
        """Yield spans that should fit, with estimated tokens; count only the doubtful ones.

        A slightly longer span does no harm: the embedder ignores its end, or blurs it.
        """
        room = self._room(span.path)
        is_plain = self._text[span.start : span.end].isascii()
        per_token = EVEN_CHARS_PER_TOKEN if is_plain else OTHER_CHARS_PER_TOKEN
        for low, high in self._slice(span.start, span.end, room * per_token):
            for start, end in self._trim(low, high):
                if is_plain or self._count(start, end) <= room:
                    yield start, end, (end - start) // per_token
                    continue
                for begin, stop in self._split(start, end, room):
                    yield begin, stop, self._count(begin, stop)

    def _cut_topics(self, section: Section, outline: Outline) -> Iterator[_Span]:
        fence_starts = [start for start, _ in outline.fences]
        places = [section.start]
        for shift in find_shifts(self._text[section.start : section.end]):
            place = section.start + shift
            fence = bisect.bisect_left(fence_starts, place) - 1
            if fence < 0 or outline.fences[fence][1] <= place:
                places.append(place)
        places.append(section.end)
        for low, high in itertools.pairwise(places):
            tokens = self._count(low, high)
            yield _Span(low, high, section.heading_path, tokens, is_whole=False)

    def _slice(
        self, start: int, end: int, chars_max: int = SLICE_CHARS
    ) -> Iterator[tuple[int, int]]:
        """Yield spans of bounded length, each up to the end of a line or word if possible."""
        while end - start > chars_max:
            low, high = start + chars_max // 2, start + chars_max
            marks = (self._text.rfind(mark, low, high) + 1 for mark in ("\n\n", "\n", ". ", " "))
            place = next((found for found in marks if found > 0), high)
            yield start, place
            start = place
        yield start, end

    def _trim(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Strip blank lines before and white space after; keep the first line's indentation."""
        words = self._text[start:end]
        blank = len(words) - len(words.lstrip())
        if blank < len(words):
            yield start + words.rfind("\n", 0, blank) + 1, start + len(words.rstrip())

    def _room(self, path: tuple[str, ...]) -> int:
        return self._embedder.piece_tokens_max - decide_breadcrumb(path, self._embedder)[1]

    def _count(self, start: int, end: int) -> int:
        if (tokens := self._counted.get((start, end))) is None:
            tokens = self._embedder.count(self._text[start:end])
            self._counted[start, end] = tokens
        return tokens

    def _fits(self, start: int, end: int, tokens: int, room: int) -> bool:
        return tokens <= room and end - start <= room * CHARS_PER_TOKEN_MAX

    def _load_splitter(self, room: int) -> MarkdownSplitter:
        if room not in self._splitters:
            from semantic_text_splitter import MarkdownSplitter

            def count(words: str) -> int:
                # An overlong span need not be counted again and again.
                if len(words) > room * CHARS_PER_TOKEN_MAX:
                    return len(words)
                return self._embedder.count(words)

            self._splitters[room] = MarkdownSplitter.from_callback(count, room, trim=False)
        return self._splitters[room]


def _join(spans: Iterator[_Span], tokens_max: int) -> Iterator[_Span]:
    """Join small spans to a neighbour, below the same heading or next to it."""
    held: _Span | None = None
    for span in spans:
        if held is not None and _belongs_to(held, span, tokens_max):
            path = span.path if held.is_bare else _find_common(held.path, span.path)
            tokens, is_bare = held.tokens + span.tokens, held.is_bare and span.is_bare
            held = replace(held, end=span.end, path=path, tokens=tokens, is_bare=is_bare)
            continue
        if held is not None:
            yield held
        held = span
    if held is not None:
        yield held


def _find_common(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    pairs = zip(one, other, strict=False)
    return tuple(
        heading for heading, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)
    )


def _belongs_to(held: _Span, span: _Span, tokens_max: int) -> bool:
    tokens, least = held.tokens + span.tokens, min(held.tokens, span.tokens)
    if held.is_whole is not span.is_whole or least > tokens_max // SMALL_SHARE:
        return False
    if tokens > tokens_max * (BREADCRUMB_SHARE - 1) // BREADCRUMB_SHARE:
        return False
    # A part stays in its section.
    if not held.is_whole:
        return held.path == span.path
    # A section never joins a higher-level one, nor, unless it is tiny, another chapter.
    parent = held.path[:-1]
    is_below = len(span.path) >= len(held.path) and span.path[: len(parent)] == parent
    shares = bool(parent) or (bool(held.path) and held.path == span.path[:1])
    return is_below and (shares or tokens <= tokens_max // TINY_SHARE)
