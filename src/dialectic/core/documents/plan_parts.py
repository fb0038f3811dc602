"""The parts of a plan in one document, found by keys of its process, then by headings. Pure.

A process promises documents by keys, and `artifacts` finds those. What it does not promise, such as
open questions, is found by headings: by their usual titles, else by a word that says what a section
is about. Every section of a part counts, so that no question and no dissent is passed over.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dialectic.core.documents.artifacts import extract_documents, unwrap
from dialectic.core.documents.headings import (
    FENCE,
    Form,
    Heading,
    build_matcher,
    find_headings,
    fold_title,
)
from dialectic.core.process.definition import ExpectedDocument


class Part(enum.StrEnum):
    """What a plan consists of."""

    SUMMARY = "summary"
    REQUIREMENTS = "requirements"
    ARCHITECTURE = "architecture"
    STACK = "stack"
    MILESTONES = "milestones"
    STATE = "state"
    STEPS = "steps"
    RECOMMENDATION = "recommendation"
    DIFFERENCES = "differences"
    QUESTIONS = "questions"
    DROPPED = "dropped"


# The keys of the documents that hold a part; a document of an earlier key is preferred.
KEYS: dict[Part, tuple[str, ...]] = {
    Part.REQUIREMENTS: ("product_requirements", "requirements", "technical_requirements"),
    Part.ARCHITECTURE: ("architecture", "technical_approach"),
    Part.STACK: ("tech_stack",),
    Part.MILESTONES: ("milestones", "master_plan"),
    Part.STATE: ("updated_master_plan",),
    Part.STEPS: ("actionable_checklist", "checklist", "steps"),
    Part.RECOMMENDATION: ("advisor_recommendation", "recommendation"),
}


def _title(part: Part, number: int, title: str, *synonyms: str) -> ExpectedDocument:
    return ExpectedDocument(
        key=f"{part}_{number}", title=title, heading=f"## {title}", synonyms=synonyms
    )


_TITLES = (
    _title(Part.SUMMARY, 1, "Summary", "Executive summary", "Overview", "In brief", "TL;DR"),
    _title(Part.REQUIREMENTS, 1, "Requirements", "Product requirements", "Agreed requirements"),
    _title(Part.ARCHITECTURE, 1, "Architecture", "Technical approach", "Solution", "Design"),
    _title(Part.MILESTONES, 1, "Milestones", "Roadmap", "Phases", "Timeline"),
    _title(Part.STEPS, 1, "Checklist", "Next steps", "First steps", "Action plan", "Steps"),
    _title(Part.RECOMMENDATION, 1, "Recommendation", "Recommendations", "Conclusion", "Decision"),
    _title(
        Part.DIFFERENCES,
        1,
        "Common ground and differences",
        *("Differences", "Disagreements", "Points of disagreement", "Where the models disagree"),
        *("Where the sources differ", "Dissent", "Dissenting views", "Contradictions"),
        *("Decisions", "Decisions taken", "Conflicts", "Agreements and disagreements"),
    ),
    _title(
        Part.QUESTIONS,
        1,
        "Open questions",
        *("Questions", "Unresolved questions", "Remaining questions", "Remaining doubts"),
        *("Questions for you", "Questions for the client", "Open issues", "Open points"),
        *("Open decisions", "To be decided", "Unknowns"),
    ),
    _title(
        Part.DROPPED,
        1,
        "Rejected points",
        *("Rejected alternatives", "Rejected ideas", "Rejected options", "Points refused"),
        *("Dropped", "Dropped on purpose", "Left out", "Left out on purpose", "Excluded"),
        *("Out of scope", "Non-goals", "Not in scope", "What we will not do"),
    ),
)
_BY_KEY = {document.key: Part(document.key.rpartition("_")[0]) for document in _TITLES}
# Parts of which nothing may be passed over; their words in headings of other titles.
_WORDS = {
    Part.QUESTIONS: re.compile(
        r"\b(?:open|unresolved|remaining|outstanding)\b.*\b(?:questions?|issues?|decisions?|points?|doubts?)\b|\bquestions\b"
    ),
    Part.DIFFERENCES: re.compile(r"\b(?:differ\w*|disagree\w*|dissent\w*|contradict\w*)\b"),
    Part.DROPPED: re.compile(
        r"\b(?:rejected|dropped|left out|out of scope|excluded|refused|non goals?)\b"
    ),
}
_TITLE_WORDS_MAX = 12


@dataclass(frozen=True, slots=True)
class Section:
    """A section that holds a part: its title and text, and its key if the process promises it."""

    part: Part
    title: str
    body: str
    key: str | None = None


def find_parts(text: str, expected: Sequence[ExpectedDocument]) -> list[Section]:
    """Find the sections of a document that hold parts of a plan: promised ones, then others."""
    text = unwrap(text)
    cut = extract_documents(text, expected)
    promised = [
        Section(part, document.title, cut.found[document.key], document.key)
        for document in expected
        if document.key in cut.found and (part := find_part(document)) is not None
    ]
    spans = [
        (start, start + len(body)) for body in cut.found.values() if (start := text.find(body)) >= 0
    ]
    known = {section.part for section in promised}
    bodies = {section.body for section in promised}
    others = [
        section
        for section in _find_titled(text, spans)
        if section.body not in bodies and not (section.part in known and section.part in KEYS)
    ]
    return [*promised, *others]


def find_part(document: ExpectedDocument) -> Part | None:
    """Find the part that a promised document holds; None if it holds none."""
    if document.fills_pending:
        return Part.STEPS
    for part, keys in KEYS.items():
        if document.key in keys:
            return part
    for title in (document.title, *document.synonyms):
        if (meaning := build_matcher(_TITLES).find_meaning(title)) is not None:
            return _BY_KEY[meaning.key]
    return None


def _find_titled(text: str, spans: Sequence[tuple[int, int]]) -> Iterator[Section]:
    """Find the sections whose headings say that they hold a part, but no section inside another.

    Words count in a heading outside of the promised documents: `Milestone 3: settle open questions`
    is a milestone.
    """
    headings = list(find_headings(text))
    meant = [_find_meant(heading, spans) for heading in headings]
    ends: dict[Part, int] = {}
    for place, (heading, part) in enumerate(zip(headings, meant, strict=True)):
        if part is None or heading.start < ends.get(part, 0):
            continue
        end = _get_end(headings, meant, place, len(text))
        if body := text[heading.body_start : end].strip():
            ends[part] = end
            yield Section(part, heading.title.strip("*_: "), body)


def _find_meant(heading: Heading, spans: Sequence[tuple[int, int]]) -> Part | None:
    if (meaning := build_matcher(_TITLES).find_meaning(heading.title)) is not None:
        part = _BY_KEY[meaning.key]
        is_inside = any(start <= heading.start < end for start, end in spans)
        # Inside a promised document only what must not be passed over.
        return part if not is_inside or part in _WORDS else None
    title = fold_title(heading.title)
    is_title = heading.is_firm and len(title.split()) <= _TITLE_WORDS_MAX
    if not is_title or any(start <= heading.start < end for start, end in spans):
        return None
    return next((part for part, words in _WORDS.items() if words.search(title)), None)


def _get_end(
    headings: Sequence[Heading], meant: Sequence[Part | None], place: int, end: int
) -> int:
    """Find where a section ends: at the next heading of its level or a higher one.

    One below a line in bold ends at the next heading, or at the next bold line with a meaning.
    """
    own = headings[place]
    for other, part in zip(headings[place + 1 :], meant[place + 1 :], strict=True):
        is_bold = other.form is Form.BOLD
        if other.level <= own.level and (not is_bold or part is not None):
            return other.start
    return end


# -- parts of a section ----------------------------------------------------------------------------


def split_blocks(text: str) -> list[str]:
    """Split a text at blank lines, but not inside a code fence."""
    blocks: list[list[str]] = [[]]
    fence = ""
    for line in text.splitlines():
        if (mark := FENCE.match(line)) is not None:
            found = mark[1] or mark[2]
            is_closing = fence and found.startswith(fence) and not line.strip().strip(fence[0])
            fence = "" if is_closing else fence or found
        if line.strip() or fence:
            blocks[-1].append(line.rstrip())
        elif blocks[-1]:
            blocks.append([])
    return ["\n".join(block) for block in blocks if block]


def shorten(text: str, chars_max: int) -> tuple[str, bool]:
    """Keep the first blocks of a text that fit, at least one; tell whether that is all."""
    blocks, kept, length = split_blocks(text), list[str](), 0
    for block in blocks:
        length += len(block) + 2
        if kept and length > chars_max:
            break
        kept.append(block)
    # A heading announces what follows it.
    while len(kept) > 1 and len(kept) < len(blocks) and kept[-1].lstrip().startswith("#"):
        kept.pop()
    return "\n\n".join(kept), len(kept) == len(blocks)


def embed(text: str, level: int) -> str:
    """Make a section part of a page: its headings begin at a level, and nothing stays open.

    An open code fence or comment would swallow the rest of the page.
    """
    text = close_open(text)
    found = [heading for heading in find_headings(text) if heading.form is not Form.BOLD]
    top = min((heading.level for heading in found), default=level)
    parts, position = [], 0
    for heading in found:
        marks = "#" * min(6, heading.level - top + level)
        gap = "" if heading.start == 0 or text[: heading.start].endswith("\n\n") else "\n"
        parts += [text[position : heading.start], f"{gap}{marks} {heading.title}\n"]
        position = heading.body_start
    return ("".join(parts) + text[position:]).strip()


def close_open(text: str) -> str:
    """Close a code fence and an HTML comment that a text leaves open."""
    fence = ""
    for line in text.splitlines():
        if (mark := FENCE.match(line)) is not None:
            found = mark[1] or mark[2]
            is_closing = fence and found.startswith(fence) and not line.strip().strip(fence[0])
            fence = "" if is_closing else fence or found
    closed = f"{text}\n{fence}" if fence else text
    return f"{closed} -->" if closed.rfind("<!--") > closed.rfind("-->") else closed
