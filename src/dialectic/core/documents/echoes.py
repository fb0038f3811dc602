"""Recognise what a model repeats of its prompt instead of answering. Pure.

    echo    the marks of our own blocks, and the sentences of our own requests, in an answer
    copy    an answer that is one of its inputs, nearly word for word

Echoes are cut. A copy is only recognised: what follows from it is decided by `pipeline.repair`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dialectic.core.documents.prompts import build_block

ECHO = "echo_removed"

# The label of the block in which a request to continue quotes the end of the text.
TAIL_LABEL = "End of the text so far"

_BEGIN = re.compile(r"[ \t]*<<<BEGIN ([^\n\[\]]{0,200}?) ?\[([0-9a-f]{6,64})\]>>>[ \t]*\n?")
_END = re.compile(r"<<<END \[([0-9a-f]{6,64})\]>>>[ \t]*\n?")
_MARK = re.compile(r"[ \t]*<<<(?:BEGIN [^\n\[\]]{0,200}|END )\[[0-9a-f]{6,64}\]>>>[ \t]*\n?")
_WORD = re.compile(r"\w+")
_BULLET = re.compile(r"^[-*+>#\s]+")
# How long a sentence of ours must be to be told from one of the document.
SENTENCE_CHARS_MIN = 30
# A copy shares this part of its sequences of words with one input.
COPY_SHARE_MIN = 0.95
COPY_WORDS_MIN = 40
SEQUENCE_WORDS = 6


@dataclass(frozen=True, slots=True)
class Cleared:
    """A text without echoes; `has_echo` if something was cut."""

    text: str
    has_echo: bool = False


def cut_echoes(text: str, instructions: Sequence[str]) -> Cleared:
    """Cut our own marks and the sentences of our own requests (their templates) from an answer.

    A quoted block goes with its content if it is exactly as we built it, or the end of the text so
    far. From other blocks only the marks go: what the model wrote between them is its own.
    """
    cleared = text
    if "<<<" in text and "]>>>" in text:
        cleared = _cut_marks(text)
    cleared = _cut_sentences(cleared, instructions)
    return Cleared(cleared, has_echo=True) if cleared != text else Cleared(text)


def _cut_marks(text: str) -> str:
    closings = {found[1]: found.start() for found in _END.finditer(text)}
    parts, position = [], 0
    for begin in _BEGIN.finditer(text):
        label, mark = begin[1], begin[2]
        if begin.start() < position or closings.get(mark, -1) < begin.end():
            continue
        end = _END.search(text, text.index(f"<<<END [{mark}]>>>", begin.end()))
        assert end is not None, "the closing mark was just found"
        content = text[begin.end() : end.start()]
        is_ours = f"[{mark}]" in build_block(label, content.removesuffix("\n")).partition("\n")[0]
        is_dropped = is_ours or label == TAIL_LABEL
        parts += [text[position : begin.start()], "" if is_dropped else content]
        position = end.end()
    return _MARK.sub("", "".join([*parts, text[position:]]))


def _cut_sentences(text: str, instructions: Sequence[str]) -> str:
    beginnings, headings = _list_sentences(tuple(instructions))
    lines = text.splitlines(keepends=True)
    kept = [line for line in lines if not _flatten(line).startswith(beginnings)]
    if len(kept) == len(lines):
        return text
    return "".join(line for line in kept if line.strip() not in headings)


@functools.lru_cache(64)
def _list_sentences(instructions: tuple[str, ...]) -> tuple[tuple[str, ...], frozenset[str]]:
    """List how the long lines of our requests begin, up to their first variable; and headings."""
    lines = [line for text in instructions for line in text.splitlines()]
    beginnings = {_flatten(re.split(r"\{[{%]", line)[0]) for line in lines}
    headings = frozenset(line.strip() for line in lines if line.startswith("#"))
    return tuple(b for b in sorted(beginnings) if len(b) >= SENTENCE_CHARS_MIN), headings


def _flatten(line: str) -> str:
    return " ".join(_BULLET.sub("", line).split()).casefold()


def find_copied(answer: str, given: Iterable[tuple[str, str]]) -> str | None:
    """Find the label of the text that an answer repeats nearly word for word; None if it is new."""
    words = _WORD.findall(answer.casefold())
    if len(words) < COPY_WORDS_MIN:
        return None
    own = _list_sequences(words)
    for label, text in given:
        known = set(_list_sequences(_WORD.findall(text.casefold())))
        if sum(map(known.__contains__, own)) >= COPY_SHARE_MIN * len(own):
            return label
    return None


def _list_sequences(words: Sequence[str]) -> list[tuple[str, ...]]:
    # Without a loop of our own: every answer is compared with all its inputs.
    return list(zip(*(words[place:] for place in range(SEQUENCE_WORDS)), strict=False))
