"""Merge the answer to a second look into its document. Pure; the work is linear.

A second look shows a finished document the points of its inputs that it neither has nor refuses.
The answer has two sections: what is to be added, below headings of the document, and what is left
out on purpose, with reasons. A look can only add: every character of the document stays, in its
order. Additions stand at the end of their sections, outside code fences; merging the same answer
again changes nothing.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dialectic.core.documents.artifacts import unwrap
from dialectic.core.documents.headings import (
    FENCE,
    Heading,
    build_matcher,
    find_firm_headings,
    fold_title,
)
from dialectic.core.documents.stitching import find_open_fence
from dialectic.core.process.definition import ExpectedDocument

ADDED, LEFT_OUT = "Added", "Left out on purpose"
LEVEL_MAX = 6
# What begins a line that says of a section that it is empty.
_NOTHING = re.compile(r"\W*(?:none|nothing|no\b|n/a|keine?|nichts)", re.IGNORECASE)
_NOTHING_WORDS_MAX = 6

_TURNED = build_matcher(
    (
        ExpectedDocument(
            key="added",
            title=ADDED,
            heading=f"## {ADDED}",
            synonyms=("Additions", "To be added", "Added text", "Added points"),
        ),
        ExpectedDocument(
            key="left_out",
            title=LEFT_OUT,
            heading=f"## {LEFT_OUT}",
            synonyms=("Left out", "Not added", "Points left out", "Deliberately left out"),
        ),
    )
)
_ITEM = re.compile(r"(?m)^[ \t]*(?:(?:[-*+•]|\d{1,3}[.)])[ \t]+|(?=\W{0,3}M\d))")
_NUMBERS = re.compile(r"\W{0,4}(M\d{1,3}(?:\W{1,3}(?:and\s+|und\s+)?M\d{1,3})*)\W{0,4}\s*")
_NUMBER = re.compile(r"M(\d{1,3})")
_BLOCK_MARK = re.compile(r"<<<(?:BEGIN|END)[^\n>]{0,250}>>>")
_STRAY_NUMBER = re.compile(r"[ \t]*[(\[]M\d{1,3}(?:,\s*M\d{1,3})*[)\]]")
_STEP = re.compile(r"(?m)^([ \t]*[-*+][ \t]+\[[ xX]\][ \t]+)(?:(\d{1,5})[.)][ \t]+)?")
_DEPENDS = re.compile(r"(?mi)^([ \t]*[-*+][ \t]+(?:\*\*)?depends on(?:\*\*)?:)(.*)$")
_LIST_LINE = re.compile(r"[ \t]*(?:[-*+•]|\d{1,9}[.)])[ \t]")
_TABLE_LINE = re.compile(r"[ \t]*\|")
_TABLE_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t:-]*)*$")


@dataclass(frozen=True, slots=True)
class Omission:
    """A point of an input that a document neither has nor refuses."""

    # What its text was called in the prompt, such as `Thesis B`.
    label: str
    # The nearest heading above it; empty if there is none.
    heading: str
    text: str

    def describe(self, number: int) -> str:
        """Describe it for the model that decides about it."""
        place = f"{self.label}, “{self.heading}”" if self.heading else self.label
        return f"M{number} ({place}): {self.text}"


@dataclass(frozen=True, slots=True)
class LookAnswer:
    """What the answer to a second look says."""

    added: str = ""
    # The reasons, by the number of the omission from 1.
    reasons: Mapping[int, str] = field(default_factory=dict)
    # Reasons that name no number.
    others: tuple[str, ...] = ()


def read_look(answer: str) -> LookAnswer | None:
    """Read the two sections of an answer; None if it has neither, or nothing in them.

    What follows an open code fence would be code, so an answer that ends in one is not read.
    """
    # Marks of our own blocks would hide what stands between them.
    text = _BLOCK_MARK.sub("", unwrap(answer))
    if find_open_fence(f"{text}\n") is not None:
        return None
    marks = [
        (heading, meaning.key)
        for heading in find_firm_headings(text)
        if (meaning := _TURNED.find_meaning(heading.title)) is not None
    ]
    found: dict[str, str] = {}
    for number, (heading, key) in enumerate(marks):
        end = marks[number + 1][0].start if number + 1 < len(marks) else len(text)
        found[key] = "\n\n".join(filter(None, (found.get(key), text[heading.body_start : end])))
    added = _STRAY_NUMBER.sub("", _drop_nothing(found.get("added", "")))
    reasons, others = _read_reasons(_drop_nothing(found.get("left_out", "")))
    if not added and not reasons and not others:
        return None
    return LookAnswer(added, reasons, others)


def _drop_nothing(text: str) -> str:
    """Drop a text that only says that there is nothing."""
    text = text.strip()
    is_nothing = _NOTHING.match(text) is not None and len(text.split()) <= _NOTHING_WORDS_MAX
    return "" if is_nothing else text


def _read_reasons(text: str) -> tuple[dict[int, str], tuple[str, ...]]:
    reasons: dict[int, str] = {}
    others: list[str] = []
    starts = [found.start() for found in _ITEM.finditer(text)]
    for start, end in itertools.pairwise([*starts, len(text)]):
        said = " ".join(_ITEM.sub("", text[start:end], count=1).split())
        named = _NUMBERS.match(said)
        if named is None:
            others.append(said)
            continue
        for number in _NUMBER.findall(named[1]):
            reasons.setdefault(int(number), said[named.end() :].strip())
    return reasons, tuple(filter(None, others))


def merge_look(
    document: str, look: LookAnswer, omissions: Sequence[Omission], *, refused_title: str
) -> str:
    """Put the additions at the end of their sections, and the reasons where refusals stand.

    The section of the refusals is made if the document has none of this title. Additions below
    a heading that the document does not have get a section of their own at the end.
    """
    body, tail = _close(document)
    sections, numbers = _list_sections(body), _Numbers(body, look.added)
    merged, refused = _Merged(body), fold_title(refused_title)
    refusing: list[str] = []
    known = sections.keys() | {refused, fold_title(ADDED)}
    for title, text in _split_added(look.added, known):
        place = sections.get(fold_title(title))
        new = numbers.renumber(_flatten(text))
        if place is None and fold_title(title) == refused:
            refusing.append(new)
        else:
            is_foreign = place is None and fold_title(title) not in ("", fold_title(ADDED))
            merged.add(place, f"{_say(title)}\n\n{new}" if is_foreign else new)
    if merged.unplaced and ADDED.casefold() not in sections:
        merged.unplaced.insert(0, f"## {ADDED}")
    refusing += _list_refusals(look, omissions)
    if refused in sections:
        for line in refusing:
            merged.add(sections[refused], line)
    elif refusing:
        merged.unplaced += [f"## {refused_title}", *refusing]
    return merged.write() + tail if merged.has_more else document


# -- the document ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Section:
    level: int
    start: int
    # The end of its last line with text.
    end: int

    @property
    def rank(self) -> tuple[int, int]:
        return self.level, self.start


def _close(document: str) -> tuple[str, str]:
    """End a document so that text can follow: outside a fence, and without blank lines."""
    body = document.rstrip()
    tail = document[len(body) :]
    opening = find_open_fence(f"{body}\n")
    if opening is None or (mark := FENCE.match(opening)) is None:
        return body, tail
    return f"{body}\n{mark[1] or mark[2]}", tail


def _list_sections(body: str) -> dict[str, _Section]:
    """List the sections of a document by title; of two with one title the higher or first."""
    found: dict[str, _Section] = {}
    open_: list[Heading] = []

    def end(until: int, level: int) -> None:
        while open_ and open_[-1].level >= level:
            heading = open_.pop()
            text = body[heading.start : until].rstrip()
            section = _Section(heading.level, heading.start, heading.start + len(text))
            title = fold_title(heading.title)
            if title not in found or found[title].rank > section.rank:
                found[title] = section

    for heading in find_firm_headings(body):
        end(heading.start, heading.level)
        open_.append(heading)
    end(len(body), 0)
    return found


class _Merged:
    """A document and what is put at the end of its sections, or behind the last of them."""

    def __init__(self, body: str) -> None:
        self._body = body
        self._placed: dict[int, list[str]] = {}
        self._keys: dict[tuple[int, int], str] = {}
        self.unplaced: list[str] = []

    @property
    def has_more(self) -> bool:
        return bool(self._placed or self.unplaced)

    def add(self, place: _Section | None, text: str) -> None:
        """Add a text, unless its section has it already; without a section, the document."""
        start, end = (0, len(self._body)) if place is None else (place.start, place.end)
        if (start, end) not in self._keys:
            self._keys[start, end] = _build_key(self._body[start:end])
        text = _drop_table_head(self._keys[start, end], text)
        if _build_key(text) in self._keys[start, end]:
            return
        if place is None:
            self.unplaced.append(text)
        else:
            self._placed.setdefault(end, []).append(text)

    def write(self) -> str:
        parts: list[str] = []
        last = 0
        for end in sorted(self._placed):
            parts.append(self._body[last:end])
            for text in self._placed[end]:
                parts += [_join(parts[-1], text), text]
            last = end
        parts.append(self._body[last:])
        for text in self.unplaced:
            parts += [_join(parts[-1], text), text]
        return "".join(parts)


def _drop_table_head(key: str, text: str) -> str:
    """Drop the head of a table that its section has already."""
    first, _, rest = text.partition("\n")
    rule, _, rows = rest.partition("\n")
    is_headed = _TABLE_LINE.match(first) is not None and _TABLE_RULE.match(rule) is not None
    return rows if is_headed and rows.strip() and _build_key(first) in key else text


def _join(before: str, text: str) -> str:
    """Decide what stands between a section and what is added: a list or a table goes on."""
    last, first = _get_last_line(before), text.partition("\n")[0]
    if _TABLE_LINE.match(last) and _TABLE_LINE.match(first):
        is_headed = _TABLE_RULE.match(text.partition("\n")[2].partition("\n")[0]) is not None
        return "\n\n" if is_headed or last.count("|") != first.count("|") else "\n"
    is_item = _LIST_LINE.match(first) is not None
    goes_on = is_item and (_LIST_LINE.match(last) is not None or last.startswith(("  ", "\t")))
    return "\n" if goes_on else "\n\n"


def _get_last_line(text: str) -> str:
    return text.rstrip().rpartition("\n")[2]


# -- what is added --------------------------------------------------------------------------------


def _split_added(added: str, known: Collection[str]) -> Iterator[tuple[str, str]]:
    """Split what is added by known headings; lower ones that are not are part of what is above."""
    title, level, start = "", LEVEL_MAX + 1, 0
    for heading in find_firm_headings(added):
        if fold_title(heading.title) not in known and heading.level > level:
            continue
        if text := added[start : heading.start].strip():
            yield title, text
        title, level, start = heading.title, heading.level, heading.body_start
    if text := added[start:].strip():
        yield title, text


def _flatten(text: str) -> str:
    """Turn the headings of an addition into lines: a look adds to sections, and makes none."""
    parts: list[str] = []
    last = 0
    for heading in find_firm_headings(text):
        line = text[heading.start : heading.body_start]
        end = line[len(line.rstrip("\r\n")) :]
        parts += [text[last : heading.start], _say(heading.title), end]
        last = heading.body_start
    return "".join([*parts, text[last:]])


def _say(title: str) -> str:
    return f"{title.rstrip(':')}:" if title else ""


class _Numbers:
    """Numbers the steps that are added to a checklist: they go on with its next free number."""

    def __init__(self, body: str, added: str) -> None:
        self._next = find_next_step(body) or 0
        # A new step may need another new one: by the number that the answer gave it.
        wanted = dict.fromkeys(int(found[2]) for found in _STEP.finditer(added) if found[2])
        is_new = all(number >= self._next for number in wanted)
        self._known = {old: self._next + n for n, old in enumerate(wanted)} if is_new else {}

    def renumber(self, text: str) -> str:
        return _STEP.sub(self._number, _DEPENDS.sub(self._depend, text)) if self._next else text

    def _number(self, found: re.Match[str]) -> str:
        self._next += 1
        return f"{found[1]}{self._next - 1}. "

    def _depend(self, found: re.Match[str]) -> str:
        def change(one: re.Match[str]) -> str:
            return str(self._known.get(int(one[0]), one[0]))

        return f"{found[1]}{re.sub('[0-9]{1,9}', change, found[2])}"


def find_next_step(document: str) -> int | None:
    """Find the next free number of a checklist; None if the document has no numbered steps."""
    used = [int(found[2]) for found in _STEP.finditer(document) if found[2]]
    return max(used) + 1 if used else None


def _build_key(text: str) -> str:
    """Build what tells whether a text stands somewhere already: without numbers of steps."""
    bare = _DEPENDS.sub(lambda found: found[1], _STEP.sub(lambda found: found[1], text))
    bare = re.sub(r"(?m)^#+ ", "# ", bare)
    return f" {' '.join(bare.split())} "


# -- what is left out -----------------------------------------------------------------------------


def _list_refusals(look: LookAnswer, omissions: Sequence[Omission]) -> list[str]:
    """List what is left out: each point in its own words, where it stood, and the reason."""
    named = [
        f"- “{omissions[number - 1].text}” ({omissions[number - 1].label}): {reason}"
        for number, reason in sorted(look.reasons.items())
        if 1 <= number <= len(omissions) and reason
    ]
    return [*named, *(f"- {said}" for said in look.others)]
