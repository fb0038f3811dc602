"""Extract documents from an answer, by the process's rules. Pure; nothing is invented.

A section is the text below a heading up to the next heading of the same or a higher level, or to
the next promised one, word for word. `headings` finds headings and what they mean. If several mean
one document, the one that is most like the promised heading counts, then the first with text below
it. A markdown fence around the whole answer is ignored. Time is linear in the length.
"""

from __future__ import annotations

import functools
import heapq
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dialectic.core.documents.headings import (
    FENCE,
    Form,
    Heading,
    Meaning,
    build_matcher,
    find_firm_headings,
    find_headings,
    read_declared,
)
from dialectic.core.process.definition import ExpectedDocument
from dialectic.core.strict_json import Json
from dialectic.core.text import clean_text

_NOTICE = re.compile(r"\s{0,10}((?:>[^\n]{0,500}\n){1,5})\n*(?=#)")
_TITLE = re.compile(r"(?m)^# [^\n]*\n\n")
# How many headings that may mean one document are considered.
CANDIDATES_MAX = 16
_LEVELS = 8

_TEXT = re.compile(r"\S")
_STRING_OR_COMMA = re.compile(r'("(?:[^"\\]|\\.)*+")|,(?=\s*+[}\]])', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Cut:
    """The expected documents that were found, and those that are missing."""

    found: dict[str, str]
    missing: tuple[str, ...]
    # Whether the JSON had to be repaired.
    is_repaired: bool = False
    # The levels of the headings that contain the found documents.
    levels: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A heading that may contain a document, and where its section ends by its level."""

    document: ExpectedDocument
    meaning: Meaning
    heading: Heading
    level: int
    end: int

    @property
    def rank(self) -> tuple[bool, bool, int, bool, int]:
        """How unlike the promised heading it is."""
        distance = abs(self.level - read_declared(self.document)[0])
        is_bold = self.heading.form is Form.BOLD
        meaning = self.meaning
        return meaning.is_synonym, is_bold, distance, meaning.has_more, self.heading.start


def extract_documents(
    text: str, expected: Sequence[ExpectedDocument], *, is_complete: bool = True
) -> Cut:
    """Extract the expected documents from an answer, and list the missing ones.

    JSON is only read from a complete answer: half of it could pass for all of it.
    """
    sections = _find_sections(text, tuple(one for one in expected if one.heading is not None))
    wants_json = is_complete and any(document.json_key is not None for document in expected)
    values, is_repaired = _read_json(text) if wants_json else ({}, False)
    found: dict[str, str] = {}
    levels: dict[str, int] = {}
    for document in expected:
        if document.heading is None:
            body = _write_value(values.get(document.json_key or ""))
        else:
            body, level = sections.get(document.key, ("", 0))
            levels |= {document.key: level} if body else {}
        if body:
            found[document.key] = body
    missing = tuple(document.key for document in expected if document.key not in found)
    return Cut(found, missing, is_repaired, levels)


@functools.lru_cache(16)  # an answer is checked for what it lacks, and then cut
def _find_sections(
    text: str, expected: tuple[ExpectedDocument, ...]
) -> Mapping[str, tuple[str, int]]:
    """Find the promised sections: by key, each with its text and the level of its heading."""
    text = unwrap(text)
    left = _list_candidates(text, expected)
    while left:
        chosen = {key: candidates[0] for key, candidates in left.items()}
        bodies = {key: _cut_section(text, one, chosen.values()) for key, one in chosen.items()}
        empty = [key for key, body in bodies.items() if not body]
        if not empty:
            return {key: (body, chosen[key].level) for key, body in bodies.items()}
        # Its text belongs to another promised document: try the next heading.
        left[empty[0]] = left[empty[0]][1:]
        left = {key: candidates for key, candidates in left.items() if candidates}
    return {}


def _list_candidates(
    text: str, expected: Sequence[ExpectedDocument]
) -> dict[str, list[_Candidate]]:
    """List the headings with text below them that may mean each document, the likeliest first."""
    documents = {document.key: document for document in expected}
    matcher = build_matcher(tuple(expected))
    found: dict[str, list[_Candidate]] = {}
    # From the end: for each level, the start of the next heading that ends a section; then the
    # same with underlined headings, which end only sections of their own kind.
    firm, underlined = [len(text)] * _LEVELS, [len(text)] * _LEVELS
    for heading in reversed(list(find_headings(text))):
        if (meaning := matcher.find_meaning(heading.title)) is not None:
            document = documents[meaning.key]
            level = heading.level if heading.form is not Form.BOLD else read_declared(document)[0]
            end = (underlined if heading.form is Form.UNDERLINED else firm)[level]
            below = _TEXT.search(text, heading.body_start)
            if below is not None and below.start() < end:
                candidate = _Candidate(document, meaning, heading, level, end)
                found.setdefault(meaning.key, []).append(candidate)
        ends = [heading.start] * (_LEVELS - heading.level)
        if heading.is_firm:
            firm[heading.level :] = ends
        if heading.form is not Form.BOLD:
            underlined[heading.level :] = ends
    return {
        key: heapq.nsmallest(CANDIDATES_MAX, candidates, key=lambda one: one.rank)
        for key, candidates in found.items()
    }


def _cut_section(text: str, own: _Candidate, chosen: Iterable[_Candidate]) -> str:
    """Cut a section out, up to the next promised document that is not declared to be inside it."""
    level = read_declared(own.document)[0]
    starts = (
        other.heading.start
        for other in chosen
        if other.heading.start > own.heading.start and read_declared(other.document)[0] <= level
    )
    return text[own.heading.body_start : min([own.end, *starts])].strip()


def carry_notice(answer: str, document: str) -> str:
    """Put the notice that an answer begins with below the title of a document cut out of it.

    A notice is a quotation above the first heading, such as who wrote the answer, and how.
    """
    notice, title = _NOTICE.match(answer), _TITLE.search(document)
    if notice is None or title is None:
        return document
    return f"{document[: title.end()]}{notice[1].rstrip()}\n\n{document[title.end() :]}"


def list_sections(text: str, level: int) -> list[tuple[str, str]]:
    """List the sections of one level by title, in order, each with the text below its heading."""
    return [(head.title, body) for head, body in _split_sections(text) if head.level == level]


def find_top_level(text: str) -> int | None:
    """Find the highest level of a text's headings; None if it has none."""
    return min((heading.level for heading in find_firm_headings(unwrap(text))), default=None)


def raise_headings(text: str, levels: int) -> str:
    """Raise all headings of a section by a number of levels, but not above level 2."""
    parts, position = [], 0
    for heading in find_headings(text):
        if heading.form is not Form.MARKS:
            continue
        marks = text.index("#", heading.start)
        parts.append(text[position:marks])
        position = marks + max(0, min(levels, heading.level - 2))
    return "".join(parts) + text[position:]


def _split_sections(text: str) -> list[tuple[Heading, str]]:
    text = unwrap(text)
    headings = list(find_firm_headings(text))
    # From the end: for each level, the start of the next heading that ends a section.
    ends = [len(text)] * _LEVELS
    sections = []
    for heading in reversed(headings):
        sections.append((heading, text[heading.body_start : ends[heading.level]].strip()))
        ends[heading.level :] = [heading.start] * (_LEVELS - heading.level)
    return sections[::-1]


def unwrap(text: str) -> str:
    """Remove a markdown fence around the whole answer, which some models write."""
    opening, _, rest = text.strip().partition("\n")
    mark = FENCE.match(opening)
    if mark is None or opening.strip("`~ \t\r").casefold() not in ("markdown", "md"):
        return text
    fence = mark[1] or mark[2]
    return rest.removesuffix(fence) if rest.endswith(f"\n{fence}") else text


def _read_json(text: str) -> tuple[Json, bool]:
    """Read the JSON object of an answer, and tell whether it was repaired.

    Repairs drop trailing commas, and skip text with braces around a fenced object. They never close
    what is open.
    """
    outer = text[text.find("{") : text.rfind("}") + 1]
    inner = _read_fenced_json(text)
    tries = [outer, _drop_trailing_commas(outer), inner, _drop_trailing_commas(inner)]
    for attempt, words in enumerate(tries):
        try:
            value = json.loads(words)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return value, attempt > 0
    return {}, False


def _read_fenced_json(text: str) -> str:
    """Find the content of the first `json` fence."""
    begin = re.search(r"^```json[ \t]*\n", text, re.MULTILINE)
    if begin is None:
        return ""
    end = re.compile(r"^```[ \t]*$", re.MULTILINE).search(text, begin.end())
    return text[begin.end() : end.start()] if end is not None else ""


def _drop_trailing_commas(words: str) -> str:
    """Drop trailing commas, but none inside a string."""
    return _STRING_OR_COMMA.sub(lambda found: found[1] or "", words)


def _write_value(value: Any) -> str:
    if value in (None, [], {}):
        return ""
    if not isinstance(value, str):
        try:
            value = json.dumps(value, ensure_ascii=False, indent=2)
        except RecursionError:
            return ""
    # JSON escapes can contain characters that cleaning removed from the answer.
    return clean_text(value)[0].strip()
