"""The blocks of a Markdown text (headings, paragraphs, items, rows, code) and their places. Pure.

A block has an id, which counts the blocks of the text, so it stays the same while the text before
it does. Nothing that a reader of the source sees is left out: raw HTML and definitions of links are
text, and so is a table with more cells in a row than in its head. A text that is too long or too
deeply nested for the parser has its paragraphs as blocks.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block.table import escapedSplit, table
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

# A longer text is shown as it is.
PARSED_CHARS_MAX = 2_000_000
# So is a text that is nested more deeply: the parser would leave its inner parts out.
NESTING_MAX = 60
# The parser looks for the end of each bracket as far as its paragraph reaches. This many characters
# may be read so, about a second; a text that needs more is shown as it is.
BRACKET_STEPS_MAX = 500_000_000
PREFIX = "b-"

_LINE_END = re.compile(r"\r\n|\r|\n")
_HALF = re.compile(r"[\ud800-\udfff]")
_PARAGRAPH = re.compile(r"[^\r\n](?:[^\r\n]|\r?\n(?![ \t]*\r?\n))*")
_BLOCKS = frozenset(("heading_open", "paragraph_open", "fence", "code_block", "hr", "tr_open"))


@dataclass(frozen=True, slots=True)
class Block:
    """A block: its id in the HTML, and the offsets of its lines in the text."""

    id: str
    start: int
    end: int


def find_blocks(text: str) -> list[Block]:
    """Find the blocks of a text as `render_text` numbers them, without rendering it."""
    tokens = parse_markdown(text)
    if tokens is None:
        return list_paragraphs(text)
    return list(name_blocks(tokens, text))


def parse_markdown(text: str) -> list[Token] | None:
    """Parse a text; None if it is to be shown as it is."""
    if len(text) > PARSED_CHARS_MAX:
        return None
    try:
        tokens = _build_parser().parse(repair_halves(text))
    except _TooCostly:
        return None
    return None if any(token.level >= NESTING_MAX - 1 for token in tokens) else tokens


def repair_halves(text: str) -> str:
    """Replace halves of characters, which cannot be encoded; the length stays the same."""
    return _HALF.sub("\ufffd", text)


def name_blocks(tokens: Sequence[Token], text: str) -> Iterator[Block]:
    """Give each block an id, in the order of the text."""
    starts = [0, *(found.end() for found in _LINE_END.finditer(text)), len(text)]
    items: list[Token] = []
    number = 0
    for place, token in enumerate(tokens):
        if token.type == "list_item_open":
            items.append(token)
        elif token.type == "list_item_close":
            items.pop()
        elif token.type in _BLOCKS and token.map is not None:
            number += 1
            _choose_tag(tokens, place, items).attrs["id"] = name = f"{PREFIX}{number}"
            start, end = (starts[min(line, len(starts) - 1)] for line in token.map)
            yield Block(name, start, start + len(text[start:end].rstrip()))


def _choose_tag(tokens: Sequence[Token], place: int, items: Sequence[Token]) -> Token:
    """Choose the token whose tag bears the id of a block.

    A paragraph of a tight list has no tag. Its item bears the id, and for a second one in the same
    item the tag is written.
    """
    token = tokens[place]
    if not token.hidden:
        return token
    if items and "id" not in items[-1].attrs:
        return items[-1]
    token.hidden = tokens[place + 2].hidden = False
    return token


def list_paragraphs(text: str) -> list[Block]:
    """List the paragraphs of a text that is shown as it is."""
    found = _PARAGRAPH.finditer(text)
    return [
        Block(f"{PREFIX}{number}", one.start(), one.end()) for number, one in enumerate(found, 1)
    ]


# -- the parser ------------------------------------------------------------------------------------


class _TooCostly(Exception):
    """A text would take the parser too long."""


def _count_brackets(state: StateCore) -> None:
    """Stop before lines are parsed that would take too long."""
    lines = (token.content for token in state.tokens if token.type == "inline")
    if sum(line.count("[") * len(line) for line in lines) > BRACKET_STEPS_MAX:
        raise _TooCostly


# -- tables ----------------------------------------------------------------------------------------


def _read_table(state: StateBlock, first: int, last: int, silent: bool) -> bool:  # noqa: FBT001
    """Read a table, unless a row has more cells than the head: the parser would hide them."""
    before = len(state.tokens)
    if not table(state, first, last, silent):
        return False
    if silent:
        return True
    added = state.tokens[before:]
    width = sum(token.type == "th_open" for token in added)
    rows = [token.map[0] for token in added if token.type == "tr_open" and token.map is not None]
    if all(_count_cells(state, line) <= width for line in rows):
        return True
    del state.tokens[before:]
    state.line = first
    return False


def _count_cells(state: StateBlock, line: int) -> int:
    words = state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]].strip()
    cells = escapedSplit(words)
    return len(cells) - (cells[:1] == [""]) - (len(cells) > 1 and cells[-1] == "")


@functools.cache
def _build_parser() -> MarkdownIt:
    options = {"html": False, "maxNesting": NESTING_MAX}
    parser = MarkdownIt("commonmark", options)
    parser.enable(["table", "strikethrough"])
    # A definition of a link is a line that readers would not see.
    parser.disable("reference")
    parser.core.ruler.after("block", "count_brackets", _count_brackets)
    parser.block.ruler.at("table", _read_table, {"alt": ["paragraph", "reference"]})
    return parser


def find_block_at(text: str, offset: int) -> str | None:
    """Find the id of the block that a passage begins in."""
    return next((block.id for block in find_blocks(text) if block.end > offset), None)
