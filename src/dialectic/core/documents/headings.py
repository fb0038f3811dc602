"""Headings of an answer: where they are, and which promised title each of them means. Pure.

Models write headings in many ways. A heading is a line that begins with `#`, an HTML heading, an
underlined line or a line in bold; never a line inside a code fence or inside a block of our own.
Only the first two are headings by themselves: a rule below a paragraph looks like an underline, and
bold lines are often labels. The others count where they mean a promised title.

Titles are compared without case, numbering, emphasis, emoji and punctuation. Text may follow a
title after a colon, a dash or a bracket. Time is linear in the length.
"""

from __future__ import annotations

import enum
import functools
import html
import io
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dialectic.core.process.definition import ExpectedDocument

_HEADING = re.compile(r" {0,3}(#{1,6})(?![^ \t\r\n])")
# No backtick may follow the backticks of a fence: that would be inline code.
FENCE = re.compile(r" {0,3}(?:(`{3,})[^`]*$|(~{3,}))")
_HTML = re.compile(r" {0,3}<[hH]([1-6])(?:\s[^<>]*)?>(.*)</[hH]\1>\s*$")
_UNDERLINE = re.compile(r" {0,3}(?:(=+)|-{2,})[ \t]*[\r\n]*$")
_BOLD = re.compile(r"(?:\w{1,5}[.)][ \t]+)?(?:\*\*|__)[^\r\n]+(?:\*\*|__)[ \t]*:?")
_BEGIN = re.compile(r"<<<BEGIN [^\n]{0,200}?\[(\w+)\]>>>")
_END = re.compile(r"<<<END \[(\w+)\]>>>")
# Most lines begin otherwise and need no regular expression.
_MARKS = frozenset("#`~<=-*_")
# A line that begins like this is not the text of an underlined heading.
_NO_TITLE = re.compile(r"[ \t]*(?:$|[#>|`~]|[-*+][ \t]|\d{1,9}[.)][ \t]| {4}|\t)")
# A longer line is text.
TITLE_CHARS_MAX = 300
TITLES_KEPT_MAX = 2_000

_MARKUP = re.compile(r"<[^<>]{1,200}>|\{#[^{}]*\}\s*$|\]\([^()]*\)")
_KEYCAP = re.compile("\ufe0f?\u20e3")
# Apostrophes and emphasis, with the invisible mark that makes an emoji of a character.
_IGNORED = str.maketrans(dict.fromkeys("'’\u2018`*\ufe0f", "") | {"_": " "})
# `C#` and `C++` keep their marks.
_WORD = re.compile(r"[^\W_]+[+#]*")
_NUMBER = re.compile(
    r"[^\w(\[#§]*[(\[#§]*\s*"
    r"(?:(?:section|part|chapter|document|deliverable|artifact|artefact)\s+)?"
    r"(?:(?:\d{1,3}(?:\.\d{1,3}){0,4}|[a-z]|[ivxlc]{1,7})\s*(?:[.):\]]+(?!\d)|\s[-–—]+)"
    r"|\d{1,3}(?:\.\d{1,3}){0,4}(?=\s))\s*(?=\S)",
    re.IGNORECASE,
)
_MORE = re.compile(r"\s*[:|(\[\u3010\u2013\u2014]|\s-+\s")
_BRACKETS = re.compile(
    r"[(\[\u3010\u300c]([^()\[\]\u3010\u3011\u300c\u300d]+)[)\]\u3011\u300d]\s*:?\s*$"
)


class Form(enum.Enum):
    """How a heading is written."""

    MARKS = "marks"
    HTML = "html"
    UNDERLINED = "underlined"
    BOLD = "bold"


@dataclass(frozen=True, slots=True)
class Heading:
    """One heading: its level, its title, and the offsets of its line and of the text below it."""

    level: int
    title: str
    start: int
    body_start: int
    form: Form = Form.MARKS

    @property
    def is_firm(self) -> bool:
        """Whether it is a heading whatever its title says."""
        return self.form in (Form.MARKS, Form.HTML)


def find_firm_headings(text: str) -> Iterator[Heading]:
    """Find the headings that need no promised title."""
    return (heading for heading in find_headings(text) if heading.is_firm)


def find_headings(text: str) -> Iterator[Heading]:
    """Find all headings of a text, in order; bold lines have the lowest level."""
    closings = _find_closings(text)
    fence = block = ""
    above, is_above_free, start = "", True, 0
    for line in io.StringIO(text, newline=""):
        begin, start = start, start + len(line)
        before, was_free = above, is_above_free
        above, is_above_free = line, not before.strip()
        first = line.lstrip(" ")[:1]
        if first not in _MARKS and not first.isdigit():
            continue
        if block:
            block = "" if f"<<<END [{block}]>>>" in line else block
        elif (mark := FENCE.match(line)) is not None:
            fence = _follow_fence(fence, mark[1] or mark[2], line)
        elif fence:
            continue
        elif begun := _read_begun(line, begin, closings):
            block = begun
        elif (found := _read_line(line, begin, start)) is not None:
            is_above_free = True  # a heading may stand directly above an underlined one
            yield found
        elif was_free and (under := _read_underline(line, before)):
            yield Heading(under, before.strip(), begin - len(before), start, Form.UNDERLINED)


def _follow_fence(fence: str, found: str, line: str) -> str:
    if not fence:
        return found
    is_closing = found.startswith(fence) and not line.strip().strip(fence[0])
    return "" if is_closing else fence


def _find_closings(text: str) -> dict[str, int]:
    """Find where the blocks of our own end, by their marks."""
    return {found[1]: found.start() for found in _END.finditer(text)} if "<<<END" in text else {}


