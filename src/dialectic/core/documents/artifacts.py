"""Extract documents from an answer, by the process's rules. Pure; nothing is invented.

A section is the text below a heading up to the next heading of the same or a higher level, word for
word. A heading is a line that begins with `#` outside code fences. Underlined headings are text: a
rule below a paragraph looks the same. If a heading appears several times, the first with text below
it counts. A markdown fence around the whole answer is ignored. Time is linear in the length.
"""

from __future__ import annotations

import functools
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dialectic.core.process.definition import ExpectedDocument
from dialectic.core.strict_json import Json
from dialectic.core.text import clean_text

_HEADING = re.compile(r" {0,3}(#{1,6})(?![^ \t\r\n])")
# No backtick may follow the backticks of a fence: that would be inline code.
_FENCE = re.compile(r" {0,3}(?:(`{3,})[^`]*$|(~{3,}))")
_NOTICE = re.compile(r"\s{0,10}((?:>[^\n]{0,500}\n){1,5})\n*(?=#)")
_TITLE = re.compile(r"(?m)^# [^\n]*\n\n")
# Most lines begin otherwise and need no regular expression.
_MARKS = frozenset("#`~")

_STRING_OR_COMMA = re.compile(r'("(?:[^"\\]|\\.)*+")|,(?=\s*+[}\]])', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Cut:
    """The expected documents that were found, and those that are missing."""

    found: dict[str, str]
    missing: tuple[str, ...]
    # Whether the JSON had to be repaired.
    is_repaired: bool = False


@dataclass(frozen=True, slots=True)
class _Heading:
    level: int
    title: str
    # The offsets of its line and of the line below it.
    start: int
    body_start: int


def extract_documents(
    text: str, expected: Sequence[ExpectedDocument], *, is_complete: bool = True
) -> Cut:
    """Extract the expected documents from an answer, and list the missing ones.

    JSON is only read from a complete answer: half of it could pass for all of it.
    """
    sections: dict[tuple[int, str], str] = {}
    for heading, body in _split_sections(text):
        if body:
            sections.setdefault((heading.level, _fold(heading.title)), body)
    wants_json = is_complete and any(document.json_key is not None for document in expected)
    values, is_repaired = _read_json(text) if wants_json else ({}, False)
    found: dict[str, str] = {}
    for document in expected:
        if document.heading is not None:
            body = sections.get(_read_heading(document.heading), "")
        else:
            body = _write_value(values.get(document.json_key or ""))
        if body:
            found[document.key] = body
    missing = tuple(document.key for document in expected if document.key not in found)
    return Cut(found, missing, is_repaired)


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


def raise_headings(text: str, levels: int) -> str:
    """Raise all headings of a section by a number of levels, but not above level 2."""
    parts, position = [], 0
    for heading in _find_headings(text):
        marks = text.index("#", heading.start)
        parts.append(text[position:marks])
        position = marks + max(0, min(levels, heading.level - 2))
    return "".join(parts) + text[position:]


def _split_sections(text: str) -> list[tuple[_Heading, str]]:
    text = _unwrap(text)
    headings = list(_find_headings(text))
    # From the end: for each level, the start of the next heading that ends a section.
    ends = [len(text)] * 7
    sections = []
    for heading in reversed(headings):
        sections.append((heading, text[heading.body_start : ends[heading.level]].strip()))
        ends[heading.level :] = [heading.start] * (7 - heading.level)
    return sections[::-1]


def _unwrap(text: str) -> str:
    """Remove a markdown fence around the whole answer, which some models write."""
    opening, _, rest = text.strip().partition("\n")
    mark = _FENCE.match(opening)
    if mark is None or opening.strip("`~ \t\r").casefold() not in ("markdown", "md"):
        return text
    fence = mark[1] or mark[2]
    return rest.removesuffix(fence) if rest.endswith(f"\n{fence}") else text


def _find_headings(text: str) -> Iterator[_Heading]:
    fence = ""
    position = 0
    for line in io.StringIO(text, newline=""):
        start, position = position, position + len(line)
        if line.lstrip(" ")[:1] not in _MARKS:
            continue
        if (mark := _FENCE.match(line)) is not None:
            found = mark[1] or mark[2]
            if not fence:
                fence = found
            elif found.startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif not fence and (head := _HEADING.match(line)) is not None:
            yield _Heading(len(head[1]), _read_title(line[head.end() :]), start, position)


@functools.lru_cache(256)  # every answer is searched for the same headings
def _read_heading(line: str) -> tuple[int, str]:
    (heading,) = _find_headings(line)
    return heading.level, _fold(heading.title)


def _read_title(rest: str) -> str:
    """Read a heading's text without closing `#` marks; `C#` keeps its own."""
    title = rest.strip()
    opened = title.rstrip("#")
    return opened.rstrip() if opened[-1:] in ("", " ", "\t") else title


def _fold(title: str) -> str:
    """Normalise case, spaces and apostrophes, in which models vary."""
    return " ".join(title.replace("’", "'").split()).casefold()


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
