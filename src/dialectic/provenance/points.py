"""Points: the passages of a text that say something, and what their sections hold. Pure.

A point is a passage of some length with the headings above it, or a lower heading that says
something itself. Points of one list entry, table row or numbered objection form an item. Offsets
are those of the text without front matter.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dialectic.core.documents.headings import TitleMatcher, build_matcher
from dialectic.core.documents.offline_notice import NOTICE
from dialectic.core.process.definition import ExpectedDocument, Holds, PointsRule, Stage
from dialectic.retrieval.passages import Kind, Passage, Passages, split_passages
from dialectic.retrieval.weigh import find_words

WORDS_MIN = 4
# In UTF-8: a script without blanks says more in a character.
BYTES_MIN = 20
# Points beyond this are counted, not read.
POINTS_MAX = 5_000
# Headings from this level on may be points: `### O1: The deposit keeps pupils away`.
HEADING_LEVEL_MIN = 3

_MARKS = re.compile(
    r"\s*(?:>\s*)*(?:(?:[-*+•]|\d{1,9}[.)])\s+)*(?:\[[ xX]\]\s+)?(?:\d{1,9}[.)]\s+)?"
)
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t#]*$", re.DOTALL)
_TABLE = re.compile(r"\s*\|\s*")
# Emphasis and quotation marks; an apostrophe inside a word is neither.
_DECORATION = re.compile(
    r"\*\*|__|~~|[`*\"\u201a\u201c-\u201e\u00ab\u00bb\u2039\u203a\u300c\u300d]"
    r"|(?<!\w)[_'\u2018\u2019]|[_'\u2018\u2019](?!\w)"
)
_BRACKETS = re.compile(r"\s*[(\[]([^()\[\]]{1,200})[)\]]")
# A label as prompts give it, `Thesis B` or `Critique A1`, with a number of what it says there.
_LABEL_PARTS = re.compile(r"\s*(?:[,;/]|\band\b|\bund\b)\s*")
_NUMBERED = re.compile(r"[A-Z]{1,3}-?\d{1,4}(?:[.,]\s?\d+)?")
# The id of a requirement, feature or objection at the start of an item.
_ID = re.compile(r"\s*(?:\*\*|__|`|\[)?([A-Z]{1,3}-?\d{1,4})(?![\w/])")
_KEY = re.compile(r"\w+")
_BLANKS = re.compile(r"\s+")

# Sections whose lower headings each make one item.
_BY_HEADING = frozenset({Holds.OBJECTION, Holds.TAKEN, Holds.REFUSED, Holds.DECISION})


@dataclass(frozen=True, slots=True)
class Point:
    """A passage that says something."""

    n: int
    start: int
    end: int
    headings: tuple[str, ...]
    holds: Holds
    # The place in the list of items.
    item: int
    # Without marks, emphasis, quotation marks and labels.
    normal: str
    # The words alone, to tell whether two points are the same word for word.
    key: str
    # The labels in brackets: the sources that the author declares.
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Item:
    """A list entry, table row, paragraph or numbered section, with its points."""

    n: int
    start: int
    end: int
    holds: Holds
    # `R6`, `O1` or the like; empty if it has none.
    id: str
    # Whether it is an entry of a list.
    is_entry: bool
    # The places of its points.
    points: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Points:
    """The points and items of one text, in reading order."""

    points: tuple[Point, ...]
    items: tuple[Item, ...]
    # How many points were not read because there are too many.
    unread: int = 0


class Sections(NamedTuple):
    """What the sections of a text hold, by the title of a heading. Hashable."""

    matcher: TitleMatcher
    holds: tuple[tuple[str, Holds], ...]

    def find(self, title: str) -> Holds | None:
        """Find what a section of this title holds; None if nothing is declared."""
        meaning = self.matcher.find_meaning(title)
        return None if meaning is None else dict(self.holds)[meaning.key]


def build_sections(stage: Stage, output_type: str) -> Sections | None:
    """Build what the sections of a stage's answers hold; None if nothing is declared.

    A section may have any of the titles that the stage accepts for it.
    """
    rules = stage.list_points(output_type)
    return _build_sections(tuple(rules), stage.expected_output_artifacts) if rules else None


@functools.lru_cache(256)
def _build_sections(
    rules: tuple[PointsRule, ...], documents: tuple[ExpectedDocument, ...]
) -> Sections:
    synonyms = {document.heading: document.synonyms for document in documents}
    expected = tuple(
        ExpectedDocument(
            key=f"section_{number}",
            title=rule.heading,
            heading=rule.heading,
            synonyms=synonyms.get(rule.heading, ()),
        )
        for number, rule in enumerate(rules)
    )
    holds = tuple((one.key, rule.holds) for one, rule in zip(expected, rules, strict=True))
    return Sections(build_matcher(expected), holds)


def read_points(
    text: str,
    sections: Sections | None = None,
    labels: frozenset[str] = frozenset(),
    default: Holds = Holds.CLAIM,
) -> Points:
    """Read the points of a text; `labels` are the names of what its author was given."""
    return _Reader(text, sections, labels, default).read()


class _Reader:
    """One pass over the passages and lower headings of a text."""

    def __init__(
        self, text: str, sections: Sections | None, labels: frozenset[str], default: Holds
    ) -> None:
        self._text, self._sections = text, sections
        self._labels, self._default = labels, default
        self._parts: Passages = split_passages(text)
        self._headings = [_HEADING.match(text[f.start : f.end]) for f in self._parts.frames]
        self._points: list[Point] = []
        # Of each item: start, end, what it holds, its id, whether it is an entry, its points.
        self._items: list[tuple[int, int, Holds, str, bool, list[int]]] = []
        self._open: dict[object, int] = {}
        self._told: set[int] = set()
        self._unread = 0
        self._sections_found = [
            None if found is None or sections is None else sections.find(found[2])
            for found in self._headings
        ]

    def read(self) -> Points:
        above: tuple[int, int] | None = None  # the indentation and the item of the entry above
        for passage in self._parts.passages:
            path = self._list_path(passage)
            for frame in path:
                self._read_heading(frame, path)
            written = self._text[passage.start : passage.end]
            if written.strip("> ") in NOTICE:  # says who wrote the text, not what it is about
                continue
            holds = self._decide_holds(path)
            place, above = self._place(passage, path, holds, above)
            self._add(passage.start, passage.end, written, path, holds, place)
        items = tuple(
            Item(n, start, end, holds, found, is_entry, tuple(points))
            for n, (start, end, holds, found, is_entry, points) in enumerate(self._items)
        )
        return Points(tuple(self._points), items, self._unread)

    def _list_path(self, passage: Passage) -> tuple[int, ...]:
        return tuple(frame for frame in passage.frames if self._headings[frame] is not None)

    def _decide_holds(self, path: Sequence[int]) -> Holds:
        for frame in reversed(path):
            if (found := self._sections_found[frame]) is not None:
                return found
        return self._default

    def _read_heading(self, frame: int, path: Sequence[int]) -> None:
        """Read a lower heading as a point, if it says something."""
        found = self._headings[frame]
        if frame in self._told or found is None:
            return
        self._told.add(frame)
        if len(found[1]) < HEADING_LEVEL_MIN or self._sections_found[frame] is not None:
            return
        inside = path[: path.index(frame) + 1]
        holds = self._decide_holds(inside)
        start = self._parts.frames[frame].start + found.start(2)
        place = self._find_section_item(inside, holds)
        if place is None:
            place = self._open_item(("heading", frame), start, holds, found[2])
        self._add(start, start + len(found[2]), found[2], inside[:-1], holds, place)

    def _find_section_item(self, path: Sequence[int], holds: Holds) -> int | None:
        """Find the item of the section that a passage is in, if sections are items here."""
        declared = next((f for f in reversed(path) if self._sections_found[f] is not None), None)
        for frame in path if declared is None else path[path.index(declared) + 1 :]:
            found = self._headings[frame]
            assert found is not None
            is_item = _ID.match(found[2]) is not None or (
                declared is not None and holds in _BY_HEADING
            )
            if len(found[1]) >= HEADING_LEVEL_MIN and is_item:
                start = self._parts.frames[frame].start + found.start(2)
                return self._open_item(("section", frame), start, holds, found[2])
        return None

    def _place(
        self,
        passage: Passage,
        path: Sequence[int],
        holds: Holds,
        above: tuple[int, int] | None,
    ) -> tuple[int, tuple[int, int] | None]:
        """Find the item of a passage; an indented entry belongs to the entry above it."""
        written = self._text[passage.start : passage.end]
        if (section := self._find_section_item(path, holds)) is not None:
            return section, None
        if passage.kind is Kind.ROW:
            return self._open_item(("row", passage.start), passage.start, holds, written), None
        if passage.kind is not Kind.ITEM:
            place = self._open_item(("block", passage.block), passage.start, holds, written)
            return place, None
        if ("block", passage.block) in self._open:  # a further sentence of the same entry
            return self._open["block", passage.block], above
        line = self._text.rfind("\n", 0, passage.start) + 1
        indent = len(self._text[line : passage.end]) - len(self._text[line : passage.end].lstrip())
        if above is not None and indent > above[0] and self._items[above[1]][2] is holds:
            self._open["block", passage.block] = above[1]
            return above[1], above
        place = self._open_item(
            ("block", passage.block), passage.start, holds, written, is_entry=True
        )
        return place, (indent, place)

    def _open_item(
        self, key: object, start: int, holds: Holds, written: str, *, is_entry: bool = False
    ) -> int:
        if key not in self._open:
            found = _ID.match(_MARKS.sub("", _TABLE.sub(" ", written).strip(), count=1))
            self._open[key] = len(self._items)
            self._items.append((start, start, holds, found[1] if found else "", is_entry, []))
        return self._open[key]

    def _add(
        self,
        start: int,
        end: int,
        written: str,
        path: Sequence[int],
        holds: Holds,
        place: int,
    ) -> None:
        old = self._items[place]
        self._items[place] = (old[0], max(end, old[1]), *old[2:])
        normal, labels = normalize(written, self._labels)
        if len(normal.encode("utf-8", "replace")) < BYTES_MIN:
            return
        if len(find_words(normal)) < WORDS_MIN:
            return
        if len(self._points) >= POINTS_MAX:
            self._unread += 1
            return
        number = len(self._points)
        titles = tuple(found[2] for f in path if (found := self._headings[f]) is not None)
        self._points.append(
            Point(number, start, end, titles, holds, place, normal, build_key(normal), labels)
        )
        old[5].append(number)


def normalize(written: str, labels: frozenset[str] = frozenset()) -> tuple[str, tuple[str, ...]]:
    """Reduce a passage to what it says; also return the known labels that it names in brackets."""
    text = unicodedata.normalize("NFC", written) if not written.isascii() else written
    text = _MARKS.sub("", text, count=1)
    declared: list[str] = []
    if labels and ("(" in text or "[" in text):
        text = _BRACKETS.sub(functools.partial(_drop_labels, labels, declared), text)
    if "|" in text:
        text = _TABLE.sub(" ", text)
    text = _DECORATION.sub("", text)
    return _BLANKS.sub(" ", text).strip(), tuple(dict.fromkeys(declared))


def _drop_labels(labels: frozenset[str], declared: list[str], found: re.Match[str]) -> str:
    """Drop brackets that hold nothing but labels and numbers; note the labels."""
    names = []
    for part in _LABEL_PARTS.split(_BLANKS.sub(" ", found[1]).strip()):
        name = part.strip(" *_`")
        if name in labels:
            names.append(name)
        elif _NUMBERED.fullmatch(name) is None:
            return found[0]
    declared += names
    return "" if names else found[0]


def build_key(normal: str) -> str:
    """Build the words of a point, without case and punctuation."""
    return " ".join(_KEY.findall(normal.casefold()))


def list_items(points: Points, holds: Holds) -> list[Item]:
    """List the items of a kind that have points.

    If some of a section's items are numbered, or else entries of a list, only those count: the
    others introduce them.
    """
    found = [item for item in points.items if item.holds is holds and item.points]
    by_section: dict[str, list[Item]] = {}
    for item in found:
        headings = points.points[item.points[0]].headings
        by_section.setdefault(headings[0] if headings else "", []).append(item)
    kept: list[Item] = []
    for items in by_section.values():
        numbered = [item for item in items if item.id]
        kept += numbered or [item for item in items if item.is_entry] or items
    return kept


def find_ids(text: str) -> frozenset[str]:
    """Find the ids of requirements, features and objections that a text names."""
    found: set[str] = set()
    for one in _IDS.finditer(text):
        letters, first, last = one[1], int(one[2]), int(one[3] or one[2])
        found.update(f"{letters}{number}" for number in range(first, min(last, first + 99) + 1))
    return frozenset(found)


# `R3`, and `R3-R7` or `R3–7`.
_IDS = re.compile(r"(?<![\w-])([A-Z]{1,3})-?(\d{1,4})(?:\s?[-–]\s?(?:\1-?)?(\d{1,4}))?(?!\w)")