def _read_begun(line: str, start: int, closings: Mapping[str, int]) -> str:
    """Read the mark of a block that begins in a line and is closed later; empty if none does."""
    found = _BEGIN.search(line) if closings and line.lstrip().startswith("<<<") else None
    return found[1] if found is not None and closings.get(found[1], -1) > start else ""


def _read_line(line: str, start: int, end: int) -> Heading | None:
    if (head := _HEADING.match(line)) is not None:
        return Heading(len(head[1]), _read_title(line[head.end() :]), start, end)
    if len(line) > TITLE_CHARS_MAX:
        return None
    if (tag := _HTML.match(line)) is not None:
        title = html.unescape(_MARKUP.sub("", tag[2])).strip()
        return Heading(int(tag[1]), title, start, end, Form.HTML)
    if _BOLD.fullmatch(line.strip()) is not None and not line.startswith(("    ", "\t")):
        return Heading(7, line.strip(), start, end, Form.BOLD)
    return None


def _read_underline(line: str, above: str) -> int:
    """Read the level of an underlined heading; 0 if the line above cannot be a title."""
    found = _UNDERLINE.match(line)
    if found is None or len(above) > TITLE_CHARS_MAX or _NO_TITLE.match(above) is not None:
        return 0
    return 1 if found[1] else 2


def _read_title(rest: str) -> str:
    """Read a heading's text without closing `#` marks; `C#` keeps its own."""
    title = rest.strip()
    opened = title.rstrip("#")
    return opened.rstrip() if opened[-1:] in ("", " ", "\t") else title


# -- what a title means ---------------------------------------------------------------------------


def fold_title(title: str) -> str:
    """Reduce a title to its words: without case, emphasis, emoji and punctuation."""
    plain = _simplify(title)
    return " ".join(_WORD.findall(plain)) or " ".join(plain.split())


def _simplify(title: str) -> str:
    title = _MARKUP.sub("", title)
    if not title.isascii():
        title = unicodedata.normalize("NFKC", _KEYCAP.sub(". ", title))
    return title.translate(_IGNORED).casefold().replace("&", " and ")


@dataclass(frozen=True, slots=True)
class Meaning:
    """The promised document that a title means, and how it says so."""

    key: str
    is_synonym: bool = False
    # Whether text follows the title on its line.
    has_more: bool = False


@dataclass(frozen=True, slots=True)
class TitleMatcher:
    """Finds the promised document that a title means."""

    titles: Mapping[str, str]
    synonyms: Mapping[str, str]
    # A word of each name: a title without any of them means nothing.
    probe: re.Pattern[str]

    def find_meaning(self, title: str) -> Meaning | None:
        """Find what a title means; None if it is not promised."""
        title = title[:TITLE_CHARS_MAX]
        if self.probe.search(_simplify_short(title)) is None:
            return None
        variants = _list_variants(title)
        for names, is_synonym in ((self.titles, False), (self.synonyms, True)):
            for name, has_more in variants:
                if (key := names.get(name)) is not None:
                    return Meaning(key, is_synonym, has_more)
        return None


@functools.lru_cache(256)  # every answer of a stage is searched for the same titles
def build_matcher(expected: tuple[ExpectedDocument, ...]) -> TitleMatcher:
    """Build the matcher of a stage's promised documents."""
    asked = [document for document in expected if document.heading is not None]
    titles = _index((document.key, read_declared(document)[1]) for document in asked)
    others = _index((d.key, synonym) for d in asked for synonym in d.synonyms)
    synonyms = {name: key for name, key in others.items() if name not in titles}
    words = {max(name.split() or [name], key=len) for name in (*titles, *synonyms)}
    probe = "|".join(map(re.escape, sorted(filter(None, words))))
    return TitleMatcher(titles, synonyms, re.compile(probe or r"(?!)"))


def _index(names: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Index names as they are declared and without numbers, unless two are the same then."""
    pairs = list(names)
    bare: dict[str, set[str]] = {}
    for key, name in pairs:
        bare.setdefault(fold_title(_drop_number(name)), set()).add(key)
    alone = {name: keys.pop() for name, keys in bare.items() if len(keys) == 1}
    return alone | {fold_title(name): key for key, name in pairs}


@functools.lru_cache(256)
def read_declared(document: ExpectedDocument) -> tuple[int, str]:
    """Read the level and the title of a promised document's heading."""
    marks, _, title = (document.heading or f"## {document.title}").partition(" ")
    return len(marks), _read_title(title)


# The answers of a stage have most of their titles in common.
_simplify_short = functools.lru_cache(TITLES_KEPT_MAX)(_simplify)


@functools.lru_cache(TITLES_KEPT_MAX)
def _list_variants(title: str) -> tuple[tuple[str, bool], ...]:
    """List what a title may say, and whether that leaves out text that follows it."""
    return tuple(_iterate_variants(title))


def _iterate_variants(title: str) -> Iterator[tuple[str, bool]]:
    bare = _drop_number(_simplify(title))
    yield fold_title(title), False
    yield fold_title(bare), False
    for separator in reversed(list(_MORE.finditer(bare))):
        if head := fold_title(bare[: separator.start()]):
            yield head, True
    # A translated heading often repeats the given one in brackets.
    if (brackets := _BRACKETS.search(bare)) is not None:
        yield fold_title(brackets[1]), brackets.start() > 0


def _drop_number(title: str) -> str:
    found = _NUMBER.match(title)
    return title[found.end() :] if found is not None else title


def list_clashes(expected: Sequence[ExpectedDocument]) -> Iterator[str]:
    """List the titles and synonyms that mean more than one promised document."""
    names: dict[str, str] = {}
    for document in expected:
        if document.heading is None:
            continue
        for name in (read_declared(document)[1], *document.synonyms):
            if names.setdefault(fold_title(name), document.key) != document.key:
                yield name
