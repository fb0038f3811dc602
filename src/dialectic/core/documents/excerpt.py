"""The title and the first sentences of a document as plain text, for a card or a list. Pure.

Headings, code, tables and rules are not prose and are left out, markup around words is removed.
Quotes count if there is nothing else. A document without prose, such as a table, has an empty
excerpt. Its title is a heading of its own; without one, its first sentence.
"""

from __future__ import annotations

import functools
import html
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from dialectic.core.documents.front_matter import read_body
from dialectic.core.documents.headings import build_matcher, find_firm_headings, fold_title
from dialectic.core.process.definition import ExpectedDocument
from dialectic.core.text import clean_text

EXCERPT_CHARS_MAX = 300
TITLE_CHARS_MAX = 120
CARD_CHARS_MAX = 240
# Prose that begins later is not found; this bounds the time for hostile texts.
_READ_CHARS_MAX = 20_000
# What is left after markup is removed from as much is longer than an excerpt, but for long links.
_KEPT_CHARS_MAX = 2_000

_FENCE = re.compile(r"(`{3,}|~{3,})")
_HEADING = re.compile(r"#{1,6}(?:\s|$)")
_UNDERLINE = re.compile(r"=+$")
_RULE = re.compile(r"(?:[-*_]\s*){3,}$")
_REFERENCE = re.compile(r"\[[^\]]{1,200}\]:\s")
# Quotes, list items and boxes to tick, also inside each other.
_OPENING = re.compile(r"\A(?:>\s*|[-*+]\s+|\d{1,9}[.)]\s+|\[[ xX]\]\s+)+")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_INLINE: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"!?\[([^\[\]]{0,300})\](?:\([^()]{0,500}\)|\[[^\[\]]{0,100}\])"), r"\1"),
    (re.compile(r"</?[A-Za-z][^<>]{0,300}>"), ""),
    (re.compile(r"`{1,3}"), ""),
    (re.compile(r"(?<!\\)(\*{1,3}|~~)(?=\S)(.{1,300}?)(?<![\s\\])\1"), r"\2"),
    (re.compile(r"(?<![\w\\])(_{1,3})(?=\S)(.{1,300}?)(?<![\s\\])\1(?!\w)"), r"\2"),
    (re.compile(r"\\([!-/:-@\[-`{-~])"), r"\1"),
)
# As prompts write it: `## Summary`, in backticks.
_NAMED_HEADING = re.compile(r"`#{1,6} ([^`\n]{1,200})`")
_SENTENCE_END = re.compile(r"[.!?…。！？](?=\s|$)")


@dataclass(frozen=True, slots=True)
class Card:
    """What a card shows of a document."""

    title: str
    excerpt: str
    words: int


def build_card(text: str, expected: tuple[ExpectedDocument, ...] = (), template: str = "") -> Card:
    """Build the card of a document; the headings that its process asks for say nothing about it.

    Those are the headings of the documents that it expects, and those that the prompt's template
    names.
    """
    body = read_body(text)
    prose = build_excerpt(body, chars_max=TITLE_CHARS_MAX + CARD_CHARS_MAX)
    title = _find_own_title(body[:_READ_CHARS_MAX], expected, list_named_titles(template))
    if title is None:
        title, prose = _split_sentence(prose)
    return Card(title, _cut(prose, CARD_CHARS_MAX), len(body.split()))


@functools.lru_cache(256)  # every answer of a step is asked for by the same template
def list_named_titles(template: str) -> frozenset[str]:
    """List the titles of the headings that a template asks for, reduced to their words."""
    return frozenset(fold_title(found[1]) for found in _NAMED_HEADING.finditer(template))


def _find_own_title(
    body: str, expected: tuple[ExpectedDocument, ...], named: frozenset[str]
) -> str | None:
    """Find the first heading that the process did not ask for; None if there is none."""
    matcher = build_matcher(expected)
    for heading in find_firm_headings(body):
        is_asked = matcher.find_meaning(heading.title) or fold_title(heading.title) in named
        if not is_asked and (plain := _strip(heading.title)):
            return _cut(plain, TITLE_CHARS_MAX)
    return None


def _split_sentence(prose: str) -> tuple[str, str]:
    """Split prose after its first sentence, or where a title must end."""
    end = _SENTENCE_END.search(prose, 0, TITLE_CHARS_MAX)
    if end is not None:
        return prose[: end.end()], prose[end.end() :].lstrip()
    title = _cut(prose, TITLE_CHARS_MAX)
    return title, prose[len(title.removesuffix("…")) :].lstrip() if title.endswith("…") else ""


def build_excerpt(text: str, *, chars_max: int = EXCERPT_CHARS_MAX) -> str:
    """Build an excerpt: whole sentences if they fill half of it, else as many words as fit."""
    return _cut(_read_prose(read_body(text)[:_READ_CHARS_MAX]), chars_max)


@functools.lru_cache(8)  # the card and the announcement of a document read the same
def _read_prose(body: str) -> str:
    """Read the first prose of a document, without markup."""
    body = _COMMENT.sub("", body)
    prose = (
        _join(_list_prose(body))
        or _join(_list_prose(body, takes_quotes=True))
        # Some models put a fence around their whole answer.
        or _join(_list_prose(body, takes_quotes=True, takes_fenced=True))
    )
    return _strip(prose)


def _strip(prose: str) -> str:
    """Remove the markup around words."""
    for pattern, kept in _INLINE:
        prose = pattern.sub(kept, prose)
    plain, _ = clean_text(html.unescape(prose))
    return " ".join(plain.split())


def _join(lines: Iterator[str]) -> str:
    """Join lines until they are long enough."""
    kept: list[str] = []
    length = 0
    for line in lines:
        kept.append(line[:_KEPT_CHARS_MAX])
        length += len(kept[-1])
        if length > _KEPT_CHARS_MAX:
            break
    return " ".join(kept)


def _list_prose(
    body: str, *, takes_quotes: bool = False, takes_fenced: bool = False
) -> Iterator[str]:
    """List the lines of prose, without their list and quotation marks."""
    fence = ""
    lines = [line.strip() for line in body.splitlines()]
    for line, following in itertools.pairwise([*lines, ""]):
        if found := _FENCE.match(line):
            marks = found[1]
            if not fence:
                fence = marks
            elif marks.startswith(fence) and line == marks:
                fence = ""
            continue
        is_left_out = (fence and not takes_fenced) or (line[:1] == ">" and not takes_quotes)
        if not is_left_out and not _is_frame(line, following):
            yield _OPENING.sub("", line)


def _is_frame(line: str, following: str) -> bool:
    """Tell whether a line is a heading, a rule, a row of a table, or the target of a link."""
    if not line or line.startswith("|"):
        return True
    patterns = (_HEADING, _UNDERLINE, _RULE, _REFERENCE)
    return any(pattern.match(line) for pattern in patterns) or bool(_UNDERLINE.match(following))


def _cut(prose: str, chars_max: int) -> str:
    if len(prose) <= chars_max:
        return prose
    ends = [found.end() for found in _SENTENCE_END.finditer(prose, 0, chars_max)]
    if ends and ends[-1] >= chars_max // 2:
        return prose[: ends[-1]]
    words = prose[: chars_max - 1]
    shorter = words.rpartition(" ")[0]
    # A text without spaces is cut between characters.
    return f"{shorter if len(shorter) >= chars_max // 2 else words}…"
