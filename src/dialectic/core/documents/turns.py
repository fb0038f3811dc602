"""What the turns of a document were asked for, and which of them its text consists of. Pure.

Most turns continue the text. Once per document a process may ask for something else: for sections
that a finished answer lacks, or for the document itself if the answer is a copy of an input. A
finished document may then get a second look, which is the last turn. A flag
on the saved turn says what was asked for after it, so that any worker continues the same way.

    sections_requested:KEY     the answer so far is finished and lacks these sections
    rewrite_requested:LABEL    the answer so far repeats this text: the document begins again
    look_requested:NUMBER      the document so far is finished and lost this many points
    repeated_turn              the turn adds nothing new: it is not part of the text
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from dialectic.core.documents.artifacts import extract_documents, unwrap
from dialectic.core.documents.headings import read_declared
from dialectic.core.documents.stitching import Chunk, find_open_fence
from dialectic.core.process.definition import ExpectedDocument

SECTIONS = "sections_requested:"
REWRITE = "rewrite_requested:"
LOOK = "look_requested:"
REPEATED = "repeated_turn"
CUT_OFF = "cut_off"
# A single section may come without its heading, if it has at least this much text.
BARE_CHARS_MIN = 80


class Ask(enum.Enum):
    """What a turn is asked for."""

    TEXT = "text"
    SECTIONS = "sections"
    REWRITE = "rewrite"
    LOOK = "look"


def read_asked(chunk: Chunk) -> tuple[Ask, tuple[str, ...]]:
    """Read what was asked for after a turn: sections by key, a rewrite by the copied label.

    After a look that is how many points the document lost.
    """
    for mark, ask in ((SECTIONS, Ask.SECTIONS), (REWRITE, Ask.REWRITE), (LOOK, Ask.LOOK)):
        if named := tuple(f.removeprefix(mark) for f in chunk.flags if f.startswith(mark)):
            return ask, named
    return Ask.TEXT, ()


def name_reason(chunk: Chunk) -> str:
    """Name why another turn follows one, for programs."""
    if REPEATED in chunk.flags:
        return REPEATED
    match read_asked(chunk)[0]:
        case Ask.SECTIONS:
            return SECTIONS.rstrip(":")
        case Ask.REWRITE:
            return REWRITE.rstrip(":")
        case Ask.LOOK:
            return LOOK.rstrip(":")
        case Ask.TEXT:
            return CUT_OFF


def read_ask(chunks: Sequence[Chunk]) -> Ask:
    """Read what the turn after these is asked for."""
    return read_asked(chunks[-1])[0] if chunks else Ask.TEXT


def has_repair(chunks: Sequence[Chunk]) -> bool:
    """Tell whether something was asked for again."""
    return any(read_asked(chunk)[0] in (Ask.SECTIONS, Ask.REWRITE) for chunk in chunks)


def list_base(chunks: Sequence[Chunk]) -> list[Chunk]:
    """List the turns that the text consists of so far, without added sections and a look."""
    base: list[Chunk] = []
    for chunk in _split_look(chunks)[0]:
        if REPEATED not in chunk.flags:
            base.append(chunk)
        if read_asked(chunk)[0] is Ask.REWRITE:
            base.clear()
    return base


def find_added(chunks: Sequence[Chunk]) -> Chunk | None:
    """Find the turn that added sections to a document before its look; None without one."""
    added = _split_look(chunks)[1]
    return added[0] if added else None


def _split_look(chunks: Sequence[Chunk]) -> tuple[Sequence[Chunk], Sequence[Chunk]]:
    """Split the turns before a look into those of the text and what added sections to it."""
    asked = [read_asked(chunk)[0] for chunk in chunks]
    if Ask.LOOK not in asked:
        return chunks, ()
    end = asked.index(Ask.LOOK) + 1
    middle = asked.index(Ask.SECTIONS) + 1 if Ask.SECTIONS in asked[:end] else end
    return chunks[:middle], chunks[middle:end]


def list_copied(chunks: Sequence[Chunk]) -> list[Chunk]:
    """List the turns of the copy in place of which the document was asked for."""
    asked = [read_asked(chunk)[0] for chunk in chunks]
    return list(chunks[: asked.index(Ask.REWRITE) + 1]) if Ask.REWRITE in asked else []


def list_lacking(text: str, expected: Sequence[ExpectedDocument]) -> tuple[str, ...]:
    """List the keys of the promised sections that a text lacks; values of JSON are not sections."""
    headed = [document for document in expected if document.heading is not None]
    return extract_documents(text, headed).missing if headed else ()


def append_sections(text: str, added: str, lacking: Sequence[ExpectedDocument]) -> str:
    """Append the sections that were asked for, in their order; nothing else of the answer."""
    cut = extract_documents(added, lacking)
    found = {key: (cut.levels[key], body) for key, body in cut.found.items()}
    if not found and len(lacking) == 1 and len(added.strip()) >= BARE_CHARS_MIN:
        found = {lacking[0].key: (read_declared(lacking[0])[0], added.strip())}
    sections = []
    for document in lacking:
        if document.key in found:
            level, body = found[document.key]
            sections.append(f"{'#' * level} {read_declared(document)[1]}\n\n{body}\n")
    return "\n\n".join([_end(text), *sections]) if sections else text


def _end(text: str) -> str:
    """End a text so that a section can follow: outside any code fence."""
    text = unwrap(text).rstrip()
    fence = find_open_fence(f"{text}\n")
    mark = (
        ""
        if fence is None
        else fence.strip()[: len(fence.strip()) - len(fence.strip().lstrip("`~"))]
    )
    return f"{text}\n{mark}" if mark else text
